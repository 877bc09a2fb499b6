"""MySQL's functions on texts, for SQLite; each takes and gives Python values, NULL is None."""

from __future__ import annotations

import base64
import hashlib
import zlib
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from ecdysis_lab.benchmarks.agentbench.calls import Function, on_text, strict, whole
from ecdysis_lab.benchmarks.agentbench.patterns import regexp_instr, regexp_replace, regexp_substr
from ecdysis_lab.benchmarks.agentbench.values import PACKET, compare, like_fold, number, text


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
