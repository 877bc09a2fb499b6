"""The worker: runs the hooks of one trial behind a pipe of JSON messages, each preceded by its length in 4 bytes.

Standard library only: this runs inside the sandbox process, which does not load the rest of the package.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

from ecdysis_lab import hooks
from ecdysis_lab.harness.sandbox.lines import CHANNEL, confine, safe_builtins
from ecdysis_lab.hooks import verdicts

_ENCODER = json.JSONEncoder(allow_nan=False)


class _Contract(Exception):
    """A hook returned something the contract does not know."""


class _Output(Exception):
    """A hook returned too much."""


class _Worker:
    """Runs the hooks of one trial."""

    def __init__(self, channel: int, server: int) -> None:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(channel, 32)  # out of the way of the numbers below
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.dup2(32, CHANNEL)
        os.closerange(CHANNEL + 1, 64)
        os.setsid()
        self.server = server
        self.messages: list[dict[str, str]] = []
        self.done: list[Any] = []
        self.functions: dict[str, Callable[..., Any]] = {}
        self.policy, self.limit = "", 0
        self.tools: list[dict[str, Any]] = []

    def run(self) -> NoReturn:
        """Serve until the channel closes."""
        while True:
            request = self._receive()
            try:
                answer = self._encode(
                    {"i": request["i"], "value": getattr(self, "do_" + request["do"])(request)}
                )
            except BaseException as error:  # noqa: BLE001 - whatever it is, the host must hear of it
                answer = json.dumps({"i": request["i"], "fault": _fault(error)}).encode()
            self._send(answer)

    def do_confine(self, request: dict[str, Any]) -> dict[str, str]:
        self.limit = request["limits"]["output_bytes"]
        return confine(request["limits"], request["without"], self.server)

    def do_load(self, request: dict[str, Any]) -> None:
        self.policy, self.tools = request["policy"], request["tools"]
        verdicts._DISABLED.update(request["disabled"])
        shown = safe_builtins() if request["builtins"] else vars(builtins)
        for layer, source in request["sources"].items():
            module = types.ModuleType(layer)
            sys.modules[layer] = module  # dataclasses look their module up
            vars(module)["__builtins__"] = shown
            exec(compile(source, f"{layer}.py", "exec", dont_inherit=True), vars(module))
            for name in request["hooks"]:
                if request["hooks"][name] == layer and callable(vars(module).get(name)):
                    self.functions[name] = vars(module)[name]

    def do_hook(self, request: dict[str, Any]) -> Any:
        self.messages += request["messages"]
        self.done += request["done"]
        hook, arguments = request["hook"], request["arguments"]
        if hook not in self.functions:
            raise _Contract(f"{hook} is not a function")
        if hook in ("check", "observe"):
            arguments[0] = hooks.Call(*arguments[0])
        if hook == "brief":
            arguments.append(self.policy)
        elif hook != "describe":
            arguments.append(self._view(request["steps_left"], request["i"]))
        value = self.functions[hook](*arguments)
        return self._verdict(hook, value) if hook in ("check", "on_reply") else _plain(hook, value)

    def _view(self, steps_left: int, i: int) -> hooks.View:
        """What a hook sees: copies, so that nothing it changes outlives the call."""
        return hooks.View(
            messages=_clone(self.messages),
            done=[
                hooks.Done(hooks.Call(tool, _clone(arguments), call_id), result, error)
                for tool, arguments, call_id, result, error in self.done
            ],
            policy=self.policy,
            tools=_clone(self.tools),
            steps_left=steps_left,
            _read=lambda tool, arguments: self.read(i, tool, arguments),
        )

    def _verdict(self, hook: str, value: Any) -> dict[str, Any] | None:
        if type(value) is hooks.Allow and value.rule == "":
            return None
        if isinstance(value, hooks.Realize):
            calls = [[getattr(c, "name", None), getattr(c, "arguments", None)] for c in value.calls]
            return {"kind": "Realize", "calls": calls, "rule": value.rule}
        for kind in (hooks.Allow, hooks.Rewrite, hooks.Refuse):
            if isinstance(value, kind):
                return {
                    "kind": kind.__name__,
                    **{name: getattr(value, name) for name in kind.__annotations__},
                }
        raise _Contract(
            f"{hook} returned {type(value).__name__}; return Allow(), Rewrite(...) or Refuse(...)"
            + (" or Realize(...)" if hook == "on_reply" else "")
        )

    def read(self, i: int, tool: str, arguments: dict[str, Any]) -> Any:
        """A read-only tool's answer, asked of the host."""
        self._send(self._encode({"i": i, "read": tool, "arguments": arguments}))
        answer = self._receive()
        if "denied" in answer:
            raise PermissionError(answer["denied"])
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    def _encode(self, message: dict[str, Any]) -> bytes:
        if isinstance(message.get("value"), str) and len(message["value"]) > self.limit:
            raise _Output(f"returned {len(message['value'])} characters; the limit is {self.limit} bytes")
        try:
            data = _ENCODER.encode(message).encode()
        except (TypeError, ValueError) as error:
            raise _Contract(f"returned something that is not JSON: {error}") from error
        if self.limit and len(data) > self.limit:
            raise _Output(f"returned {len(data)} bytes; the limit is {self.limit}")
        return data

    def _send(self, data: bytes) -> None:
        data = len(data).to_bytes(4, "big") + data
        while data:
            data = data[os.write(CHANNEL, data) :]

    def _receive(self) -> dict[str, Any]:
        frame = _at_least(4, bytearray())
        frame = _at_least(4 + int.from_bytes(frame[:4], "big"), frame)
        message: dict[str, Any] = json.loads(frame[4:])
        return message


def main(channel: int, server: int) -> None:
    """Body of a freshly forked worker; it never returns."""
    random.seed(0)  # statistics draws from it, and trials must repeat
    _Worker(channel, server).run()


def _at_least(count: int, parts: bytearray) -> bytearray:
    """``parts``, grown to ``count`` bytes; our parent sends one message and waits for the answer."""
    while len(parts) < count:
        part = os.read(CHANNEL, 1 << 16)
        if not part:
            os._exit(0)
        parts += part
    return parts


def _plain(hook: str, value: Any) -> Any:
    wanted: dict[str, Any] = {"describe": dict, "brief": str, "observe": (str, type(None))}
    if not isinstance(value, wanted[hook]):
        raise _Contract(f"{hook} returned {type(value).__name__}")
    return value


def _clone(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _clone(item) for key, item in value.items()}
    return [_clone(item) for item in value] if isinstance(value, list) else value


_KINDS: dict[type[BaseException], str] = {
    MemoryError: "memory",
    RecursionError: "recursion",
    SystemExit: "exit",
    PermissionError: "denied",
    _Contract: "contract",
    _Output: "output",
}


def _fault(error: BaseException) -> dict[str, Any]:
    """What went wrong and in which line of the harness."""
    kind = next((kind for known, kind in _KINDS.items() if isinstance(error, known)), "error")
    file, line, trace = "", 0, error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name in ("contract.py", "skills.py", "actions.py", "regulation.py"):
            file, line = name, trace.tb_lineno
        trace = trace.tb_next
    try:
        text = str(error)[:500]
    except BaseException as second:  # noqa: BLE001 - an author's __str__ may do anything
        text = f"(its text raised {type(second).__name__})"
    plain = kind in ("contract", "output")
    message = text if plain else f"{type(error).__name__}: {text}"
    return {"kind": kind, "file": file, "line": line, "message": message}
