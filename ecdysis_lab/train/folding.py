"""What the constant expressions of a source come to, without running it: joined, sliced, escaped, counted.

Only pure operations on constants are done, on values of bounded size; whatever is not constant is left as it is,
and the constant parts beside it are still joined.
"""

from __future__ import annotations

import ast
import functools
import operator
import string
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

MAX_SIZE = 10_000  # characters or items of a value, and of the arguments that make one
MAX_POWER = 64
MAX_STEPS = 200_000  # of one file; about a second
_TEXT_METHODS = frozenset(
    "capitalize casefold decode encode expandtabs format join lower lstrip partition removeprefix removesuffix replace"
    " rpartition rsplit rstrip split splitlines strip swapcase title translate upper zfill hex".split()
)
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (bytes, chr, dict, enumerate, float, hex, int, len, list, max, min, oct, ord, repr, round,
                            set, sorted, str, sum, tuple, zip)
}  # fmt: skip
_MAKERS: dict[str, Callable[..., Any]] = {"bytes.fromhex": bytes.fromhex, "str.maketrans": str.maketrans}
_SEARCHES = frozenset("compile match search fullmatch findall finditer sub subn".split())
_LAZY: dict[str, Callable[..., Any]] = {"reversed": reversed, "range": range}
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitXor: operator.xor,
    ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}
_FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError, MemoryError)


class NotConstant(Exception):
    """The expression depends on something that is not known, or would grow too large."""


@dataclass(frozen=True)
class Folded:
    """What the constant expressions of a source come to.

    Parameters
    ----------
    texts : line and value as text, in the order of the source; plain literals are among them, escapes come out.
    patterns : texts that are used as regular expressions.
    whole : whether that is all; after far too many operations the rest is left.
    """

    texts: tuple[tuple[int, str], ...] = ()
    patterns: tuple[str, ...] = ()
    whole: bool = True


@functools.lru_cache(maxsize=64)
def folded(source: str) -> Folded:
    """Fold a source; nothing comes of one that does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape is said by the static policy
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Folded()
    folder = _Folder(tree)
    texts = tuple((line, text) for line, value in folder.values() for text in _texts(value))
    return Folded(texts, tuple(folder.patterns()), folder.steps <= MAX_STEPS)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, str):
        yield value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield f"{value:.10g}" if isinstance(value, float) else str(value)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in sorted(value, key=str) if isinstance(value, (set, frozenset)) else value:
            yield from _texts(item)


class _Folder:
    """Folds the largest constant expressions of a module; names bound once in the file stand for their constants."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        nodes = self.nodes = list(ast.walk(tree))
        stores = Counter(n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
        stores.update(n.arg for n in nodes if isinstance(n, ast.arg))
        bound = [(n.targets[0], n.value) for n in nodes if isinstance(n, ast.Assign) and len(n.targets) == 1]
        bound += [(n.target, n.value) for n in nodes if isinstance(n, ast.AnnAssign) and n.value]
        self.bound = {t.id: v for t, v in bound if isinstance(t, ast.Name) and stores[t.id] == 1}
        self.known: dict[int, Any] = {}  # node -> its value, or NotConstant
        self.steps = 0
        self.names: dict[str, Any] = {}  # of the comprehensions that are being folded

    def values(self) -> Iterator[tuple[int, Any]]:
        """Line and value of each expression that is constant as a whole, and of the constant runs in the others."""
        waiting: list[ast.AST] = [self.tree]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.expr):
                value = self.attempt(node)
                if value is not NotConstant:
                    yield node.lineno, value
                    continue
                yield from ((node.lineno, run) for run in self._runs(node))
            waiting += reversed(list(ast.iter_child_nodes(node)))

    def patterns(self) -> Iterator[str]:
        """Constant first arguments of the functions of ``re``."""
        for node in self.nodes:
            if isinstance(node, ast.Call) and node.args:
                name = (
                    node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                )
                value = self.attempt(node.args[0]) if name in _SEARCHES else None
                if isinstance(value, str):
                    yield value

    def attempt(self, node: ast.expr) -> Any:
        """The value of an expression, or ``NotConstant``."""
        try:
            return self.fold(node)
        except (NotConstant, *_FAULTS):
            return NotConstant

    def _runs(self, node: ast.expr) -> Iterator[str]:
        """Texts of two or more constant neighbours in a sum or an f-string that is not constant as a whole."""
        run: list[str] = []
        for part in [*_parts(node), None]:
            value = NotConstant if part is None else self.attempt(part)
            if isinstance(value, str):
                run.append(value)
                continue
            if len(run) > 1:
                yield "".join(run)
            run = []

    def fold(self, node: ast.expr) -> Any:
        """The value of an expression.

        Raises
        ------
        NotConstant: it has none. Whatever the operation itself raises.
        """
        if self.names:  # within a comprehension a node has many values
            return self._folded(node)
        if id(node) not in self.known:
            self.known[id(node)] = NotConstant  # also what a name that leads to itself comes to
            self.known[id(node)] = self._folded(node)
        if (value := self.known[id(node)]) is NotConstant:
            raise NotConstant
        return value

    def _folded(self, node: ast.expr) -> Any:
        fold = _FOLDS.get(type(node))
        if fold is None or self.steps > MAX_STEPS:
            raise NotConstant
        value = _bounded(fold(self, node))
        self.steps += 1 + _size(value) // 100
        return value

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            return self.names[node.id]
        if node.id not in self.bound:
            raise NotConstant
        return self.fold(self.bound[node.id])

    def _attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == "string" and node.attr.islower():
            value = getattr(string, node.attr, None)
            if isinstance(value, str):
                return value
        raise NotConstant

    def _binary(self, node: ast.BinOp) -> Any:
        if isinstance(node.op, ast.Add):  # a long sum is a deep tree
            first, *rest = [self.fold(part) for part in _parts(node)]
            if isinstance(first, str):
                return first + "".join(rest)
            for value in rest:
                first = _bounded(first + value)
            return first
        left, right = self.fold(node.left), self.fold(node.right)
        counts = [v for v in (left, right) if isinstance(v, int)]
        sizes = [len(v) for v in (left, right) if isinstance(v, (str, bytes, list, tuple))]
        if isinstance(node.op, ast.Mult) and sizes and max(counts, default=0) * max(sizes) > MAX_SIZE:
            raise NotConstant
        if isinstance(node.op, (ast.Pow, ast.LShift)) and abs(right) > MAX_POWER:
            raise NotConstant
        if isinstance(node.op, ast.Mod) and isinstance(left, (str, bytes)) and _wide(left):
            raise NotConstant
        return _OPERATORS[type(node.op)](left, right)

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self.fold(node.operand)
        return (
            -value if isinstance(node.op, ast.USub) else ~value if isinstance(node.op, ast.Invert) else value
        )

    def _joined(self, node: ast.JoinedStr) -> str:
        return "".join(self.fold(part) for part in node.values)

    def _formatted(self, node: ast.FormattedValue) -> str:
        value = self.fold(node.value)
        spec = self.fold(node.format_spec) if node.format_spec else ""
        if _wide(spec):
            raise NotConstant
        if node.conversion in _CONVERSIONS:
            value = _CONVERSIONS[node.conversion](value)
        return format(value, spec)

    def _sequence(self, node: ast.List | ast.Tuple | ast.Set) -> Any:
        items: list[Any] = []
        for item in node.elts:
            items += self.fold(item.value) if isinstance(item, ast.Starred) else [self.fold(item)]
        return (
            tuple(items)
            if isinstance(node, ast.Tuple)
            else set(items)
            if isinstance(node, ast.Set)
            else items
        )

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        if None in node.keys:
            raise NotConstant
        return {self.fold(k): self.fold(v) for k, v in zip(node.keys, node.values, strict=True) if k}

    def _subscript(self, node: ast.Subscript) -> Any:
        return self.fold(node.value)[self.fold(node.slice)]

    def _slice(self, node: ast.Slice) -> slice:
        return slice(*(part and self.fold(part) for part in (node.lower, node.upper, node.step)))

    def _choice(self, node: ast.IfExp) -> Any:
        return self.fold(node.body if self.fold(node.test) else node.orelse)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> list[Any]:
        if len(node.generators) != 1:
            raise NotConstant
        (loop,), outer, out = node.generators, self.names, []
        items = list(self.fold(loop.iter))
        try:
            for item in items:
                self.names = {**outer, **_unpacked(loop.target, item)}
                if all(self.fold(test) for test in loop.ifs):
                    out.append(self.fold(node.elt))
        finally:
            self.names = outer
        return out

    def _compare(self, node: ast.Compare) -> bool:
        if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            raise NotConstant
        same = bool(self.fold(node.left) == self.fold(node.comparators[0]))
        return same is isinstance(node.ops[0], ast.Eq)

    def _call(self, node: ast.Call) -> Any:
        function = node.func
        if isinstance(function, ast.Name) and function.id == "map" and len(node.args) == 2:
            return [self._applied(node.args[0], item) for item in self.fold(node.args[1])]
        arguments: list[Any] = []
        for argument in node.args:
            several = (
                self.fold(argument.value) if isinstance(argument, ast.Starred) else [self.fold(argument)]
            )
            arguments += several
        named = {k.arg: self.fold(k.value) for k in node.keywords if k.arg}
        if len(named) < len(node.keywords) or sum(map(_size, arguments)) > MAX_SIZE:
            raise NotConstant
        if isinstance(function, ast.Name) and function.id not in self.bound:
            return _plain_call(function.id, arguments, named)
        if isinstance(function, ast.Attribute):
            return self._method(function, arguments, named)
        raise NotConstant

    def _applied(self, function: ast.expr, item: Any) -> Any:
        if isinstance(function, ast.Name):
            return _plain_call(function.id, [item], {})
        if not isinstance(function, ast.Lambda) or len(function.args.args) != 1:
            raise NotConstant
        outer = self.names
        try:
            self.names = {**outer, function.args.args[0].arg: item}
            return self.fold(function.body)
        finally:
            self.names = outer

    def _method(self, function: ast.Attribute, arguments: list[Any], named: dict[str, Any]) -> Any:
        owner = function.value
        maker = f"{owner.id}.{function.attr}" if isinstance(owner, ast.Name) else ""
        if maker in _MAKERS:
            return _MAKERS[maker](*arguments)
        value = self.fold(owner)
        if not isinstance(value, (str, bytes)) or function.attr not in _TEXT_METHODS:
            raise NotConstant
        if function.attr in ("zfill", "expandtabs") and max(arguments, default=0) > MAX_SIZE:
            raise NotConstant
        if (
            function.attr in ("replace", "translate", "join")
            and len(value) * _size(arguments) > 100 * MAX_SIZE
        ):
            raise NotConstant
        if function.attr == "format" and (_wide(value) or any(map(_large, [*arguments, *named.values()]))):
            raise NotConstant
        return getattr(value, function.attr)(*arguments, **named)


def _plain_call(name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    if name in _LAZY:
        made = _LAZY[name](*arguments)
        if isinstance(made, range) and len(made) > MAX_SIZE:
            raise NotConstant
        return list(made)
    if name not in _FUNCTIONS or (name == "bytes" and arguments and isinstance(arguments[0], int)):
        raise NotConstant
    made = _FUNCTIONS[name](*arguments, **named)
    return list(made) if name in ("enumerate", "zip") else made


def _parts(node: ast.expr) -> list[ast.expr]:
    """The terms of a sum from left to right, or the parts of an f-string."""
    if isinstance(node, ast.JoinedStr):
        return node.values
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
        return []
    terms: list[ast.expr] = []
    at: ast.expr = node
    while isinstance(at, ast.BinOp) and isinstance(at.op, ast.Add):
        terms.append(at.right)
        at = at.left
    return [at, *reversed(terms)]


def _unpacked(target: ast.expr, item: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: item}
    if isinstance(target, ast.Tuple) and len(target.elts) == len(item):
        return {k: v for t, i in zip(target.elts, item, strict=True) for k, v in _unpacked(t, i).items()}
    raise NotConstant


def _wide(form: str | bytes) -> bool:
    """Whether a format may name a width of more than three digits, or take one from an argument."""
    text = form.decode("latin-1") if isinstance(form, bytes) else form
    return "*" in text or any(
        len(run) > 3 for run in "".join(c if c.isdigit() else " " for c in text).split()
    )


def _large(value: Any) -> bool:
    return isinstance(value, int) and abs(value) > MAX_SIZE


def _size(value: Any) -> int:
    """Characters and items of a value, those of its items included."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, dict):
        value = [*value, *value.values()]
    return 1 + sum(map(_size, value)) if isinstance(value, (list, tuple, set, frozenset)) else 1


def _bounded(value: Any) -> Any:
    if _size(value) > MAX_SIZE or (isinstance(value, int) and value.bit_length() > 1000):
        raise NotConstant
    return value


_FOLDS: dict[type[ast.expr], Callable[[_Folder, Any], Any]] = {
    ast.Constant: _Folder._constant, ast.Name: _Folder._name, ast.Attribute: _Folder._attribute,
    ast.BinOp: _Folder._binary, ast.UnaryOp: _Folder._unary, ast.JoinedStr: _Folder._joined,
    ast.FormattedValue: _Folder._formatted, ast.List: _Folder._sequence, ast.Tuple: _Folder._sequence,
    ast.Set: _Folder._sequence, ast.Dict: _Folder._dict, ast.Subscript: _Folder._subscript,
    ast.Slice: _Folder._slice, ast.IfExp: _Folder._choice, ast.ListComp: _Folder._comprehension,
    ast.GeneratorExp: _Folder._comprehension, ast.SetComp: _Folder._comprehension, ast.Compare: _Folder._compare,
    ast.Call: _Folder._call,
}  # fmt: skip
