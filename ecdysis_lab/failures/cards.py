"""Failures and their evidence cards: what went wrong first, and what a reviewer needs to see of it.

A card holds no system prompt, no task or trial id and no gold value, whatever the disclosure.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path

from ecdysis_lab.failures.first_bad import PUT_RIGHT, Bad, first_bad, position_of
from ecdysis_lab.failures.transcript import is_dialogue, is_write, outline, shorten, steps
from ecdysis_lab.records import Benchmark, Disclosure, Failure, LabError, Trajectory

__all__ = [
    "PUT_RIGHT",
    "Bad",
    "find_failures",
    "first_bad",
    "load",
    "outline",
    "path_of",
    "position_of",
    "to_failure",
]

DISCLOSURES = ("transcript", "checks", "scenario")
LAST_MESSAGES = 6
CARD_CHARS = 160
CALL_CHARS = 240
PATH_TOKENS = 40


def path_of(trajectory: Trajectory) -> tuple[str, ...]:
    """Tool-outcome tokens in order, e.g. ``("get_user:ok", "cancel:refused", "cancel:error")``."""
    tokens = [(s.index, f"{s.call.name}:{s.outcome}") for s in steps(trajectory.messages)]
    tokens += [
        (position_of(trajectory, i.step), f"{i.tool}:refused")
        for i in trajectory.interventions
        if i.action == "refuse" and i.tool
    ]
    # A refused call stands where the next message of the transcript does, so it goes before that one.
    tokens.sort(key=lambda t: (t[0], not t[1].endswith(":refused")))
    return tuple(token for _, token in tokens)


def _collapsed(path: Sequence[str]) -> str:
    """Path as text, runs joined (``search:ok x3``), the middle of a very long one left out."""
    runs = [(token, len(list(group))) for token, group in groupby(path)]
    texts = [token if n == 1 else f"{token} x{n}" for token, n in runs]
    if len(texts) > PATH_TOKENS:
        half = PATH_TOKENS // 2
        texts = [*texts[:half], f"({len(texts) - PATH_TOKENS} more)", *texts[-half:]]
    return " → ".join(texts) or "no tool call"


def card(
    trajectory: Trajectory,
    checks: Sequence[str],
    bad: Bad | None,
    path: Sequence[str],
    writes: Sequence[str],
    scenario: str = "",
) -> str:
    """The evidence card: termination, checks, first bad thing, path, writes, last exchanges, scenario."""
    why = f" ({shorten(trajectory.error, 300)})" if trajectory.error else ""
    lines = [f"Ended: {trajectory.termination or 'unknown'}{why}"]
    if checks:
        lines.append(f"Failed checks: {', '.join(checks)}")
    lines.append(
        f"First thing wrong: {f'[{bad.index}] {bad.what}' if bad else 'nothing visible in the tool calls'}"
    )
    lines.append(f"Calls: {_collapsed(path)}")
    made = Counter(writes).items()
    lines.append(f"Writes: {', '.join(t if n == 1 else f'{t} x{n}' for t, n in made) or 'none'}")
    lines.append("Last exchanges:")
    start = max(len(trajectory.messages) - LAST_MESSAGES, 0)
    last = [s for s in outline(trajectory.messages, CARD_CHARS) if int(s[1 : s.index("]")]) >= start]
    lines += [s if len(s) <= CALL_CHARS else s[: CALL_CHARS - 1] + "…" for s in last]
    if scenario:
        lines.append(f"Scenario: {shorten(scenario, 2000)}")
    return "\n".join(lines)


def to_failure(
    trajectory: Trajectory,
    disclosure: Disclosure = "checks",
    *,
    threshold: float = 1.0,
    benchmark: Benchmark | None = None,
    scenario: Callable[[str], str] | None = None,
) -> Failure | None:
    """The failure that a trajectory is, or None.

    Parameters
    ----------
    trajectory : any trajectory; infrastructure errors and user faults are never failures.
    disclosure : ``transcript``, ``checks`` or ``scenario``: how much a card tells beyond the transcript.
    threshold : ``failure_threshold`` (λ): a score below it is a failure.
    benchmark : says what a call does and whether there is a user; see ``first_bad``.
    scenario : task id -> the user's hidden instructions; asked at disclosure ``scenario`` only.

    Raises
    ------
    LabError: an unknown disclosure.
    """
    if disclosure not in DISCLOSURES:
        raise LabError(f"unknown disclosure {disclosure!r}; choose one of {', '.join(DISCLOSURES)}")
    if trajectory.status != "scored" or trajectory.score is None or trajectory.score >= threshold:
        return None
    checks: tuple[str, ...] = ()
    if disclosure != "transcript":
        checks = tuple(sorted(name for name, passed in trajectory.checks.items() if not passed))
    hidden = scenario(trajectory.trial.task_id) if disclosure == "scenario" and scenario else ""
    bad, path = first_bad(trajectory, benchmark), path_of(trajectory)
    done = steps(trajectory.messages)
    writes = tuple(s.call.name for s in done if s.outcome == "ok" and is_write(s.call, benchmark))
    return Failure(
        key=trajectory.key,
        task_id=trajectory.trial.task_id,
        model=trajectory.trial.model,
        score=trajectory.score,
        termination=trajectory.termination,
        failed_checks=checks,
        first_bad=bad.index if bad else None,
        first_bad_what=bad.what if bad else "",
        path=path,
        card=card(trajectory, checks, bad, path, writes, hidden),
        trajectory=trajectory,
        writes=writes,
        dialogue=is_dialogue(trajectory.messages, benchmark),
    )


def find_failures(
    trajectories: Iterable[Trajectory],
    threshold: float = 1.0,
    disclosure: Disclosure = "checks",
    benchmark: Benchmark | None = None,
    *,
    scenario: Callable[[str], str] | None = None,
) -> list[Failure]:
    """Failures among trajectories, in their order; arguments as in ``to_failure``.

    Raises
    ------
    LabError: a threshold outside (0, 1], or an unknown disclosure.
    """
    if not 0.0 < threshold <= 1.0:
        raise LabError(f"failure_threshold must lie in (0, 1], got {threshold}")
    made = (
        to_failure(t, disclosure, threshold=threshold, benchmark=benchmark, scenario=scenario)
        for t in trajectories
    )
    return [failure for failure in made if failure is not None]


def load(
    path: Path | str,
    threshold: float = 1.0,
    disclosure: Disclosure = "checks",
    *,
    format: str | None = None,
    data: Path | str | None = None,
) -> list[Failure]:
    """Failures of a file, folder, run or import, in one line for a notebook.

    Parameters
    ----------
    path : see ``intake.read``. threshold, disclosure : see ``find_failures``.
    format : ``tau-bench``, ``tau2``, ``jsonl`` or ``store``; None detects it.
    data : the data folder, where ``path`` is only the name of a run or an import.

    Raises
    ------
    LabError: nothing there, an unknown format, a wrong threshold or disclosure.

    Warns
    -----
    UserWarning: damaged records were left out; the first is named by file, record and field.
    """
    from ecdysis_lab.failures.collection import read

    _, got, counts = read(path, data, format)
    if got.damaged:
        first = got.damaged[0]
        where = f"{first.file}, record {first.record}, {first.field}: {first.what}"
        warnings.warn(f"{counts}; the first damaged one is {where}", stacklevel=2)
    return find_failures(got.trajectories, threshold, disclosure)
