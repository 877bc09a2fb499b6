"""Runs a harness out of process: one fresh, shut-in worker per trial, JSON over a pipe, typed faults.

What holds, from the outside in: the static policy (``static.py``); builtins and imports cut down to an
allow-list; a process without a clock; an audit hook; a system-call allow-list (seccomp) without files, sockets,
processes, signals or executable memory; resource limits; user nobody where the parent is root; no environment, no
terminal; and this side, which validates every answer, bounds its size before reading it, and kills on time.
``sandbox_report()`` says which of these hold here; a missing one is warned about once per process.

What the sandbox does not cover
-------------------------------
- Kernel bugs reachable through the few allowed system calls, and CPU side channels.
- Platforms other than Linux on x86_64 or aarch64 have no system-call filter: there a harness that evades the
  Python lines can do what the user can do to existing processes and the open pipe. Do not run untrusted
  harnesses there.
- Addresses in the text of an object without a ``__repr__`` of its own, and in the order of a set of such objects:
  they repeat within a process of ours, not between two.
- What a harness *says*. Its texts reach the task model, which may be misled by them; the gates judge that.
- What a harness learns through ``view.read`` is bounded only by the benchmark's read-only tools.
- Parsing: source is parsed and compiled (never run) in this process, which trusts CPython's parser on at
  most 256 KB a file.
- Fairness between trials: a worker may use a full core until its CPU limit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from types import TracebackType
from typing import Any

from ecdysis_lab.harness.sandbox import validate
from ecdysis_lab.harness.sandbox.client import HostError
from ecdysis_lab.harness.sandbox.pipe import HarnessFault, HostLimits, Worker
from ecdysis_lab.harness.sandbox.ready import ready_worker, sandbox_report
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.harness.static import HOOKS
from ecdysis_lab.hooks import Allow, Call, Done, Verdict

__all__ = ["HarnessFault", "Host", "HostError", "HostLimits", "sandbox_report"]

_DEFAULT_LIMITS = HostLimits()


class Host:
    """A harness as the agent calls it: one fresh process per trial, none at all for an empty harness.

    Use it as a context manager. The worker starts with the first hook call. After a fault that ended the worker
    every hook counts as absent (``has`` is False, everything passes); ``fault`` keeps the reason.

    Parameters
    ----------
    harness : what ``load_harness`` returned.
    policy : the benchmark's policy text.
    tools : tool schemas ``{"name", "description", "parameters", "kind"}``.
    read : answers ``view.read(tool, arguments)``; None where there is no live environment.
    limits : limits of the worker.
    without : lines to leave out (``"static"``, ``"builtins"``, ``"audit"``, ``"seccomp"``), for tests only.
    """

    def __init__(
        self,
        harness: Harness,
        policy: str,
        tools: list[dict[str, Any]],
        read: Callable[[str, dict[str, Any]], Any] | None = None,
        limits: HostLimits = _DEFAULT_LIMITS,
        without: Collection[str] = (),
    ) -> None:
        self.harness, self.read = harness, read
        self._ready = partial(ready_worker, harness, policy, tools, limits, without)
        self.fault: HarnessFault | None = None
        self._worker: Worker | None = None
        self._messages: list[dict[str, str]] = []
        self._done: list[list[Any]] = []
        self._hooks = {hook for hook in HOOKS if harness.defines(hook)}
        self._kinds = {
            tool["name"]: "read" if tool.get("reads") else tool.get("kind", "other") for tool in tools
        }

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None
    ) -> None:
        self.close()

    def has(self, hook: str) -> bool:
        """Whether a hook will run: defined, switched on, and no fault has ended the worker."""
        return hook in self._hooks and self.fault is None

    def add_message(self, role: str, text: str) -> None:
        """Add a message to the view, with the next hook call."""
        self._messages.append({"role": role, "content": text})

    def add_done(self, done: Done) -> None:
        """Add an executed call to the view, with the next hook call."""
        self._done.append([*_call(done.call), done.result, done.error])

    def describe(self, tool: dict[str, Any]) -> dict[str, Any]:
        """The tool's schema as the model should see it; name, kind and parameter names are as they were."""
        return tool if not self.has("describe") else validate.tool(self._hook("describe", tool), tool)

    def brief(self, opening: str) -> str:
        """Text for the system prompt."""
        return "" if not self.has("brief") else validate.text("brief", self._hook("brief", opening))

    def check(self, call: Call, steps_left: int) -> Verdict:
        """Verdict on a call before it executes."""
        if not self.has("check"):
            return Allow()
        return validate.verdict("check", self._hook("check", _call(call), steps_left=steps_left))

    def observe(self, call: Call, result: str, steps_left: int) -> str | None:
        """Annotation of a result, or None. ``view.done`` holds what ``add_done`` was given so far."""
        if not self.has("observe"):
            return None
        value = self._hook("observe", _call(call), result, steps_left=steps_left)
        return None if value is None else validate.text("observe", value)

    def on_reply(self, text: str, steps_left: int) -> Verdict:
        """Verdict on a text before it reaches the user."""
        if not self.has("on_reply"):
            return Allow()
        return validate.verdict("on_reply", self._hook("on_reply", text, steps_left=steps_left), self._kinds)

    def close(self) -> None:
        """End the worker; the host must not be used afterwards."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def start(self) -> Worker:
        """The worker, started when first asked for: with the first hook call, or now.

        Raises
        ------
        HarnessFault: the harness breaks the static policy or does not load.
        HostError: the sandbox cannot run.
        """
        if self._worker is None:
            try:
                self._worker = self._ready()
            except HarnessFault as fault:
                self.fault = fault
                raise
        return self._worker

    def _hook(self, hook: str, *arguments: Any, steps_left: int = 0) -> Any:
        """What a hook returned, as JSON data; starts the worker when needed."""
        worker = self.start()
        request = {
            "do": "hook",
            "hook": hook,
            "arguments": list(arguments),
            "steps_left": steps_left,
            "messages": self._messages,
            "done": self._done,
        }
        self._messages, self._done = [], []
        try:
            return worker.ask(hook, request, self._answer_read)
        except HarnessFault as fault:
            if not worker.alive:
                self.fault = fault
            raise

    def _answer_read(self, tool: Any, arguments: Any) -> dict[str, Any]:
        """Answer of a read-only tool. Checked here again: the worker's check can be evaded."""
        kind = self._kinds.get(tool, "other") if isinstance(tool, str) else "other"
        if kind != "read" or not isinstance(arguments, dict):
            return {"denied": f"view.read takes read-only tools; {tool!r} is {kind}"}
        if self.read is None:
            return {"error": "no live environment to read from"}
        try:
            return {"value": self.read(tool, arguments)}
        except Exception:  # noqa: BLE001 - bad arguments make a tool raise anything; an error to the harness
            return {"value": None}


def _call(call: Call) -> list[Any]:
    return [call.name, call.arguments, call.id]
