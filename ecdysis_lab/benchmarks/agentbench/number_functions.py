"""MySQL's functions on numbers, for SQLite; exact for whole numbers and decimals, doubles for texts."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

from ecdysis_lab.benchmarks.agentbench.calls import Function, strict, whole
from ecdysis_lab.benchmarks.agentbench.errors import MySQLError
from ecdysis_lab.benchmarks.agentbench.values import compare, number


def _decimals_of(value: Any) -> int:
    return max(-int(value.as_tuple().exponent), 0) if isinstance(value, Decimal) else 0


def _rounded(rounding: str) -> Function:
    def round_to(value: Any, digits: Any = 0) -> Any:
        value, places = number(value), min(max(whole(digits), -30), 30)
        if isinstance(value, float):
            if not math.isfinite(value) or abs(value) > 1e15:
                return value
            scaled = value * 10.0**places
            return float(math.trunc(scaled) if rounding == ROUND_DOWN else round(scaled)) / 10.0**places
        unit = Decimal(1).scaleb(-min(places, _decimals_of(value)))
        result = Decimal(value).quantize(unit, rounding)
        if places < 0:
            result = result.quantize(Decimal(1))
        return int(result) if isinstance(value, int) else result

    return strict(round_to)


def _to_whole(function: Callable[[Any], int]) -> Function:
    def call(value: Any) -> Any:
        value = number(value)
        if isinstance(value, float):
            return float(function(value)) if math.isfinite(value) else value
        return function(value)

    return strict(call)


def _real(function: Callable[..., float]) -> Function:
    def call(*values: Any) -> float | None:
        try:
            result = function(*(float(number(value)) for value in values))
        except (ValueError, ZeroDivisionError):
            return None
        except OverflowError:
            raise MySQLError(1690, "DOUBLE value is out of range") from None
        return result if isinstance(result, float) and math.isfinite(result) else None

    return strict(call)


def extreme(sign: int) -> Function:
    """GREATEST (sign 1) or LEAST (-1): numbers when any argument is a number."""

    def call(*values: Any) -> Any:
        if any(value is None for value in values):
            return None
        best = values[0]
        if not all(isinstance(value, str) for value in values):
            values = tuple(number(value) if isinstance(value, str) else value for value in values)
            best = values[0]
        for value in values[1:]:
            if (compare(value, best) or 0) * sign > 0:
                best = value
        if any(isinstance(value, float) for value in values) and isinstance(best, int | Decimal):
            return float(best)
        return best

    return call


def _sign(value: Any) -> int:
    value = number(value)
    return (value > 0) - (value < 0)


def _log(value: float, other: float | None = None) -> float:
    return math.log(value) if other is None else math.log(other, value)


NUMBER_FUNCTIONS: dict[str, tuple[Function, int, int, str]] = {
    "round": (_rounded(ROUND_HALF_UP), 1, 2, "number"),
    "truncate": (_rounded(ROUND_DOWN), 2, 2, "number"),
    "ceil": (_to_whole(math.ceil), 1, 1, "number"),
    "ceiling": (_to_whole(math.ceil), 1, 1, "number"),
    "floor": (_to_whole(math.floor), 1, 1, "number"),
    "abs": (strict(lambda value: abs(number(value))), 1, 1, "number"),
    "sign": (strict(_sign), 1, 1, "int"),
    "sqrt": (_real(math.sqrt), 1, 1, "real"),
    "exp": (_real(math.exp), 1, 1, "real"),
    "ln": (_real(math.log), 1, 1, "real"),
    "log": (_real(_log), 1, 2, "real"),
    "log2": (_real(math.log2), 1, 1, "real"),
    "log10": (_real(math.log10), 1, 1, "real"),
    "pow": (_real(math.pow), 2, 2, "real"),
    "power": (_real(math.pow), 2, 2, "real"),
    "pi": (lambda: 3.141593, 0, 0, "real"),
    "rand": (
        lambda *seed: random.Random(*map(str, seed)).random() if seed else random.random(),
        0,
        1,
        "real",
    ),
    "sin": (_real(math.sin), 1, 1, "real"),
    "cos": (_real(math.cos), 1, 1, "real"),
    "tan": (_real(math.tan), 1, 1, "real"),
    "atan": (_real(math.atan), 1, 1, "real"),
    "radians": (_real(math.radians), 1, 1, "real"),
    "degrees": (_real(math.degrees), 1, 1, "real"),
    "greatest": (extreme(1), 2, 99, "any"),
    "least": (extreme(-1), 2, 99, "any"),
}
