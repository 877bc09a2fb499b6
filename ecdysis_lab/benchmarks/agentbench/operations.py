"""MySQL's comparisons, arithmetic and conversions, for SQLite; a text counts as the number it begins with."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from ecdysis_lab.benchmarks.agentbench.calls import Function, strict
from ecdysis_lab.benchmarks.agentbench.dates import shift
from ecdysis_lab.benchmarks.agentbench.patterns import like, regexp
from ecdysis_lab.benchmarks.agentbench.values import NUMBER, WHOLE, cell, compare, number, text


def _compared(test: Callable[[int], bool]) -> Function:
    def call(left: Any, right: Any) -> int | None:
        order = compare(left, right)
        return None if order is None else int(test(order))

    return call


def _arithmetic(operation: Callable[[Any, Any], Any]) -> Function:
    def call(left: Any, right: Any) -> Any:
        left, right = number(left), number(right)
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
        return operation(left, right)

    return strict(call)


def _divided(left: Any, right: Any) -> Any:
    """A double, or a decimal with four more places than the dividend."""
    if right == 0:
        return None
    if isinstance(left, float):
        return left / right
    places = 4 - min(int(Decimal(left).as_tuple().exponent), 0)
    return (Decimal(left) / Decimal(right)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)


def _rest(left: Any, right: Any) -> Any:
    if right == 0:
        return None
    return (
        math.fmod(left, right)
        if isinstance(left, float)
        else left - right * int(Decimal(left) / Decimal(right))
    )


def _whole_parts(left: Any, right: Any) -> int | None:
    return None if right == 0 else int(Decimal(str(left)) / Decimal(str(right)))


@strict
def _decimal(value: Any, size: Any, scale: Any) -> Decimal:
    if isinstance(value, str):
        found = NUMBER.match(value)
        exact = Decimal(found[1] if found else 0)
    else:
        exact = Decimal(str(number(value)))
    most = Decimal(10) ** (size - scale) - Decimal(1).scaleb(-scale)
    return max(-most, min(most, exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)))


@strict
def _signed(value: Any) -> int:
    if isinstance(value, str):
        found = WHOLE.match(value)
        return int(found[1]) if found else 0
    return int(Decimal(str(number(value))).to_integral_value(ROUND_HALF_UP))


@strict
def _unsigned(value: Any) -> int:
    result = int(_signed(value))
    return result if result >= 0 else result + 2**64


OPERATIONS: dict[str, Function] = {
    "eq": _compared(lambda order: order == 0),
    "ne": _compared(lambda order: order != 0),
    "lt": _compared(lambda order: order < 0),
    "le": _compared(lambda order: order <= 0),
    "gt": _compared(lambda order: order > 0),
    "ge": _compared(lambda order: order >= 0),
    "add": _arithmetic(lambda left, right: left + right),
    "sub": _arithmetic(lambda left, right: left - right),
    "mul": _arithmetic(lambda left, right: left * right),
    "div": _arithmetic(_divided),
    "mod": _arithmetic(_rest),
    "intdiv": _arithmetic(_whole_parts),
    "truth": strict(lambda value: int(number(value) != 0)),
    "text": strict(text),
    "real": strict(lambda value: float(number(value))),
    "number": strict(number),
    "exact": strict(lambda value: Decimal(str(number(value)))),
    "decimal": _decimal,
    "signed": _signed,
    "unsigned": _unsigned,
    "sortable": strict(lambda value: float(value) if isinstance(value, Decimal) else value),
    "shift": shift,
    "cell": cell,
    "like": like,
    "regexp": regexp,
}
