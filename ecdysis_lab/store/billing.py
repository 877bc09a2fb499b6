"""What a run rests on and what it paid: lists of trial keys inside the run folder that survive a kill.

``billed.txt`` holds the trials that the run had to run itself; ``trials/<part>.txt`` those that one part of it (the
training of an arm, the noise floor, the paired models) rests on, whoever ran them. A part is charged for all of its
trials in ``cost_usd``, and for those that the run ran itself in ``billed_usd``.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ecdysis_lab.records import Stopped, Terminated, Trajectory, Usage
from ecdysis_lab.store.run import Run
from ecdysis_lab.store.trials import Store


@dataclass
class KeyFile:
    """A set of trial keys in a file that only grows. Calling it adds a trajectory's key."""

    path: Path
    keys: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.path.exists():
            self.keys = set(self.path.read_text(encoding="utf-8", errors="replace").split())

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


def billed(run: Run) -> KeyFile:
    """Trials that the run had to run itself."""
    return KeyFile(run.billed_path)


def rests_on(run: Run, part: str) -> KeyFile:
    """Trials that a part of the run rests on."""
    return KeyFile(run.trials_path(part))


def trials_of(run: Run, store: Store, part: str) -> list[Trajectory]:
    """Those trials, but for results that were taken over: they cost nothing."""
    keys = sorted(rests_on(run, part).keys)
    return [t for t in store.trajectories(keys=keys) if not t.reused_from]


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM raises ``Terminated`` in here, unless someone else already handles it or this is no main thread."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(*_: object) -> None:
        raise Terminated("SIGTERM arrived; the same command continues where it stopped")

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def at_work(run: Run, **done: Any) -> Iterator[None]:
    """Work on a run alone; ``status.json`` tells that it runs and how it ended.

    Parameters
    ----------
    run : the run folder. done : what the status of a finished run says besides.

    Raises
    ------
    LabError: another process works on the run.
    """
    with run.locked(), terminable():
        run.write_status("running", run_id=run.run_id)
        try:
            yield
        except BaseException as why:
            stopped = isinstance(why, KeyboardInterrupt | Stopped)
            told = f"{type(why).__name__}: {str(why) or 'the same command continues where it stopped'}"[:2000]
            run.write_status("interrupted" if stopped else "failed", error=told)
            raise
        run.write_status("done", run_id=run.run_id, **done)


def consumption(trajectories: Iterable[Trajectory]) -> Usage:
    """Consumption over all roles."""
    return sum((u for t in trajectories for u in t.usage.values()), Usage())
