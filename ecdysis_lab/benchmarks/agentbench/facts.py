"""What no harness may hold of a DBBench task: its gold values, and what its table alone says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ecdysis_lab.benchmarks.agentbench.data import Item
from ecdysis_lab.benchmarks.spelling import dates, plain_number

NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
QUOTED = re.compile(r"'((?:[^'\\]|''|\\.)+)'|\"((?:[^\"\\]|\"\"|\\.)+)\"")
ANYWHERE = frozenset(
    "total totals none null unknown other others average january february march april june july august september "
    "october november december monday tuesday wednesday thursday friday saturday sunday".split()
)
"""Words that many tables hold, so that a rule may name them."""


def facts_of(item: Item) -> dict[str, str]:
    """Texts, numbers (``"amount"``) and dates (ISO) of a task: text -> kind."""
    gold = [part for found in QUOTED.findall(item.gold) for part in found if part]
    label = list(item.label) if item.kind == "SELECT" else []
    cells = {cell for row in item.table.rows for cell in row if cell}
    names = [n for n in (item.table.name, *item.table.columns) if len(n) > 7 and (" " in n or "_" in n)]
    return {
        **dict(_told([*cells], "cell")),
        **dict(_told(names, "name in a table")),
        **dict(_told([*gold, *label], "value")),
    }


def _told(texts: Iterable[str], kind: str) -> Iterator[tuple[str, str]]:
    for text in (text.strip() for text in texts):
        found = [*dates(text), *re.findall(r"\b\d{4}-\d{2}-\d{2}\b", text)]
        yield from ((date, "date") for date in found if not date.startswith("*"))
        if NUMBER.fullmatch(text):
            if sum(map(str.isdigit, text)) > 2:
                yield plain_number(text.lstrip("+-")), "amount"
        elif _telling(text) and not found:
            yield text, kind


def _telling(text: str) -> bool:
    """Whether a text is of its table: with a capital, a digit or a letter beyond ASCII, and no common word."""
    if text.isalpha() and text.isascii() and len(text) < 7:  # Center, Brown: rules may have such words
        return not text[1:].islower() and len(text) > 3
    special = any(c.isupper() or c.isdigit() or (c.isalpha() and not c.isascii()) for c in text)
    return len(text) > 3 and special and text.lower() not in ANYWHERE
