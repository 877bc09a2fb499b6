"""Failures of simulated models with their planted causes, for the measured comparisons beside this file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.failures.cards import find_failures
from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.rollout import Setup, rollout
from ecdysis_lab.records import Failure
from ecdysis_lab.store import Store

DATA = Path(__file__).parents[2] / "data" / "runs" / "testbed"
DOMAINS = ("airline", "retail")
MODELS = ("small", "medium", "quirky", "large")
SEEDS = (0, 1)
RARE = 3  # a cause seen less often in a draw is no pattern there


def pools(store: Store, workers: int = 2) -> list[list[Failure]]:
    """All failures per domain: every task, four models, two seeds; run once, then read from the store."""
    found = []
    for domain in DOMAINS:
        bench = load_benchmark(f"tau2/{domain}")
        tasks = [*bench.tasks("train"), *bench.tasks("test")]
        failures = []
        for model in MODELS:
            setup = Setup(f"tau2/{domain}", f"sim/{model}")
            trials = rollout(setup, tasks, load_harness("empty"), SEEDS, store, workers=workers)
            failures += find_failures(trials)
        found.append(
            [replace(f, trajectory=store.get(f.key, with_truth=True) or f.trajectory) for f in failures]
        )
    return found


def cause(failure: Failure) -> str:
    """The planted cause that made a trial fail."""
    return str(failure.trajectory.truth["fatal"])


def planted(failures: Sequence[Failure]) -> list[str]:
    """Planted causes with noise as a class: random blunders, and causes seen fewer than three times."""
    names = [cause(f) for f in failures]
    counts = Counter(names)
    return [c if c != "blunder" and counts[c] >= RARE else "noise" for c in names]


def draws(pools: Sequence[Sequence[Failure]], n: int, seeds: int) -> Iterator[list[Failure]]:
    """One draw of n failures per seed, the domains in turn (retail where airline has fewer than n)."""
    for seed in range(seeds):
        pool = pools[seed % len(pools)]
        if len(pool) < n:
            pool = max(pools, key=len)
        chosen = np.random.default_rng(seed).choice(len(pool), n, replace=False)
        yield sorted((pool[i] for i in chosen.tolist()), key=lambda f: f.key)
