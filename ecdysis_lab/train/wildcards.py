"""Regular expressions that stand for one text: literals with a few places left open."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

MAX_PATTERN = 500  # characters
MAX_CELLS = 400
LITERALS = 4  # places of a text that a pattern has to name, and at least three in five of all
Cell = frozenset[str] | None
"""Characters, in lower case, that a place takes; None for any."""


def spells(pattern: str, fact: str) -> bool:
    """Whether a regular expression names a text but for a few open places: ``sara_d.e_4967`` and ``[sS]ara``."""
    fact = fact.lower()
    if len(fact) <= LITERALS:
        return False
    return any(_holds(run, fact) for run in _runs(pattern))


def _holds(cells: Sequence[Cell], fact: str) -> bool:
    wanted = max(LITERALS, 3 * len(fact) / 5)
    for start in range(len(cells) - len(fact) + 1):
        window = cells[start : start + len(fact)]
        if all(cell is None or char in cell for cell, char in zip(window, fact, strict=True)):
            if sum(cell is not None for cell in window) >= wanted:
                return True
    return False


@functools.lru_cache(maxsize=256)
def _runs(pattern: str) -> list[list[Cell]]:
    """Stretches of single places in a pattern; what repeats freely parts two stretches."""
    if len(pattern) > MAX_PATTERN:
        return []
    try:
        tree = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError, ValueError):
        return []
    runs: list[list[Cell]] = [[]]
    for cell in _cells(tree):
        if cell == "gap" or len(runs[-1]) >= MAX_CELLS:
            runs.append([])
        if cell != "gap":
            runs[-1].append(cell)
    return runs


def _cells(tree: Any) -> Iterator[Any]:
    """Places of a parsed pattern from left to right, ``"gap"`` where the length is not known."""
    for code, value in tree:
        if code is codes.LITERAL:
            yield frozenset(chr(value).lower())
        elif code is codes.IN:
            yield _class(value)
        elif code in (codes.ANY, codes.NOT_LITERAL, codes.CATEGORY):
            yield None
        elif code is codes.SUBPATTERN:
            yield from _cells(value[-1])
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            least, most, inner = value
            for _ in range(min(least, MAX_CELLS)):
                yield from _cells(inner)
            if most != least and not (least == 0 and most == 1):
                yield "gap"
        elif code is codes.BRANCH:
            for choice in value[1]:
                yield "gap"
                yield from _cells(choice)
            yield "gap"


def _class(items: Any) -> Cell:
    """A class of at most two letters in lower case names its place; a wider one leaves it open."""
    if any(code is not codes.LITERAL for code, _ in items):
        return None
    letters = frozenset(chr(value).lower() for _, value in items)
    return letters if len(letters) <= 2 else None
