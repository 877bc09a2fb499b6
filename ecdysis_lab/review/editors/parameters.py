"""What a guard's parameters may look like, before they become code."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Guard = dict[str, Any]


class UnknownGuard(ValueError):
    """The guard names no template, or a parameter is missing or of the wrong form."""


def _matches(form: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and re.fullmatch(form, value) is not None


def _is_pattern(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _all(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and bool(value) and all(map(check, value))


def _is_renaming(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(_NAME(k) and (v is None or _NAME(v)) for k, v in value.items())
    )


_NAME = _matches(r"[A-Za-z]\w{0,79}")
_TEXT = _matches(r"(?s)\s*\S.{0,3999}")
# What a model may put into code; anything else could end a string early and become code of its own.
PARAMETERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "argument": (
        _matches(r"[A-Za-z]\w{0,79}(\[\]\.[A-Za-z]\w{0,79})?"),
        "an argument name, or `list[].name`",
    ),
    "tool": (_NAME, "a tool name"),
    "read": (_NAME, "a tool name"),
    "tools": (_all(_NAME), "a list of tool names"),
    "names": (_is_renaming, "an object from wrong to right argument names"),
    "text": (_TEXT, "a text of at most 4000 characters"),
    "when": (_is_pattern, "a regular expression"),
    "shape": (_is_pattern, "a regular expression"),
    "transform": (_all(lambda step: isinstance(step, str)), "a list of steps"),
    "values": (_all(lambda value: isinstance(value, str)), "a list of texts"),
    "limit": (lambda value: type(value) is int and 2 <= value <= 100, "a whole number from 2 to 100"),
}


def check_parameters(guard: Guard) -> None:
    """Raise ``UnknownGuard`` for the first parameter of a wrong form; a null counts as absent."""
    for name, value in guard.items():
        if name in PARAMETERS and value is not None and not PARAMETERS[name][0](value):
            raise UnknownGuard(
                f"guard {guard['kind']}: {name} must be {PARAMETERS[name][1]}, not {str(value)[:80]!r}"
            )
