"""Failures and their evidence cards: what went wrong first, and what a reviewer needs to see of it.

A card holds no system prompt, no task or trial id and no gold value, whatever the disclosure.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from ecdysis_lab.records import Disclosure, Failure, Intervention, LabError, Message, Trajectory
from ecdysis_lab.transcript import Step, is_write, outline, shorten, steps

__all__ = ["Bad", "find_failures", "first_bad", "load", "outline", "path_of", "position_of", "to_failure"]

DISCLOSURES = ("transcript", "checks", "scenario")
PUT_RIGHT = " (put right later)"
LOOP = 3  # identical calls in a row that count as a loop
LAST_MESSAGES = 6
CARD_CHARS = 160
CALL_CHARS = 240
PATH_TOKENS = 40

_YES = re.compile(
    r"\b(yes|yeah|yep|yup|confirm\w*|proceed|go ahead|sure|ok|okay|agree\w*|please do|sounds good|that works|"
    r"correct|sí|oui|ja|sim|да|igen|tak|evet)\b|是|好的|确认|はい|예|네",
    re.IGNORECASE,
)
_ASKED = re.compile(r"\b(confirm|proceed|go ahead|shall i|would you like|is that correct)\b", re.IGNORECASE)
_CLAIM = re.compile(
    r"\b(?:i have|i've|has been|have been|successfully) (?:now |successfully |just )*"
    r"(made|completed|processed|taken care of|cancell?ed|booked|updated|changed|modified|upgraded|exchanged|"
    r"returned|issued|placed|added|removed|sent)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Bad:
    """The first thing that went wrong: message index, kind, tool (or empty), and one line about it."""

    index: int
    kind: str
    tool: str
    what: str


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


def position_of(trajectory: Trajectory, step: int) -> int:
    """Where an intervention belongs in the transcript.

    Parameters
    ----------
    step : index into ``trajectory.context``, which holds refusals too (``Intervention.step``).

    Returns
    -------
    Index into ``trajectory.messages`` of the message that stands there; 0 for an empty transcript.
    """
    messages, at = trajectory.messages, 0
    for seen in trajectory.context[:step]:
        at = next((j + 1 for j in range(at, len(messages)) if _same(messages[j], seen)), at)
    return max(min(at, len(messages) - 1), 0)


def _same(message: Message, seen: Message) -> bool:
    """Whether the model saw this message of the transcript; its calls may have been rewritten, its ids not."""
    if message.role != seen.role:
        return False
    if message.call_id or message.calls or seen.calls:
        ids = [{m.call_id, *(c.id for c in m.calls)} - {""} for m in (message, seen)]
        return bool(ids[0] & ids[1])
    return message.content == seen.content


def first_bad(trajectory: Trajectory, writes: frozenset[str] | None = None) -> Bad | None:
    """The first thing that went wrong, by how sure the transcript is of it.

    First tool error that the tool never got over; else first lasting refusal or fault of the harness; else a
    loop (three identical calls in a row); else the first write without the user's yes right before it; else a claim
    of a write that was never made; else a tool error that was put right; else giving up on an empty result;
    else None. On 100 recorded GPT-4o airline trials an unconfirmed write stands in 21% of the failures and in
    no success, a tool error in 21% and 9%; ending without a write, or a transfer to a human, is commoner in
    successes, so neither counts as wrong here.
    """
    messages, done = trajectory.messages, steps(trajectory.messages)
    last_good = {_family(s.call.name, writes): s.index for s in done if s.outcome == "ok"}
    errors = [s for s in done if s.outcome == "error"]
    lasting = next((s for s in errors if last_good.get(_family(s.call.name, writes), -1) < s.index), None)
    if lasting is not None:
        return _error(lasting)
    acts = [_harness_bad(trajectory, i) for i in trajectory.interventions if i.action in ("refuse", "fault")]
    good = {(s.call.name, s.index) for s in done if s.outcome == "ok"}
    stuck = next((a for a in acts if not any(a.tool == tool and i >= a.index for tool, i in good)), None)
    if stuck is not None:
        return stuck
    found = _loop(done) or _unconfirmed(messages, done, writes) or _claimed(messages, done)
    return found or (_error(errors[0], PUT_RIGHT) if errors else _gave_up(done, writes))


def _family(tool: str, writes: frozenset[str] | None) -> str:
    """Tools that can stand in for each other: reads by their first two words (find_user by e-mail, by zip)."""
    return tool if is_write(tool, writes) else "_".join(tool.split("_")[:2])


def _error(step: Step, note: str = "") -> Bad:
    what = f"{step.call.name}: {shorten(step.result, 160)}{note}"
    return Bad(step.result_index, "error", step.call.name, what)


def _gave_up(done: Sequence[Step], writes: frozenset[str] | None) -> Bad | None:
    """The last call of all, where it is a read that found nothing."""
    if not done or done[-1].outcome != "ok" or is_write(done[-1].call.name, writes):
        return None
    if done[-1].result.strip() not in ("[]", "{}", "null", "None"):
        return None
    tool = done[-1].call.name
    return Bad(done[-1].result_index, "empty", tool, f"{tool}: found nothing, and that was the last call")


def _harness_bad(trajectory: Trajectory, act: Intervention) -> Bad:
    kind = "refusal" if act.action == "refuse" else "fault"
    what = f"harness {kind} of {act.tool or act.hook} ({act.rule}): {shorten(str(act.reason), 160)}"
    return Bad(position_of(trajectory, act.step), kind, act.tool, what)


def _loop(done: Sequence[Step]) -> Bad | None:
    for _, group in groupby(done, key=lambda s: (s.call.name, json.dumps(s.call.arguments, sort_keys=True))):
        same = list(group)
        if len(same) >= LOOP:
            third = same[LOOP - 1]
            return Bad(
                third.index,
                "loop",
                third.call.name,
                f"{third.call.name}: same call {len(same)} times in a row",
            )
    return None


def _unconfirmed(
    messages: Sequence[Message], done: Sequence[Step], writes: frozenset[str] | None
) -> Bad | None:
    for step in done:
        if step.outcome == "ok" and is_write(step.call.name, writes):
            said = next((m.content or "" for m in reversed(messages[: step.index]) if m.role == "user"), "")
            if not _YES.search(said):
                return Bad(
                    step.index,
                    "unconfirmed",
                    step.call.name,
                    f"{step.call.name}: written without the user's yes",
                )
    return None


def _claimed(messages: Sequence[Message], done: Sequence[Step]) -> Bad | None:
    """Asked for a yes, got it, made no call, and yet says it is done."""
    calls = {s.index for s in done}
    for i in range(2, len(messages)):
        asked, said, claim = (m.content or "" for m in messages[i - 2 : i + 1])
        roles = [m.role for m in messages[i - 2 : i + 1]]
        if roles != ["assistant", "user", "assistant"] or i in calls or i - 2 in calls:
            continue
        if _ASKED.search(asked) and _YES.search(said) and (found := _CLAIM.search(claim)):
            return Bad(i, "claim", "", f"claimed without the call: {shorten(found.group(0), 60)}")
    return None


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
    writes: frozenset[str] | None = None,
    scenario: str = "",
) -> str:
    """The evidence card: termination, checks, first bad thing, path, writes, last exchanges, scenario."""
    lines = [f"Ended: {trajectory.termination or 'unknown'}"]
    if checks:
        lines.append(f"Failed checks: {', '.join(checks)}")
    lines.append(
        f"First thing wrong: {f'[{bad.index}] {bad.what}' if bad else 'nothing visible in the tool calls'}"
    )
    lines.append(f"Calls: {_collapsed(path)}")
    made = Counter(token[:-3] for token in path if token.endswith(":ok") and is_write(token[:-3], writes))
    lines.append(f"Writes: {', '.join(t if n == 1 else f'{t} x{n}' for t, n in made.items()) or 'none'}")
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
    writes: frozenset[str] | None = None,
    scenario: Callable[[str], str] | None = None,
) -> Failure | None:
    """The failure that a trajectory is, or None.

    Parameters
    ----------
    trajectory : any trajectory; infrastructure errors and user faults are never failures.
    disclosure : ``transcript``, ``checks`` or ``scenario``: how much a card tells beyond the transcript.
    threshold : ``failure_threshold`` (λ): a score below it is a failure.
    writes : names of the tools that change state; None goes by the verb in the name.
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
    bad, path = first_bad(trajectory, writes), path_of(trajectory)
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
    )


def find_failures(
    trajectories: Iterable[Trajectory],
    threshold: float = 1.0,
    disclosure: Disclosure = "checks",
    *,
    writes: frozenset[str] | None = None,
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
        to_failure(t, disclosure, threshold=threshold, writes=writes, scenario=scenario) for t in trajectories
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
    from ecdysis_lab.intake import read

    _, got, counts = read(path, data, format)
    if got.damaged:
        first = got.damaged[0]
        where = f"{first.file}, record {first.record}, {first.field}: {first.what}"
        warnings.warn(f"{counts}; the first damaged one is {where}", stacklevel=2)
    return find_failures(got.trajectories, threshold, disclosure)
