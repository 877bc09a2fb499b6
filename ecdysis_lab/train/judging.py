"""What the gates look at: one candidate, the round's trials, their replays, and trials that are run when asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.replay import Replay, replay
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Benchmark, Candidate, LabError, Trajectory

Pair = tuple[str, int]
EXACT = 1e-9  # a sum of scores that differs by less is the same
Trials = Callable[[Harness, str, set[str], Sequence[int] | None], list[Trajectory]]
"""Runs trials: (harness, what for, task ids, seeds or None for those of the round) -> trajectories."""


@dataclass(frozen=True)
class Comparison:
    """Training scores of parent and candidate over the pairs of (task, seed) that were scored on both sides.

    Parameters
    ----------
    pairs : how many. user_faults : pairs left out since the user failed on a side; ``hidden`` of them were successes.
    before, after : summed scores. gained, lost : ``task#seed`` that flipped up and down.
    tasks : how many the pairs are of. tasks_up, tasks_down : those whose score over all their pairs rose and fell.
    """

    pairs: int
    user_faults: int
    hidden: int
    before: float
    after: float
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    tasks: int
    tasks_up: int
    tasks_down: int

    @property
    def whole(self) -> bool:
        """Whether the pairs say enough: there are some, and no loss can hide among those left out."""
        return bool(self.pairs) and not self.hidden


def compare(before: Sequence[Trajectory], after: Sequence[Trajectory]) -> Comparison:
    """Compare two harnesses pair by pair.

    Raises
    ------
    LabError: a pair is missing on either side; it is named. An unscored trial never counts as a zero.
    """
    old, new = _by_pair(before), _by_pair(after)
    blurred = {_pair(t) for t in (*before, *after) if t.status == "user_fault"}
    wanted = {_pair(t) for t in (*before, *after)} - blurred
    missing = sorted(p for p in wanted if p not in old or p not in new)
    if missing:
        (task, seed), n = missing[0], len(missing)
        raise LabError(f"coverage: no score on both sides for task {task}, seed {seed} ({n} in all)")
    moved: dict[str, float] = {}
    for task, seed in wanted:
        moved[task] = moved.get(task, 0.0) + new[task, seed] - old[task, seed]
    return Comparison(
        pairs=len(wanted),
        user_faults=len(blurred),
        hidden=sum(old.get(p, 0.0) > 0.0 for p in blurred),
        before=sum(old[p] for p in wanted),
        after=sum(new[p] for p in wanted),
        gained=tuple(sorted(f"{t}#{s}" for t, s in wanted if new[t, s] > old[t, s])),
        lost=tuple(sorted(f"{t}#{s}" for t, s in wanted if new[t, s] < old[t, s])),
        tasks=len(moved),
        tasks_up=sum(by > EXACT for by in moved.values()),
        tasks_down=sum(by < -EXACT for by in moved.values()),
    )


def _pair(trajectory: Trajectory) -> Pair:
    return trajectory.trial.task_id, trajectory.trial.seed


def _by_pair(trajectories: Iterable[Trajectory]) -> dict[Pair, float]:
    """Score by pair; unscored trials are absent."""
    return {_pair(t): t.score for t in trajectories if t.score is not None}


@dataclass(frozen=True)
class Rerun:
    """Trials of the parent and of the candidate; ``reused`` of the latter were taken over."""

    before: Sequence[Trajectory]
    after: Sequence[Trajectory]
    reused: int = 0

    @cached_property
    def comparison(self) -> Comparison:
        """Pair by pair."""
        return compare(self.before, self.after)

    def solved(self, trials: Sequence[Trajectory]) -> set[str]:
        """Tasks with a success among trials of one side, over the pairs that were scored on both."""
        blurred = {_pair(t) for t in (*self.before, *self.after) if t.score is None}
        return {t.trial.task_id for t in trials if t.success and _pair(t) not in blurred}


class Judging:
    """One candidate before the gates. Replays and trials happen when a gate first asks for them.

    Parameters
    ----------
    candidate : to be judged. parent : harness in force. before : its training trajectories, of every task that counts.
    bench : where they happened. trials : runs trials.
    fresh_seeds : one tuple a repeat of the confirmation; empty for none.
    reuse : take over results of tasks whose replay shows the model nothing new.
    pruned : folder for the candidate without what adds nothing; None where nothing is to be left out.
    by_replay : leave out only what no replay shows the model, since a rerun of noisy trials is luck.
    """

    def __init__(
        self,
        candidate: Candidate,
        parent: Harness,
        before: Sequence[Trajectory],
        bench: Benchmark,
        trials: Trials,
        *,
        fresh_seeds: Sequence[Sequence[int]] = (),
        reuse: bool = True,
        pruned: Path | None = None,
        by_replay: bool = False,
    ) -> None:
        self.candidate, self.parent, self.before = candidate, parent, before
        self.bench, self.fresh_seeds, self.reuse, self.pruned = bench, fresh_seeds, reuse, pruned
        self.by_replay = by_replay
        self._trials, self.trial_seconds = trials, 0.0
        self.reused: list[Trajectory] = []

    @cached_property
    def child(self) -> Harness:
        """The candidate's harness."""
        return load_harness(self.candidate.path)

    @cached_property
    def replays(self) -> dict[str, Replay]:
        """What the candidate says to each of the training trajectories, by trial key."""
        return {t.key: replay(t, self.child, self.bench) for t in self.before}

    @property
    def changed(self) -> set[str]:
        """Tasks on which the model may see something new. A trial in which a hook broke is run again, or its fault
        would stay with every later candidate.
        """
        silent = self.reuse
        return {
            t.trial.task_id for t in self.before if t.faults or not (silent and self.replays[t.key].unchanged)
        }

    @cached_property
    def rerun(self) -> Rerun:
        """The training tasks under the candidate, those without change taken over."""
        changed = self.changed
        after = self.run(self.child, "candidate", changed)
        self.reused = [self._taken_over(t) for t in self.before if t.trial.task_id not in changed]
        return Rerun(self.before, [*after, *self.reused], len(self.reused))

    @property
    def after(self) -> tuple[Trajectory, ...]:
        """The candidate's trials; empty where no gate asked for them."""
        rerun = self.__dict__.get("rerun")
        return tuple(rerun.after) if rerun else ()

    @property
    def comparison(self) -> Comparison | None:
        """Scores of the rerun; None where there was none, or where it cannot be told."""
        rerun = self.__dict__.get("rerun")
        return rerun.comparison if rerun and rerun.comparison.whole else None

    def confirmation(self) -> Rerun:
        """Parent and candidate once more, on the fresh seeds."""
        tasks = {t.trial.task_id for t in self.before}
        before: list[Trajectory] = []
        after: list[Trajectory] = []
        for repeat, seeds in enumerate(self.fresh_seeds, 1):
            before += self.run(self.parent, f"confirmation {repeat}, parent", tasks, seeds)
            after += self.run(self.child, f"confirmation {repeat}, candidate", tasks, seeds)
        return Rerun(before, after)

    def settle(self, candidate: Candidate, rerun: Rerun, reused: list[Trajectory]) -> None:
        """Go on with another candidate, whose trials are known."""
        self.candidate, self.reused = candidate, reused
        self.__dict__.pop("replays", None)
        self.__dict__ |= {"child": load_harness(candidate.path), "rerun": rerun}

    def run(
        self, harness: Harness, what: str, tasks: set[str], seeds: Sequence[int] | None = None
    ) -> list[Trajectory]:
        """Trials of a harness, timed apart from the gate that asks for them."""
        began = time.perf_counter()
        try:
            return self._trials(harness, what, tasks, seeds)
        finally:
            self.trial_seconds += time.perf_counter() - began

    def _taken_over(self, trajectory: Trajectory) -> Trajectory:
        """A result for another harness, under which every byte that the model sees is the same."""
        trial = replace(trajectory.trial, harness=self.child.hash)
        return replace(trajectory, trial=trial, reused_from=trajectory.reused_from or trajectory.key)
