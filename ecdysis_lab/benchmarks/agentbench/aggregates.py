"""MySQL's aggregate functions, as SQLite wants them: classes with ``step``, ``value``, ``inverse`` and ``finalize``."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from functools import cmp_to_key
from typing import Any

from ecdysis_lab.benchmarks.agentbench.values import compare, fold, load, number, save, text

GROUP_CONCAT_CHARACTERS = 1_048_576


class _Window:
    """Keeps what it was given, so that a window may move."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def step(self, *values: Any) -> None:
        """Take one row."""
        if values[0] is not None:
            self.seen.append(load(values[0]))

    def inverse(self, *values: Any) -> None:
        """Forget the oldest row."""
        if values[0] is not None:
            self.seen.pop(0)

    def result(self) -> Any:
        """The value of the rows seen."""
        raise NotImplementedError

    def value(self) -> Any:
        """The value now."""
        return save(self.result())

    finalize = value


def _total(seen: list[Any]) -> Any:
    numbers = [number(value) for value in seen]
    if any(isinstance(value, float) for value in numbers):
        total = 0.0
        for value in numbers:
            total += float(value)
        return total
    return sum(numbers)


class Sum(_Window):
    """SUM: exact for whole numbers and decimals, a double for texts."""

    def result(self) -> Any:
        """The total."""
        return _total(self.seen) if self.seen else None


class Avg(_Window):
    """AVG: four more decimals than its argument has, a double for texts."""

    def result(self) -> Any:
        """The mean."""
        if not self.seen:
            return None
        total = _total(self.seen)
        if isinstance(total, float):
            return total / len(self.seen)
        exponent = total.as_tuple().exponent if isinstance(total, Decimal) else 0
        return (Decimal(total) / len(self.seen)).quantize(Decimal(1).scaleb(int(exponent) - 4), ROUND_HALF_UP)


class _Spread(_Window):
    sample = 0
    root = False

    def result(self) -> Any:
        count = len(self.seen) - self.sample
        if count <= 0:
            return None
        numbers = [float(number(value)) for value in self.seen]
        mean = sum(numbers) / len(numbers)
        variance = sum((value - mean) ** 2 for value in numbers) / count
        return math.sqrt(variance) if self.root else variance


class VarPop(_Spread):
    """VARIANCE and VAR_POP."""


class StdPop(_Spread):
    """STD, STDDEV and STDDEV_POP."""

    root = True


class VarSamp(_Spread):
    """VAR_SAMP."""

    sample = 1


class StdSamp(_Spread):
    """STDDEV_SAMP."""

    sample, root = 1, True


class Max(_Window):
    """MAX by MySQL's order."""

    sign = 1

    def result(self) -> Any:
        """The extreme value."""
        best = None
        for value in self.seen:
            if best is None or (compare(value, best) or 0) * self.sign > 0:
                best = value
        return best


class Min(Max):
    """MIN by MySQL's order."""

    sign = -1


class First:
    """The value of a group's first row: what MySQL gives for a column that is neither grouped nor aggregated."""

    def __init__(self) -> None:
        self.held: Any = None
        self.empty = True

    def step(self, value: Any) -> None:
        """Take one row."""
        if self.empty:
            self.held, self.empty = value, False

    def finalize(self) -> Any:
        """The first value."""
        return self.held


class CountDistinct:
    """COUNT(DISTINCT a, b …): rows with a NULL do not count."""

    def __init__(self) -> None:
        self.seen: set[tuple[Any, ...]] = set()

    def step(self, *values: Any) -> None:
        """Take one row."""
        if None not in values:
            self.seen.add(tuple(fold(value) if isinstance(value, str) else value for value in values))

    def finalize(self) -> int:
        """How many."""
        return len(self.seen)


class GroupConcat:
    """GROUP_CONCAT(shape, separator, parts …, keys …); the shape is ``d<parts><directions>``, as ``d1+-``."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, list[Any]]] = []
        self.known: set[str] = set()
        self.shape, self.separator, self.size = "-1", ",", 0

    def step(self, shape: str, separator: str, *values: Any) -> None:
        """Take one row."""
        self.shape, self.separator = shape, separator
        parts = [load(value) for value in values[: int(shape[1])]]
        if None not in parts and self.size < 4 * GROUP_CONCAT_CHARACTERS:
            written = "".join(map(text, parts))
            if shape[0] == "d" and fold(written) in self.known:
                return
            self.known.add(fold(written))
            self.rows.append((written, [load(value) for value in values[int(shape[1]) :]]))
            self.size += len(written)

    def finalize(self) -> Any:
        """The joined text, NULL without rows, cut at the limit."""
        if not self.rows:
            return None
        for place, direction in reversed(list(enumerate(self.shape[2:]))):
            self.rows.sort(key=cmp_to_key(_by_key(place)), reverse=direction == "-")
        texts = [row[0] for row in self.rows]
        return self.separator.join(texts)[:GROUP_CONCAT_CHARACTERS]


def _by_key(place: int) -> Callable[[Any, Any], int]:
    return lambda left, right: _order(left[1][place], right[1][place])


def _order(left: Any, right: Any) -> int:
    if left is None or right is None:
        return (left is not None) - (right is not None)
    return compare(left, right) or 0


WINDOWED = {
    "sum": Sum,
    "avg": Avg,
    "std": StdPop,
    "stddev": StdPop,
    "stddev_pop": StdPop,
    "stddev_samp": StdSamp,
    "variance": VarPop,
    "var_pop": VarPop,
    "var_samp": VarSamp,
    "max": Max,
    "min": Min,
}
