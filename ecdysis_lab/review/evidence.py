"""The failed trials as reviewers and editors read them: whole while the budget lasts, then excerpts, then a count."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ecdysis_lab.failures.cards import position_of
from ecdysis_lab.failures.transcript import both_ends, clean, indented, outline, transcript
from ecdysis_lab.records import Failure, Intervention, Patterns, Trajectory

CHARS_PER_TOKEN = 3  # measured 3.4 on τ² contexts (GPT-4o's tokenizer); 4 would overfill a window by a sixth
EXCERPT_LINES = 15
EXCERPT_CHARS = 240
NAMED = 20  # trials that the note on what was cut names
RESERVE = 4  # where not every trial fits whole, this part of the room (a quarter) is for excerpts first
UNSEEN = "nothing that a rule could see; the cause may be in what was said, or never done"


@dataclass(frozen=True)
class Exhibit:
    """One failed trial in both forms: ``whole``, and the ``excerpt`` that stands in for it where room is short."""

    key: str
    whole: str
    excerpt: str


def short(key: str) -> str:
    """The eight characters of a trial key that the context uses."""
    return key[:8]


def tokens(text: str) -> int:
    """Token count, estimated on the safe side."""
    return len(text) // CHARS_PER_TOKEN + 1


def exhibit(failure: Failure, pattern: int, task: str) -> Exhibit:
    """A failed trial as evidence: header, first bad step, and what was said, called and answered.

    Parameters
    ----------
    failure : the trial. pattern : id of its pattern, -1 for noise. task : label of its task.
    """
    name = f"P{pattern}" if pattern >= 0 else "noise"
    checks = ", ".join(failure.failed_checks) or "not disclosed"
    ended = f"ended {failure.termination} | failed checks: {checks}"
    head = clean(f"## trial {short(failure.key)} | {name} | task {task} | {ended}")
    wrong = f"first wrong: {clean(failure.first_bad_what) or UNSEEN}"
    trajectory = failure.trajectory
    cut = _around(outline(trajectory.messages, EXCERPT_CHARS, both_ends), failure.first_bad)
    return Exhibit(
        failure.key, "\n".join([head, wrong, *_entries(trajectory)]), "\n".join([head, wrong, *cut])
    )


def _entries(trajectory: Trajectory) -> list[str]:
    """The whole transcript, with what the harness did where it did it."""
    entries = [(_step(line), 1, line) for line in transcript(trajectory.messages)]
    for act in trajectory.interventions:
        if act.hook in ("check", "observe", "on_reply"):
            at = position_of(trajectory, act.step)
            entries.append((at, 0, f"[{at}] harness {_act(act)}"))
    return [line for _, _, line in sorted(entries, key=lambda e: e[:2])]


def _act(act: Intervention) -> str:
    change = json.dumps([act.before, act.after], default=str, sort_keys=True)
    said = indented(act.reason) if act.reason else f"before and after {change}"
    return f"{act.action} {clean(act.tool or act.hook)} ({clean(act.rule)}): {said}"


def _step(line: str) -> int:
    """The message index that an entry starts with."""
    return int(line[1 : line.index("]")])


def _around(lines: list[str], first_bad: int | None) -> list[str]:
    """A long outline cut to its start, the lines around the first bad step, and its end."""
    if len(lines) <= EXCERPT_LINES:
        return lines
    third = EXCERPT_LINES // 3
    at = next(
        (n for n, line in enumerate(lines) if first_bad is not None and _step(line) >= first_bad), third
    )
    middle = range(max(0, at - third // 2), at + third - third // 2)
    keep = sorted({*range(third), *middle, *range(len(lines) - third, len(lines))} & set(range(len(lines))))
    out: list[str] = []
    for before, n in zip([-1, *keep], keep, strict=False):
        if n > before + 1:
            out.append(f"(… {n - before - 1} lines …)")
        out.append(lines[n])
    return out


def by_worth(picked: Sequence[Failure], patterns: Patterns) -> list[Failure]:
    """The picked failures in the order in which they get room.

    Recurring patterns come first, then auxiliary ones, then noise; of each, every pattern has one task, then a second
    one, and so on, before any task is shown twice.
    """
    recurring = {p.id for p in patterns.recurring}
    tasks: dict[int, list[str]] = defaultdict(list)
    ranks: list[tuple[int, int, int, int]] = []
    for failure in picked:
        label = patterns.label(failure.key)
        tasks[label].append(failure.task_id)
        kind = 0 if label in recurring else 1 if label >= 0 else 2
        nth_task = list(dict.fromkeys(tasks[label])).index(failure.task_id)
        ranks.append((kind, tasks[label].count(failure.task_id), nth_task, label))
    order = sorted(range(len(picked)), key=lambda i: ranks[i])
    return [picked[i] for i in order]


def fit(exhibits: Sequence[Exhibit], room_tokens: int) -> tuple[dict[str, str], list[str]]:
    """What is shown of each trial, and sentences about what is not.

    Parameters
    ----------
    exhibits : in the order in which they get room. room_tokens : for all of them.

    Returns
    -------
    Trial key -> text, whole or excerpt, in the order given; trials that fit in neither form are not in it.
    """
    whole = {e.key: tokens(e.whole) for e in exhibits}
    cut = {e.key: min(tokens(e.excerpt), whole[e.key]) for e in exhibits}
    size: dict[str, int] = {}
    used = 0
    reserve = 0 if sum(whole.values()) <= room_tokens else min(sum(cut.values()), room_tokens // RESERVE)
    for wanted, room in ((whole, room_tokens - reserve), (cut, room_tokens), (whole, room_tokens)):
        for e in exhibits:
            more = wanted[e.key] - size.get(e.key, 0)
            if more > 0 and used + more <= room:
                size[e.key], used = wanted[e.key], used + more
    shown = {e.key: e.whole if size[e.key] == whole[e.key] else e.excerpt for e in exhibits if e.key in size}
    return shown, _cuts(exhibits, shown)


def _cuts(exhibits: Sequence[Exhibit], shown: dict[str, str]) -> list[str]:
    said, total = [], len(exhibits)
    excerpts = [short(e.key) for e in exhibits if e.key in shown and shown[e.key] != e.whole]
    if excerpts:
        more = f" and {len(excerpts) - NAMED} more" if len(excerpts) > NAMED else ""
        names = ", ".join(excerpts[:NAMED])
        said.append(
            f"all but an excerpt of {len(excerpts)} of {total} trials, for lack of room: {names}{more}"
        )
    if len(shown) < total:
        said.append(f"{total - len(shown)} of {total} trials, for lack of room")
    return said
