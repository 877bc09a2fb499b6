"""Queries of MySQL as SQLite: SELECT with its clauses, joins, unions, common table expressions, aggregates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from ecdysis_lab.benchmarks.agentbench.errors import MySQLError, no_such_table, unsupported
from ecdysis_lab.benchmarks.agentbench.grouped import Grouped
from ecdysis_lab.benchmarks.agentbench.rewrite import AGGREGATES, COLLATE
from ecdysis_lab.benchmarks.agentbench.scope import Column, Expr, Scope, Source, quoted

Tables = Callable[[str, str], "Source | None"]  # database or "", table -> where it is
_QUERIES = (exp.Select, exp.SetOperation)


class Queries(Grouped):
    """Turns queries into SQL for SQLite.

    Parameters
    ----------
    database : name of the trial's database. tables : finds a stored table.
    """

    def __init__(self, database: str, tables: Tables) -> None:
        super().__init__(database)
        self.tables = tables
        self.common: dict[str, tuple[Column, ...]] = {}

    def query(self, node: Any) -> tuple[str, tuple[Column, ...]]:
        """SQL of a query, and the columns it gives.

        Raises
        ------
        MySQLError : what MySQL says of it.
        """
        node = node.unnest() if isinstance(node, exp.Paren) else node
        outer = self.scope, self.clause, self.inside, self.aggregates_ok, self.common
        self.scope, self.clause, self.inside, self.aggregates_ok = (
            Scope(parent=outer[0]),
            "SELECT",
            False,
            True,
        )
        self.common = dict(self.common)
        try:
            common = self._common(node)
            if isinstance(node, exp.Subquery):
                sql, columns = self._wrapped(node)
            elif isinstance(node, exp.Select):
                sql, columns = self._select(node)
            elif isinstance(node, exp.SetOperation):
                sql, columns = self._union(node)
            else:
                raise unsupported(type(node).__name__.upper())
            return common + sql, columns
        finally:
            self.scope, self.clause, self.inside, self.aggregates_ok, self.common = outer

    def _common(self, node: Any) -> str:
        """WITH."""
        clause = node.args.get("with_") or node.args.get("with")
        if clause is None:
            return ""
        parts = []
        for table in clause.expressions:
            names = [part.name for part in table.args["alias"].args.get("columns") or ()]
            query = table.this
            if clause.args.get("recursive") and isinstance(query, exp.SetOperation):
                base = self.query(query.this)[1]
                self.common[table.alias] = self._renamed(base, names)
            sql, columns = self.query(query)
            self.common[table.alias] = self._renamed(columns, names)
            heads = ", ".join(quoted(column.name) for column in self.common[table.alias])
            parts.append(f"{quoted(table.alias)}({heads}) AS ({sql})")
        return f"WITH {'RECURSIVE ' if clause.args.get('recursive') else ''}{', '.join(parts)} "

    @staticmethod
    def _renamed(columns: tuple[Column, ...], names: list[str]) -> tuple[Column, ...]:
        if not names:
            return columns
        return tuple(Column(name, column.kind) for name, column in zip(names, columns, strict=False))

    def _wrapped(self, node: Any) -> tuple[str, tuple[Column, ...]]:
        """A query in brackets with an ORDER BY or LIMIT of its own."""
        sql, columns = self.query(node.this)
        self.scope.sources = [Source("u", columns, "")]
        self.scope.aliases = self._by_name(columns)
        return f"SELECT * FROM ({sql}) AS u{self._order(node, columns)}{self._limit(node)}", columns

    def _by_name(self, columns: tuple[Column, ...]) -> dict[str, Expr]:
        return {column.name.lower(): Expr(f"u.{quoted(column.name)}", column.kind) for column in columns}

    def _union(self, node: Any) -> tuple[str, tuple[Column, ...]]:
        """UNION, EXCEPT, INTERSECT."""
        (left, columns), (right, others) = self.query(node.this), self.query(node.expression)
        if len(columns) != len(others):
            raise MySQLError(1222, "The used SELECT statements have a different number of columns")
        word = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}[type(node)]
        if word == "UNION" and not node.args.get("distinct"):
            word = "UNION ALL"
        kinds = [
            a.kind if a.kind == b.kind else "text" if "text" in (a.kind, b.kind) else "any"
            for a, b in zip(columns, others, strict=True)
        ]
        recursive = isinstance(node.parent, exp.CTE)
        arms = []
        for sql, own in ((left, columns), (right, others)):
            parts = [self._arm(column, kind) for column, kind in zip(own, kinds, strict=True)]
            arms.append(sql if recursive else f"SELECT {', '.join(parts)} FROM ({sql}) AS u")
        columns = tuple(Column(column.name, kind) for column, kind in zip(columns, kinds, strict=True))
        sql = f"{arms[0]} {word} {arms[1]}"
        if node.args.get("order") or node.args.get("limit"):
            self.scope.sources = [Source("u", columns, "")]
            self.scope.aliases = self._by_name(columns)
            sql = f"SELECT * FROM ({sql}) AS u{self._order(node, columns)}{self._limit(node)}"
        return sql, columns

    @staticmethod
    def _arm(column: Column, kind: str) -> str:
        name = f"u.{quoted(column.name)}"
        if kind != "text":
            return name
        return f"{name if column.kind == 'text' else f'm_text({name})'}{COLLATE} AS {quoted(column.name)}"

    def _select(self, node: Any) -> tuple[str, tuple[Column, ...]]:
        scope = self.scope
        joins = self._from(node)
        scope.grouped = bool(node.args.get("group")) or self._aggregated(node)
        pending = self._keys(node)
        items = self._items(node)
        source = self._joined(joins)
        where = self._where(node)
        if pending is not None:
            raise pending
        self.clause = "HAVING"
        having = f" HAVING {self.truth(node.args['having'].this)}" if node.args.get("having") else ""
        columns = tuple(Column(name, item.kind) for name, item in items)
        distinct = node.args.get("distinct") is not None
        sql = f"SELECT {'DISTINCT ' if distinct else ''}" + ", ".join(
            f"{item.sql}{COLLATE if distinct and item.kind == 'text' else ''} AS {quoted(name)}"
            for name, item in items
        )
        group = self._group(node)
        if having and not scope.grouped:
            having = (" AND " if where else " WHERE ") + having.removeprefix(" HAVING ")
        ordered = [item for _, item in items]
        tail = f"{source}{where}{group}{having}{self._order(node, columns, ordered, distinct)}{self._limit(node)}"
        return sql + tail, columns

    def _from(self, node: Any) -> list[tuple[Any, Source]]:
        """The sources of FROM and its joins, in order; ON comes later."""
        clause = node.args.get("from_") or node.args.get("from")
        if clause is None:
            return []
        joins: list[tuple[Any, Source]] = []
        self._add(None, clause.this, joins)
        for join in node.args.get("joins") or ():
            self._add(join, join.this, joins)
        return joins

    def _add(self, join: Any, table: Any, joins: list[tuple[Any, Source]]) -> None:
        if isinstance(table, exp.Subquery) and isinstance(table.this, exp.Table):
            self._add(join, table.this, joins)
            for inner in table.args.get("joins") or ():
                self._add(inner, inner.this, joins)
            return
        source = self._source(table)
        if source is None:
            return
        if any(source.alias == other.alias for other in self.scope.sources):
            raise MySQLError(1066, f"Not unique table/alias: '{source.alias}'")
        self._merge(join, source)
        self.scope.sources.append(source)
        joins.append((join, source))
        for inner in table.args.get("joins") or ():
            self._add(inner, inner.this, joins)

    def _merge(self, join: Any, source: Source) -> None:
        if join is None:
            return
        if join.args.get("using"):
            source.merged = {part.name.lower() for part in join.args["using"]}
        elif str(join.args.get("method") or "").upper() == "NATURAL":
            known = {column.name.lower() for other in self.scope.sources for column in other.columns}
            source.merged = {column.name.lower() for column in source.columns} & known

    def _source(self, table: Any) -> Source | None:
        if isinstance(table, exp.Subquery):
            sql, columns = self.query(table.this)
            names = [column.name.lower() for column in columns]
            doubled = next((name for place, name in enumerate(names) if name in names[:place]), None)
            if doubled is not None:
                raise MySQLError(1060, f"Duplicate column name '{columns[names.index(doubled)].name}'")
            return Source(table.alias, columns, f"({sql})")
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise unsupported(type(table).__name__.upper())
        name, database = table.name, table.db
        if name.upper() == "DUAL" and not database and not table.this.args.get("quoted"):
            return None
        if not database and name in self.common:
            return Source(table.alias or name, self.common[name], quoted(name))
        found = self.tables(database, name)
        if found is None:
            raise no_such_table(name, database or self.database)
        return Source(table.alias or name, found.columns, found.sql)

    def _joined(self, joins: list[tuple[Any, Source]]) -> str:
        """FROM with its joins."""
        self.clause = "ON"
        self.aggregates_ok, grouped, self.scope.grouped = False, self.scope.grouped, False
        parts: list[str] = []
        for join, source in joins:
            sql = f"{source.sql} AS {quoted(source.alias)}"
            if join is None:
                parts.append(sql)
                continue
            side = str(join.args.get("side") or "").upper()
            method = "NATURAL " if str(join.args.get("method") or "").upper() == "NATURAL" else ""
            word = f" {method}{side + ' ' if side in ('LEFT', 'RIGHT') else ''}JOIN "
            using = join.args.get("using")
            tail = f" USING ({', '.join(quoted(part.name) for part in using)})" if using else ""
            if join.args.get("on") is not None:
                tail = f" ON {self.truth(join.args['on'])}"
            parts.append(f"{word}{sql}{tail}")
        self.aggregates_ok, self.scope.grouped = True, grouped
        return " FROM " + "".join(parts) if parts else ""

    def _where(self, node: Any) -> str:
        self.clause = "WHERE"
        clause = node.args.get("where")
        if clause is None:
            return ""
        self.aggregates_ok, grouped, self.scope.grouped = False, self.scope.grouped, False
        try:
            return f" WHERE {self.truth(clause.this)}"
        finally:
            self.aggregates_ok, self.scope.grouped = True, grouped

    def _keys(self, node: Any) -> MySQLError | None:
        """Find what the query groups by; an error is told later, in MySQL's order."""
        group = node.args.get("group")
        if group is None:
            return None
        if any(group.args.get(part) for part in ("rollup", "cube", "grouping_sets")):
            raise unsupported("WITH ROLLUP")
        grouped, self.scope.grouped, self.clause = self.scope.grouped, False, "GROUP BY"
        chosen = {item.alias.lower(): item.this for item in node.expressions if isinstance(item, exp.Alias)}
        keys = []
        try:
            for key in group.expressions:
                if isinstance(key, exp.Literal) and not key.is_string:
                    place = int(key.name) - 1
                    if not 0 <= place < len(node.expressions):
                        raise MySQLError(1054, f"Unknown column '{key.name}' in 'GROUP BY'")
                    key = node.expressions[place].unalias()
                elif isinstance(key, exp.Column) and not key.table and key.name.lower() in chosen:
                    if self.scope.column(key.name, "", self.clause) is None:
                        key = chosen[key.name.lower()]
                keys.append(self.expr(key))
        except MySQLError as error:
            return error
        finally:
            self.scope.grouped, self.clause = grouped, "SELECT"
        self.scope.keys = frozenset(key.sql for key in keys)
        return None

    def _group(self, node: Any) -> str:
        if node.args.get("group") is None:
            return ""
        keys = [f"{key}{COLLATE}" for key in sorted(self.scope.keys)]
        return f" GROUP BY {', '.join(keys)}"

    def _items(self, node: Any) -> list[tuple[str, Expr]]:
        """What is selected: names and expressions; fills the scope's aliases."""
        self.clause = "SELECT"
        items: list[tuple[str, Expr]] = []
        for item in node.expressions:
            table = item.table if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) else ""
            if isinstance(item, exp.Star) or table:
                items += self._star(table)
                continue
            inner = item.unalias()
            expr = self.expr(inner)
            name = item.alias or (inner.name if isinstance(inner, exp.Column) else inner.sql(dialect="mysql"))
            items.append((name, expr))
            if item.alias or isinstance(inner, exp.Column):
                self.scope.aliases.setdefault(name.lower(), expr)
        return items

    def _star(self, table: str) -> list[tuple[str, Expr]]:
        found: list[tuple[str, Expr]] = []
        for source in self.scope.sources:
            if table and source.alias != table:
                continue
            for column in source.columns:
                if table or column.name.lower() not in source.merged:
                    plain = source.expr(column)
                    wrap = self.scope.grouped and plain.sql not in self.scope.keys
                    found.append((column.name, Expr(f"m_first({plain.sql})", plain.kind) if wrap else plain))
                    self.scope.aliases.setdefault(column.name.lower(), found[-1][1])
        if table and not any(source.alias == table for source in self.scope.sources):
            raise MySQLError(1051, f"Unknown table '{self.database}.{table}'")
        if not self.scope.sources:
            raise MySQLError(1096, "No tables used")
        return found

    def _order(
        self, node: Any, columns: tuple[Column, ...], items: list[Expr] | None = None, distinct: bool = False
    ) -> str:
        clause = node.args.get("order")
        if clause is None:
            return ""
        self.clause = "ORDER BY"
        parts = []
        for term in clause.expressions:
            inner = term.this
            if isinstance(inner, exp.Literal) and not inner.is_string:
                place = int(inner.name) - 1 if inner.name.isdigit() else -1
                if not 0 <= place < len(columns):
                    raise MySQLError(1054, f"Unknown column '{inner.name}' in 'ORDER BY'")
                key = items[place] if items else Expr(f"u.{quoted(columns[place].name)}", columns[place].kind)
            else:
                key = self.expr(inner)
            parts.append(self.sortable(key) + (" DESC" if term.args.get("desc") else ""))
        return f" ORDER BY {', '.join(parts)}"

    def _limit(self, node: Any) -> str:
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is None:
            return ""
        count: Any = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression
        sizes = [count] if offset is None else [count, offset.expression]
        if any(
            not isinstance(size, exp.Literal) or size.is_string or not size.name.isdigit() for size in sizes
        ):
            raise unsupported("this LIMIT")
        numbers = [str(min(int(size.name), 2**62)) for size in sizes]
        return f" LIMIT {' OFFSET '.join(numbers)}"

    def _aggregated(self, node: Any) -> bool:
        """Whether the query has an aggregate of its own, not one of a query inside it or of a window."""
        roots = [*node.expressions, *(node.args[part] for part in ("having", "order") if node.args.get(part))]
        stack = list(roots)
        while stack:
            part = stack.pop()
            if isinstance(part, exp.Window):
                stack += list(part.this.iter_expressions())
                continue
            if isinstance(part, exp.GroupConcat) or (
                isinstance(part, exp.Anonymous) and str(part.this).lower() in AGGREGATES
            ):
                return True
            if not isinstance(part, (*_QUERIES, exp.Subquery)):
                stack += list(part.iter_expressions())
        return False
