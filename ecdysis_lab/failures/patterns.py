"""Patterns: groups of failures with one cause, by a mixed distance and size-aware HDBSCAN.

Noise stays noise. Everything is deterministic: the same failures give the same patterns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ecdysis_lab.failures.clusters import cluster, doubts
from ecdysis_lab.failures.clusters import stability as steadiness
from ecdysis_lab.failures.distance import DEFAULT, Weights, distances, layout, nearest, spread, vectors_of
from ecdysis_lab.failures.names import names_of, quote_of, terms
from ecdysis_lab.records import Embedder, Failure, Pattern, Patterns

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Weights", "cluster", "distances", "find_patterns", "signature"]

FEW = 10  # below this, density means nothing: group by signature
SAMPLED, SAMPLE = 12_000, 6_000  # above the first, patterns are found on a sample of the second


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
    steady = steadiness(matrix, labels, np.random.default_rng(seed)) if stability else None
    warnings += doubts(items, matrix, labels, share, steady)
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
        from ecdysis_lab.failures.embedding import embedder as make

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


def _sampled(
    items: Sequence[Failure], embedder: Embedder | None, weights: Weights, seed: int, stability: bool
) -> Patterns:
    """Patterns of a seeded sample; every other failure joins its nearest sampled one."""
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
        f"{SAMPLE} drawn by seed {seed}; the others joined their nearest by words, path and checks."
    )
    return replace(
        found,
        patterns=patterns,
        noise=noise,
        layout={key: (float(x), float(y)) for key, (x, y) in zip(keys, spots, strict=True)},
        warnings=(warning, *found.warnings),
    )
