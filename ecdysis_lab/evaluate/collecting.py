"""Trials of a split in one harness, under a name by which ``patterns.ipynb`` opens them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecdysis_lab.failures.collection import RECORD
from ecdysis_lab.harness import Harness, load_harness
from ecdysis_lab.models import Budget
from ecdysis_lab.records import LabError, Progress, Task, Trajectory
from ecdysis_lab.store import Run, Store
from ecdysis_lab.train.settings import check_models, configure, slug

if TYPE_CHECKING:
    from ecdysis_lab.harness.rollout import Setup

SPLITS = ("train", "test", "all")
SMOKE_TASKS = 4


@dataclass(frozen=True)
class Work:
    """Trials to run.

    Parameters
    ----------
    setup, tasks, harness, seeds : what. store : where trials are kept.
    folder : where the list of these trials goes; its name, or its path, opens them again.
    workers : trials at a time. budget : or None.
    """

    setup: Setup
    tasks: list[Task]
    harness: Harness
    seeds: tuple[int, ...]
    store: Store
    folder: Path
    workers: int
    budget: Budget | None

    def go(self, progress: Progress | None = None) -> list[Trajectory]:
        """Run what is missing, then write down which trials belong here; infrastructure errors are counted only."""
        from ecdysis_lab.harness.rollout import rollout

        found = rollout(
            self.setup,
            self.tasks,
            self.harness,
            self.seeds,
            self.store,
            workers=self.workers,
            budget=self.budget,
            progress=progress,
        )
        status = Counter(t.status for t in found)
        record = {
            "source": self.folder.name,
            "format": "store",
            "keys": [t.key for t in found if t.status != "infra_error"],
            "trajectories": len(found) - status["infra_error"],
            "failures": sum(t.score is not None and t.score < 1.0 for t in found),
            "infra_errors": status["infra_error"],
            "user_faults": status["user_fault"],
            "damaged": [],
        }
        Run(self.folder).write_json(RECORD, record)
        return found


def prepare_collection(
    given: Mapping[str, Any],
    split: str,
    harness: str,
    tasks: int,
    data: Path | str,
    small: bool = False,
    name: str = "",
) -> Work:
    """Validated work, before anything runs.

    Parameters
    ----------
    given : settings: benchmark, model, trials, seed, limits.
    split : ``train``, ``test`` or ``all``. harness : name or folder. tasks : how many, 0 for the whole split.
    data : the data folder. small : four tasks, one trial. name : of the collection; by default from the rest.

    Raises
    ------
    LabError: an unknown split, harness, model or field, or more tasks than the split has.
    """
    from ecdysis_lab.benchmarks import load_benchmark
    from ecdysis_lab.harness.rollout import Setup

    if split not in SPLITS:
        raise LabError(f"split: unknown {split!r}; choose one of {', '.join(SPLITS)}")
    if tasks < 0:
        raise LabError(f"tasks: must be at least 0, got {tasks}")
    c = configure(**given)
    check_models(c)
    loaded = load_harness(harness)
    bench = load_benchmark(c.benchmark)
    drawn = bench.tasks(split, min(tasks or SMOKE_TASKS, SMOKE_TASKS) if small else tasks or None, c.seed)
    seeds = tuple(c.seed * 1000 + i for i in range(1 if small else c.trials))
    size = f"{len(drawn)}x{len(seeds)}"
    words = ("collect", slug(c.benchmark), split, c.model, Path(harness).name, f"seed{c.seed}", size)
    name = name or re.sub(r"[^A-Za-z0-9._-]", "-", "-".join(words))
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise LabError(f"name: use letters, digits, '.', '_' and '-', got {name!r}")
    setup = Setup(c.benchmark, c.model, c.user_model, c.params(c.model), c.params(c.user_model))
    limits = (c.max_usd, c.max_tokens, c.max_seconds)
    return Work(
        setup,
        drawn,
        loaded,
        seeds,
        Store(data),
        Path(data).resolve() / "imports" / name,
        c.workers or os.cpu_count() or 1,
        Budget(*limits) if any(limit is not None for limit in limits) else None,
    )
