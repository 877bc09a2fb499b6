"""Forms of a tool call inside a block of text: JSON, tags, keys and values in turn, a name before arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ecdysis_lab.store.foreign import ForeignText, clean, each_text, json_values, parse_json

NAME = r"[\w.:-]{1,64}"
_XML = re.compile(rf"<(?:function=|invoke name=[\"']?)({NAME})[\"']?\s*[>,(]?")
_XML_END = re.compile(r"</(?:function|invoke)>")
_PARAMETER = re.compile(rf"<parameter(?:=| name=[\"']?)({NAME})[\"']?\s*>\n?(.*?)\n?</parameter>", re.S)
_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s{0,20}<arg_value>(.*?)</arg_value>", re.S)
# What stands between a name and its arguments, or before a name.
_BETWEEN = re.compile(
    r"<｜tool▁sep｜>|<\|tool_call_argument_begin\|>|\[ARGS\]|<\|message\|>|<\|constrain\|>json|\[CALL_ID\][\w-]{0,40}"
    r"|<\|(?:tool_call_begin|tool_call_end)\|>|<｜tool▁calls?▁(?:begin|end)｜>|```(?:json)?"
)
_HEAD = re.compile(rf"\s*(?:function\s+)?(?:functions\.)?({NAME}?)(?::\d+)?\s*(?=\{{)")
GUESS = re.compile(r'"name"\s*:\s*"([^"]{0,64})"|^\s*([A-Za-z]\w{0,40}_\w{0,40})')
PYTHONIC = re.compile(rf"\[?\s*({NAME})\(")
_LONGEST_XML = 20_000
_LONGEST_PYTHON = 4_000
Read = tuple[str, dict[str, Any] | None, str]
Tools = Mapping[str, Mapping[str, Any]]


def arguments_of(raw: Any) -> dict[str, Any] | None:
    """A JSON object from argument text; empty text is no arguments; double quoting is undone. None if it is none."""
    try:
        for _ in range(2):
            raw = parse_json(raw or "{}") if isinstance(raw, str) else raw
        return each_text(raw, clean) if isinstance(raw, dict) else None
    except ForeignText:
        return None


def read_block(block: str, tools: Tools) -> list[Read]:
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


def flat(values: list[Any]) -> list[Any]:
    """The values, and in place of a list what is in it."""
    return [item for value in values for item in (value if isinstance(value, list) else [value])]


def _json(text: str) -> list[Read]:
    try:
        values = flat(json_values(text))
    except ForeignText:
        return []
    found = [named_in(value) for value in values]
    return [(name, arguments, text) for name, arguments, _ in found] if any(n for n, _, _ in found) else []


def named_in(value: Any) -> tuple[str, dict[str, Any] | None, bool]:
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
    if re.fullmatch(NAME, text):
        return [(text, {}, raw)]
    head = _HEAD.match(text)
    return [(head.group(1), arguments_of(text[head.end() :]), raw)] if head else []


def _pythonic(text: str) -> list[Read]:
    """Llama's other form, ``[get_order(id="#W1")]``: calls in Python's notation with plain values by name."""
    if not PYTHONIC.match(text) or len(text) > _LONGEST_PYTHON:
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
    found = GUESS.search(text[:400])
    return (found.group(1) or found.group(2) or "") if found else ""
