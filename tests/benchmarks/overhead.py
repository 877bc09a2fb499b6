"""Seconds outside the models per trial: our rollout against the package's own ``run_tasks``, same models, same trials.

``python tests/benchmarks/overhead.py [--tasks N] [--trials N] [--json]``; target: at most one third.

Both sides run ``sim/small`` and ``sim/user`` on the same tasks and seeds, one trial at a time, after one trial each
to warm up. Time inside ``litellm.completion`` is taken off on both sides; what is left is building databases,
prompts and records, executing tools, and evaluating. Rewards have to be equal, else the comparison is void.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.harness import SHIPPED
from ecdysis_lab.harness.rollout import Setup, run_trial
from ecdysis_lab.models import check_model
from ecdysis_lab.records import Task

TARGET_RATIO = 1 / 3
MODEL, USER = "sim/small", "sim/user"
DOMAINS = ("airline", "retail")


@dataclass
class Clock:
    """Wall-clock seconds of a block, without those inside model calls."""

    seconds: float = 0.0
    trials: int = 0
    rewards: list[float] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Add what the block takes."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - began

    def without(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        """A model call whose time is taken off again."""

        def timed(*args: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return ask(*args, **options)
            finally:
                self.seconds -= time.perf_counter() - began

        return timed


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute of a module, for the length of a block."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def run_theirs(domain: str, tasks: list[Task], n_trials: int, clock: Clock) -> list[int]:
    """The package's ``run_tasks``, unchanged but for the clock; returns the seeds it drew.

    Its model calls carry no task, which ``sim`` models need, so the task is added on the way to LiteLLM.
    """
    import litellm
    from tau2 import run
    from tau2.utils import llm_utils
    from tau2.utils.display import ConsoleDisplay

    items = {t.id: t for t in run.get_tasks(domain)}
    now: dict[str, str] = {}
    ask = clock.without(litellm.completion)

    def with_task(**options: Any) -> Any:
        return ask(**options, metadata={"benchmark": f"tau2/{domain}", **now})

    def run_task(**options: Any) -> Any:
        now["task_id"] = options["task"].id
        return run_task_before(**options)

    run_task_before = run.run_task
    ConsoleDisplay.console.quiet = True
    with replaced(llm_utils, "completion", with_task), replaced(run, "run_task", run_task), clock.running():
        results = run.run_tasks(
            domain,
            [items[t.id] for t in tasks],
            "llm_agent",
            "user_simulator",
            llm_agent=MODEL,
            llm_args_agent={"temperature": 0.0},
            llm_user=USER,
            llm_args_user={"temperature": 0.0},
            num_trials=n_trials,
            save_to=None,
            console_display=False,
            log_level="CRITICAL",
        )
    clock.trials += len(results.simulations)
    clock.rewards += [s.reward_info.reward for s in results.simulations]
    return list(dict.fromkeys(s.seed for s in results.simulations))


def run_ours(domain: str, tasks: list[Task], seeds: list[int], clock: Clock) -> None:
    """``run_trial`` on the same tasks and seeds, in the same order."""
    import litellm

    setup = Setup(f"tau2/{domain}", MODEL, USER)
    with replaced(litellm, "completion", clock.without(litellm.completion)), clock.running():
        left = [run_trial(setup, t, SHIPPED / "empty", s) for s in seeds for t in tasks]
    clock.trials += len(left)
    clock.rewards += [-1.0 if t.score is None else t.score for t in left]


def measure(n_tasks: int, n_trials: int, domains: tuple[str, ...] = DOMAINS) -> list[dict[str, Any]]:
    """One row a domain and one over all: seconds outside the models per trial, theirs, ours and the ratio."""
    check_model(MODEL)  # registers the provider
    rows, sums = [], (Clock(), Clock())
    for domain in domains:
        tasks = load_benchmark(f"tau2/{domain}").tasks("all", n_tasks, 0)
        warm_up = Clock()
        run_ours(domain, tasks[:1], run_theirs(domain, tasks[:1], 1, warm_up), warm_up)
        theirs, ours = Clock(), Clock()
        run_ours(domain, tasks, run_theirs(domain, tasks, n_trials, theirs), ours)
        if theirs.rewards != ours.rewards:
            raise SystemExit(f"{domain}: the rewards differ, so these are not the same trials")
        rows.append(row(domain, ours, theirs))
        for total, part in zip(sums, (ours, theirs)):
            total.seconds += part.seconds
            total.trials += part.trials
    return [*rows, row("all", *sums)]


def row(domain: str, ours: Clock, theirs: Clock) -> dict[str, Any]:
    """Figures per trial."""
    mine, its = ours.seconds / ours.trials, theirs.seconds / theirs.trials
    return {
        "domain": domain,
        "trials": ours.trials,
        "ours_seconds_per_trial": mine,
        "tau2_seconds_per_trial": its,
        "ratio": mine / its,
    }


def main() -> int:
    """Print the table; the exit code says whether the target is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=10, help="tasks per domain")
    parser.add_argument("--trials", type=int, default=1, help="trials per task")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    rows = measure(given.tasks, given.trials)
    total = rows[-1]
    if given.json:
        print(json.dumps({**{k: v for k, v in total.items() if k != "domain"}, "domains": rows[:-1]}))
        return int(total["ratio"] > TARGET_RATIO)
    print(f"Seconds outside the models per trial (SIMULATED models, {total['trials']} trials a side)")
    print(f"{'domain':<10}{'tau2 run_tasks':>16}{'ours':>10}{'ratio':>9}")
    for r in rows:
        mine, its = r["ours_seconds_per_trial"], r["tau2_seconds_per_trial"]
        print(f"{r['domain']:<10}{its:>16.3f}{mine:>10.3f}{r['ratio']:>9.3f}")
    print(
        f"target: ratio at most {TARGET_RATIO:.3f}: {'met' if total['ratio'] <= TARGET_RATIO else 'MISSED'}"
    )
    return int(total["ratio"] > TARGET_RATIO)


if __name__ == "__main__":
    sys.exit(main())
