"""The model inside its harness: the one place where hooks are called.

The environment and its transcript see only what was executed and what was said. Refusals, rewrites and annotations
live in the model's own context and in ``interventions``, so a benchmark that replays the transcript scores a
harnessed agent exactly as it scores a bare one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from ecdysis_lab.harness.host import HarnessFault, Host
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.hooks import Allow, Call, Done, Realize, Refuse, Rewrite, Verdict
from ecdysis_lab.hooks.verdicts import NOTE, REFUSED, REPLY_STOPPED, REWRITTEN
from ecdysis_lab.models import (
    Budget,
    ContentError,
    LLMError,
    ModelParams,
    TemplateError,
    complete,
    to_openai,
)
from ecdysis_lab.records import Benchmark, Completion, Environment, Intervention, Message, Usage, tool_key

T = TypeVar("T")
MAX_REFUSALS_IN_A_ROW = 3
MAX_REFUSALS_PER_TURN = 9
MAX_MALFORMED = 3
MOST_SHOWN = 4000  # characters of a malformed answer that the model reads again
MALFORMED_NOTE = "[system] another call of the same message was malformed: "
GREETED, GREETING_ENDS = "(You opened the conversation with: ", ")\n\n"


def unquoted(text: str) -> str:
    """A user's message without the greeting that is quoted in it."""
    return text.partition(GREETING_ENDS)[2] if text.startswith(GREETED) else text


class HarnessedAgent:
    """A model behind LiteLLM inside a harness; implements :class:`ecdysis_lab.records.Agent`.

    Parameters
    ----------
    model : LiteLLM name.
    harness : the harness; an empty one is the ``direct`` arm.
    benchmark : gives prompt, policy, tools and the first message.
    max_steps : message limit of the trial.
    params, budget : for :func:`ecdysis_lab.models.calls.complete`.
    seed : seed of the trial.
    metadata : passed to ``sim`` models only.

    Attributes
    ----------
    context : messages as the model saw them, after the system prompt.
    interventions : acts of the harness so far.
    shown, bare : SHA-256 of system prompt and tool schemas, with the harness and without.
    harness_tokens : tokens (characters / 4) that the harness added to prompt and schemas.
    usage : consumption of the agent model.
    ended : why the model's own outcome ended the trial, ``"reason: sentence"``; empty where it did not.
    """

    def __init__(
        self,
        model: str,
        harness: Harness,
        benchmark: Benchmark,
        *,
        max_steps: int = 100,
        params: ModelParams | None = None,
        budget: Budget | None = None,
        seed: int = 0,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self.model, self.harness, self.benchmark, self.max_steps = model, harness, benchmark, max_steps
        self.params, self.budget, self.seed = params or ModelParams(), budget, seed
        self.metadata = metadata if model.startswith("sim/") else None
        self.context: list[Message] = []
        self.interventions: list[Intervention] = []
        self.usage, self.ended = Usage(), ""
        self.shown, self.bare, self.harness_tokens = "", "", 0
        self._host: Host | None = None
        self._system: str | None = None
        self._tools: list[dict[str, Any]] = []
        self._rewritten: dict[str, str] = {}
        self._pending: dict[str, Call] = {}
        self._refused: tuple[str, int] = ("", 0)

    def start(self, environment: Environment) -> None:
        """Open the harness on a live environment; the tools are described here."""
        bench = self.benchmark
        self._host = Host(self.harness, bench.policy, list(bench.tools), environment.read)
        self._tools = [self._described(dict(tool)) for tool in bench.tools]
        if bench.opening:
            self._see(Message("assistant", bench.opening))

    def prompt(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The conversation and the tools as the model sees them now, in OpenAI form."""
        tools = [{"type": "function", "function": t} for t in self._tools]
        return [{"role": "system", "content": self._system or ""}, *to_openai(self.context)], tools

    def close(self) -> None:
        """End the harness process."""
        if self._host is not None:
            self._host.close()
            self._host = None

    # -- what the benchmark calls ------------------------------------------------------------------------------

    def user_says(self, text: str) -> Message:
        """Answer a user message, or the text of a task where there is no user."""
        if self._system is None:
            self._open(text)
        self._see(Message("user", text))
        return self._turn()

    def tools_return(self, results: Sequence[Message]) -> Message:
        """Answer tool results, annotated by the harness where it has something to say."""
        for result in results:
            self._see(self._observed(result))
        return self._turn()

    # -- hooks -------------------------------------------------------------------------------------------------

    @property
    def host(self) -> Host:
        """The running harness."""
        if self._host is None:
            raise RuntimeError("call start() first")
        return self._host

    @property
    def steps_left(self) -> int:
        """Messages left before the benchmark's step limit."""
        return max(0, self.max_steps - len(self.context))

    def _safely(self, hook: str, run: Callable[[], T], otherwise: T, tool: str = "") -> T:
        """Run a hook; a fault is recorded and the trial goes on unharnessed."""
        if not self.host.has(hook):
            return otherwise
        try:
            return run()
        except HarnessFault as fault:
            self._note("fault", hook, rule=fault.kind, tool=tool, reason=str(fault))
            return otherwise

    def _note(self, action: str, hook: str, **what: Any) -> None:
        self.interventions.append(Intervention(len(self.context), hook, action, **what))

    def _described(self, tool: dict[str, Any]) -> dict[str, Any]:
        return self._safely("describe", lambda: self.host.describe(tool), tool, tool["name"])

    def _open(self, opening: str) -> None:
        brief = self._safely("brief", lambda: self.host.brief(opening), "")
        self._system = self.benchmark.system_prompt + (
            f"\n<skills>\n{brief.strip()}\n</skills>" if brief.strip() else ""
        )
        self._tools = [{k: t[k] for k in ("name", "description", "parameters")} for t in self._tools]
        plain = [{k: t[k] for k in ("name", "description", "parameters")} for t in self.benchmark.tools]
        visible = json.dumps([self._system, self._tools], sort_keys=True)
        before = json.dumps([self.benchmark.system_prompt, plain], sort_keys=True)
        self.shown, self.bare = (hashlib.sha256(text.encode()).hexdigest() for text in (visible, before))
        self.harness_tokens = max(0, len(visible) - len(before)) // 4

    def _observed(self, result: Message) -> Message:
        call = self._pending.pop(result.call_id, Call(result.name, {}, result.call_id))
        text = result.content or ""
        done = Done(call, text, result.error)
        self.host.add_done(done)
        note = self._noted(done)
        extra = [self._rewritten.pop(call.id, "")]
        if note:
            self._note("annotate", "observe", tool=call.name, reason=note)
            extra.append(NOTE + note)
        return replace(result, content="\n".join([text, *[e for e in extra if e]]))

    def _noted(self, done: Done) -> str | None:
        """The harness's note on the call added last."""
        act = partial(self.host.observe, done.call, done.result, self.steps_left)
        return self._safely("observe", act, None, done.call.name)

    def _see(self, message: Message) -> None:
        self.context.append(message)
        if message.role in ("user", "assistant") and message.content:
            self.host.add_message(message.role, message.content)

    # -- one turn ----------------------------------------------------------------------------------------------

    def _turn(self) -> Message:
        """Ask the model until it gives something the harness lets through."""
        malformed = refused = 0
        while True:
            answer = self._ask()
            message = Message("assistant", self._said(answer), self._with_ids(answer.calls))
            message, verdicts = self._judged(message)
            if answer.malformed and not message.calls:
                malformed += 1
                self._send_back(answer, message, verdicts, malformed)
                continue
            if not any(isinstance(v, Refuse) for v in verdicts):
                sent = self._let_through(message, verdicts)
                if answer.malformed and answer.calls:  # they lose only themselves
                    last = sent.calls[-1].id
                    told = [self._rewritten.get(last, ""), MALFORMED_NOTE + self._malformed(answer)]
                    self._rewritten[last] = "\n".join(text for text in told if text)
                return sent
            refused += 1
            if self._count_refusal(message) > MAX_REFUSALS_IN_A_ROW or refused > MAX_REFUSALS_PER_TURN:
                self._note(
                    "pass_through", self._hook(message), tool=message.calls[0].name if message.calls else ""
                )
                return self._let_through(message, [Allow() for _ in verdicts])
            self._refuse(message, verdicts)

    def _send_back(
        self, answer: Completion, message: Message, verdicts: Sequence[Verdict], times: int
    ) -> None:
        """Nothing but malformed calls, which the harness did not realize: told by its rule, or by ours."""
        if times > MAX_MALFORMED:
            why = f"{self.model} gave no valid tool call in {times} attempts"
            raise self._outcome(ContentError(why, "malformed"))
        if any(isinstance(v, Refuse) for v in verdicts):
            self._refuse(message, verdicts)
            return
        self._see_unsent(message)
        self.context.append(Message("user", f"[system] {self._malformed(answer)}"))

    def _ask(self) -> Completion:
        messages, tools = self.prompt()
        try:
            answer = complete(
                "agent",
                self.model,
                messages,
                tools,
                params=self.params,
                seed=self.seed,
                metadata=self.metadata,
                budget=self.budget,
            )
        except LLMError as why:
            self.usage += why.usage  # an answer that cannot be used was paid for all the same
            if isinstance(why, TemplateError) and self._fold_greeting():
                return self._ask()
            if isinstance(why, ContentError):
                self._outcome(why)
            raise
        self.usage += answer.usage
        return answer

    def _outcome(self, why: ContentError) -> ContentError:
        self.ended = f"{why.reason}: {why}"
        return why

    def _fold_greeting(self) -> bool:
        """Quote the greeting in the user's first turn, for a template that cannot open with the assistant."""
        opening = self.context[:2]
        if [m.role for m in opening] != ["assistant", "user"] or opening[0].calls:
            return False
        quoted = f"{GREETED}{opening[0].content}{GREETING_ENDS}"
        self.context[:2] = [Message("user", f"{quoted}{opening[1].content}")]
        return True

    def _with_ids(self, calls: Sequence[Call]) -> tuple[Call, ...]:
        """Calls with ids unique within the trial (models repeat or omit them)."""
        taken = {c.id for m in self.context for c in m.calls}
        out = []
        for n, call in enumerate(calls):
            fine = call.id and call.id not in taken
            out.append(call if fine else replace(call, id=f"call_{len(self.context)}_{n}"))
            taken.add(out[-1].id)
        return tuple(out)

    @staticmethod
    def _hook(message: Message) -> str:
        return "check" if message.calls else "on_reply"

    def _judge(self, message: Message) -> list[Verdict]:
        left, text, passed = self.steps_left, message.content or "", cast(Verdict, Allow())
        if message.calls:
            return [
                self._safely("check", partial(self.host.check, c, left), passed, c.name)
                for c in message.calls
            ]
        return [self._safely("on_reply", partial(self.host.on_reply, text, left), passed)]

    def _judged(self, message: Message) -> tuple[Message, list[Verdict]]:
        """The message, with the calls that its text was realized as, and the verdicts on what it is then."""
        verdicts = self._judge(message)
        meant = verdicts[0]
        if not isinstance(meant, Realize):
            return message, verdicts
        calls = self._with_ids(meant.calls)
        after = [{"name": c.name, "arguments": c.arguments} for c in calls]
        self._note(
            "realize", "on_reply", rule=meant.rule, tool=calls[0].name, before=message.content, after=after
        )
        message = replace(message, calls=calls)
        return message, self._judge(message)

    def _count_refusal(self, message: Message) -> int:
        """How often in a row this very message has been refused, this time included."""
        key = " | ".join(tool_key(c) for c in message.calls) or (message.content or "")
        last, count = self._refused
        self._refused = (key, count + 1 if key == last else 1)
        return self._refused[1]

    def _refuse(self, message: Message, verdicts: Sequence[Verdict]) -> None:
        """Tell the model why nothing of its message was executed or sent."""
        self._see_unsent(message)
        hook = self._hook(message)
        for n, verdict in enumerate(verdicts):
            call = message.calls[n] if message.calls else None
            said = "another call of the same message was refused; send this one again if it still applies."
            if isinstance(verdict, Refuse):
                said = f"{verdict.reason} {verdict.option}"
                self._note("refuse", hook, rule=verdict.rule, tool=call.name if call else "", reason=said,
                           before=call.arguments if call else message.content)  # fmt: skip
            if call is not None:
                self.context.append(Message("tool", REFUSED + said, call_id=call.id, name=call.name))
            else:
                self.context.append(Message("user", REPLY_STOPPED + said))

    def _see_unsent(self, message: Message) -> None:
        """Into the model's context only: the harness view and the environment keep what really happened."""
        self.context.append(message)

    @staticmethod
    def _said(answer: Completion) -> str | None:
        """The text of an answer; one that holds malformed calls alone is shown with the first of them."""
        if not answer.malformed or answer.calls:
            return answer.text
        name, raw = answer.malformed[0]
        written = "" if answer.finish == "salvaged" else f"{name}({raw[:400]})"  # else it is in the text
        return f"{answer.text or ''}\n{written}".strip()[:MOST_SHOWN]

    def _malformed(self, answer: Completion) -> str:
        """What was wrong with the calls that were not executed."""
        known = {tool["name"] for tool in self._tools}
        so = f"so {'it was not' if answer.calls else 'nothing was'} executed."
        wrong = []
        for name in dict.fromkeys(name for name, _ in answer.malformed):
            if not name:
                wrong.append(f"no name with arguments as one JSON object came, {so} Call a tool by its name.")
            elif name not in known:
                wrong.append(f"there is no tool {name}, {so} Call one that there is.")
            else:
                wrong.append(f"the arguments of {name} are not one JSON object, {so} Call it again.")
        return " ".join(wrong)

    def _let_through(self, message: Message, verdicts: Sequence[Verdict]) -> Message:
        """Apply rewrites; the model's context keeps its own words, the environment gets the canonical form."""
        sent = self._rewrite(message, verdicts)
        self.context.append(message)
        self._refused = ("", 0)
        for call in sent.calls:
            self._pending[call.id] = call
        if sent.content and not sent.calls:
            self.host.add_message("assistant", sent.content)
        return sent

    def _rewrite(self, message: Message, verdicts: Sequence[Verdict]) -> Message:
        calls = list(message.calls)
        for n, verdict in enumerate(verdicts):
            if not isinstance(verdict, Rewrite):
                continue
            if calls and verdict.arguments is not None and verdict.arguments != calls[n].arguments:
                before, calls[n] = calls[n], replace(calls[n], arguments=verdict.arguments)
                self._rewritten[calls[n].id] = (
                    f"{REWRITTEN}{json.dumps(verdict.arguments, ensure_ascii=False)}"
                )
                self._note("rewrite", "check", rule=verdict.rule, tool=before.name, before=before.arguments,
                           after=verdict.arguments)  # fmt: skip
            elif not calls and verdict.text and verdict.text != message.content:
                self._note(
                    "rewrite", "on_reply", rule=verdict.rule, before=message.content, after=verdict.text
                )
                return replace(message, content=verdict.text)
        return replace(message, calls=tuple(calls))
