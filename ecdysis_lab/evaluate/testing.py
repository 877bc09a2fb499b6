"""Frozen harnesses on the test split: the trials, and the table of their scores.

Used by an experiment, which has just trained them, and by an evaluation of harnesses that other runs froze.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ecdysis_lab.evaluate.scores import scores, write_scores
from ecdysis_lab.records import Task, Trajectory
from ecdysis_lab.store import Run, Store
from ecdysis_lab.train.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

Tested = Mapping[str, Mapping[str, list[Trajectory]]]
"""Arm -> model -> test trajectories."""


def trials_by_model(
    settings: Settings, arm: str, harness: Any, tasks: Sequence[Task], store: Store, **shared: Any
) -> dict[str, list[Trajectory]]:
    """Test trajectories of one harness, by model.

    Parameters
    ----------
    settings : models, seed, trials. arm : for the progress line. harness : frozen. tasks : of the test split.
    store : where trials are kept. shared : budget, progress and on_new of :func:`ecdysis_lab.harness.rollout.rollout`.
    """
    from ecdysis_lab.harness.rollout import rollout

    return {
        model: rollout(
            settings.setup(model),
            tasks,
            harness,
            settings.test_seeds,
            store,
            workers=settings.at_a_time,
            what=f"{arm} on {model}: test trials",
            **shared,
        )
        for model in settings.models
    }


def keep_scores(run: Run, tested: Tested, train_model: str, simulated: bool) -> pd.DataFrame:
    """The long table of all that a run tested, which is kept in its folder.

    Parameters
    ----------
    run : whose scores. tested : its test trajectories. train_model : that the arms were trained on.
    simulated : whether any model is.
    """
    import pandas as pd

    about: dict[str, Any] = {"run": run.run_id, "train_model": train_model, "simulated": simulated}
    parts = [scores(ts, arm=arm, **about) for arm, models in tested.items() for ts in models.values()]
    table = pd.concat(parts, ignore_index=True)
    write_scores(run, table)
    return table
