"""LIKE and the functions of regular expressions, for SQLite; none can hang on a pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import regex

from ecdysis_lab.benchmarks.agentbench.calls import strict
from ecdysis_lab.benchmarks.agentbench.errors import MySQLError
from ecdysis_lab.benchmarks.agentbench.values import like_fold, text

REGEX_SECONDS = 0.5


def like(value: Any, pattern: Any, escape: Any = "\\", exact: bool = False) -> int | None:
    """LIKE, without case and accents unless exact; linear in value times pattern."""
    if value is None or pattern is None:
        return None
    folded = str if exact else like_fold
    subject = folded(text(value))
    parts: list[list[str]] = [[]]
    characters = iter(text(pattern))
    for character in characters:
        if character == escape:
            character = next(characters, escape)
            parts[-1].append(regex.escape(folded(character)))
        elif character == "%":
            parts.append([])
        else:
            parts[-1].append("." if character == "_" else regex.escape(folded(character)))
    pieces = [regex.compile("".join(part), regex.DOTALL) for part in parts]
    if len(pieces) == 1:
        return int(pieces[0].fullmatch(subject) is not None)
    start = pieces[0].match(subject)
    if start is None:
        return 0
    place, tail = start.end(), len(parts[-1])
    for piece in pieces[1:-1]:
        found = piece.search(subject, place)
        if found is None:
            return 0
        place = found.end()
    last = len(subject) - tail
    return int(last >= place and pieces[-1].fullmatch(subject, last) is not None)


def _pattern(pattern: Any) -> Any:
    try:
        return regex.compile(text(pattern), regex.IGNORECASE | regex.VERSION0 | regex.UNICODE)
    except (regex.error, RecursionError, OverflowError) as problem:
        raise MySQLError(1139, f"Regex error '{problem}'") from None


def _matching(search: Callable[[], Any]) -> Any:
    try:
        return search()
    except TimeoutError:
        raise MySQLError(1139, "Regex error 'pcre_exec: match limit exceeded'") from None


@strict
def regexp(value: Any, pattern: Any) -> int:
    """REGEXP: whether the pattern is found anywhere."""
    compiled = _pattern(pattern)
    return int(_matching(lambda: compiled.search(text(value), timeout=REGEX_SECONDS)) is not None)


@strict
def regexp_replace(value: Any, pattern: Any, new: Any) -> str:
    r"""REGEXP_REPLACE, back references as ``\1``."""
    compiled, written = _pattern(pattern), text(new)
    return str(_matching(lambda: compiled.sub(written, text(value), timeout=REGEX_SECONDS)))


@strict
def regexp_substr(value: Any, pattern: Any) -> str:
    """REGEXP_SUBSTR: the first match, empty without one."""
    compiled = _pattern(pattern)
    found = _matching(lambda: compiled.search(text(value), timeout=REGEX_SECONDS))
    return str(found[0]) if found else ""


@strict
def regexp_instr(value: Any, pattern: Any) -> int:
    """REGEXP_INSTR: the place of the first match from 1, or 0."""
    compiled = _pattern(pattern)
    found = _matching(lambda: compiled.search(text(value), timeout=REGEX_SECONDS))
    return found.start() + 1 if found else 0
