"""Does the quarter cover the planted defects? SIMULATED models; real subset code.

``python tests/benchmarks/subset.py [--json] [--seeds 20] [--n 40] [--data FOLDER]``

Per draw of n failures: the share of planted causes that a quarter covers, of those that any quarter of its size
could (random blunders are no defect). ``ours`` against the mean and 95th percentile of 200 random quarters, the
``longest`` traces, and the failures most ``similar`` to all others. Aim: ours at least 0.9, above the 95th
percentile of random. Intervals: 95%, bootstrap over the draws.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import testbed

from ecdysis_lab.failures.distance import distances
from ecdysis_lab.failures.embedding import embedder
from ecdysis_lab.failures.patterns import find_patterns
from ecdysis_lab.failures.subset import pick_quarter, random_quarter
from ecdysis_lab.failures.texts import vectors_of
from ecdysis_lab.records import Embedder, Failure
from ecdysis_lab.store import Store

RANDOM = 200


def covered(failures: Sequence[Failure], chosen: Iterable[str]) -> float:
    """Share of the planted causes that the chosen failures show, of those that as many could show."""
    chosen = list(chosen)
    causes = {f.key: testbed.cause(f) for f in failures if testbed.cause(f) != "blunder"}
    return len({causes[k] for k in chosen if k in causes}) / min(len(set(causes.values())), len(chosen))


def one_draw(failures: Sequence[Failure], embed: Embedder, seed: int) -> dict[str, float]:
    """Shares per method for one draw."""
    ours = pick_quarter(failures, find_patterns(failures, embed, stability=False), seed=seed, band=0)
    size = ours.budget
    random = [covered(failures, random_quarter(failures, size, s).keys) for s in range(RANDOM)]
    lengths = sorted(failures, key=lambda f: (-len(f.trajectory.messages), f.key))
    matrix = distances(failures, vectors_of(failures, embed)[0])
    central = [failures[i].key for i in np.argsort(matrix.mean(axis=1), kind="stable")[:size].tolist()]
    return {
        "ours": covered(failures, ours.keys),
        "random_mean": float(np.mean(random)),
        "random_p95": float(np.percentile(random, 95)),
        "longest": covered(failures, [f.key for f in lengths[:size]]),
        "similar": covered(failures, central),
    }


def interval(values: Sequence[float]) -> list[float]:
    """95% bootstrap interval of a mean."""
    rng = np.random.default_rng(0)
    means = rng.choice(np.array(values), (2000, len(values))).mean(axis=1)
    return [round(float(x), 3) for x in np.percentile(means, [2.5, 97.5])]


def measure(n: int, seeds: int, data: Path) -> dict[str, object]:
    """Means over the draws, intervals, and the share of draws in which ours beats the 95th percentile of random."""
    store = Store(data)
    embed = embedder("auto", store)
    rows = [one_draw(f, embed, s) for s, f in enumerate(testbed.draws(testbed.pools(store), n, seeds))]
    means: dict[str, object] = {k: round(float(np.mean([r[k] for r in rows])), 3) for k in rows[0]}
    means["intervals"] = {k: interval([r[k] for r in rows]) for k in rows[0]}
    means["at_or_above_p95"] = round(float(np.mean([r["ours"] >= r["random_p95"] for r in rows])), 3)
    return {**means, "n": n, "draws": len(rows)}


def main() -> None:
    """Print the figures, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--data", type=Path, default=testbed.DATA)
    asked = parser.parse_args()
    found = measure(asked.n, asked.seeds, asked.data)
    if asked.json:
        print(json.dumps(found))
        return
    print(f"SIMULATED, quarter of {asked.n}, mean over {asked.seeds} draws")
    for name, value in found.items():
        print(f"{name:16s} {value}")


if __name__ == "__main__":
    main()
