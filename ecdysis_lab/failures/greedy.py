"""The greedy choice of failures by coverage, in which a recurring pattern comes with a second task.

Coverage is submodular, so without the second tasks the lazy greedy choice is within 1 - 1/e of the best (Nemhauser et
al. 1978; Minoux 1978).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from ecdysis_lab.failures.coverage import Coverage
from ecdysis_lab.failures.reasons import reason_of
from ecdysis_lab.records import Failure, Patterns, Pick


def greedy(
    items: Sequence[Failure],
    patterns: Patterns,
    coverage: Coverage,
    size: int,
    pinned: Sequence[int],
    excluded: set[int],
    cap: int,
) -> list[tuple[int, Pick]]:
    """Positions and picks in the order chosen.

    Parameters
    ----------
    items, patterns : the failures and their patterns. coverage : of nothing yet; counts the picks.
    size : how many to pick. pinned, excluded : positions that come first, and that stay out.
    cap : most failures that may be noise, pins aside.
    """
    sizes = {p.id: len(p.members) for p in patterns.patterns}
    # Ties go to the larger pattern, then to the key, so that the choice is the same everywhere.
    rest = [i for i in range(len(items)) if i not in excluded and i not in set(pinned)]
    heap = [(-coverage.gain(i), -sizes.get(coverage.labels[i], 0), i) for i in rest]
    heapq.heapify(heap)
    twice = _Twice(items, patterns, coverage.labels, [*pinned, *rest])
    picks: list[tuple[int, Pick]] = []
    noise = 0

    def take(i: int, by_hand: bool) -> None:
        nonlocal noise
        said = reason_of(coverage, patterns, i, second=twice.is_second(i))
        reason = ("Pinned by hand; it " if by_hand else "It ") + said
        picks.append((i, Pick(items[i].key, round(coverage.gain(i), 6), reason)))
        coverage.add(i)
        twice.add(i)
        noise += coverage.labels[i] < 0

    for i in pinned:
        take(i, True)
    while heap and len(picks) < size:
        _, weight, i = heapq.heappop(heap)
        if (coverage.labels[i] < 0 and noise >= cap) or not twice.allows(i, size - len(picks)):
            continue  # for good, since the room that is free only shrinks
        gain = coverage.gain(i)  # gains only fall: if it still leads, it is the best
        if heap and (-gain, weight, i) > heap[0]:
            heapq.heappush(heap, (-gain, weight, i))
        else:
            take(i, False)
    return picks


class _Twice:
    """Keeps room for a second task of every recurring pattern.

    Parameters
    ----------
    items, patterns : the failures and their patterns. labels : pattern id by position.
    there : positions that can be picked.
    """

    def __init__(
        self, items: Sequence[Failure], patterns: Patterns, labels: Sequence[int], there: Sequence[int]
    ) -> None:
        self.tasks = [f.task_id for f in items]
        self.labels = labels
        in_reach: dict[int, set[str]] = {p.id: set() for p in patterns.recurring}
        for i in there:
            if labels[i] in in_reach:
                in_reach[labels[i]].add(self.tasks[i])
        self.unseen = {label for label, tasks in in_reach.items() if len(tasks) > 1}
        self.once: dict[int, str] = {}

    def is_second(self, i: int) -> bool:
        """Whether a failure is the second task of a pattern that was picked from one."""
        return self.once.get(self.labels[i], self.tasks[i]) != self.tasks[i]

    def allows(self, i: int, left: int) -> bool:
        """Whether ``left`` picks, this one among them, leave room for the second tasks.

        A pattern that is new may always take what is free; anything else only what no recurring pattern needs.
        """
        if self.is_second(i):
            return True
        needed = 0 if self.labels[i] in self.unseen else 2 * len(self.unseen)
        return left > len(self.once) + needed

    def add(self, i: int) -> None:
        """Count a failure as picked."""
        label = self.labels[i]
        if label in self.unseen:
            self.unseen.discard(label)
            self.once[label] = self.tasks[i]
        elif self.is_second(i):
            del self.once[label]
