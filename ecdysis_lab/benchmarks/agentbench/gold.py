"""Gold statements as MySQL can read them: AgentBench has many whose names are not quoted, or not in MySQL's way."""

from __future__ import annotations

import re

from ecdysis_lab.benchmarks.agentbench.data import Item

QUOTED = re.compile(r"(`[^`]*`|'(?:[^'\\]|''|\\.)*')")


def statements(item: Item) -> tuple[str, ...]:
    """The gold statement on one line, and for a question also with its names quoted; none where there is none."""
    written = re.sub(r"\s*\n\s*", " ", item.gold.strip())
    quoted = _with_names_quoted(written, item) if item.kind == "SELECT" else written
    return tuple(text for text in dict.fromkeys((written, quoted)) if text)


def _with_names_quoted(sql: str, item: Item) -> str:
    """Names of the table and its columns in backticks where they stand in other quotes, in brackets, or bare."""
    for name in sorted({item.table.name, *item.table.columns}, key=len, reverse=True):
        sql = _with_name_quoted(sql, name)
    return sql


def _with_name_quoted(sql: str, name: str) -> str:
    found, quoted = re.escape(name), f"`{name}`"
    sql = re.sub(rf"\"{found}\"|\[{found}\]|(?i:(?<=from )'{found}')", lambda _: quoted, sql)
    if not re.search(r"\W", name):
        return sql
    parts = QUOTED.split(sql)
    parts[::2] = [re.sub(rf"(?<!\w){found}(?!\w)", lambda _: quoted, part) for part in parts[::2]]
    return "".join(parts)
