"""MySQL's functions on texts, numbers and choices, for SQLite; each takes and gives Python values, NULL is None."""

from __future__ import annotations

import base64
import hashlib
import math
import random
import zlib
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

import regex

from ecdysis_lab.benchmarks.agentbench.errors import MySQLError
from ecdysis_lab.benchmarks.agentbench.values import PACKET, compare, like_fold, number, text

Function = Callable[..., Any]
REGEX_SECONDS = 0.5


def strict(function: Function) -> Function:
    """The function, with NULL for any NULL argument, as most of MySQL's functions."""

    def call(*values: Any) -> Any:
        return None if any(value is None for value in values) else function(*values)

    return call


def on_text(function: Function) -> Function:
    """The function on the texts of its arguments, NULL for any NULL."""
    return strict(lambda *values: function(*map(text, values)))


def whole(value: Any) -> int:
    """The value as a whole number, rounded as MySQL does."""
    value = number(value)
    return int(Decimal(str(value)).to_integral_value(ROUND_HALF_UP)) if math.isfinite(value) else 0


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
    """REGEXP_REPLACE, back references as ``\\1``."""
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


def concat(*values: Any) -> str | None:
    """CONCAT: NULL where any part is."""
    if any(value is None for value in values):
        return None
    return "".join(map(text, values))


def concat_ws(separator: Any, *values: Any) -> str | None:
    """CONCAT_WS: NULL parts are left out."""
    return None if separator is None else text(separator).join(text(v) for v in values if v is not None)


@strict
def replace(value: Any, old: Any, new: Any) -> str | None:
    """REPLACE, exact in case; NULL where the result is too long."""
    value, old, new = text(value), text(old), text(new)
    if not old:
        return str(value)
    if len(value) + value.count(old) * (len(new) - len(old)) > PACKET:
        return None
    return str(value.replace(old, new))


@strict
def repeat(value: Any, count: Any) -> str | None:
    """REPEAT; NULL where the result is too long."""
    value, times = text(value), max(whole(count), 0)
    return None if len(value) * times > PACKET else value * times


def _pad(left: bool) -> Function:
    def pad(value: Any, length: Any, fill: Any = " ") -> str | None:
        value, size, filler = text(value), whole(length), text(fill)
        if size < 0 or size > PACKET or (size > len(value) and not filler):
            return None
        if size <= len(value):
            return str(value[:size])
        padding = (filler * ((size - len(value)) // len(filler) + 1))[: size - len(value)]
        return str(padding + value) if left else str(value + padding)

    return strict(pad)


@strict
def substring(value: Any, start: Any, length: Any = None) -> str:
    """SUBSTRING: from 1, negative from the end."""
    value, begin = text(value), whole(start)
    begin = begin - 1 if begin > 0 else len(value) + begin if begin < 0 else -1
    return "" if begin < 0 else str(value[begin:])


def substring3(value: Any, start: Any, length: Any) -> str | None:
    """SUBSTRING with a length."""
    rest = substring(value, start)
    return None if rest is None or length is None else str(rest[: max(whole(length), 0)])


@strict
def substring_index(value: Any, separator: Any, count: Any) -> str:
    """SUBSTRING_INDEX: what stands before the count-th separator, from the right for a negative count."""
    value, separator, count = text(value), text(separator), whole(count)
    if not separator or not count:
        return ""
    parts = value.split(separator)
    return str(separator.join(parts[:count] if count > 0 else parts[count:]))


@strict
def locate(part: Any, value: Any, start: Any = 1) -> int:
    """LOCATE: place from 1, 0 where it is not; without case and accents."""
    begin = whole(start) - 1
    return like_fold(text(value)).find(like_fold(text(part)), begin) + 1 if begin >= 0 else 0


@strict
def find_in_set(part: Any, values: Any) -> int:
    """FIND_IN_SET: place in a list with commas."""
    parts = text(values).split(",") if text(values) else []
    return next((place for place, other in enumerate(parts, 1) if compare(text(part), other) == 0), 0)


def field(value: Any, *others: Any) -> int:
    """FIELD: place of the first equal argument, 0 without."""
    return next((place for place, other in enumerate(others, 1) if compare(value, other) == 0), 0)


def elt(place: Any, *values: Any) -> str | None:
    """ELT: the argument at a place."""
    index = 0 if place is None else whole(place)
    chosen = values[index - 1] if 0 < index <= len(values) else None
    return None if chosen is None else text(chosen)


def interval(value: Any, *bounds: Any) -> int:
    """INTERVAL(): how many bounds are not above the value; -1 for NULL."""
    return -1 if value is None else sum((compare(bound, value) or 0) <= 0 for bound in bounds)


def _trim(method: str) -> Function:
    def trim(value: str, characters: str = " ") -> str:
        while characters and method != "rstrip" and value.startswith(characters):
            value = value[len(characters) :]
        while characters and method != "lstrip" and value.endswith(characters):
            value = value[: -len(characters)]
        return value

    return on_text(trim)


@strict
def hexadecimal(value: Any) -> str:
    """HEX of a whole number or of a text's bytes."""
    if isinstance(value, str):
        return value.encode(errors="replace").hex().upper()
    return f"{whole(value) & (2**64 - 1):X}"


@strict
def format_number(value: Any, digits: Any = 0, _locale: Any = None) -> str:
    """FORMAT: with commas for thousands and a fixed number of decimals."""
    places = min(max(whole(digits), 0), 30)
    return f"{Decimal(str(number(value))).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):,f}"


@strict
def insert(value: Any, start: Any, length: Any, new: Any) -> str:
    """INSERT(): a part of a text replaced."""
    value, begin, size = text(value), whole(start), whole(length)
    if begin < 1 or begin > len(value):
        return str(value)
    end = len(value) if size < 0 else begin - 1 + size
    return str(value[: begin - 1] + text(new) + value[end:])


@strict
def conv(value: Any, old: Any, new: Any) -> str | None:
    """CONV between bases 2 to 36."""
    try:
        left = int(text(value).strip() or "0", abs(whole(old)))
    except ValueError:
        return "0"
    base, digits = abs(whole(new)), ""
    if not 2 <= base <= 36:
        return None
    while left:
        left, rest = divmod(left, base)
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[rest] + digits
    return digits or "0"


def _quote(value: Any) -> str:
    if value is None:
        return "NULL"
    return "'" + text(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _sounds(value: str) -> str:
    codes = {
        c: str(n) for n, group in enumerate(("BFPV", "CGJKQSXZ", "DT", "L", "MN", "R"), 1) for c in group
    }
    letters = [c for c in like_fold(value) if "A" <= c <= "Z"]
    result, last = "".join(letters[:1]), codes.get(letters[0]) if letters else None
    for letter in letters[1:]:
        code = codes.get(letter)
        if code and code != last:
            result += code
        if letter not in "HW":
            last = code
    return result.ljust(4, "0") if result else ""


def _length(value: str) -> int:
    return len(value.encode(errors="replace"))


def _digest(name: str) -> Function:
    return on_text(lambda value: hashlib.new(name, value.encode(errors="replace")).hexdigest())


def _char(*codes: Any) -> str:
    return "".join(chr(whole(code) & 0xFF) for code in codes if code is not None)


def _decimals_of(value: Any) -> int:
    return max(-value.as_tuple().exponent, 0) if isinstance(value, Decimal) else 0


TEXT_FUNCTIONS: dict[str, tuple[Function, int, int, str]] = {
    "concat": (concat, 1, 99, "text"),
    "concat_ws": (concat_ws, 2, 99, "text"),
    "replace": (replace, 3, 3, "text"),
    "repeat": (repeat, 2, 2, "text"),
    "space": (strict(lambda n: repeat(" ", n)), 1, 1, "text"),
    "lpad": (_pad(True), 2, 3, "text"),
    "rpad": (_pad(False), 2, 3, "text"),
    "left": (strict(lambda v, n: text(v)[: max(whole(n), 0)]), 2, 2, "text"),
    "right": (strict(lambda v, n: text(v)[-whole(n) :] if whole(n) > 0 else ""), 2, 2, "text"),
    "substring": (lambda v, s, *n: substring3(v, s, *n) if n else substring(v, s), 2, 3, "text"),
    "substring_index": (substring_index, 3, 3, "text"),
    "locate": (locate, 2, 3, "int"),
    "instr": (strict(lambda value, part: locate(part, value)), 2, 2, "int"),
    "position": (locate, 2, 2, "int"),
    "find_in_set": (find_in_set, 2, 2, "int"),
    "field": (field, 2, 99, "int"),
    "elt": (elt, 2, 99, "text"),
    "interval": (interval, 2, 99, "int"),
    "trim": (_trim("strip"), 1, 2, "text"),
    "ltrim": (_trim("lstrip"), 1, 2, "text"),
    "rtrim": (_trim("rstrip"), 1, 2, "text"),
    "lower": (on_text(str.lower), 1, 1, "text"),
    "lcase": (on_text(str.lower), 1, 1, "text"),
    "upper": (on_text(str.upper), 1, 1, "text"),
    "ucase": (on_text(str.upper), 1, 1, "text"),
    "reverse": (on_text(lambda value: value[::-1]), 1, 1, "text"),
    "length": (on_text(_length), 1, 1, "int"),
    "octet_length": (on_text(_length), 1, 1, "int"),
    "bit_length": (on_text(lambda value: 8 * _length(value)), 1, 1, "int"),
    "char_length": (on_text(len), 1, 1, "int"),
    "character_length": (on_text(len), 1, 1, "int"),
    "ascii": (on_text(lambda value: value.encode(errors="replace")[0] if value else 0), 1, 1, "int"),
    "ord": (on_text(lambda value: int.from_bytes(value[:1].encode(errors="replace"), "big")), 1, 1, "int"),
    "char": (_char, 1, 99, "text"),
    "hex": (hexadecimal, 1, 1, "text"),
    "md5": (_digest("md5"), 1, 1, "text"),
    "sha": (_digest("sha1"), 1, 1, "text"),
    "sha1": (_digest("sha1"), 1, 1, "text"),
    "sha2": (strict(lambda v, n: _digest(f"sha{whole(n) or 256}")(v)), 2, 2, "text"),
    "crc32": (on_text(lambda value: zlib.crc32(value.encode(errors="replace"))), 1, 1, "int"),
    "to_base64": (on_text(lambda v: base64.b64encode(v.encode(errors="replace")).decode()), 1, 1, "text"),
    "format": (format_number, 2, 3, "text"),
    "insert": (insert, 4, 4, "text"),
    "conv": (conv, 3, 3, "text"),
    "bin": (strict(lambda v: conv(whole(v), 10, 2)), 1, 1, "text"),
    "oct": (strict(lambda v: conv(whole(v), 10, 8)), 1, 1, "text"),
    "quote": (_quote, 1, 1, "text"),
    "soundex": (on_text(_sounds), 1, 1, "text"),
    "strcmp": (strict(lambda left, right: compare(text(left), text(right))), 2, 2, "int"),
    "regexp_replace": (regexp_replace, 3, 3, "text"),
    "regexp_substr": (regexp_substr, 2, 2, "text"),
    "regexp_instr": (regexp_instr, 2, 2, "int"),
}


def _rounded(rounding: str) -> Function:
    def round_to(value: Any, digits: Any = 0) -> Any:
        value, places = number(value), min(max(whole(digits), -30), 30)
        if isinstance(value, float):
            if not math.isfinite(value) or abs(value) > 1e15:
                return value
            scaled = value * 10.0**places
            return float(math.trunc(scaled) if rounding == ROUND_DOWN else round(scaled)) / 10.0**places
        unit = Decimal(1).scaleb(-min(places, _decimals_of(value)))
        result = Decimal(value).quantize(unit, rounding)
        if places < 0:
            result = result.quantize(Decimal(1))
        return int(result) if isinstance(value, int) else result

    return strict(round_to)


def _to_whole(function: Callable[[Any], int]) -> Function:
    def call(value: Any) -> Any:
        value = number(value)
        if isinstance(value, float):
            return float(function(value)) if math.isfinite(value) else value
        return function(value)

    return strict(call)


def _real(function: Callable[..., float]) -> Function:
    def call(*values: Any) -> float | None:
        try:
            result = function(*(float(number(value)) for value in values))
        except (ValueError, ZeroDivisionError):
            return None
        except OverflowError:
            raise MySQLError(1690, "DOUBLE value is out of range") from None
        return result if isinstance(result, float) and math.isfinite(result) else None

    return strict(call)


def extreme(sign: int) -> Function:
    """GREATEST (sign 1) or LEAST (-1): numbers when any argument is a number."""

    def call(*values: Any) -> Any:
        if any(value is None for value in values):
            return None
        best = values[0]
        if not all(isinstance(value, str) for value in values):
            values = tuple(number(value) if isinstance(value, str) else value for value in values)
            best = values[0]
        for value in values[1:]:
            if (compare(value, best) or 0) * sign > 0:
                best = value
        if any(isinstance(value, float) for value in values) and isinstance(best, int | Decimal):
            return float(best)
        return best

    return call


def _sign(value: Any) -> int:
    value = number(value)
    return (value > 0) - (value < 0)


def _log(value: float, other: float | None = None) -> float:
    return math.log(value) if other is None else math.log(other, value)


NUMBER_FUNCTIONS: dict[str, tuple[Function, int, int, str]] = {
    "round": (_rounded(ROUND_HALF_UP), 1, 2, "number"),
    "truncate": (_rounded(ROUND_DOWN), 2, 2, "number"),
    "ceil": (_to_whole(math.ceil), 1, 1, "number"),
    "ceiling": (_to_whole(math.ceil), 1, 1, "number"),
    "floor": (_to_whole(math.floor), 1, 1, "number"),
    "abs": (strict(lambda value: abs(number(value))), 1, 1, "number"),
    "sign": (strict(_sign), 1, 1, "int"),
    "sqrt": (_real(math.sqrt), 1, 1, "real"),
    "exp": (_real(math.exp), 1, 1, "real"),
    "ln": (_real(math.log), 1, 1, "real"),
    "log": (_real(_log), 1, 2, "real"),
    "log2": (_real(math.log2), 1, 1, "real"),
    "log10": (_real(math.log10), 1, 1, "real"),
    "pow": (_real(math.pow), 2, 2, "real"),
    "power": (_real(math.pow), 2, 2, "real"),
    "pi": (lambda: 3.141593, 0, 0, "real"),
    "rand": (
        lambda *seed: random.Random(*map(str, seed)).random() if seed else random.random(),
        0,
        1,
        "real",
    ),
    "sin": (_real(math.sin), 1, 1, "real"),
    "cos": (_real(math.cos), 1, 1, "real"),
    "tan": (_real(math.tan), 1, 1, "real"),
    "atan": (_real(math.atan), 1, 1, "real"),
    "radians": (_real(math.radians), 1, 1, "real"),
    "degrees": (_real(math.degrees), 1, 1, "real"),
    "greatest": (extreme(1), 2, 99, "any"),
    "least": (extreme(-1), 2, 99, "any"),
}
