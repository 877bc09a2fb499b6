"""The long table of scores, one row a trial: every summary, comparison, figure and report row is made from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ecdysis_lab.records import LabError, Trajectory, Usage
from ecdysis_lab.store import Run
from ecdysis_lab.store.spreadsheet import as_written, to_csv

if TYPE_CHECKING:
    import pandas as pd

FILE = "scores.csv"
TYPES = {
    **dict.fromkeys(("run", "benchmark", "train_model", "arm", "model", "task"), "str"),
    "seed": "int64",
    "status": "str",
    "reason": "str",
    "score": "float64",
    "success": "boolean",
    "prompt_tokens": "int64",
    "completion_tokens": "int64",
    "cost_usd": "float64",
    "seconds": "float64",
    "agent_seconds": "float64",
    "simulated": "bool",
}
"""Columns of the long table and their types."""
MISSING = ("score", "success", "cost_usd")
"""Columns that may be empty: of a trial without a score, and where a price is unknown."""
SET = ["benchmark", "train_model"]
TRIAL = ["run", "benchmark", "model", "task", "seed"]


def scores(
    trajectories: Iterable[Trajectory],
    *,
    arm: str = "",
    run: str = "",
    train_model: str = "",
    simulated: bool = False,
) -> pd.DataFrame:
    """The long table of trials of one arm; tables of several arms, models and runs are concatenated.

    Parameters
    ----------
    trajectories : trials of any status. arm, run : where they belong. train_model : that the arm was trained on.
    simulated : whether any model behind them is.

    Returns
    -------
    DataFrame with the columns of ``TYPES``, one row a trial. Tokens and ``cost_usd`` sum over roles, the latter is
    missing where a price is unknown; ``seconds`` is wall clock, ``agent_seconds`` that of the agent model's calls.
    ``score`` and ``success`` are missing for trials that were not scored; ``reason`` says why the model itself ended a
    scored one (``Trajectory.reason``), else it is empty.
    """
    import pandas as pd

    about = {"arm": arm, "run": run, "train_model": train_model, "simulated": simulated}
    return pd.DataFrame([about | _row(t) for t in trajectories], columns=list(TYPES)).astype(TYPES)


def _row(trajectory: Trajectory) -> dict[str, Any]:
    trial, used = trajectory.trial, sum(trajectory.usage.values(), Usage())
    scored = trajectory.status == "scored"
    return {
        "benchmark": trial.benchmark,
        "model": trial.model,
        "task": trial.task_id,
        "seed": trial.seed,
        "status": trajectory.status,
        "reason": trajectory.reason,
        "score": trajectory.score if scored else None,
        "success": trajectory.success if scored else None,
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "cost_usd": used.cost_usd,
        "seconds": trajectory.seconds,
        "agent_seconds": trajectory.usage.get("agent", Usage()).seconds,
    }


def write_scores(run: Run, table: pd.DataFrame) -> None:
    """Keep the long table of a run in its folder, as ``scores.csv``."""
    run.write_text(FILE, to_csv(table))


def read_scores(run: Run) -> pd.DataFrame:
    """The long table of an evaluated run, equal to what was written.

    Raises
    ------
    LabError: the run keeps none.
    """
    import pandas as pd

    path = run.folder / FILE
    if not path.is_file():
        raise LabError(f"run {run.run_id} keeps no {FILE}; start it again to complete it")
    empty = {name: [""] for name in MISSING}
    table = pd.read_csv(path, dtype=TYPES, keep_default_na=False, na_values=empty)
    texts = [name for name, kind in TYPES.items() if kind == "str"]
    return table.assign(**{name: table[name].map(as_written).astype("str") for name in texts})


def refuse_twins(table: pd.DataFrame) -> None:
    """Stop where a table holds a trial twice, which would count it double.

    Raises
    ------
    LabError: one does; the first is named.
    """
    twins = table[table.duplicated([*TRIAL, "arm"])]
    if len(twins):
        t = twins.iloc[0]
        raise LabError(
            f"the scores hold task {t['task']}, seed {t['seed']} of arm {t['arm']!r} on {t['model']} more than once "
            f"({len(twins)} such trials)"
        )
