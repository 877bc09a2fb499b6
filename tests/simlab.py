"""Real τ² environments and simulated trials for the tests of the loop, run once a session."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.harness import Harness, load_harness
from ecdysis_lab.harness.host import Host
from ecdysis_lab.harness.rollout import Setup, run_trial
from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Change, Spec, Trajectory


@cache
def bench(domain: str = "airline") -> Any:
    return load_benchmark(f"tau2/{domain}")


@cache
def trials(domain: str, model: str, folder: str, n: int = 10, seed: int = 0) -> tuple[Trajectory, ...]:
    """``n`` training tasks through one simulated model in one harness."""
    setup = Setup(f"tau2/{domain}", model)
    tasks = bench(domain).tasks("train", n, 0)
    return tuple(run_trial(setup, task, load_harness(folder).path, seed) for task in tasks)


def passing(domain: str = "airline", n: int = 10) -> list[Trajectory]:
    """Passing trials of a flawless model without a harness."""
    made = [t for t in trials(domain, "sim/flawless", "empty", n) if t.success]
    assert len(made) >= n * 0.8
    return made


def folder(path: Path, **files: str) -> Harness:
    """A harness out of sources by layer name."""
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / f"{name}.py").write_text(text, encoding="utf-8")
    return load_harness(path)


def spec_of(*guards: dict[str, Any] | None) -> Spec:
    """A spec with one change a guard."""
    made = [
        Change("actions", "actions.py", f"change {n}", "", ("a#1",), guard=g) for n, g in enumerate(guards)
    ]
    return Spec(("P0",), tuple(made))


def host(loaded: Harness, domain: str = "airline", task_id: str = "0") -> Host:
    """A running harness on the live environment of a task."""
    environment = bench(domain).environment(task_id)
    return Host(loaded, bench(domain).policy, list(bench(domain).tools), environment.read)


def call(name: str, **arguments: Any) -> Call:
    return Call(name, arguments, "c1")


TIMES = (
    "seconds",
    "wall_seconds",
    "phase_seconds",
    "trial_seconds",
    "agent_seconds",
    "time",
    "at",
    "commit",
)  # commits may come while the tests run


def plain(value: Any) -> Any:
    """The same without times."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k not in TIMES}
    return [plain(v) for v in value] if isinstance(value, list) else value
