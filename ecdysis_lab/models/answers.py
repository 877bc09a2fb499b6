"""From a provider's response to a ``Completion``, and from records to OpenAI messages.

What a model says is foreign text: it is cleaned here, keys are hidden, and a call that cannot be one is malformed by
name, so that the agent sees calls, text, or what to tell the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ecdysis_lab.hooks import Call
from ecdysis_lab.models.errors import ContentError, EmptyAnswer
from ecdysis_lab.models.forms import Tools, arguments_of
from ecdysis_lab.models.protocol import countable
from ecdysis_lab.models.salvage import call_id, salvage
from ecdysis_lab.records import Completion, Message, Usage
from ecdysis_lab.store.foreign import MAX_CHARS, clean
from ecdysis_lab.store.secrets import hide

_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.S)
_NAME = re.compile(r"[\w.:-]{1,64}")
_ID = re.compile(r"[!-~]{1,64}")
_BROKEN_CALL = ("MALFORMED_FUNCTION_CALL", "malformed_function_call")
CHARACTERS_PER_TOKEN = 4
LONGEST_SAID = 200_000  # by who has tools; an answer of a reviewer or editor may be longer
MOST_CALLS = 128


def read(response: Any, request: dict[str, Any], usage: Usage) -> Completion:
    """A LiteLLM response as a ``Completion``.

    Parameters
    ----------
    response : LiteLLM's ``ModelResponse``.
    request : what was asked; ``tools``, ``messages`` and ``api_base`` are looked at.
    usage : what the answer cost.

    Raises
    ------
    ContentError: a refusal; ``EmptyAnswer`` when there is neither text nor a call.
    """
    model, choice, turn = request["model"], response.choices[0], len(request["messages"])
    message, finish = choice.message, str(choice.finish_reason or "")
    native = (getattr(choice, "provider_specific_fields", None) or {}).get("native_finish_reason")
    refusal = getattr(message, "refusal", None) or _extra(message).get("refusal")
    if finish == "content_filter" or (refusal and not message.content):
        raise ContentError(
            f"{model}: the model refused ({safe(refusal or finish, request)[:300]})", "refusal"
        )
    said = safe(message.content or "", request)
    text = without_thoughts(said)
    calls, malformed = _native(message.tool_calls or [], turn, request)
    if not calls and not malformed and request.get("tools"):
        found = salvage(text, _tools(request), turn)
        calls, malformed = found.calls, found.malformed
        if found:  # malformed calls alone: its own words stay whole, so that it reads what it wrote
            finish, text = "salvaged", found.rest if calls else text
    malformed += [(call.name, "too many calls in one message") for call in calls[MOST_CALLS:]][:1]
    if not (text or calls or malformed) and native in _BROKEN_CALL:
        malformed = [("", "")]
    if not (text or calls or malformed):
        thought = bool(said.strip() or getattr(message, "reasoning_content", None))
        what = "nothing but reasoning" if thought else "empty answer"
        raise EmptyAnswer(
            f"{model}: {what} (finish reason {finish or 'none'})", "reasoning_only" if thought else "empty"
        )
    return Completion(text or None, tuple(calls[:MOST_CALLS]), tuple(malformed), finish, usage)


def _extra(message: Any) -> dict[str, Any]:
    return getattr(message, "provider_specific_fields", None) or {}


def safe(said: Any, request: dict[str, Any]) -> str:
    """A model's text, printable, of bounded size and without keys."""
    text = said if isinstance(said, str) else json.dumps(said, default=str)
    return hide(clean(text, LONGEST_SAID if request.get("tools") else MAX_CHARS), request.get("api_base"))


def _tools(request: dict[str, Any]) -> Tools:
    functions = [tool["function"] for tool in request["tools"]]
    return {f["name"]: (f.get("parameters") or {}).get("properties") or {} for f in functions}


def usage_of(response: Any, request: dict[str, Any], seconds: float) -> Usage:
    """Tokens and cost of a response. Without a count of the server's that can be one, characters / 4."""
    counted = getattr(response, "usage", None)
    prompt = _count(getattr(counted, "prompt_tokens", 0))
    answer = _count(getattr(counted, "completion_tokens", 0))
    estimated = not prompt and not answer
    if estimated:
        said = sum(_length(c.message) for c in response.choices)
        prompt, answer = prompt_estimate(request), said // CHARACTERS_PER_TOKEN
    cost = None if estimated else (getattr(response, "_hidden_params", None) or {}).get("response_cost")
    if request["model"].startswith("sim/"):
        cost = 0.0
    elif not cost and "input_cost_per_token" not in request:
        cost = None  # LiteLLM's table has zeros where a price is unknown
    return Usage(1, prompt, answer, cost, seconds, 1)


def prompt_estimate(request: dict[str, Any]) -> int:
    """Tokens of a request: characters / 4."""
    shown = json.dumps([request["messages"], request.get("tools")], default=str)
    return len(shown) // CHARACTERS_PER_TOKEN


def _count(value: Any) -> int:
    return int(value) if countable(value) else 0


def _length(message: Any) -> int:
    calls = [call.function.arguments for call in message.tool_calls or ()]
    said = [message.content, getattr(message, "reasoning_content", None), *calls]
    return sum(len(str(part or "")) for part in said)


def without_thoughts(text: str) -> str:
    """Text without ``<think>`` blocks, closed or not; or what follows a ``</think>`` alone."""
    text = _THOUGHT.sub("", text)
    return text.rpartition("</think>")[2].strip()


def _native(
    tool_calls: Iterable[Any], turn: int, request: dict[str, Any]
) -> tuple[list[Call], list[tuple[str, str]]]:
    """Calls in the protocol's own field: what no server would take back is malformed."""
    calls: list[Call] = []
    malformed: list[tuple[str, str]] = []
    for index, item in enumerate(tool_calls):
        function = getattr(item, "function", None) or getattr(item, "custom", None)
        raw = getattr(function, "arguments", None) or getattr(function, "input", None) or ""
        name = safe(getattr(function, "name", None) or "", request)
        written = safe(raw, request)
        arguments, shown = arguments_of(written), _unquoted(written)
        if arguments is None or not _NAME.fullmatch(name):
            malformed.append((name[:64], shown))
            continue
        known = isinstance(item.id, str) and _ID.fullmatch(item.id)
        calls.append(Call(name, arguments, item.id if known else call_id(turn, index, name, shown)))
    return calls, malformed


def _unquoted(raw: str) -> str:
    """Argument text as the model wrote it: broken text arrives quoted (see ``models.wire``)."""
    try:
        inner = json.loads(raw) if raw.startswith('"') else raw
    except ValueError:
        return raw
    return inner if isinstance(inner, str) else raw


def to_openai(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Records as OpenAI chat messages."""
    out: list[dict[str, Any]] = []
    for message in messages:
        item: dict[str, Any] = {"role": message.role, "content": message.content or ""}
        if message.role == "tool":
            item |= {"tool_call_id": message.call_id, "name": message.name}
        if message.calls:
            item["content"] = message.content
            item["tool_calls"] = [
                {
                    "id": c.id,
                    "type": "function",
                    "function": {"name": c.name, "arguments": _text(c.arguments)},
                }
                for c in message.calls
            ]
        out.append(item)
    return out


def _text(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False)
