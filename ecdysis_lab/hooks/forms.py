"""Canonical forms, patterns, and the texts that a model gets before the interaction."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

Row = dict[str, Any]
Pattern = re.Pattern[str]
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")
_CURRENCY = re.compile(r"[$€£]")
_BETWEEN = re.compile(r"[\s-]+")
_NO_WORD = re.compile(r"[^a-z0-9]+")
_WHOLE = re.compile(r"\$?\s*(-?\d[\d,]*)(?:\.0+)?")
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})")
_YEAR_LAST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})")
_MONTH_NAMED = re.compile(r"([a-z]{3})[a-z]*\.? (\d{1,2})(?:st|nd|rd|th)?(?:,? (\d{4}))?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def anycase(pattern: str) -> Pattern:
    """A pattern that matches in any case. Call it at module level, so that no hook waits for the compiler."""
    return re.compile(pattern, re.IGNORECASE)


def plain_expression(text: str) -> str:
    """``"$1,200 × 2"`` -> ``"1200 * 2"``."""
    return _THOUSANDS.sub("", _CURRENCY.sub("", text)).replace("×", "*").replace("÷", "/")


def snake_case(text: str) -> str:
    """``"Credit Card 12"`` -> ``"credit_card_12"``."""
    return _BETWEEN.sub("_", text.strip().lower())


def plain_words(text: str) -> str:
    """``"No longer needed."`` -> ``"no longer needed"``: small letters and digits, one space between words."""
    return _NO_WORD.sub(" ", text.lower()).strip()


def whole_number(text: str) -> int | None:
    """``"$1,050.00"`` -> ``1050``; None for what is no whole number."""
    found = _WHOLE.fullmatch(text)
    return int(found[1].replace(",", "")) if found else None


def json_list(text: str) -> Any:
    """The list that a JSON text holds, or None."""
    try:
        return json.loads(text) if text.startswith("[") else None
    except ValueError:
        return None


def iso_date(text: str, year: str = "") -> str | None:
    """``"05/24/2024"``, ``"May 24th"``, ``"2024-5-24"`` -> ``"2024-05-24"``; None where it is not clear.

    Parameters
    ----------
    text : a date.
    year : the present one, for a date without; in it ``05/06`` is May 6, in others it may be June 5. Where it is
        empty, the month comes first in every year, and a date without a year is not clear.
    """
    found = _YEAR_FIRST.fullmatch(text)
    if found:
        return _iso(found[1], found[2], found[3])
    found = _YEAR_LAST.fullmatch(text)
    if found and (int(found[2]) > 12 or year in ("", found[3])):
        return _iso(found[3], found[1], found[2])
    found = _MONTH_NAMED.fullmatch(text.lower())
    known = found and found[1] in _MONTHS
    return _iso(found[3] or year, str(_MONTHS.index(found[1]) + 1), found[2]) if found and known else None


def _iso(year: str, month: str, day: str) -> str | None:
    try:
        return datetime.date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None


def with_note(tool: Row, notes: Mapping[str, str]) -> Row:
    """The tool with its note, if there is one, under its description."""
    note = notes.get(tool["name"])
    return {**tool, "description": f"{tool['description']}\nNote: {note}"} if note else tool


def fitting(opening: str, procedures: Iterable[tuple[Pattern, str]]) -> list[str]:
    """Procedures whose words occur in the user's first message."""
    return [text for words, text in procedures if words.search(opening)]
