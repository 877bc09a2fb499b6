"""Aggregates and functions over windows of MySQL, as SQLite."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ecdysis_lab.benchmarks.agentbench.aggregates import WINDOWED
from ecdysis_lab.benchmarks.agentbench.errors import MySQLError, unsupported
from ecdysis_lab.benchmarks.agentbench.nodes import METHODS, SPECIAL
from ecdysis_lab.benchmarks.agentbench.rewrite import COLLATE, RANKS, SHIFTS, Expressions
from ecdysis_lab.benchmarks.agentbench.scope import Expr


class Grouped(Expressions):
    """Expressions with aggregates in them."""

    methods, special = METHODS, SPECIAL

    def aggregate(self, node: Any) -> Expr:
        """An aggregate, or a function over a window.

        Raises
        ------
        MySQLError : 1111 where no aggregate may stand.
        """
        if isinstance(node, exp.Window):
            return self._window(node)
        if self.inside or not self.aggregates_ok:
            raise MySQLError(1111, "Invalid use of group function")
        self.inside = True
        try:
            return self._group_concat(node) if isinstance(node, exp.GroupConcat) else self._aggregate(node)
        finally:
            self.inside = False

    def _aggregate(self, node: Any) -> Expr:
        name = str(node.this).lower()
        arguments = list(node.expressions)
        if name == "group_concat":
            return self._group_concat(exp.GroupConcat(this=arguments[0].copy()))
        distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
        if distinct:
            arguments = list(arguments[0].expressions)
        if name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
            return Expr("COUNT(*)", "int")
        if not arguments or (len(arguments) > 1 and not (name == "count" and distinct)):
            raise MySQLError(1064, "You have an error in your SQL syntax near ')'")
        parts = [self.expr(argument) for argument in arguments]
        if name == "count":
            call = "m_count_distinct" if distinct else "COUNT"
            return Expr(f"{call}({', '.join(part.sql for part in parts)})", "int")
        kind = parts[0].kind
        if name not in ("max", "min"):
            kind = "real" if kind not in ("int", "dec") or name not in ("sum", "avg") else "dec"
        return Expr(
            f"m_{name}({'DISTINCT ' if distinct else ''}{parts[0].sql}{COLLATE if distinct else ''})", kind
        )

    def _group_concat(self, node: Any) -> Expr:
        inner, order = node.this, None
        if isinstance(inner, exp.Order):
            order, inner = inner.expressions, inner.this
        distinct = isinstance(inner, exp.Distinct)
        values = inner.expressions if distinct else [inner]
        if len(values) == 1 and isinstance(values[0], exp.Order):
            order, values = values[0].expressions, [values[0].this]
        parts = [self.expr(value).sql for value in values]
        keys = [self.expr(term.this).sql for term in order or ()]
        shape = f"{'d' if distinct else '-'}{len(parts)}" + "".join(
            "-" if t.args.get("desc") else "+" for t in order or ()
        )
        separator = node.args.get("separator")
        between = self.bind(separator.name if separator is not None else ",")
        return Expr(f"m_group_concat({self.bind(shape)}, {between}, {', '.join(parts + keys)})", "text")

    def _window(self, node: Any) -> Expr:
        if node.args.get("spec") is not None:
            raise unsupported("frames of windows")
        call = node.this
        name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
        arguments = [self.expr(part) for part in call.expressions if not isinstance(part, exp.Star)]
        if name in WINDOWED:
            head, kind = f"m_{name}({arguments[0].sql})", arguments[0].kind
            kind = kind if name in ("max", "min") else "dec" if kind in ("int", "dec") else "real"
        elif name in RANKS or name == "count":
            head, kind = (
                f"{name}({', '.join(a.sql for a in arguments) or ('*' if name == 'count' else '')})",
                "int",
            )
        elif name in SHIFTS:
            head, kind = f"{name}({', '.join(part.sql for part in arguments)})", arguments[0].kind
        else:
            raise unsupported("this window function")
        partition = ", ".join(self.expr(part).sql + COLLATE for part in node.args.get("partition_by") or ())
        order = node.args.get("order")
        terms = [
            self.sortable(self.expr(term.this)) + (" DESC" if term.args.get("desc") else "")
            for term in (order.expressions if order is not None else ())
        ]
        over = (f"PARTITION BY {partition} " if partition else "") + (
            f"ORDER BY {', '.join(terms)}" if terms else ""
        )
        return Expr(f"{head} OVER ({over.strip()})", kind)

    @staticmethod
    def sortable(key: Expr) -> str:
        """The key of ORDER BY that sorts as MySQL does."""
        if key.kind in ("dec", "any"):
            return f"m_sortable({key.sql}){COLLATE}"
        return f"({key.sql}){'' if ' COLLATE ' in key.sql else COLLATE}"
