"""MySQL's functions on dates and times, for SQLite; a text that is no date gives NULL."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Callable
from typing import Any

from ecdysis_lab.benchmarks.agentbench.calls import Function, strict, whole
from ecdysis_lab.benchmarks.agentbench.values import moment, number, text

_DAYS_OF_YEAR_ZERO = 365
_NAMES = list(calendar.month_name)
_SPECS = {
    "Y": r"(?P<Y>\d{4})",
    "y": r"(?P<y>\d{2})",
    "m": r"(?P<m>\d{1,2})",
    "c": r"(?P<m>\d{1,2})",
    "d": r"(?P<d>\d{1,2})",
    "e": r"(?P<d>\d{1,2})",
    "D": r"(?P<d>\d{1,2})(?:st|nd|rd|th)",
    "M": r"(?P<M>[A-Za-z]+)",
    "b": r"(?P<M>[A-Za-z]{3})",
    "W": r"[A-Za-z]+",
    "a": r"[A-Za-z]{3}",
    "H": r"(?P<H>\d{1,2})",
    "k": r"(?P<H>\d{1,2})",
    "h": r"(?P<h>\d{1,2})",
    "I": r"(?P<h>\d{1,2})",
    "l": r"(?P<h>\d{1,2})",
    "i": r"(?P<i>\d{1,2})",
    "s": r"(?P<s>\d{1,2})",
    "S": r"(?P<s>\d{1,2})",
    "p": r"(?P<p>[AaPp][Mm])",
    "T": r"(?P<H>\d{1,2}):(?P<i>\d{1,2}):(?P<s>\d{1,2})",
}
_UNIT_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}
_UNIT_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
UNITS = frozenset({*_UNIT_SECONDS, *_UNIT_MONTHS, "MICROSECOND"})


def on_date(function: Callable[[dt.datetime], Any]) -> Function:
    """The function on the moment in its argument, NULL where there is none."""

    def call(value: Any) -> Any:
        found = moment(value)
        return None if found is None else function(found)

    return call


def seconds_of(value: Any) -> int | None:
    """Seconds since midnight of a time or a date and time."""
    if value is None:
        return None
    if isinstance(value, dt.timedelta):
        return int(value.total_seconds())
    found = re.match(r"\s*(-?)(\d{1,3}):(\d{1,2})(?::(\d{1,2}))?", text(value))
    if found:
        total = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4] or 0)
        return -total if found[1] else total
    day = moment(value)
    return None if day is None else day.hour * 3600 + day.minute * 60 + day.second


def week(day: dt.datetime, monday: bool = False, first_full: bool = True) -> tuple[int, int]:
    """Year and number of the week; by default weeks begin on Sunday, week 1 with the year's first Sunday."""
    weekday = (day.weekday() + (0 if monday else 1)) % 7
    year_day = day.timetuple().tm_yday - 1
    number_of = (year_day - weekday + 7) // 7
    if not first_full:
        first = dt.datetime(day.year, 1, 1)
        number_of += int(0 < (first.weekday() + (0 if monday else 1)) % 7 < 4)
    return (day.year, number_of) if number_of else (day.year - 1, 0)


def _yearweek(day: dt.datetime) -> int:
    year, count = week(day)
    if not count:
        year, count = week(dt.datetime(year, 12, 31))
    return year * 100 + count


def _ordinal(day: int) -> str:
    return f"{day}{'th' if 10 < day < 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"


_FORMATS: dict[str, Callable[[dt.datetime], str]] = {
    "a": lambda d: calendar.day_abbr[d.weekday()],
    "b": lambda d: calendar.month_abbr[d.month],
    "c": lambda d: str(d.month),
    "D": lambda d: _ordinal(d.day),
    "d": lambda d: f"{d.day:02}",
    "e": lambda d: str(d.day),
    "f": lambda d: f"{d.microsecond:06}",
    "H": lambda d: f"{d.hour:02}",
    "h": lambda d: f"{d.hour % 12 or 12:02}",
    "I": lambda d: f"{d.hour % 12 or 12:02}",
    "i": lambda d: f"{d.minute:02}",
    "j": lambda d: f"{d.timetuple().tm_yday:03}",
    "k": lambda d: str(d.hour),
    "l": lambda d: str(d.hour % 12 or 12),
    "M": lambda d: _NAMES[d.month],
    "m": lambda d: f"{d.month:02}",
    "p": lambda d: "AM" if d.hour < 12 else "PM",
    "r": lambda d: f"{d.hour % 12 or 12:02}:{d.minute:02}:{d.second:02} {'AM' if d.hour < 12 else 'PM'}",
    "S": lambda d: f"{d.second:02}",
    "s": lambda d: f"{d.second:02}",
    "T": lambda d: f"{d.hour:02}:{d.minute:02}:{d.second:02}",
    "U": lambda d: f"{week(d)[1]:02}",
    "u": lambda d: f"{week(d, monday=True, first_full=False)[1]:02}",
    "W": lambda d: calendar.day_name[d.weekday()],
    "w": lambda d: str((d.weekday() + 1) % 7),
    "Y": lambda d: f"{d.year:04}",
    "y": lambda d: f"{d.year % 100:02}",
}


def date_format(value: Any, pattern: Any) -> str | None:
    """DATE_FORMAT with MySQL's letters."""
    day = moment(value)
    if day is None or pattern is None:
        return None
    return re.sub(r"%(.)", lambda m: _FORMATS.get(m[1], lambda _: m[1])(day), text(pattern), flags=re.DOTALL)


def _month(name: str) -> int:
    wanted = name.lower()
    return next((n for n, full in enumerate(_NAMES) if n and wanted in (full.lower(), full[:3].lower())), 0)


def str_to_date(value: Any, pattern: Any) -> Any:
    """STR_TO_DATE: a date, a date and time, or a time, by the letters of the pattern; NULL where it does not fit."""
    if value is None or pattern is None:
        return None
    rest, letters = text(value).lstrip(), set()
    got: dict[str, str | None] = {}
    for letter, blank, plain in re.findall(r"%(.)|(\s+)|(.)", text(pattern), flags=re.DOTALL):
        rest = rest.lstrip()
        if not rest:
            break
        piece = _SPECS.get(letter, re.escape(letter)) if letter else "" if blank else re.escape(plain)
        found = re.match(piece, rest, flags=re.IGNORECASE)
        if found is None:
            return None
        got |= found.groupdict()
        letters.add(letter)
        rest = rest[found.end() :]
    return _made(got, letters - {""})


def _made(got: dict[str, str | None], letters: set[str]) -> Any:
    year = int(got.get("Y") or 0) or (
        int(got["y"] or 0) + (2000 if int(got["y"] or 0) < 70 else 1900) if "y" in got else 0
    )
    month = _month(got["M"] or "") if "M" in got else int(got.get("m") or 0)
    if "M" in got and not month:
        return None
    day, hour = int(got.get("d") or 0), int(got.get("H") or got.get("h") or 0)
    if got.get("p"):
        hour = hour % 12 + (12 if (got["p"] or "").lower() == "pm" else 0)
    minute, second = int(got.get("i") or 0), int(got.get("s") or 0)
    timed, dated = letters & set("HkhIlisSTp"), letters & set("YymcdeDMb")
    if month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59:
        return None
    if timed and not dated:
        return dt.timedelta(hours=hour, minutes=minute, seconds=second)
    clock = f" {hour:02}:{minute:02}:{second:02}" if timed else ""
    if not (year and month and day):
        return f"{year:04}-{month:02}-{day:02}{clock}"
    try:
        return dt.datetime(year, month, day, hour, minute, second) if timed else dt.date(year, month, day)
    except ValueError:
        return None


def shift(value: Any, count: Any, unit: str, sign: int = 1) -> Any:
    """DATE_ADD and DATE_SUB: a date stays a date and a text a text; NULL outside the years 1 to 9999."""
    day = moment(value)
    if day is None or count is None:
        return None
    unit = unit.upper()
    try:
        if unit in _UNIT_MONTHS:
            months = day.year * 12 + day.month - 1 + sign * whole(count) * _UNIT_MONTHS[unit]
            year, month = divmod(months, 12)
            last = calendar.monthrange(year, month + 1)[1]
            day = day.replace(year=year, month=month + 1, day=min(day.day, last))
        elif unit == "MICROSECOND":
            day += dt.timedelta(microseconds=sign * whole(count))
        else:
            day += dt.timedelta(seconds=sign * float(number(count)) * _UNIT_SECONDS[unit])
    except (ValueError, OverflowError, calendar.IllegalMonthError):
        return None
    clock = unit in ("SECOND", "MINUTE", "HOUR", "MICROSECOND")
    if type(value) is dt.date:
        return day if clock else day.date()
    if isinstance(value, dt.datetime):
        return day
    timed = clock or ":" in text(value)
    return day.isoformat(sep=" ") if timed else day.date().isoformat()


def timestampdiff(unit: Any, first: Any, second: Any) -> int | None:
    """TIMESTAMPDIFF: whole units from the first to the second moment."""
    start, end = moment(first), moment(second)
    if start is None or end is None:
        return None
    unit = text(unit).upper()
    if unit in _UNIT_SECONDS:
        return int((end - start).total_seconds() / _UNIT_SECONDS[unit])
    sign = 1 if end >= start else -1
    start, end = min(start, end), max(start, end)
    months = (end.year - start.year) * 12 + end.month - start.month
    months -= int((end.day, end.time()) < (start.day, start.time()))
    return sign * (months // _UNIT_MONTHS[unit])


def _datediff(first: Any, second: Any) -> int | None:
    start, end = moment(first), moment(second)
    return None if start is None or end is None else (start.date() - end.date()).days


def _makedate(year: Any, day: Any) -> dt.date | None:
    try:
        made = dt.date(whole(year), 1, 1) + dt.timedelta(days=whole(day) - 1)
    except (ValueError, OverflowError):
        return None
    return made if whole(day) > 0 else None


def _from_days(value: Any) -> dt.date | None:
    try:
        return dt.date.fromordinal(whole(value) - _DAYS_OF_YEAR_ZERO)
    except (ValueError, OverflowError):
        return None


def _to_time(value: Any) -> dt.timedelta | None:
    seconds = seconds_of(value)
    return None if seconds is None else dt.timedelta(seconds=seconds)


def _timediff(first: Any, second: Any) -> dt.timedelta | None:
    start, end = seconds_of(first), seconds_of(second)
    return None if start is None or end is None else dt.timedelta(seconds=start - end)


def _from_unix(value: Any, pattern: Any = "") -> Any:
    try:
        day = dt.datetime.fromtimestamp(whole(value), dt.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None
    return date_format(day, pattern) if pattern else day


def _of_clock(part: Callable[[int], int]) -> Function:
    def call(value: Any) -> int | None:
        seconds = seconds_of(value)
        return None if seconds is None else part(abs(seconds))

    return call


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)


def _epoch(day: dt.datetime) -> int:
    return int((day - dt.datetime(1970, 1, 1)).total_seconds())


DATE_FUNCTIONS: dict[str, tuple[Function, int, int, str]] = {
    "year": (on_date(lambda d: d.year), 1, 1, "int"),
    "month": (on_date(lambda d: d.month), 1, 1, "int"),
    "day": (on_date(lambda d: d.day), 1, 1, "int"),
    "dayofmonth": (on_date(lambda d: d.day), 1, 1, "int"),
    "quarter": (on_date(lambda d: (d.month + 2) // 3), 1, 1, "int"),
    "monthname": (on_date(lambda d: _NAMES[d.month]), 1, 1, "text"),
    "dayname": (on_date(lambda d: calendar.day_name[d.weekday()]), 1, 1, "text"),
    "dayofweek": (on_date(lambda d: (d.weekday() + 1) % 7 + 1), 1, 1, "int"),
    "weekday": (on_date(dt.datetime.weekday), 1, 1, "int"),
    "dayofyear": (on_date(lambda d: d.timetuple().tm_yday), 1, 1, "int"),
    "week": (on_date(lambda d: week(d)[1]), 1, 1, "int"),
    "weekofyear": (on_date(lambda d: d.isocalendar()[1]), 1, 1, "int"),
    "yearweek": (on_date(_yearweek), 1, 1, "int"),
    "last_day": (
        on_date(lambda d: d.date().replace(day=calendar.monthrange(d.year, d.month)[1])),
        1,
        1,
        "date",
    ),
    "to_days": (on_date(lambda d: d.toordinal() + _DAYS_OF_YEAR_ZERO), 1, 1, "int"),
    "from_days": (strict(_from_days), 1, 1, "date"),
    "makedate": (strict(_makedate), 2, 2, "date"),
    "date": (on_date(dt.datetime.date), 1, 1, "date"),
    "timestamp": (on_date(lambda d: d), 1, 1, "datetime"),
    "time": (_to_time, 1, 1, "time"),
    "hour": (_of_clock(lambda s: s // 3600), 1, 1, "int"),
    "minute": (_of_clock(lambda s: s // 60 % 60), 1, 1, "int"),
    "second": (_of_clock(lambda s: s % 60), 1, 1, "int"),
    "time_to_sec": (seconds_of, 1, 1, "int"),
    "sec_to_time": (strict(lambda v: dt.timedelta(seconds=whole(v))), 1, 1, "time"),
    "timediff": (_timediff, 2, 2, "time"),
    "datediff": (_datediff, 2, 2, "int"),
    "date_format": (date_format, 2, 3, "text"),
    "str_to_date": (str_to_date, 2, 2, "date"),
    "timestampdiff": (timestampdiff, 3, 3, "int"),
    "unix_timestamp": (lambda *v: on_date(_epoch)(*v) if v else _epoch(_now()), 0, 1, "int"),
    "from_unixtime": (strict(_from_unix), 1, 2, "datetime"),
    "now": (_now, 0, 1, "datetime"),
    "sysdate": (_now, 0, 1, "datetime"),
    "current_timestamp": (_now, 0, 1, "datetime"),
    "localtime": (_now, 0, 1, "datetime"),
    "localtimestamp": (_now, 0, 1, "datetime"),
    "utc_timestamp": (_now, 0, 1, "datetime"),
    "curdate": (lambda: _now().date(), 0, 0, "date"),
    "current_date": (lambda: _now().date(), 0, 0, "date"),
    "utc_date": (lambda: _now().date(), 0, 0, "date"),
    "curtime": (lambda: _to_time(_now()), 0, 0, "time"),
    "current_time": (lambda: _to_time(_now()), 0, 0, "time"),
}
