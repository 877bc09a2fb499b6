"""Trajectories from elsewhere: τ-bench v1 lists, τ² results, JSONL of chat messages, our own store.

Gold is dropped at the door by copying known fields only: nothing of a task but its id, and of an official
score only which check passed. Damaged records are reported by file, record and field; the rest imports.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ecdysis_lab.failures.formats import READERS, BadRecord, tau2_run
from ecdysis_lab.records import LabError, Trajectory

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
        records, name, broken = _records(source, alone=path.is_file())
        damaged += broken
        formats |= {name} if records else set()
        for number, record in records:
            try:
                found.append(READERS.get(name, READERS["jsonl"])(record))
            except BadRecord as bad:
                damaged.append(Damaged(str(source.file), number, *bad.args))
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
    return Imported(tuple(store.trajectories()), (), len(lost), "store")


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
    try:
        document = json.loads(header.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return tau2_run(None)
    return tau2_run(document.get("info") if isinstance(document, dict) else None)


def _records(source: _Source, alone: bool) -> tuple[list[tuple[int, Any]], str, list[Damaged]]:
    """Records of a file with their numbers, the format, and what could not be parsed."""
    file = source.file
    text = file.read_text(encoding="utf-8", errors="replace").lstrip("\ufeff")
    lines = file.suffix == ".jsonl" or (source.format == "jsonl" and file.suffix != ".json")
    records, damaged = _json_lines(text, file) if lines else _json_document(text, file)
    format = source.format or next((name for _, r in records if (name := _format_of(r))), None)
    if format is None and not damaged:
        what = f"no known format found; choose one with --format: {', '.join(FORMATS)}"
        if alone:
            raise LabError(f"{file}: {what}")
        return [], "unknown", [Damaged(str(file), 0, "format", what)]
    if source.run:
        records = [(i, {**r, "_run": source.run} if isinstance(r, dict) else r) for i, r in records]
    return records, format or "unknown", damaged


def _json_lines(text: str, file: Path) -> tuple[list[tuple[int, Any]], list[Damaged]]:
    records: list[tuple[int, Any]] = []
    damaged: list[Damaged] = []
    # Not splitlines(): a line separator inside a JSON string is legal and must not cut the record.
    for number, line in enumerate(row for row in text.split("\n") if row.strip()):
        try:
            records.append((number, json.loads(line)))
        except json.JSONDecodeError as error:
            damaged.append(
                Damaged(str(file), number, "json", f"not valid JSON: {error.msg}, column {error.colno}")
            )
    return records, damaged


def _json_document(text: str, file: Path) -> tuple[list[tuple[int, Any]], list[Damaged]]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        records = _salvaged(text)
        what = (
            f"not valid JSON: {error.msg}, line {error.lineno} column {error.colno}; not read from there on"
        )
        return list(enumerate(records)), [Damaged(str(file), len(records), "json", what)]
    if isinstance(document, list):
        return list(enumerate(document)), []
    if isinstance(document, dict) and isinstance(document.get("simulations"), list):
        run = tau2_run(document.get("info"))
        runs = [{**s, "_run": run} if isinstance(s, dict) else s for s in document["simulations"]]
        return list(enumerate(runs)), []
    return [(0, document)], []


def _salvaged(text: str) -> list[Any]:
    """The complete records at the start of a JSON list that breaks off (a run killed while it saved)."""
    decoder = json.JSONDecoder()
    records: list[Any] = []
    at = text.find("[") + 1 if text.lstrip().startswith("[") else len(text)
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        try:
            record, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return records
        records.append(record)


def _format_of(record: Any) -> str | None:
    keys = set(record) if isinstance(record, dict) else set()
    if {"traj", "reward"} <= keys:
        return "tau-bench"
    if "messages" in keys and keys & {"termination_reason", "reward_info"}:
        return "tau2"
    return "jsonl" if "messages" in keys else None


def _distinct(found: Sequence[Trajectory]) -> list[Trajectory]:
    """The same, with a fresh seed for a trial that repeats an identity: files rarely number their trials."""
    taken: set[str] = set()
    out: list[Trajectory] = []
    for trajectory in found:
        while trajectory.key in taken:
            trial = replace(trajectory.trial, seed=trajectory.trial.seed + 1)
            trajectory = replace(trajectory, trial=trial)
        taken.add(trajectory.key)
        out.append(trajectory)
    return out
