"""How the store writes: whole files at once, lines of a log whole or not at all, and JSON of whatever flows."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ecdysis_lab.records import LabError, from_json
from ecdysis_lab.store.foreign import each_text, mended
from ecdysis_lab.store.secrets import hide, hide_logins

DEEPEST = 500  # levels of nesting in what the lab itself writes


class StoreError(LabError):
    """The disk said no (full, read-only, damaged); what was stored before is intact."""


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn what the disk says into one sentence with the path."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot use {path}: {error}; what was stored before is intact") from error


class Folder:
    """A folder that is written whole file by whole file.

    Parameters
    ----------
    folder : where; made when something is written.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def path(self, name: str) -> Path:
        """Absolute path of a file of this folder; its folder exists afterwards."""
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise LabError(f"{name!r} lies outside the folder {self.folder}")
        with told(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_text(self, name: str, text: str) -> Path:
        """Replace a file at once; returns its path."""
        path = self.path(name)
        with told(path):
            replace_file(path, utf8(text))
        return path

    def write_json(self, name: str, value: Any) -> Path:
        """Replace a JSON file at once: records, numpy values and paths are understood, NaN becomes null."""
        return self.write_text(name, dump(value, indent=2) + "\n")

    def read_json(self, name: str) -> Any:
        """Content of a JSON file, or None when there is none."""
        path = self.folder / name
        with told(path):
            if not path.exists():
                return None
            content = path.read_bytes()
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{path} is no JSON: {error}") from error

    def read_object(self, name: str) -> dict[str, Any] | None:
        """Content of a JSON file that holds an object, or None when there is none.

        Raises
        ------
        StoreError: it is no JSON, or something else than an object.
        """
        found = self.read_json(name)
        if found is None or isinstance(found, dict):
            return found
        raise StoreError(f"{self.folder / name} is damaged: it holds {type(found).__name__}, not an object")

    def read(self, name: str, kind: Any) -> Any:
        """Content of a JSON file as a record, or None when there is none.

        Raises
        ------
        StoreError: it is no JSON, or no such record.
        """
        with self.told_damage(name):
            return from_json(kind, self.read_json(name))

    @contextlib.contextmanager
    def told_damage(self, name: str) -> Iterator[None]:
        """Turn what goes wrong in making a record out of a file into one sentence."""
        try:
            yield
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise StoreError(f"{self.folder / name} is damaged, or of another version: {error}") from error

    def read_text(self, name: str) -> str:
        """Content of a text file, what is not UTF-8 replaced; empty where there is none."""
        path = self.folder / name
        with told(path):
            return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def utf8(text: str) -> bytes:
    """Text as UTF-8; see :func:`ecdysis_lab.store.foreign.mended`."""
    return mended(text).encode()


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file at once, readable as the user's umask says; a kill leaves the old content or the new."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def whole_lines(file: BinaryIO) -> int:
    """Length of a file up to and including its last newline."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 65536)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def write_all(file: BinaryIO, content: bytes) -> None:
    """Write all of it, however often an unbuffered file has to be asked."""
    while content:
        content = content[file.write(content) :]


def dump(value: Any, indent: int | None = None) -> str:
    """JSON text of records, numpy values and paths; NaN becomes null; it holds no key of the environment."""
    plain = _plain(value)
    text = _text(plain, indent)
    if hide_logins(hide(text)) == text:
        return text
    # Text by text, since a key of digits could stand in a number.
    return _text(each_text(plain, lambda said: hide_logins(hide(said)), max_depth=DEEPEST), indent)


def _text(plain: Any, indent: int | None) -> str:
    return json.dumps(plain, indent=indent, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """JSON types only."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(v) for v in value), key=str)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return _plain(value.tolist())
    return str(value)
