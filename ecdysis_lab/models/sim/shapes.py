"""Argument shapes: what the form of successful arguments says about a failed one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ecdysis_lab.hooks import iso_date, plain_expression, plain_words, snake_case

MONTHS = "(january|february|march|april|may|june|july|august|september|october|november|december)"


def leaves(arguments: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """(path, value) of an argument object; rows of a list of objects share the path ``outer[].inner``."""
    for name, value in arguments.items():
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            for row in value:
                yield from ((f"{name}[].{k}", v) for k, v in row.items())
        else:
            yield name, value


def kind(value: Any) -> str:
    """JSON type: ``"text"``, ``"integer"``, ``"number"``, ``"list"`` or ``"other"``."""
    if isinstance(value, bool) or value is None:
        return "other"
    for python, name in ((str, "text"), (int, "integer"), (float, "number"), (list, "list")):
        if isinstance(value, python):
            return name
    return "other"


def pattern(value: str) -> str:
    """Regular expression of a value's form; ids with mixed letters and digits count as one class."""
    if re.fullmatch(r"[A-Z0-9]{6}", value) and re.search(r"\d", value):
        return r"[A-Z0-9]{6}"
    out = re.sub(r"\d+", lambda m: f"\0{len(m[0])}\1", value)
    out = re.sub(r"[A-Z]+", lambda m: f"\2{len(m[0])}\1", out)
    out = re.escape(re.sub(r"[a-z]+", "\3", out))
    out = re.sub("\\\\?\0(\\d+)\\\\?\1", r"\\d{\1}", out)
    out = re.sub("\\\\?\2(\\d+)\\\\?\1", r"[A-Z]{\1}", out)
    return re.sub("\\\\?\3", "[a-z]+", out)


def placeholder(value: str) -> str:
    """The same form without the value: digits become 0, capitals A, small letters a."""
    return re.sub(r"[a-z]", "a", re.sub(r"[A-Z]", "A", re.sub(r"\d", "0", value)))


def transforms(value: str) -> Iterator[tuple[list[str], str]]:
    """Canonicalisations worth trying, with what they make of a value."""
    yield ["iso_date"], iso_date(value) or value
    yield ["strip", "upper"], value.strip().upper()
    yield ["unprefix:#", "upper"], value.removeprefix("#").upper()
    yield ["unprefix:#"], value.removeprefix("#")
    yield ["prefix:#"], value if value.startswith("#") else f"#{value}"
    yield ["snake"], snake_case(value)
    yield ["zip5"], value.partition("-")[0]
    yield ["plain_expression"], plain_expression(value)
    yield ["strip", "lower"], value.strip().lower()


def same_words(a: str, b: str) -> bool:
    """Whether two values differ in case and punctuation only."""
    return plain_words(a) == plain_words(b)
