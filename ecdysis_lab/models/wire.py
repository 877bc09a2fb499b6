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

from ecdysis_lab.models.protocol import FAILED, completion, plain_problem, problem_of, said_in, status_of
from ecdysis_lab.store.foreign import ForeignText, clean, parse_json

LONGEST_ANSWER_BYTES = 32_000_000
LONGEST_CONNECT_SECONDS = 10.0
LONGEST_DETAIL = 4000
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
        except (httpx.ConnectError, httpx.ConnectTimeout) as why:
            exchange.silent, exchange.detail = host not in _answered, str(why)
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
            return _failure(response, exchange, FAILED, {"message": "the answer is longer than 32 MB"})
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
        return _failure(response, exchange, FAILED, {"message": message})
    problem = problem_of(value)
    if response.status_code >= 400:
        return _failure(response, exchange, response.status_code, problem or plain_problem(value))
    if problem:
        return _failure(response, exchange, status_of(problem.get("code")), problem)
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
    exchange.status, exchange.detail = status, clean(said_in(problem.get("message") or ""), LONGEST_DETAIL)
    exchange.code = said_in(problem.get("code") or problem.get("type") or "")[:100]
    generated = problem.get("failed_generation")
    exchange.generated = clean(said_in(generated), LONGEST_DETAIL) if generated else ""
    return _response(
        was, status, {"error": {"message": exchange.detail, "code": exchange.code, "type": "error"}}
    )
