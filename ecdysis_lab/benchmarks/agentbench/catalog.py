"""What MySQL tells about itself: SHOW, DESCRIBE, and the tables of information_schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlglot.tokens import Token, TokenType

from ecdysis_lab.benchmarks.agentbench.errors import MySQLError, no_such_table, syntax_error, unsupported
from ecdysis_lab.benchmarks.agentbench.nodes import VERSION
from ecdysis_lab.benchmarks.agentbench.patterns import like
from ecdysis_lab.benchmarks.agentbench.scope import Column, Source, quoted

Rows = list[tuple[Any, ...]]
_CHARSET, _COLLATION, _RIGHTS = "utf8mb4", "utf8mb4_general_ci", "select,insert,update"
_TABLES = (
    "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME TABLE_TYPE ENGINE VERSION ROW_FORMAT TABLE_ROWS AVG_ROW_LENGTH "
    "DATA_LENGTH MAX_DATA_LENGTH INDEX_LENGTH DATA_FREE AUTO_INCREMENT CREATE_TIME UPDATE_TIME CHECK_TIME "
    "TABLE_COLLATION CHECKSUM CREATE_OPTIONS TABLE_COMMENT MAX_INDEX_LENGTH TEMPORARY"
).split()
_COLUMNS = (
    "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME ORDINAL_POSITION COLUMN_DEFAULT IS_NULLABLE DATA_TYPE "
    "CHARACTER_MAXIMUM_LENGTH CHARACTER_OCTET_LENGTH NUMERIC_PRECISION NUMERIC_SCALE DATETIME_PRECISION "
    "CHARACTER_SET_NAME COLLATION_NAME COLUMN_TYPE COLUMN_KEY EXTRA PRIVILEGES COLUMN_COMMENT IS_GENERATED "
    "GENERATION_EXPRESSION"
).split()
_SCHEMATA = "CATALOG_NAME SCHEMA_NAME DEFAULT_CHARACTER_SET_NAME DEFAULT_COLLATION_NAME SQL_PATH SCHEMA_COMMENT".split()
_NUMBERS = frozenset({"ORDINAL_POSITION", "VERSION", "TABLE_ROWS", "CHARACTER_MAXIMUM_LENGTH"})


@dataclass
class Catalog:
    """The tables of one database; each column has a name, a type as MySQL writes it, and a kind (see ``scope``)."""

    database: str
    tables: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)

    def source(self, database: str, name: str) -> Source | None:
        """A table for FROM; None without one.

        Raises
        ------
        MySQLError : 1109 for an unknown table of information_schema, 1142 for another database.
        """
        if database.lower() == "information_schema":
            return self._schema(name)
        if database and database != self.database:
            raise MySQLError(
                1142, f"SELECT command denied to user 'agent'@'localhost' for table `{database}`.`{name}`"
            )
        if name not in self.tables:
            return None
        columns = tuple(Column(column, kind) for column, _, kind in self.tables[name])
        return Source(name, columns, f"main.{quoted(name)}")

    def table(self, name: str, database: str = "") -> list[tuple[str, str, str]]:
        """The columns of a table.

        Raises
        ------
        MySQLError : 1146 without such a table.
        """
        if (database and database != self.database) or name not in self.tables:
            raise no_such_table(name, database or self.database)
        return self.tables[name]

    def _schema(self, name: str) -> Source:
        rows: Rows
        upper = name.upper()
        if upper == "TABLES":
            heads = _TABLES
            unknown, tail = (None,) * 10, (None, "", "", 0, "N")
            rows = [
                (
                    "def",
                    self.database,
                    table,
                    "BASE TABLE",
                    "InnoDB",
                    10,
                    "Dynamic",
                    *unknown,
                    _COLLATION,
                    *tail,
                )
                for table in self.tables
            ]
        elif upper == "COLUMNS":
            heads = _COLUMNS
            rows = [
                ("def", self.database, table, column, place, "NULL", "YES", kind.split("(")[0])
                + ((65_535, 65_535) if kind == "text" else (None, None))
                + (None, None, None, _CHARSET, _COLLATION, kind, "", "", _RIGHTS, "", "NEVER", None)
                for table, columns in self.tables.items()
                for place, (column, kind, _) in enumerate(columns, 1)
            ]
        elif upper == "SCHEMATA":
            heads = _SCHEMATA
            rows = [
                ("def", name, _CHARSET, _COLLATION, None, "")
                for name in ("information_schema", self.database)
            ]
        elif upper in (
            "STATISTICS",
            "KEY_COLUMN_USAGE",
            "TABLE_CONSTRAINTS",
            "VIEWS",
            "ROUTINES",
            "TRIGGERS",
        ):
            heads, rows = ["TABLE_SCHEMA", "TABLE_NAME", "COLUMN_NAME", "CONSTRAINT_NAME", "INDEX_NAME"], []
        else:
            raise MySQLError(1109, f"Unknown table '{name}' in information_schema")
        columns = tuple(Column(head, "int" if head in _NUMBERS else "text") for head in heads)
        return Source(name, columns, _written(heads, rows))

    def show(self, sql: str, tokens: list[Token]) -> Rows:
        """The rows of SHOW …, DESCRIBE … or EXPLAIN of a table.

        Raises
        ------
        MySQLError : 1064 for what MySQL does not know, 1146 for an unknown table.
        """
        words = _Words(sql, tokens)
        if words.next() != "SHOW":
            table = words.name()
            wanted = words.name() if words.left() and not words.ahead("WHERE") else "%"
            words.end()
            return [row for row in self._columns(table, "") if like(row[0], wanted)]
        full = words.take("FULL") or words.take("EXTENDED")
        what = words.next()
        if what in ("TABLES", "TABLE") and not (what == "TABLE" and not words.take("STATUS")):
            return self._show_tables(words, full, what == "TABLE")
        if what in ("COLUMNS", "FIELDS"):
            return self._show_columns(words, full)
        if what == "CREATE" and words.take("TABLE"):
            return self._show_create(words.name())
        if what in ("DATABASES", "SCHEMAS"):
            return words.filtered([("information_schema",), (self.database,)])
        if what in ("INDEX", "INDEXES", "KEYS"):
            self.table(words.after_from())
            return []
        if what == "VARIABLES" or (what in ("GLOBAL", "SESSION") and words.take("VARIABLES")):
            return words.filtered([("collation_connection", _COLLATION), ("version", VERSION)])
        if what in ("WARNINGS", "ERRORS", "STATUS", "TRIGGERS", "EVENTS", "PROCEDURE", "FUNCTION", "OPEN"):
            return []
        raise (
            unsupported(f"SHOW {what}")
            if what in ("GRANTS", "ENGINES", "PROCESSLIST")
            else words.wrong(back=True)
        )

    def _show_tables(self, words: _Words, full: bool, status: bool) -> Rows:
        if words.take("FROM") or words.take("IN"):
            database = words.name()
            if database.lower() == "information_schema":
                return words.filtered([("COLUMNS",), ("SCHEMATA",), ("TABLES",)])
            if database != self.database:
                raise MySQLError(1049, f"Unknown database '{database}'")
        if status:
            tail = (None, _COLLATION, None, "", "", 0, "N")
            return words.filtered([(t, "InnoDB", 10, "Dynamic", *(None,) * 9, *tail) for t in self.tables])
        return words.filtered(
            [(table, "BASE TABLE") if full else (table,) for table in sorted(self.tables)], exact=True
        )

    def _show_columns(self, words: _Words, full: bool) -> Rows:
        name = words.after_from()
        database = words.name() if words.take("FROM") or words.take("IN") else ""
        if words.left() and not words.ahead("LIKE", "WHERE"):
            raise words.wrong()
        rows = self._columns(name, database)
        if full:
            rows = [(*row[:2], _COLLATION, *row[2:], _RIGHTS, "") for row in rows]
        return words.filtered(rows)

    def _columns(self, name: str, database: str) -> Rows:
        return [(column, kind, "YES", "", None, "") for column, kind, _ in self.table(name, database)]

    def _show_create(self, name: str) -> Rows:
        lines = ",\n".join(
            f"  `{column.replace('`', '``')}` {kind} DEFAULT NULL" for column, kind, _ in self.table(name)
        )
        tail = f"ENGINE=InnoDB DEFAULT CHARSET={_CHARSET} COLLATE={_COLLATION}"
        return [(name, f"CREATE TABLE `{name.replace('`', '``')}` (\n{lines}\n) {tail}")]


class _Words:
    """The words of a statement, one after the other."""

    def __init__(self, sql: str, tokens: list[Token]) -> None:
        self.sql, self.tokens, self.place = sql, tokens, 0

    def left(self) -> bool:
        """Whether there are more."""
        return self.place < len(self.tokens)

    def next(self) -> str:
        """The next word in capitals, "" at the end."""
        self.place += 1
        return self.tokens[self.place - 1].text.upper() if self.place <= len(self.tokens) else ""

    def take(self, word: str) -> bool:
        """Whether the next word is this one; then it is taken."""
        taken = self.left() and self.tokens[self.place].text.upper() == word
        self.place += int(taken)
        return taken

    def ahead(self, *choices: str) -> bool:
        """Whether the next word is one of these."""
        return self.left() and self.tokens[self.place].text.upper() in choices

    def wrong(self, back: bool = False) -> MySQLError:
        """The syntax error here, or at the word just read."""
        place = self.place - int(back)
        return syntax_error(self.sql, self.tokens[place].start if place < len(self.tokens) else len(self.sql))

    def name(self) -> str:
        """A name, without the database before it."""
        if not self.left() or self.tokens[self.place].token_type == TokenType.STRING:
            raise self.wrong()
        name = self.tokens[self.place].text
        self.place += 1
        if self.take("."):
            return self.name()
        return name

    def after_from(self) -> str:
        """The name after FROM or IN."""
        if not (self.take("FROM") or self.take("IN")):
            raise self.wrong()
        return self.name()

    def end(self) -> None:
        """Raise where more follows."""
        if self.left():
            raise self.wrong()

    def filtered(self, rows: Rows, exact: bool = False) -> Rows:
        """The rows whose first value is LIKE a text; WHERE takes ``name = text`` and ``LIKE`` on the first column."""
        if self.take("LIKE"):
            pattern = self.tokens[self.place].text if self.left() else ""
            self.place += 1
            self.end()
            return [row for row in rows if like(row[0], pattern, exact=exact)]
        if self.take("WHERE"):
            rest = self.tokens[self.place :]
            if len(rest) == 3 and rest[1].text.upper() in ("=", "LIKE"):
                return [row for row in rows if like(row[0], rest[2].text)]
            raise unsupported("SHOW … WHERE with this condition")
        self.end()
        return rows


def _written(heads: list[str], rows: Rows) -> str:
    """Rows as a table for FROM; all values are ours or names of tables and columns."""

    def cell(value: Any) -> str:
        if value is None:
            return "NULL"
        return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"

    lines = [", ".join(map(cell, row)) for row in rows] or [", ".join(["NULL"] * len(heads))]
    names = ", ".join(f"column{place} COLLATE m_ci AS {quoted(head)}" for place, head in enumerate(heads, 1))
    empty = "" if rows else " WHERE 0"
    return f"(SELECT {names} FROM (VALUES ({'), ('.join(lines)})){empty})"
