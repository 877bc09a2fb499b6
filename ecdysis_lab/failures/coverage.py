"""Coverage of a set of failures: execution paths, defects, and how well it stands for all of them.

Coverage is a weighted mean of three shares, monotone and submodular:

- paths: tool-outcome bigrams seen;
- defects: (pattern, failed check) and (pattern, what went wrong) pairs seen, each further pair of one pattern
  counting less (square root), so that a new pattern comes before a new face of a known one;
- representativeness: how closely every failure is matched by a chosen one in what went wrong and what was said.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ecdysis_lab.failures.distance import bigrams, columns_of, indicator, jaccard
from ecdysis_lab.failures.texts import texts_of
from ecdysis_lab.records import Failure, Patterns

if TYPE_CHECKING:
    import numpy as np

Pair = tuple[int, str]
WRONG = "wrong: "  # marks a pair that says what went wrong, not which check failed
REFERENCES = 400  # failures that stand for all others in the representativeness
# Paths, defects, representativeness: did best in tests/benchmarks/subset.py. Paths alone chase odd trials.
WEIGHTS = (1 / 9, 4 / 9, 4 / 9)


def _pairs(failure: Failure, label: int, wrong: str) -> frozenset[Pair]:
    """Defect pairs of a failure; noise has no pattern that a check could fail in, only what went wrong."""
    checks = failure.failed_checks or ("",)
    return frozenset([(label, WRONG + wrong), *((label, check) for check in checks if label >= 0)])


def _weight(pairs: Iterable[Pair]) -> float:
    """Square root of the pairs of each pattern; every kind of noise is a pattern of its own."""
    counts = Counter(label if label >= 0 else (label, what) for label, what in pairs)
    return sum(math.sqrt(n) for n in counts.values())


class Coverage:
    """Coverage of a growing set of failures.

    Parameters
    ----------
    failures : the candidates.
    patterns : their patterns.
    seed : seed of the reference failures, where there are more than 400.
    """

    def __init__(self, failures: Sequence[Failure], patterns: Patterns, seed: int = 0) -> None:
        import numpy as np

        label = {key: p.id for p in patterns.patterns for key in p.members}
        texts = [texts_of(f) for f in failures]
        self.labels = [label.get(f.key, -1) for f in failures]
        self.steps = [bigrams(f.path) for f in failures]
        self.pairs = [_pairs(f, j, t[0]) for f, j, t in zip(failures, self.labels, texts, strict=True)]
        self.n_steps = max(len(frozenset().union(*self.steps)), 1)
        self.all_weight = _weight(frozenset[Pair]().union(*self.pairs)) or 1.0
        n = len(failures)
        chosen = np.sort(np.random.default_rng(seed).choice(n, min(n, REFERENCES), replace=False))
        self.similar = self._similarity(texts, chosen)  # (n, references)
        self.full = float(self.similar.max(axis=0, initial=0.0).sum()) or 1.0
        self._step_rows, self._pair_rows = _Rows(self.steps), _Rows(self.pairs)
        # Each kind of noise is a group of its own, apart from the patterns' numbers.
        self._pair_groups = np.array(
            [j if j >= 0 else -1 - k for (j, _), k in self._pair_rows.columns.items()]
        )
        self.seen_steps: set[tuple[str, str]] = set()
        self.seen_pairs: set[Pair] = set()
        self.seen_by_label: Counter[int] = Counter()
        self.best = np.zeros(len(chosen), dtype=np.float32)

    def _similarity(self, texts: Sequence[tuple[str, str]], chosen: np.ndarray) -> np.ndarray:
        """Mean Jaccard of the words of both texts; failures of another pattern, and noise, count half."""
        import numpy as np

        parts = []
        for part in (0, 1):
            words = [frozenset(t[part].lower().split()) for t in texts]
            marks = indicator(words, columns_of(words))
            parts.append(jaccard(marks, marks[chosen]))
        mean = (parts[0] + parts[1]) / 2
        labels = np.array(self.labels)
        same = (labels[:, None] == labels[None, chosen]) & (labels[:, None] >= 0)
        same[chosen, range(len(chosen))] = True
        return np.where(same, mean, 0.5 * mean)

    def parts(self, i: int) -> tuple[int, int, float]:
        """What failure ``i`` would add: new bigrams, new pairs, representativeness as a share."""
        import numpy as np

        closer = float(np.maximum(self.similar[i] - self.best, 0.0).sum()) / self.full
        return len(self.steps[i] - self.seen_steps), len(self.pairs[i] - self.seen_pairs), closer

    def gain(self, i: int) -> float:
        """Coverage that failure ``i`` would add, in [0, 1]."""
        steps, pairs, closer = self.parts(i)
        defects = 0.0
        if pairs:
            known = self.seen_by_label[self.labels[i]] if self.labels[i] >= 0 else 0
            defects = math.sqrt(known + pairs) - math.sqrt(known)  # one pair at most where it is noise
        shares = (steps / self.n_steps, defects / self.all_weight, closer)
        return sum(w * s for w, s in zip(WEIGHTS, shares, strict=True))

    def add(self, i: int) -> None:
        """Count failure ``i`` as chosen."""
        import numpy as np

        self.seen_steps |= self.steps[i]
        self.seen_by_label[self.labels[i]] += len(self.pairs[i] - self.seen_pairs)
        self.seen_pairs |= self.pairs[i]
        np.maximum(self.best, self.similar[i], out=self.best)

    def curve(self, order: Sequence[int]) -> np.ndarray:
        """Coverage after each failure of an order, from nothing; shape (len(order),)."""
        import numpy as np

        if not len(order):
            return np.zeros(0)
        chosen = np.asarray(order)
        _, at = self._step_rows.first(chosen)
        steps = np.bincount(at, minlength=len(chosen)).cumsum() / self.n_steps
        pairs, at = self._pair_rows.first(chosen)
        groups = self._pair_groups[pairs]
        by_group = np.lexsort((at, groups))
        _, starts, sizes = np.unique(groups[by_group], return_index=True, return_counts=True)
        rank = np.arange(len(pairs)) - np.repeat(starts, sizes)  # of a pair among those of its pattern
        gains = np.bincount(at[by_group], np.sqrt(rank + 1) - np.sqrt(rank), len(chosen))
        best = np.maximum.accumulate(self.similar[chosen], axis=0).sum(axis=1) / self.full
        return np.asarray(
            np.column_stack([steps, gains.cumsum() / self.all_weight, best]) @ np.array(WEIGHTS)
        )


class _Rows:
    """Sets of items as one flat array of item numbers, row after row."""

    def __init__(self, sets: Sequence[Iterable[Any]]) -> None:
        import numpy as np

        self.columns = columns_of(sets)
        rows = [sorted(self.columns[item] for item in s) for s in sets]
        self.items = np.array([item for row in rows for item in row], dtype=np.int64)
        self.ends = np.cumsum([0, *map(len, rows)])

    def first(self, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Items of the rows in an order, each once, and the position in the order where each comes first."""
        import numpy as np

        starts = self.ends[order]
        sizes = self.ends[order + 1] - starts
        within = np.arange(sizes.sum()) - np.repeat(sizes.cumsum() - sizes, sizes)
        found, first = np.unique(self.items[within + np.repeat(starts, sizes)], return_index=True)
        return found, np.repeat(np.arange(len(order)), sizes)[first]
