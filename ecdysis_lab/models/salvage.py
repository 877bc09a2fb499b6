"""Tool calls that a model wrote as text: the dialects of the common families, and what is broken in them.

A dialect is a marker that opens a block (Hermes ``<tool_call>``, Mistral ``[TOOL_CALLS]``, Llama ``<|python_tag|>``,
DeepSeek's and Kimi's tokens, harmony's channels) and a form inside it (JSON, Qwen3-Coder's XML, GLM's pairs, a name
before its arguments). Every form is tried in every block, since servers mix them. All work is linear in the text.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ecdysis_lab.hooks import Call
from ecdysis_lab.store.foreign import ForeignText, clean, each_text, json_values, parse_json

_NAME = r"[\w.:-]{1,64}"
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
_AFTER_PROSE = re.compile(rf'\{{\s*"name"\s*:\s*"({_NAME})"\s*,\s*"(?:arguments|parameters)"\s*:')
_XML = re.compile(rf"<(?:function=|invoke name=[\"']?)({_NAME})[\"']?\s*[>,(]?")
_XML_END = re.compile(r"</(?:function|invoke)>")
_PARAMETER = re.compile(rf"<parameter(?:=| name=[\"']?)({_NAME})[\"']?\s*>\n?(.*?)\n?</parameter>", re.S)
_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s{0,20}<arg_value>(.*?)</arg_value>", re.S)
_NOISE = re.compile(
    r"<\|(?:eot_id|eom_id|im_end|im_start|end|call|start|message|tool_call_end|tool_call_begin)\|>"
    r"|<｜(?:tool▁calls?▁(?:begin|end)|end▁of▁sentence)｜>|</?s>|</tool_calls?>|</tools>|\[/?CALL_ID\]"
)
# What stands between a name and its arguments, or before a name.
_BETWEEN = re.compile(
    r"<｜tool▁sep｜>|<\|tool_call_argument_begin\|>|\[ARGS\]|<\|message\|>|<\|constrain\|>json|\[CALL_ID\][\w-]{0,40}"
    r"|<\|(?:tool_call_begin|tool_call_end)\|>|<｜tool▁calls?▁(?:begin|end)｜>|```(?:json)?"
)
_HEAD = re.compile(rf"\s*(?:function\s+)?(?:functions\.)?({_NAME}?)(?::\d+)?\s*(?=\{{)")
_GUESS = re.compile(r'"name"\s*:\s*"([^"]{0,64})"|^\s*([A-Za-z]\w{0,40}_\w{0,40})')
_PYTHONIC = re.compile(rf"\[?\s*({_NAME})\(")
_FENCE = "```"
_LONGEST_XML = 20_000
_LONGEST_PYTHON = 4_000
Read = tuple[str, dict[str, Any] | None, str]
Tools = Mapping[str, Mapping[str, Any]]


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
        for name, arguments, raw in _read(block, tools):
            if name in tools and arguments is not None:
                found.calls.append(Call(name, arguments, call_id(turn, len(found.calls), name, raw)))
            else:
                found.malformed.append((name, raw))
    return found


def call_id(turn: int, index: int, name: str, arguments: str) -> str:
    """A call id that the same answer always gets again, and that two turns do not share."""
    return "call_" + hashlib.sha256(f"{turn}|{index}|{name}|{arguments}".encode()).hexdigest()[:12]


def arguments_of(raw: Any) -> dict[str, Any] | None:
    """A JSON object from argument text; empty text is no arguments; double quoting is undone. None if it is none."""
    try:
        for _ in range(2):
            raw = parse_json(raw or "{}") if isinstance(raw, str) else raw
        return each_text(raw, clean) if isinstance(raw, dict) else None
    except ForeignText:
        return None


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
    if text.startswith(("{", "[")) or _PYTHONIC.match(text):
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
    called = _PYTHONIC.match(text)
    if called:
        return called.group(1) in tools
    try:
        values = _flat(json_values(text))
    except ForeignText:
        guess = _GUESS.search(text[:400])
        return bool(guess and guess.group(1) in tools and re.search(r'"(arguments|parameters)"', text))
    return bool(values) and all(_named(value)[2] for value in values)


# -- forms ---------------------------------------------------------------------------------------------------------


def _read(block: str, tools: Tools) -> list[Read]:
    """``(name, arguments or None, raw text)`` of each call in a block; one without arguments where nothing is read."""
    raw = block.strip()
    if (_XML.search(raw) or "<arg_key>" in raw) and len(raw) <= _LONGEST_XML:
        return list(_xml(raw, tools)) if _XML.search(raw) else [_pairs(raw, tools)]
    plain = _BETWEEN.sub(" ", raw).strip()
    return (
        _json(raw) or _json(plain) or _headed(plain, raw) or _pythonic(raw) or [(_guessed(plain), None, raw)]
    )


def _pairs(block: str, tools: Tools) -> Read:
    """GLM's form: a name, then keys and values in turn."""
    name = block.partition("<arg_key>")[0].strip()
    read = {m.group(1).strip(): m.group(2) for m in _PAIR.finditer(block)}
    whole = block.count("<arg_key>") == len(read)
    return name, _typed(read, tools.get(name, {})) if whole else None, block


def _xml(block: str, tools: Tools) -> Iterator[Read]:
    """Qwen3-Coder's form and its kin: a name in a tag, then a tag for each parameter, or JSON."""
    at = 0
    while found := _XML.search(block, at):
        end = _XML_END.search(block, found.end())
        inside = block[found.end() : end.start() if end else len(block)].strip()
        at = end.end() if end else len(block)
        read = {m.group(1): m.group(2) for m in _PARAMETER.finditer(inside)}
        whole = inside.count("<parameter") == len(read)
        plain = (
            arguments_of(inside.rstrip(") >")) if not read else _typed(read, tools.get(found.group(1), {}))
        )
        yield found.group(1), plain if whole else None, block[found.start() : at]


def _typed(values: dict[str, str], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Values that came as text, as what the tool's schema says: text, or the JSON that stands there."""
    out: dict[str, Any] = {}
    for name, text in values.items():
        try:
            out[name] = text if _takes_text(schemas.get(name)) else parse_json(text)
        except ForeignText:
            out[name] = text
    return out


def _takes_text(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    kinds = schema.get("type", [])
    return "string" in ([kinds] if isinstance(kinds, str) else kinds) or any(
        _takes_text(kind) for kind in schema.get("anyOf", ())
    )


def _flat(values: list[Any]) -> list[Any]:
    return [item for value in values for item in (value if isinstance(value, list) else [value])]


def _json(text: str) -> list[Read]:
    try:
        values = _flat(json_values(text))
    except ForeignText:
        return []
    named = [_named(value) for value in values]
    return [(name, arguments, text) for name, arguments, _ in named] if any(n for n, _, _ in named) else []


def _named(value: Any) -> tuple[str, dict[str, Any] | None, bool]:
    """Name, arguments and whether arguments were given, of a call in one of JSON's usual forms; else no name."""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict):
        return "", None, False
    name = next((value[k] for k in ("name", "tool_name", "function") if isinstance(value.get(k), str)), "")
    key = next((k for k in ("arguments", "parameters", "args") if k in value), None)
    return (name, arguments_of(value[key]) if key else {}, key is not None) if name else ("", None, False)


def _headed(text: str, raw: str) -> list[Read]:
    """A name and then its arguments, ``get_order {"id": 1}``, or a name alone."""
    if re.fullmatch(_NAME, text):
        return [(text, {}, raw)]
    head = _HEAD.match(text)
    return [(head.group(1), arguments_of(text[head.end() :]), raw)] if head else []


def _pythonic(text: str) -> list[Read]:
    """Llama's other form, ``[get_order(id="#W1")]``: calls in Python's notation with plain values by name."""
    if not _PYTHONIC.match(text) or len(text) > _LONGEST_PYTHON:
        return []
    try:
        tree = ast.parse(text, mode="eval").body
        nodes = tree.elts if isinstance(tree, (ast.List, ast.Tuple)) else [tree]
        read = [_call_node(node) for node in nodes]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return []
    return [(name, arguments, text) for name, arguments in read]


def _call_node(node: ast.expr) -> tuple[str, dict[str, Any] | None]:
    if not isinstance(node, ast.Call):
        raise ValueError("no call")
    values = {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}
    return ast.unparse(node.func), values if not node.args else None


def _guessed(text: str) -> str:
    found = _GUESS.search(text[:400])
    return (found.group(1) or found.group(2) or "") if found else ""
