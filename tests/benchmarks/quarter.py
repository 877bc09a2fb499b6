"""Does training on the informative quarter lose anything? SIMULATED models; the whole loop is real.

``python tests/benchmarks/quarter.py [--json] [--seeds 5] [--domains airline retail] [--data FOLDER]``

Per domain and seed: ``sim/small`` trains from the human harness (20 tasks, 3 trials, up to 3 rounds) on the quarter,
on all failures, and on a random quarter of the same size; the frozen harness is tested with ``sim/small`` on 20
other tasks, 3 trials. ``direct`` and ``human`` stand beside them for reference. All runs share one data folder, so
trials are shared and a broken-off benchmark continues. Intervals: 95%, t over the seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ecdysis_lab.evaluate.experiment import Experiment
from ecdysis_lab.train.settings import configure

DATA = Path(__file__).parents[2] / "data" / "runs" / "quarter"
DOMAINS = ("airline", "retail")
MODEL = "sim/small"
REFERENCE = ("direct", "human")
SUBSETS = {"quarter": "ecdysis-quarter", "all": "ecdysis", "random-quarter": "ecdysis-random-quarter"}
ROWS = (*REFERENCE, *SUBSETS)


@dataclass(frozen=True)
class Sizes:
    """Tasks of each split, trials per task, most rounds."""

    tasks: int = 20
    trials: int = 3
    rounds: int = 3


def one_run(domain: str, seed: int, subset: str, data: Path, sizes: Sizes) -> dict[str, float]:
    """Test accuracy by row: ``direct``, ``human`` and the subset trained on; and what training looked at."""
    config = configure(
        benchmark=f"tau2/{domain}",
        model=MODEL,
        test_models=MODEL,
        arms=(*REFERENCE, SUBSETS[subset]),
        seed=seed,
        train_tasks=sizes.tasks,
        test_tasks=sizes.tasks,
        trials=sizes.trials,
        rounds=sizes.rounds,
    )
    summary = Experiment(config, data, f"{domain}-{subset}-seed{seed}").go()
    accuracy = {arm: found[MODEL]["accuracy"] for arm, found in summary["arms"].items()}
    rounds = summary["training"][SUBSETS[subset]]["rounds"]
    return {
        **{arm: accuracy[arm] for arm in REFERENCE},
        subset: accuracy[SUBSETS[subset]],
        "looked_at": sum(r["subset"] for r in rounds),
        "failures": sum(r["failures"] for r in rounds),
        "accepted": sum(r["decision"] == "accepted" for r in rounds),
    }


def interval(values: Sequence[float]) -> list[float]:
    """95% t interval of a mean; the value itself where there is one seed only."""
    from scipy.stats import t

    mean, n = float(np.mean(values)), len(values)
    half = float(t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    return [round(mean - half, 3), round(mean + half, 3)]


def summary_of(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Rows of one domain: mean test accuracy over seeds with interval, and each seed's value."""
    table: dict[str, Any] = {}
    for row in ROWS:
        values = {
            r["seed"]: r[row] for r in runs if row in r
        }  # a reference is the same in each run of a seed
        table[row] = {
            "accuracy": round(float(np.mean(list(values.values()))), 3),
            "interval": interval(list(values.values())),
            "seeds": [round(v, 3) for _, v in sorted(values.items())],
        }
        mine = [r for r in runs if r["subset"] == row]
        if mine:
            kept = ("looked_at", "failures", "accepted")
            table[row] |= {k: round(float(np.mean([r[k] for r in mine])), 1) for k in kept}
    ours = np.array(table["quarter"]["seeds"])
    for other in list(SUBSETS)[1:]:
        gaps = ours - np.array(table[other]["seeds"])
        table[f"quarter minus {other}"] = {
            "accuracy": round(float(gaps.mean()), 3),
            "interval": interval(gaps.tolist()),
            "seeds": [round(g, 3) for g in gaps.tolist()],
        }
    return table


def measure(domains: Sequence[str], seeds: int, data: Path, sizes: Sizes) -> dict[str, Any]:
    """Domain -> row -> figures."""
    table = {}
    for domain in domains:
        runs = []
        for seed in range(seeds):
            for subset in SUBSETS:
                found = one_run(domain, seed, subset, data, sizes)
                print(f"{domain} seed {seed} {subset}: {found[subset]:.3f}", file=sys.stderr, flush=True)
                runs.append({"seed": seed, "subset": subset, **found})
        table[domain] = summary_of(runs)
    return table


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--domains", nargs="+", default=list(DOMAINS), choices=DOMAINS)
    parser.add_argument("--data", type=Path, default=DATA)
    asked = parser.parse_args()
    table = measure(asked.domains, asked.seeds, asked.data, Sizes())
    if asked.json:
        print(json.dumps(table))
        return
    print(f"SIMULATED, {MODEL}, test accuracy of the frozen harness, mean over {asked.seeds} seeds [95%]")
    for domain, rows in table.items():
        for name, row in rows.items():
            low, high = row["interval"]
            used = (
                f"  looked at {row['looked_at']} of {row['failures']} failures" if "failures" in row else ""
            )
            print(f"{domain:8s} {name:28s} {row['accuracy']:+.3f} [{low:+.3f}, {high:+.3f}]{used}")


if __name__ == "__main__":
    main()
