"""The static policy: what harness source may say, checked without running it.

It is the first of the sandbox's lines and the only one that answers an author in words. It cannot be complete
(Python is too dynamic for that); ``ecdysis_lab.harness.host`` adds the lines that hold when this one is evaded.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

from ecdysis_lab.records import LAYER_FILES


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


HOOKS: dict[str, tuple[str, int]] = {
    "describe": ("contract", 1),
    "brief": ("skills", 2),
    "check": ("actions", 2),
    "observe": ("regulation", 3),
    "on_reply": ("regulation", 2),
}
"""Hook name -> (layer, number of positional arguments)."""

MAX_FILE_BYTES = 256 * 1024

IMPORTS = _words(
    "__future__ collections collections.abc dataclasses datetime decimal ecdysis_lab.hooks"
    " fractions functools itertools json math re statistics string textwrap typing unicodedata"
)
"""Modules that harness code may import."""

_NAMES = _words("open exec eval compile globals locals breakpoint memoryview setattr delattr")
_NAMES_IF_LOCAL = _words("dir exit hash help id input quit vars")  # ordinary words: fine as local variables
_GLOBAL_LOADS = _words("LOAD_NAME LOAD_GLOBAL LOAD_CLASSDEREF LOAD_FROM_DICT_OR_GLOBALS")
_MATCHED = _words("bool bytes dict float frozenset int list set str tuple")
"""Builtins that a class pattern may name: they match themselves, no attribute is read."""
_ATTRIBUTES = _words(
    "mro gi_frame gi_code cr_frame cr_code ag_frame ag_code f_back f_globals f_builtins f_locals f_code"
    " tb_frame tb_next co_code get_type_hints ForwardRef make_dataclass singledispatch singledispatchmethod"
    " Formatter format_map"
)
_CLOCK = frozenset({"now", "today", "utcnow"})
_PRIVATE_OK = frozenset({"_replace", "_asdict", "_fields"})
_METHODS = _words(
    "__init__ __post_init__ __repr__ __str__ __eq__ __lt__ __hash__ __len__ __iter__ __contains__ __getitem__"
    " __call__ __bool__"
)
_DUNDER = re.compile(r"__[a-z]+__|\{[^{}]*[.\[]_")


@dataclass(frozen=True)
class Problem:
    """One breach of the static policy: ``file``, 1-based ``line`` (0 for the whole file), and ``what``."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


@functools.lru_cache(maxsize=256)
def source_problems(name: str, source: str) -> tuple[Problem, ...]:
    """Breaches of the static policy in one hook file, by line."""
    if len(source) > MAX_FILE_BYTES:
        return (Problem(name, 0, f"longer than {MAX_FILE_BYTES} characters"),)
    if "\ufffd" in source or "\x00" in source:
        return (Problem(name, 0, "not plain UTF-8 text"),)
    try:
        tree = ast.parse(source)
        code = compile(source, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        return (Problem(name, error.lineno or 0, f"syntax error: {error.msg}"),)
    except (ValueError, RecursionError, MemoryError) as error:
        return (Problem(name, 0, f"cannot be parsed: {type(error).__name__} {error}".rstrip()),)
    known = {bound.partition(".")[0] for bound in _bindings(list(ast.walk(tree)))} | set(dir(builtins))
    found = [*_Policy(name, tree).problems(), *_looked_up(name, code, known)]
    return tuple(sorted(found, key=lambda p: p.line))


def _looked_up(file: str, code: CodeType, known: set[str]) -> Iterator[Problem]:
    """Names that Python would look up outside a function: what nothing binds, and ordinary words that are builtins.

    A local variable of that word frees its function only. A class may hash itself by its values. ``known`` : names
    that the file binds anywhere, and builtins.
    """
    todo = [code]
    while todo:
        code = todo.pop()
        todo += [c for c in code.co_consts if isinstance(c, CodeType)]
        line = code.co_firstlineno
        for step in dis.get_instructions(code):
            line = (step.positions.lineno if step.positions else None) or line
            if step.opname not in _GLOBAL_LOADS:
                continue
            if step.argval not in known and not step.argval.startswith("__"):
                yield Problem(file, line, f"{step.argval!r} is defined nowhere")
            elif step.argval in _NAMES_IF_LOCAL and (step.argval, code.co_name) != ("hash", "__hash__"):
                yield Problem(file, line, f"use of {step.argval!r}")


class _Policy:
    """The rules for one file. It walks iteratively, so that deep nesting cannot exhaust the stack."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self.file = file
        self.tree = tree
        nodes = list(ast.walk(tree))
        self.modules: dict[str, str] = {}
        self.imported: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    bound = alias.asname or alias.name.split(".")[0]
                    self.modules[bound] = alias.name if alias.asname else bound
            elif isinstance(node, ast.ImportFrom):
                self.imported.update(alias.asname or alias.name for alias in node.names)
                if node.module == "ecdysis_lab":
                    self.modules.update((a.asname or a.name, f"ecdysis_lab.{a.name}") for a in node.names)
        self.nodes = nodes
        self.bound = set(_bindings(nodes))
        self.owners = {id(n.value) for n in nodes if isinstance(n, ast.Attribute)}
        self.callees = {id(n.func): n for n in nodes if isinstance(n, ast.Call)}
        self.constants = _constant_names(tree, nodes)
        self.docstrings = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}

    def problems(self) -> Iterator[Problem]:
        """Breaches in no particular order."""
        for what in self._hooks():
            yield Problem(self.file, what[0], what[1])
        for node in self.nodes:
            rule = _RULES.get(type(node))
            if rule is not None:
                for what in rule(self, node):
                    yield Problem(self.file, getattr(node, "lineno", 0), what)

    def _hooks(self) -> Iterator[tuple[int, str]]:
        for block in (
            n for n in self.tree.body if isinstance(n, ast.If | ast.Try | ast.With | ast.For | ast.While)
        ):
            for node in ast.walk(block):
                if isinstance(node, ast.FunctionDef) and node.name in HOOKS:
                    yield (
                        node.lineno,
                        f"{node.name} stands inside a block; a hook is defined at the top level only",
                    )
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name in HOOKS:
                layer, arity = HOOKS[node.name]
                if LAYER_FILES[layer] != self.file:
                    yield node.lineno, f"{node.name} is a hook of {LAYER_FILES[layer]}; it never runs here"
                elif len(node.args.posonlyargs + node.args.args) != arity or node.args.kwonlyargs:
                    yield node.lineno, f"{node.name} takes {arity} positional argument(s)"

    def _import(self, node: ast.Import) -> Iterator[str]:
        for alias in node.names:
            if alias.name not in IMPORTS:
                yield f"import of {alias.name!r}; allowed: {', '.join(sorted(IMPORTS))}"

    def _import_from(self, node: ast.ImportFrom) -> Iterator[str]:
        module = node.module or ""
        names = {alias.name for alias in node.names}
        if module == "ecdysis_lab" and names <= {"hooks"} and not node.level:
            return
        if node.level or module not in IMPORTS:
            yield f"import from {'.' * node.level + module!r}; allowed: {', '.join(sorted(IMPORTS))}"
            return
        for name in sorted(names):
            if name == "*" or (name.startswith("_") and module != "__future__"):
                yield f"import of {name!r} from {module}; import public names one by one"
            else:
                yield from self._member(module, name)

    def _member(self, module: str, name: str) -> Iterator[str]:
        """A public name of an allowed module must not lead to another module or to an evaluator."""
        if name in _ATTRIBUTES:
            yield f"{module}.{name} is not available"
        elif module in IMPORTS and f"{module}.{name}" not in IMPORTS and _is_module(module, name):
            yield f"{module}.{name} is another module"

    def _attribute(self, node: ast.Attribute) -> Iterator[str]:
        if node.attr.startswith("_") and node.attr not in _PRIVATE_OK:
            yield f"access to the private attribute {node.attr!r}"
        elif node.attr in _CLOCK:
            yield f"{node.attr!r}: there is no clock here, since trials must repeat; take times from the view"
        elif node.attr in _ATTRIBUTES:
            yield f"access to {node.attr!r}"
        if isinstance(node.value, ast.Name):
            name = node.value.id
            if not isinstance(node.ctx, ast.Load) and (name in self.modules or name in self.imported):
                yield f"change of {name}.{node.attr}; imported things are read-only"
            if name in self.modules:
                yield from self._member(self.modules[name], node.attr)
        if node.attr == "format" and id(node) in self.callees and not self._literal(node.value):
            yield "format() on a computed string; use an f-string or a constant"

    def _literal(self, node: ast.expr) -> bool:
        return isinstance(node, (ast.Constant, ast.JoinedStr)) or (
            isinstance(node, ast.Name) and node.id in self.constants
        )

    def _name(self, node: ast.Name) -> Iterator[str]:
        dunder = node.id.startswith("__") and node.id not in ("__name__", "__doc__")
        if dunder or node.id in _NAMES:
            yield f"use of {node.id!r}"
        elif node.id == "type" and not self._asks_type(node):
            yield "type other than type(x): classes are made by class statements"
        elif node.id in self.modules and id(node) not in self.owners:
            yield f"module {node.id!r} used as a value; write {node.id}.something"
        elif node.id in ("getattr", "hasattr"):
            call = self.callees.get(id(node))
            name = call.args[1] if call is not None and len(call.args) > 1 else None
            text = name.value if isinstance(name, ast.Constant) else None
            if not isinstance(text, str) or text.startswith("_") or text in _ATTRIBUTES | _CLOCK:
                yield f"{node.id} without a public constant attribute name"

    def _asks_type(self, node: ast.Name) -> bool:
        call = self.callees.get(id(node))
        plain = call is not None and len(call.args) == 1 and not call.keywords
        return plain and call is not None and not isinstance(call.args[0], ast.Starred)

    def _call(self, node: ast.Call) -> Iterator[str]:
        inner = node.func
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "type":
            yield "a call of type(x); name the class"

    def _class(self, node: ast.ClassDef) -> Iterator[str]:
        if node.keywords:
            yield f"class {node.name} with keywords; a metaclass could make any class"

    def _constant(self, node: ast.Constant) -> Iterator[str]:
        if isinstance(node.value, str) and id(node) not in self.docstrings and _DUNDER.search(node.value):
            yield "a string that names a private attribute"

    def _function(self, node: ast.FunctionDef) -> Iterator[str]:
        if node.name.startswith("__") and node.name not in _METHODS:
            yield f"definition of {node.name!r}"

    def _match(self, node: ast.MatchClass) -> Iterator[str]:
        name = node.cls.id if isinstance(node.cls, ast.Name) else ast.unparse(node.cls)[:40]
        if name not in _MATCHED or name in self.bound:
            yield f"match on the class {name}; allowed: {', '.join(sorted(_MATCHED))}, or use isinstance"
        elif node.kwd_attrs:
            yield f"match on attributes of {name}; write x.name"

    def _async(self, node: ast.AST) -> Iterator[str]:
        yield "async code"


def _is_module(module: str, name: str) -> bool:
    return isinstance(getattr(importlib.import_module(module), name, None), ModuleType)


def _bindings(nodes: list[ast.AST]) -> Iterator[str]:
    """Names that a file binds, once for each binding."""
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.MatchMapping):
            yield node.rest or ""
        elif isinstance(
            node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar
        ):
            yield node.name or ""
        elif isinstance(node, ast.alias):
            yield node.asname or node.name


def _constant_names(tree: ast.Module, nodes: list[ast.AST]) -> set[str]:
    """Names bound exactly once in the whole file, at top level, to a string constant."""
    stores = Counter(_bindings(nodes))
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and stores[target.id] == 1
    }


_RULES: dict[type, Any] = {
    ast.Import: _Policy._import,
    ast.ImportFrom: _Policy._import_from,
    ast.Attribute: _Policy._attribute,
    ast.Name: _Policy._name,
    ast.Constant: _Policy._constant,
    ast.FunctionDef: _Policy._function,
    ast.MatchClass: _Policy._match,
    ast.Call: _Policy._call,
    ast.ClassDef: _Policy._class,
    ast.AsyncFunctionDef: _Policy._async,
    ast.Await: _Policy._async,
}
