"""Reading a transcript: one line per message, and calls joined with their results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Benchmark, Message

LINE_CHARS = 240
WRITE_PREFIXES = (
    *(
        "book",
        "cancel",
        "update",
        "modify",
        "exchange",
        "return",
        "send",
        "create",
        "delete",
        "remove",
        "add",
    ),
    *("set", "enable", "disable", "toggle", "suspend", "resume", "refuel", "pay"),
)

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def clean(text: str) -> str:
    """Text on one line: no ANSI codes, no control characters, single spaces. HTML stays as it is."""
    return " ".join(_CONTROL.sub(" ", _ANSI.sub("", text)).split())


def shorten(text: str, limit_chars: int) -> str:
    """Cleaned text of at most ``limit_chars`` characters, the cut marked with an ellipsis."""
    # Cut before cleaning too: a 200k-token result must not be scanned whole for one line of it.
    flat = clean(text[: 4 * limit_chars + 200])
    return flat if len(flat) <= limit_chars else flat[: max(limit_chars - 1, 0)] + "…"


def outline(messages: Sequence[Message], limit_chars: int = LINE_CHARS) -> list[str]:
    """One parseable line per message, several where a message makes several calls.

    ``[3] user: text``, ``[4] assistant: text``, ``[5] call tool {json}``, ``[6] ok tool: result``,
    ``[7] error tool: message``. The number is the index into ``messages``; system messages are left out.

    Parameters
    ----------
    messages : a transcript, oldest first.
    limit_chars : most characters of a text or result; the JSON of a call is never cut.

    Returns
    -------
    Lines in order, each without a line break.
    """
    names = _names(messages)
    return [line for i, m in enumerate(messages) for line in _lines(i, m, names, limit_chars)]


def _lines(i: int, message: Message, names: dict[str, str], limit_chars: int) -> Iterator[str]:
    if message.role == "tool":
        tool = message.name or names.get(message.call_id, "tool")
        outcome = "error" if message.error else "ok"
        yield f"[{i}] {outcome} {tool}: {shorten(message.content or '', limit_chars)}"
    elif message.role != "system":
        if message.content and message.content.strip():
            yield f"[{i}] {message.role}: {shorten(message.content, limit_chars)}"
        for call in message.calls:
            yield f"[{i}] call {call.name} {json.dumps(call.arguments, ensure_ascii=False, sort_keys=True)}"


def _names(messages: Sequence[Message]) -> dict[str, str]:
    """Tool name by call id, for tool messages that carry no name."""
    return {c.id: c.name for m in messages for c in m.calls if c.id}


def is_write(call: Call, benchmark: Benchmark | None = None) -> bool:
    """Whether a call changes state: as the benchmark says, else by the verb its tool's name starts with."""
    return benchmark.effect(call) == "write" if benchmark else call.name.startswith(WRITE_PREFIXES)


def is_dialogue(messages: Sequence[Message], benchmark: Benchmark | None = None) -> bool:
    """Whether a user takes part, who can be asked and told: as the benchmark says, else where one answers the agent."""
    if benchmark is not None:
        return benchmark.user == "model"
    roles = [m.role for m in messages]
    return "assistant" in roles and "user" in roles[roles.index("assistant") :]


@dataclass(frozen=True)
class Step:
    """A call with its outcome (``ok``, ``error`` or ``unanswered``) and the message indices of both."""

    index: int
    call: Call
    outcome: str
    result_index: int
    result: str


def steps(messages: Sequence[Message]) -> list[Step]:
    """Calls of a transcript in order, each joined with its result (by call id, else by position)."""
    out: list[Step] = []
    open_: list[int] = []  # positions in `out` that still wait for a result
    for i, message in enumerate(messages):
        if message.role == "tool":
            found = next((k for k in open_ if message.call_id and out[k].call.id == message.call_id), None)
            k = found if found is not None else (open_[0] if open_ else None)
            if k is not None:
                open_.remove(k)
                outcome = "error" if message.error else "ok"
                out[k] = replace(out[k], outcome=outcome, result_index=i, result=message.content or "")
            continue
        if message.calls:
            open_ = list(range(len(out), len(out) + len(message.calls)))
            out += [Step(i, call, "unanswered", i, "") for call in message.calls]
    return out
