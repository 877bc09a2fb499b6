"""Frozen harnesses on the test split: the trials, and what a summary says of them.

Used by an experiment, which has just trained them, and by an evaluation of harnesses that other runs froze.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ecdysis_lab.records import LabError, Task, Trajectory
from ecdysis_lab.store import Store
from ecdysis_lab.train.arms import BASELINE
from ecdysis_lab.train.settings import Settings

Tested = Mapping[str, Mapping[str, list[Trajectory]]]
"""Arm -> model -> test trajectories."""


def trials_by_model(
    config: Settings, arm: str, harness: Any, tasks: Sequence[Task], store: Store, **shared: Any
) -> dict[str, list[Trajectory]]:
    """Test trajectories of one harness, by model.

    Parameters
    ----------
    config : models, seed, trials. arm : for the progress line. harness : frozen. tasks : of the test split.
    store : where trials are kept. shared : budget, progress and on_new of :func:`ecdysis_lab.harness.rollout.rollout`.
    """
    from ecdysis_lab.harness.rollout import rollout

    return {
        model: rollout(
            config.setup(model),
            tasks,
            harness,
            config.test_seeds,
            store,
            workers=config.at_a_time,
            what=f"{arm} on {model}: test trials",
            **shared,
        )
        for model in config.models
    }


def arms_block(tested: Tested, seed: int) -> dict[str, dict[str, dict[str, Any]]]:
    """``arms`` of a summary: arm -> model -> metrics, with the paired difference from ``direct`` where there is one."""
    from ecdysis_lab.evaluate.scores import summarise

    return {
        arm: {
            model: summarise(ts, seed=seed) | _gain(tested, arm, model, seed) for model, ts in models.items()
        }
        for arm, models in tested.items()
    }


def _gain(tested: Tested, arm: str, model: str, seed: int) -> dict[str, Any]:
    """Interval of the paired difference from ``direct``, where both arms have scored pairs."""
    from ecdysis_lab.evaluate.scores import paired_difference

    if arm == BASELINE or BASELINE not in tested:
        return {}
    try:
        found = paired_difference(tested[BASELINE][model], tested[arm][model], seed=seed, missing="drop")
    except LabError:  # not one pair was scored on both sides; the counts say so
        return {}
    return {"difference_ci95": list(found["ci95"]), "paired_trials": found["n_pairs"]}
