"""The embedded engine: SQLite in memory that answers as MySQL does, and lets no statement out of the trial."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Sequence
from typing import Any

import sqlglot
from sqlglot.tokens import Token

from ecdysis_lab.benchmarks.agentbench import aggregates, values
from ecdysis_lab.benchmarks.agentbench.calls import Function
from ecdysis_lab.benchmarks.agentbench.catalog import Catalog
from ecdysis_lab.benchmarks.agentbench.engine import DATABASE, MAX_ROWS, STATEMENT_SECONDS, Answer, Table
from ecdysis_lab.benchmarks.agentbench.errors import MySQLError, unsupported
from ecdysis_lab.benchmarks.agentbench.operations import OPERATIONS
from ecdysis_lab.benchmarks.agentbench.parse import clean, parse, tokens_of
from ecdysis_lab.benchmarks.agentbench.rewrite import FUNCTIONS
from ecdysis_lab.benchmarks.agentbench.scope import quoted
from ecdysis_lab.benchmarks.agentbench.statements import effect_of
from ecdysis_lab.benchmarks.agentbench.writes import Writes

BYTES = 32 * 1024 * 1024  # of one answer, and of all tables together
_STEPS = 20_000
_PAGE = 4096
_ALLOWED = frozenset(
    getattr(sqlite3, f"SQLITE_{name}")
    for name in (
        "SELECT READ FUNCTION RECURSIVE INSERT UPDATE DELETE CREATE_TABLE DROP_TABLE ALTER_TABLE TRANSACTION "
        "CREATE_INDEX DROP_INDEX SAVEPOINT"
    ).split()
)
_READS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 4 * values.PACKET + 1024,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 8_000_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 1000,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_SETS = {"SET", "USE", "BEGIN", "START", "COMMIT", "ROLLBACK", "LOCK", "UNLOCK", "FLUSH", "ANALYZE", "DO"}


class SqliteEngine:
    """SQLite in memory as MySQL; needs no server."""

    name = "sqlite"
    version = f"{sqlite3.sqlite_version}, sqlglot {sqlglot.__version__}"

    def open(self, table: Table) -> SqliteDatabase:
        """A fresh database that holds the table."""
        return SqliteDatabase(table)


class SqliteDatabase:
    """The database of one trial; see ``engine.Database``."""

    def __init__(self, table: Table) -> None:
        self.catalog = Catalog(DATABASE)
        self.connection: sqlite3.Connection | None = sqlite3.connect(
            ":memory:", isolation_level=None, cached_statements=0, check_same_thread=False
        )
        self.raised: MySQLError | None = None
        self.allowed = _ALLOWED
        self.deadline = math.inf
        self._prepare(self.connection)
        self._fill(self.connection, table)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA max_page_count = {BYTES // _PAGE}")
        connection.execute("PRAGMA temp_store = MEMORY")
        for limit, most in _LIMITS.items():
            connection.setlimit(limit, most)
        connection.create_collation("m_ci", values.collate)
        for name, (function, _, _, _) in FUNCTIONS.items():
            connection.create_function(f"m_{name}", -1, self._guarded(function))
        for name, function in OPERATIONS.items():
            connection.create_function(f"m_{name}", -1, self._guarded(function))
        for name, window in aggregates.WINDOWED.items():
            connection.create_window_function(f"m_{name}", 1, window)
        connection.create_aggregate("m_first", 1, aggregates.First)
        connection.create_aggregate("m_count_distinct", -1, aggregates.CountDistinct)
        connection.create_aggregate("m_group_concat", -1, aggregates.GroupConcat)  # type: ignore[arg-type]
        connection.create_aggregate("m_single", 1, self._single())

    def _fill(self, connection: sqlite3.Connection, table: Table) -> None:
        names = ", ".join(f"{quoted(column)} TEXT COLLATE m_ci" for column in table.columns)
        connection.execute(f"CREATE TABLE main.{quoted(table.name)} ({names})")
        marks = ", ".join("?" * len(table.columns))
        connection.execute("BEGIN")
        connection.executemany(f"INSERT INTO main.{quoted(table.name)} VALUES ({marks})", table.rows)
        connection.execute("COMMIT")
        self.catalog.tables[table.name] = [(column, "text", "text") for column in table.columns]
        connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in self.allowed else sqlite3.SQLITE_DENY
        )
        connection.set_progress_handler(lambda: int(time.monotonic() > self.deadline), _STEPS)

    def _guarded(self, function: Function) -> Function:
        """The function between SQLite's values and ours; what it raises is kept, as SQLite tells only that it did."""

        def call(*arguments: Any) -> Any:
            try:
                return values.save(function(*map(values.load, arguments)))
            except MySQLError as error:
                self.raised = error
                raise
            except (ArithmeticError, ValueError):  # outside what the function is for
                return None

        return call

    def _single(self) -> type:
        database = self

        class Single(aggregates.First):
            """The one value of a scalar query."""

            def step(self, value: Any) -> None:
                """Take one row."""
                if not self.empty:
                    database.raised = MySQLError(1242, "Subquery returns more than 1 row")
                    raise database.raised
                super().step(value)

        return Single

    def execute(self, sql: str, read_only: bool = False) -> Answer:
        """Execute one statement; see ``engine.Database``."""
        if self.connection is None:
            return Answer(error="2006 (HY000): Server has gone away")
        self.raised = None
        self.deadline = time.monotonic() + STATEMENT_SECONDS
        try:
            return self._execute(self.connection, clean(sql), read_only)
        except MySQLError as error:
            return Answer(error=str(error).replace("{database}", DATABASE))
        except sqlite3.Error as error:
            return Answer(error=str(self._told(error)))
        except (AttributeError, KeyError, IndexError, TypeError):  # a tree of a form that is not known here
            return Answer(error=str(unsupported("this form of the statement")))
        except (RecursionError, MemoryError, OverflowError, ValueError):
            return Answer(error=str(MySQLError(1436, "Thread stack overrun")))
        finally:
            self.deadline = math.inf
            self.allowed = _ALLOWED

    def _execute(self, connection: sqlite3.Connection, sql: str, read_only: bool) -> Answer:
        tokens = tokens_of(sql)
        word = tokens[0].text.upper()
        if read_only and effect_of(sql) != "read":
            raise MySQLError(1792, "Cannot execute statement in a READ ONLY transaction")
        if word == "SHOW" or (word in ("DESC", "DESCRIBE", "EXPLAIN") and _names_table(tokens)):
            return _answer(self.catalog.show(sql, tokens))
        if word in _SETS:
            return self._set(tokens, word)
        if word == "REPLACE":
            sql = "INSERT" + sql[tokens[0].end + 1 :]
            tokens = tokens_of(sql)
        tree = parse(sql, tokens)
        writes = Writes(self.catalog)
        text = writes.statement(tree)
        self.allowed = _READS if read_only else _ALLOWED
        if not text:
            return Answer()
        answer = self._run(connection, text, writes.parameters)
        for name, columns in writes.applied:
            if columns is None:
                self.catalog.tables.pop(name, None)
            else:
                self.catalog.tables[name] = columns
        return answer

    def _run(self, connection: sqlite3.Connection, text: str, parameters: list[Any]) -> Answer:
        cursor = connection.cursor()
        rows: list[tuple[Any, ...]] = []
        size = 0
        try:
            for row in cursor.execute(text, parameters):
                size += sum(len(cell) if isinstance(cell, str | bytes) else 8 for cell in row)
                if len(rows) >= MAX_ROWS or size > BYTES:
                    return _answer(rows, cut=True)
                rows.append(tuple(map(values.load, row)))
        finally:
            cursor.close()
        return _answer(rows)

    def _set(self, tokens: list[Token], word: str) -> Answer:
        """SET, USE, locks, and transactions, which do nothing: every statement is committed as it ends."""
        rest = [token.text.upper() for token in tokens[1:]]
        if word == "USE" and rest[:1] != [DATABASE.upper()]:
            raise MySQLError(1049, f"Unknown database '{tokens[1].text if rest else ''}'")
        if word == "SET" and {"GLOBAL", "PASSWORD", "ROLE"} & set(rest[:1]):
            raise MySQLError(
                1227, "Access denied; you need (at least one of) the SUPER privilege(s) for this operation"
            )
        return Answer()

    def _told(self, error: sqlite3.Error) -> MySQLError:
        """MySQL's error for one of SQLite's."""
        if self.raised is not None:
            return self.raised
        text = str(error)
        if text == "interrupted":
            return MySQLError(1969, "Query execution was interrupted (max_statement_time exceeded)")
        if "full" in text:
            return MySQLError(1114, "The table is full")
        if "not authorized" in text or "prohibited" in text:
            return MySQLError(1227, "Access denied for this operation")
        if "too" in text or "stack" in text or "limit" in text.lower():
            return MySQLError(1436, "Thread stack overrun")
        return MySQLError(1235, f"This version of MySQL doesn't yet support this statement ({text})")

    def rows(self, table: str, columns: Sequence[str] = ()) -> tuple[tuple[Any, ...], ...] | None:
        """All rows of a table, see ``engine.Database``."""
        known = {column.lower() for column, _, _ in self.catalog.tables.get(table, ())}
        if self.connection is None or not known or {column.lower() for column in columns} - known:
            return None
        heads = ", ".join(map(quoted, columns)) or "*"
        return tuple(self.connection.execute(f"SELECT {heads} FROM main.{quoted(table)}"))

    def close(self) -> None:
        """Leave nothing behind."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def _answer(rows: list[tuple[Any, ...]], cut: bool = False) -> Answer:
    return Answer(tuple(rows), cut=cut)


def _names_table(tokens: list[Token]) -> bool:
    return len(tokens) > 1 and tokens[1].text.upper() not in (
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "FORMAT",
        "WITH",
    )
