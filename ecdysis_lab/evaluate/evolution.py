"""One arm trained, without the test: what ``evolve.ipynb`` runs before it shows a round."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecdysis_lab.evaluate.accommodation import Judgement
from ecdysis_lab.evaluate.accommodation_facts import judgements_of
from ecdysis_lab.evaluate.experiment import Experiment
from ecdysis_lab.evaluate.results import rounds_frame
from ecdysis_lab.records import Failure, LabError, Patterns, Progress, RoundRecord, Subset
from ecdysis_lab.store import Run, Store
from ecdysis_lab.store.billing import at_work
from ecdysis_lab.train import plan
from ecdysis_lab.train.arms import arm_of
from ecdysis_lab.train.settings import check_models, configure, fitted

if TYPE_CHECKING:
    import pandas as pd

SMOKE_TASKS = 12  # of fewer, no pattern recurs, and there would be no edit to read


@dataclass(frozen=True)
class Evolution:
    """An arm of a run: to be trained, or read only.

    Parameters
    ----------
    arm : its name. run, store : where its records and trials are. experiment : None for a run that is only read.
    simulated : whether any model is simulated.
    """

    arm: str
    run: Run
    store: Store
    experiment: Experiment | None
    simulated: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed of the settings for a small benchmark."""
        return self.experiment.notes if self.experiment else ()

    def train(self) -> None:
        """Train what is missing of the arm; ``status.json`` tells how it ended. A run that is only read stays so."""
        if self.experiment is None:
            return
        with at_work(self.run, trained=self.arm):
            self.experiment.train(self.arm)

    def records(self) -> list[RoundRecord]:
        """Records of the arm's finished rounds, in order."""
        return [record for round in self.run.rounds(self.arm) if (record := round.record)]

    def rounds(self) -> pd.DataFrame:
        """The arm's rounds as :func:`ecdysis_lab.evaluate.results.rounds_frame` makes them."""
        return rounds_frame({self.arm: {"rounds": [asdict(r) for r in self.records()]}}, self.simulated)

    def has_patterns(self, n: int) -> bool:
        """Whether a round grouped its failures."""
        return self.run.round(self.arm, n).patterns is not None

    def has_review(self, n: int) -> bool:
        """Whether anything was reviewed in a round."""
        round = self.run.round(self.arm, n)
        return bool(round.review or round.debate() or round.edits)

    def evidence(self, n: int) -> tuple[Sequence[Failure], Patterns, Subset] | None:
        """Failures, patterns and subset of a round; None for an arm that groups nothing."""
        return self.run.round(self.arm, n).evidence() if self.has_patterns(n) else None

    def judgements(self) -> list[Judgement]:
        """Whether each change that the arm proposed answers a defect of the harness or a quirk of one model."""
        return judgements_of(self.run, self.store, arm=self.arm)

    def choose(self, wanted: int = 0) -> int:
        """The number of the round to read; 0 takes the first with a candidate, else the last.

        Raises
        ------
        LabError: there is no such round, or none at all.
        """
        records = self.records()
        if not records:
            raise LabError(f"run {self.run.run_id} has no finished round of arm {self.arm!r}")
        numbers = [r.round for r in records]
        if wanted and wanted not in numbers:
            raise LabError(f"round: there is no round {wanted}; choose from {', '.join(map(str, numbers))}")
        edited = [r.round for r in records if r.candidates]
        return wanted or (edited or numbers[-1:])[0]


def prepare_training(
    given: Mapping[str, Any],
    arm: str,
    data: Path | str,
    *,
    run_id: str = "",
    show: str = "",
    small: bool = False,
    progress: Progress | None = None,
) -> Evolution:
    """Everything checked before anything runs.

    Parameters
    ----------
    given : settings of the experiment. arm : the arm to train. data : the data folder.
    run_id : name of the run; empty: from the configuration. show : folder of a run to read instead of training one.
    small : twelve tasks, one trial, one round. progress : called with (what, done, total).

    Raises
    ------
    LabError: an arm that is not trained, a wrong value, a model that cannot be asked, or no run in ``show``.
    """
    config, notes = fitted(configure(**given, arms=(arm_of(arm, trains=True).name,)))
    if small:
        least = {"train_tasks": SMOKE_TASKS, "trials": 1, "rounds": 1}
        config = config.but(**{k: min(v, getattr(config, k)) for k, v in least.items()})
    if show:
        run = Run(Path(show).expanduser())
        if not run.exists:
            raise LabError(f"show: {run.folder} is no run folder (it has no config.json)")
        return Evolution(arm, run, Store(run.root), None, "sim/" in json.dumps(run.config))
    check_models(config)
    experiment = Experiment(config, data, run_id, progress, notes)
    experiment.notes += tuple(plan.lines(plan.plan(config, experiment.store)))
    return Evolution(arm, experiment.run, experiment.store, experiment, config.simulated)
