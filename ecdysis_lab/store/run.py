"""Run folders: ``data/runs/<id>/`` with config, ledger, rounds, harnesses, summary and status.

Import them from ``store``. Whole files are replaced at once (temporary file, fsync, rename); the ledger grows
by whole lines. A kill at any moment leaves the state before or after a write.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal

from ecdysis_lab.records import LabError
from ecdysis_lab.store.foreign import each_text
from ecdysis_lab.store.secrets import hide, hide_logins

_DEEPEST = 500
State = Literal["running", "done", "failed", "interrupted"]
CHANGEABLE = ("max_usd", "max_tokens", "max_seconds", "workers", "timeout_seconds")
"""Config fields that change no result: they may differ when a run is continued."""


class StoreError(LabError):
    """The disk said no (full, read-only, damaged); what was stored before is intact."""


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn what the disk says into one sentence with the path."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot use {path}: {error}; what was stored before is intact") from error


class Run:
    """The files of one run; made by ``open``.

    Parameters
    ----------
    folder : ``root/runs/<run_id>``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_id = folder.name

    @classmethod
    def open(
        cls,
        root: Path | str,
        run_id: str,
        config: Mapping[str, Any],
        resume: bool = True,
        defaults: Mapping[str, Any] | None = None,
    ) -> Run:
        """Start a run, or continue one with the same config.

        Parameters
        ----------
        root : the data folder.
        run_id : letters, digits, ``.``, ``_`` and ``-``.
        config : what decides the result, JSON-like. Fields named in ``CHANGEABLE``, at any depth, may change.
        resume : whether an existing run may be continued.
        defaults : values of fields that an older run's config may lack.

        Raises
        ------
        LabError: a bad id, an existing run with ``resume=False``, or another config (shows old → new).
        StoreError: the disk said no.
        """
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", run_id):
            raise LabError(
                f"run id {run_id!r}: use letters, digits, '.', '_' and '-'; start with a letter or digit"
            )
        run = cls(Path(root) / "runs" / run_id)
        old, new = run.read_json("config.json"), json.loads(_dump(config))
        if old is not None and not resume:
            raise LabError(
                f"run {run_id} exists in {run.folder}; continue it (resume) or choose another run id"
            )
        if old is not None:
            old = {**json.loads(_dump({k: v for k, v in (defaults or {}).items() if k in new})), **old}
            changed = [line for name, line in _differences(old, new) if name.split(".")[-1] not in CHANGEABLE]
            if changed:
                raise LabError(
                    f"run {run_id} has another config; choose a new run id, or undo {'; '.join(changed)}"
                )
        if old != new:
            run.write_json("config.json", new)
        return run

    def path(self, name: str) -> Path:
        """Absolute path of a file of this run; its folder exists afterwards."""
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise LabError(f"{name!r} lies outside the run folder {self.folder}")
        with told(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Work on this run alone; the lock goes with the process, however that ends.

        Raises
        ------
        LabError: another process works on it.
        """
        path = self.path("lock")
        with told(path):
            file = path.open("a+", encoding="utf-8")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise LabError(
                    f"run {self.run_id} is being worked on by process {file.read().strip() or '?'}; "
                    "wait for it, or choose another run id"
                ) from None
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield

    def write_text(self, name: str, text: str) -> Path:
        """Replace a file at once; returns its path."""
        path = self.path(name)
        with told(path):
            _replace(path, text.encode())
        return path

    def write_json(self, name: str, value: Any) -> Path:
        """Replace a JSON file at once: records, numpy values and paths are understood, NaN becomes null."""
        return self.write_text(name, _dump(value, indent=2) + "\n")

    def read_json(self, name: str) -> Any:
        """Content of a JSON file, or None when there is none."""
        path = self.folder / name
        with told(path):
            if not path.exists():
                return None
            text = path.read_text(encoding="utf-8")
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise StoreError(f"{path} is no JSON: {error}") from error

    def append_ledger(self, entry: Mapping[str, Any]) -> None:
        """Add one line to ``ledger.jsonl``, then on disk. A line torn by a kill is dropped first."""
        line = _dump(entry).encode() + b"\n"
        path = self.path("ledger.jsonl")
        with told(path), path.open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            before = _whole_lines(file)
            try:
                file.truncate(before)
                _write_all(file, line)
                os.fsync(file.fileno())
            except OSError:
                file.truncate(before)  # a full disk leaves no half line
                raise

    def ledger(self) -> list[dict[str, Any]]:
        """All whole lines of the ledger, oldest first."""
        path = self.folder / "ledger.jsonl"
        with told(path):
            content = path.read_bytes() if path.exists() else b""
        entries = []
        for number, line in enumerate(content.split(b"\n")[:-1], 1):  # what follows the last newline is torn
            try:
                entries.append(json.loads(line))
            except ValueError as error:
                raise StoreError(f"{path}, line {number} is damaged: {error}") from error
        return entries

    def write_status(self, state: State, **info: Any) -> None:
        """Replace ``status.json``: the state, when, and what else matters (round, error, figures)."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.write_json("status.json", {"state": state, "at": now, "pid": os.getpid(), **info})


def _replace(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _whole_lines(file: BinaryIO) -> int:
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


def _write_all(file: BinaryIO, content: bytes) -> None:
    while content:
        content = content[file.write(content) :]


def _dump(value: Any, indent: int | None = None) -> str:
    plain = _plain(value)
    text = _text(plain, indent)
    if hide_logins(hide(text)) == text:
        return text
    # Text by text, since a key of digits could stand in a number.
    return _text(each_text(plain, lambda said: hide_logins(hide(said)), max_depth=_DEEPEST), indent)


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


def _differences(old: Any, new: Any, name: str = "") -> list[tuple[str, str]]:
    """Fields in which two JSON values differ: (dotted name, ``name: old → new``)."""
    if isinstance(old, dict) and isinstance(new, dict):
        missing = "(not set)"
        fields = sorted({*old, *new})
        pairs = [(f"{name}.{f}" if name else f, old.get(f, missing), new.get(f, missing)) for f in fields]
        return [found for field, a, b in pairs for found in _differences(a, b, field)]
    return [] if old == new else [(name, f"{name}: {_short(old)} → {_short(new)}")]


def _short(value: Any) -> str:
    text = value if value == "(not set)" else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def read_status(folder: Path) -> dict[str, Any]:
    """Status of a run or of a cell of a grid; ``{"state": "missing"}`` where it never ran or its file is torn."""
    try:
        return dict(json.loads((folder / "status.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {"state": "missing"}


def commit_hash() -> str:
    """Short git commit of the lab's source, ``-dirty`` when tracked files differ, ``unknown`` outside git."""
    here = Path(__file__).resolve().parents[1]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # an installed copy inside another repository
        short = git("rev-parse", "--short", "HEAD")
        return short + ("-dirty" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
