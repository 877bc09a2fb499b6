"""One arm trained, without the test: what ``evolve.ipynb`` runs before it shows a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecdysis_lab.evaluate.accommodation_facts import rounds_of
from ecdysis_lab.evaluate.experiment import Experiment
from ecdysis_lab.evaluate.results import rounds_frame
from ecdysis_lab.records import LabError, Progress
from ecdysis_lab.store import Run, Store
from ecdysis_lab.store.billing import at_work
from ecdysis_lab.train.arms import arm_of
from ecdysis_lab.train.settings import check_models, configure

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

    def train(self) -> None:
        """Train what is missing of the arm; ``status.json`` tells how it ended. A run that is only read stays so."""
        if self.experiment is None:
            return
        with at_work(self.run, trained=self.arm):
            self.experiment.train(self.arm)

    def records(self) -> list[dict[str, Any]]:
        """Records of the arm's rounds, in order."""
        numbers = [n for _, n in rounds_of(self.run, self.arm)]
        return [self.run.read_json(f"rounds/{self.arm}-{n}/record.json") for n in numbers]

    def rounds(self) -> pd.DataFrame:
        """The arm's rounds as :func:`ecdysis_lab.evaluate.results.rounds_frame` makes them."""
        return rounds_frame({self.arm: {"rounds": self.records()}}, self.simulated)

    def has_patterns(self, n: int) -> bool:
        """Whether a round grouped its failures."""
        return (self.run.folder / f"rounds/{self.arm}-{n}/patterns.json").is_file()

    def has_review(self, n: int) -> bool:
        """Whether anything was reviewed in a round."""
        folder = self.run.folder / f"rounds/{self.arm}-{n}"
        return any((folder / name).is_file() for name in ("review.json", "debate.json", "edits.json"))

    def choose(self, wanted: int = 0) -> int:
        """The number of the round to read; 0 takes the first with a candidate, else the last.

        Raises
        ------
        LabError: there is no such round, or none at all.
        """
        records = self.records()
        if not records:
            raise LabError(f"run {self.run.run_id} has no finished round of arm {self.arm!r}")
        numbers = [int(r["round"]) for r in records]
        if wanted and wanted not in numbers:
            raise LabError(f"round: there is no round {wanted}; choose from {', '.join(map(str, numbers))}")
        edited = [int(r["round"]) for r in records if r["candidate"] or r.get("candidates")]
        return wanted or (edited or numbers[-1:])[0]


def prepare(
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
    arm_of(arm, trains=True)
    config = configure(**given, arms=(arm,))
    if small:
        least = {"train_tasks": SMOKE_TASKS, "trials": 1, "rounds": 1}
        config = config.but(**{k: min(v, getattr(config, k)) for k, v in least.items()})
    if show:
        folder = Path(show).expanduser()
        if not (folder / "config.json").is_file():
            raise LabError(f"show: {folder} is no run folder (it has no config.json)")
        run = Run(folder)
        simulated = "sim/" in (folder / "config.json").read_text(encoding="utf-8")
        return Evolution(arm, run, Store(folder.parent.parent), None, simulated)
    check_models(config)
    experiment = Experiment(config, data, run_id, progress)
    return Evolution(arm, experiment.run, experiment.store, experiment, config.simulated)
