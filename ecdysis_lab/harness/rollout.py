"""Tasks × seeds through one model in one harness: parallel, resumable, shared by everything that asks for the same."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.benchmarks.users import UserSpec
from ecdysis_lab.harness import Harness, load_harness
from ecdysis_lab.harness.agent import HarnessedAgent
from ecdysis_lab.models import Budget, ModelParams
from ecdysis_lab.records import LabError, Progress, Task, Trajectory, Trial
from ecdysis_lab.store import Store

INFRA_RETRIES = 2


@dataclass(frozen=True)
class Setup:
    """All that decides a trial besides task, harness and seed.

    Parameters
    ----------
    benchmark : registry name.
    model, user_model : LiteLLM names; the second counts where a model plays the user.
    params, user_params : sampling parameters and ``api_base``.
    max_steps, max_errors : the benchmark's limits.
    """

    benchmark: str
    model: str
    user_model: str = "sim/user"
    params: ModelParams = field(default_factory=ModelParams)
    user_params: ModelParams = field(default_factory=ModelParams)
    max_steps: int = 100
    max_errors: int = 10

    @property
    def limits(self) -> dict[str, int]:
        """Limits as the benchmark takes them; its own ``max_steps`` holds where it is lower."""
        own = getattr(load_benchmark(self.benchmark), "max_steps", self.max_steps)
        return {"max_steps": min(self.max_steps, own), "max_errors": self.max_errors}

    @property
    def simulated(self) -> bool:
        """Whether any side is a simulated model."""
        user = self.user_model if load_benchmark(self.benchmark).user == "model" else ""
        return any(model.startswith("sim/") for model in (self.model, user))

    def trial(self, task: Task, harness: str, seed: int) -> Trial:
        """Identity of one trial; ``harness`` is its hash."""
        sides = {"agent": self.params, "user": self.user_params}
        params = json.dumps({side: json.loads(p.to_json()) for side, p in sides.items()})
        bench = load_benchmark(self.benchmark)
        return Trial(
            benchmark=self.benchmark,
            version=bench.version,
            task_id=task.id,
            split=task.split,
            model=self.model,
            user_model=self.user_model if bench.user == "model" else "",
            harness=harness,
            seed=seed,
            model_params=params,
            limits=json.dumps(self.limits, sort_keys=True),
        )


def run_trial(setup: Setup, task: Task, harness: Path, seed: int, budget: Budget | None = None) -> Trajectory:
    """Run one trial.

    Raises
    ------
    LabError: a simulated model cannot play the benchmark, which has no oracle.
    ecdysis_lab.models.calls.PermanentError, BudgetExceeded: the run must stop.
    """
    bench, loaded = load_benchmark(setup.benchmark), load_harness(harness)
    if setup.model.startswith("sim/") and bench.oracle(task.id) is None:
        raise LabError(f"model: {setup.model} cannot play {setup.benchmark}, which has no oracle")
    metadata = {"benchmark": setup.benchmark, "task_id": task.id}
    agent = HarnessedAgent(
        setup.model,
        loaded,
        bench,
        max_steps=setup.limits["max_steps"],
        params=setup.params,
        budget=budget,
        seed=seed,
        metadata=metadata,
    )
    user = UserSpec(setup.user_model, setup.user_params, budget, metadata)
    try:
        left = bench.run(task, setup.trial(task, loaded.hash, seed), agent, user, setup.limits)
    finally:
        agent.close()
    return replace(
        left,
        context=tuple(agent.context),
        shown=agent.shown,
        harness_tokens=agent.harness_tokens,
        interventions=tuple(agent.interventions),
        usage={**left.usage, "agent": agent.usage},
        error=left.error or agent.ended,
        truth=_truth(setup, metadata, seed, agent) if left.status == "scored" else {},
    )


def _truth(setup: Setup, metadata: dict[str, Any], seed: int, agent: HarnessedAgent) -> dict[str, Any]:
    if not setup.model.startswith("sim/"):
        return {}
    from ecdysis_lab.models import sim

    return sim.truth(setup.model, metadata, seed, *agent.prompt())


def rollout(
    setup: Setup,
    tasks: Sequence[Task],
    harness: Harness,
    seeds: Sequence[int],
    store: Store,
    *,
    workers: int = 1,
    budget: Budget | None = None,
    progress: Progress | None = None,
    what: str = "trials",
    on_new: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """Run what the store does not have yet; return everything asked for, ordered by seed, then task.

    Trials that ended in an infrastructure error are tried again up to twice and come back unscored if it stays.
    Processes for simulated models, threads where a model is waited for or a budget is shared; a backend chosen
    with ``joblib.parallel_config`` wins.

    Parameters
    ----------
    setup, tasks, harness, seeds : what to run. store : where trials are kept.
    workers : how many at a time. budget : shared budget. progress : called with (what, done, total).
    on_new : called with each trajectory that had to be run, before it is stored.
    """
    jobs = {setup.trial(t, harness.hash, s).key: (t, s) for s in seeds for t in tasks}
    have = store.have(jobs)
    done, failed = len(have), {}
    if progress:
        progress(what, done, len(jobs))
    for _ in range(1 + INFRA_RETRIES):
        todo = [jobs[k] for k in jobs if k not in have]
        for trajectory in _parallel(setup, todo, harness.path, workers, budget):
            if on_new:
                on_new(trajectory)
            store.put(trajectory)
            if trajectory.status == "infra_error":
                failed[trajectory.key] = trajectory
                continue
            have.add(trajectory.key)
            done += 1
            if progress:
                progress(what, done, len(jobs))
    kept = {t.key: t for t in store.trajectories(keys=list(have))}
    return [kept.get(key) or failed[key] for key in jobs]


def _parallel(
    setup: Setup, jobs: Sequence[tuple[Task, int]], harness: Path, workers: int, budget: Budget | None
) -> Iterable[Trajectory]:
    if not jobs:
        return ()
    if workers <= 1:
        return (run_trial(setup, task, harness, seed, budget) for task, seed in jobs)
    from joblib import Parallel, delayed

    waits = budget is not None or not (setup.model.startswith("sim/") and setup.user_model.startswith("sim/"))
    pool = Parallel(
        n_jobs=workers, prefer="threads" if waits else "processes", return_as="generator_unordered"
    )
    with _sigint_held():
        made: Iterable[Trajectory] = pool(
            delayed(run_trial)(setup, task, harness, seed, budget) for task, seed in jobs
        )
    return made


@contextmanager
def _sigint_held() -> Iterator[None]:
    """Processes that start in here never see an interrupt.

    A terminal and Jupyter send it to the whole group; joblib ends the workers of a parent that was interrupted, and a
    worker that is still importing would print a traceback of its own.
    """
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # its start lets the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
