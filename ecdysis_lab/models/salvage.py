"""Tool calls that a model wrote as text: the dialects of the common families, and what is broken in them.

A dialect is a marker that opens a block (Hermes ``<tool_call>``, Mistral ``[TOOL_CALLS]``, Llama ``<|python_tag|>``,
DeepSeek's and Kimi's tokens, harmony's channels) and a form inside it (JSON, Qwen3-Coder's XML, GLM's pairs, a name
before its arguments). Every form is tried in every block, since servers mix them. All work is linear in the text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ecdysis_lab.hooks import Call
from ecdysis_lab.models.forms import GUESS, NAME, PYTHONIC, Tools, flat, named_in, read_block
from ecdysis_lab.store.foreign import ForeignText, json_values

# Marker that opens a block -> markers that close it; without any, the block goes on to the text's end.
_BLOCKS = {
    "<tool_call>": ("</tool_call>",),
    "<tool_calls>": ("</tool_calls>",),
    "<tools>": ("</tools>",),
    "<function_call>": ("</function_call>",),
    "<function_calls>": ("</function_calls>",),
    "<minimax:tool_call>": ("</minimax:tool_call>",),
    "<|tool_call|>": ("<|/tool_call|>", "<|end|>"),
    "<|START_ACTION|>": ("<|END_ACTION|>",),
    "<|tool_calls_section_begin|>": ("<|tool_calls_section_end|>",),
    "<｜tool▁calls▁begin｜>": ("<｜tool▁calls▁end｜>",),
    "<｜tool▁call▁begin｜>": ("<｜tool▁call▁end｜>",),
    "<|python_tag|>": ("<|eom_id|>", "<|eot_id|>"),
    "[TOOL_CALLS]": ("</s>",),
    "<|channel|>commentary to=": ("<|call|>",),
    "<function=": ("</function>",),
    "<invoke name=": ("</invoke>",),
    "```tool_call": ("```",),
    "```tool_code": ("```",),
}
_OPENING = re.compile(
    "|".join(map(re.escape, sorted(_BLOCKS, key=len, reverse=True)))
    + r"|[<\[][|｜]?(?:\w{1,20}:)?(?:tool|function)[▁_ -]?calls?(?:[▁_]?begin)?[|｜]?[>\]]",  # of no known family
    re.IGNORECASE,
)
_CLOSING = re.compile(r"[<\[][|｜]?/[\w:▁ -]{1,40}[|｜]?[>\]]\s*\Z")
_AFTER_PROSE = re.compile(rf'\{{\s*"name"\s*:\s*"({NAME})"\s*,\s*"(?:arguments|parameters)"\s*:')
_NOISE = re.compile(
    r"<\|(?:eot_id|eom_id|im_end|im_start|end|call|start|message|tool_call_end|tool_call_begin)\|>"
    r"|<｜(?:tool▁calls?▁(?:begin|end)|end▁of▁sentence)｜>|</?s>|</tool_calls?>|</tools>|\[/?CALL_ID\]"
)
_FENCE = "```"


@dataclass
class Salvaged:
    """What was found: calls, malformed ones as ``(name, raw text)``, and the text around them."""

    rest: str
    calls: list[Call] = field(default_factory=list)
    malformed: list[tuple[str, str]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.calls or self.malformed)


def salvage(text: str, tools: Tools, turn: int = 0) -> Salvaged:
    """Tool calls that a model wrote as text.

    Blocks with a marker may stand inside prose. A fence or bare JSON counts only when it is the whole text, since an
    agent may well show JSON to a user.

    Parameters
    ----------
    text : the answer, without thoughts.
    tools : name -> schemas of its parameters by name. A call of another tool is malformed.
    turn : for the calls' ids.
    """
    blocks, rest = _marked(text)
    if not blocks:
        bare, at = _unfenced(text), _after_prose(text, tools)
        if bare is not None and _looks_like_a_call(bare, tools):
            blocks, rest = [bare], ""
        elif bare is None and at:
            blocks, rest = [text[at:]], text[:at]
        else:
            return Salvaged(text)
    found = Salvaged(_NOISE.sub("", rest).strip())
    for block in blocks:
        for name, arguments, raw in read_block(block, tools):
            if _is_schema(arguments, tools.get(name, {})):  # the list of tools, said back: a call of none
                found.malformed += [] if found.rest else [("", raw)]
            elif name in tools and arguments is not None:
                found.calls.append(Call(name, arguments, call_id(turn, len(found.calls), name, raw)))
            else:
                found.malformed.append((name, raw))
    return found


def _is_schema(arguments: dict[str, Any] | None, parameters: Mapping[str, Any]) -> bool:
    """Whether a call's arguments are a tool's schema: small models repeat what they read of the tools."""
    return (
        arguments is not None
        and isinstance(arguments.get("properties"), dict)
        and "type" in arguments
        and not {"properties", "type"} <= parameters.keys()
    )


def call_id(turn: int, index: int, name: str, arguments: str) -> str:
    """A call id that the same answer always gets again, and that two turns do not share."""
    return "call_" + hashlib.sha256(f"{turn}|{index}|{name}|{arguments}".encode()).hexdigest()[:12]


# -- blocks --------------------------------------------------------------------------------------------------------


def _marked(text: str) -> tuple[list[str], str]:
    """Blocks that a marker opens, and the text without them."""
    blocks, rest, at = [], [], 0
    while found := _OPENING.search(text, at):
        opening = found.group()
        ends = [(text.find(close, found.end()), len(close)) for close in _BLOCKS.get(opening, ())]
        end, width = min(((e, w) for e, w in ends if e >= 0), default=(len(text), 0))
        rest.append(text[at : found.start()])
        inside = text[found.end() : end]
        if opening not in _BLOCKS:
            inside = _CLOSING.sub("", inside)
        if opening in ("<function=", "<invoke name="):  # the marker is part of the form
            inside = opening + inside
        blocks += [piece for piece in _pieces(opening, inside) if piece.strip()]
        at = end + width
    return blocks, "".join([*rest, text[at:]])


def _pieces(opening: str, inside: str) -> list[str]:
    """Single calls of a block whose dialect lists several without JSON's brackets."""
    if opening in ("<｜tool▁calls▁begin｜>", "<|tool_calls_section_begin|>", "[TOOL_CALLS]"):
        return re.split(r"<｜tool▁call▁end｜>|<\|tool_call_end\|>|\[TOOL_CALLS\]", inside)
    return [inside]


def _unfenced(text: str) -> str | None:
    """What a text holds that is one fence or JSON and nothing else."""
    text = text.strip()
    if text.startswith(("{", "[")) or PYTHONIC.match(text):
        return text
    if not text.startswith(_FENCE) or text.find(_FENCE, 3) != len(text) - 3 or len(text) < 6:
        return None
    label, _, body = text[3:-3].partition("\n")
    if label.strip() in ("", "json", "tool_call", "tool_code"):
        return body
    return text[3:-3] if label.lstrip().startswith(("{", "[")) else None


def _after_prose(text: str, tools: Tools) -> int:
    """Where a call of a known tool begins that follows prose without any marker; 0 for nowhere."""
    found = None if _FENCE in text else _AFTER_PROSE.search(text)
    return found.start() if found and found.group(1) in tools else 0


def _looks_like_a_call(text: str, tools: Tools) -> bool:
    """Whether bare text is a call: all JSON values have name and arguments, or it breaks off after a tool's name."""
    called = PYTHONIC.match(text)
    if called:
        return called.group(1) in tools
    try:
        values = flat(json_values(text))
    except ForeignText:
        guess = GUESS.search(text[:400])
        return bool(guess and guess.group(1) in tools and re.search(r'"(arguments|parameters)"', text))
    return bool(values) and all(named_in(value)[2] for value in values)
