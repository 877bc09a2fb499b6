"""Several runs as one: accuracy by arm and model over seeds, and paired differences between arms.

Runs that differ in their seed only are averaged. The unit of the bootstrap is the task: trials of one task are alike,
within a run and across seeds, so a task that several seeds drew is one cluster. The interval says what other tasks
would do to these harnesses; what another training seed would do stands beside it as the range over seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ecdysis_lab.evaluate.metrics import (
    cluster_interval,
    difference_interval,
    pass_at_k,
    pass_hat_k,
)
from ecdysis_lab.records import LabError
from ecdysis_lab.train.arms import BASELINE
from ecdysis_lab.train.gates import sign_test_p

if TYPE_CHECKING:
    import pandas as pd

Summary = Mapping[str, Any]
Cell = dict[tuple[str, int], dict[str, int]]  # (task, run) -> trial seed -> 0 or 1
K = 3
CONSUMED = ("prompt_tokens", "completion_tokens", "cost_usd")
SHOWN = 3  # run ids that a footer spells out
LATENCIES = ("trial_seconds", "agent_seconds")


def pooled(summaries: Sequence[Summary], seed: int = 0, n_boot: int = 2000) -> list[dict[str, Any]]:
    """One summary per benchmark and training model, in the shape of ``summary.json``, for tables and figures.

    Parameters
    ----------
    summaries : contents of ``summary.json``, one per run. seed, n_boot : of the bootstrap.

    Returns
    -------
    Summaries whose arms block holds, by arm and model, ``accuracy``, ``accuracy_ci95``, ``pass@3``, ``pass^3``
    (means over (seed, task)), ``difference_ci95`` of the paired difference from ``direct``, ``n_tasks`` (distinct),
    ``n_trials``, ``n_seeds``, ``seed_accuracies``, ``infra_errors``, ``user_faults``, tokens, cost and latency.
    ``training`` holds means over the runs that trained the arm; ``run_ids`` names the runs.

    Raises
    ------
    LabError: no run, a run twice, two runs of one seed, or a run from before outcomes were kept.
    """
    groups: dict[tuple[str, str], list[Summary]] = {}
    for summary in summaries:
        groups.setdefault((summary["benchmark"], summary["train_model"]), []).append(summary)
    groups = {key: sorted(runs, key=lambda r: int(r["seed"])) for key, runs in groups.items()}
    if not groups:
        raise LabError("no run to pool")
    return [_one(runs, seed, n_boot) for runs in groups.values()]


def _one(runs: Sequence[Summary], seed: int, n_boot: int) -> dict[str, Any]:
    ids, seeds = [str(r["run_id"]) for r in runs], [int(r["seed"]) for r in runs]
    for what, values in (("run", ids), ("seed", list(map(str, seeds)))):
        twice = [v for v in values if values.count(v) > 1]
        if twice:
            raise LabError(
                f"{what} {twice[0]} occurs {values.count(twice[0])} times for {runs[0]['benchmark']} trained on "
                f"{runs[0]['train_model']} (runs {', '.join(ids)}); pool runs that differ in their seed only"
            )
    arms: dict[str, dict[str, Any]] = {}
    for arm, model in _pairs(runs):
        arms.setdefault(arm, {})[model] = _cell_metrics(runs, arm, model, seed, n_boot)
    first = runs[0]
    many = ", ".join(ids) if len(ids) <= SHOWN else f"{ids[0]} and {len(ids) - 1} more"
    known = [r.get("wall_seconds") for r in runs]
    return {
        "run_id": many,
        "run_ids": ids,
        "commit": ", ".join(dict.fromkeys(str(r["commit"]) for r in runs)),
        "seed": min(seeds),
        "seeds": sorted(seeds),
        "simulated": any(r["simulated"] for r in runs),
        "benchmark": first["benchmark"],
        "train_model": first["train_model"],
        "arms": arms,
        "training": {arm: _training([r["training"][arm] for r in runs if arm in r.get("training", {})])
                     for arm in dict.fromkeys(a for r in runs for a in r.get("training", {}))},
        "wall_seconds": sum(s for s in known if s is not None),
        **{name: _sum([r.get(name) for r in runs]) for name in (*CONSUMED, "billed_usd")},
    }  # fmt: skip


def _pairs(runs: Sequence[Summary]) -> list[tuple[str, str]]:
    """(arm, model) in order of appearance."""
    return list(
        dict.fromkeys((arm, model) for r in runs for arm, models in r["arms"].items() for model in models)
    )


def outcomes(runs: Sequence[Summary], arm: str, model: str) -> Cell:
    """(task, number of the run) -> trial seed -> 0 or 1.

    Raises
    ------
    LabError: a run whose summary keeps no outcomes.
    """
    found: Cell = {}
    for n, run in enumerate(runs):
        metrics = run["arms"].get(arm, {}).get(model)
        if metrics is None:
            continue
        if "outcomes" not in metrics:
            raise LabError(
                f"run {run['run_id']} keeps no outcomes by task; run it again to complete its summary"
            )
        found |= {(task, n): dict(by_seed) for task, by_seed in metrics["outcomes"].items()}
    return found


def _cell_metrics(runs: Sequence[Summary], arm: str, model: str, seed: int, n_boot: int) -> dict[str, Any]:
    import numpy as np

    cells = outcomes(runs, arm, model)
    own = [r["arms"][arm][model] for r in runs if model in r["arms"].get(arm, {})]
    sizes = [len(v) for v in cells.values()]
    enough = bool(sizes) and min(sizes) >= K
    clusters = _by_task(cells)
    won, tried = (np.array([f(v) for v in clusters.values()], dtype=float) for f in (sum, len))
    found: dict[str, Any] = {
        "accuracy": float(won.sum() / tried.sum()) if len(won) else None,
        f"pass@{K}": _mean([pass_at_k(len(v), sum(v.values()), K) for v in cells.values()]) if enough else None,
        f"pass^{K}": _mean([pass_hat_k(len(v), sum(v.values()), K) for v in cells.values()]) if enough else None,
        "accuracy_ci95": cluster_interval(won, tried, seed, n_boot) if len(won) else None,
        "n_tasks": len(won),
        "n_trials": int(tried.sum()),
        "n_seeds": len(own),
        "seed_accuracies": [m["accuracy"] for m in own],
        **{name: sum(m.get(name, 0) for m in own) for name in ("infra_errors", "user_faults")},
        **{name: _sum([m.get(name) for m in own]) for name in CONSUMED},
        **{name: _mean([m[name] for m in own if m.get(name) is not None]) for name in LATENCIES},
    }  # fmt: skip
    if arm != BASELINE and any(model in r["arms"].get(BASELINE, {}) for r in runs):
        between = difference(runs, BASELINE, arm, model, seed, n_boot)
        found |= {"difference_ci95": between["ci95"], "paired_trials": between["n_pairs"]} if between else {}
    return found


def _by_task(cells: Cell) -> dict[str, list[int]]:
    """Outcomes by task over all runs, tasks in a fixed order."""
    found: dict[str, list[int]] = {}
    for (task, _), by_seed in cells.items():
        found.setdefault(task, []).extend(by_seed.values())
    return dict(sorted(found.items()))


def _mean(values: Sequence[float]) -> float | None:
    return float(sum(values) / len(values)) if values else None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if len(known) == len(values) else None


def _training(blocks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Training of one arm: means over runs; the rounds themselves are those of the first run."""
    phases = dict.fromkeys(p for b in blocks for p in b.get("phase_seconds", {}))
    names = ("wall_seconds", "cost_usd", "billed_usd", "prompt_tokens", "completion_tokens")
    totals = {name: _sum([b.get(name) for b in blocks]) for name in names}
    rounds = [b["rounds"] for b in blocks]
    totals |= {
        "n_rounds": sum(map(len, rounds)),
        "n_accepted": sum(r["decision"] == "accepted" for one in rounds for r in one),
        "editor_calls": _sum([r.get("editor_calls") for one in rounds for r in one]),
    }
    return {
        **blocks[0],
        "phase_seconds": {
            p: sum(b["phase_seconds"].get(p, 0.0) for b in blocks) / len(blocks) for p in phases
        },
        **{name: None if total is None else total / len(blocks) for name, total in totals.items()},
        "n_runs": len(blocks),
    }


def difference(
    runs: Sequence[Summary], a: str, b: str, model: str, seed: int = 0, n_boot: int = 2000
) -> dict[str, Any]:
    """How much more often arm ``b`` succeeds than ``a`` on a model, paired by (run, task, trial seed).

    Returns
    -------
    ``difference``, ``ci95`` (bootstrap over tasks), ``gained`` and ``lost`` (number of tasks), ``sign_test_p``,
    ``n_pairs``, ``n_tasks``, ``dropped`` (trials without their pair); empty where no pair is scored on both sides.
    """
    import numpy as np

    left, right = outcomes(runs, a, model), outcomes(runs, b, model)
    steps: dict[str, list[int]] = {}
    lone = 0
    for key in left.keys() | right.keys():
        mine, other = left.get(key, {}), right.get(key, {})
        lone += len(mine.keys() ^ other.keys())
        steps.setdefault(key[0], []).extend(other[s] - mine[s] for s in sorted(mine.keys() & other.keys()))
    kept = {task: s for task, s in sorted(steps.items()) if s}
    if not kept:
        return {}
    sums, sizes = (np.array([f(s) for s in kept.values()], dtype=float) for f in (sum, len))
    gained, lost = int((sums > 0).sum()), int((sums < 0).sum())
    return {
        "difference": float(sums.sum() / sizes.sum()),
        "ci95": difference_interval(sums, sizes, seed, n_boot),
        "gained": gained,
        "lost": lost,
        "sign_test_p": sign_test_p(gained, lost),
        "n_pairs": int(sizes.sum()),
        "n_tasks": len(kept),
        "dropped": lone,
    }


def differences(summaries: Sequence[Summary], seed: int = 0, n_boot: int = 2000) -> pd.DataFrame:
    """Paired differences between all arms, one row per benchmark, training model, model and pair of arms.

    Returns
    -------
    DataFrame with columns benchmark, train_model, model, arm, against, difference, ci_low, ci_high, gained, lost,
    sign_test_p, n_tasks, n_pairs, dropped, simulated. No correction for many comparisons is made.
    """
    import pandas as pd

    groups: dict[tuple[str, str], list[Summary]] = {}
    for summary in summaries:
        groups.setdefault((summary["benchmark"], summary["train_model"]), []).append(summary)
    rows = []
    for (benchmark, trained), runs in groups.items():
        arms, models = (list(dict.fromkeys(p[i] for p in _pairs(runs))) for i in (0, 1))
        for model in models:
            for i, against in enumerate(arms):
                for arm in arms[i + 1 :]:
                    found = difference(runs, against, arm, model, seed, n_boot)
                    if found:
                        low, high = found.pop("ci95")
                        head = {"benchmark": benchmark, "train_model": trained, "model": model}
                        rows.append({**head, "arm": arm, "against": against, "ci_low": low, "ci_high": high,
                                     **found, "simulated": any(r["simulated"] for r in runs)})  # fmt: skip
    columns = "benchmark train_model model arm against difference ci_low ci_high gained lost sign_test_p"
    return pd.DataFrame(rows, columns=[*columns.split(), "n_tasks", "n_pairs", "dropped", "simulated"])
