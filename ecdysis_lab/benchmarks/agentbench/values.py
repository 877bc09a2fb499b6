"""Values of MySQL inside SQLite: decimals and dates travel as tagged blobs; texts turn into numbers and back."""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from decimal import Decimal
from functools import lru_cache
from typing import Any

PACKET = 1024 * 1024  # bytes; a longer text is NULL, as MySQL's max_allowed_packet says
TEXT_BYTES = 65_535
NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
WHOLE = re.compile(r"\s*([+-]?\d+)")
_DATE = re.compile(
    r"\s*(\d{4}|\d{2})[-/.:](\d{1,2})[-/.:](\d{1,2})(?!\d)(?:[ T]+(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?)?"
)
_PACKED = re.compile(r"\s*(\d{4})(\d{2})(\d{2})(?:(\d{2})(\d{2})(\d{2}))?(?!\d)")


def load(value: Any) -> Any:
    """The Python value of what SQLite hands over; a tagged blob becomes Decimal, date, datetime or timedelta."""
    if type(value) is not bytes:
        return value
    tag, body = value[:1], value[1:].decode()
    if tag == b"D":
        return Decimal(body)
    if tag == b"T":
        return dt.date.fromisoformat(body)
    if tag == b"S":
        return dt.datetime.fromisoformat(body)
    return dt.timedelta(seconds=float(body))


def save(value: Any) -> Any:
    """The value as SQLite can hold it; the inverse of ``load``."""
    kind = type(value)
    if kind is str:
        return value if len(value) <= PACKET else None
    if value is None or kind is float:
        return value
    if kind is bool or kind is int:
        value = int(value)
        return value if -(2**63) <= value < 2**63 else b"D" + str(value).encode()
    if kind is Decimal:
        return b"D" + format(value, "f").encode()
    if kind is dt.datetime:
        return b"S" + value.isoformat(sep=" ").encode()
    if kind is dt.date:
        return b"T" + value.isoformat().encode()
    return b"H" + str(value.total_seconds()).encode()


def text(value: Any) -> str:
    """The value as MySQL writes it; not for NULL."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is float:
        return real_text(value)
    if kind is Decimal:
        return format(value, "f")
    if kind is dt.timedelta:
        seconds = int(value.total_seconds())
        hours, rest = divmod(abs(seconds), 3600)
        return f"{'-' if seconds < 0 else ''}{hours:02}:{rest // 60:02}:{rest % 60:02}"
    if kind is dt.datetime:
        return value.isoformat(sep=" ")
    return str(value)


def real_text(value: float) -> str:
    """A double as MySQL writes it: no point for whole numbers, an exponent from 1e15 on."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    written = repr(value) if abs(value) < 1e15 else f"{Decimal(repr(value)).normalize():e}".replace("e+", "e")
    if "e" not in written:
        return written.removesuffix(".0")
    mantissa, exponent = written.split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def number(value: Any) -> int | float | Decimal:
    """The value as a number; a text by the number it begins with; not for NULL."""
    kind = type(value)
    if kind is int or kind is float or kind is Decimal:
        return value  # type: ignore[no-any-return]
    if kind is str:
        found = NUMBER.match(value)
        return float(found[1]) if found else 0.0
    if kind is dt.datetime:
        return int(value.strftime("%Y%m%d%H%M%S"))
    if kind is dt.date:
        return value.year * 10_000 + value.month * 100 + value.day
    if kind is dt.timedelta:
        return int(text(value).replace(":", ""))
    return int(value)


def moment(value: Any) -> dt.datetime | None:
    """The date and time in a value, by MySQL's rules for texts; None where there is none."""
    kind = type(value)
    if kind is dt.datetime:
        return value  # type: ignore[no-any-return]
    if kind is dt.date:
        return dt.datetime(value.year, value.month, value.day)
    if value is None or kind is dt.timedelta:
        return None
    written = text(value)
    found = _PACKED.match(written) or _DATE.match(written)
    if not found:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    if len(found[1]) == 2:
        year += 2000 if year < 70 else 1900
    try:
        return dt.datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None


@lru_cache(maxsize=65_536)
def fold(value: str) -> str:
    """The text as utf8mb4_general_ci compares it: without case, accents and trailing spaces."""
    value = value.rstrip(" ")
    if value.isascii():
        return value.upper()
    return "".join(map(_weight, value))


def like_fold(value: str) -> str:
    """As ``fold``, with every space kept and every character still one character."""
    return value.upper() if value.isascii() else "".join(map(_weight, value))


@lru_cache(maxsize=4096)
def _weight(character: str) -> str:
    if character == "ß":
        return "S"
    if ord(character) > 0xFFFF:
        return "\ufffd"
    base = unicodedata.normalize("NFD", character)[0]
    upper = base.upper()
    return upper if len(upper) == 1 else base


def collate(left: str, right: str) -> int:
    """Order of two texts, -1, 0 or 1: SQLite's collation of every TEXT column."""
    left, right = fold(left), fold(right)
    return (left > right) - (left < right)


def compare(left: Any, right: Any) -> int | None:
    """Order of two values by MySQL's rules: -1, 0, 1, or None where one is NULL."""
    if left is None or right is None:
        return None
    if type(left) is str and type(right) is str:
        return collate(left, right)
    if isinstance(left, dt.date | dt.datetime) or isinstance(right, dt.date | dt.datetime):
        first, second = moment(left), moment(right)
        if first is not None and second is not None:
            return (first > second) - (first < second)
    first_number, second_number = number(left), number(right)
    if isinstance(first_number, float) or isinstance(second_number, float):
        first_number, second_number = float(first_number), float(second_number)
    return (first_number > second_number) - (first_number < second_number)


def cell(value: Any) -> str | None:
    """The value as a TEXT column stores it, cut at its limit."""
    if value is None:
        return None
    written = text(value)
    if len(written) * 4 <= TEXT_BYTES:
        return written
    return written.encode(errors="replace")[:TEXT_BYTES].decode(errors="ignore")
