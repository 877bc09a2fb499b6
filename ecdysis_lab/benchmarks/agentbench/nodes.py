"""Which part of an expression tree becomes what: the tables that ``rewrite.Expressions`` goes by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from ecdysis_lab.benchmarks.agentbench.dates import DATE_FUNCTIONS
from ecdysis_lab.benchmarks.agentbench.errors import MySQLError, unknown_column, unsupported
from ecdysis_lab.benchmarks.agentbench.rewrite import ARITHMETIC, COMPARISONS, Expressions
from ecdysis_lab.benchmarks.agentbench.scope import Expr

_BITS = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseLeftShift: "<<", exp.BitwiseRightShift: ">>"}


def _named(name: str, *keys: str, kind: str = "text") -> Callable[[Expressions, Any], Expr]:
    """A node of sqlglot's own whose parts are a function's arguments."""

    def build(self: Expressions, node: Any) -> Expr:
        parts = [self.expr(node.args[key]).sql for key in keys if node.args.get(key) is not None]
        return Expr(f"m_{name}({', '.join(parts)})", kind)

    return build


def _joined(self: Expressions, node: Any) -> Expr:
    return Expr(f"m_concat({', '.join(self.expr(part).sql for part in node.expressions)})", "text")


def _char(self: Expressions, node: Any) -> Expr:
    return Expr(f"m_char({', '.join(self.expr(part).sql for part in node.expressions)})", "text")


def _trim(self: Expressions, node: Any) -> Expr:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position") or "", "trim")
    return _named(name, "this", "expression")(self, node)


def _extract(self: Expressions, node: Any) -> Expr:
    name = node.name.lower()
    if name not in ("year", "month", "day", "hour", "minute", "second", "quarter", "week"):
        raise unsupported(f"EXTRACT({node.name})")
    return Expr(f"m_{name}({self.expr(node.expression).sql})", "int")


def _parts(self: Expressions, node: Any, count: int) -> list[Expr]:
    if len(node.expressions) != count:
        raise MySQLError(1582, f"Incorrect parameter count in the call to native function '{node.this}'")
    return [self.expr(part) for part in node.expressions]


def _ifnull(self: Expressions, node: Any) -> Expr:
    return self.chosen(_parts(self, node, 2), lambda sqls: f"ifnull({sqls[0]}, {sqls[1]})")


def _coalesce(self: Expressions, node: Any) -> Expr:
    parts = [self.expr(part) for part in node.expressions]
    return self.chosen(parts, lambda sqls: f"coalesce({', '.join([*sqls, 'NULL'])})")


def _nullif(self: Expressions, node: Any) -> Expr:
    left, right = _parts(self, node, 2)
    return Expr(f"iif({self.compare('eq', left, right)}, NULL, {left.sql})", left.kind)


def _isnull(self: Expressions, node: Any) -> Expr:
    return Expr(f"({_parts(self, node, 1)[0].sql} IS NULL)", "int")


def _mod(self: Expressions, node: Any) -> Expr:
    left, right = (exp.paren(part.copy()) for part in node.expressions[:2])
    return self.arithmetic(exp.Mod(this=left, expression=right))


def _date_moved(sign: int) -> Callable[[Expressions, Any], Expr]:
    def build(self: Expressions, node: Any) -> Expr:
        value, moved = node.expressions
        if not isinstance(moved, exp.Interval):
            moved = exp.Interval(this=moved, unit=exp.Var(this="DAY"))
        return self.shifted(value, moved, sign)

    return build


def _told(value: str) -> Callable[[Expressions, Any], Expr]:
    def build(self: Expressions, node: Any) -> Expr:
        return Expr(self.bind(value.format(database=self.database)), "text")

    return build


def _number(value: int) -> Callable[[Expressions, Any], Expr]:
    return lambda self, node: Expr(str(value), "int")


def _now(name: str) -> Callable[[Expressions, Any], Expr]:
    return lambda self, node: Expr(f"m_{name}()", DATE_FUNCTIONS[name][3])


def _scalar(self: Expressions, node: Any) -> Expr:
    sql, columns = self.query(node.unnest())
    if len(columns) != 1:
        raise MySQLError(1241, "Operand should contain 1 column(s)")
    return Expr(f"(WITH q(c) AS ({sql}) SELECT m_single(c) FROM q)", columns[0].kind)


def _exists(self: Expressions, node: Any) -> Expr:
    return Expr(f"(EXISTS ({self.query(node.this.unnest())[0]}))", "int")


def _paren(self: Expressions, node: Any) -> Expr:
    inner = self.expr(node.this)
    return Expr(f"({inner.sql})", inner.kind) if " COLLATE " in inner.sql else inner


def _collated(self: Expressions, node: Any) -> Expr:
    exact = node.expression.name.lower().endswith("_bin")
    return Expr(f"{self.expr(node.this).sql} COLLATE {'BINARY' if exact else 'm_ci'}", "text")


def _bits(self: Expressions, node: Any) -> Expr:
    left, right = self.expr(node.this).sql, self.expr(node.expression).sql
    return Expr(f"(m_signed({left}) {_BITS[type(node)]} m_signed({right}))", "int")


def _default(self: Expressions, node: Any) -> Expr:
    if node.name.upper() != "DEFAULT":
        raise unknown_column(node.name, self.clause)
    return Expr("NULL", "null")


VERSION = "10.11.19-MariaDB"
SPECIAL: dict[str, Callable[[Expressions, Any], Expr]] = {
    "ifnull": _ifnull,
    "nvl": _ifnull,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "isnull": _isnull,
    "mod": _mod,
    "date_add": _date_moved(1),
    "date_sub": _date_moved(-1),
    "database": _told("{database}"),
    "schema": _told("{database}"),
    "version": _told(VERSION),
    "user": _told("agent@localhost"),
    "session_user": _told("agent@localhost"),
    "current_user": _told("agent@localhost"),
    "connection_id": _number(1),
    "last_insert_id": _number(0),
    "sleep": _number(0),
    "benchmark": _number(0),
    "get_lock": _number(1),
    "release_lock": _number(1),
    "load_file": lambda self, node: Expr("NULL", "null"),
}
METHODS: dict[type, Callable[[Expressions, Any], Expr]] = {
    **dict.fromkeys(COMPARISONS, Expressions.compared),
    **dict.fromkeys(ARITHMETIC, Expressions.arithmetic),
    **dict.fromkeys(_BITS, _bits),
    **dict.fromkeys((exp.And, exp.Or, exp.Xor), Expressions.logic),
    **dict.fromkeys((exp.Like, exp.Escape), Expressions.like),
    **dict.fromkeys((exp.Subquery, exp.Select, exp.SetOperation, exp.Union), _scalar),
    exp.Column: Expressions.column,
    exp.Literal: Expressions.literal,
    exp.National: lambda self, node: Expr(self.bind(node.name), "text"),
    exp.Introducer: lambda self, node: self.expr(node.expression),
    exp.HexString: lambda self, node: _hex_text(self, node),
    exp.Null: lambda self, node: Expr("NULL", "null"),
    exp.Boolean: lambda self, node: Expr(str(int(node.this)), "int"),
    exp.NullSafeEQ: Expressions.null_safe,
    exp.Neg: Expressions.negative,
    exp.Not: Expressions.negated,
    exp.Is: Expressions.tested,
    exp.In: Expressions.listed,
    exp.Between: Expressions.between,
    exp.RegexpLike: Expressions.regexp,
    exp.Case: Expressions.case,
    exp.If: Expressions.condition,
    exp.Cast: Expressions.cast,
    exp.TryCast: Expressions.cast,
    exp.Anonymous: Expressions.function,
    exp.Paren: _paren,
    exp.Collate: _collated,
    exp.Exists: _exists,
    exp.Concat: _joined,
    exp.Chr: _char,
    exp.Trim: _trim,
    exp.Substring: _named("substring", "this", "start", "length"),
    exp.StrPosition: _named("locate", "substr", "this", kind="int"),
    exp.Ceil: lambda self, node: _rounded(self, node, "ceil"),
    exp.Floor: lambda self, node: _rounded(self, node, "floor"),
    exp.Extract: _extract,
    exp.Var: _default,
    exp.CurrentDate: _now("curdate"),
    exp.CurrentTime: _now("curtime"),
    exp.CurrentTimestamp: _now("now"),
    exp.CurrentDatetime: _now("now"),
    exp.Localtime: _now("now"),
    exp.Localtimestamp: _now("now"),
    exp.CurrentUser: _told("agent@localhost"),
    exp.SessionParameter: lambda self, node: _system(self, node),
    exp.GroupConcat: lambda self, node: self.aggregate(node),
    exp.Window: lambda self, node: self.aggregate(node),
}


def _rounded(self: Expressions, node: Any, name: str) -> Expr:
    inner = self.expr(node.this)
    kind = "int" if inner.kind in ("int", "dec") else "real"
    return Expr(f"m_{name}({inner.sql})", kind)


def _system(self: Expressions, node: Any) -> Expr:
    if node.name.lower() != "version":
        raise MySQLError(1193, f"Unknown system variable '{node.name}'")
    return Expr(self.bind(VERSION), "text")


def _hex_text(self: Expressions, node: Any) -> Expr:
    digits = node.name if len(node.name) % 2 == 0 else "0" + node.name
    return Expr(self.bind(bytes.fromhex(digits).decode(errors="replace")), "text")
