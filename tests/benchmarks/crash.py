"""SIGKILL while runs are at work, each started again: what is lost, repeated or different at the end.

    python tests/benchmarks/crash.py [--kills 60] [--seed 0] [--break have|files|again] [--json]

A run (SIMULATED, small, from the empty harness, the benchmarks in turn) says on its standard output which phase it is in
and which trial it has run. It is killed with its process group at a moment drawn inside a phase, and started again,
until it finishes; further runs follow until there were enough kills. After each kill every file must be whole. At the
end its summary must equal that of a run without kills, times aside, and no trial that was in the store at a kill may
have been run again. ``--break`` damages the product on purpose, in the killed process only, and must end with 1:
``have`` (the store never has a trial), ``files`` (whole files are written in place), ``again`` (a start after a kill
draws its training tasks with another seed).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

SIZE = {"train_tasks": 8, "test_tasks": 2, "trials": 2, "rounds": 2, "embedder": "tfidf", "workers": 2,
        "max_tokens": 10**9, "arms": "direct,self-evolution,ecdysis", "test_models": "sim/small",
        "start": "empty"}  # fmt: skip
BENCHMARKS = ("tau2/airline", "tau2/retail")
PLAN = ("trials", "trials", "review", "edit", "gates", "rerun", "patterns", "review", "edit", "gates", "test",
        "test", "summary", "summary")  # fmt: skip
"""Phases in which one run is killed, about in their order inside a run."""
PHASES = tuple(dict.fromkeys(PLAN))
BREAKS = ("", "have", "files", "again")
TIMES = ("seconds", "wall_seconds", "phase_seconds", "trial_seconds", "agent_seconds", "billed_usd", "left")


# -- the process that is killed ---------------------------------------------------------------------------------


def tell(*words: str) -> None:
    """One line for the watcher."""
    print(*words, flush=True)


@contextlib.contextmanager
def inside(phase: str) -> Iterator[None]:
    """Tell where a phase begins and ends."""
    tell("+", phase)
    yield
    tell("-", phase)


def work(root: str, seed: int, benchmark: str, broken: str) -> None:
    """The run itself, telling its phases and trials."""
    from ecdysis_lab.evaluate.experiment import Experiment
    from ecdysis_lab.store.billing import KeyFile
    from ecdysis_lab.train.arm_run import ArmRun
    from ecdysis_lab.train.settings import configure

    class Told(KeyFile):
        def __call__(self, trajectory: Any) -> None:
            tell("ran", trajectory.key)
            super().__call__(trajectory)

    def wrapped(real: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            with inside(name(*given)):
                return real(*given)

        return call

    real_phase = ArmRun.phase

    @contextlib.contextmanager
    def phase(self: ArmRun, name: str) -> Iterator[None]:
        with real_phase(self, name), inside("trials" if name == "rollout" else name):
            yield

    ArmRun.phase = phase  # type: ignore[assignment, method-assign]
    Experiment._test = wrapped(Experiment._test, lambda *_: "test")  # type: ignore[method-assign]
    damage(broken, Path(root))
    experiment = Experiment(configure(**SIZE, benchmark=benchmark, seed=seed), root, "run")
    real_summary = experiment._summary

    def summary(*given: Any) -> Any:
        tell("+", "summary")  # until the process ends
        return real_summary(*given)

    experiment._summary = summary  # type: ignore[method-assign]
    experiment.billing = Told(experiment.run.billed_path)
    experiment.go()


def damage(broken: str, root: Path) -> None:
    """Damage the product on purpose."""
    from ecdysis_lab.evaluate.experiment import Experiment
    from ecdysis_lab.store import Store, files

    if broken == "have":
        Store.have = lambda self, keys: set()  # type: ignore[method-assign]
    if broken == "files":

        def in_place(path: Path, content: bytes) -> None:
            with path.open("wb", buffering=0) as file:
                for part in (content[: len(content) // 2], content[len(content) // 2 :]):
                    file.write(part)
                    time.sleep(0.02)

        files.replace_file = in_place
    if broken == "again" and (root / "runs" / "run" / "billed.txt").exists():
        real = Experiment.__init__

        def init(self: Experiment, config: Any, *given: Any, **named: Any) -> None:
            real(self, config, *given, **named)
            self.settings = config.model_copy(update={"seed": config.seed + 1})

        Experiment.__init__ = init  # type: ignore[method-assign]


# -- the watcher ------------------------------------------------------------------------------------------------


@dataclass
class Watched:
    """One start of a run, as its output tells it."""

    process: subprocess.Popen[str]
    phases: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    _began: dict[str, float] = field(default_factory=dict)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Lines as they come; ``phases`` are those that are open."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):
                return  # torn by the kill
            kind, name = line.split()
            if kind == "ran":
                self.ran.append(name)
            elif kind == "+":
                self.phases.append(name)
                self._began[name] = time.monotonic()
            else:
                self.phases.remove(name)
                self.seconds.setdefault(name, []).append(time.monotonic() - self._began[name])
            yield kind, name

    def reach(self, phase: str, skip: int) -> bool:
        """Wait for a phase (for a trial inside it, where the phase runs trials); False when the run ended before."""
        wanted = "ran" if phase in ("trials", "rerun", "test") else "+"
        for kind, _ in self.lines():
            if kind == wanted and self.phases[-1:] == [phase]:
                skip -= 1
                if skip < 0:
                    return True
        return False

    def kill(self) -> bool:
        """Kill the whole group; whether it was still alive."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for _ in self.lines():
            pass
        return self.process.wait() == -signal.SIGKILL


def start(root: Path, seed: int, benchmark: str, broken: str = "") -> Watched:
    """The run as a process group of its own."""
    command = [
        sys.executable,
        __file__,
        "--work",
        str(root),
        benchmark,
        "--seed",
        str(seed),
        "--break",
        broken,
    ]
    quiet = subprocess.DEVNULL if broken else None
    return Watched(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=quiet, text=True, start_new_session=True)
    )


def finished(root: Path) -> set[str]:
    """Keys of the trials in the store that were run, not taken over."""
    from ecdysis_lab.store import Store

    if not (root / "trials.sqlite").exists():
        return set()
    return {t.key for t in Store(root).trajectories() if not t.reused_from}


def broken_files(root: Path) -> list[str]:
    """Files that are not whole; the last line of a ledger may be torn, as its next writer drops it."""
    bad = []
    for path in (*root.rglob("*.json"), *root.rglob("ledger.jsonl")):
        text = path.read_bytes().decode(errors="replace")
        try:
            for part in [text] if path.suffix == ".json" else text.split("\n")[:-1]:
                json.loads(part)
        except ValueError:
            bad.append(str(path.relative_to(root)))
    for path in root.rglob("*.sqlite"):
        with contextlib.closing(sqlite3.connect(path)) as db:
            if db.execute("pragma integrity_check").fetchone() != ("ok",):
                bad.append(str(path.relative_to(root)))
    return bad


def summary(root: Path) -> Any:
    """The summary without times."""
    return plain(json.loads((root / "runs" / "run" / "summary.json").read_text()))


def plain(value: Any) -> Any:
    """A value without its times."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k not in TIMES}
    return [plain(v) for v in value] if isinstance(value, list) else value


def differing(a: Any, b: Any, path: str = "") -> list[str]:
    """Names of the fields in which two values differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        return [d for k in sorted({*a, *b}) for d in differing(a.get(k), b.get(k), f"{path}.{k}".strip("."))]
    return [] if a == b else [path]


@dataclass
class Storm:
    """What kills have shown so far."""

    rng: random.Random
    broken: str
    benchmarks: Sequence[str] = BENCHMARKS
    kills: int = 0
    runs: int = 0
    failed_starts: int = 0
    by_phase: Counter[str] = field(default_factory=Counter)
    trials_done: list[int] = field(default_factory=list)
    repeated: int = 0
    differing: set[str] = field(default_factory=set)
    bad: set[str] = field(default_factory=set)

    def run(self, folder: Path, most: int) -> None:
        """One run without kills and the same with at most ``most`` of them."""
        turn, name = divmod(self.runs, len(self.benchmarks))
        benchmark, seed = self.benchmarks[name], turn
        calm, stormy = folder / f"calm-{self.runs}", folder / f"stormy-{self.runs}"
        self.runs += 1
        quiet = start(calm, seed, benchmark)
        for _ in quiet.lines():
            pass
        assert quiet.process.wait() == 0
        lasts = {name: sum(took) / len(took) for name, took in quiet.seconds.items()}
        plan, until = list(PLAN), self.kills + most
        while True:
            have = finished(stormy)
            one = start(stormy, seed, benchmark, self.broken)
            target = plan.pop(0) if plan and self.kills < until else ""
            if one.reach(target, self.rng.randrange(3 if target in ("trials", "edit", "gates") else 1)):
                time.sleep(self.rng.uniform(0.0, lasts.get(target, 0.05) / (2 if target == "trials" else 1)))
            elif plan and target:
                plan = [p for p in plan if p != target]
            killed = one.kill() if target else False
            code = one.process.wait()
            self.repeated += len(have.intersection(one.ran))
            self.bad.update(broken_files(stormy))
            if killed:
                self._count(one, len(finished(stormy)))
            elif code == 0:
                break
            else:
                self.failed_starts += 1
                return
        self.differing.update(differing(summary(calm), summary(stormy)))

    def _count(self, one: Watched, done: int) -> None:
        self.kills += 1
        if one.phases and done:
            self.by_phase[one.phases[-1]] += 1
            self.trials_done.append(done)

    def found(self) -> dict[str, Any]:
        """The numbers, of kills that fell inside a phase with trials in the store."""
        done = self.trials_done or [0]
        return {
            "kills": self.kills,
            "kills_in_work": sum(self.by_phase.values()),
            "by_phase": {phase: self.by_phase[phase] for phase in PHASES},
            "trials_done_at_kill": {"min": min(done), "median": median(done), "max": max(done)},
            "runs": self.runs,
            "failed_starts": self.failed_starts,
            "repeated": self.repeated,
            "differing": sorted(self.differing),
            "broken": sorted(self.bad),
            "simulated": True,
        }


def crash(kills: int, seed: int, folder: Path, broken: str, benchmarks: Sequence[str]) -> dict[str, Any]:
    """Kill runs until ``kills`` fell while work was under way; see the head of this file."""
    storm = Storm(random.Random(seed), broken, benchmarks)
    while sum(storm.by_phase.values()) < kills and not storm.failed_starts:
        storm.run(folder, kills - sum(storm.by_phase.values()))
    return storm.found()


def red(found: dict[str, Any]) -> bool:
    """Whether anything was lost, repeated or different."""
    return bool(found["repeated"] or found["differing"] or found["broken"] or found["failed_starts"])


def main() -> None:
    """Print what was found; leave with 1 when it is red."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--break", dest="broken", choices=BREAKS, default="")
    parser.add_argument("--benchmarks", default=",".join(BENCHMARKS), help="taken in turn")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        return work(asked.work[0], asked.seed, asked.work[1], asked.broken)
    with tempfile.TemporaryDirectory() as folder:
        found = crash(asked.kills, asked.seed, Path(folder), asked.broken, asked.benchmarks.split(","))
    print(json.dumps(found) if asked.json else "\n".join(f"{k:20s} {v}" for k, v in found.items()))
    sys.exit(red(found))


if __name__ == "__main__":
    main()
