"""The A/A noise floor: how much a training score moves when nothing has changed, and so what a gain can mean.

An A/A run evaluates one harness several times with independent trials. Under "the edit does nothing" the trials of a
task can be exchanged between the two sides of a comparison, so splitting the pooled outcomes of every task at random
gives the distribution of the gain, without a model of how hard tasks are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ecdysis_lab.records import LabError, Trajectory

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class NoiseFloor:
    """What an A/A run says about the strict-improvement gate.

    Parameters
    ----------
    smallest_gain : smallest gain in the summed score (successes) that a null edit reaches at most ``alpha`` of the
        time; a gain below it is no evidence.
    null_accept_rate : chance that a null edit raises the score, and so passes the gate.
    sd : standard deviation of the gain of a null edit, in successes.
    alpha, n_tasks, trials, repeats : of the setting: trials per task and side, evaluations pooled.
    sums : summed score of each evaluation.
    """

    smallest_gain: int
    null_accept_rate: float
    sd: float
    alpha: float
    n_tasks: int
    trials: int
    repeats: int
    sums: tuple[float, ...]

    @property
    def share(self) -> float:
        """``smallest_gain`` as a share of all trials of one side."""
        return self.smallest_gain / (self.n_tasks * self.trials)


def noise_floor(evaluations: Sequence[Iterable[Trajectory]], alpha: float = 0.05) -> NoiseFloor:
    """Noise floor from evaluations of one harness on the same tasks.

    Parameters
    ----------
    evaluations : at least two, each with the same number of scored trials per task and with trials of its own.
    alpha : how often a null edit may reach ``smallest_gain``.

    Raises
    ------
    LabError: fewer than two evaluations, different tasks or numbers of trials, several harnesses, or one trial
        in two evaluations (it would hide noise).
    """
    runs = [[t for t in run if t.status == "scored"] for run in evaluations]
    if len(runs) < 2:
        raise LabError(f"noise floor: needs at least two evaluations of one harness, got {len(runs)}")
    harnesses = {t.trial.harness for run in runs for t in run}
    if len(harnesses) > 1:
        raise LabError(f"noise floor: the evaluations are of {len(harnesses)} harnesses; it takes one")
    keys = [t.key for run in runs for t in run]
    if len(set(keys)) < len(keys):
        raise LabError("noise floor: one trial stands in two evaluations; give each seeds of its own")
    tables = [_by_task(run) for run in runs]
    sizes = {task: {len(table.get(task, ())) for table in tables} for task in set().union(*tables)}
    trials = {n for ns in sizes.values() for n in ns}
    if len(trials) != 1 or 0 in trials:
        raise LabError("noise floor: each evaluation needs the same number of scored trials of each task")
    won = [sum(sum(table[task]) for table in tables) for task in sorted(sizes)]
    sums = tuple(float(sum(map(sum, table.values()))) for table in tables)
    return from_counts(won, trials.pop(), len(runs), alpha, sums)


def _by_task(run: Iterable[Trajectory]) -> dict[str, list[bool]]:
    table: dict[str, list[bool]] = {}
    for t in run:
        table.setdefault(t.trial.task_id, []).append(t.success)
    return table


def from_counts(
    won: Sequence[int], trials: int, repeats: int = 2, alpha: float = 0.05, sums: Sequence[float] = ()
) -> NoiseFloor:
    """Noise floor from successes by task over ``repeats`` evaluations of ``trials`` trials each."""
    gains, chances = gain_distribution(won, trials, repeats)
    tail = chances[::-1].cumsum()[::-1]  # P(gain >= g)
    floor = next((int(g) for g, p in zip(gains, tail) if g > 0 and p <= alpha + 1e-12), int(gains[-1]) + 1)
    sd = float((chances @ gains.astype(float) ** 2) ** 0.5)
    rate = float(chances[gains > 0].sum())
    return NoiseFloor(floor, rate, sd, alpha, len(won), trials, repeats, tuple(sums))


def gain_distribution(won: Sequence[int], trials: int, repeats: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Exact distribution of the gain of a null edit.

    Parameters
    ----------
    won : successes by task among ``trials * repeats`` trials. trials : per task and side.

    Returns
    -------
    Gains ``-n..n`` with n = tasks x trials, and their chances.
    """
    import numpy as np

    chances, pool = np.ones(1), trials * repeats
    for c in won:
        if not 0 <= c <= pool:
            raise LabError(f"noise floor: a task has {c} successes among {pool} trials")
        chances = np.convolve(chances, _one_task(c, trials, pool))
    half = len(won) * trials
    return np.arange(-half, half + 1), chances


@cache
def _one_task(c: int, m: int, pool: int) -> np.ndarray:
    """Chances of gains -m..m when two disjoint sets of m trials are drawn from a pool with c successes."""
    import numpy as np
    from scipy.stats import hypergeom

    won = np.arange(m + 1)
    first = hypergeom.pmf(won, pool, c, m)[:, None]  # of the one set
    second = hypergeom.pmf(won[None, :], pool - m, c - won[:, None], m)  # of the other, given the one
    chances = np.where(first > 0, first * second, 0.0)
    return np.bincount((m + won[None, :] - won[:, None]).ravel(), chances.ravel(), 2 * m + 1)
