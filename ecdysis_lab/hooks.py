"""What a harness author imports: calls, verdicts and the read-only view.

A harness is a folder with up to four files, one per layer; each function is optional.

============== ============================ ================================================
file           function                     when it runs
============== ============================ ================================================
contract.py    ``describe(tool) -> tool``   once per tool, before the interaction
skills.py      ``brief(opening, policy)``   once, with the user's first message -> str
actions.py     ``check(call, view)``        before a tool call executes -> verdict
regulation.py  ``observe(call, result, view)``  after it executed -> str or None
regulation.py  ``on_reply(text, view)``     before a text reaches the user -> verdict
============== ============================ ================================================

This module imports only the standard library, since the sandbox loads it without the package.
The layers are those of Life-Harness (arXiv 2605.22166).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

ToolKind = Literal["read", "write", "other"]

# How a model sees the harness, in its own context only.
NOTE = "[harness] note: "
REFUSED = "[harness] not executed: "
REWRITTEN = "[harness] executed in canonical form: "
REPLY_STOPPED = "[harness] your message was not sent: "


@dataclass(frozen=True)
class Call:
    """One tool call.

    Parameters
    ----------
    name : tool name as in its schema.
    arguments : JSON object with the arguments the model gave.
    id : identifier of the call inside its trajectory; empty where there is none. Calls compare without it, so that
        ``done.call == call`` finds a repetition.
    """

    name: str
    arguments: dict[str, Any]
    id: str = field(default="", compare=False)


@dataclass(frozen=True)
class Done:
    """A call that the environment executed, and what it returned.

    Parameters
    ----------
    call : the call as the environment saw it (after any rewrite).
    result : text the environment returned (JSON text for most tools).
    error : True when the environment rejected the call.
    """

    call: Call
    result: str
    error: bool = False


@dataclass(frozen=True)
class Allow:
    """Let the call (or reply) through unchanged."""

    rule: str = ""


@dataclass(frozen=True)
class Rewrite:
    """Let it through in canonical form.

    Parameters
    ----------
    arguments : the full new argument object (``check``), or None.
    text : the full new reply (``on_reply``), or None.
    rule : name of the rule that decided, e.g. ``"order_id_form"``.
    """

    arguments: dict[str, Any] | None = None
    text: str | None = None
    rule: str = ""


@dataclass(frozen=True)
class Refuse:
    """Stop it, and say what would be legal instead.

    Parameters
    ----------
    reason : why, naming the policy line; shown to the model.
    option : a valid thing to do next; shown to the model, must not be empty.
    rule : name of the rule that decided.
    """

    reason: str
    option: str
    rule: str = ""


Verdict = Allow | Rewrite | Refuse

_DISABLED: set[str] = set()


def enabled(rule: str) -> bool:
    """Whether a rule is switched on (``[rules]`` in harness.toml; on where it is not named)."""
    return rule not in _DISABLED


@dataclass
class View:
    """What a hook may see. Changing it changes nothing outside the hook.

    Attributes
    ----------
    messages : conversation so far, oldest first: ``{"role": "user" | "assistant", "content": str}``.
    done : executed calls with their results, oldest first.
    policy : the benchmark's policy text.
    tools : tool schemas: ``{"name", "description", "parameters", "kind"}``; kind is read, write or other.
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
        PermissionError: the tool is not a read-only one.
        RuntimeError: the harness runs without a live environment.
        """
        if self.kind(tool) != "read":
            raise PermissionError(f"view.read takes read-only tools; {tool!r} is {self.kind(tool)}")
        if self._read is None:
            raise RuntimeError("no live environment to read from")
        return self._read(tool, arguments)

    def last_user(self) -> str:
        """The user's latest message, or an empty string."""
        return next((m["content"] for m in reversed(self.messages) if m["role"] == "user"), "")
