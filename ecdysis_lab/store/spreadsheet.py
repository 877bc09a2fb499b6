"""CSV that a spreadsheet shows as it is written: no text of it is taken for a formula."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

RISKY = ("=", "+", "-", "@", "\t", "\r")
_QUOTE = "'"
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def harmless(cell: Any) -> Any:
    """A text that a spreadsheet would run, or that starts with an apostrophe, behind an apostrophe; else the cell.

    A plain number stays as it is, with its sign; a carriage return, which pandas does not quote, becomes a space.
    """
    if not isinstance(cell, str) or _NUMBER.fullmatch(cell):
        return cell
    shown = cell.replace("\r\n", "\n").replace("\r", " ")
    return f"{_QUOTE}{shown}" if cell.startswith((*RISKY, _QUOTE)) else shown


def as_written(cell: Any) -> Any:
    """What :func:`harmless` was given, but for carriage returns."""
    return cell[1:] if isinstance(cell, str) and cell.startswith(_QUOTE) else cell


def to_csv(frame: pd.DataFrame) -> str:
    """A table as CSV without its index, texts and headings made :func:`harmless`."""
    texts = {
        name: column.map(harmless)
        for name, column in frame.items()
        if column.dtype == object or column.dtype.name in ("category", "str", "string")
    }
    return frame.assign(**texts).rename(columns=harmless).to_csv(index=False)  # type: ignore[arg-type]
