"""The two sides of a τ² conversation: our agent inside its orchestrator, and its own user simulator, metered.

Imported only after tau2 itself is (see :mod:`ecdysis_lab.benchmarks.tau2`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from tau2.agent.base import LocalAgent
from tau2.data_model.message import AssistantMessage, MultiToolMessage, ToolCall, ToolMessage, UserMessage
from tau2.user.user_simulator import UserSimulator
from tau2.utils.llm_utils import to_litellm_messages

from ecdysis_lab.benchmarks.tau2.env import only_read
from ecdysis_lab.benchmarks.users import UserSpec
from ecdysis_lab.hooks import Call
from ecdysis_lab.models import ContentError, LLMError, complete
from ecdysis_lab.records import Agent, Completion, Message


class UserFailed(Exception):
    """The user model gave nothing that can be said: a user fault, not the agent's failure."""


class MeteredUser(UserSimulator):  # type: ignore[misc]
    """τ²'s user simulator, its prompts and state untouched; the model call is :func:`ecdysis_lab.models.complete`."""

    def __init__(self, spec: UserSpec, instructions: str, tools: Any = None) -> None:
        super().__init__(tools=tools, instructions=instructions, llm=spec.model, llm_args={})
        self.spec = spec

    def _generate_next_message(self, message: Any, state: Any) -> tuple[UserMessage, Any]:
        if isinstance(message, MultiToolMessage):
            state.messages.extend(message.tool_messages)
        else:
            state.messages.append(message)
        prompt = to_litellm_messages(state.system_messages + state.flip_roles())
        said = self._ask(prompt)
        calls = [ToolCall(id=c.id, name=c.name, arguments=c.arguments, requestor="user") for c in said.calls]
        reply = UserMessage(role="user", content=said.text, tool_calls=calls or None, cost=0.0)
        state.messages.append(reply)
        return reply, state

    def _ask(self, prompt: list[dict[str, Any]]) -> Completion:
        prompt = [{k: v for k, v in m.items() if v is not None} for m in prompt]
        try:
            answer = complete(
                "user",
                self.spec.model,
                prompt,
                [tool.openai_schema for tool in self.tools] if self.tools else None,
                params=self.spec.params,
                seed=self.llm_args.get("seed"),
                metadata=self.spec.metadata,
                budget=self.spec.budget,
            )
        except LLMError as why:
            self.spec.usage += why.usage  # an answer that cannot be used was paid for all the same
            if isinstance(why, ContentError):
                raise UserFailed(f"the user model gave no usable message: {why}") from why
            raise
        self.spec.usage += answer.usage
        if self.tools and answer.malformed:  # he would say that he did it
            raise UserFailed("the user model wrote a call that cannot be read")
        if not answer.text and not (self.tools and answer.calls):
            raise UserFailed("the user model answered without text")
        return answer if self.tools else replace(answer, calls=())


class SeatedAgent(LocalAgent):  # type: ignore[type-arg, misc]
    """Our agent in the τ² agent's seat; translates messages and nothing else."""

    def __init__(self, agent: Agent, tools: list[Any], domain_policy: str) -> None:
        super().__init__(tools=tools, domain_policy=domain_policy)
        self.agent = agent
        self.calls: dict[str, str] = {}

    def get_init_state(self, message_history: Any = None) -> Any:
        """The conversation lives in our agent; τ² needs no state of its own."""
        return None

    def set_seed(self, seed: int) -> None:
        """The trial already carries the seed."""

    def generate_next_message(self, message: Any, state: Any) -> tuple[AssistantMessage, Any]:
        """Hand the user's text or the tool results to our agent and translate its answer."""
        if isinstance(message, UserMessage):
            reply = self.agent.user_says(message.content or "")
        else:
            results = message.tool_messages if isinstance(message, MultiToolMessage) else [message]
            reply = self.agent.tools_return([self._from_tool(m) for m in results])
        calls = [ToolCall(id=c.id, name=c.name, arguments=c.arguments) for c in reply.calls] or None
        self.calls |= {c.id: c.name for c in reply.calls}
        return AssistantMessage(role="assistant", content=reply.content, tool_calls=calls, cost=0.0), state

    def _from_tool(self, message: ToolMessage) -> Message:
        return Message(
            "tool",
            message.content,
            call_id=message.id,
            name=self.calls.get(message.id, ""),
            error=message.error,
        )


def from_tau2(messages: list[Any]) -> tuple[Message, ...]:
    """τ² messages as records; tool names are joined from the calls, whose ids both sides may count from the same."""
    names: dict[str, str] = {}
    out = []
    for m in messages:
        if isinstance(m, ToolMessage):
            answers = _own_id(m)
            out.append(
                Message("tool", m.content, call_id=answers, name=names.get(answers, ""), error=m.error)
            )
            continue
        calls = tuple(Call(c.name, c.arguments, _own_id(c)) for c in m.tool_calls or ())
        names |= {c.id: c.name for c in calls}
        out.append(Message(m.role, m.content, calls))
    return tuple(out)


def _own_id(call: Any) -> str:
    return f"user_{call.id}" if call.requestor == "user" else call.id  # type: ignore[no-any-return]


@dataclass
class LiveEnvironment:
    """A τ² environment behind the :class:`ecdysis_lab.records.Environment` protocol."""

    environment: Any
    serial: int = 0

    def call(self, call: Call) -> tuple[str, bool]:
        """Execute a call as the orchestrator does; returns (result text, error)."""
        return self._respond(call, "assistant")

    def user_call(self, call: Call) -> tuple[str, bool]:
        """The same for a call that the user makes with a tool of his own."""
        return self._respond(call, "user")

    def _respond(self, call: Call, requestor: str) -> tuple[str, bool]:
        self.serial += 1
        made = call.id or f"replay{self.serial}"
        answer = self.environment.get_response(
            ToolCall(id=made, name=call.name, arguments=call.arguments, requestor=requestor)
        )
        return answer.content or "", bool(answer.error)

    def read(self, tool: str, arguments: dict[str, Any]) -> Any:
        """A read-only tool off the record; parsed data, or None on an error."""
        toolkit = self.environment.tools
        if not toolkit.has_tool(tool) or toolkit.tool_type(tool).value != "read":
            raise PermissionError(f"{tool!r} is no read-only tool")
        with only_read(toolkit.db):
            try:
                answer = self.environment.make_tool_call(tool, **arguments)
            except Exception:  # noqa: BLE001 - as in get_response, which also logs each answer
                return None
            text = self.environment.to_json_str(answer)
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
