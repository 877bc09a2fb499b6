"""Statements of MySQL that change data or tables, as SQLite."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ecdysis_lab.benchmarks.agentbench.catalog import Catalog
from ecdysis_lab.benchmarks.agentbench.errors import MySQLError, no_such_table, unknown_column, unsupported
from ecdysis_lab.benchmarks.agentbench.queries import Queries
from ecdysis_lab.benchmarks.agentbench.scope import Expr, Source, quoted

_KINDS = {"INT": "int", "FLOAT": "real", "DOUBLE": "real", "DECIMAL": "text"}


class Writes(Queries):
    """Turns a statement into the one SQL text that does the same in SQLite.

    Parameters
    ----------
    catalog : the database's tables; statements that make or drop one change it in ``applied``.
    """

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog.database, catalog.source)
        self.catalog = catalog
        self.applied: list[tuple[str, list[tuple[str, str, str]] | None]] = []

    def statement(self, tree: Any) -> str:
        """The SQL of a statement, "" where there is nothing to do.

        Raises
        ------
        MySQLError : what MySQL says of it, 1235 for what this engine does not know.
        """
        if isinstance(tree, exp.Insert):
            return self.insert(tree)
        if isinstance(tree, exp.Update):
            return self.update(tree)
        if isinstance(tree, exp.Delete):
            return self.delete(tree)
        if isinstance(tree, exp.Create):
            return self.create(tree)
        if isinstance(tree, exp.Drop):
            return self.drop(tree)
        if isinstance(tree, exp.Alter):
            return self.alter(tree)
        if isinstance(tree, exp.TruncateTable):
            name, _ = self._known(tree.expressions[0])
            return f"DELETE FROM {quoted(name)}"
        if isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
            return self.query(tree)[0]
        raise unsupported(type(tree).__name__.upper())

    def _known(self, table: Any) -> tuple[str, list[tuple[str, str, str]]]:
        if not isinstance(table, exp.Table):
            raise unsupported(type(table).__name__.upper())
        if table.args.get("joins"):
            raise unsupported("writes to joined tables")
        if table.db.lower() == "information_schema":
            raise MySQLError(
                1044, "Access denied for user 'agent'@'localhost' to database 'information_schema'"
            )
        return table.name, self.catalog.table(table.name, table.db)

    def _cell(self, value: Expr, kind: str) -> str:
        return f"m_cell({value.sql})" if kind == "text" else f"m_number({value.sql})"

    def insert(self, tree: Any) -> str:
        """INSERT with VALUES, SET or a query."""
        target = tree.this
        given = [part.name for part in target.expressions] if isinstance(target, exp.Schema) else []
        name, columns = self._known(target.this if isinstance(target, exp.Schema) else target)
        kinds = {column.lower(): (column, kind) for column, _, kind in columns}
        for place, column in enumerate(given):
            if column.lower() not in kinds:
                raise unknown_column(column, "INSERT INTO")
            if column.lower() in (other.lower() for other in given[:place]):
                raise MySQLError(1110, f"Column '{column}' specified twice")
        chosen = [kinds[column.lower()] for column in given] or [
            (column, kind) for column, _, kind in columns
        ]
        heads = ", ".join(quoted(column) for column, _ in chosen)
        body = tree.expression
        rows = self._values(body, chosen) if isinstance(body, exp.Values) else self._selected(body, chosen)
        return f"INSERT INTO main.{quoted(name)} ({heads}) {rows}"

    def _values(self, body: Any, chosen: list[tuple[str, str]]) -> str:
        self.clause = "VALUES"
        rows = []
        for place, row in enumerate(body.expressions, 1):
            cells = row.expressions if isinstance(row, exp.Tuple) else [row.unnest()]
            if len(cells) != len(chosen):
                raise MySQLError(1136, f"Column count doesn't match value count at row {place}")
            values = [
                self._cell(self.expr(cell), column[1]) for cell, column in zip(cells, chosen, strict=True)
            ]
            rows.append(f"({', '.join(values)})")
        return f"VALUES {', '.join(rows)}"

    def _selected(self, body: Any, chosen: list[tuple[str, str]]) -> str:
        if body is None:
            raise unsupported("INSERT without values")
        sql, columns = self.query(body)
        if len(columns) != len(chosen):
            raise MySQLError(1136, "Column count doesn't match value count at row 1")
        names = [f"c{place}" for place in range(len(columns))]
        cells = [self._cell(Expr(f"q.{n}", ""), column[1]) for n, column in zip(names, chosen, strict=True)]
        return f"SELECT * FROM (WITH q({', '.join(names)}) AS ({sql}) SELECT {', '.join(cells)} FROM q)"

    def _target(self, table: Any) -> str:
        name, _ = self._known(table)
        source = self.catalog.source("", name)
        if source is None:
            raise no_such_table(name, self.database)
        self.scope.sources = [Source(table.alias or name, source.columns, source.sql)]
        return name

    def _rows(self, tree: Any, name: str) -> str:
        """The rows a write is for."""
        where, order = self._where(tree), self._order(tree, ())
        limit = self._limit(tree)
        alias = quoted(self.scope.sources[0].alias)
        if not order and not limit and alias == quoted(name):
            return where
        return (
            f" WHERE rowid IN (SELECT {alias}.rowid FROM main.{quoted(name)} AS {alias}{where}{order}{limit})"
        )

    def update(self, tree: Any) -> str:
        """UPDATE of one table; a later assignment sees the earlier ones."""
        name = self._target(tree.this)
        source = self.scope.sources[0]
        wanted = [part.this for part in tree.expressions if isinstance(part, exp.EQ)]
        if len(wanted) != len(tree.expressions) or not all(isinstance(part, exp.Column) for part in wanted):
            raise unsupported("this SET")
        self.clause = "SET"
        for part in wanted:
            self.column(part)
        self.aggregates_ok = False
        values: dict[str, str] = {}
        for part in tree.expressions:
            column = source.find(part.this.name)
            if column is None:
                raise unknown_column(part.this.name, "SET")
            self.clause = "SET"
            value = self.expr(part.expression)
            cell = self._cell(value, column.kind)
            for earlier, new in values.items():
                cell = cell.replace(f"{quoted(source.alias)}.{quoted(earlier)}", new)
            values[column.name] = cell
        rows = self._rows(tree, name)
        settings = ", ".join(f"{quoted(column)} = {cell}" for column, cell in values.items())
        return f"UPDATE main.{quoted(name)} AS {quoted(source.alias)} SET {settings}{rows}"

    def delete(self, tree: Any) -> str:
        """DELETE from one table."""
        if tree.args.get("tables"):
            raise unsupported("DELETE from joined tables")
        name = self._target(tree.this)
        rows = self._rows(tree, name)
        return f"DELETE FROM main.{quoted(name)} AS {quoted(self.scope.sources[0].alias)}{rows}"

    def create(self, tree: Any) -> str:
        """CREATE TABLE with columns or from a query; an index changes no answer."""
        kind = tree.args.get("kind")
        if kind == "INDEX":
            self._known(tree.this.args["table"])
            return ""
        if kind != "TABLE":
            raise MySQLError(1142, f"CREATE {kind} command denied to user 'agent'@'localhost'")
        table = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        name = table.name
        if name in self.catalog.tables:
            if tree.args.get("exists"):
                return ""
            raise MySQLError(1050, f"Table '{name}' already exists")
        if tree.expression is not None:
            sql, selected = self.query(tree.expression)
            self.applied.append((name, [(column.name, "text", "text") for column in selected]))
            cells = ", ".join(f"m_cell({quoted(c.name)}) COLLATE m_ci AS {quoted(c.name)}" for c in selected)
            return f"CREATE TABLE main.{quoted(name)} AS SELECT {cells} FROM ({sql})"
        columns = [self._defined(part) for part in tree.this.expressions if isinstance(part, exp.ColumnDef)]
        if not columns:
            raise MySQLError(1113, "A table must have at least 1 column")
        self.applied.append((name, columns))
        return f"CREATE TABLE main.{quoted(name)} ({', '.join(map(_definition, columns))})"

    @staticmethod
    def _defined(part: Any) -> tuple[str, str, str]:
        written = part.kind.sql(dialect="mysql").lower() if part.kind is not None else "text"
        word = written.split("(")[0].upper()
        return (
            part.name,
            {"int": "int(11)"}.get(written, written),
            "int" if word.endswith("INT") else _KINDS.get(word, "text"),
        )

    def drop(self, tree: Any) -> str:
        """DROP TABLE."""
        if tree.args.get("kind") != "TABLE":
            raise MySQLError(
                1044, f"Access denied for user 'agent'@'localhost' to DROP {tree.args.get('kind')}"
            )
        name = tree.args["tables"][0].name
        if name not in self.catalog.tables:
            if tree.args.get("exists"):
                return ""
            raise MySQLError(1051, f"Unknown table '{self.database}.{name}'")
        self.applied.append((name, None))
        return f"DROP TABLE main.{quoted(name)}"

    def alter(self, tree: Any) -> str:
        """ALTER TABLE with one column added, dropped or renamed, or the table renamed."""
        name, columns = self._known(tree.this)
        if len(tree.args["actions"]) != 1:
            raise unsupported("ALTER TABLE with several changes")
        action, head = tree.args["actions"][0], f"ALTER TABLE main.{quoted(name)} "
        known = {column.lower(): place for place, (column, _, _) in enumerate(columns)}
        if isinstance(action, exp.ColumnDef):
            if action.name.lower() in known:
                raise MySQLError(1060, f"Duplicate column name '{action.name}'")
            added = self._defined(action)
            self.applied.append((name, [*columns, added]))
            return f"{head}ADD COLUMN {_definition(added)}"
        if isinstance(action, exp.Drop):
            action = action.args["tables"][0]
            if action.name.lower() not in known:
                raise MySQLError(1091, f"Can't DROP COLUMN `{action.name}`; check that it exists")
            self.applied.append((name, [c for c in columns if c[0].lower() != action.name.lower()]))
            return f"{head}DROP COLUMN {quoted(columns[known[action.name.lower()]][0])}"
        if isinstance(action, exp.RenameColumn):
            old, new = action.this.name, action.args["to"].name
            if old.lower() not in known:
                raise unknown_column(old, name)
            place = known[old.lower()]
            self.applied.append((name, [*columns[:place], (new, *columns[place][1:]), *columns[place + 1 :]]))
            return f"{head}RENAME COLUMN {quoted(columns[place][0])} TO {quoted(new)}"
        if isinstance(action, exp.AlterRename):
            self.applied += [(name, None), (action.this.name, columns)]
            return f"{head}RENAME TO {quoted(action.this.name)}"
        raise unsupported("this ALTER TABLE")


def _definition(column: tuple[str, str, str]) -> str:
    kind = {"int": "INTEGER", "real": "REAL"}.get(column[2], "TEXT COLLATE m_ci")
    return f"{quoted(column[0])} {kind}"
