"""Two lists of lines compared in bounded time: where comparing would take too long, a stretch counts as replaced."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence

MAX_PAIRS = 400_000  # pairs of equal lines, which a comparison looks at again for each stretch that it finds
CONTEXT = 3  # lines around a change in a unified diff
Opcode = tuple[str, int, int, int, int]


def comparable(left: Sequence[str], right: Sequence[str], most: int = MAX_PAIRS) -> bool:
    """Whether two sequences can be compared item by item in about a second (with ``most`` pairs, in less)."""
    counts = Counter(right)
    pairs = sum(n * counts[item] for item, n in Counter(left).items())
    return pairs + len(left) + len(right) <= most


def matcher(left: Sequence[str], right: Sequence[str], most: int = MAX_PAIRS) -> difflib.SequenceMatcher[str]:
    """A matcher of two sequences; where they are not :func:`comparable`, all between the first and the last
    difference is one replaced stretch.
    """
    if comparable(left, right, most):
        return difflib.SequenceMatcher(None, left, right, autojunk=False)
    made = difflib.SequenceMatcher(None, "", "")
    made.opcodes = list(_one_stretch(left, right))  # type: ignore[attr-defined]
    return made


def _one_stretch(left: Sequence[str], right: Sequence[str]) -> Iterator[Opcode]:
    shorter = min(len(left), len(right))
    head = next((i for i in range(shorter) if left[i] != right[i]), shorter)
    rest = shorter - head
    tail = next((i for i in range(rest) if left[-1 - i] != right[-1 - i]), rest)
    a, b = len(left) - tail, len(right) - tail
    if head:
        yield "equal", 0, head, 0, head
    if head < a or head < b:
        yield ("replace" if head < a and head < b else "delete" if head < a else "insert"), head, a, head, b
    if tail:
        yield "equal", a, len(left), b, len(right)


def unified(left: Sequence[str], right: Sequence[str], before: str, after: str) -> Iterator[str]:
    """Lines of a unified diff, as ``difflib.unified_diff`` gives them, under the names ``before`` and ``after``."""
    if comparable(left, right):
        yield from difflib.unified_diff(left, right, before, after, lineterm="")
        return
    yield from (f"--- {before}", f"+++ {after}")
    for group in matcher(left, right).get_grouped_opcodes(CONTEXT):
        a, b = (group[0][1], group[-1][2]), (group[0][3], group[-1][4])
        yield f"@@ -{a[0] + 1},{a[1] - a[0]} +{b[0] + 1},{b[1] - b[0]} @@"
        for tag, a0, a1, b0, b1 in group:
            if tag == "equal":
                yield from (" " + line for line in left[a0:a1])
            else:
                yield from ("-" + line for line in left[a0:a1])
                yield from ("+" + line for line in right[b0:b1])
