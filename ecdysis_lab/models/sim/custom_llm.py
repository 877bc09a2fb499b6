"""The LiteLLM custom handler: real requests in, real ``ModelResponse`` out."""

from __future__ import annotations

import json
from typing import Any

import litellm
from litellm import CustomLLM
from litellm.types.utils import (
    ChatCompletionMessageToolCall,
    Choices,
    Function,
    Message,
    ModelResponse,
    Usage,
)

from ecdysis_lab.hooks import Call
from ecdysis_lab.models.sim import reviewer, user
from ecdysis_lab.models.sim.profiles import PROFILES
from ecdysis_lab.models.sim.provider import agent_act, user_plan


class SimLLM(CustomLLM):
    """Answers for ``sim/<profile>``, ``sim/user`` and ``sim/reviewer``."""

    def completion(self, model: str, messages: list[Any], *args: Any, **kwargs: Any) -> ModelResponse:
        """One answer.

        Raises
        ------
        litellm.BadRequestError: unknown profile, or an agent profile asked without a benchmark task.
        """
        options = kwargs.get("optional_params") or {}
        metadata = (kwargs.get("litellm_params") or {}).get("metadata") or {}
        if model == "user":
            tools = options.get("tools") or []
            act: Any = user.reply(messages, tools, user_plan(metadata) if tools else ())
        elif model == "reviewer":
            act = reviewer.reply(messages)
        elif model in PROFILES:
            if "task_id" not in metadata:
                raise _bad(model, "plays benchmark tasks only; it was asked without one")
            request = {"messages": messages, "tools": options.get("tools") or [], "metadata": metadata}
            act = agent_act(model, {**request, "seed": int(options.get("seed") or 0)})
        else:
            raise _bad(
                model, f"is no simulated model; choose one of {', '.join([*PROFILES, 'user', 'reviewer'])}"
            )
        return _response(model, messages, options.get("tools"), act)


def _bad(model: str, what: str) -> Exception:
    return litellm.BadRequestError(message=f"sim/{model} {what}", model=f"sim/{model}", llm_provider="sim")


def _response(model: str, messages: list[Any], tools: Any, act: str | Call) -> ModelResponse:
    calls = None
    if isinstance(act, Call):
        function = Function(name=act.name, arguments=json.dumps(act.arguments))
        turn = sum(m["role"] == "assistant" for m in messages)
        calls = [ChatCompletionMessageToolCall(id=f"call_{turn}", function=function, type="function")]
    text = None if calls else str(act)
    prompt = (len(json.dumps(messages)) + len(json.dumps(tools or []))) // 4
    answer = max(1, len(json.dumps(act.arguments) if isinstance(act, Call) else str(act)) // 4)
    return ModelResponse(
        model=f"sim/{model}",
        choices=[
            Choices(
                finish_reason="tool_calls" if calls else "stop",
                message=Message(role="assistant", content=text, tool_calls=calls),
            )
        ],
        usage=Usage(prompt_tokens=prompt, completion_tokens=answer, total_tokens=prompt + answer),
    )
