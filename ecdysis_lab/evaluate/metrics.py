"""The numbers behind an evaluation: Pass@k, Pass^k, intervals clustered by task, the sign test.

Plain counts in, plain numbers out. The unit that is resampled is the task, since the trials of one task are
not independent of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, sqrt
from typing import TYPE_CHECKING

from ecdysis_lab.records import LabError

if TYPE_CHECKING:
    import numpy as np

Z95 = 1.959963984540054


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased estimate of the chance that at least one of k trials of a task succeeds.

    Parameters
    ----------
    n : trials of the task.
    c : successes among them.
    k : trials drawn without replacement.

    Returns
    -------
    ``1 - C(n-c, k) / C(n, k)``, in [0, 1].

    Raises
    ------
    LabError: unless ``0 <= c <= n`` and ``1 <= k <= n``.
    """
    _check_counts(n, c, k)
    return 1.0 - comb(n - c, k) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Unbiased estimate of the chance that all of k trials of a task succeed (Pass^k of tau-bench).

    Parameters
    ----------
    n : trials of the task.
    c : successes among them.
    k : trials drawn without replacement.

    Returns
    -------
    ``C(c, k) / C(n, k)``, in [0, 1].

    Raises
    ------
    LabError: unless ``0 <= c <= n`` and ``1 <= k <= n``.
    """
    _check_counts(n, c, k)
    return comb(c, k) / comb(n, k)


def _check_counts(n: int, c: int, k: int) -> None:
    if not 0 <= c <= n:
        raise LabError(f"c (successes) must be between 0 and n; got c={c}, n={n}")
    if not 1 <= k <= n:
        raise LabError(f"k must be between 1 and n (trials of the task); got k={k}, n={n}")


def _bootstrap_variance(sums: np.ndarray, sizes: np.ndarray, seed: int, n_boot: int) -> float:
    """Variance of ``sum(sums) / sum(sizes)`` when whole tasks are resampled, corrected for few tasks."""
    import numpy as np

    m = len(sums)
    if m < 2:
        return 0.0
    weights = np.random.default_rng(seed).multinomial(m, np.full(m, 1 / m), size=n_boot)  # (n_boot, tasks)
    return float(np.var((weights @ sums) / (weights @ sizes)) * m / (m - 1))


def _t95(clusters: int) -> float:
    """97.5% quantile of Student's t for the degrees of freedom that so many clusters leave."""
    from scipy.special import stdtrit

    return float(stdtrit(max(clusters - 1, 1), 0.975))


def cluster_interval(
    successes: Sequence[float] | np.ndarray,
    trials: Sequence[float] | np.ndarray,
    seed: int = 0,
    n_boot: int = 2000,
) -> list[float]:
    """95% interval of an accuracy, by a bootstrap that resamples whole tasks.

    The bootstrap variance says how many independent trials the data are worth (at least the number of
    tasks, at most the number of trials), less what few clusters cost (the square of the normal over the t
    quantile, after Korn and Graubard 1998); a Wilson score interval is taken at that effective number. Bare
    percentiles of the same bootstrap are too short with few tasks, and of no width at all when every
    trial succeeds.

    Parameters
    ----------
    successes, trials : counts by task, same length.
    seed : seed of the bootstrap.
    n_boot : resamples.

    Returns
    -------
    ``[low, high]`` in [0, 1].

    Raises
    ------
    LabError: no task, or unequal lengths.
    """
    import numpy as np

    c, n = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    if not len(c) or len(c) != len(n):
        raise LabError(f"an interval needs one count a task; got {len(c)} successes and {len(n)} trials")
    rate, variance = c.sum() / n.sum(), _bootstrap_variance(c, n, seed, n_boot)
    worth = float(np.clip(rate * (1 - rate) / variance, len(c), n.sum())) if variance > 0 else float(len(c))
    worth *= (Z95 / _t95(len(c))) ** 2
    shrink = 1 + Z95**2 / worth
    centre = (rate + Z95**2 / (2 * worth)) / shrink
    half = Z95 * sqrt(rate * (1 - rate) / worth + Z95**2 / (4 * worth**2)) / shrink
    low, high = (round(float(end), 12) for end in (centre - half, centre + half))  # 0, not 1e-16
    return [max(0.0, low), min(1.0, high)]


def difference_interval(
    sums: np.ndarray, sizes: np.ndarray, seed: int = 0, n_boot: int = 2000
) -> list[float]:
    """Student interval on the bootstrap variance, plus the variance of half a pair that flipped each way.

    The addition (after Agresti and Min 2005) keeps some width when few or no tasks flip, where a bootstrap
    alone would claim certainty; it fades with the square of the number of tasks.
    """
    m, pairs = len(sums), sizes.mean()
    variance = _bootstrap_variance(sums, sizes, seed, n_boot) + 1 / (pairs * (m + 2) ** 2)
    middle, half = float(sums.sum() / sizes.sum()), _t95(m) * sqrt(variance)
    return [float(max(-1.0, middle - half)), float(min(1.0, middle + half))]
