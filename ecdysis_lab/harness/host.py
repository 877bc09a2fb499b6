"""Runs a harness out of process: one fresh, shut-in worker per trial, plain data over a pipe, typed faults.

What holds, from the outside in: the static policy (``static.py``); builtins and imports cut down to an
allow-list; an audit hook; a system-call allow-list (seccomp) without files, sockets, processes, signals or
executable memory; resource limits; user nobody where the parent is root; no environment, no terminal; and
this side, which validates every answer, bounds its size before reading it, and kills on time.
``sandbox_report()`` says which of these hold here; a missing one is warned about once per process.

What the sandbox does not cover
-------------------------------
- Kernel bugs reachable through the few allowed system calls, and CPU side channels.
- Platforms other than Linux on x86_64 or aarch64 have no system-call filter: there a harness that evades the
  Python lines can do what the user can do to existing processes and the open pipe. Do not run untrusted
  harnesses there.
- What a harness *says*. Its texts reach the task model, which may be misled by them; the gates judge that.
- What a harness learns through ``view.read`` is bounded only by the benchmark's read-only tools.
- Parsing: source is parsed and compiled (never run) in this process, which trusts CPython's parser on at
  most 256 KB a file.
- Fairness between trials: a worker may use a full core until its CPU limit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any

from ecdysis_lab.harness.sandbox import spares, validate
from ecdysis_lab.harness.sandbox.client import HostError
from ecdysis_lab.harness.sandbox.pipe import HarnessFault, HostLimits, Worker
from ecdysis_lab.harness.sandbox.ready import Recipe, sandbox_report
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.harness.static import HOOKS
from ecdysis_lab.hooks import Allow, Call, Done, Verdict
from ecdysis_lab.records import tool_key

__all__ = ["HarnessFault", "Host", "HostError", "HostLimits", "sandbox_report"]

_DEFAULT_LIMITS = HostLimits()


class Host:
    """A harness as the agent calls it: one fresh process per trial, none at all for an empty harness.

    Use it as a context manager. The worker starts with the first hook call, or was made ready while an earlier
    trial of the same harness ran (``sandbox/spares.py``). After a fault that ended the
    worker every hook counts as absent (``has`` is False, everything passes); ``fault`` keeps the reason.

    Parameters
    ----------
    harness : what ``harness.load`` returned.
    policy : the benchmark's policy text.
    tools : tool schemas ``{"name", "description", "parameters", "kind"}``.
    read : answers ``view.read(tool, arguments)``; None where there is no live environment.
    limits : limits of the worker.
    without : lines to leave out (``"static"``, ``"builtins"``, ``"audit"``, ``"seccomp"``), for tests only.
    user_acts : whether a user message can change the environment; what hooks read is then asked anew after each.
    """

    def __init__(
        self,
        harness: Harness,
        policy: str,
        tools: list[dict[str, Any]],
        read: Callable[[str, dict[str, Any]], Any] | None = None,
        limits: HostLimits = _DEFAULT_LIMITS,
        without: Collection[str] = (),
        user_acts: bool = True,
    ) -> None:
        self.harness, self.read = harness, read
        self._recipe = Recipe(harness, policy, tools, limits, tuple(without))
        self.fault: HarnessFault | None = None
        self._worker: Worker | None = None
        self._messages: list[dict[str, str]] = []
        self._done: list[list[Any]] = []
        self._user_acts = user_acts
        self._done_count = 0
        self._changed_at: int | None = None  # calls done when the environment last may have changed
        self._made: set[str] = set()
        self._results: list[str] = []
        self._repeated = False
        self._hooks = {hook for hook in HOOKS if harness.defines(hook)}
        self._kinds = {tool["name"]: tool.get("kind", "other") for tool in tools}

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
        if role == "user" and self._user_acts:
            self._changed_at = self._done_count

    def add_done(self, done: Done) -> None:
        """Add an executed call to the view, with the next hook call."""
        self._done.append([*_call(done.call), done.result, done.error])
        self._done_count += 1
        if not done.error:
            self._results.append(done.result)
        if self.has("observe"):
            key = tool_key(done.call)
            self._repeated = key in self._made
            self._made.add(key)
        if self._kinds.get(done.call.name, "other") != "read":
            self._changed_at = self._done_count

    def describe(self, tool: dict[str, Any]) -> dict[str, Any]:
        """The tool's schema as the model should see it; name, kind and parameter names are as they were."""
        return tool if not self.has("describe") else validate.tool(self._hook("describe", tool), tool)

    def brief(self, opening: str) -> str:
        """Text for the system prompt."""
        return "" if not self.has("brief") else validate.text("brief", self._hook("brief", opening))

    def check(self, call: Call, steps_left: int) -> Verdict:
        """Verdict on a call before it executes."""
        if not self.has("check") or not self._may_judge(call):
            return Allow()
        return validate.verdict("check", self._hook("check", _call(call), steps_left=steps_left))

    def observe(self, call: Call, result: str, error: bool, steps_left: int) -> str | None:
        """Annotation of a result, or None. ``view.done`` holds what ``add_done`` was given so far."""
        if not self.has("observe") or not self._may_note(error):
            return None
        value = self._hook("observe", _call(call), result, steps_left=steps_left)
        return None if value is None else validate.text("observe", value)

    def on_reply(self, text: str, steps_left: int) -> Verdict:
        """Verdict on a text before it reaches the user."""
        if not self.has("on_reply"):
            return Allow()
        return validate.verdict("on_reply", self._hook("on_reply", text, steps_left=steps_left))

    def close(self) -> None:
        """End the worker, without waiting for its end; the host must not be used afterwards."""
        if self._worker is not None:
            spares.current().bury(self._worker, self._recipe)
            self._worker = None

    def start(self) -> None:
        """Start the worker now rather than with the first hook call; nothing to do for an empty harness.

        Raises
        ------
        HarnessFault: the harness breaks the static policy or does not load.
        HostError: the sandbox cannot run.
        """
        if self._worker is not None or self.fault is not None or not self._hooks:
            return
        try:
            self._worker = spares.current().take(self._recipe)
        except HarnessFault as fault:
            self.fault = fault
            raise

    def _hook(self, hook: str, *arguments: Any, steps_left: int = 0) -> Any:
        """What a hook returned, as JSON data; starts the worker when needed."""
        news = {"messages": self._messages, "done": self._done, "changed_at": self._changed_at}
        self.start()
        worker = self._worker
        if worker is None:
            raise HostError("the host was closed")
        try:
            self._messages, self._done, self._changed_at = [], [], None
            return worker.ask(
                hook,
                {"do": "hook", "hook": hook, "arguments": list(arguments), "steps_left": steps_left} | news,
                self._answer_read,
            )
        except HarnessFault as fault:
            if not worker.alive:
                self.fault = fault
            raise

    def _cases(self, hook: str) -> Any:
        """When a hook has anything to say, as the harness told when it was loaded; None for always."""
        return self._worker.cases.get(hook) if self._worker else None

    def _may_note(self, error: bool) -> bool:
        """Whether ``observe`` has anything to say about the call added last; ``Rules.observer`` names its cases."""
        cases = self._cases("observe")
        if cases is None or "always" in cases:
            return True
        return (error and "error" in cases) or (self._repeated and "repeat" in cases)

    def _may_judge(self, call: Call) -> bool:
        """Whether ``check`` has anything to say about a call; ``Rules.checker`` names its cases."""
        cases = self._cases("check")
        if cases is None or call.name in cases["tools"]:
            return True
        return any(
            not isinstance(value, str)
            or key in cases["always"]
            or (key in cases["unseen"] and not any(f'"{value}"' in text for text in self._results))
            for key, value in call.arguments.items()
        )

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
