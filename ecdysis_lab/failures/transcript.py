"""Reading a transcript: an entry per message, cut or whole, and calls joined with their results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Benchmark, Message, users_own

LINE_CHARS = 240
INDENT = "\n    "  # before each further line of an entry
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


def both_ends(text: str, limit_chars: int) -> str:
    """Text on one line whose middle is left out and counted: what decides a case may stand at either end."""
    flat, half = clean(text), limit_chars // 2
    left_out = len(flat) - 2 * half
    return flat if left_out <= 0 else f"{flat[:half]} [… {left_out} more characters …] {flat[-half:]}"


def indented(text: str) -> str:
    """The whole text, its further lines indented so that none can pass for an entry or a heading; no empty lines."""
    lines = _ANSI.sub("", text).splitlines()
    return INDENT.join(_CONTROL.sub(" ", line.expandtabs(4)).rstrip() for line in lines if line.strip())


def outline(
    messages: Sequence[Message], limit_chars: int = LINE_CHARS, cut: Callable[[str, int], str] = shorten
) -> list[str]:
    """One parseable line per message, several where a message makes several calls.

    ``[3] user: text``, ``[4] assistant: text``, ``[5] call tool {json}``, ``[6] ok tool: result``,
    ``[7] error tool: message``, and ``[8] user call tool {json}``, ``[9] user ok tool: result`` of a user who has tools
    of his own. The number is the index into ``messages``; system messages are left out.

    Parameters
    ----------
    messages : a transcript, oldest first.
    limit_chars : most characters of a text or result; the JSON of a call is never cut.
    cut : how a longer text is cut, ``shorten`` or ``both_ends``.

    Returns
    -------
    Lines in order, each without a line break.
    """
    return list(_lines(messages, lambda text: cut(text, limit_chars)))


def transcript(messages: Sequence[Message]) -> list[str]:
    """As :func:`outline`, with every text and result whole; their further lines are indented."""
    return list(_lines(messages, indented))


def _lines(messages: Sequence[Message], show: Callable[[str], str]) -> Iterator[str]:
    names = {c.id: c.name for m in messages for c in m.calls if c.id}  # for tool messages that carry no name
    users = users_own(messages)
    for i, message in enumerate(messages):
        whose = "user " if i in users else ""
        if message.role == "tool":
            tool = clean(message.name or names.get(message.call_id, "tool"))
            yield f"[{i}] {whose}{'error' if message.error else 'ok'} {tool}: {show(message.content or '')}"
        elif message.role != "system":
            if message.content and message.content.strip():
                yield f"[{i}] {message.role}: {show(message.content)}"
            for call in message.calls:
                yield f"[{i}] {whose}call {clean(call.name)} {_arguments(call)}"


def _arguments(call: Call) -> str:
    """Arguments as JSON on one line; what else breaks lines is escaped too."""
    text = json.dumps(call.arguments, ensure_ascii=False, sort_keys=True)
    return _CONTROL.sub(lambda found: "".join(f"\\u{ord(c):04x}" for c in found[0]), text)


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
    """The agent's calls in order, each joined with its result (by call id, else by position)."""
    out: list[Step] = []
    users = users_own(messages)
    open_: list[int] = []  # positions in `out` that still wait for a result
    for i, message in enumerate(messages):
        if i in users:
            continue
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
