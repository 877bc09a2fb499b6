"""Where ``patterns.ipynb`` gets its failures: a file or folder of traces, an import, or a training run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ecdysis_lab.failures.cards import find_failures
from ecdysis_lab.failures.collection import read
from ecdysis_lab.failures.distance import Weights
from ecdysis_lab.failures.subset import budget_of
from ecdysis_lab.records import Disclosure, Failure, LabError, Trajectory
from ecdysis_lab.store import commit_hash

if TYPE_CHECKING:
    from ecdysis_lab.show.figures import Footer

SMOKE_FAILURES = 20


@dataclass(frozen=True)
class Source:
    """Failures with where they came from.

    Parameters
    ----------
    name : of the file or run, for file names and footers. failures : with their trajectories.
    counts : one line on what was read. damaged : lines on records left out.
    """

    name: str
    failures: tuple[Failure, ...]
    counts: str
    damaged: tuple[str, ...] = ()

    @property
    def simulated(self) -> bool:
        """Whether any failure is of a simulated model."""
        return any(f.model.startswith("sim/") for f in self.failures)

    def footer(self, embedder: str, tokens_seen: float, seed: int) -> Footer:
        """Footer of the figures."""
        from ecdysis_lab.show.figures import Footer

        models = sorted({f.model for f in self.failures})
        return Footer(self.name, commit_hash(), seed, models, embedder, tokens_seen, self.simulated)


def open_source(
    source: str,
    data: Path | str = "",
    threshold: float = 1.0,
    disclosure: str = "checks",
    smoke: bool = False,
    budget: float = 0.25,
) -> Source:
    """Read failures.

    Parameters
    ----------
    source : file or folder of traces, run or import (folder or name), empty for the newest: see ``collection.read``.
    data : the data folder, where the source is only a name.
    threshold : ``failure_threshold`` λ. disclosure : what a card may tell.
    smoke : keep the first 20 failures only. budget : of a pick, checked before anything is read.

    Raises
    ------
    LabError: nothing there, a run without training failures, or a wrong threshold or disclosure.
    """
    budget_of(1, budget)
    path, got, counts = read(source, data)
    trajectories = list(got.trajectories)
    damaged = tuple(f"{d.file}, record {d.record}, {d.field}: {d.what}" for d in got.damaged)
    scenario = _scenarios(trajectories) if disclosure == "scenario" else None
    found = find_failures(trajectories, threshold, cast(Disclosure, disclosure), scenario=scenario)
    if smoke:
        found = found[:SMOKE_FAILURES]
    name = path.name if path.is_dir() else path.stem  # a run's name may hold dots
    return Source(name, tuple(found), f"{counts}; {len(found)} failures below {threshold:g}", damaged)


def _scenarios(trajectories: list[Trajectory]) -> Callable[[str], str]:
    """Task id -> hidden instructions, from the benchmark of the trajectories."""
    from ecdysis_lab.benchmarks import load_benchmark

    names = sorted({t.trial.benchmark for t in trajectories})
    try:
        tasks = [
            task
            for name in names
            for split in ("train", "test")
            for task in load_benchmark(name).tasks(split)
        ]
    except LabError as error:
        raise LabError(f"disclosure: scenario needs the benchmark of the traces; {error}") from None
    text = {task.id: task.scenario for task in tasks}
    return lambda task_id: text.get(task_id, "")


def weights_of(text: str) -> Weights:
    """Weights of the distance from ``text=3,path=0.5,checks=0.3``; parts left out keep their default.

    Raises
    ------
    LabError: an unknown part, or a value that is no number of at least 0.
    """
    given: dict[str, Any] = {}
    for part in (p.strip() for p in text.split(",") if p.strip()):
        name, _, value = (p.strip() for p in part.partition("="))
        if name not in ("text", "path", "checks"):
            raise LabError(
                f"weights: unknown part {name!r}; choose from text, path, checks, as in text=3,path=0.5"
            )
        try:
            given[name] = float(value)
        except ValueError:
            raise LabError(f"weights.{name} must be a number, got {value!r}") from None
    return Weights(**given)


def live() -> bool:
    """Whether a person sits at this kernel: a frontend says so by letting the kernel ask for input.

    papermill, nbconvert and ``jupyter execute`` forbid input, as does plain Python, which has no kernel.
    """
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    parent = kernel.get_parent() if kernel is not None else {}
    return bool(parent.get("content", {}).get("allow_stdin", False))
