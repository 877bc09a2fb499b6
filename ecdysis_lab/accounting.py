"""What a run rests on and what it paid: lists of trial keys inside the run folder that survive a kill.

``billed.txt`` holds the trials that the run had to run itself; ``trials/<part>.txt`` those that one part of it (the
training of an arm, the noise floor, the paired models) rests on, whoever ran them. A part is charged for all of its
trials in ``cost_usd``, and for those that the run ran itself in ``billed_usd``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ecdysis_lab.budget import Budget
from ecdysis_lab.errors import BudgetExceeded
from ecdysis_lab.records import Trajectory, Usage
from ecdysis_lab.rounds import RoundRecord
from ecdysis_lab.store import RunFolder, Store


@dataclass
class KeyFile:
    """A set of trial keys in a file that only grows. Calling it adds a trajectory's key."""

    path: Path
    keys: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.path.exists():
            self.keys = set(self.path.read_text(encoding="utf-8").split())

    def __call__(self, trajectory: Trajectory) -> None:
        """Write down one trajectory's key."""
        self.add([trajectory.key])

    def add(self, keys: Iterable[str]) -> None:
        """Write down keys, each once."""
        new = [key for key in dict.fromkeys(keys) if key not in self.keys]
        if new:
            self.keys.update(new)
            with self.path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{key}\n" for key in new))


def billed(run: RunFolder) -> KeyFile:
    """Trials that the run had to run itself."""
    return KeyFile(run.path("billed.txt"))


def rests_on(run: RunFolder, part: str) -> KeyFile:
    """Trials that a part of the run rests on."""
    return KeyFile(run.path(f"trials/{part}.txt"))


def trials_of(run: RunFolder, store: Store, part: str) -> list[Trajectory]:
    """Those trials, but for results that were taken over: they cost nothing."""
    keys = sorted(rests_on(run, part).keys)
    return [t for t in store.trajectories(keys=keys) if not t.reused_from]


def budget_of(run: RunFolder, limits: tuple[float | None, int | None, float | None]) -> Budget | None:
    """Budget of a run, or None without a limit. It is kept in a file: a run that was stopped goes on counting."""
    return Budget(*limits, path=run.path("spent.jsonl")) if any(v is not None for v in limits) else None


@contextmanager
def at_work(run: RunFolder, **done: Any) -> Iterator[None]:
    """Work on a run alone; ``status.json`` tells that it runs and how it ended.

    Parameters
    ----------
    run : the run folder. done : what the status of a finished run says besides.

    Raises
    ------
    LabError: another process works on the run.
    """
    with run.locked():
        run.write_status("running", run_id=run.run_id)
        try:
            yield
        except BaseException as why:
            stopped = isinstance(why, KeyboardInterrupt | BudgetExceeded)
            told = f"{type(why).__name__}: {why}"[:2000]
            run.write_status("interrupted" if stopped else "failed", error=told)
            raise
        run.write_status("done", run_id=run.run_id, **done)


def total(trajectories: Iterable[Trajectory]) -> Usage:
    """Consumption over all roles."""
    return sum((u for t in trajectories for u in t.usage.values()), Usage())


def of_rounds(rounds: Sequence[RoundRecord]) -> Usage:
    """Consumption of reviews and editors."""
    return sum((Usage(**r.usage) for r in rounds), Usage())


def training_block(
    rounds: Sequence[RoundRecord], trials: Sequence[Trajectory], own: set[str], n_tasks: int, n_trials: int
) -> dict[str, Any]:
    """What ``summary.json`` says about the training of one arm.

    Parameters
    ----------
    rounds : its records. trials : all it rests on. own : keys of those that the run paid for.
    n_tasks, n_trials : training tasks, and trials of one evaluation.
    """
    usage = total(trials) + of_rounds(rounds)
    paid = total(t for t in trials if t.key in own) + of_rounds(rounds)
    phases: dict[str, float] = {}
    for r in rounds:
        for phase, seconds in r.seconds.items():
            phases[phase] = round(phases.get(phase, 0.0) + seconds, 3)
    return {
        "rounds": [asdict(r) for r in rounds],
        "n_tasks": n_tasks,
        "n_trials": n_trials,
        "phase_seconds": phases,
        "wall_seconds": round(sum(phases.values()), 1),
        "editor_calls": sum(r.editor_calls for r in rounds),
        "model_calls": usage.calls,
        "cost_usd": usage.cost_usd,
        "billed_usd": paid.cost_usd,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
    }
