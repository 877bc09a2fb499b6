"""The one spelling in which benchmarks give dates and amounts of their tasks, and the leak gate looks for them."""

from __future__ import annotations

import re
from collections.abc import Iterator

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
SPOKEN_DATE = re.compile(
    rf"(?i)\b({'|'.join(MONTHS)})[a-z]*\.? (\d{{1,2}})(?:st|nd|rd|th)?(?:,? (\d{{4}}))?(?![\w:])"
)
US_DATE = re.compile(r"\b(\d{1,2})/(\d{1,2})/(\d{4})\b")


def plain_number(text: str) -> str:
    """``"1,286.00"`` as ``"1286"``, ``"47.50"`` as ``"47.5"``."""
    whole, _, cents = text.replace(",", "").replace("_", "").partition(".")
    cents = cents.rstrip("0")
    return f"{whole}.{cents}" if cents else whole


def dates(text: str) -> Iterator[str]:
    """Dates written as 05/20/2024 or May 20th, as ISO; ``*-05-20`` where the year is left out."""
    for month, day, year in US_DATE.findall(text):
        yield f"{year}-{int(month):02d}-{int(day):02d}"
    for month, day, year in SPOKEN_DATE.findall(text):
        yield f"{year or '*'}-{MONTHS.index(month[:3].lower()) + 1:02d}-{int(day):02d}"
