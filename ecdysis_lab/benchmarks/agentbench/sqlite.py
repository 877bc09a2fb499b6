"""The embedded engine: SQLite in memory that answers as MySQL does, and lets no statement out of the trial."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

from sqlglot.tokens import Token

from ecdysis_lab.benchmarks.agentbench import aggregates, dates, values
from ecdysis_lab.benchmarks.agentbench.catalog import Catalog
from ecdysis_lab.benchmarks.agentbench.engine import Answer, Table
from ecdysis_lab.benchmarks.agentbench.errors import MySQLError, unsupported
from ecdysis_lab.benchmarks.agentbench.mysql_functions import Function, like, regexp
from ecdysis_lab.benchmarks.agentbench.parse import clean, parse, tokens_of
from ecdysis_lab.benchmarks.agentbench.rewrite import FUNCTIONS
from ecdysis_lab.benchmarks.agentbench.scope import quoted
from ecdysis_lab.benchmarks.agentbench.statements import effect_of
from ecdysis_lab.benchmarks.agentbench.writes import Writes

SECONDS = 2.0
ROWS = 1_000
BYTES = 32 * 1024 * 1024  # of one answer, and of all tables together
DATABASE = "dbbench"
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
    version = sqlite3.sqlite_version

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
        self.strict = False
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
        for name, function in _operations(self._wrong).items():
            connection.create_function(f"m_{name}", -1, self._guarded(function))
        for name, window in aggregates.WINDOWED.items():
            connection.create_window_function(f"m_{name}", 1, window)
        connection.create_aggregate("m_first", 1, aggregates.First)
        connection.create_aggregate("m_count_distinct", -1, aggregates.CountDistinct)
        connection.create_aggregate("m_group_concat", -1, aggregates.GroupConcat)
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
            except (ArithmeticError, ValueError, TypeError, RecursionError, MemoryError):
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

    def _wrong(self, kind: str, value: str) -> None:
        """A text that is not wholly a number: an error in INSERT and UPDATE, in MySQL's strict mode."""
        if self.strict:
            raise MySQLError(1292, f"Truncated incorrect {kind} value: '{value}'")

    def execute(self, sql: str, read_only: bool = False) -> Answer:
        """Execute one statement; see ``engine.Database``."""
        if self.connection is None:
            return Answer(error="2006 (HY000): Server has gone away")
        self.raised = None
        self.deadline = time.monotonic() + SECONDS
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
        self.strict = word in ("INSERT", "UPDATE", "REPLACE")
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
                if len(rows) >= ROWS or size > BYTES:
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

    def rows(self, table: str) -> tuple[tuple[Any, ...], ...] | None:
        """All rows of a table, see ``engine.Database``."""
        if self.connection is None or table not in self.catalog.tables:
            return None
        return tuple(self.connection.execute(f"SELECT * FROM main.{quoted(table)}"))

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


def _operations(wrong: Callable[[str, str], None]) -> dict[str, Function]:
    """Comparisons, arithmetic and conversions; ``wrong(kind, text)`` hears of a text that is no number."""

    def number(value: Any, kind: str = "DOUBLE") -> Any:
        if type(value) is str:
            found, rest = values.lead(value)
            if rest:
                wrong(kind, value)
            return found
        return values.number(value)

    def compared(test: Callable[[int], bool]) -> Function:
        def call(left: Any, right: Any) -> int | None:
            kind = "DECIMAL" if type(left) is int or type(right) is int else "DOUBLE"
            order = values.compare(left, right, lambda value: wrong(kind, value))
            return None if order is None else int(test(order))

        return call

    def arithmetic(operation: Callable[[Any, Any], Any]) -> Function:
        def call(left: Any, right: Any) -> Any:
            if left is None or right is None:
                return None
            left, right = number(left), number(right)
            if isinstance(left, float) or isinstance(right, float):
                left, right = float(left), float(right)
            return operation(left, right)

        return call

    def divided(left: Any, right: Any) -> Any:
        if right == 0:
            return None
        if isinstance(left, float):
            return left / right
        scale = -min(int(Decimal(left).as_tuple().exponent), 0) + 4
        return (Decimal(left) / Decimal(right)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)

    def decimal(value: Any, size: Any, scale: Any) -> Any:
        if value is None:
            return None
        if type(value) is str and values.lead(value)[1]:
            wrong("DECIMAL", value)
        exact = Decimal(_digits(value) if type(value) is str else str(values.number(value)))
        result = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        most = Decimal(10) ** (size - scale) - Decimal(1).scaleb(-scale)
        return max(-most, min(most, result))

    def whole(value: Any, lowest: int) -> int:
        if type(value) is str:
            found = values.WHOLE.match(value)
            if not found or value[found.end() :].strip(" "):
                wrong("INTEGER", value)
            result = int(found[1]) if found else 0
        else:
            result = int(Decimal(str(values.number(value))).to_integral_value(ROUND_HALF_UP))
        return result if lowest or result >= 0 else result + 2**64

    def truth(value: Any) -> int | None:
        return None if value is None else int(number(value, "DECIMAL") != 0)

    def once(function: Function) -> Function:
        return lambda value, *rest: None if value is None else function(value, *rest)

    return {
        "eq": compared(lambda order: order == 0),
        "ne": compared(lambda order: order != 0),
        "lt": compared(lambda order: order < 0),
        "le": compared(lambda order: order <= 0),
        "gt": compared(lambda order: order > 0),
        "ge": compared(lambda order: order >= 0),
        "add": arithmetic(lambda left, right: left + right),
        "sub": arithmetic(lambda left, right: left - right),
        "mul": arithmetic(lambda left, right: left * right),
        "div": arithmetic(divided),
        "mod": arithmetic(
            lambda left, right: (
                None
                if right == 0
                else math.fmod(left, right)
                if isinstance(left, float)
                else left - right * int(Decimal(left) / Decimal(right))
            )
        ),
        "intdiv": arithmetic(
            lambda left, right: None if right == 0 else int(Decimal(str(left)) / Decimal(str(right)))
        ),
        "truth": truth,
        "text": once(values.text),
        "real": once(lambda value: float(number(value))),
        "double": once(lambda value: float(number(value))),
        "number": once(lambda value: number(value)),
        "exact": once(lambda value: Decimal(str(values.number(value)))),
        "decimal": decimal,
        "signed": once(lambda value: whole(value, -1)),
        "unsigned": once(lambda value: whole(value, 0)),
        "sortable": once(lambda value: float(value) if isinstance(value, Decimal) else value),
        "shift": lambda day, count, unit, sign: dates.shift(day, count, unit, sign),
        "cell": values.cell,
        "like": like,
        "regexp": regexp,
    }


def _digits(value: str) -> str:
    found = values.NUMBER.match(value)
    return found[1] if found else "0"
