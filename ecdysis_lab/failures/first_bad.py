"""The first thing that went wrong in a trajectory, by how sure the transcript is of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ecdysis_lab.failures.transcript import Step, is_dialogue, is_write, shorten, steps
from ecdysis_lab.hooks import Call
from ecdysis_lab.hooks.talk import ASKED, CLAIM, agrees
from ecdysis_lab.records import Benchmark, Intervention, Message, Trajectory

PUT_RIGHT = " (put right later)"
LOOP = 3  # identical calls in a row that count as a loop


@dataclass(frozen=True)
class Bad:
    """The first thing that went wrong: message index, kind, tool (or empty), and one line about it."""

    index: int
    kind: str
    tool: str
    what: str


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


def first_bad(trajectory: Trajectory, benchmark: Benchmark | None = None) -> Bad | None:
    """The first thing that went wrong, by how sure the transcript is of it.

    First tool error that the tool never got over; else first lasting refusal or fault of the harness; else a
    loop (three identical calls in a row); else, in a dialogue, the first write without the user's yes right before
    it, or a claim of a write that was never made; else a tool error that was put right; else giving up on an empty
    result; else None. On 100 recorded τ² trials of GPT-4o an unconfirmed write stands in 21% of the failures and in
    no success, a tool error in 21% and 9%; ending without a write, or a transfer to a human, is commoner in
    successes, so neither counts as wrong here.

    Parameters
    ----------
    trajectory : what happened. benchmark : says what a call does and whether there is a user; None where it is not
        at hand, so that names of tools and the transcript decide.
    """
    messages, done = trajectory.messages, steps(trajectory.messages)
    last_good = {_family(s.call, benchmark): s.index for s in done if s.outcome == "ok"}
    errors = [s for s in done if s.outcome == "error"]
    lasting = next((s for s in errors if last_good.get(_family(s.call, benchmark), -1) < s.index), None)
    if lasting is not None:
        return _error(lasting)
    acts = [_harness_bad(trajectory, i) for i in trajectory.interventions if i.action in ("refuse", "fault")]
    good = {(s.call.name, s.index) for s in done if s.outcome == "ok"}
    stuck = next((a for a in acts if not any(a.tool == tool and i >= a.index for tool, i in good)), None)
    if stuck is not None:
        return stuck
    found = _loop(done)
    if found is None and is_dialogue(messages, benchmark):
        found = _unconfirmed(messages, done, benchmark) or _claimed(messages, done)
    return found or (_error(errors[0], PUT_RIGHT) if errors else _gave_up(done, benchmark))


def _family(call: Call, benchmark: Benchmark | None) -> str:
    """Tools that can stand in for each other: reads by their first two words (find_user by e-mail, by zip)."""
    return call.name if is_write(call, benchmark) else "_".join(call.name.split("_")[:2])


def _error(step: Step, note: str = "") -> Bad:
    what = f"{step.call.name}: {shorten(step.result, 160)}{note}"
    return Bad(step.result_index, "error", step.call.name, what)


def _gave_up(done: Sequence[Step], benchmark: Benchmark | None) -> Bad | None:
    """The last call of all, where it is a read that found nothing."""
    if not done or done[-1].outcome != "ok" or is_write(done[-1].call, benchmark):
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
    messages: Sequence[Message], done: Sequence[Step], benchmark: Benchmark | None
) -> Bad | None:
    for step in done:
        if step.outcome == "ok" and is_write(step.call, benchmark):
            said = next((m.content or "" for m in reversed(messages[: step.index]) if m.role == "user"), "")
            if not agrees(said):
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
        if ASKED.search(asked) and agrees(said) and (found := CLAIM.search(claim)):
            return Bad(i, "claim", "", f"claimed without the call: {shorten(found.group(0), 60)}")
    return None
