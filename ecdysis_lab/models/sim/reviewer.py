"""The simulated reviewer: plays the four FDCR roles by rule, from the evidence in its prompt and nothing else.

Its Analyst proposes and withdraws, its Critic attacks the proposals, its Engineer keeps the record. They compare what
failing trials did with what passing trials did (argument shapes, order of acts) and with the policy text. They know no
planted cause. Their findings are plausible, not always right: the gates decide.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ecdysis_lab.models.sim.evidence import Evidence, Excerpt, Finding, parse
from ecdysis_lab.models.sim.findings import find

MAX_CHANGES = 3
LAYER_OF = {
    "canonical_argument": ("actions", "actions.py"),
    "argument_names": ("actions", "actions.py"),
    "known_tools": ("actions", "actions.py"),
    "confirm_before_write": ("actions", "actions.py"),
    "read_before_write": ("actions", "actions.py"),
    "contract_hint": ("contract", "contract.py"),
    "procedure": ("skills", "skills.py"),
    "repeat_breaker": ("regulation", "regulation.py"),
    "unfinished_work": ("regulation", "regulation.py"),
}


@dataclass
class Judged:
    """A finding with the Critic's opinion: an empty ``objection`` means that it stands."""

    finding: Finding
    objection: str = ""
    excerpts: Sequence[Excerpt] = field(default_factory=tuple)


def reply(messages: Sequence[dict[str, Any]]) -> str:
    """The answer of the role that the system prompt names."""
    system, asked = messages[0]["content"], messages[1]["content"]
    role = next(iter(re.findall(r"^Role: (\w+)", system, re.M)), "Moderator").lower()
    evidence = parse(asked.partition("# Debate so far")[0])
    judged = [Judged(f) for f in find(evidence)]
    debated = (role not in ("reviewer",) and "# Debate so far" in asked) or role == "critic"
    if debated:
        for item in judged:
            item.objection = object_to(item.finding, evidence)
    return {"moderator": _moderate}.get(role, _talk)(role, judged, "## Critic" in asked)


def object_to(finding: Finding, evidence: Evidence) -> str:
    """Why a finding falls, or an empty string."""
    if len(finding.tasks) < 2 and not evidence.auxiliary:
        if finding.pattern not in evidence.recurring:
            return "it is seen on one task only and its pattern does not recur"
        if len({e.task for e in evidence.excerpts if e.pattern == finding.pattern}) > 1:
            return "it is seen on one task only, though several show its pattern"
    if json.dumps(finding.guard, sort_keys=True) in evidence.source:
        return "the harness has this guard already"
    if json.dumps(finding.guard, sort_keys=True) in evidence.rejected:
        return "a gate rejected it in an earlier round"
    broken = finding.breaks(evidence)
    return f"it would change an act that succeeds: {broken}" if broken else ""


def _talk(role: str, judged: list[Judged], debated: bool) -> str:
    """A turn of the debate: proposals, verdicts on them, or the record of both."""
    named = [(f"A{n}", item) for n, item in enumerate(judged, 1)]
    if role == "engineer":
        return _record(named)
    says = {"analyst": _revised if debated else _proposal, "reviewer": _proposal, "critic": _verdict}[role]
    return "\n".join(says(name, item) for name, item in named) or "Nothing in the evidence supports a change."


def _proposal(name: str, item: Judged) -> str:
    f, (layer, file) = item.finding, LAYER_OF[item.finding.guard["kind"]]
    cited = ", ".join(f.evidence[:3])
    return (
        f"- {name} (P{f.pattern}, {layer}, {file}): {f.what} Cause: {f.cause} Seen on {len(f.tasks)} tasks. "
        f"Evidence: {cited}. Must still allow: {'; '.join(f.allow) or 'all other acts'}."
    )


def _revised(name: str, item: Judged) -> str:
    return f"- {name}: withdrawn, since {item.objection}." if item.objection else _proposal(name, item)


def _verdict(name: str, item: Judged) -> str:
    return f"- {name}: {f'falls: {item.objection}' if item.objection else 'stands'} ({item.finding.cause})"


def _record(named: list[tuple[str, Judged]]) -> str:
    agreed = [f"- {name}: {item.finding.what}" for name, item in named if not item.objection]
    fallen = [f"- {name}: {item.objection}" for name, item in named if item.objection]
    parts = {"Agreed": agreed, "In dispute": [], "Fallen": fallen, "To settle next": []}
    return "\n".join(f"{title}:\n{chr(10).join(lines) or '- nothing'}" for title, lines in parts.items())


def _moderate(role: str, judged: list[Judged], debated: bool) -> str:
    stands = [j.finding for j in judged if not (debated and j.objection)]
    stands.sort(key=lambda f: (-len(f.tasks), -len(f.evidence), json.dumps(f.guard, sort_keys=True)))
    changes = [
        {
            "layer": LAYER_OF[f.guard["kind"]][0],
            "file": LAYER_OF[f.guard["kind"]][1],
            "pattern": f.pattern,
            "what": f.what,
            "why": f.cause,
            "evidence": list(f.evidence[:4]),
            "must_still_allow": list(f.allow),
            "guard": f.guard,
        }
        for f in stands[:MAX_CHANGES]
    ]
    fallen = [f"{j.finding.what} ({j.objection})" for j in judged if debated and j.objection]
    patterns = Counter(f.pattern for f in stands[:MAX_CHANGES])
    answer = {
        "patterns": [f"P{p}: {n} change(s)" for p, n in sorted(patterns.items())],
        "changes": changes,
        "rejected": fallen[:10],
        "notes": f"{len(stands)} findings stood, {len(fallen)} fell.",
    }
    return json.dumps(answer, indent=1, ensure_ascii=False)
