"""Patterns: groups of failures with one cause, by a mixed distance and size-aware HDBSCAN.

Noise stays noise. Everything is deterministic: the same failures give the same patterns.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ecdysis_lab.distance import DEFAULT, Weights, distances, layout, nearest, spread, vectors_of
from ecdysis_lab.naming import names_of, quote_of, terms
from ecdysis_lab.records import Embedder, Failure, Pattern, Patterns

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Weights", "cluster", "distances", "find_patterns", "signature"]

FEW = 10  # below this, density means nothing: group by signature
SAMPLED, SAMPLE = 12_000, 6_000  # above the first, patterns are found on a sample of the second
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
    return _by_size(labels)


def _by_size(labels: Sequence[int]) -> np.ndarray:
    """Labels renumbered by falling size, ties by first appearance."""
    import numpy as np

    counts = Counter(int(label) for label in labels if label >= 0)
    order = {label: i for i, (label, _) in enumerate(counts.most_common())}
    return np.array([order.get(int(label), -1) for label in labels], dtype=int)


def signature(failure: Failure) -> tuple[str, ...]:
    """Termination, failed checks, tool of the first bad thing: what few failures are grouped by."""
    what = failure.first_bad_what.split(":")[0] if failure.first_bad_what else ""
    return (failure.termination, *failure.failed_checks, what)


def find_patterns(
    failures: Sequence[Failure],
    embedder: Embedder | None = None,
    weights: Weights = DEFAULT,
    seed: int = 0,
    stability: bool = True,
) -> Patterns:
    """Group failures into patterns.

    Parameters
    ----------
    failures : failures of one round, in any order.
    embedder : text to vectors; None takes ``embed.embedder("auto")``.
    weights : weights of the distance's parts.
    seed : seed of the subsamples.
    stability : whether to cluster subsamples for the stability figure.

    Returns
    -------
    Patterns by falling size, noise apart, with warnings for the reader.
    """
    items = sorted(failures, key=lambda f: f.key)
    if not items:
        return Patterns(
            (), {}, {}, "signature", "none", 1.0, None, ("No failures: there is nothing to group.",)
        )
    if len(items) < FEW:
        return _few(items)
    if len(items) > SAMPLED:
        return _sampled(items, embedder, weights, seed, stability)
    return _by_density(items, embedder, weights, seed, stability)


def _few(items: Sequence[Failure]) -> Patterns:
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, failure in enumerate(items):
        groups[signature(failure)].append(i)
    order = sorted(groups.values(), key=lambda g: (-len(g), g))
    labels = [next(j for j, group in enumerate(order) if i in group) for i in range(len(items))]
    matrix = distances(items, None)
    warning = (
        f"Only {len(items)} failure{'s' if len(items) > 1 else ''}: grouped by signature (termination, "
        f"failed checks, first thing wrong), since density says nothing under {FEW}."
    )
    spots = {f.key: (float(x), float(y)) for f, (x, y) in zip(items, layout(matrix), strict=True)}
    return Patterns(_describe(items, labels, matrix), {}, spots, "signature", "none", 1.0, None, (warning,))


def _by_density(
    items: Sequence[Failure], embedder: Embedder | None, weights: Weights, seed: int, stability: bool
) -> Patterns:
    import numpy as np

    vectors, share, name, warnings = _embedded(items, embedder, weights)
    matrix = distances(items, vectors, weights)
    labels = cluster(matrix)
    steady = _stability(matrix, labels, np.random.default_rng(seed)) if stability else None
    warnings += _doubts(items, matrix, labels, share, steady)
    spots = {f.key: (float(x), float(y)) for f, (x, y) in zip(items, layout(matrix), strict=True)}
    return Patterns(
        patterns=_describe(items, labels, matrix),
        noise=_noise(items, labels, matrix),
        layout=spots,
        method="hdbscan",
        embedder=name,
        tokens_seen=share,
        stability=steady,
        warnings=tuple(warnings),
    )


def _embedded(
    items: Sequence[Failure], embedder: Embedder | None, weights: Weights
) -> tuple[np.ndarray | None, float, str, list[str]]:
    if weights.text == 0:
        return None, 0.0, "none", []
    if embedder is None:
        from ecdysis_lab.embed import embedder as make

        embedder = make("auto")
    vectors, share = vectors_of(items, embedder)
    return vectors, share, embedder.name, list(getattr(embedder, "warnings", ()))


def _noise(items: Sequence[Failure], labels: np.ndarray, matrix: np.ndarray) -> dict[str, tuple[int, float]]:
    """Nearest pattern of each noise failure (by mean distance to its members) and the similarity to it.

    The similarity is ``1 - d / 2``: 1 for the same, 0.5 for a pair as far apart as the mean pair.
    """
    groups = [labels == j for j in range(int(labels.max(initial=-1)) + 1)]
    out: dict[str, tuple[int, float]] = {}
    for i, failure in enumerate(items):
        if labels[i] >= 0:
            continue
        means = [float(matrix[i, group].mean()) for group in groups]
        near = min(range(len(means)), key=means.__getitem__, default=-1)
        out[failure.key] = (near, round(max(0.0, 1 - means[near] / 2), 4) if means else 0.0)
    return out


def _describe(items: Sequence[Failure], labels: Iterable[int], matrix: np.ndarray) -> tuple[Pattern, ...]:
    """Patterns with names, medoids and quotes."""
    import numpy as np

    found_in: dict[int, list[int]] = defaultdict(list)
    for i, label in enumerate(labels):
        found_in[int(label)].append(i)
    groups = [found_in[j] for j in sorted(found_in) if j >= 0]
    names = names_of([[terms(items[i]) for i in group] for group in groups])
    found = []
    for j, group in enumerate(groups):
        inner = matrix[np.ix_(group, group)].mean(axis=1)
        central = items[group[int(inner.argmin())]]
        tasks = tuple(sorted({items[i].task_id for i in group}))
        members = tuple(items[i].key for i in group)
        found.append(Pattern(j, names[j], quote_of(central), members, central.key, tasks))
    return tuple(found)


def _stability(matrix: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> float:
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


def _doubts(
    items: Sequence[Failure], matrix: np.ndarray, labels: np.ndarray, share: float, steady: float | None
) -> list[str]:
    """Sentences for the reader about what to doubt in these labels."""
    found = []
    grouped = [i for i in range(len(items)) if labels[i] >= 0]
    if not grouped:
        found.append("No pattern found: every failure is noise (no two alike enough to call it one cause).")
    if float(matrix.max()) < 1e-6:
        found.append("All failures look identical to the distance: they form one pattern.")
    tasks = Counter(f.task_id for f in items)
    if len(tasks) == 1:
        found.append("All failures come from one task: no pattern can be recurring.")
    elif grouped:
        by_pattern: Mapping[int, Counter[str]] = defaultdict(Counter)
        for i in grouped:
            by_pattern[int(labels[i])][items[i].task_id] += 1
        top = sum(max(c.values()) for c in by_pattern.values()) / len(grouped)
        if top >= 0.7:
            found.append(
                f"You clustered tasks: {top:.0%} of the grouped failures share their pattern's main task. "
                "Lower the text weight or add tasks before reading causes into it."
            )
    if share < 0.9:
        found.append(f"The embedder saw only {share:.0%} of the card tokens.")
    if steady is not None and grouped and steady < 0.5:
        found.append(f"The patterns are unstable: mean ARI over subsamples is {steady:.2f}.")
    return found + _ward(matrix, labels, grouped)


def _ward(matrix: np.ndarray, labels: np.ndarray, grouped: Sequence[int]) -> list[str]:
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


def _sampled(
    items: Sequence[Failure], embedder: Embedder | None, weights: Weights, seed: int, stability: bool
) -> Patterns:
    """Patterns of a seeded sample; every other failure joins its nearest sampled one by path and checks."""
    import numpy as np

    chosen = np.sort(np.random.default_rng(seed).choice(len(items), SAMPLE, replace=False)).tolist()
    sample = [items[i] for i in chosen]
    found = _by_density(sample, embedder, weights, seed, stability)
    inside = set(chosen)
    rest = [failure for i, failure in enumerate(items) if i not in inside]
    near = [sample[j].key for j in nearest(rest, sample, weights)]
    label = {key: p.id for p in found.patterns for key in p.members}
    joined: dict[int, list[Failure]] = defaultdict(list)
    noise = dict(found.noise)
    for failure, key in zip(rest, near, strict=True):
        if key in label:
            joined[label[key]].append(failure)
        else:
            noise[failure.key] = found.noise[key]
    patterns = tuple(
        replace(
            p,
            members=(*p.members, *(f.key for f in joined[p.id])),
            tasks=tuple(sorted({*p.tasks, *(f.task_id for f in joined[p.id])})),
        )
        for p in found.patterns
    )
    keys = [*found.layout, *(f.key for f in rest)]
    spots = spread(np.array([*found.layout.values(), *(found.layout[key] for key in near)]))
    warning = (
        f"Sampled mode: {len(items)} failures are too many to compare each pair, so patterns were found on "
        f"{SAMPLE} drawn by seed {seed}; the others joined their nearest by path and checks, not by text."
    )
    return replace(
        found,
        patterns=patterns,
        noise=noise,
        layout={key: (float(x), float(y)) for key, (x, y) in zip(keys, spots, strict=True)},
        warnings=(warning, *found.warnings),
    )
