"""Answers in OpenAI's form, put right: every field of the kind that the protocol says, and the error that they hold."""

from __future__ import annotations

import json
from typing import Any

from ecdysis_lab.store.foreign import ForeignText, clean, parse_json

FAILED = 502
MOST_TOKENS = 10**9


def status_of(code: Any) -> int:
    """An error's own HTTP status where it names one."""
    text = str(code or "")
    return int(text) if text in map(str, range(400, 600)) else FAILED


def said_in(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def problem_of(value: Any) -> dict[str, Any]:
    """The error that an answer holds, whatever its form; empty where it holds none."""
    if not isinstance(value, dict):
        return {}
    choices = value.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    found = value.get("error") or first.get("error")
    if not found and first.get("finish_reason") in ("error", "network_error"):
        return {"message": "the provider failed while it answered", "code": FAILED}
    if not found and not first and "choices" in value:
        found = "the server's answer holds no choice"
    if isinstance(found, dict):
        inner = {**value, **found}  # Groq puts failed_generation inside, others beside
        return inner if any(found.get(key) for key in ("message", "code", "type")) else {}
    return {**value, "message": said_in(found)} if found else {}


def plain_problem(value: Any) -> dict[str, Any]:
    """An error body that has no ``error`` in it."""
    words = value if isinstance(value, dict) else {}
    found = next((words[key] for key in ("message", "detail", "error_message") if words.get(key)), value)
    return {**words, "message": said_in(found) if found else ""}


def completion(body: dict[str, Any]) -> dict[str, Any]:
    """A chat completion with every field of the kind that OpenAI's protocol says."""
    kept = {name: value for name, value in body.items() if isinstance(value, str) and name != "usage"}
    usage = _usage(body.get("usage"))
    choices = [_choice(n, c) for n, c in enumerate(body["choices"]) if isinstance(c, dict)]
    made = {**kept, "object": "chat.completion", "created": 0, "choices": choices}
    return made | ({"usage": usage} if usage else {})


def _choice(index: int, choice: dict[str, Any]) -> dict[str, Any]:
    finish = choice.get("finish_reason")
    native = choice.get("native_finish_reason")
    raw = choice.get("message")
    message = raw if isinstance(raw, dict) else {"content": raw}
    said: dict[str, Any] = {"role": "assistant", "content": _text(message.get("content"))}
    for name in ("reasoning_content", "reasoning", "refusal"):
        if message.get(name):
            said[name] = said_in(message[name])
    calls = message.get("tool_calls") or []
    calls = calls if isinstance(calls, list) else [calls]
    if message.get("function_call"):
        calls = [*calls, {"function": message["function_call"]}]
    if calls:
        said["tool_calls"] = [_call(call) for call in calls]
    out = {"index": index, "message": said, "finish_reason": finish if isinstance(finish, str) else "stop"}
    return out | ({"native_finish_reason": native} if isinstance(native, str) else {})


def _text(content: Any) -> str | None:
    """Text of a message: parts are joined, thoughts among them left out."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [p if isinstance(p, str) else p.get("text") for p in content if isinstance(p, (str, dict))]
        return "\n".join(p for p in parts if isinstance(p, str))
    return said_in(content)


def _call(call: Any) -> dict[str, Any]:
    """A tool call with texts where texts belong; arguments that are no JSON are quoted, so that they pass whole."""
    function = (
        call.get("function") or call.get("custom") or call if isinstance(call, dict) else {"arguments": call}
    )
    function = function if isinstance(function, dict) else {"arguments": function}
    raw = function.get("arguments", function.get("input"))
    arguments = "" if raw is None else said_in(raw)
    try:
        parse_json(arguments or "{}")
    except ForeignText:
        arguments = json.dumps(clean(arguments))
    name, id = function.get("name"), call.get("id") if isinstance(call, dict) else None
    return {
        "id": id if isinstance(id, str) else "",
        "type": "function",
        "function": {"name": name if isinstance(name, str) else "", "arguments": arguments},
    }


def _usage(usage: Any) -> dict[str, Any] | None:
    """Counts that can be counts; None where the two that matter are missing or make no sense."""
    if not isinstance(usage, dict):
        return None
    kept = {name: value for name, value in usage.items() if countable(value)}
    for name, value in usage.items():
        if isinstance(value, dict):
            kept[name] = {key: inner for key, inner in value.items() if countable(inner)}
    both = ("prompt_tokens", "completion_tokens")
    if not all(isinstance(kept.get(name), int) for name in both):
        return None
    return kept | {"total_tokens": kept["prompt_tokens"] + kept["completion_tokens"]}


def countable(value: Any) -> bool:
    """Whether a value can be a count of tokens or a price."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS
