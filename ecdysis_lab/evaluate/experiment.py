"""One experiment: train the arms, freeze them, test them on several models, and write ``summary.json``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.evaluate.summaries import arms_block, clean_block
from ecdysis_lab.evaluate.testing import Tested, keep_scores, trials_by_model
from ecdysis_lab.models import hand, open_budget
from ecdysis_lab.records import Progress, Trajectory
from ecdysis_lab.store.billing import at_work, billed, consumption, rests_on, trials_of
from ecdysis_lab.train import plan
from ecdysis_lab.train.arms import arm_of
from ecdysis_lab.train.rounds import of_rounds, training_block
from ecdysis_lab.train.settings import (
    Settings,
    check_models,
    check_parts,
    configure,
    editor_of,
    fitted,
    smoke,
)


class Experiment:
    """Runs a configuration inside ``data/runs/<run_id>/``.

    Parameters
    ----------
    settings : what to run. root : the data folder. run_id : name of the run; by default from the settings.
    progress : called with (what, done, total). notes : on the settings, for the reader.

    Raises
    ------
    LabError: a part that does not exist, or more tasks than a split has; nothing is written then.
    """

    def __init__(
        self,
        settings: Settings,
        root: Path | str,
        run_id: str = "",
        progress: Progress | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        from ecdysis_lab.benchmarks import load_benchmark
        from ecdysis_lab.store import Run, Store

        check_parts(settings)
        bench = load_benchmark(settings.benchmark)
        self.train_tasks = bench.tasks("train", settings.train_tasks, settings.seed)
        self.test_tasks = bench.tasks("test", settings.test_tasks, settings.seed)
        self.settings, self.progress = settings, progress
        name = run_id or settings.run_id
        editor = editor_of(settings, Run(Path(root) / "runs" / name).config)
        self.notes = (*notes, *([f"editor: {editor}"] if settings.editor == "auto" else []))
        config = settings.model_dump() | {"editor": editor}
        self.run = Run.open(root, name, config, defaults=Settings().model_dump())
        self.store = Store(root)
        self.billing = billed(self.run)
        self.budget = open_budget(self.run, settings.limits)

    def go(self) -> dict[str, Any]:
        """Train, test, and write scores and summary; ``status.json`` tells how it ended.

        Raises
        ------
        LabError: another process works on this run, or training trials cannot be scored.
        ecdysis_lab.models.calls.BudgetExceeded: a limit is reached; the same run goes on with a higher one.
        ecdysis_lab.models.hand.Waiting: answers by hand are awaited, of as many arms as there are at a time.
        """
        began, summary = time.perf_counter(), None
        with at_work(self.run):
            try:
                floor = self._noise_floor()
                trained = hand.in_turn(self.settings.arms, self.train)
                self._pair_models()
                tested = {arm: self._test(arm, frozen) for arm, (frozen, _) in trained.items()}
                summary = self._summary(trained, tested)
            finally:
                seconds = self._worked(time.perf_counter() - began)
            summary |= {"wall_seconds": round(seconds, 1)} | ({} if floor is None else {"noise_floor": floor})
            self.run.summary = summary
        return summary

    def _worked(self, seconds: float) -> float:
        """Wall clock over all starts of this run; a start that found everything done adds nothing."""
        before = self.run.wall
        trials = len(self.billing.keys)
        if trials > before["trials"] or not before["seconds"]:
            before = {"seconds": round(before["seconds"] + seconds, 1), "trials": trials}
            self.run.wall = before
        return float(before["seconds"])

    # -- stages ------------------------------------------------------------------------------------------------

    def _noise_floor(self) -> dict[str, Any] | None:
        """A/A: the start harness again and again on fresh seeds, and the smallest gain that stands out of that."""
        if self.settings.noise_floor < 2:
            return None
        from ecdysis_lab.evaluate.noise import noise_floor
        from ecdysis_lab.train.arm_run import ArmRun

        arm_run = ArmRun(self.settings, "noise-floor", self.run, self.store, **self._shared)
        start = arm_run.keep(self.settings.harness(self.settings.start))
        first = self.settings.rounds * self.settings.repeats_room  # the seeds before belong to the rounds
        repeats = [
            arm_run.rollout(start, f"repeat {i + 1}", seeds=self.settings.fresh_seeds(first + i))
            for i in range(self.settings.noise_floor)
        ]
        # A task on which the user failed has no score there, and would count less in that repeat than in others.
        spoiled = {t.trial.task_id for run in repeats for t in run if t.status != "scored"}
        if len(spoiled) == len(self.train_tasks):
            return {"left_out": sorted(spoiled), "reason": "the user failed at least once on every task"}
        kept = [[t for t in run if t.trial.task_id not in spoiled] for run in repeats]
        return {**asdict(noise_floor(kept)), "left_out": sorted(spoiled)}

    def train(self, arm: str) -> tuple[Any, list[Any]]:
        """Train one arm, or read it back: (frozen harness, round records)."""
        row = arm_of(arm)
        if not row.trains:
            return self.settings.harness(row.harness), []
        from ecdysis_lab.train.loop import Trainer

        trained = Trainer(self.settings, arm, self.run, self.store, **self._shared).train()
        self.run.freeze(arm, trained.harness.hash)
        return trained.harness, list(trained.rounds)

    def _pair_models(self) -> None:
        """Let the other models try the training tasks in the start harness; only t reads these trials."""
        from ecdysis_lab.harness.rollout import rollout

        start = self.settings.harness(self.settings.start)
        for model in self.settings.models if self.settings.paired else ():
            what, setup = f"{model}: training tasks, for t", self.settings.setup(model)
            found = rollout(setup, self.train_tasks, start, self.settings.seeds, self.store,
                            workers=self.settings.at_a_time, what=what, **self._shared)  # fmt: skip
            rests_on(self.run, "paired").add(t.key for t in found)

    @property
    def _shared(self) -> dict[str, Any]:
        return {"budget": self.budget, "progress": self.progress, "on_new": self.billing}

    def _test(self, arm: str, frozen: Any) -> dict[str, list[Trajectory]]:
        """Test trajectories by model, in the frozen harness."""
        return trials_by_model(self.settings, arm, frozen, self.test_tasks, self.store, **self._shared)

    # -- summary -----------------------------------------------------------------------------------------------

    def _summary(self, trained: Mapping[str, Any], tested: Tested) -> dict[str, Any]:
        from ecdysis_lab.store import commit_hash

        parts = {arm: self._trials(arm) for arm, (_, rounds) in trained.items() if rounds}
        used = {
            t.key: t
            for ts in (*parts.values(), self._trials("noise-floor"), self._trials("paired"))
            for t in ts
        }
        used |= {
            t.key: t for models in tested.values() for ts in models.values() for t in ts if not t.reused_from
        }
        scores = keep_scores(self.run, tested, self.settings.model, self.settings.simulated)
        own = self.billing.keys
        reviews = of_rounds([r for _, rounds in trained.values() for r in rounds])
        total = consumption(used.values()) + reviews
        paid = consumption(t for t in used.values() if t.key in own) + reviews
        return {
            "run_id": self.run.run_id,
            "commit": commit_hash(),
            "seed": self.settings.seed,
            "simulated": self.settings.simulated,
            "benchmark": self.settings.benchmark,
            "train_model": self.settings.model,
            "arms": arms_block(scores, self.settings.seed),
            **clean_block(scores, load_benchmark(self.settings.benchmark), self.settings.seed),
            "harness": {arm: harness.hash for arm, (harness, _) in trained.items()},
            "training": {arm: training_block(self.run, self.store, arm) for arm in parts},
            "cost_usd": total.cost_usd,
            "billed_usd": paid.cost_usd,
            "prompt_tokens": total.prompt_tokens,
            "completion_tokens": total.completion_tokens,
        }

    def _trials(self, part: str) -> list[Trajectory]:
        return trials_of(self.run, self.store, part)


def prepare_experiment(
    given: Mapping[str, Any],
    data: Path | str,
    run_id: str = "",
    small: bool = False,
    progress: Progress | None = None,
) -> Experiment:
    """Everything checked before anything runs.

    Parameters
    ----------
    given : settings. data : the data folder. run_id : name of the run; empty: from the settings.
    small : the same at its smallest. progress : called with (what, done, total).

    Raises
    ------
    LabError: a wrong value, a part that does not exist, or a model that cannot be asked.
    """
    settings, notes = fitted(configure(**given))
    if small:
        settings = smoke(settings)
        sizes = f"{settings.train_tasks} training and {settings.test_tasks} test tasks"
        notes = (*notes, f"smoke: at most {sizes}, {settings.trials} trial, {settings.rounds} round")
    check_models(settings)
    experiment = Experiment(settings, data, run_id, progress, notes)
    experiment.notes += tuple(plan.lines(plan.plan(settings, experiment.store)))
    return experiment


Printer = Callable[[str], None]


def printing_progress(say: Printer = print, every_seconds: float = 2.0) -> Progress:
    """A progress callback that prints a line when a stage starts, ends, and every few seconds between."""
    state: dict[str, Any] = {"what": "", "at": 0.0}

    def progress(what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what != state["what"] or done == total or now - state["at"] >= every_seconds:
            say(f"{what}: {done}/{total}")
            state.update(what=what, at=now)

    return progress
