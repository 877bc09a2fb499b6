"""Metrics of the long table of scores, by arm and model.

Only trials with status ``scored`` enter a metric. An infrastructure error or a user fault is counted apart and is never
a success or a failure. Runs that differ in their seed only may stand in one table: the unit that is resampled stays the
task, for trials of one task are alike, within a run and across seeds. An interval so says what other tasks would do to
these harnesses; what another training seed would do stands beside it as the range over seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ecdysis_lab.evaluate.comparisons import paired_difference
from ecdysis_lab.evaluate.metrics import cluster_interval, pass_at_k, pass_hat_k
from ecdysis_lab.evaluate.scores import SET, refuse_twins
from ecdysis_lab.records import Benchmark
from ecdysis_lab.train.arms import BASELINE

if TYPE_CHECKING:
    import pandas as pd

K = 3


def metrics(table: pd.DataFrame, seed: int = 0, n_boot: int = 2000) -> dict[str, Any]:
    """Metrics of one arm on one model and benchmark, over all runs of a table.

    Parameters
    ----------
    table : rows of the long table. seed : of the bootstrap. n_boot : resamples of the tasks.

    Returns
    -------
    ``accuracy`` (share of scored trials that succeed), ``pass@3`` and ``pass^3`` (means over task and run),
    ``accuracy_ci95`` as ``[low, high]``, ``n_tasks`` (distinct) and ``n_trials`` (scored), ``infra_errors``,
    ``user_faults``; of the scored trials ``prompt_tokens``, ``completion_tokens`` and ``cost_usd`` (sums, None for an
    unknown price), ``trial_seconds`` and ``agent_seconds`` (mean wall clock of a trial, and of the agent model's calls
    in it). Pass@3 and Pass^3 are None when any task has fewer than three scored trials, for a mean over the remaining
    tasks would be another quantity. Without a scored trial every metric is None.

    Raises
    ------
    LabError: one trial occurs twice, which would count it double.
    """
    refuse_twins(table)
    status, scored = table["status"].value_counts(), table[table["status"] == "scored"]
    each = scored.groupby(["run", "task"])["success"].agg(["size", "sum"]).astype("int64")
    tasks = each.groupby("task").sum()  # sorted, so that the bootstrap does not hang on the order of input
    tried, won = tasks["size"].to_numpy(float), tasks["sum"].to_numpy(float)
    n, cost = len(scored), float(scored["cost_usd"].sum(skipna=False))
    return {
        "accuracy": float(won.sum() / tried.sum()) if n else None,
        f"pass@{K}": _mean(pass_at_k, each),
        f"pass^{K}": _mean(pass_hat_k, each),
        "accuracy_ci95": cluster_interval(won, tried, seed, n_boot) if n else None,
        "n_tasks": len(tasks),
        "n_trials": n,
        "infra_errors": int(status.get("infra_error", 0)),
        "user_faults": int(status.get("user_fault", 0)),
        "prompt_tokens": int(scored["prompt_tokens"].sum()),
        "completion_tokens": int(scored["completion_tokens"].sum()),
        "cost_usd": cost if cost == cost else None,
        "trial_seconds": round(float(scored["seconds"].mean()), 3) if n else None,
        "agent_seconds": round(float(scored["agent_seconds"].mean()), 3) if n else None,
    }


def _mean(estimator: Callable[[int, int, int], float], each: pd.DataFrame) -> float | None:
    """Mean of an estimator over (run, task), None where one of them has too few trials."""
    if each.empty or each["size"].min() < K:
        return None
    return sum(estimator(n, c, K) for n, c in each.itertuples(index=False)) / len(each)


def _by_arm(table: pd.DataFrame, seed: int, n_boot: int) -> Iterator[tuple[pd.DataFrame, dict[str, Any]]]:
    """Rows and metrics of each arm on each model, with the paired difference from ``direct`` where there is one."""
    for (*which, arm), own in table.groupby([*SET, "model", "arm"], sort=False):
        found = metrics(own, seed, n_boot)
        if arm != BASELINE:
            beside = table[(table[[*SET, "model"]] == which).all(axis=1)]
            pairs = paired_difference(beside, BASELINE, arm, seed, n_boot)
            if pairs:
                ends = [pairs["ci_low"], pairs["ci_high"]]
                found |= {"difference_ci95": ends, "paired_trials": pairs["n_pairs"]}
        yield own, found


def arms_block(
    table: pd.DataFrame, seed: int = 0, n_boot: int = 2000
) -> dict[str, dict[str, dict[str, Any]]]:
    """``arms`` of ``summary.json``: arm -> model -> :func:`metrics`.

    ``difference_ci95`` and ``paired_trials`` of the paired difference from ``direct`` are added where both have scored
    pairs.
    """
    block: dict[str, dict[str, dict[str, Any]]] = {}
    for own, found in _by_arm(table, seed, n_boot):
        block.setdefault(own["arm"].iloc[0], {})[own["model"].iloc[0]] = found
    return block


def unclean_tasks(table: pd.DataFrame, benchmark: Benchmark) -> list[str]:
    """Tasks of a table whose gold cannot be reached, as far as the benchmark knows (``Benchmark.clean``)."""
    clean = getattr(benchmark, "clean", None)
    return sorted({task for task in table["task"] if not clean(task)}) if clean else []


def clean_block(table: pd.DataFrame, benchmark: Benchmark, seed: int = 0) -> dict[str, Any]:
    """``unclean_tasks`` and ``arms_clean``, :func:`arms_block` without them; empty where all are clean."""
    unclean = unclean_tasks(table, benchmark)
    rest = table[~table["task"].isin(unclean)]
    return {"unclean_tasks": unclean, "arms_clean": arms_block(rest, seed)} if unclean else {}


def summarise(table: pd.DataFrame, seed: int = 0, n_boot: int = 2000) -> pd.DataFrame:
    """The same as a table: one row per benchmark, training model, arm and model, in order of appearance.

    Returns
    -------
    DataFrame with columns benchmark, train_model, arm, model, those of :func:`metrics` with ``ci_low`` and ``ci_high``
    for the interval, ``gain_low`` and ``gain_high`` (95% interval of the paired difference from ``direct``),
    ``paired_trials``, ``n_seeds`` (runs), ``seed_low`` and ``seed_high`` (lowest and highest accuracy of a run) and
    ``simulated``.
    """
    import pandas as pd

    rows = []
    for own, found in _by_arm(table, seed, n_boot):
        by_run = own[own["status"] == "scored"].groupby("run")["success"].mean().astype(float)
        ends = {}
        for name, low, high in (("accuracy", "ci_low", "ci_high"), ("difference", "gain_low", "gain_high")):
            ends[low], ends[high] = found.pop(f"{name}_ci95", None) or (None, None)
        runs = {"n_seeds": own["run"].nunique(), "seed_low": by_run.min(), "seed_high": by_run.max()}
        head = own[[*SET, "arm", "model"]].iloc[0].to_dict()
        pairs = {"paired_trials": found.pop("paired_trials", None)}
        rows.append({**head, **found, **ends, **pairs, **runs, "simulated": bool(own["simulated"].any())})
    unsure = ("accuracy", f"pass@{K}", f"pass^{K}", "ci_low", "ci_high", "gain_low", "gain_high", "cost_usd")
    types = {
        **dict.fromkeys((*unsure, "trial_seconds", "agent_seconds"), "float64"),
        "paired_trials": "Int64",
    }
    return pd.DataFrame(rows).astype(types if rows else {})
