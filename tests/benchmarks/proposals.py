"""What the simulated reviewer proposes on training failures of the testbed, for the comparisons beside this file.

SIMULATED models and reviewer; the failures, patterns, quarter, context, spec and editor are the lab's own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import testbed

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.failures.cards import find_failures
from ecdysis_lab.failures.embedding import embedder
from ecdysis_lab.failures.patterns import find_patterns
from ecdysis_lab.failures.subset import pick_quarter
from ecdysis_lab.harness import SHIPPED, load_harness
from ecdysis_lab.harness.rollout import Setup, rollout
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Change, Failure, Patterns, Spec, Trajectory
from ecdysis_lab.review.context import build_context
from ecdysis_lab.review.debate import Reviewer
from ecdysis_lab.store import Store

N_TASKS = 20


@dataclass(frozen=True)
class Proposal:
    """A review's spec with what it rests on: ``before`` are the training trials in the ``empty`` harness."""

    domain: str
    model: str
    seed: int
    n: int
    before: tuple[Trajectory, ...]
    failures: tuple[Failure, ...]
    patterns: Patterns
    spec: Spec


def trials_of(store: Store, domain: str, model: str, split: str, seed: int) -> list[Trajectory]:
    """Twenty tasks of a split, drawn by seed, two trials each; run where the store does not have them."""
    tasks = load_benchmark(f"tau2/{domain}").tasks(split, N_TASKS, seed)
    setup = Setup(f"tau2/{domain}", model)
    return rollout(setup, tasks, empty(), testbed.SEEDS, store, workers=2)


def failures_of(domain: str, trials: Sequence[Trajectory]) -> list[Failure]:
    """Failures with their cards."""
    return find_failures(trials, benchmark=load_benchmark(f"tau2/{domain}"))


@cache
def empty() -> Harness:
    """The harness that training starts from here."""
    return load_harness("empty")


def proposals(store: Store, domain: str, model: str, seed: int, rounds: int) -> list[Proposal]:
    """Specs of some rounds on the same failures; what an earlier one proposed counts as rejected."""
    before = trials_of(store, domain, model, "train", seed)
    failures = failures_of(domain, before)
    patterns = find_patterns(failures, embedder("auto", store), seed=seed, stability=False)
    told: list[str] = []
    made = []
    for n in range(1, rounds + 1):
        review = Reviewer("sim/reviewer").review(
            _context(domain, seed * 100 + n, before, failures, patterns, told)
        )
        if review.spec is None:
            break
        told += [json.dumps(c.guard, sort_keys=True) for c in review.spec.changes]
        made.append(Proposal(domain, model, seed, n, tuple(before), tuple(failures), patterns, review.spec))
    return made


def _context(
    domain: str, seed: int, before: Sequence[Trajectory], failures: Sequence[Failure], patterns: Patterns,
    told: Sequence[str],
) -> Any:  # fmt: skip
    bench = load_benchmark(f"tau2/{domain}")
    return build_context(
        failures,
        patterns,
        pick_quarter(failures, patterns, seed=seed, band=0),
        [t for t in before if t.success],
        empty(),
        bench,
        contract=(SHIPPED / "README.md").read_text(encoding="utf-8"),
        policy=bench.policy,
        tools=bench.tools,
        rejected=told,
    )


def guard_name(change: Change) -> str:
    """A change in one word, for tables."""
    guard = change.guard or {}
    return " ".join(str(guard[k]) for k in ("kind", "tool", "argument") if guard.get(k))


DATA = Path(testbed.DATA)
