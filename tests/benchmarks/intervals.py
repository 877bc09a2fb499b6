"""What 20 tasks can and cannot show: coverage of the intervals, power, and how often a null edit passes the gate.

``python tests/benchmarks/intervals.py [--json] [--runs 2000]``

No model and no benchmark: task difficulties are drawn from beta distributions with a given mean (``rate``) and
within-task correlation of trials (``likeness``), since only there the truth is known. ``percentile`` is the plain
percentile bootstrap over tasks, for comparison.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from ecdysis_lab.evaluate.metrics import cluster_interval, difference_interval
from ecdysis_lab.evaluate.noise import from_counts

BOOT = 300
SETTINGS = [  # rate, likeness, tasks, trials
    (0.1, 0.4, 20, 3), (0.3, 0.2, 20, 3), (0.5, 0.4, 20, 3), (0.5, 0.8, 20, 3), (0.7, 0.7, 20, 3),
    (0.9, 0.4, 20, 3), (0.9, 0.8, 20, 3), (0.5, 0.4, 20, 1), (0.5, 0.4, 10, 3), (0.5, 0.4, 50, 3),
]  # fmt: skip
LIKENESS = 0.5


def difficulties(rng: np.random.Generator, rate: float, likeness: float, shape: Any) -> np.ndarray:
    scale = (1 - likeness) / likeness
    return rng.beta(rate * scale, (1 - rate) * scale, shape)


def percentile(sums: np.ndarray, sizes: np.ndarray, seed: int) -> tuple[float, float]:
    m = len(sums)
    weights = np.random.default_rng(seed).multinomial(m, np.full(m, 1 / m), size=BOOT)
    low, high = np.percentile((weights @ sums) / (weights @ sizes), [2.5, 97.5])
    return float(low), float(high)


def accuracy_coverage(runs: int) -> list[dict[str, Any]]:
    """Share of intervals that hold the true mean over tasks, and their mean half width."""
    rng, out = np.random.default_rng(1), []
    for rate, likeness, tasks, trials in SETTINGS:
        won = rng.binomial(trials, difficulties(rng, rate, likeness, (runs, tasks)))
        sizes = np.full(tasks, float(trials))
        ours = np.array([cluster_interval(row, sizes, i, BOOT) for i, row in enumerate(won)])
        plain = np.array([percentile(row, sizes, i) for i, row in enumerate(won)])
        held = [float(((e[:, 0] <= rate) & (rate <= e[:, 1])).mean()) for e in (ours, plain)]
        half = float((ours[:, 1] - ours[:, 0]).mean() / 2)
        out.append({"rate": rate, "likeness": likeness, "tasks": tasks, "trials": trials,
                    "ours": held[0], "percentile": held[1], "half_width": round(half, 3)})  # fmt: skip
    return out


def difference_coverage(runs: int) -> list[dict[str, Any]]:
    """The same for paired differences: an edit lifts some tasks to 0.95 and drops others to 0.05."""
    rng, out = np.random.default_rng(2), []
    for tasks, repaired, harmed in ((20, 0.0, 0.0), (20, 0.3, 0.0), (20, 0.3, 0.15), (50, 0.2, 0.05)):
        before, fate = rng.beta(2, 2, (runs, tasks)), rng.random((runs, tasks))
        after = np.where(fate < repaired, 0.95, np.where(fate > 1 - harmed, 0.05, before))
        truth = 0.45 * (repaired - harmed)
        steps = (rng.binomial(3, after) - rng.binomial(3, before)).astype(float)
        sizes = np.full(tasks, 3.0)
        ours = np.array([difference_interval(row, sizes, i, BOOT) for i, row in enumerate(steps)])
        plain = np.array([percentile(row, sizes, i) for i, row in enumerate(steps)])
        held = [float(((e[:, 0] <= truth) & (truth <= e[:, 1])).mean()) for e in (ours, plain)]
        out.append({"tasks": tasks, "repaired": repaired, "harmed": harmed, "ours": held[0], "percentile": held[1],
                    "half_width": round(float((ours[:, 1] - ours[:, 0]).mean() / 2), 3)})  # fmt: skip
    return out


def pooled_coverage(runs: int) -> dict[str, float]:
    """Three seeds on the same 20 tasks: clusters of tasks, as we take them, against clusters of (seed, task)."""
    rng, rate, hits = np.random.default_rng(3), 0.5, {"by_task": 0, "by_seed_and_task": 0}
    for i in range(runs):
        won = rng.binomial(3, difficulties(rng, rate, LIKENESS, 20), (3, 20))
        low, high = cluster_interval(won.sum(0), np.full(20, 9.0), i, BOOT)
        hits["by_task"] += low <= rate <= high
        low, high = cluster_interval(won.ravel(), np.full(60, 3.0), i, BOOT)
        hits["by_seed_and_task"] += low <= rate <= high
    return {name: n / runs for name, n in hits.items()}


def power(runs: int) -> list[dict[str, Any]]:
    """How often the paired interval excludes zero when a share of the tasks is really repaired (to 0.95)."""
    rng, out = np.random.default_rng(4), []
    for tasks in (20, 50, 100):
        for repaired in (0.05, 0.1, 0.15, 0.2, 0.3):
            before = difficulties(rng, 0.5, LIKENESS, (runs, tasks))
            after = np.where(rng.random((runs, tasks)) < repaired, np.maximum(before, 0.95), before)
            steps = (rng.binomial(3, after) - rng.binomial(3, before)).astype(float)
            sizes = np.full(tasks, 3.0)
            found = [difference_interval(row, sizes, i, BOOT)[0] > 0 for i, row in enumerate(steps)]
            gain = float((after - before).mean())
            out.append({"tasks": tasks, "repaired": repaired, "true_gain": round(gain, 3),
                        "found": round(float(np.mean(found)), 3)})  # fmt: skip
    return out


def null_edits(runs: int) -> list[dict[str, Any]]:
    """Strict improvement with an edit that does nothing, against what an A/A run of two evaluations predicts."""
    rng, out = np.random.default_rng(5), []
    for tasks in (20, 50):
        passed, again, beyond, told, floors = 0, 0, 0, [], []
        for _ in range(runs):
            rate = difficulties(rng, 0.5, LIKENESS, tasks)
            floor = from_counts(rng.binomial(6, rate), 3)
            gains = [rng.binomial(3, rate).sum() - rng.binomial(3, rate).sum() for _ in range(3)]
            passed += gains[0] > 0
            again += min(gains) > 0
            beyond += gains[0] >= floor.smallest_gain
            told.append(floor.null_accept_rate)
            floors.append(floor.smallest_gain)
        out.append({"tasks": tasks, "trials": 3, "accepted": float(passed / runs), "predicted": round(float(np.mean(told)), 3),
                    "accepted_with_two_fresh_confirmations": float(again / runs), "reached_smallest_gain": float(beyond / runs),
                    "smallest_gain_mean": round(float(np.mean(floors)), 2),
                    "smallest_gain_share": round(float(np.mean(floors)) / (3 * tasks), 3)})  # fmt: skip
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=2000)
    options = parser.parse_args()
    found = {"runs": options.runs}
    for measure in (accuracy_coverage, difference_coverage, pooled_coverage, power, null_edits):
        found[measure.__name__] = measure(options.runs)
    if options.json:
        print(json.dumps(found))
        return
    for name, rows in found.items():
        print(f"\n{name}", *(rows if isinstance(rows, list) else [rows]), sep="\n  ")


if __name__ == "__main__":
    main()
