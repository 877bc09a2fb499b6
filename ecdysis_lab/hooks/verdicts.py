"""What a hook is asked about and what it may answer: calls, executed calls, verdicts, and the switches of rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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
    rule : name of the rule that decided, e.g. ``"code_form"``.
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


@dataclass(frozen=True)
class Realize:
    """Take a reply as the calls that it meant (``on_reply``): SQL in a fence, a call written as text.

    Every call is then checked like any other.

    Parameters
    ----------
    calls : what the text meant, one at least; their ids are given later.
    rule : name of the rule that decided.
    """

    calls: tuple[Call, ...]
    rule: str = ""


Verdict = Allow | Rewrite | Refuse | Realize

_DISABLED: set[str] = set()


def enabled(rule: str) -> bool:
    """Whether a rule is switched on (``[rules]`` in harness.toml; on where it is not named)."""
    return rule not in _DISABLED
