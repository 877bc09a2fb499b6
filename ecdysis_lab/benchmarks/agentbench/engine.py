"""What DBBench asks of a database: a table of texts, statements on it, and what is left in the end."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

DATABASE = "dbbench"  # the name that a trial reads of its database
MAX_ROWS = 1000  # of one answer
STATEMENT_SECONDS = 2

Value = str | int | float | Decimal | dt.date | dt.datetime | dt.timedelta | bytes | None


def quoted(name: str) -> str:
    """A name as MySQL takes any."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Table:
    """A table as AgentBench writes it: every column is TEXT, every cell a text or NULL.

    Parameters
    ----------
    name : of the table. columns : names in order. rows : cells of each row, in the order of the columns.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True)
class Answer:
    """What a statement came to.

    Parameters
    ----------
    rows : result rows; empty for a write. error : MySQL's text of an error, ``"1064 (42000): …"``, else empty.
    cut : whether rows beyond the engine's limit were left out.
    """

    rows: tuple[tuple[Value, ...], ...] = ()
    error: str = ""
    cut: bool = False


class Database(Protocol):
    """The database of one trial."""

    def execute(self, sql: str, read_only: bool = False) -> Answer:
        """Execute one statement as the agent wrote it; never raises for what the statement does.

        Parameters
        ----------
        sql : one statement in MySQL's dialect. read_only : a statement that would change anything is an error.
        """
        ...

    def rows(self, table: str, columns: Sequence[str] = ()) -> tuple[tuple[Any, ...], ...] | None:
        """All rows of a table for the scorer.

        Parameters
        ----------
        table : its name. columns : those to give, in this order; by default all, as the table has them.

        Returns
        -------
        None where there is no such table or column, or it cannot be read.
        """
        ...

    def close(self) -> None:
        """Leave nothing behind; may be called again."""
        ...


class Engine(Protocol):
    """Hands out a fresh database for every trial."""

    name: str
    version: str

    def open(self, table: Table) -> Database:
        """A fresh database that holds the table."""
        ...
