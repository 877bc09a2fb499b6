"""Turns Python functions into MySQL's: NULL for NULL, texts and whole numbers out of any value."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from ecdysis_lab.benchmarks.agentbench.values import number, text

Function = Callable[..., Any]


def strict(function: Function) -> Function:
    """The function, with NULL for any NULL argument, as most of MySQL's functions."""

    def call(*values: Any) -> Any:
        return None if any(value is None for value in values) else function(*values)

    return call


def on_text(function: Function) -> Function:
    """The function on the texts of its arguments, NULL for any NULL."""
    return strict(lambda *values: function(*map(text, values)))


def whole(value: Any) -> int:
    """The value as a whole number, rounded as MySQL does."""
    value = number(value)
    return int(Decimal(str(value)).to_integral_value(ROUND_HALF_UP)) if math.isfinite(value) else 0
