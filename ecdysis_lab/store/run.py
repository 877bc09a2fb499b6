"""Run folders: ``data/runs/<id>/`` with config, ledger, rounds, harnesses, summary and status.

Import them from ``store``. Whole files are replaced at once (temporary file, fsync, rename); the ledger grows
by whole lines. A kill at any moment leaves the state before or after a write.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ecdysis_lab.records import LabError
from ecdysis_lab.store.files import Folder, StoreError, dump, told, utf8, whole_lines, write_all
from ecdysis_lab.store.round import Round

State = Literal["running", "done", "failed", "interrupted"]
CHANGEABLE = ("max_usd", "max_tokens", "max_seconds", "workers", "timeout_seconds", "review_timeout_seconds")
"""Config fields that change no result: they may differ when a run is continued."""
CONFIG, SUMMARY, STATUS = "config.json", "summary.json", "status.json"
SHOWN = 8  # runs that an error names


class Run(Folder):
    """The files of one run, under their names; made by ``open``.

    Parameters
    ----------
    folder : ``root/runs/<run_id>``.
    """

    def __init__(self, folder: Path | str) -> None:
        super().__init__(folder)
        self.run_id = self.folder.name

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
        old, new = run.config, json.loads(utf8(dump(config)))
        if old is not None and not resume:
            raise LabError(
                f"run {run_id} exists in {run.folder}; continue it (resume) or choose another run id"
            )
        if old is not None:
            old = {**json.loads(dump({k: v for k, v in (defaults or {}).items() if k in new})), **old}
            changed = [line for name, line in _differences(old, new) if name.split(".")[-1] not in CHANGEABLE]
            if changed:
                raise LabError(
                    f"run {run_id} has another config; choose a new run id, or undo {'; '.join(changed)}"
                )
        if old != new:
            run.write_json(CONFIG, new)
        return run

    @classmethod
    def of(cls, run: Run | Path | str) -> Run:
        """The run itself, or the one in a folder."""
        return run if isinstance(run, Run) else cls(run)

    @property
    def exists(self) -> bool:
        """Whether the folder holds a run."""
        return (self.folder / CONFIG).is_file()

    @property
    def ended(self) -> float:
        """Unix time of its summary, 0 before it has one."""
        path = self.folder / SUMMARY
        return path.stat().st_mtime if path.is_file() else 0.0

    @property
    def root(self) -> Path:
        """The data folder that the run lies in."""
        return self.folder.resolve().parent.parent

    # -- its files ---------------------------------------------------------------------------------------------

    @property
    def config(self) -> dict[str, Any] | None:
        """What the run was started with."""
        return self.read_object(CONFIG)

    @property
    def status(self) -> dict[str, Any]:
        """State of the run, when, and what else was told; ``{"state": "missing"}`` where it never ran."""
        return read_status(self.folder)

    @property
    def summary(self) -> dict[str, Any] | None:
        """Its results, None before it has ended."""
        return self.read_object(SUMMARY)

    @summary.setter
    def summary(self, summary: Mapping[str, Any]) -> None:
        self.write_json(SUMMARY, summary)

    @property
    def learned(self) -> dict[str, Any] | None:
        """What was learned from recorded trials, None before that has ended."""
        return self.read_object("learned.json")

    @learned.setter
    def learned(self, learned: Mapping[str, Any]) -> None:
        self.write_json("learned.json", learned)

    @property
    def wall(self) -> dict[str, float]:
        """Wall clock over all starts: ``seconds``, and the number of ``trials`` after which it was taken."""
        return self.read_object("wall.json") or {"seconds": 0.0, "trials": 0}

    @wall.setter
    def wall(self, wall: Mapping[str, float]) -> None:
        self.write_json("wall.json", wall)

    @property
    def spent_path(self) -> Path:
        """Where the budget is counted."""
        return self.path("spent.jsonl")

    @property
    def billed_path(self) -> Path:
        """Keys of the trials that the run had to run itself."""
        return self.path("billed.txt")

    @property
    def labels_path(self) -> Path:
        """A person's labels on the changes of the run."""
        return self.folder / "labels.csv"

    def trials_path(self, part: str) -> Path:
        """Keys of the trials that one part of the run rests on."""
        return self.path(f"trials/{part}.txt")

    def harness_path(self, digest: str) -> Path:
        """Where a harness is kept; its folder is there in whole or not at all."""
        return self.folder / "harness" / digest

    def frozen(self, arm: str) -> str | None:
        """Hash of the harness that the finished training of an arm froze."""
        name = f"frozen-{arm}.json"
        with self.told_damage(name):
            return (self.read_object(name) or {"harness": None})["harness"]

    def freeze(self, arm: str, digest: str) -> None:
        """The training of an arm has ended with this harness."""
        self.write_json(f"frozen-{arm}.json", {"harness": digest})

    def round(self, arm: str, n: int) -> Round:
        """The files of one round, which may not be there yet."""
        return Round(self, arm, n)

    def rounds(self, arm: str | None = None) -> list[Round]:
        """The rounds that left anything, of one arm or of all, by arm and number.

        Raises
        ------
        LabError: there is no such run folder.
        """
        if not self.folder.is_dir():
            raise LabError(f"run: there is no folder {self.folder}")
        names = [p.name.rpartition("-") for p in self.folder.glob("rounds/*-*") if p.is_dir()]
        found = sorted((a, int(n)) for a, _, n in names if n.isdigit() and arm in (None, a))
        return [Round(self, a, n) for a, n in found]

    # -- work on it --------------------------------------------------------------------------------------------

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

    def append_ledger(self, entry: Mapping[str, Any]) -> None:
        """Add one line to ``ledger.jsonl``, then on disk. A line torn by a kill is dropped first."""
        line = utf8(dump(entry)) + b"\n"
        path = self.path("ledger.jsonl")
        with told(path), path.open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            before = whole_lines(file)
            try:
                file.truncate(before)
                write_all(file, line)
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
                entry = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise StoreError(f"{path}, line {number} is damaged: {error}") from error
            if not isinstance(entry, dict):
                raise StoreError(f"{path}, line {number} is damaged: it holds {type(entry).__name__}")
            entries.append(entry)
        return entries

    def write_status(self, state: State, **info: Any) -> None:
        """Replace ``status.json``: the state, when, and what else matters (round, error, figures)."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.write_json(STATUS, {"state": state, "at": now, "pid": os.getpid(), **info})


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
        return dict(json.loads((folder / STATUS).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return {"state": "missing"}


def runs_of(data: Path | str) -> list[Run]:
    """All runs of a data folder, by name."""
    return [Run(path.parent) for path in sorted(Path(data).glob(f"runs/*/{CONFIG}"))]


def find_run(name: str, data: Path | str) -> Run:
    """A run by its folder, or by its name in a data folder.

    Raises
    ------
    LabError: there is none; the names there are listed.
    """
    for run in (Run(Path(name).expanduser()), Run(Path(data) / "runs" / name)):
        if name and run.exists:
            return run
    known = [run.run_id for run in runs_of(data)]
    more = " …" if len(known) > SHOWN else ""
    raise LabError(
        f"run: {name!r} is no run in {Path(data) / 'runs'}; runs: {', '.join(known[:SHOWN]) or 'none'}{more}"
    )


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
