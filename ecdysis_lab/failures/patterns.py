"""Patterns: groups of failures with one cause, by a mixed distance and size-aware HDBSCAN.

Noise stays noise. Everything is deterministic: the same failures give the same patterns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ecdysis_lab.failures.clusters import METHOD, cluster, doubts, nearness
from ecdysis_lab.failures.clusters import stability as steadiness
from ecdysis_lab.failures.distance import DEFAULT, Weights, distances, distances_to, scaled
from ecdysis_lab.failures.layout import layout, spread
from ecdysis_lab.failures.names import names_of, quote_of, terms
from ecdysis_lab.failures.texts import vectors_of
from ecdysis_lab.records import Embedder, Failure, Pattern, Patterns

if TYPE_CHECKING:
    import numpy as np

FEW = 10  # below this, density means nothing: group by signature
MOST = 10_000  # compared each with each: 400 MB a matrix, about 3 GB in all; of more, a sample
BLOCK = 4_000  # of the others, compared with the sample at once: 160 MB a matrix
SAMPLED = (
    "Sampled mode: {n} failures are too many to compare each pair, so patterns were found on {most} drawn by seed "
    "{seed}; each of the others joined the pattern of its nearest drawn failure where it lies within the pattern's "
    "reach, and is noise otherwise."
)


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
    embedder : text to vectors; None takes ``embedding.embedder("auto")``.
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
    spots = _spots((f.key for f in items), layout(matrix))
    return Patterns(_describe(items, labels, matrix), {}, spots, "signature", "none", 1.0, None, (warning,))


def _by_density(
    items: Sequence[Failure], embedder: Embedder | None, weights: Weights, seed: int, stability: bool
) -> Patterns:
    import numpy as np

    vectors, share, name, warnings = _embedded(items, embedder, weights)
    chosen = np.arange(len(items))
    if len(items) > MOST:
        chosen = np.sort(np.random.default_rng(seed).choice(len(items), MOST, replace=False))
        warnings.insert(0, SAMPLED.format(n=len(items), most=MOST, seed=seed))
    sample = [items[i] for i in chosen.tolist()]
    matrix, factors = scaled(sample, None if vectors is None else vectors[chosen], weights)
    labels = cluster(matrix)
    steady = steadiness(matrix, labels, np.random.default_rng(seed)) if stability else None
    found = Patterns(
        patterns=_describe(sample, labels, matrix),
        noise=_noise(sample, labels, matrix, labels),
        layout=_spots((f.key for f in sample), layout(matrix)),
        method=METHOD,
        embedder=name,
        tokens_seen=share,
        stability=steady,
        warnings=(*warnings, *doubts(sample, matrix, labels, share, steady)),
    )
    if len(items) > MOST:
        found = _joined(found, labels, _reach(matrix, labels), _rest(items, vectors, chosen, factors))
    return found


def _embedded(
    items: Sequence[Failure], embedder: Embedder | None, weights: Weights
) -> tuple[np.ndarray | None, float, str, list[str]]:
    if weights.text == 0:
        return None, 0.0, "none", []
    if embedder is None:
        from ecdysis_lab.failures.embedding import embedder as make

        embedder = make("auto")
    vectors, share = vectors_of(items, embedder)
    return vectors, share, embedder.name, list(getattr(embedder, "warnings", ()))


def _noise(
    items: Sequence[Failure], own: np.ndarray, apart: np.ndarray, labels: np.ndarray
) -> dict[str, tuple[int, float]]:
    """Nearest pattern of each failure without one (by mean distance to its members) and the similarity to it.

    Parameters
    ----------
    own : labels of the failures. apart : their distances to all that were clustered, whose labels are ``labels``.

    The similarity is ``1 - d / 2``: 1 for the same, 0.5 for a pair as far apart as the mean pair.
    """
    import numpy as np

    groups = [labels == j for j in range(int(labels.max(initial=-1)) + 1)]
    out: dict[str, tuple[int, float]] = {}
    for i in np.flatnonzero(own < 0).tolist():
        means = [float(apart[i, group].mean()) for group in groups]
        near = min(range(len(means)), key=means.__getitem__, default=-1)
        out[items[i].key] = (near, round(max(0.0, 1 - means[near] / 2), 4) if means else 0.0)
    return out


def _spots(keys: Iterable[str], places: np.ndarray) -> dict[str, tuple[float, float]]:
    return {key: (float(x), float(y)) for key, (x, y) in zip(keys, places, strict=True)}


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


def _rest(
    items: Sequence[Failure], vectors: np.ndarray | None, chosen: np.ndarray, factors: Mapping[str, float]
) -> Iterator[tuple[list[Failure], np.ndarray]]:
    """The failures outside the sample in blocks, each with its distances to the sample, shape (block, sample)."""
    import numpy as np

    sample = [items[i] for i in chosen.tolist()]
    outside = np.setdiff1d(np.arange(len(items)), chosen)
    for part in np.split(outside, range(BLOCK, len(outside), BLOCK)):
        block = [items[i] for i in part.tolist()]
        sides = (None, None) if vectors is None else (vectors[part], vectors[chosen])
        yield block, distances_to(block, sample, factors, *sides)


def _joined(
    found: Patterns, labels: np.ndarray, reach: np.ndarray, rest: Iterable[tuple[list[Failure], np.ndarray]]
) -> Patterns:
    """The patterns of a sample with the other failures: each joins the pattern of the nearest sampled failure.

    One whose nearest is noise, or that is farther from it than ``reach`` of its pattern, is noise.
    """
    import numpy as np

    joined: dict[int, list[Failure]] = defaultdict(list)
    noise, spots, keys = dict(found.noise), dict(found.layout), list(found.layout)
    for block, apart in rest:
        near = apart.argmin(axis=1)
        own = np.where(apart.min(axis=1) <= reach[labels[near]], labels[near], -1)
        noise |= _noise(block, own, apart, labels)
        for failure, label, at in zip(block, own.tolist(), near.tolist(), strict=True):
            spots[failure.key] = found.layout[keys[at]]
            if label >= 0:
                joined[label].append(failure)
    patterns = tuple(
        replace(
            p,
            members=(*p.members, *(f.key for f in joined[p.id])),
            tasks=tuple(sorted({*p.tasks, *(f.task_id for f in joined[p.id])})),
        )
        for p in found.patterns
    )
    places = spread(np.array(list(spots.values())))
    return replace(found, patterns=patterns, noise=noise, layout=_spots(spots, places))


def _reach(matrix: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Largest distance of a member to its nearest fellow, by pattern; the last entry stands for noise."""
    import numpy as np

    reach = []
    for label in range(int(labels.max(initial=-1)) + 1):
        group = np.flatnonzero(labels == label)
        inner = matrix[np.ix_(group, group)]
        np.fill_diagonal(inner, np.inf)
        reach.append(max(float(inner.min(axis=1).max()), nearness(len(matrix))))
    return np.array([*reach, np.inf])
