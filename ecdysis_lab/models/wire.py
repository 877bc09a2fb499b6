"""Between LiteLLM and the network: the request as we made it, and the answer before LiteLLM reads it.

LiteLLM sends some conversations again with blank turns, drops tools that it thinks unsupported, turns a provider's
failure into a finish reason ``stop`` and breaks on answers that are not as OpenAI's. Here the body that leaves is
compared with the one that was made, and a body in OpenAI's form is put right before LiteLLM sees it.
"""

from __future__ import annotations

import contextvars
import http.cookiejar
import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx

from ecdysis_lab.store.foreign import ForeignText, clean, parse_json

LONGEST_ANSWER_BYTES = 32_000_000
LONGEST_CONNECT_SECONDS = 10.0
LONGEST_DETAIL = 4000
MOST_TOKENS = 10**9
_FAILED = 502
_answered: set[str] = set()


@dataclass
class Exchange:
    """What one call of LiteLLM sent and got; the wire fills it in.

    Parameters
    ----------
    messages, tools : as they were made.
    status, code, detail : the server's last error, 0 and empty where there was none.
    generated : what the model had written when the provider gave up on it.
    altered : how LiteLLM changed the request; it was not sent then.
    silent : nothing has ever answered at this address, and nothing took the connection.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = field(default_factory=list)
    status: int = 0
    code: str = ""
    detail: str = ""
    generated: str = ""
    altered: str = ""
    silent: bool = False


current: contextvars.ContextVar[Exchange | None] = contextvars.ContextVar("exchange", default=None)


class Wire(httpx.Client):
    """The HTTP client that LiteLLM is given."""

    def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        """Send a request that is as we made it; the answer comes back readable."""
        exchange = current.get()
        if exchange is None or stream or request.method != "POST":
            return super().send(request, stream=stream, **options)
        exchange.altered = alteration(request, exchange)
        if (
            exchange.altered or exchange.status
        ):  # LiteLLM has its own ideas after a failure; we retry ourselves
            raise httpx.UnsupportedProtocol(exchange.altered or "not sent again", request=request)
        limits = request.extensions.get("timeout") or {}
        limits["connect"] = min(limits.get("connect") or LONGEST_CONNECT_SECONDS, LONGEST_CONNECT_SECONDS)
        host = request.url.netloc.decode("ascii", "replace")
        try:
            response = super().send(request, stream=True, **options)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            exchange.silent = host not in _answered
            raise
        _answered.add(host)
        exchange.silent = False
        return _readable(response, exchange)


@cache
def client() -> Wire:
    """The process's one client; it keeps no cookies."""
    from litellm.llms.custom_httpx.http_handler import get_ssl_configuration

    jar = http.cookiejar.CookieJar(http.cookiejar.DefaultCookiePolicy(allowed_domains=()))
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    return Wire(verify=get_ssl_configuration(), follow_redirects=True, limits=limits, cookies=jar)


# -- what leaves ---------------------------------------------------------------------------------------------------


def alteration(request: httpx.Request, made: Exchange) -> str:
    """How a request differs from what was made: turns put in, tools left out; empty where it does not."""
    try:
        body = json.loads(request.content)
    except ValueError:
        return ""
    turns = body.get("messages") or body.get("contents") or []
    more = len(turns) > len(made.messages) and request.url.path.endswith("/chat/completions")
    if more or sum(map(_blank, turns)) > sum(map(_blank, made.messages)):
        return "LiteLLM put blank turns into the conversation"
    if made.tools and not (body.get("tools") or body.get("toolConfig")):
        return "LiteLLM left out the tools"
    return ""


def _blank(turn: dict[str, Any]) -> bool:
    """Whether a turn of a speaker says nothing; one that calls, or holds anything but text, does."""
    if turn.get("role") not in ("user", "assistant", "model") or turn.get("tool_calls"):
        return False
    content = turn.get("content", turn.get("parts"))
    if isinstance(content, str):
        return content.strip() in ("", ".")
    parts = content if isinstance(content, list) else []
    said = [p.get("text") for p in parts if isinstance(p, dict)]
    return bool(said) and all(isinstance(text, str) and text.strip() in ("", ".") for text in said)


# -- what comes back -----------------------------------------------------------------------------------------------


def _readable(response: httpx.Response, exchange: Exchange) -> httpx.Response:
    """The response with a body that LiteLLM can read; failures inside a 200 become an error status."""
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > LONGEST_ANSWER_BYTES:
            response.close()
            return _failure(response, exchange, _FAILED, {"message": "the answer is longer than 32 MB"})
    content = bytes(body)
    try:
        value = parse_json(content, max_chars=LONGEST_ANSWER_BYTES, max_depth=256)
    except ForeignText as why:
        if response.status_code >= 400:  # proxies answer in HTML or plain text
            return _failure(
                response, exchange, response.status_code, {"message": content.decode("utf-8", "replace")}
            )
        shown = " ".join(content[:100].decode("utf-8", "replace").split())
        message = f"the server's answer is not readable: {why} ({shown!r})"
        return _failure(response, exchange, _FAILED, {"message": message})
    problem = _problem(value)
    if response.status_code >= 400:
        return _failure(response, exchange, response.status_code, problem or _plain(value))
    if problem:
        return _failure(response, exchange, _number_of(problem.get("code")), problem)
    if isinstance(value, dict) and isinstance(value.get("choices"), list) and value["choices"]:
        value = completion(value)
    return _response(response, response.status_code, value)


def _response(was: httpx.Response, status: int, body: Any) -> httpx.Response:
    passed = ("retry-after", "retry-after-ms", "x-request-id")
    headers = {
        name: value for name, value in was.headers.items() if name in passed or name.startswith("x-rate")
    }
    made = httpx.Response(status, headers=headers, json=body, request=was.request)
    made.elapsed = was.elapsed
    return made


def _failure(was: httpx.Response, exchange: Exchange, status: int, problem: dict[str, Any]) -> httpx.Response:
    exchange.status, exchange.detail = status, clean(_said(problem.get("message") or ""), LONGEST_DETAIL)
    exchange.code = _said(problem.get("code") or problem.get("type") or "")[:100]
    generated = problem.get("failed_generation")
    exchange.generated = clean(_said(generated), LONGEST_DETAIL) if generated else ""
    return _response(
        was, status, {"error": {"message": exchange.detail, "code": exchange.code, "type": "error"}}
    )


def _number_of(code: Any) -> int:
    """An error's own HTTP status where it names one."""
    text = str(code or "")
    return int(text) if text in map(str, range(400, 600)) else _FAILED


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _problem(value: Any) -> dict[str, Any]:
    """The error that an answer holds, whatever its form; empty where it holds none."""
    if not isinstance(value, dict):
        return {}
    choices = value.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    found = value.get("error") or first.get("error")
    if not found and first.get("finish_reason") in ("error", "network_error"):
        return {"message": "the provider failed while it answered", "code": _FAILED}
    if not found and not first and "choices" in value:
        found = "the server's answer holds no choice"
    if isinstance(found, dict):
        inner = {**value, **found}  # Groq puts failed_generation inside, others beside
        return inner if any(found.get(key) for key in ("message", "code", "type")) else {}
    return {**value, "message": _said(found)} if found else {}


def _plain(value: Any) -> dict[str, Any]:
    """An error body that has no ``error`` in it."""
    words = value if isinstance(value, dict) else {}
    found = next((words[key] for key in ("message", "detail", "error_message") if words.get(key)), value)
    return {**words, "message": _said(found) if found else ""}


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
            said[name] = _said(message[name])
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
    return _said(content)


def _call(call: Any) -> dict[str, Any]:
    """A tool call with texts where texts belong; arguments that are no JSON are quoted, so that they pass whole."""
    function = (
        call.get("function") or call.get("custom") or call if isinstance(call, dict) else {"arguments": call}
    )
    function = function if isinstance(function, dict) else {"arguments": function}
    raw = function.get("arguments", function.get("input"))
    arguments = "" if raw is None else _said(raw)
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
    kept = {name: value for name, value in usage.items() if _countable(value)}
    for name, value in usage.items():
        if isinstance(value, dict):
            kept[name] = {key: inner for key, inner in value.items() if _countable(inner)}
    both = ("prompt_tokens", "completion_tokens")
    if not all(isinstance(kept.get(name), int) for name in both):
        return None
    return kept | {"total_tokens": kept["prompt_tokens"] + kept["completion_tokens"]}


def _countable(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS
