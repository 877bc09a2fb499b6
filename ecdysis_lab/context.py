"""The FDCR context: what the four roles read, within a token budget.

Sections in order of worth: contract, patterns (recurring first), evidence of the subset, acts that succeeded, tools,
policy, current harness. What had to be left out is said in the text itself and in ``Context.left_out``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ecdysis_lab.failures import outline
from ecdysis_lab.harness import Harness
from ecdysis_lab.records import Failure, Patterns, Subset, Trajectory

CHARS_PER_TOKEN = 4
EXCERPT_LINES = 30
RESULT_CHARS = 160
ACTS_PER_TOOL = 4


@dataclass(frozen=True)
class Context:
    """The text the roles read.

    Parameters
    ----------
    text : markdown.
    references : valid evidence references, short trial key -> number of steps.
    recurring : ids of the recurring patterns.
    pattern_of : short trial key -> pattern id (-1 for noise).
    left_out : sentences about what did not fit.
    """

    text: str
    references: dict[str, int]
    recurring: frozenset[int]
    pattern_of: dict[str, int]
    left_out: tuple[str, ...] = ()


def short(key: str) -> str:
    """The eight characters of a trial key that the context uses."""
    return key[:8]


def tokens(text: str) -> int:
    """Rough token count: characters / 4."""
    return len(text) // CHARS_PER_TOKEN + 1


def build_context(
    failures: Sequence[Failure],
    patterns: Patterns,
    subset: Subset,
    passing: Iterable[Trajectory],
    harness: Harness,
    *,
    contract: str,
    policy: str,
    tools: Sequence[dict[str, Any]],
    rejected: Sequence[str] = (),
    max_tokens: int = 60_000,
) -> Context:
    """Write the context.

    Parameters
    ----------
    failures, patterns, subset : the round's failures, their patterns and the quarter to read.
    passing : passing trajectories of the same round; only their acts are used.
    harness : the current harness. contract : text of the harness contract. policy, tools : of the benchmark.
    rejected : proposals of earlier rounds that a gate rejected, one line each.
    max_tokens : budget; excerpts are cut first, then acts, then policy.
    """
    by_key = {f.key: f for f in failures}
    picked = [by_key[k] for k in subset.keys if k in by_key]
    picked.sort(key=lambda f: _rank(patterns, f.key))
    labels = _task_labels(failures)
    fixed = [
        "# Harness contract\n" + contract,
        _pattern_table(patterns, failures),
        "# Proposals rejected in earlier rounds\n" + ("\n".join(f"- {r}" for r in rejected) or "(none)"),
        "# Current harness\n" + _sources(harness),
        "# Tools\n" + "\n".join(map(_tool_line, tools)),
        "# Policy\n" + policy,
        "# Acts that succeeded on passing trials\n" + "\n".join(acts_of(passing)),
    ]
    room = max_tokens - sum(map(tokens, fixed))
    excerpts, left_out = _excerpts(picked, patterns, labels, room)
    note = "".join(f"\n(left out: {line})" for line in left_out)
    text = "\n\n".join([fixed[0], fixed[1], "# Evidence" + note + "\n" + "\n\n".join(excerpts), *fixed[2:]])
    return Context(
        text=text,
        references={short(f.key): len(f.trajectory.messages) for f in picked},
        recurring=frozenset(p.id for p in patterns.recurring),
        pattern_of={short(f.key): patterns.label(f.key) for f in failures},
        left_out=tuple(left_out),
    )


def _tool_line(tool: dict[str, Any]) -> str:
    names = ", ".join(tool["parameters"].get("properties", {})) or "no arguments"
    return f"- {tool['name']} ({tool['kind']}; {names}): {tool['description'].splitlines()[0]}"


def _rank(patterns: Patterns, key: str) -> tuple[int, int]:
    """Recurring patterns first, then by size; noise last."""
    label = patterns.label(key)
    recurring = any(p.id == label and p.recurring for p in patterns.patterns)
    return (0 if recurring else 1 if label >= 0 else 2, label)


def _task_labels(failures: Sequence[Failure]) -> dict[str, str]:
    """Task ids replaced by T1, T2, …: a reviewer needs to see what recurs, not which task it was."""
    return {task: f"T{n}" for n, task in enumerate(dict.fromkeys(f.task_id for f in failures), 1)}


def _pattern_table(patterns: Patterns, failures: Sequence[Failure]) -> str:
    lines = [f"# Patterns ({len(failures)} failures)"]
    for p in sorted(patterns.patterns, key=lambda p: (not p.recurring, p.id)):
        kind = "recurring" if p.recurring else "auxiliary"
        lines.append(f"- P{p.id} {kind}: {len(p.members)} failures over {len(p.tasks)} tasks; {p.name}; e.g. {p.quote}")
    lines.append(f"- noise: {len(patterns.noise)} failures without a pattern")
    return "\n".join(lines)


def _excerpts(
    picked: Sequence[Failure], patterns: Patterns, labels: dict[str, str], room: int
) -> tuple[list[str], list[str]]:
    out: list[str] = []
    for n, failure in enumerate(picked):
        text = excerpt(failure, patterns.label(failure.key), labels[failure.task_id])
        if room - tokens(text) < 0:
            return out, [f"{len(picked) - n} of {len(picked)} excerpts, for lack of room"]
        room -= tokens(text)
        out.append(text)
    return out, []


def excerpt(failure: Failure, pattern: int, task: str) -> str:
    """One failure as evidence: header, first bad step, and the steps around it."""
    name = f"P{pattern}" if pattern >= 0 else "noise"
    checks = ", ".join(failure.failed_checks) or "not disclosed"
    lines = outline(failure.trajectory.messages, RESULT_CHARS)
    if len(lines) > EXCERPT_LINES:
        half = EXCERPT_LINES // 2
        lines = [*lines[:half], f"(… {len(lines) - EXCERPT_LINES} lines …)", *lines[-half:]]
    head = f"## trial {short(failure.key)} | {name} | task {task} | ended {failure.termination} | failed checks: {checks}"
    return "\n".join([head, f"first wrong: {failure.first_bad_what or 'nothing visible'}", *lines])


def acts_of(passing: Iterable[Trajectory]) -> list[str]:
    """Calls that passing trials made and the environment took, a few per tool, with how often each tool was used."""
    seen: dict[str, list[str]] = {}
    count: Counter[str] = Counter()
    for trajectory in passing:
        failed = {m.call_id for m in trajectory.messages if m.role == "tool" and m.error}
        for call in (c for m in trajectory.messages for c in m.calls if c.id not in failed):
            count[call.name] += 1
            line = json.dumps(call.arguments, ensure_ascii=False, sort_keys=True)
            known = seen.setdefault(call.name, [])
            if len(known) < ACTS_PER_TOOL and line not in known:
                known.append(line)
    return [f"- {name} (used {count[name]} times): {line}" for name in sorted(seen) for line in seen[name]]


def _sources(harness: Harness) -> str:
    return "\n".join(f"## {name}\n```\n{text}\n```" for name, text in sorted(harness.files.items())) or "(empty)"
