"""The FDCR context: what the four roles read, within a token budget.

Sections in order of worth: setting, contract, patterns (recurring first), evidence of the subset, acts that
succeeded, tools, policy, current harness. What had to be left out is said in the text itself and in
``Context.left_out``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ecdysis_lab.failures.cards import outline
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Benchmark, Failure, Patterns, Subset, Trajectory

CHARS_PER_TOKEN = 3  # measured 3.4 on τ² contexts (GPT-4o's tokenizer); 4 would overfill a window by a sixth
EXCERPT_LINES = 30
RESULT_CHARS = 160
ACTS_PER_TOOL = 4
NOTE_TOKENS = 120  # for the sentences about what was left out, and headings
USERS = {
    "model": "It talks with a user.",
    "scripted": "Who answers it follows a script: nobody can be asked for more, or for consent.",
    "none": "Nobody answers it: it gets the task, acts, and ends with its answer.",
}


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
    """Token count, estimated on the safe side."""
    return len(text) // CHARS_PER_TOKEN + 1


def build_context(
    failures: Sequence[Failure],
    patterns: Patterns,
    subset: Subset,
    passing: Iterable[Trajectory],
    harness: Harness,
    benchmark: Benchmark,
    *,
    contract: str,
    rejected: Sequence[str] = (),
    max_tokens: int = 60_000,
) -> Context:
    """Write the context.

    Parameters
    ----------
    failures, patterns, subset : the round's failures, their patterns and the quarter to read.
    passing : passing trajectories of the same round; only their acts are used.
    harness : the current harness. benchmark : whose policy and tools they are. contract : text of the harness contract.
    rejected : proposals of earlier rounds that a gate rejected, one line each.
    max_tokens : budget. A third of it is kept for excerpts where they need it; acts, then the policy, make room.
    """
    by_key = {f.key: f for f in failures}
    picked = [by_key[k] for k in subset.keys if k in by_key]
    picked.sort(key=lambda f: _rank(patterns, f.key))
    labels = _task_labels(failures)
    setting = f"# Setting\nThe agent is for {benchmark.about}. {USERS[benchmark.user]}"
    head = [setting, "# Harness contract\n" + contract, _pattern_table(patterns, failures)]
    tail = [
        "# Proposals rejected in earlier rounds\n" + ("\n".join(f"- {r}" for r in rejected) or "(none)"),
        "# Current harness\n" + _sources(harness),
        "# Tools\n" + "\n".join(map(_tool_line, benchmark.tools)),
    ]
    room = max_tokens - sum(map(tokens, (*head, *tail)))
    texts = [excerpt(f, patterns.label(f.key), labels[f.task_id]) for f in picked]
    background, left_out = _background(
        acts_of(passing), benchmark.policy, room - min(sum(map(tokens, texts)), max_tokens // 3)
    )
    shown, cut = _excerpts(texts, room - sum(map(tokens, background)) - NOTE_TOKENS)
    left_out = [*cut, *left_out]
    note = "".join(f"\n(left out: {line})" for line in left_out)
    text = "\n\n".join([*head, "# Evidence" + note + "\n" + "\n\n".join(shown), *tail, *background])
    return Context(
        text=text,
        references={short(f.key): len(f.trajectory.messages) for f in picked[: len(shown)]},
        recurring=frozenset(p.id for p in patterns.recurring),
        pattern_of={short(f.key): patterns.label(f.key) for f in failures},
        left_out=tuple(left_out),
    )


def _background(acts: Sequence[str], policy: str, room: int) -> tuple[list[str], list[str]]:
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
        size = f"{len(p.members)} failures over {len(p.tasks)} tasks"
        lines.append(f"- P{p.id} {kind}: {size}; {_flat(p.name)}; e.g. {_flat(p.quote)}")
    lines.append(f"- noise: {len(patterns.noise)} failures without a pattern")
    return "\n".join(lines)


def _excerpts(texts: Sequence[str], room: int) -> tuple[list[str], list[str]]:
    """The first excerpts that fit, and what was left out."""
    out: list[str] = []
    for text in texts:
        room -= tokens(text)
        if room < 0:
            return out, [f"{len(texts) - len(out)} of {len(texts)} excerpts, for lack of room"]
        out.append(text)
    return out, []


def excerpt(failure: Failure, pattern: int, task: str) -> str:
    """One failure as evidence: header, first bad step, and the steps around it."""
    name = f"P{pattern}" if pattern >= 0 else "noise"
    checks = ", ".join(failure.failed_checks) or "not disclosed"
    lines = _around(
        [_flat(line) for line in outline(failure.trajectory.messages, RESULT_CHARS)], failure.first_bad
    )
    ended = f"ended {failure.termination} | failed checks: {checks}"
    head = f"## trial {short(failure.key)} | {name} | task {task} | {ended}"
    return "\n".join([head, f"first wrong: {_flat(failure.first_bad_what) or 'nothing visible'}", *lines])


def _flat(text: str) -> str:
    """One line: a model may call a tool by a name with line breaks, which must not open a section of its own."""
    return " ".join(text.splitlines())


def _around(lines: list[str], first_bad: int | None) -> list[str]:
    """A long outline cut to its start, the lines around the first bad step, and its end."""
    if len(lines) <= EXCERPT_LINES:
        return lines
    third = EXCERPT_LINES // 3
    at = next(
        (
            n
            for n, line in enumerate(lines)
            if first_bad is not None and int(line[1 : line.index("]")]) >= first_bad
        ),
        third,
    )
    middle = range(max(0, at - third // 2), at + third - third // 2)
    keep = sorted({*range(third), *middle, *range(len(lines) - third, len(lines))} & set(range(len(lines))))
    out: list[str] = []
    for before, n in zip([-1, *keep], keep, strict=False):
        if n > before + 1:
            out.append(f"(… {n - before - 1} lines …)")
        out.append(lines[n])
    return out


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
    return (
        "\n".join(f"## {name}\n```\n{text}\n```" for name, text in sorted(harness.files.items())) or "(empty)"
    )
