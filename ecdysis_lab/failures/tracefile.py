"""A file of foreign records as raw JSON values, record by record: one that is damaged takes no other along."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecdysis_lab.store.foreign import MAX_DIGITS

MAX_BYTES = 512 * 1024 * 1024  # of one file; parsed JSON takes several times as much memory
_GZIP = b"\x1f\x8b"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)


class Unreadable(str):
    """Stands in a record for a number that is none, and says which: ``"a number of 5,000 digits"``."""


@dataclass(frozen=True)
class Flaw:
    """What of a file is no record: its number, counted from 0, the field and what is wrong."""

    record: int
    field: str
    what: str


@dataclass(frozen=True)
class RawFile:
    """Numbered records of a file, what is damaged, and the ``info`` of a τ² results file."""

    records: tuple[tuple[int, Any], ...]
    flaws: tuple[Flaw, ...] = ()
    info: Any = None


def read_records(file: Path, lines: bool) -> RawFile:
    """The records of a file; its size is looked at before it is read.

    Parameters
    ----------
    file : JSON (a list, ``{"info", "simulations"}`` or one record) or, with ``lines``, JSONL.
    """
    try:
        size = file.stat().st_size
        if size > MAX_BYTES:
            what = f"{size:,} bytes; at most {MAX_BYTES:,} are read, split the file"
            return RawFile((), (Flaw(0, "file", what),))
        data = file.read_bytes()
    except OSError as error:
        return RawFile((), (Flaw(0, "file", f"cannot be read: {error.strerror or error}"),))
    if data.startswith(_GZIP):
        return RawFile((), (Flaw(0, "file", "compressed with gzip; unpack it first"),))
    text = data.decode(json.detect_encoding(data), errors="replace").lstrip("\ufeff")
    if not lines:
        return _document(text)
    # Not splitlines(): a line separator inside a JSON string is legal and must not cut the record.
    return _each((number, row) for number, row in enumerate(r for r in text.split("\n") if r.strip()))


def _document(text: str) -> RawFile:
    try:
        document = _parsed(text)
    except ValueError as why:
        return _by_pieces(text, str(why))
    if isinstance(document, list):
        return RawFile(tuple(enumerate(document)))
    if isinstance(document, dict) and isinstance(document.get("simulations"), list):
        return RawFile(tuple(enumerate(document["simulations"])), (), document.get("info"))
    return RawFile(((0, document),))


def _parsed(text: str) -> Any:
    """A JSON value, with :class:`Unreadable` for numbers that nothing behind could hold.

    Raises
    ------
    ValueError: no JSON, or nested too deeply; the message is one sentence.
    """
    try:
        return json.loads(text, parse_int=_integer, parse_float=_real, parse_constant=Unreadable)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise ValueError(f"not valid JSON: {error.msg}, {where}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _integer(digits: str) -> int | Unreadable:
    return int(digits) if len(digits) <= MAX_DIGITS else Unreadable(f"a number of {len(digits):,} digits")


def _real(digits: str) -> float | Unreadable:
    number = float(digits)
    return Unreadable("a number that is too large") if number in (float("inf"), -float("inf")) else number


def _each(pieces: Iterator[tuple[int, str]]) -> RawFile:
    """Each piece of text parsed by itself."""
    records: list[tuple[int, Any]] = []
    flaws: list[Flaw] = []
    for number, text in pieces:
        try:
            records.append((number, _parsed(text)))
        except ValueError as why:
            flaws.append(Flaw(number, "json", str(why)))
    return RawFile(tuple(records), tuple(flaws))


def _by_pieces(text: str, why: str) -> RawFile:
    """What a document still holds that does not parse as a whole; lines and columns count within a record."""
    at = len(text) - len(text.lstrip())
    info = None
    if text[at : at + 1] == "{":
        at, info = _simulations(text, at)
    if text[at : at + 1] != "[":
        return RawFile((), (Flaw(0, "json", why),))
    spans = list(_items(text, at))
    found = _each((i, text[a:b]) for i, (a, b) in enumerate(spans) if text[a:b].strip())
    end = spans[-1][1]
    if not found.flaws:  # every item is whole, so what is wrong stands behind them
        return RawFile(found.records, (Flaw(len(spans), "json", f"{why}; not read from there on"),), info)
    extra = text[end + 1 :].strip() if text[at:].startswith("[") and info is None else ""
    more = (
        (Flaw(len(spans), "json", "not valid JSON: text follows the list; it is not read"),) if extra else ()
    )
    return RawFile(found.records, (*found.flaws, *more), info)


def _simulations(text: str, at: int) -> tuple[int, Any]:
    """Where the list ``simulations`` of an object opens (else the end of the text), and its ``info``."""
    start, info = len(text), None
    for a, b in _items(text, at):
        member = re.compile(r'\s*"(info|simulations)"\s*:\s*').match(text, a, b)
        if member and member[1] == "simulations":
            start = member.end()
        elif member:
            try:
                info = _parsed(text[member.end() : b])
            except ValueError:
                info = None
    return start, info


def _items(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Spans of the items of the list or object that opens at ``at``; the last one may break off with the text."""
    depth, start = 0, at + 1
    for token in _TOKEN.finditer(text, at):
        mark = text[token.start()]
        depth += (mark in "[{") - (mark in "]}")
        if depth == 0 or (depth == 1 and mark == ","):
            yield start, token.start()
            start = token.end()
        if depth == 0:
            return
    yield start, len(text)
