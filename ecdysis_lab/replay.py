"""A recorded trajectory through another harness: what would it have refused, changed, or shown differently?

The model is not asked: its recorded messages are judged by the candidate on a live environment that is brought
through the same calls. Needed by the legal-action gate and by behaviour-aware reuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ecdysis_lab.agent import HarnessedAgent, Seat, tool_key
from ecdysis_lab.harness import Harness
from ecdysis_lab.hooks import NOTE, REFUSED, REPLY_STOPPED, Call, Done, Refuse, Rewrite, Verdict
from ecdysis_lab.records import Benchmark, Intervention, Message, Trajectory


@dataclass(frozen=True)
class Difference:
    """One executed call (or sent reply) that the harness would have refused or altered.

    Parameters
    ----------
    step : index into the recorded ``context``. what : ``"refused"`` or ``"altered"``.
    act : the call or reply. rule : the rule that decided. reason : what the model would have been told.
    """

    step: int
    what: str
    act: str
    rule: str
    reason: str


@dataclass(frozen=True)
class Replay:
    """What a replay found.

    Parameters
    ----------
    key : trial key. calls : executed calls that were judged.
    differences : newly refused or altered acts.
    unchanged : whether every byte that the model would see is the same, so that its result can be reused.
    faults : harness faults on the way.
    """

    key: str
    calls: int
    differences: tuple[Difference, ...]
    unchanged: bool
    faults: tuple[Intervention, ...]


class _Walk:
    def __init__(self, trajectory: Trajectory, harness: Harness, benchmark: Benchmark, seat: Seat) -> None:
        self.trajectory, self.seat = trajectory, seat
        self.agent = HarnessedAgent("replay", harness, seat)
        self.environment = benchmark.environment(trajectory.trial.task_id)
        self.executed = {c.id: c for m in trajectory.messages for c in m.calls}
        self.results = {m.call_id: m for m in trajectory.messages if m.role == "tool"}
        self.differences: list[Difference] = []
        self.same, self.calls, self.opened = True, 0, False

    def run(self) -> Replay:
        self.agent.start(self.environment)
        try:
            context = self.trajectory.context or self.trajectory.messages
            greeted = bool(self.seat.greeting) and bool(context) and context[0].content == self.seat.greeting
            for step, message in enumerate(context[int(greeted) :], int(greeted)):
                self._step(step, message, context)
        finally:
            self.agent.close()
        same = self.same and not self.differences and self.agent.shown == self.trajectory.shown
        faults = tuple(i for i in self.agent.interventions if i.action == "fault")
        return Replay(self.trajectory.key, self.calls, tuple(self.differences), same and not faults, faults)

    def _step(self, step: int, message: Message, context: Sequence[Message]) -> None:
        if message.role == "user" and not (message.content or "").startswith((REPLY_STOPPED, "[system]")):
            if not self.opened:
                self.agent._open(message.content or "")
                self.opened = True
            self.agent.host.add_message("user", message.content or "")
        elif message.role == "assistant":
            after = context[step + 1] if step + 1 < len(context) else None
            self._judge(step, message, after)
            self.agent.context.append(message)
            return
        elif message.role == "tool" and not (message.content or "").startswith(REFUSED):
            self._observe(message)
        self.agent.context.append(message)

    def _judge(self, step: int, message: Message, after: Message | None) -> None:
        refused_then = after is not None and (after.content or "").startswith((REFUSED, REPLY_STOPPED))
        ran = [self.executed.get(c.id, c) for c in message.calls]
        verdicts = self.agent._judge(message)
        if refused_then:
            said = {f"{v.reason} {v.option}" for v in verdicts if isinstance(v, Refuse)}
            self.same &= any(s in (after.content or "") for s in said) if after else False
            return
        for n, verdict in enumerate(verdicts):
            self._compare(step, verdict, message.calls[n] if message.calls else None, ran[n] if ran else None, message)
        if not message.calls and message.content:
            self.agent.host.add_message("assistant", message.content)

    def _compare(self, step: int, verdict: Verdict, call: Call | None, ran: Call | None, message: Message) -> None:
        act = tool_key(call) if call else f"reply: {(message.content or '')[:120]}"
        if call is not None and call.id in self.results and self.results[call.id].error:
            self.same &= not isinstance(verdict, (Refuse, Rewrite))  # what the environment rejected may change
            return
        if isinstance(verdict, Refuse):
            self.differences.append(Difference(step, "refused", act, verdict.rule, f"{verdict.reason} {verdict.option}"))
            return
        if call is not None and ran is not None:
            arguments = call.arguments
            if isinstance(verdict, Rewrite) and verdict.arguments is not None:
                arguments = verdict.arguments
            if arguments != ran.arguments:
                self.differences.append(Difference(step, "altered", act, verdict.rule, f"{ran.arguments} → {arguments}"))
        elif isinstance(verdict, Rewrite) and verdict.text and verdict.text != message.content:
            self.differences.append(Difference(step, "altered", act, verdict.rule, verdict.text[:200]))

    def _observe(self, message: Message) -> None:
        """Bring the environment through the call, and compare the harness's note with the recorded one."""
        call = self.executed.get(message.call_id, Call(message.name, {}, message.call_id))
        recorded = self.results.get(message.call_id, message)
        self.calls += 1
        self.environment.call(call)
        text = recorded.content or ""
        self.agent.host.add_done(Done(call, text, recorded.error))
        note = self.agent._safely(
            "observe", lambda: self.agent.host.observe(call, text, recorded.error, self.agent.steps_left), None, call.name
        )
        noted = (message.content or "").partition("\n" + NOTE)[2]
        self.same &= (note or "") == noted


def replay(trajectory: Trajectory, harness: Harness, benchmark: Benchmark, seat: Seat) -> Replay:
    """Judge a recorded trajectory by another harness.

    Parameters
    ----------
    trajectory : what happened. harness : the candidate. benchmark, seat : where it happened.
    """
    return _Walk(trajectory, harness, benchmark, seat).run()
