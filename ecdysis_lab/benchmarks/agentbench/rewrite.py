"""Expressions of MySQL as SQLite: every operation becomes a function of ours, so that values turn as MySQL's do."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from sqlglot import exp

from ecdysis_lab.benchmarks.agentbench.aggregates import WINDOWED
from ecdysis_lab.benchmarks.agentbench.dates import DATE_FUNCTIONS, UNITS
from ecdysis_lab.benchmarks.agentbench.errors import MySQLError, unknown_column, unsupported
from ecdysis_lab.benchmarks.agentbench.mysql_functions import TEXT_FUNCTIONS
from ecdysis_lab.benchmarks.agentbench.number_functions import NUMBER_FUNCTIONS
from ecdysis_lab.benchmarks.agentbench.scope import Expr, Scope
from ecdysis_lab.benchmarks.agentbench.values import save

FUNCTIONS = TEXT_FUNCTIONS | NUMBER_FUNCTIONS | DATE_FUNCTIONS
SYNONYMS = {"mid": "substring", "substr": "substring", "adddate": "date_add", "subdate": "date_sub"}
RANKS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"})
SHIFTS = frozenset({"lag", "lead", "first_value", "last_value", "nth_value"})
AGGREGATES = frozenset({*WINDOWED, "count", "group_concat"})
REAL = frozenset({"text", "real", "any", "null"})
COLLATE = " COLLATE m_ci"
COMPARISONS = {exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge"}
_OPERATORS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
ARITHMETIC = {
    exp.Add: "add",
    exp.Sub: "sub",
    exp.Mul: "mul",
    exp.Div: "div",
    exp.Mod: "mod",
    exp.IntDiv: "intdiv",
}
_TRUTHS = (
    *COMPARISONS,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.Exists,
    exp.Boolean,
)


class Expressions:
    """Turns expression trees into SQL for SQLite; texts and odd numbers become parameters."""

    methods: dict[type, Callable[[Any, Any], Expr]]  # what to do with each kind of node; see ``nodes``
    special: dict[str, Callable[[Any, Any], Expr]]  # functions that are more than a call

    def __init__(self, database: str) -> None:
        self.database = database
        self.parameters: list[Any] = []
        self.places: dict[Any, int] = {}
        self.scope = Scope()
        self.clause = "SELECT"
        self.inside = False  # an aggregate's argument
        self.aggregates_ok = True

    def query(self, node: exp.Expression) -> tuple[str, tuple[Any, ...]]:
        """SQL and columns of a query; see ``queries``."""
        raise NotImplementedError

    def bind(self, value: Any) -> str:
        """A parameter that holds the value."""
        value = save(value)
        place = self.places.setdefault((type(value), value), len(self.parameters) + 1)
        if place > len(self.parameters):
            self.parameters.append(value)
        return f"?{place}"

    def expr(self, node: exp.Expression) -> Expr:
        """The expression for SQLite; in a grouped query one of the keys is itself.

        Raises
        ------
        MySQLError : what MySQL says of it.
        """
        scope = self.scope
        if scope.grouped and scope.keys and not self.inside and not isinstance(node, exp.Literal):
            scope.grouped = False
            try:
                plain = self._expr(node)
            finally:
                scope.grouped = True
            if plain.sql in scope.keys:
                return plain
        return self._expr(node)

    def _expr(self, node: exp.Expression) -> Expr:
        method = self.methods.get(type(node))
        if method is None:
            raise unsupported(type(node).__name__.upper())
        return method(self, node)

    def truth(self, node: exp.Expression) -> str:
        """A condition: 1, 0 or NULL."""
        inner = node.unnest() if isinstance(node, exp.Paren) else node
        sql = self.expr(node).sql
        return sql if isinstance(inner, _TRUTHS) else f"m_truth({sql})"

    def column(self, node: Any) -> Expr:
        """A column by MySQL's order of search: tables, then aliases where the clause knows them, then outside."""
        name, table = node.name, node.table
        scope: Scope | None = self.scope
        aliases = self.clause in ("ORDER BY", "GROUP BY", "HAVING") and not table
        first = True
        while scope is not None:
            alias = scope.aliases.get(name.lower()) if first and aliases and not self.inside else None
            if alias is not None and self.clause != "GROUP BY":
                return alias
            found = scope.column(name, table, self.clause)
            if found is not None and not (first and self._hidden(found, scope)):
                wrap = scope.grouped and first and not self.inside and found.sql not in scope.keys
                return Expr(f"m_first({found.sql})", found.kind) if wrap else found
            if alias is not None:
                return alias
            scope, first = scope.parent, False
        raise unknown_column(f"{table}.{name}" if table else name, self.clause)

    def _hidden(self, found: Expr, scope: Scope) -> bool:
        """Whether HAVING may not see a column: it is neither selected nor grouped by."""
        if self.clause != "HAVING" or self.inside or found.sql in scope.keys:
            return False
        return found.sql not in {
            part.sql.removeprefix("m_first(").removesuffix(")") for part in scope.aliases.values()
        }

    def literal(self, node: Any) -> Expr:
        """A text or a number; a number with a point is exact."""
        if node.is_string:
            return Expr(self.bind(node.name), "text")
        written = node.name.lower()
        if "e" in written:
            return Expr(self.bind(float(written)), "real")
        if "." in written or len(written) > 18:
            return Expr(self.bind(Decimal(written)), "dec")
        return Expr(str(int(written)), "int")

    def compared(self, node: Any) -> Expr:
        """A comparison; of two texts by SQLite itself, else by the rules of ``values.compare``."""
        name = COMPARISONS[type(node)]
        left, right = node.this.unnest(), node.expression.unnest()
        if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple) and name in ("eq", "ne"):
            pairs = zip(left.expressions, right.expressions, strict=True)
            parts = " AND ".join(self.compare("eq", self.expr(a), self.expr(b)) for a, b in pairs)
            return Expr(f"({parts})" if name == "eq" else f"(NOT ({parts}))", "int")
        if isinstance(right, exp.Any | exp.All):
            return self.quantified(name, left, right)
        return Expr(self.compare(name, self.expr(node.this), self.expr(node.expression)), "int")

    def compare(self, name: str, left: Expr, right: Expr) -> str:
        """The comparison of two expressions, by name: eq, ne, lt, le, gt, ge."""
        if left.kind == right.kind and left.kind in ("text", "int"):
            return f"({left.sql} {_OPERATORS[name]} {right.sql}{COLLATE if left.kind == 'text' else ''})"
        return f"m_{name}({left.sql}, {right.sql})"

    def quantified(self, name: str, left: Any, right: Any) -> Expr:
        """A comparison with ANY or ALL rows of a query."""
        sql, columns = self.query(right.this.unnest())
        row = Expr("q.c", columns[0].kind)
        value = self.expr(left)
        if isinstance(right, exp.Any):
            test = f"max({self.compare(name, value, row)}), 0"
        else:
            test = f"min({self.compare(name, value, row)}), 1"
        return Expr(f"(WITH q(c) AS ({sql}) SELECT coalesce({test}) FROM q)", "int")

    def null_safe(self, node: Any) -> Expr:
        """The comparison that knows NULL."""
        left, right = self.expr(node.this), self.expr(node.expression)
        return Expr(
            f"coalesce({self.compare('eq', left, right)}, {left.sql} IS NULL AND {right.sql} IS NULL)", "int"
        )

    def arithmetic(self, node: Any) -> Expr:
        """+, -, *, /, %, DIV; or a date and an INTERVAL."""
        if isinstance(node.expression, exp.Interval) or isinstance(node.this, exp.Interval):
            moved, value = (node.expression, node.this)
            if isinstance(node.this, exp.Interval):
                moved, value = value, moved
            return self.shifted(value, moved, -1 if isinstance(node, exp.Sub) else 1)
        left, right = self.expr(node.this), self.expr(node.expression)
        name = ARITHMETIC[type(node)]
        kind = (
            "real" if {left.kind, right.kind} & REAL else "dec" if "dec" in (left.kind, right.kind) else "int"
        )
        kind = "int" if name == "intdiv" else "dec" if name == "div" and kind == "int" else kind
        return Expr(f"m_{name}({left.sql}, {right.sql})", kind)

    def shifted(self, value: Any, interval: Any, sign: int) -> Expr:
        """A date moved by an INTERVAL."""
        unit = str(interval.args.get("unit") or "").upper()
        if unit not in UNITS:
            raise unsupported(f"INTERVAL {unit}")
        day, count = self.expr(value), self.expr(interval.this)
        kind = "text" if day.kind in ("text", "any") else day.kind
        return Expr(f"m_shift({day.sql}, {count.sql}, {self.bind(unit)}, {sign})", kind)

    def negative(self, node: Any) -> Expr:
        """Minus."""
        inner = self.expr(node.this)
        if isinstance(node.this, exp.Literal) and inner.kind == "int":
            return Expr(f"(-{inner.sql})", "int")
        return Expr(f"m_sub(0, {inner.sql})", inner.kind if inner.kind in ("int", "dec") else "real")

    def logic(self, node: Any) -> Expr:
        """AND, OR, XOR."""
        parts = [self.truth(part) for part in (node.this, node.expression)]
        if isinstance(node, exp.Xor):
            return Expr(f"({parts[0]} <> {parts[1]})", "int")
        return Expr(f"({parts[0]} {'AND' if isinstance(node, exp.And) else 'OR'} {parts[1]})", "int")

    def negated(self, node: Any) -> Expr:
        """NOT."""
        return Expr(f"(NOT {self.truth(node.this)})", "int")

    def tested(self, node: Any) -> Expr:
        """IS NULL, IS TRUE, IS FALSE."""
        if isinstance(node.expression, exp.Null):
            return Expr(f"({self.expr(node.this).sql} IS NULL)", "int")
        if not isinstance(node.expression, exp.Boolean):
            raise MySQLError(1064, "You have an error in your SQL syntax near 'IS'")
        return Expr(f"(coalesce({self.truth(node.this)}, {2}) = {int(node.expression.this)})", "int")

    def listed(self, node: Any) -> Expr:
        """IN a list, or the rows of a query."""
        query = node.args.get("query")
        value = self.expr(node.this)
        if query is None:
            items = [self.expr(item) for item in node.expressions]
            if all(item.kind == value.kind == "text" for item in items):
                return Expr(f"({value.sql}{COLLATE} IN ({', '.join(item.sql for item in items)}))", "int")
            return Expr("(" + " OR ".join(self.compare("eq", value, item) for item in items) + ")", "int")
        sql, columns = self.query(query.unnest())
        if len(columns) != 1:
            raise MySQLError(1241, "Operand should contain 1 column(s)")
        if value.kind == columns[0].kind == "text":
            return Expr(f"({value.sql}{COLLATE} IN ({sql}))", "int")
        test = self.compare("eq", value, Expr("q.c", columns[0].kind))
        return Expr(f"(WITH q(c) AS ({sql}) SELECT coalesce(max({test}), 0) FROM q)", "int")

    def between(self, node: Any) -> Expr:
        """BETWEEN; by number where any of the three is one."""
        value, low, high = (self.expr(node.args[part]) for part in ("this", "low", "high"))
        return Expr(f"({self.compare('ge', value, low)} AND {self.compare('le', value, high)})", "int")

    def like(self, node: Any) -> Expr:
        """LIKE, with or without NOT and ESCAPE."""
        escape, outer = "", node
        if isinstance(node, exp.Escape):
            escape, node = f", {self.expr(node.expression).sql}", node.this
        sql = f"m_like({self.expr(node.this).sql}, {self.expr(node.expression).sql}{escape})"
        return Expr(f"(NOT {sql})" if node.args.get("negate") or outer.args.get("negate") else sql, "int")

    def regexp(self, node: Any) -> Expr:
        """REGEXP and RLIKE."""
        return Expr(f"m_regexp({self.expr(node.this).sql}, {self.expr(node.expression).sql})", "int")

    def chosen(self, parts: list[Expr], template: Callable[[list[str]], str]) -> Expr:
        """A choice among expressions: a text where any is one, else the widest kind of number."""
        kinds = {part.kind for part in parts} - {"null"}
        if not kinds:
            return Expr(template([part.sql for part in parts]), "null")
        if len(kinds) == 1:
            kind = kinds.pop()
        else:
            numbers = kinds <= {"int", "dec", "real"}
            kind = ("real" if "real" in kinds else "dec") if numbers else "any" if "any" in kinds else "text"
        cast = {"text": "m_text({})", "real": "m_real({})", "dec": "m_exact({})"}
        sqls = [
            p.sql if p.kind in (kind, "null") or kind not in cast else cast[kind].format(p.sql) for p in parts
        ]
        return Expr(template(sqls), kind)

    def case(self, node: Any) -> Expr:
        """CASE, with or without a value."""
        value = node.args.get("this")
        tests = []
        for branch in node.args["ifs"]:
            if value is None:
                tests.append(self.truth(branch.this))
            else:
                tests.append(self.compare("eq", self.expr(value), self.expr(branch.this)))
        parts = [self.expr(branch.args["true"]) for branch in node.args["ifs"]]
        other = node.args.get("default")
        parts.append(self.expr(other) if other is not None else Expr("NULL", "null"))

        def write(sqls: list[str]) -> str:
            whens = " ".join(f"WHEN {test} THEN {sql}" for test, sql in zip(tests, sqls, strict=False))
            return f"(CASE {whens} ELSE {sqls[-1]} END)"

        return self.chosen(parts, write)

    def condition(self, node: Any) -> Expr:
        """IF()."""
        if node.args.get("true") is None or node.args.get("false") is None:
            raise unsupported("IF")
        test = self.truth(node.this)
        parts = [self.expr(node.args["true"]), self.expr(node.args["false"])]
        return self.chosen(parts, lambda sqls: f"iif({test}, {sqls[0]}, {sqls[1]})")

    def cast(self, node: Any) -> Expr:
        """CAST and CONVERT."""
        inner, target = self.expr(node.this), node.args["to"]
        name = target.this.name if hasattr(target.this, "name") else str(target.this)
        sizes = [int(size.name) for size in target.expressions if size.name.isdigit()]
        if name == "CHARACTER_SET" or (
            name in ("CHAR", "VARCHAR", "NCHAR", "TEXT", "BINARY", "VARBINARY") and not sizes
        ):
            return Expr(f"m_text({inner.sql}){' COLLATE BINARY' if name == 'BINARY' else ''}", "text")
        if name in ("CHAR", "VARCHAR", "NCHAR"):
            return Expr(f"m_left({inner.sql}, {sizes[0]})", "text")
        if name in ("DECIMAL", "UDECIMAL"):
            size, scale = (*sizes, 10, 0)[:2] if len(sizes) != 1 else (sizes[0], 0)
            return Expr(f"m_decimal({inner.sql}, {size}, {scale})", "dec")
        if name in ("FLOAT", "DOUBLE"):
            return Expr(f"m_real({inner.sql})", "real")
        if name in ("DATE", "TIME", "DATETIME", "TIMESTAMP"):
            name = "timestamp" if name == "DATETIME" else name.lower()
            return Expr(f"m_{name}({inner.sql})", DATE_FUNCTIONS[name][3])
        if name.endswith("INT"):
            return Expr(f"m_{'unsigned' if name.startswith('U') else 'signed'}({inner.sql})", "int")
        raise unsupported(f"CAST AS {name}")

    def function(self, node: Any) -> Expr:
        """A function by its name.

        Raises
        ------
        MySQLError : 1305 without such a function, 1582 for a wrong number of arguments.
        """
        written = str(node.this)
        name = SYNONYMS.get(written.lower(), written.lower())
        if name in AGGREGATES:
            return self.aggregate(node)
        special = self.special.get(name)
        if special is not None:
            return special(self, node)
        if name not in FUNCTIONS:
            if name in RANKS or name in SHIFTS:
                raise MySQLError(
                    4016, f"Window function is allowed only in SELECT list and ORDER BY clause: {written}"
                )
            raise MySQLError(1305, f"FUNCTION {self.database}.{written} does not exist")
        _, least, most, kind = FUNCTIONS[name]
        unit = name == "timestampdiff" and isinstance(node.expressions[0], exp.Column | exp.Var)
        rest = node.expressions[1:] if unit else node.expressions
        if not least <= len(node.expressions) <= most:
            raise MySQLError(1582, f"Incorrect parameter count in the call to native function '{written}'")
        parts = [self.expr(part) for part in rest]
        if unit:
            parts.insert(0, Expr(self.bind(node.expressions[0].name.upper()), "text"))
        if kind == "number":
            kind = parts[0].kind if parts[0].kind in ("int", "dec") else "real"
        elif kind == "any":
            kinds = {part.kind for part in parts}
            kind = kinds.pop() if len(kinds) == 1 else "real" if kinds & REAL else "dec"
        return Expr(f"m_{name}({', '.join(part.sql for part in parts)})", kind)

    def aggregate(self, node: Any) -> Expr:
        """COUNT, SUM, AVG, …; see ``queries``."""
        raise NotImplementedError
