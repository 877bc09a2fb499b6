"""The sections of the context besides the trials: patterns, acts, tools, policy, proposals, the harness."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ecdysis_lab.failures.transcript import INDENT, clean, indented
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Failure, Patterns, RoundRecord, Spec, Subset, Trajectory
from ecdysis_lab.review.evidence import CHARS_PER_TOKEN, tokens

ACTS_PER_TOOL = 4
NOTE_TOKENS = 250  # for the sentences about what was left out, and headings
DIFF_CHARS = 4_000
TOOLS_SHARE = 4  # a quarter of the budget holds the tools with their schemas, or they are shown without


def pattern_table(patterns: Patterns, failures: Sequence[Failure], subset: Subset) -> str:
    """The patterns, recurring ones first, each with how much of it was picked and how much there is."""
    lines = [f"# Patterns ({len(failures)} failures)"]
    picked = Counter(map(patterns.label, subset.keys))
    where = "picked" if subset.origin == "all" else "in the quarter"
    for p in sorted(patterns.patterns, key=lambda p: (not p.recurring, p.id)):
        kind, all_ = "recurring" if p.recurring else "auxiliary", len(p.members)
        size = f"{all_} failures over {len(p.tasks)} tasks ({picked[p.id]} {where} / {all_} in all)"
        lines.append(f"- P{p.id} {kind}: {size}; {clean(p.name)}; e.g. {clean(p.quote)}")
    noise = len(patterns.noise)
    lines.append(f"- noise: {noise} failures without a pattern ({picked[-1]} {where} / {noise} in all)")
    return "\n".join(lines)


def acts_of(passing: Iterable[Trajectory]) -> list[str]:
    """Calls that passing trials made and the environment took, a few per tool, with how often each tool was used."""
    seen: dict[str, list[str]] = {}
    count: Counter[str] = Counter()
    for trajectory in passing:
        failed = {m.call_id for m in trajectory.messages if m.role == "tool" and m.error}
        for call in (
            c for m in trajectory.messages if m.role != "user" for c in m.calls if c.id not in failed
        ):
            count[call.name] += 1
            line = json.dumps(call.arguments, ensure_ascii=False, sort_keys=True)
            known = seen.setdefault(call.name, [])
            if len(known) < ACTS_PER_TOOL and line not in known:
                known.append(line)
    return [
        clean(f"- {name} (used {count[name]} times): {line}") for name in sorted(seen) for line in seen[name]
    ]


def background(acts: Sequence[str], policy: str, room: int) -> tuple[list[str], list[str]]:
    """Policy and acts that succeeded, and what was left out of them: acts go first, then the end of the policy."""
    left_out: list[str] = []
    whole, kept = "# Policy\n" + policy, list(acts)
    while kept and tokens(whole) + tokens("\n".join(kept)) + NOTE_TOKENS > room:
        kept.pop(max(range(len(kept)), key=lambda n: (_tool_count(kept, n), len(kept[n]))))
    if len(kept) < len(acts):
        left_out.append(f"{len(acts) - len(kept)} of {len(acts)} acts that succeeded, for lack of room")
    most = max(room - NOTE_TOKENS, 0) * CHARS_PER_TOKEN
    if len(whole) > most:
        left_out.append(
            f"the last {len(whole) - most} of {len(whole)} characters of the policy, for lack of room"
        )
        whole = whole[:most]
    return [whole, "# Acts that succeeded on passing trials\n" + "\n".join(kept)], left_out


def _tool_count(acts: Sequence[str], n: int) -> int:
    """How many acts of the same tool are shown, so that each tool keeps one as long as it can."""
    name = acts[n].partition(" (")[0]
    return sum(a.startswith(name + " (") for a in acts)


def tools_section(tools: Sequence[dict[str, Any]], max_tokens: int) -> tuple[str, list[str]]:
    """The tools with the JSON schemas of their arguments, and what was left out: the schemas, where they are too long.

    Parameters
    ----------
    tools : of the benchmark. max_tokens : budget of the whole context.
    """
    whole = "# Tools\n" + "\n".join(f"{_tool(t, t['description'])}{INDENT}{_schema(t)}" for t in tools)
    if tokens(whole) <= max_tokens // TOOLS_SHARE:
        return whole, []
    short = "# Tools\n" + "\n".join(_tool(t, next(iter(t["description"].splitlines()), "")) for t in tools)
    return short, ["the argument schemas of the tools, for lack of room"]


def _tool(tool: dict[str, Any], description: str) -> str:
    names = ", ".join(map(clean, tool["parameters"].get("properties", {}))) or "no arguments"
    return f"- {clean(tool['name'])} ({tool['kind']}; {names}): {indented(description)}"


def _schema(tool: dict[str, Any]) -> str:
    return "arguments: " + clean(json.dumps(tool["parameters"], ensure_ascii=False, separators=(",", ":")))


def proposals(tried: Iterable[tuple[RoundRecord, Spec, str]]) -> list[str]:
    """What earlier rounds proposed and did not keep, one text a round: what decided, every gate's numbers, the changes.

    Parameters
    ----------
    tried : records of rounds, each with the spec that it tried and the diff that came of it. The diff is told where the
        spec names no changes.
    """
    return [
        "\n".join([_decided(record), *_gates(record), *_changes(spec, diff)]) for record, spec, diff in tried
    ]


def _decided(record: RoundRecord) -> str:
    gate = f" by gate {record.gate}" if record.gate else ""
    after = "not rerun" if record.score_after is None else f"{record.score_after:g}"
    flips = f"{len(record.gained)} trials gained, {len(record.lost)} lost"
    scores = f"training score {record.score_before:g} → {after}; {flips}"
    return clean(f"round {record.round}, {record.decision}{gate}: {record.reason} ({scores})")


def _gates(record: RoundRecord) -> list[str]:
    """The figures of every gate that the last candidate met, and before it the one that it was pruned from.

    Of a list (of trials, of acts) its length is told.
    """
    last = record.candidates[-1:]
    if any("pruned_from" in gate.numbers for judged in last for gate in judged.gates):
        last = record.candidates[-2:]
    lines = []
    for gate in (gate for judged in last for gate in judged.gates):
        figures = {k: len(v) if isinstance(v, (list, tuple, dict)) else v for k, v in gate.numbers.items()}
        if figures:
            lines.append(f"  - gate {gate.name} {gate.outcome}: {clean(json.dumps(figures, sort_keys=True))}")
    return lines


def _changes(spec: Spec, diff: str) -> list[str]:
    if not spec.changes:
        return [f"  - diff: {indented(diff[:DIFF_CHARS])}"]
    guards = [json.dumps(c.guard, sort_keys=True) if c.guard else "" for c in spec.changes]
    return ["  " + clean(f"- {c.file}: {c.what} {g}") for c, g in zip(spec.changes, guards, strict=True)]


def sources(harness: Harness) -> str:
    """The files of a harness, each in a fence that no line of it can close."""
    longest = max((len(run) for text in harness.files.values() for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    files = sorted(harness.files.items())
    return "\n".join(f"## {name}\n{fence}\n{text}\n{fence}" for name, text in files) or "(empty)"
