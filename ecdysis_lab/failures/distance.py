"""How far two failures are from each other, and where to draw them on a map."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ecdysis_lab.failures.cards import PUT_RIGHT
from ecdysis_lab.failures.transcript import clean
from ecdysis_lab.records import Embedder, Failure, LabError

if TYPE_CHECKING:
    import numpy as np

WRONG_TO_SAID = 1.5
LANDMARKS = 500  # above this many failures the layout is computed from landmarks

_STEP = re.compile(r"^\[\d+\] |(?<=: )\[\d+\] ", re.MULTILINE)
_CALL = re.compile(r"\[\d+\] (call|ok) ")
_METHOD = re.compile(r"\b\w+\.\w+\(\)")  # Class.method() in an error text
_CODED = re.compile(r"[#\w@.:/+-]*\d[\w@.:/+-]*")
_PUNCTUATION = re.compile(r"[{}\[\]\"'|*#$,;:()→]+")


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
        for name in ("text", "path", "checks"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise LabError(f"weights.{name} must be a number of at least 0, got {value}")
        if self.text + self.path + self.checks == 0:
            raise LabError("weights: at least one of text, path and checks must be above 0")


DEFAULT = Weights()


def texts_of(failure: Failure) -> tuple[str, str]:
    """What the embedder gets of a card: what went wrong, and what was said last.

    What went wrong is the first bad thing without the tool it happened in (the path holds that), so that one
    cause reads alike in every tool; where nothing is visible or the error was put right, it is the writes made
    and the last call. Codes, dates and amounts name the task, not the cause, and are left out of both.
    """
    lines = failure.card.split("\n")
    start = lines.index("Last exchanges:")
    said = [line for line in lines[start + 1 :] if not _CALL.match(line)]
    what = failure.first_bad_what
    if not what or what.endswith(PUT_RIGHT):
        writes = next(line for line in lines if line.startswith("Writes: "))
        what = f"{writes}. Last call: {failure.path[-1] if failure.path else 'none'}"
    elif not what.startswith(("claimed", "harness")):
        what = what.partition(": ")[2]
    return _plain(_METHOD.sub("", what)), "\n".join(_plain(_STEP.sub("", line)) for line in said)


def _plain(text: str) -> str:
    return clean(_PUNCTUATION.sub(" ", _CODED.sub(" ", text.replace("_", " "))))


def vectors_of(failures: Sequence[Failure], embedder: Embedder) -> tuple[np.ndarray, float]:
    """Unit vectors of failures, three parts what went wrong to two parts what was said, and the token share.

    Embedding the card in one piece loses the one line that matters among the others: on simulated failures
    with planted causes the share of same-cause pairs among the nearest falls from 0.8 to 0.6.
    """
    import numpy as np

    pairs = [texts_of(f) for f in failures]
    vectors, share = embedder.encode([text for pair in pairs for text in pair])
    both = np.asarray(vectors, dtype=np.float32).reshape(len(failures), 2, -1)
    mixed = WRONG_TO_SAID * both[:, 0] + both[:, 1]
    norms = np.linalg.norm(mixed, axis=1, keepdims=True)
    return np.divide(mixed, norms, out=np.zeros_like(mixed), where=norms > 0), share


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
    import numpy as np

    n = len(failures)
    if vectors is not None and len(vectors) != n:
        raise LabError(f"vectors: {n} failures need {n} vectors, got {len(vectors)}")
    total = np.zeros((n, n), dtype=np.float32)
    used = 0.0
    for name in ("text", "path", "checks"):  # one at a time: at n = 10,000 each takes 400 MB
        weight = getattr(weights, name)
        if weight == 0 or (name == "text" and vectors is None):
            continue
        used += weight
        part = _cosine(vectors) if name == "text" else {"path": _path, "checks": _hamming}[name](failures)
        np.fill_diagonal(part, 0.0)
        mean = float(part.sum(dtype=np.float64)) / max(n * (n - 1), 1)
        if mean > 1e-9:
            part *= np.float32(weight / mean)
            total += part
    total /= np.float32(used or 1.0)
    return total


def nearest(others: Sequence[Failure], failures: Sequence[Failure], weights: Weights = DEFAULT) -> list[int]:
    """For each of ``others`` the position of the nearest failure, by words in place of embedded texts.

    The same parts and weights as in ``distances``, each as a Jaccard distance of sets: words of what went wrong,
    words of what was said, tool-outcome bigrams, termination with failed checks.
    """
    import numpy as np

    share = WRONG_TO_SAID / (1 + WRONG_TO_SAID)
    scale = (weights.text * share, weights.text * (1 - share), weights.path, weights.checks)
    known = list(zip(*map(_sets, failures), strict=True))
    names = [columns_of(sets) for sets in known]
    marks = [indicator(sets, n) for sets, n in zip(known, names, strict=True)]
    found: list[int] = []
    for start in range(0, len(others), 1000):
        block = list(zip(*map(_sets, others[start : start + 1000]), strict=True))
        total = np.zeros((len(block[0]), len(failures)), dtype=np.float32)
        for weight, sets, columns, right in zip(scale, block, names, marks, strict=True):
            if weight > 0:
                gap = _jaccard(indicator(sets, columns), right, np.array([len(s) for s in sets]))
                total += np.float32(weight / max(float(gap.mean()), 1e-9)) * gap
        found += total.argmin(axis=1).tolist()
    return found


def _sets(failure: Failure) -> tuple[frozenset[Any], ...]:
    """What ``nearest`` compares of a failure."""
    wrong, said = (frozenset(text.lower().split()) for text in texts_of(failure))
    return (
        wrong,
        said,
        bigrams(failure.path),
        frozenset([f"ended {failure.termination}", *failure.failed_checks]),
    )


def _cosine(vectors: Any) -> np.ndarray:
    import numpy as np

    array = np.asarray(vectors, dtype=np.float32)
    out: np.ndarray = array @ array.T
    np.subtract(1.0, out, out=out)
    return np.maximum(out, 0.0, out=out)


def indicator(sets: Sequence[Iterable[Any]], columns: dict[Any, int]) -> np.ndarray:
    """0/1 matrix of shape (n, columns), float32; items without a column are left out."""
    import numpy as np

    out = np.zeros((len(sets), max(len(columns), 1)), dtype=np.float32)
    for row, items in enumerate(sets):
        out[row, [columns[item] for item in items if item in columns]] = 1.0
    return out


def columns_of(sets: Iterable[Iterable[Any]]) -> dict[Any, int]:
    """A column for each distinct item, in sorted order."""
    return {item: j for j, item in enumerate(sorted({i for s in sets for i in s}))}


def _jaccard(left: np.ndarray, right: np.ndarray, left_sizes: np.ndarray) -> np.ndarray:
    """Jaccard distance between rows of two indicator matrices, shape (n, m); two empty sets are the same.

    ``left_sizes`` counts items without a column too.
    """
    import numpy as np

    shared: np.ndarray = left @ right.T
    union = left_sizes[:, None].astype(np.float32) + right.sum(axis=1)[None, :]
    union -= shared
    np.divide(shared, union, out=shared, where=union > 0)
    shared[union == 0] = 1.0
    return np.subtract(1.0, shared, out=shared)


def _path(failures: Sequence[Failure]) -> np.ndarray:
    """Jaccard distance of the tool-outcome bigrams, shape (n, n)."""
    sets = [bigrams(f.path) for f in failures]
    marks = indicator(sets, columns_of(sets))
    return _jaccard(marks, marks, marks.sum(axis=1))


def _hamming(failures: Sequence[Failure]) -> np.ndarray:
    """Share of differing fields among the termination and each check that failed anywhere, shape (n, n)."""
    import numpy as np

    ends = {end: i for i, end in enumerate(sorted({f.termination for f in failures}))}
    codes = np.array([ends[f.termination] for f in failures])
    sets = [f.failed_checks for f in failures]
    names = columns_of(sets)
    marks = indicator(sets, names)
    sizes = marks.sum(axis=1)
    out: np.ndarray = marks @ marks.T
    out *= -2.0
    out += sizes[:, None] + sizes[None, :]
    out += codes[:, None] != codes[None, :]
    out /= np.float32(1 + len(names))
    return out


def layout(matrix: np.ndarray) -> np.ndarray:
    """Positions for plotting only: classical scaling of a distance matrix, deterministic.

    Parameters
    ----------
    matrix : distances, shape (n, n).

    Returns
    -------
    Array of shape (n, 2); failures at one place are spread a little, so that each can be clicked.
    """
    import numpy as np

    n = len(matrix)
    if n < 2:
        return np.zeros((n, 2))
    from scipy.linalg import eigh

    marks = np.unique(np.linspace(0, n - 1, min(n, LANDMARKS)).astype(int))
    squared = matrix[np.ix_(marks, marks)].astype(np.float64) ** 2
    means = squared.mean(axis=0)
    inner = -0.5 * (squared - means - means[:, None] + squared.mean())
    values, axes = eigh(inner, subset_by_index=[len(marks) - 2, len(marks) - 1])
    values, axes = values[::-1], axes[:, ::-1]
    axes = axes * np.sign(
        axes[np.abs(axes).argmax(axis=0), range(axes.shape[1])]
    )  # eigenvectors have no sign
    scale = np.divide(1.0, np.sqrt(values), out=np.zeros_like(values), where=values > 1e-9)
    # Landmark scaling (de Silva and Tenenbaum 2004): the same formula places landmarks and the rest.
    spots = -0.5 * (matrix[:, marks].astype(np.float64) ** 2 - means) @ (axes * scale)
    return spread(spots)


def spread(spots: np.ndarray) -> np.ndarray:
    """Positions with those at one place moved apart in a small spiral; changes and returns ``spots``."""
    import numpy as np

    width = float(np.ptp(spots, axis=0).max()) or 1.0
    seen: dict[tuple[float, float], int] = {}
    for spot in spots:
        place = (round(float(spot[0]) / width, 3), round(float(spot[1]) / width, 3))
        k = seen[place] = seen.get(place, -1) + 1
        radius, angle = 0.012 * width * math.sqrt(k), 2.39996 * k  # sunflower
        spot += (radius * math.cos(angle), radius * math.sin(angle))
    return spots
