"""Text that others wrote, made safe where it enters: printable, bounded, and JSON that can hurt no one behind.

Answers of models, imported traces, event lines and stored bodies all pass here. Behind it a text can be written as
UTF-8, a number fits a double, and nothing is nested deeper than the walkers that follow can go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

MAX_CHARS = 1_000_000
MAX_DEPTH = 64
MAX_DIGITS = 300
_HALVES = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SEPARATORS = re.compile(r"[\s,;]*")


class ForeignText(ValueError):
    """Text that cannot be read as JSON within the limits; the message is one sentence without the text."""


def clean(text: str, limit: int = MAX_CHARS) -> str:
    """Text that can be written as UTF-8, at most ``limit`` characters and a mark that says how many are missing.

    Halves of surrogate pairs become ``?``, pairs of halves the character that they stand for; a control character
    (NUL, the escape of terminals) becomes a space, tabs and line ends stay.
    """
    left_out = len(text) - limit
    if left_out > 0:
        text = f"{text[:limit]} [… {left_out} more characters]"
    return _CONTROL.sub(" ", mended(text))


def mended(text: str) -> str:
    """The text with halves of surrogate pairs as ``?``, and pairs of halves as the character that they stand for."""
    if not _HALVES.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _HALVES.sub("?", joined)


def parse_json(text: str | bytes, max_depth: int = MAX_DEPTH, max_chars: int = MAX_CHARS) -> Any:
    """The one JSON value in a text, all of its texts cleaned.

    Parameters
    ----------
    text : JSON; bytes must be UTF-8.
    max_depth : levels of lists and objects.
    max_chars : longest text (bytes: as many bytes).

    Raises
    ------
    ForeignText: no JSON, NaN or an infinity, a number of more than 300 digits, too deep, too long, not UTF-8.
    """
    text = _decoded(text, max_chars)
    value, end = _value(text, len(text) - len(text.lstrip()))
    if text[end:].strip():
        raise ForeignText("text follows the JSON value")
    return each_text(value, clean, max_depth)


def json_values(text: str, max_depth: int = MAX_DEPTH) -> list[Any]:
    """The JSON values that stand one after the other in a text, between blanks, commas and semicolons.

    Raises
    ------
    ForeignText: anything else stands there; see :func:`parse_json`.
    """
    text, at = _decoded(text, MAX_CHARS), 0
    values = []
    while (at := _skip(text, at)) < len(text):
        value, at = _value(text, at)
        values.append(each_text(value, clean, max_depth))
    return values


def _skip(text: str, at: int) -> int:
    found = _SEPARATORS.match(text, at)
    return found.end() if found else at


def each_text(value: Any, change: Callable[[str], str], max_depth: int = MAX_DEPTH) -> Any:
    """A JSON value with ``change`` done to each text in it, keys included.

    Raises
    ------
    ForeignText: more than ``max_depth`` levels of lists and objects.
    """
    if isinstance(value, str):
        return change(value)
    if not isinstance(value, (dict, list)):
        return value
    if max_depth <= 0:
        raise ForeignText("nested too deeply")
    if isinstance(value, list):
        return [each_text(item, change, max_depth - 1) for item in value]
    return {change(str(key)): each_text(item, change, max_depth - 1) for key, item in value.items()}


def _decoded(text: str | bytes, max_chars: int) -> str:
    if len(text) > max_chars:
        raise ForeignText(f"longer than {max_chars} characters")
    try:
        return text.decode("utf-8-sig") if isinstance(text, bytes) else text
    except UnicodeDecodeError:
        raise ForeignText("not UTF-8") from None


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except ForeignText:
        raise
    except json.JSONDecodeError as why:
        raise ForeignText(f"not valid JSON: {why.msg}, line {why.lineno} column {why.colno}") from None
    except RecursionError:
        raise ForeignText("nested too deeply") from None


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ForeignText(f"a number of {len(digits)} digits")
    return int(digits)


def _real(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ForeignText("a number that is too large")
    return number


def _constant(name: str) -> Any:
    raise ForeignText(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_real, parse_constant=_constant)
