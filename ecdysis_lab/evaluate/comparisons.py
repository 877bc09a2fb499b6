"""Arms against each other, paired trial by trial."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

from ecdysis_lab.evaluate.metrics import difference_interval
from ecdysis_lab.evaluate.scores import SET, TRIAL, refuse_twins
from ecdysis_lab.train.gates import sign_test_p

if TYPE_CHECKING:
    import pandas as pd


def paired_difference(
    table: pd.DataFrame, against: str, arm: str, seed: int = 0, n_boot: int = 2000
) -> dict[str, Any]:
    """How much more often one arm succeeds than another, paired by (run, benchmark, model, task, seed).

    Parameters
    ----------
    table : rows of the long table. against, arm : e.g. ``direct`` and ``ecdysis``. seed, n_boot : of the bootstrap.

    Returns
    -------
    ``difference`` of the accuracies, ``ci_low`` and ``ci_high`` (95%, bootstrap over tasks), ``gained`` and ``lost``
    (number of tasks whose successes rose and fell), ``sign_test_p`` (exact, two-sided, over those tasks), ``n_tasks``,
    ``n_pairs``, ``dropped`` (trials scored in one of the arms only); empty where no trial is scored in both.

    Raises
    ------
    LabError: one trial occurs twice.
    """
    refuse_twins(table)
    scored = table[(table["status"] == "scored") & table["arm"].isin([against, arm])]
    wide = scored.pivot(index=TRIAL, columns="arm", values="success").reindex(columns=[against, arm])
    pairs = wide.dropna().astype("int64")
    if pairs.empty:
        return {}
    steps = (pairs[arm] - pairs[against]).groupby(["benchmark", "task"]).agg(["sum", "size"])
    sums, sizes = steps["sum"].to_numpy(float), steps["size"].to_numpy(float)
    low, high = difference_interval(sums, sizes, seed, n_boot)
    gained, lost = int((sums > 0).sum()), int((sums < 0).sum())
    return {
        "difference": float(sums.sum() / sizes.sum()),
        "ci_low": low,
        "ci_high": high,
        "gained": gained,
        "lost": lost,
        "sign_test_p": sign_test_p(gained, lost),
        "n_tasks": len(steps),
        "n_pairs": len(pairs),
        "dropped": len(wide) - len(pairs),
    }


def differences(table: pd.DataFrame, seed: int = 0, n_boot: int = 2000) -> pd.DataFrame:
    """Paired differences between all arms, one row per benchmark, training model, model and pair of arms.

    Parameters
    ----------
    table : long table of scores. seed, n_boot : of the bootstrap.

    Returns
    -------
    DataFrame with columns benchmark, train_model, model, arm, against, those of
    :func:`paired_difference`, and simulated. No correction for many comparisons is made.
    """
    import pandas as pd

    rows = []
    for (benchmark, trained, model), own in table.groupby([*SET, "model"], sort=False):
        for against, arm in combinations(own["arm"].unique(), 2):
            found = paired_difference(own, against, arm, seed, n_boot)
            if found:
                head = {"benchmark": benchmark, "train_model": trained, "model": model}
                told = {"arm": arm, "against": against, **found, "simulated": bool(own["simulated"].any())}
                rows.append(head | told)
    return pd.DataFrame(rows)
