"""What all rounds of one arm share: tasks and trials, kept harnesses, time by phase, records and the ledger."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.harness import copy_harness, load_harness
from ecdysis_lab.harness.rollout import rollout
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.models import Budget
from ecdysis_lab.records import Candidate, LabError, Progress, RoundRecord, Task, Trajectory
from ecdysis_lab.store import Round, Run, Store
from ecdysis_lab.store.billing import rests_on
from ecdysis_lab.train.gates import Gate
from ecdysis_lab.train.settings import Settings


class ArmRun:
    """One arm inside a run folder.

    Parameters
    ----------
    settings : how the arm trains. name : of the arm, or of another part of the run that runs training trials.
    run : where records go. store : where trials go. budget : shared budget.
    progress : called with (what, done, total). on_new : called with every trajectory that had to be run.
    tasks : to train on; None draws them from the training split.
    """

    reruns = True  # whether trials can be run; else what others left is all there is

    def __init__(
        self,
        settings: Settings,
        name: str,
        run: Run,
        store: Store,
        *,
        budget: Budget | None = None,
        progress: Progress | None = None,
        on_new: Callable[[Trajectory], None] | None = None,
        tasks: Sequence[Task] | None = None,
    ) -> None:
        self.settings, self.name, self.run, self.store = settings, name, run, store
        self.budget, self.progress, self.on_new = budget, progress, on_new
        self.bench = load_benchmark(settings.benchmark)
        drawn = self.bench.tasks("train", settings.train_tasks, settings.seed) if tasks is None else tasks
        self.tasks: list[Task] = list(drawn)
        self.rests_on = rests_on(run, name)
        self.seconds: dict[str, float] = {}

    def round(self, n: int) -> Round:
        """The files of a round."""
        return self.run.round(self.name, n)

    def runnable(self, gates: Sequence[Gate]) -> Sequence[Gate]:
        """Gates as this run can ask them."""
        return gates

    def rollout(
        self,
        harness: Harness,
        what: str,
        tasks: Sequence[Task] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[Trajectory]:
        """Training trials, by default all of them; those that the store has are not run again.

        Raises
        ------
        LabError: trials that ended in an infrastructure error again and again; nothing is decided without them.
        """
        found = rollout(
            self.settings.setup(self.settings.model),
            self.tasks if tasks is None else tasks,
            harness,
            self.settings.seeds if seeds is None else seeds,
            self.store,
            workers=self.settings.at_a_time,
            budget=self.budget,
            progress=self.progress,
            what=f"{self.name} {what}",
            on_new=self.on_new,
        )
        self.rests_on.add(t.key for t in found)
        broken = [t for t in found if t.status == "infra_error"]
        if broken:
            raise LabError(
                f"{len(broken)} of {len(found)} training trials ended in infrastructure errors, first: "
                f"{broken[0].error[:200]}; what is finished is kept, the same command tries the rest again"
            )
        return found

    def keep(self, harness: Harness) -> Harness:
        """A copy of an accepted harness under its hash in the run folder, there in whole or not at all."""
        folder = self.run.harness_path(harness.hash)
        if not folder.exists():
            half = folder.with_name(f".{harness.hash}")
            shutil.rmtree(half, ignore_errors=True)
            half.parent.mkdir(parents=True, exist_ok=True)
            copy_harness(harness, half)
            half.rename(folder)
        return load_harness(folder)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count wall clock under a phase; trials run inside ``gates`` count as ``rollout``."""
        began = time.perf_counter()
        try:
            yield
        finally:
            inner = self.seconds.pop("rerun", 0.0) if name == "gates" else 0.0
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began - inner
            if inner:
                self.seconds["rollout"] = self.seconds.get("rollout", 0.0) + inner

    @property
    def phase_seconds(self) -> dict[str, float]:
        """Wall clock by phase of the round so far."""
        return {name: round(seconds, 3) for name, seconds in self.seconds.items()}

    def kept(self, digest: str) -> Harness:
        """A harness that was kept."""
        return load_harness(self.run.harness_path(digest))

    def write_record(self, record: RoundRecord, candidate: Candidate | None) -> None:
        """Ledger line first, record last: a kill between the two repeats neither."""
        round, diff = self.round(record.round), candidate.diff if candidate else ""
        self.log({**asdict(record), "diff_lines": len(diff.splitlines())})
        if candidate:
            round.diff = diff
        round.record = record

    def log(self, entry: dict[str, Any]) -> None:
        """One line of the ledger, once: a line is known by arm, round and edit."""
        entry = {"arm": self.name, "edit": 0, **entry}
        known = [(e["arm"], e["round"], e.get("edit", 0)) for e in self.run.ledger()]
        if (self.name, entry["round"], entry["edit"]) not in known:
            self.run.append_ledger(entry)
