"""What names mean inside a query: its tables with their columns, and the aliases of what it selects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ecdysis_lab.benchmarks.agentbench.errors import MySQLError


class Expr(NamedTuple):
    """An expression for SQLite and its kind: text, int, dec, real, date, datetime, time, null or any."""

    sql: str
    kind: str


class Column(NamedTuple):
    """A column of a source: its name and kind."""

    name: str
    kind: str


def quoted(name: str) -> str:
    """The name as SQLite takes it."""
    return '"' + name.replace('"', '""') + '"'


@dataclass
class Source:
    """A table in FROM: its alias, its columns, and the SQL that stands for it."""

    alias: str
    columns: tuple[Column, ...]
    sql: str
    merged: set[str] = field(default_factory=set)  # columns that USING took from an earlier table

    def find(self, name: str) -> Column | None:
        """The column of that name, in any case."""
        wanted = name.lower()
        return next((column for column in self.columns if column.name.lower() == wanted), None)

    def expr(self, column: Column) -> Expr:
        """The column for SQLite."""
        return Expr(f"{quoted(self.alias)}.{quoted(column.name)}", column.kind)


@dataclass
class Scope:
    """The names of one query, and those of the query around it."""

    sources: list[Source] = field(default_factory=list)
    parent: Scope | None = None
    aliases: dict[str, Expr] = field(default_factory=dict)
    keys: frozenset[str] = frozenset()  # the SQL of what it groups by
    grouped: bool = False

    def column(self, name: str, table: str, clause: str) -> Expr | None:
        """The column of that name here; None without one.

        Raises
        ------
        MySQLError : 1052 where two tables have it.
        """
        found = [
            source.expr(column)
            for source in self.sources
            if (not table or source.alias == table)
            and (column := source.find(name)) is not None
            and (table or column.name.lower() not in source.merged)
        ]
        if len(found) > 1:
            raise MySQLError(1052, f"Column '{name}' in {clause} is ambiguous")
        return found[0] if found else None
