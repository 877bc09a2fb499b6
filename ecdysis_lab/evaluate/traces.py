"""Recorded trials of one benchmark, as something to learn from."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.failures.collection import RECORD, read, take_in
from ecdysis_lab.failures.importing import import_traces
from ecdysis_lab.records import LabError, Trajectory

UNKNOWN = "unknown"  # as importers name a model that the traces do not tell
SHOWN = 5  # names that an error spells out


@dataclass(frozen=True)
class Recording:
    """Scored trials of one benchmark, which the trial store holds too.

    Parameters
    ----------
    name : of the import. trials : in the order of the record. left_out : trials without a score (infrastructure errors,
        user faults) and damaged records. model : that acted where the traces do not tell.
    """

    name: str
    trials: tuple[Trajectory, ...]
    left_out: int = 0
    model: str = UNKNOWN

    @property
    def models(self) -> tuple[str, ...]:
        """Models that acted, by name."""
        return tuple(
            sorted({self.model if m == UNKNOWN else m for m in {t.trial.model for t in self.trials}})
        )

    @property
    def users(self) -> str:
        """Models that played the user, comma-separated."""
        return ", ".join(sorted({t.trial.user_model for t in self.trials if t.trial.user_model}))

    @property
    def mark(self) -> str:
        """Six digits that other trials would not have."""
        return hashlib.sha256(" ".join(t.key for t in self.trials).encode()).hexdigest()[:6]

    @property
    def told(self) -> dict[str, Any]:
        """What a run keeps of it."""
        return {"name": self.name, "trials": len(self.trials), "left_out": self.left_out, "mark": self.mark}

    def first(self, tasks: int) -> Recording:
        """The trials of the first so many tasks."""
        kept = list(dict.fromkeys(t.trial.task_id for t in self.trials))[:tasks]
        return replace(self, trials=tuple(t for t in self.trials if t.trial.task_id in kept))


def open_recording(traces: str, data: Path | str, benchmark: str, model: str = "") -> Recording:
    """Recorded trials, taken into the trial store where they are not there yet.

    Parameters
    ----------
    traces : file or folder of trajectories, name or folder of an import; empty for the newest import.
    data : the data folder. benchmark : where they were recorded. model : that acted, where the traces do not tell.

    Raises
    ------
    LabError: nothing there, or trials of another benchmark: of tasks that it does not have, or with tools of which most
        are not its own.
    """
    path = Path(traces).expanduser()
    foreign = bool(traces) and path.exists() and not (path / RECORD).is_file()
    if foreign:
        _check_benchmark(import_traces(path).trajectories, benchmark)
        path = take_in(path, data, benchmark=benchmark).folder
    folder, got, _ = read(str(path) if traces else "", data)
    if not foreign:
        _check_benchmark(got.trajectories, benchmark)
    scored = tuple(t for t in got.trajectories if t.score is not None)
    left_out = len(got.trajectories) - len(scored) + got.infra + len(got.damaged)
    return Recording(folder.name, scored, left_out, model or UNKNOWN)


def _check_benchmark(trials: Sequence[Trajectory], benchmark: str) -> None:
    bench = load_benchmark(benchmark)
    own_tasks, own_tools = {t.id for t in bench.tasks("all")}, {str(t["name"]) for t in bench.tools}
    tasks = {t.trial.task_id for t in trials}
    called = {call.name for t in trials for m in t.messages if m.role != "user" for call in m.calls}
    for what, strange, seen, most in (
        ("tasks", sorted(tasks - own_tasks), tasks, 0.0),
        ("tools", sorted(called - own_tools), called, 0.5),  # a model now and then calls what is not there
    ):
        if len(strange) > most * len(seen):
            raise LabError(
                f"traces: {len(strange)} of {len(seen)} {what} in them are not of {benchmark} "
                f"({', '.join(strange[:SHOWN])}); name the benchmark that they were recorded on"
            )


@dataclass(frozen=True)
class Halves:
    """Recorded trials in two halves that share no task.

    Parameters
    ----------
    training, other : trials of each, in the order of the record.
    """

    training: tuple[Trajectory, ...]
    other: tuple[Trajectory, ...]


def split_by_task(trials: Sequence[Trajectory], share: float, seed: int) -> Halves:
    """Split trials by task; both halves get a task at least.

    Parameters
    ----------
    trials : of two tasks or more. share : of the tasks that go to training, in (0, 1). seed : of the draw.

    Raises
    ------
    LabError: a share outside (0, 1), or trials of one task only.
    """
    if not 0 < share < 1:
        raise LabError(f"split: must be between 0 and 1, got {share:g}")
    tasks = sorted({t.trial.task_id for t in trials})
    if len(tasks) < 2:
        raise LabError(
            f"traces: scored trials of {len(tasks)} task only ({', '.join(tasks) or 'none'}); two are needed, one to "
            "learn from and one to look at afterwards"
        )
    random.Random(seed).shuffle(tasks)
    chosen = set(tasks[: min(max(1, round(share * len(tasks))), len(tasks) - 1)])
    return Halves(
        tuple(t for t in trials if t.trial.task_id in chosen),
        tuple(t for t in trials if t.trial.task_id not in chosen),
    )
