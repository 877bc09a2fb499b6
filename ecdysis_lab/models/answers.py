"""From a provider's response to a ``Completion``, and from records to OpenAI messages.

Small models put tool calls into fences, tags or bare JSON, and argument texts that are no JSON. They are told
apart here, so that the agent sees calls, text, or a malformed call by name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from ecdysis_lab.hooks import Call
from ecdysis_lab.models.errors import ContentError, EmptyAnswer
from ecdysis_lab.records import Completion, Message, Usage

_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.S)
_TAG = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.S)
_FENCE = re.compile(r"```(?:json|tool_call)?[ \t]*\n?(.*?)```", re.S)
CHARACTERS_PER_TOKEN = 4


def read(response: Any, request: dict[str, Any], usage: Usage) -> Completion:
    """A LiteLLM response as a ``Completion``.

    Parameters
    ----------
    response : LiteLLM's ``ModelResponse``.
    request : what was asked; ``tools`` and ``messages`` are looked at.
    usage : what the answer cost.

    Raises
    ------
    ContentError: a refusal; ``EmptyAnswer`` when there is neither text nor a call.
    """
    model, choice = request["model"], response.choices[0]
    message, finish = choice.message, str(choice.finish_reason or "")
    refusal = (getattr(message, "provider_specific_fields", None) or {}).get("refusal")
    if finish == "content_filter" or refusal:
        raise ContentError(f"{model}: the model refused ({refusal or finish})")
    text = without_thoughts(message.content or "")
    calls, malformed = _native(message.tool_calls or [], len(request["messages"]))
    if not calls and not malformed and request.get("tools"):
        names = {tool["function"]["name"] for tool in request["tools"]}
        calls, malformed, rest = salvage(text, names, len(request["messages"]))
        if calls or malformed:
            finish, text = "salvaged", rest
    if not (text or calls or malformed):
        raise EmptyAnswer(f"{model}: empty answer (finish reason {finish or 'none'})")
    return Completion(text or None, tuple(calls), tuple(malformed), finish, usage)


def usage_of(response: Any, request: dict[str, Any], seconds: float) -> Usage:
    """Tokens and cost of a response. Without the server's count, tokens are estimated as characters / 4."""
    counted = getattr(response, "usage", None)
    prompt = int(getattr(counted, "prompt_tokens", 0) or 0)
    answer = int(getattr(counted, "completion_tokens", 0) or 0)
    estimated = not prompt and not answer
    if estimated:
        shown = json.dumps([request["messages"], request.get("tools")], default=str)
        said = "".join(c.message.model_dump_json() for c in response.choices)
        prompt, answer = len(shown) // CHARACTERS_PER_TOKEN, len(said) // CHARACTERS_PER_TOKEN
    cost = None if estimated else (getattr(response, "_hidden_params", None) or {}).get("response_cost")
    if request["model"].startswith("sim/"):
        cost = 0.0
    elif not cost and "input_cost_per_token" not in request:
        cost = None  # LiteLLM's table has zeros where a price is unknown
    return Usage(1, prompt, answer, cost, seconds, 1)


def without_thoughts(text: str) -> str:
    """Text without ``<think>`` blocks, closed or not; or what follows a ``</think>`` alone."""
    text = _THOUGHT.sub("", text)
    return text.rpartition("</think>")[2].strip()


def _call_id(turn: int, index: int, name: str, arguments: str) -> str:
    """A call id that the same answer always gets again, and that two turns do not share."""
    return "call_" + hashlib.sha256(f"{turn}|{index}|{name}|{arguments}".encode()).hexdigest()[:12]


def _native(tool_calls: Iterable[Any], turn: int) -> tuple[list[Call], list[tuple[str, str]]]:
    calls, malformed = [], []
    for index, item in enumerate(tool_calls):
        name, raw = str(item.function.name or ""), item.function.arguments
        arguments = _object(raw)
        if arguments is None or not name:
            malformed.append((name, str(raw)))
        else:
            calls.append(Call(name, arguments, item.id or _call_id(turn, index, name, str(raw))))
    return calls, malformed


def _object(raw: Any) -> dict[str, Any] | None:
    """A JSON object from argument text; empty text is no arguments; double quoting is undone."""
    for _ in range(2):
        if isinstance(raw, str):
            try:
                raw = json.loads(raw or "{}")
            except json.JSONDecodeError:
                return None
    return raw if isinstance(raw, dict) else None


def salvage(text: str, names: set[str], turn: int = 0) -> tuple[list[Call], list[tuple[str, str]], str]:
    """Tool calls that a model wrote as text, malformed ones, and the text around them.

    Tags may stand inside prose; a fence or bare JSON counts only when it is the whole text: an agent may
    well show JSON to a user. Calls of tools not in ``names`` stay text.
    """
    nothing: tuple[list[Call], list[tuple[str, str]], str] = ([], [], text)
    blocks, rest, tagged = _TAG.findall(text), _TAG.sub("", text).strip(), True
    if not blocks:
        tagged, blocks, rest = False, _FENCE.findall(text), _FENCE.sub("", text).strip()
        if not blocks and text.startswith(("{", "[")):
            blocks, rest = [text], ""
        if not blocks or rest:
            return nothing
    calls: list[Call] = []
    malformed: list[tuple[str, str]] = []
    for block in blocks:
        for value in _values(block) or [None]:
            name, arguments = _named(value)
            if value is None and tagged:
                guess = re.search(r'"name"\s*:\s*"([^"]*)"', block)
                malformed.append((guess.group(1) if guess else "", block))
            elif name not in names:
                return nothing
            elif arguments is None:
                malformed.append((name, block))
            else:
                calls.append(Call(name, arguments, _call_id(turn, len(calls), name, block)))
    return calls, malformed, rest


def _values(block: str) -> list[Any]:
    """The JSON values that stand one after the other in a block; nothing if anything else does."""
    decoder, values, block = json.JSONDecoder(), [], block.strip()
    while block:
        try:
            value, end = decoder.raw_decode(block)
        except json.JSONDecodeError:
            return []
        values += value if isinstance(value, list) else [value]
        block = block[end:].lstrip(" \t\r\n,")
    return values


def _named(value: Any) -> tuple[str, dict[str, Any] | None]:
    """Tool name and arguments of a call in one of the usual forms; an empty name when it is none."""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return "", None
    key = next((k for k in ("arguments", "parameters") if k in value), None)
    return (value["name"], _object(value[key])) if key else ("", None)


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
