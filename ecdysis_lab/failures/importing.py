"""Trajectories from elsewhere: τ-bench v1 lists, τ² results, JSONL of chat messages, our own store.

Gold is dropped at the door by copying known fields only: nothing of a task but its id, and of an official
score only which check passed. Damaged records are reported by file, record and field; the rest imports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ecdysis_lab.failures.formats import READERS, BadRecord, tau2_run
from ecdysis_lab.failures.tracefile import Flaw, RawFile, read_records
from ecdysis_lab.records import LabError, Trajectory, Trial
from ecdysis_lab.store.foreign import clean

FORMATS = ("tau-bench", "tau2", "jsonl", "store")


@dataclass(frozen=True)
class Damaged:
    """A record that did not import: ``record`` counts from 0 in its file, ``what`` says what is wrong."""

    file: str
    record: int
    field: str
    what: str


@dataclass(frozen=True)
class Imported:
    """What an import gave.

    Parameters
    ----------
    trajectories : all good records, infrastructure errors among them (``status`` tells).
    damaged : records left out, and why.
    infra : infrastructure errors: among the trajectories, or (store) trials that never finished.
    format : the format read; several joined by ``+`` for a mixed folder.
    """

    trajectories: tuple[Trajectory, ...]
    damaged: tuple[Damaged, ...]
    infra: int
    format: str

    def counts(self) -> str:
        """One line for a user: imported, infrastructure errors, damaged."""
        n, lost, bad = len(self.trajectories), self.infra, len(self.damaged)
        return (
            f"{n} trajectories imported ({self.format}), {lost} infrastructure errors, {bad} damaged records"
        )


def import_traces(path: str | Path, format: str | None = None) -> Imported:
    """Read trajectories from a file or a folder.

    Parameters
    ----------
    path : a file, or a folder (a τ² results folder, a store, or any folder of such files).
    format : one of ``tau-bench``, ``tau2``, ``jsonl``, ``store``; None detects it.

    Returns
    -------
    Imported, in the order of the files' names and of the records in them.

    Raises
    ------
    LabError: no such path, an unknown format, or a file in which no known format was found.
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise LabError(f"unknown format {format!r}; choose one of {', '.join(FORMATS)}")
    if not path.exists():
        raise LabError(f"nothing to import at {path}: no such file or folder")
    if format == "store" or (format is None and _is_store(path)):
        return _from_store(path)
    found: list[Trajectory] = []
    damaged: list[Damaged] = []
    formats: set[str] = set()
    for source in _sources(path, format):
        raw, name = _raw(source, alone=path.is_file())
        run = source.run or tau2_run(raw.info)
        flaws = list(raw.flaws)
        for number, record in raw.records:
            try:
                found.append(READERS.get(name, READERS["jsonl"])(record, run))
            except BadRecord as bad:
                flaws.append(Flaw(number, *bad.args))
        formats |= {name} if raw.records else set()
        told = clean(str(source.file))
        damaged += [Damaged(told, f.record, f.field, f.what) for f in sorted(flaws, key=lambda f: f.record)]
    distinct = _distinct(found)
    infra = sum(t.status == "infra_error" for t in distinct)
    return Imported(tuple(distinct), tuple(damaged), infra, "+".join(sorted(formats)) or "unknown")


def _is_store(path: Path) -> bool:
    return path.is_dir() and (path / "trials.sqlite").is_file()


def _from_store(path: Path) -> Imported:
    from ecdysis_lab.store import Store

    if not _is_store(path):  # opening one would make one
        raise LabError(f"nothing to import at {path}: it holds no trials.sqlite")
    store = Store(path)
    # The log of infrastructure errors keeps every attempt; only trials that never finished count as lost.
    lost = {t.key for t in store.infra_errors()} - store.keys()
    found = tuple(store.trajectories())
    where = clean(str(store.path))
    damaged = (Damaged(where, i, f"trial {k}", "damaged body") for i, k in enumerate(store.damaged()))
    return Imported(found, tuple(damaged), len(lost), "store")


@dataclass(frozen=True)
class _Source:
    """A file to read: its format where known, and the header of its τ² run where that is elsewhere."""

    file: Path
    format: str | None
    run: dict[str, str] | None = None


def _sources(path: Path, format: str | None) -> list[_Source]:
    folder = path.parent if path.name == "results.json" and (path.parent / "simulations").is_dir() else path
    if folder.is_dir() and (folder / "simulations").is_dir() and format in (None, "tau2"):
        run = _run_of(folder / "results.json")
        return [_Source(f, "tau2", run) for f in sorted((folder / "simulations").glob("*.json"))]
    if path.is_file():
        return [_Source(path, format)]
    files = sorted(f for f in path.rglob("*") if f.suffix in (".json", ".jsonl") and f.is_file())
    if not files:
        raise LabError(f"nothing to import in {path}: no .json or .jsonl file in the folder")
    return [_Source(f, format) for f in files]


def _run_of(header: Path) -> dict[str, str]:
    """Domain and models from the header of a τ² folder; without it they stay unknown."""
    raw = read_records(header, lines=False)
    alone = [record.get("info") for _, record in raw.records if isinstance(record, dict)]
    return tau2_run(raw.info or (alone[0] if alone else None))


def _raw(source: _Source, alone: bool) -> tuple[RawFile, str]:
    """Raw records of a file, and their format."""
    file = source.file
    lines = file.suffix == ".jsonl" or (source.format == "jsonl" and file.suffix != ".json")
    raw = read_records(file, lines)
    format = source.format or next((name for _, r in raw.records if (name := _format_of(r))), None)
    if format is None and not raw.flaws:
        what = f"no known format found; choose one with --format: {', '.join(FORMATS)}"
        if alone:
            raise LabError(f"{clean(str(file))}: {what}")
        return RawFile((), (Flaw(0, "format", what),)), "unknown"
    return raw, format or "unknown"


def _format_of(record: Any) -> str | None:
    keys = set(record) if isinstance(record, dict) else set()
    if {"traj", "reward"} <= keys:
        return "tau-bench"
    if "messages" in keys and keys & {"termination_reason", "reward_info"}:
        return "tau2"
    return "jsonl" if "messages" in keys else None


def _distinct(found: Sequence[Trajectory]) -> list[Trajectory]:
    """The same, with a fresh seed for a trial that repeats an identity: files rarely number their trials."""
    seeds: dict[Trial, FreeSeeds] = {}
    out: list[Trajectory] = []
    for trajectory in found:
        own = trajectory.trial.seed
        free = seeds.setdefault(replace(trajectory.trial, seed=0), FreeSeeds())
        seed = free.take(own)
        out.append(trajectory if seed == own else reseeded(trajectory, seed))
    return out


def reseeded(trajectory: Trajectory, seed: int) -> Trajectory:
    """The same trajectory under another seed."""
    return replace(trajectory, trial=replace(trajectory.trial, seed=seed))


class FreeSeeds:
    """Seeds of one trial identity, given out upwards; each taken seed is stepped over about once."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}  # taken seed -> a seed below which all from it on are taken

    def free(self, seed: int) -> int:
        """The first seed from ``seed`` on that is not taken."""
        passed = []
        while seed in self._next:
            passed.append(seed)
            seed = self._next[seed]
        self._next.update(dict.fromkeys(passed, seed))
        return seed

    def take(self, seed: int) -> int:
        """Take and return the first free seed from ``seed`` on."""
        seed = self.free(seed)
        self._next[seed] = seed + 1
        return seed
