"""A scripted HTTP server that speaks the OpenAI chat protocol: tool calls, SSE streams, and ways to fail.

    with OpenAIServer([status(429), call("get_order", id="#W1"), text("Done.")]) as server:
        ...  # point a client at server.url, then look at server.requests

The script is a list of replies used in turn (``default`` when it is used up), or a function from the recorded
request to a reply. Any reply streams when the request says ``stream: true``.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Request:
    """One recorded request; header names are lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float


@dataclass(frozen=True)
class Reply:
    """What the server does with one request.

    Parameters
    ----------
    content, reasoning : text of the answer and of its ``reasoning_content``.
    calls : ``(name, raw argument text)`` pairs.
    finish : finish reason; by default ``tool_calls`` or ``stop``.
    usage : ``(prompt tokens, completion tokens)``, or None to send no usage.
    status, headers, raw : for anything but a 200 with a chat completion; ``raw`` is the body.
    fault : ``hang`` (silence until the server closes), ``reset`` (TCP RST), ``truncate`` (half of the
        announced body, or of the stream's events), ``slow`` (one byte every ``delay_seconds``).
    delay_seconds : wait before answering (``slow``: between bytes).
    """

    content: str | None = None
    reasoning: str | None = None
    calls: tuple[tuple[str, str], ...] = ()
    finish: str = ""
    usage: tuple[int, int] | None = (100, 20)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    fault: str = ""
    delay_seconds: float = 0.0


def text(content: str | None, **options: Any) -> Reply:
    """A text answer."""
    return Reply(content=content, **options)


def call(name: str, **arguments: Any) -> Reply:
    """An answer with one tool call."""
    return Reply(calls=((name, json.dumps(arguments)),))


def raw_call(name: str, arguments: str) -> Reply:
    """An answer with one tool call whose argument text is sent as given."""
    return Reply(calls=((name, arguments),))


def status(code: int, message: str = "scripted error", *, kind: str = "error", error_code: str | None = None,
           headers: dict[str, str] | None = None) -> Reply:  # fmt: skip
    """An error answer in OpenAI's form."""
    body = {"error": {"message": message, "type": kind, "code": error_code, "param": None}}
    return Reply(status=code, raw=json.dumps(body).encode(), headers=headers or {})


def hang() -> Reply:
    """Take the request and say nothing."""
    return Reply(fault="hang")


def reset() -> Reply:
    """Take the request and reset the connection."""
    return Reply(fault="reset")


def truncated(reply: Reply) -> Reply:
    """The same answer, cut in the middle of its body."""
    return replace(reply, fault="truncate")


def slow(reply: Reply, delay_seconds: float = 0.05) -> Reply:
    """The same answer, byte by byte."""
    return replace(reply, fault="slow", delay_seconds=delay_seconds)


Script = Sequence[Reply] | Callable[[Request], Reply]


class OpenAIServer:
    """The server; a context manager. ``requests`` holds what came in, ``url`` is the API base."""

    def __init__(self, script: Script = (), default: Reply | None = None) -> None:
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self._script, self._default, self._served = script, default, 0
        self._lock = threading.Lock()
        server = self

        class Handler(_Handler):
            owner = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.block_on_close = False
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def url(self) -> str:
        """API base, ending in ``/v1``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def next_reply(self, request: Request) -> Reply:
        """Record a request and choose the reply to it."""
        with self._lock:
            self.requests.append(request)
            index, self._served = self._served, self._served + 1
        if callable(self._script):
            return self._script(request)
        if index < len(self._script):
            return self._script[index]
        return self._default or status(
            500, f"the script has {len(self._script)} replies, this is request {index + 1}"
        )

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection; HTTP/1.1 with keep-alive, as real servers do."""

    owner: OpenAIServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else headers and body wait for a delayed ACK, 40 ms

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal quiet."""

    def do_GET(self) -> None:
        """List one model (clients probe for it)."""
        body = {"object": "list", "data": [{"id": "scripted", "object": "model"}]}
        self._send(Reply(raw=json.dumps(body).encode()), json.dumps(body).encode(), "application/json")

    def do_POST(self) -> None:
        """Answer a chat completion."""
        payload = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, json.loads(payload or b"{}"), time.monotonic())
        reply = self.owner.next_reply(request)
        if reply.fault == "hang":
            self.owner.closing.wait(60)
            self.close_connection = True
        elif reply.fault == "reset":
            # A zero linger time makes close() send RST instead of FIN.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
        elif request.body.get("stream") and reply.raw is None:
            self._stream(reply, request.body)
        else:
            if reply.fault != "slow":
                self.owner.closing.wait(reply.delay_seconds)
            body = (
                reply.raw if reply.raw is not None else json.dumps(completion(reply, request.body)).encode()
            )
            self._send(reply, body, "application/json")

    def _send(self, reply: Reply, body: bytes, kind: str) -> None:
        self.send_response(reply.status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self._write(reply, body)

    def _write(self, reply: Reply, body: bytes) -> None:
        try:
            if reply.fault == "slow":
                for i in range(len(body)):
                    if self.owner.closing.wait(reply.delay_seconds):
                        break
                    self.wfile.write(body[i : i + 1])
            elif reply.fault == "truncate":
                self.wfile.write(body[: len(body) // 2])
                self.close_connection = True
            else:
                self.wfile.write(body)
            self.wfile.flush()
        except OSError:
            self.close_connection = True  # the client left, as it does after a timeout

    def _stream(self, reply: Reply, body: dict[str, Any]) -> None:
        events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks(reply, body)] + ["data: [DONE]\n\n"]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self._write(reply, "".join(events).encode())


def _head(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 1, "model": body.get("model", "scripted")}


def _usage(reply: Reply) -> dict[str, int]:
    prompt, answer = reply.usage or (0, 0)
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def _finish(reply: Reply) -> str:
    return reply.finish or ("tool_calls" if reply.calls else "stop")


def completion(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    """The reply as a ``chat.completion`` object."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(reply.calls)
        ]
    answer = {
        **_head("chat.completion", body),
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(reply)}],
    }
    return answer if reply.usage is None else {**answer, "usage": _usage(reply)}


def chunks(reply: Reply, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The reply as ``chat.completion.chunk`` objects: text and argument text arrive in pieces."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if reply.reasoning:
        deltas.append({"reasoning_content": reply.reasoning})
    deltas += [{"content": piece} for piece in _pieces(reply.content or "")]
    for i, (name, arguments) in enumerate(reply.calls):
        opening = {
            "index": i,
            "id": f"call_{i}",
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        deltas.append({"tool_calls": [opening]})
        deltas += [{"tool_calls": [{"index": i, "function": {"arguments": p}}]} for p in _pieces(arguments)]
    head = _head("chat.completion.chunk", body)
    out = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    out.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(reply)}]})
    if (body.get("stream_options") or {}).get("include_usage") and reply.usage is not None:
        out.append({**head, "choices": [], "usage": _usage(reply)})
    return out


def _pieces(whole: str, size: int = 12) -> list[str]:
    return [whole[i : i + size] for i in range(0, len(whole), size)]
