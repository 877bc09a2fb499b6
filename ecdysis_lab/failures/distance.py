"""How far two failures are from each other, and where to draw them on a map."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ecdysis_lab.records import Failure, LabError

if TYPE_CHECKING:
    import numpy as np

PARTS = ("text", "path", "checks")


@dataclass(frozen=True)
class Weights:
    """Weights of the distance's parts: card text, tool-call path, termination with failed checks.

    The defaults did best on simulated failures with planted causes (``tests/benchmarks/patterns.py``): the
    path mostly follows the task, and the checks take few values, which scaling to mean 1 blows up.
    """

    text: float = 3.0
    path: float = 0.5
    checks: float = 0.3

    def __post_init__(self) -> None:
        for name in PARTS:
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise LabError(f"weights.{name} must be a number of at least 0, got {value}")
        if self.text + self.path + self.checks == 0:
            raise LabError("weights: at least one of text, path and checks must be above 0")


DEFAULT = Weights()


def bigrams(path: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Pairs of neighbours in a tool-call path, its start and end included."""
    tokens = ("<start>", *path, "<end>")
    return frozenset(pairwise(tokens))


def distances(failures: Sequence[Failure], vectors: Any, weights: Weights = DEFAULT) -> np.ndarray:
    """Mixed distance between failures.

    Parameters
    ----------
    failures : n failures.
    vectors : unit vectors of their texts, shape (n, d), or None to leave the text out.
    weights : weights of the parts.

    Returns
    -------
    Array of shape (n, n), float32, symmetric, zero diagonal: the weighted mean of cosine (text), Jaccard
    (tool-outcome bigrams) and Hamming (termination, failed checks), each scaled to mean 1 over the pairs.
    A part in which all failures are equal stays 0.

    Raises
    ------
    LabError: vectors whose number is not n.
    """
    return scaled(failures, vectors, weights)[0]


def scaled(
    failures: Sequence[Failure], vectors: Any, weights: Weights = DEFAULT
) -> tuple[np.ndarray, dict[str, float]]:
    """What ``distances`` returns, and the factor of each part in it, for ``distances_to``."""
    import numpy as np

    n = len(failures)
    if vectors is not None and len(vectors) != n:
        raise LabError(f"vectors: {n} failures need {n} vectors, got {len(vectors)}")
    total = np.zeros((n, n), dtype=np.float32)
    factors: dict[str, float] = {}
    used = 0.0
    for name in PARTS:  # one at a time: at n = 10,000 each takes 400 MB
        weight = getattr(weights, name)
        if weight == 0 or (name == "text" and vectors is None):
            continue
        used += weight
        part = _part(name, failures, failures, vectors, vectors)
        np.fill_diagonal(part, 0.0)
        mean = float(part.sum(dtype=np.float64)) / max(n * (n - 1), 1)
        if mean > 1e-9:
            factors[name] = weight / mean
            part *= np.float32(factors[name])
            total += part
    total /= np.float32(used or 1.0)
    return total, {name: factor / used for name, factor in factors.items()}


def distances_to(
    failures: Sequence[Failure],
    others: Sequence[Failure],
    factors: Mapping[str, float],
    vectors: Any = None,
    other_vectors: Any = None,
) -> np.ndarray:
    """Distances of n failures to m others on the scale of those others, shape (n, m), float32.

    Parameters
    ----------
    factors : of the parts, from ``scaled(others, …)``. vectors, other_vectors : where the text is one of them.
    """
    import numpy as np

    total = np.zeros((len(failures), len(others)), dtype=np.float32)
    for name, factor in factors.items():
        total += np.float32(factor) * _part(name, failures, others, vectors, other_vectors)
    return total


def _part(
    name: str, left: Sequence[Failure], right: Sequence[Failure], left_vectors: Any, right_vectors: Any
) -> np.ndarray:
    """One part of the distance, unscaled, shape (left, right)."""
    if name == "text":
        return _cosine(left_vectors, right_vectors)
    return _path(left, right) if name == "path" else _hamming(left, right)


def _cosine(left: Any, right: Any) -> np.ndarray:
    import numpy as np

    out: np.ndarray = np.asarray(left, dtype=np.float32) @ np.asarray(right, dtype=np.float32).T
    np.subtract(1.0, out, out=out)
    return np.maximum(out, 0.0, out=out)


def _marks(
    left: Sequence[Failure], right: Sequence[Failure], items_of: Callable[[Failure], Iterable[Any]]
) -> tuple[np.ndarray, np.ndarray]:
    """The items of both sides as 0/1 matrices over the same columns."""
    one = [items_of(f) for f in left]
    two = one if left is right else [items_of(f) for f in right]
    columns = columns_of([*one, *two])
    marks = indicator(one, columns)
    return marks, marks if left is right else indicator(two, columns)


def indicator(sets: Sequence[Iterable[Any]], columns: dict[Any, int]) -> np.ndarray:
    """0/1 matrix of shape (n, columns), float32."""
    import numpy as np

    out = np.zeros((len(sets), max(len(columns), 1)), dtype=np.float32)
    for row, items in enumerate(sets):
        out[row, [columns[item] for item in items]] = 1.0
    return out


def columns_of(sets: Iterable[Iterable[Any]]) -> dict[Any, int]:
    """A column for each distinct item, in sorted order."""
    return {item: j for j, item in enumerate(sorted({i for s in sets for i in s}))}


def jaccard(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Jaccard similarity between rows of two 0/1 matrices, shape (n, m); two empty sets are the same."""
    import numpy as np

    shared: np.ndarray = left @ right.T
    union = left.sum(axis=1)[:, None] + right.sum(axis=1)[None, :]
    union -= shared
    np.divide(shared, union, out=shared, where=union > 0)
    shared[union == 0] = 1.0
    return shared


def _path(left: Sequence[Failure], right: Sequence[Failure]) -> np.ndarray:
    """Jaccard distance of the tool-outcome bigrams, shape (n, m)."""
    import numpy as np

    similar = jaccard(*_marks(left, right, lambda f: bigrams(f.path)))
    return np.subtract(1.0, similar, out=similar)


def _hamming(left: Sequence[Failure], right: Sequence[Failure]) -> np.ndarray:
    """Share of differing fields among the termination and each check that failed anywhere, shape (n, m)."""
    import numpy as np

    marks, others = _marks(left, right, lambda f: f.failed_checks)
    ends = columns_of([f.termination] for f in (*left, *right))
    one, two = (np.array([ends[f.termination] for f in side]) for side in (left, right))
    out: np.ndarray = marks @ others.T
    out *= -2.0
    out += marks.sum(axis=1)[:, None] + others.sum(axis=1)[None, :]
    out += one[:, None] != two[None, :]
    out /= np.float32(1 + marks.shape[1])
    return out
