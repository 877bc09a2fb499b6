"""Coverage of a set of failures: execution paths, defects, and how well it stands for all of them.

Coverage is the mean of three shares: tool-outcome bigrams seen, (pattern, failed check) pairs seen, and how
closely every failure is matched by a chosen one. It is monotone and submodular.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ecdysis_lab.distance import bigrams, columns_of, indicator
from ecdysis_lab.records import Failure, Patterns

if TYPE_CHECKING:
    import numpy as np

REFERENCES = 400  # failures that stand for all others in the representativeness


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
        self.labels = [label.get(f.key, -1) for f in failures]
        self.steps = [bigrams(f.path) for f in failures]
        self.pairs = [
            frozenset((j, check) for check in f.failed_checks or ("",)) if j >= 0 else frozenset()
            for f, j in zip(failures, self.labels, strict=True)
        ]
        self.all_steps = frozenset().union(*self.steps)
        self.all_pairs = frozenset[tuple[int, str]]().union(*self.pairs)
        n = len(failures)
        rng = np.random.default_rng(seed)
        chosen = np.sort(rng.choice(n, min(n, REFERENCES), replace=False))
        self.similar = self._similarity(chosen)  # (n, references)
        self.full = self.similar.max(axis=0, initial=0.0).sum()
        self.seen_steps: set[tuple[str, str]] = set()
        self.seen_pairs: set[tuple[int, str]] = set()
        self.best = np.zeros(len(chosen), dtype=np.float32)

    def _similarity(self, chosen: np.ndarray) -> np.ndarray:
        """Jaccard of the paths; failures of another pattern count half."""
        import numpy as np

        marks = indicator(self.steps, columns_of([self.all_steps]))
        shared = marks @ marks[chosen].T
        sizes = marks.sum(axis=1)
        shared /= sizes[:, None] + sizes[None, chosen] - shared
        labels = np.array(self.labels)
        same = (labels[:, None] == labels[None, chosen]) & (labels[:, None] >= 0)
        same[chosen, range(len(chosen))] = True  # noise is like itself only
        out: np.ndarray = np.where(same, shared, 0.5 * shared)
        return out

    def parts(self, i: int) -> tuple[float, float, float]:
        """What failure ``i`` would add: new bigrams, new pairs, representativeness gained."""
        import numpy as np

        closer = float(np.maximum(self.similar[i] - self.best, 0.0).sum() / self.full) if self.full else 0.0
        return len(self.steps[i] - self.seen_steps), len(self.pairs[i] - self.seen_pairs), closer

    def gain(self, i: int) -> float:
        """Coverage that failure ``i`` would add, in [0, 1]."""
        steps, pairs, closer = self.parts(i)
        terms = (steps / max(len(self.all_steps), 1), pairs / max(len(self.all_pairs), 1), closer)
        return sum(terms) / 3 if self.all_pairs else (terms[0] + terms[2]) / 2

    def add(self, i: int) -> None:
        """Count failure ``i`` as chosen."""
        import numpy as np

        self.seen_steps |= self.steps[i]
        self.seen_pairs |= self.pairs[i]
        np.maximum(self.best, self.similar[i], out=self.best)

    def curve(self, order: Sequence[int]) -> np.ndarray:
        """Coverage after each failure of an order, from nothing; shape (len(order),)."""
        import numpy as np

        def share(sets: Sequence[frozenset[object]], total: int) -> np.ndarray:
            seen: set[object] = set()
            counts = []
            for i in order:
                seen |= sets[i]
                counts.append(len(seen))
            return np.array(counts, dtype=float) / max(total, 1)

        if not len(order):
            return np.zeros(0)
        best = np.maximum.accumulate(self.similar[list(order)], axis=0).sum(axis=1)
        closer = best / self.full if self.full else np.zeros(len(order))
        steps = share(self.steps, len(self.all_steps))  # type: ignore[arg-type]
        if not self.all_pairs:
            return np.asarray((steps + closer) / 2)
        return np.asarray((steps + share(self.pairs, len(self.all_pairs)) + closer) / 3)  # type: ignore[arg-type]
