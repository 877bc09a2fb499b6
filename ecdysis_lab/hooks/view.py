"""What a hook may see of a trial: the read-only view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from ecdysis_lab.hooks.verdicts import Done

ToolKind = Literal["read", "write", "other"]


@dataclass
class View:
    """What a hook may see. Changing it changes nothing outside the hook.

    Attributes
    ----------
    messages : conversation so far, oldest first: ``{"role": "user" | "assistant", "content": str}``.
    done : executed calls with their results, oldest first.
    policy : the benchmark's policy text.
    tools : tool schemas: ``{"name", "description", "parameters", "kind"}``; kind is read, write or other. One with
        ``"reads": True`` both reads and writes, and :meth:`read` lets it read only.
    steps_left : model turns left before the trial ends.
    """

    messages: list[dict[str, str]] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    policy: str = ""
    tools: list[dict[str, Any]] = field(default_factory=list)
    steps_left: int = 0
    _read: Callable[[str, dict[str, Any]], Any] | None = field(default=None, repr=False)

    def kind(self, tool: str) -> ToolKind:
        """Kind of a tool by name; ``"other"`` for a name that is not in the schema."""
        for schema in self.tools:
            if schema["name"] == tool:
                kind: ToolKind = schema.get("kind", "other")
                return kind
        return "other"

    def read(self, tool: str, **arguments: Any) -> Any:
        """Call a read-only tool of the live environment, off the record.

        Returns
        -------
        The tool's answer as Python data (JSON text is parsed), or None when the tool reports an error.

        Raises
        ------
        PermissionError: the tool is not one that reads.
        RuntimeError: the harness runs without a live environment.
        """
        if self.kind(tool) != "read" and not any(t.get("reads") for t in self.tools if t["name"] == tool):
            raise PermissionError(f"view.read takes read-only tools; {tool!r} is {self.kind(tool)}")
        if self._read is None:
            raise RuntimeError("no live environment to read from")
        return self._read(tool, arguments)

    def last_user(self) -> str:
        """The user's latest message, or an empty string."""
        return next((m["content"] for m in reversed(self.messages) if m["role"] == "user"), "")
