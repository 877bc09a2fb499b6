"""Replay: what another harness would have refused, changed or shown in a recorded trajectory.

The model is not asked: its recorded messages are judged by the candidate on a live environment that is brought
through the same calls. Needed by the legal-action gate and by behaviour-aware reuse.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ecdysis_lab.benchmarks.solo import leave
from ecdysis_lab.harness.agent import HarnessedAgent, unquoted
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.hooks import Allow, Call, Done, Realize, Refuse, Rewrite, Verdict
from ecdysis_lab.hooks.verdicts import NOTE, REFUSED, REPLY_STOPPED
from ecdysis_lab.records import Benchmark, Intervention, Message, Trajectory, tool_key, users_own

REPLY = "reply: "  # before the text of a reply that is told as an act
NO_LONGER = ("Its text was realized as this call, and is not any more.", "Realize it as the same call.")
NOT_THIS_ONE = "another call of the same message was refused"  # what the agent is told of its other calls


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
    rejected : the same of calls that the environment itself rejected.
    acts : what its hooks said beyond letting pass, as (step, hook, text); two harnesses are compared by it.
    other_text : whether the model would have read another prompt, other tool schemas or other notes; a trial that does
        not tell what was shown was shown the benchmark's own.
    """

    key: str
    calls: int
    differences: tuple[Difference, ...]
    unchanged: bool
    faults: tuple[Intervention, ...]
    rejected: tuple[Difference, ...] = ()
    acts: tuple[tuple[int, str, str], ...] = ()
    other_text: bool = False


def _before_texts(messages: Sequence[Message]) -> Iterator[list[Call]]:
    """Calls that the user made himself before each of his texts."""
    made: list[Call] = []
    for message in messages:
        if message.role == "user" and message.calls:
            made += message.calls
        elif message.role == "user":
            yield made
            made = []


class _Walk:
    def __init__(self, trajectory: Trajectory, harness: Harness, benchmark: Benchmark) -> None:
        self.trajectory, self.opening = trajectory, benchmark.opening
        limits = json.loads(trajectory.trial.limits)
        self.agent = HarnessedAgent("replay", harness, benchmark, max_steps=limits.get("max_steps", 100))
        self.environment = benchmark.environment(trajectory.trial.task_id)
        self.users = users_own(trajectory.messages)
        self.phoned = _before_texts(trajectory.messages)  # what users do with tools of their own
        ours = [m for i, m in enumerate(trajectory.messages) if i not in self.users]
        own = ours if trajectory.context else ()  # imported ones: what was seen is what ran
        self.executed = {c.id: c for m in own for c in m.calls}
        self.results = {m.call_id: m for m in own if m.role == "tool"}
        acts = trajectory.interventions
        self.gave_way = {i.step for i in acts if i.action == "pass_through"}
        self.realized = {i.step for i in acts if i.action == "realize"}
        self.sent = {i.step: str(i.after) for i in acts if (i.hook, i.action) == ("on_reply", "rewrite")}
        self.differences: list[Difference] = []
        self.rejected: list[Difference] = []
        self.of_call: dict[str, Difference] = {}
        self.acts: list[tuple[int, str, str]] = []
        self.pending: dict[str, Call] = {}  # calls of the latest message, as they ran
        self.same, self.noted_alike, self.calls, self.opened = True, True, 0, False

    def run(self) -> Replay:
        self.agent.start(self.environment)
        try:
            context = self.trajectory.context or self.trajectory.messages
            greeted = bool(self.opening) and bool(context) and context[0].content == self.opening
            for step, message in enumerate(context[int(greeted) :], int(greeted)):
                if self.trajectory.context or step not in self.users:
                    self._step(step, message, context)
        finally:
            self.agent.close()
            leave(self.environment)
        same = (
            self.same
            and self.noted_alike
            and not self.differences
            and self.agent.shown == self.trajectory.shown
        )
        faults = tuple(i for i in self.agent.interventions if i.action == "fault")
        found, rejected, acts = tuple(self.differences), tuple(self.rejected), tuple(self.acts)
        shown = self.agent.shown == (self.trajectory.shown or self.agent.bare)
        other = not (shown and self.noted_alike)
        return Replay(
            self.trajectory.key, self.calls, found, same and not faults, faults, rejected, acts, other
        )

    def _step(self, step: int, message: Message, context: Sequence[Message]) -> None:
        if message.role == "user" and not (message.content or "").startswith((REPLY_STOPPED, "[system]")):
            for call in next(self.phoned, ()):
                self.environment.user_call(call)  # type: ignore[attr-defined]
            said = unquoted(message.content or "")
            if not self.opened:
                self.agent._open(said)
                self.opened = True
            self.agent.host.add_message("user", said)
        elif message.role == "assistant":
            answers = [m.content or "" for m in context[step + 1 : step + 1 + max(1, len(message.calls))]]
            if any(a.startswith("[system]") for a in answers):
                self._judge_malformed(step, message)
            else:
                self._judge(step, message, answers)
        elif message.role == "tool" and not (message.content or "").startswith(REFUSED):
            self._observe(message)
        self.agent.context.append(message)

    def _judge(self, step: int, message: Message, answers: Sequence[str]) -> None:
        """One message by the candidate; ``answers`` are what followed it in the recorded context."""
        ran = [self.executed.get(c.id, c) for c in message.calls]
        self.pending = {c.id: c for c in ran}
        verdicts = self._verdicts(step, message)
        hook = self.agent._hook(message)
        self.acts += [(step, hook, str(v)) for v in verdicts if not isinstance(v, Allow)]
        if any(a.startswith((REFUSED, REPLY_STOPPED)) for a in answers):
            for verdict, answer in zip(verdicts, answers, strict=False):
                told = f"{verdict.reason} {verdict.option}" if isinstance(verdict, Refuse) else NOT_THIS_ONE
                self.same &= told in answer
            return
        for n, verdict in enumerate(verdicts):
            if isinstance(verdict, Refuse) and step in self.gave_way:
                verdict = Allow()  # refused as often as then, it would go through as it did then
            if message.calls:
                self._compare_call(step, verdict, message.calls[n], ran[n])
            else:
                self._compare_reply(step, verdict, message.content or "")
        if not message.calls and message.content:
            self.agent.host.add_message("assistant", self.sent.get(step, message.content))

    def _judge_malformed(self, step: int, message: Message) -> None:
        """An answer that was sent back as a malformed call: nothing legal is lost where the candidate stops it, too."""
        for verdict in self.agent._judge(message):
            if isinstance(verdict, Refuse | Realize):
                self.acts.append((step, "on_reply", str(verdict)))
                self.same = False

    def _verdicts(self, step: int, message: Message) -> list[Verdict]:
        """Of a recorded message; a text that was realized is judged as a text first, and must mean the same calls."""
        if step not in self.realized:
            return self.agent._judge(message)
        (meant,) = self.agent._judge(replace(message, calls=()))
        if isinstance(meant, Realize):
            self.acts.append((step, "on_reply", str(meant)))
            if [tool_key(c) for c in meant.calls] == [tool_key(c) for c in message.calls]:
                return self.agent._judge(message)
        stopped = meant if isinstance(meant, Refuse) else Refuse(*NO_LONGER, meant.rule)
        return [stopped for _ in message.calls]

    def _compare_call(self, step: int, verdict: Verdict, call: Call, ran: Call) -> None:
        arguments, act = call.arguments, tool_key(call)
        if isinstance(verdict, Rewrite) and verdict.arguments is not None:
            arguments = verdict.arguments
        if isinstance(verdict, Refuse):
            made = Difference(step, "refused", act, verdict.rule, f"{verdict.reason} {verdict.option}")
        elif arguments != ran.arguments:
            made = Difference(step, "altered", act, verdict.rule, f"{ran.arguments} → {arguments}")
        else:
            return
        result = self.results.get(call.id)
        if result is not None and result.error:  # what the environment rejected may change
            self.same = False
            self.rejected.append(made)
        else:
            self.differences.append(made)
            self.of_call[call.id] = made

    def _compare_reply(self, step: int, verdict: Verdict, text: str) -> None:
        then, act = self.sent.get(step, text), f"{REPLY}{text[:120]}"
        now = verdict.text if isinstance(verdict, Rewrite) and verdict.text else text
        if isinstance(verdict, Realize):
            now = f"realized as {', '.join(tool_key(c) for c in verdict.calls)}"
        if isinstance(verdict, Refuse):
            reason = f"{verdict.reason} {verdict.option}"
            self.differences.append(Difference(step, "refused", act, verdict.rule, reason))
        elif now != then:
            self.differences.append(Difference(step, "altered", act, verdict.rule, now[:200]))

    def _observe(self, message: Message) -> None:
        """Bring the environment through the call, and compare the harness's note with the recorded one."""
        call = self.pending.get(message.call_id, Call(message.name, {}, message.call_id))
        recorded = self.results.get(message.call_id, message)
        self.calls += 1
        _, error = self.environment.call(call)
        made = self.of_call.pop(message.call_id, None)
        if (
            made and not self.trajectory.context and (error or recorded.error)
        ):  # an imported call tells only here
            self.differences.remove(made)
            self.rejected.append(made)
        text = recorded.content or ""
        done = Done(call, text, recorded.error)
        self.agent.host.add_done(done)
        note = self.agent._noted(done)
        if note:
            self.acts.append((len(self.agent.context), "observe", note))
        noted = (message.content or "").partition("\n" + NOTE)[2]
        self.noted_alike &= (note or "") == noted


def replay(trajectory: Trajectory, harness: Harness, benchmark: Benchmark) -> Replay:
    """Judge a recorded trajectory by another harness.

    Parameters
    ----------
    trajectory : what happened. harness : the candidate. benchmark : where it happened.
    """
    return _Walk(trajectory, harness, benchmark).run()
