"""From logs to a candidate harness, without one call of the agent: ``ecdysis-lab learn`` and ``logs.ipynb``.

Recorded trials are split in two by task. One half trains the arms as in any run, for one round, with the gates that
need no trial; the other half is replayed through what they led to.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ecdysis_lab.evaluate.decided import counted_harness, decided
from ecdysis_lab.evaluate.evolution import Evolution
from ecdysis_lab.evaluate.stopped import NOT_A_SUCCESS, stopped
from ecdysis_lab.evaluate.traces import Recording, open_recording, split_by_task
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.models import check_model, hand, open_budget
from ecdysis_lab.records import LabError, Progress, Task, Trajectory
from ecdysis_lab.store import Run, Store, commit_hash
from ecdysis_lab.store.billing import at_work
from ecdysis_lab.train.arms import arm_of
from ecdysis_lab.train.loop import Trainer
from ecdysis_lab.train.plan import expected_calls
from ecdysis_lab.train.recorded import Recorded
from ecdysis_lab.train.rounds import Trained, of_rounds
from ecdysis_lab.train.settings import Settings, check_parts, configure, editor_of, fitted, slug

ALONE = 15  # failures that an arm without patterns hands over one by one, drawn by seed
SMOKE_TASKS = 16


class Learning:
    """Learns from recorded trials inside ``data/runs/<run_id>/``; a run that was stopped goes on.

    Parameters
    ----------
    settings : one round, from which harness, who reviews and edits. recording : the trials. root : the data folder.
    split : share of the tasks to train on. alone : failures handed over one by one at most.
    run_id : name of the run; empty: from all that decides the result. progress : called with (what, done, total).

    Raises
    ------
    LabError: no failing trial to train on, or a part that does not exist; nothing is written then.
    """

    def __init__(
        self,
        settings: Settings,
        recording: Recording,
        root: Path | str,
        *,
        split: float = 0.5,
        alone: int = ALONE,
        run_id: str = "",
        progress: Progress | None = None,
    ) -> None:
        from ecdysis_lab.benchmarks import load_benchmark

        check_parts(settings)
        self.settings, self.recording, self.progress = settings, recording, progress
        self.split, self.alone = split, alone
        self.halves = split_by_task(recording.trials, split, settings.seed)
        if not self._failing(self.halves.training):
            raise LabError(
                f"traces: no failing trial among the {len(self.halves.training)} on the training tasks, so there is "
                "nothing to learn from; choose another seed or a larger split"
            )
        for arm in settings.arms:
            self._refuse_twins(arm)
        self.bench = load_benchmark(settings.benchmark)
        name = run_id or self._run_id
        self.editor = editor_of(settings, Run(Path(root) / "runs" / name).config)
        config = settings.model_dump() | {
            "editor": self.editor, "traces": recording.told, "split": split, "alone": alone,
        }  # fmt: skip
        self.run = Run.open(root, name, config, defaults=Settings().model_dump())
        self.store, self.budget = Store(root), open_budget(self.run, settings.limits)

    @property
    def _run_id(self) -> str:
        decides = (self.settings.run_id, self.recording.mark, f"{self.split:g}", str(self.alone))
        mark = hashlib.sha256(" ".join(decides).encode()).hexdigest()[:6]
        return f"learn-{slug(self.settings.benchmark)}-seed{self.settings.seed}-{mark}"

    def _failing(self, trials: Sequence[Trajectory]) -> list[Trajectory]:
        return [t for t in trials if t.score is not None and t.score < self.settings.threshold]

    def _refuse_twins(self, arm: str) -> None:
        """An arm that hands over each failure alone knows a trial by its task and seed."""
        pairs = Counter((t.trial.task_id, t.trial.seed) for t in self.halves.training)
        (task, seed), n = pairs.most_common(1)[0]
        if arm_of(arm).edits == "failure" and n > 1:
            raise LabError(
                f"traces: {n} trials of task {task} with seed {seed} (models {', '.join(self.recording.models)}); "
                f"{arm} learns from one model at a time"
            )

    @property
    def expected(self) -> str:
        """One line on what learning takes: failures and calls by arm, where no edit goes back to its editor."""
        parts = []
        for arm in self.settings.arms:
            failures = len(self._failing(self._shown(arm)))
            review, edits = expected_calls(self.settings.but(editor=self.editor), arm, failures)
            parts.append(f"{arm} (failures {failures}, review calls {review}, editor calls {edits})")
        return f"expected: {', '.join(parts)}; editor {self.editor}; no call of the agent"

    def go(self) -> dict[str, Any]:
        """Train every arm, then replay the other half; ``learned.json`` holds the result, which is returned.

        Raises
        ------
        LabError: another process works on the run.
        ecdysis_lab.models.hand.Waiting: answers by hand are awaited; every arm has gone as far as it can by then.
        ecdysis_lab.models.calls.BudgetExceeded: a limit is reached; the same run goes on with a higher one.
        """
        with at_work(self.run):
            trained = hand.in_turn(self.settings.arms, self._train)
            learned = self._learned(trained)
            self.run.learned = learned
        return learned

    def reading(self, arm: str) -> Evolution:
        """An arm of the run, to be read.

        Raises
        ------
        LabError: the run has no such arm.
        """
        if arm not in self.settings.arms:
            raise LabError(
                f"read: {arm!r} is no arm of this run; choose one of {', '.join(self.settings.arms)}"
            )
        return Evolution(arm, self.run, self.store, None, self.settings.simulated)

    # -- training ----------------------------------------------------------------------------------------------------

    def _train(self, arm: str) -> Trained:
        made = partial(Recorded, trials=self._shown(arm), tasks=self._tasks())
        shared = {"budget": self.budget, "progress": self.progress}
        trained = Trainer(self.settings, arm, self.run, self.store, made, **shared).train()
        self.run.freeze(arm, trained.harness.hash)
        return trained

    def _tasks(self) -> list[Task]:
        ids = {t.trial.task_id for t in self.halves.training}
        return [task for task in self.bench.tasks("all") if task.id in ids]

    def _shown(self, arm: str) -> list[Trajectory]:
        """What an arm trains on: all of the half, or of its failures a draw where each goes to the editor alone."""
        trials, failing = self.halves.training, self._failing(self.halves.training)
        if arm_of(arm).edits != "failure" or len(failing) <= self.alone:
            return list(trials)
        drawn = {t.key for t in random.Random(self.settings.seed).sample(failing, self.alone)}
        left_out = {t.key for t in failing} - drawn
        return [t for t in trials if t.key not in left_out]

    # -- the other half ----------------------------------------------------------------------------------------------

    def _learned(self, trained: Mapping[str, Trained]) -> dict[str, Any]:
        arms = {arm: decided(self.run, self.settings, arm, made) for arm, made in trained.items()}
        rows = {arm: counted_harness(self.run, trained[arm], found) for arm, found in arms.items()}
        shipped = {"human": self.settings.harness("human") if self.bench.human else None,
                   "empty": self.settings.harness("empty")}  # fmt: skip
        counted = self._counted([h for h in (*rows.values(), *shipped.values()) if h])
        usage = of_rounds([record for made in trained.values() for record in made.rounds])
        return {
            "run_id": self.run.run_id,
            "commit": commit_hash(),
            "simulated": self.settings.simulated,
            "benchmark": self.settings.benchmark,
            "models": self.recording.models,
            "review_model": self.settings.review_model,
            "editor": self.editor,
            "start": self.settings.start,
            "traces": self.recording.told,
            "says": NOT_A_SUCCESS,
            "split": self._split(),
            "arms": {arm: counted[h.hash] | arms[arm] for arm, h in rows.items()},
            **{name: counted[h.hash] if h else None for name, h in shipped.items()},
            "cost_usd": usage.cost_usd,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
        }

    def _counted(self, harnesses: Sequence[Harness]) -> dict[str, dict[str, Any]]:
        """The table's rows by harness."""
        failing = {t.key for t in self._failing(self.halves.other)}
        other = [t for t in self.halves.other if t.success or t.key in failing]
        distinct = {h.hash: h for h in harnesses}
        rows: dict[str, dict[str, Any]] = {}
        for n, (digest, harness) in enumerate(distinct.items()):
            if self.progress:
                self.progress("harnesses replayed on the other tasks", n, len(distinct))
            rows[digest] = stopped(harness, self.bench, other, self.settings.seed) | {"harness": digest}
        if self.progress:
            self.progress("harnesses replayed on the other tasks", len(distinct), len(distinct))
        return rows

    def _split(self) -> dict[str, Any]:
        told: dict[str, Any] = {"seed": self.settings.seed, "share": self.split}
        for name, trials in (("training", self.halves.training), ("other", self.halves.other)):
            told |= {
                f"{name}_tasks": len({t.trial.task_id for t in trials}),
                f"{name}_trials": len(trials),
                f"{name}_failing": len(self._failing(trials)),
            }
        return told


def prepare_learning(
    given: Mapping[str, Any],
    traces: str,
    data: Path | str,
    *,
    arms: str = "ecdysis",
    split: float = 0.5,
    alone: int = ALONE,
    model: str = "",
    run_id: str = "",
    small: bool = False,
    progress: Progress | None = None,
) -> Learning:
    """Everything checked before anything runs.

    Parameters
    ----------
    given : settings. traces : file or folder of recorded trials, or the name of an import; empty for
        the newest import. data : the data folder. arms : comma-separated names. split : share of the tasks to train on.
    alone : failures that an arm without patterns hands over at most. model : that acted, where the traces do not tell.
    run_id : name of the run; empty: from the rest. small : the trials of sixteen tasks only.
    progress : called with (what, done, total).

    Raises
    ------
    LabError: a wrong value, an arm that is not trained, traces that are not of the benchmark, one task only, or no
        failing trial to learn from.
    """
    settings = configure(**given, arms=arms, rounds=1, confirm=0)
    settings = settings.but(start=fitted(settings)[0].start)
    for arm in settings.arms:
        arm_of(arm, trains=True)
    if alone < 1:
        raise LabError(f"alone: must be at least 1, got {alone}")
    check_model(settings.review_model, settings.params(settings.review_model))
    recording = open_recording(traces, data, settings.benchmark, model)
    if small:
        recording = recording.first(SMOKE_TASKS)
    settings = settings.but(
        model=", ".join(recording.models), test_models=recording.models, user_model=recording.users
    )
    return Learning(settings, recording, data, split=split, alone=alone, run_id=run_id, progress=progress)
