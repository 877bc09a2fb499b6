"""Rollout: what is run, what is reused, and what never counts as finished."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.harness import load_harness, rollout
from ecdysis_lab.harness.rollout import INFRA_RETRIES, Setup
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.models import Budget, ModelParams, PermanentError
from ecdysis_lab.records import Task, Trajectory
from ecdysis_lab.store import Store

EMPTY = load_harness("empty")
SETUP = Setup("tau2/retail", "sim/small")


def retail(n: int = 3) -> list[Task]:
    return load_benchmark("tau2/retail").tasks("train", n, 5)


def without_times(trajectory: Trajectory) -> Trajectory:
    usage = {role: replace(u, seconds=0.0) for role, u in trajectory.usage.items()}
    return replace(trajectory, seconds=0.0, usage=usage)


Fake = Callable[..., list[tuple[str, int]]]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """``fake(outcome)`` replaces the trial itself; returns the list of (task, seed) that were run.

    ``outcome(task, seed, attempt)`` is a score, ``"infra_error"``, ``"user_fault"`` or an exception.
    """

    def install(outcome: Callable[[str, int, int], Any] = lambda *_: 1.0) -> list[tuple[str, int]]:
        ran: list[tuple[str, int]] = []

        def run_trial(setup: Setup, task: Task, path: Path, seed: int, budget: Any = None) -> Trajectory:
            ran.append((task.id, seed))
            what = outcome(task.id, seed, ran.count((task.id, seed)))
            if isinstance(what, Exception):
                raise what
            trial = setup.trial(task, load_harness(path).hash, seed)
            scored = not isinstance(what, str)
            return Trajectory(
                trial, "scored" if scored else what, what if scored else None, "user_stop", {}, ()
            )

        monkeypatch.setattr(rollout, "run_trial", run_trial)
        return ran

    return install


def keys(trajectories: list[Trajectory]) -> list[tuple[str, int]]:
    return [(t.trial.task_id, t.trial.seed) for t in trajectories]


def test_everything_asked_for_comes_back_by_seed_then_task(fake: Fake, tmp_path: Path) -> None:
    ran, tasks = fake(lambda task, seed, _: float(seed)), retail()
    left = rollout.rollout(SETUP, tasks, EMPTY, [1, 0], Store(tmp_path))
    assert keys(left) == [(t.id, s) for s in (1, 0) for t in tasks] == ran
    assert [t.score for t in left] == [1.0] * 3 + [0.0] * 3
    assert {t.trial.harness for t in left} == {EMPTY.hash}


def test_no_finished_trial_is_run_again(fake: Fake, tmp_path: Path) -> None:
    """Same store, another process's store, more seeds, fewer tasks: only what is missing is run."""
    ran, tasks, new = fake(), retail(), Counter[str]()

    def count(trajectory: Trajectory) -> None:
        new[trajectory.key] += 1

    def ask(seeds: list[int], of: list[Task] = tasks, setup: Setup = SETUP, store: Path = tmp_path) -> int:
        before = len(ran)
        rollout.rollout(setup, of, EMPTY, seeds, Store(store), on_new=count)
        return len(ran) - before

    assert [ask([0]), ask([0]), ask([0, 1]), ask([1], tasks[:1])] == [3, 0, 3, 0]
    assert ask([0], setup=replace(SETUP, model="sim/large")) == 3
    assert ask([0], setup=replace(SETUP, params=ModelParams(temperature=0.5))) == 3
    assert ask([0], setup=replace(SETUP, max_steps=20)) == 3
    assert len(new) == len(ran) == 15 and set(new.values()) == {1}


def test_a_run_that_was_cut_short_is_continued(fake: Fake, tmp_path: Path) -> None:
    """What was finished before the crash is kept; only the rest is run."""
    tasks = retail()
    ran = fake(lambda task, seed, _: RuntimeError("kill") if task == tasks[2].id else 1.0)
    with pytest.raises(RuntimeError, match="kill"):
        rollout.rollout(SETUP, tasks, EMPTY, [0], Store(tmp_path))
    assert len(ran) == 3 and len(Store(tmp_path).keys()) == 2
    again = fake()
    left = rollout.rollout(SETUP, tasks, EMPTY, [0], Store(tmp_path))
    assert again == [(tasks[2].id, 0)] and [t.score for t in left] == [1.0] * 3


def test_infrastructure_errors_are_tried_again_and_never_stored_as_finished(
    fake: Fake, tmp_path: Path
) -> None:
    tasks, new = retail(), []
    once, forever, fine = (t.id for t in tasks)

    def outcome(task: str, seed: int, attempt: int) -> Any:
        return "infra_error" if task == forever or (task == once and attempt == 1) else 1.0

    ran, store = fake(outcome), Store(tmp_path)
    left = rollout.rollout(SETUP, tasks, EMPTY, [0], store, on_new=new.append)
    assert Counter(task for task, _ in ran) == {once: 2, forever: 1 + INFRA_RETRIES, fine: 1}
    assert [(t.status, t.score) for t in left] == [("scored", 1.0), ("infra_error", None), ("scored", 1.0)]
    assert {t.trial.task_id for t in store.trajectories()} == {once, fine}
    assert Counter(t.trial.task_id for t in store.infra_errors()) == {once: 1, forever: 3}
    assert Counter((t.trial.task_id, t.status) for t in new)[forever, "infra_error"] == 3
    assert len(new) == len(ran) == 6
    ran.clear()
    rollout.rollout(SETUP, tasks, EMPTY, [0], store)
    assert set(ran) == {(forever, 0)}  # it is the only one that the next run has to try


def test_a_user_fault_is_finished_and_unscored(fake: Fake, tmp_path: Path) -> None:
    ran, store = fake(lambda *_: "user_fault"), Store(tmp_path)
    for _ in range(2):
        left = rollout.rollout(SETUP, retail(1), EMPTY, [0], store)
        assert [(t.status, t.score, t.success) for t in left] == [("user_fault", None, False)]
    assert len(ran) == 1


def test_progress_counts_reused_and_finished_trials(fake: Fake, tmp_path: Path) -> None:
    tasks, seen = retail(), []
    fake(lambda task, *_: "infra_error" if task == tasks[0].id else 1.0)

    def progress(what: str, done: int, total: int) -> None:
        seen.append((what, done, total))

    rollout.rollout(SETUP, tasks, EMPTY, [0], Store(tmp_path), progress=progress, what="round 1")
    assert seen == [("round 1", n, 3) for n in (0, 1, 2)]
    seen.clear()
    rollout.rollout(SETUP, tasks, EMPTY, [0, 1], Store(tmp_path), progress=progress, what="round 1")
    assert seen[0] == ("round 1", 2, 6) and seen[-1] == ("round 1", 4, 6)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_stops_a_run_keeps_what_is_finished(fake: Fake, tmp_path: Path, workers: int) -> None:
    tasks = retail()
    fake(lambda task, *_: PermanentError("set OPENAI_API_KEY") if task == tasks[2].id else 1.0)
    budget = Budget()
    with pytest.raises(PermanentError, match="set OPENAI_API_KEY"):
        rollout.rollout(SETUP, tasks, EMPTY, [0], Store(tmp_path), workers=workers, budget=budget)
    assert {t.trial.task_id for t in Store(tmp_path).trajectories()} <= {t.id for t in tasks[:2]}
    assert workers == 2 or len(Store(tmp_path).keys()) == 2


def test_the_identity_of_a_trial_holds_all_that_decides_it() -> None:
    task, other = retail(2)
    base = SETUP.trial(task, EMPTY.hash, 0)
    local = replace(SETUP, params=ModelParams(api_base="http://127.0.0.1:1/v1"))
    others = [
        SETUP.trial(other, EMPTY.hash, 0),
        SETUP.trial(task, "0" * 64, 0),
        SETUP.trial(task, EMPTY.hash, 1),
        replace(SETUP, model="sim/large").trial(task, EMPTY.hash, 0),
        replace(SETUP, user_model="openai/x").trial(task, EMPTY.hash, 0),
        replace(SETUP, params=ModelParams(temperature=0.7)).trial(task, EMPTY.hash, 0),
        replace(SETUP, user_params=ModelParams(temperature=0.7)).trial(task, EMPTY.hash, 0),
        replace(SETUP, max_errors=3).trial(task, EMPTY.hash, 0),
        local.trial(task, EMPTY.hash, 0),
    ]
    assert len({base.key, *(t.key for t in others)}) == 10
    assert SETUP.trial(task, EMPTY.hash, 0) == base
    assert "127.0.0.1" in local.trial(task, EMPTY.hash, 0).model_params
    assert SETUP.simulated and not replace(SETUP, model="openai/x", user_model="openai/y").simulated


# -- the real thing ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A harness that starts a worker process and leaves interventions."""
    folder = tmp_path_factory.mktemp("loud")
    (folder / "regulation.py").write_text(
        "def observe(call, result, view):\n    return str(len(view.done))\n"
    )
    yield load_harness(folder)


def test_one_and_two_workers_leave_the_same_trajectories(tmp_path: Path, loud: Harness) -> None:
    """All but the seconds: processes for simulated models, threads where a budget is shared."""
    tasks, seeds = retail(4), [0, 1]
    one = rollout.rollout(SETUP, tasks, loud, seeds, Store(tmp_path / "one"))
    two = rollout.rollout(SETUP, tasks, loud, seeds, Store(tmp_path / "two"), workers=2)
    threads = rollout.rollout(
        SETUP, tasks, loud, seeds, Store(tmp_path / "threads"), workers=2, budget=Budget()
    )
    plain = [without_times(t) for t in one]
    assert plain == [without_times(t) for t in two] == [without_times(t) for t in threads]
    assert len(plain) == 8 and {t.score for t in plain} == {0.0, 1.0}
    assert any(t.interventions for t in plain) and all(t.usage["agent"].calls > 1 for t in plain)
    truths = [
        [Store(tmp_path / d).get(t.key, with_truth=True).truth for t in one]
        for d in ("one", "two", "threads")
    ]
    assert truths[0] == truths[1] == truths[2] and any(t["fatal"] for t in truths[0])


def test_processes_of_a_rollout_never_see_an_interrupt(tmp_path: Path) -> None:
    """Jupyter interrupts a whole group; a worker that is just importing would print a traceback of its own."""
    held: list[bool] = []

    def children() -> set[str]:
        files = Path(f"/proc/{os.getpid()}/task").glob("*/children")
        return {pid for file in files for pid in file.read_text().split()}

    def look(_: Trajectory) -> None:
        for pid in children() - before:
            if b"popen_loky" in Path(f"/proc/{pid}/cmdline").read_bytes():
                status = Path(f"/proc/{pid}/status").read_text()
                blocked = int(next(w for w in status.splitlines() if w.startswith("SigBlk"))[7:], 16)
                held.append(bool(blocked >> (signal.SIGINT - 1) & 1))

    before = children()  # other tests start processes in their own way
    rollout.rollout(SETUP, retail(3), EMPTY, [0, 1], Store(tmp_path), workers=3, on_new=look)
    assert len(held) >= 2 and all(held)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_what_a_trial_used_is_counted_by_role(tmp_path: Path) -> None:
    (left,) = rollout.rollout(SETUP, retail(1), EMPTY, [0], Store(tmp_path))
    turns = Counter(m.role for m in left.messages)
    assert left.usage["user"].calls == turns["user"]
    assert left.usage["agent"].calls == turns["assistant"] - 1  # the greeting is the benchmark's
    assert left.cost_usd == 0.0 and left.usage["agent"].prompt_tokens > 1000 and left.seconds > 0
    assert left.error == "" and left.truth == {}  # truth is kept apart


@pytest.mark.slow
def test_seconds_outside_the_models_are_at_most_a_third_of_the_packages_own() -> None:
    script = Path(__file__).parents[1] / "benchmarks" / "overhead.py"
    left = subprocess.run(
        [sys.executable, str(script), "--tasks", "2", "--json"], capture_output=True, text=True, timeout=600
    )
    assert left.returncode == 0, left.stderr
    said = json.loads(left.stdout)
    assert said["ratio"] == said["ours_seconds_per_trial"] / said["tau2_seconds_per_trial"] <= 1 / 3
    assert said["trials"] == 4
