"""Size-aware HDBSCAN on a distance matrix, and what to doubt in the labels it gives."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ecdysis_lab.records import Failure

if TYPE_CHECKING:
    import numpy as np

FEW = 120  # failures; among more, two that are alike may be chance, and chains are rare
FIT_FROM = 40  # below this a round of training needs each recurring pattern more than a clean one
FIT = 0.2  # least silhouette of a member; below about 0.25 Kaufman and Rousseeuw (1990) see no structure
PAIR = 0.5  # farthest that a pair may be apart, as a share of the mean pair
ROUNDS, SHARE, LARGEST_ROUND = 20, 0.8, 800  # subsampling for the stability


def cluster_size(n: int) -> tuple[int, int]:
    """``(min_cluster_size, min_samples)`` of HDBSCAN for n failures."""
    if n <= 60:
        return 3, 1
    if n <= 200:
        return (4 if n <= 120 else 5), 1
    return min(8, 5 + int(math.log2(n / 200))), 1


def nearness(n: int) -> float:
    """Pairs nearer than this share of the mean pair count as equally near; it shrinks as n fills the space."""
    return min(0.2, 0.2 * (100 / n) ** 0.2)


METHOD = "hdbscan"
"""What :func:`cluster` does, as ``Patterns.method`` tells it; another clusterer has another name."""


def cluster(matrix: np.ndarray, size: tuple[int, int] | None = None) -> np.ndarray:
    """HDBSCAN labels for a distance matrix of shape (n, n): 0 is the largest, -1 is noise."""
    import numpy as np

    n = len(matrix)
    if n == 0 or float(matrix.max()) < 1e-6:  # all identical: HDBSCAN would call them all noise
        return np.zeros(n, dtype=int)
    import hdbscan

    min_cluster_size, min_samples = size or cluster_size(n)
    # Repeats of one trial lie at distance 0, where their density is infinite and splits every cause by task.
    floored = np.maximum(matrix, nearness(n), dtype=np.float64)
    np.fill_diagonal(floored, 0.0)
    labels = hdbscan.HDBSCAN(
        metric="precomputed",
        min_cluster_size=min(min_cluster_size, n),
        min_samples=min(min_samples, n - 1),
        cluster_selection_method="eom",
        approx_min_span_tree=False,
        core_dist_n_jobs=1,
    ).fit_predict(floored)
    if FIT_FROM <= n <= FEW:
        labels = _fitting(matrix, labels)
    return _by_size(_paired(matrix, labels) if n <= FEW else labels)


def _fitting(matrix: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Labels without the members that are about as near to another group: silhouette below ``FIT``.

    Among few failures HDBSCAN with ``min_samples=1`` chains what was seen once to its nearest group (silhouette:
    Rousseeuw 1987). With ``_paired`` after it, on simulated failures with planted causes (n = 40, 40 draws other than
    the benchmark's) the ARI rises from 0.74 to 0.83 and the share in patterns from 0.84 to 0.87.
    """
    import numpy as np

    groups = np.eye(int(labels.max(initial=-1)) + 1)[labels[labels >= 0]]  # members by groups, 0 or 1
    if groups.shape[1] < 2:
        return labels
    inside = np.flatnonzero(labels >= 0)
    own = labels[inside]
    sums = matrix[np.ix_(inside, inside)].astype(np.float64) @ groups
    sizes = groups.sum(axis=0)
    rows = np.arange(len(inside))
    mine = sums[rows, own] / np.maximum(sizes[own] - 1, 1)
    means = sums / sizes
    means[rows, own] = np.inf
    other = means.min(axis=1)
    poor = (other - mine) < FIT * np.maximum(np.maximum(mine, other), 1e-9)
    out = np.array(labels, dtype=int)
    out[inside[poor]] = -1
    left = np.bincount(out[out >= 0], minlength=len(sizes))
    out[np.isin(out, np.flatnonzero(left < 2))] = -1
    return out


def _paired(matrix: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Labels with a group for each two left over that are each other's nearest, and near.

    A least cluster size of 3 or more calls a cause that was seen twice noise, though two tasks make it recurring. Among
    few failures such a pair is no chance.
    """
    import numpy as np

    out = np.array(labels, dtype=int)
    apart = np.array(matrix, dtype=np.float64)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.argmin(axis=1)
    for i in np.flatnonzero(out < 0).tolist():
        j = int(nearest[i])
        if i < j and nearest[j] == i and out[j] < 0 and apart[i, j] <= PAIR:
            out[[i, j]] = out.max() + 1
    return out


def _by_size(labels: Iterable[int]) -> np.ndarray:
    """Labels renumbered by falling size, ties by first appearance."""
    import numpy as np

    counts = Counter(int(label) for label in labels if label >= 0)
    order = {label: i for i, (label, _) in enumerate(counts.most_common())}
    return np.array([order.get(int(label), -1) for label in labels], dtype=int)


def stability(matrix: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> float:
    """Mean adjusted Rand index between the labels and those of subsamples, noise as a class."""
    from sklearn.metrics import adjusted_rand_score

    n = len(matrix)
    size = min(max(int(SHARE * n), 2), LARGEST_ROUND)
    scores = []
    for _ in range(ROUNDS if n <= LARGEST_ROUND else ROUNDS // 4):
        part = rng.choice(n, size, replace=False)
        part.sort()
        scores.append(
            float(adjusted_rand_score(labels[part], cluster(matrix[part][:, part], cluster_size(n))))
        )
    return round(sum(scores) / len(scores), 4)


def doubts(
    items: Sequence[Failure], matrix: np.ndarray, labels: np.ndarray, share: float, steady: float | None
) -> list[str]:
    """Sentences for the reader about what to doubt in these labels."""
    found = []
    grouped = [i for i in range(len(items)) if labels[i] >= 0]
    if not grouped:
        found.append("No pattern found: every failure is noise (no two alike enough to call it one cause).")
    if float(matrix.max()) < 1e-6:
        found.append("All failures look identical to the distance: they form one pattern.")
    if len({f.task_id for f in items}) == 1:
        found.append("All failures come from one task: no pattern can be recurring.")
    elif grouped and (top := _main_task_share([items[i].task_id for i in grouped], labels[grouped])) >= 0.7:
        found.append(
            f"You clustered tasks: {top:.0%} of the grouped failures share their pattern's main task. "
            "Lower the text weight or add tasks before reading causes into it."
        )
    if share < 0.9:
        found.append(f"The embedder saw only {share:.0%} of the card tokens.")
    if steady is not None and grouped and steady < 0.5:
        found.append(f"The patterns are unstable: mean ARI over subsamples is {steady:.2f}.")
    return found + ward(matrix, labels, grouped)


def _main_task_share(tasks: Sequence[str], labels: np.ndarray) -> float:
    """Share of failures that belong to the commonest task of their pattern."""
    by_pattern: dict[int, Counter[str]] = defaultdict(Counter)
    for task, label in zip(tasks, labels.tolist(), strict=True):
        by_pattern[label][task] += 1
    return sum(max(c.values()) for c in by_pattern.values()) / len(tasks)


def ward(matrix: np.ndarray, labels: np.ndarray, grouped: Sequence[int]) -> list[str]:
    """A sentence when Ward's method with the same number of groups disagrees on the grouped failures."""
    k = int(labels.max(initial=-1)) + 1
    if k < 2:
        return []
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform
    from sklearn.metrics import adjusted_rand_score

    part = grouped[:: 1 + len(grouped) // 2000]
    ward = fcluster(linkage(squareform(matrix[part][:, part], checks=False), "ward"), k, "maxclust")
    agreement = float(adjusted_rand_score(labels[list(part)], ward))
    if agreement >= 0.5:
        return []
    return [f"Ward's method with {k} groups disagrees (ARI {agreement:.2f}): the borders are soft."]
