"""Where a rule goes in the source of a harness file: its imports, its register, and the hook that runs it."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ecdysis_lab import hooks
from ecdysis_lab.harness.static import HOOKS
from ecdysis_lab.review.editors.parameters import UnknownGuard

NEW_HOOKS = {
    "describe": ("tool", "The tool with its hints."),
    "brief": ("opening, policy", "The procedures that fit the user's first message."),
    "check": ("call, view", "Bring a call to canonical form, then hold it against the policy."),
    "observe": ("call, result, view", "The first note that fits a result."),
    "on_reply": ("text, view", "Stop a reply that is not true."),
}
"""Hook -> arguments and docstring of a new one."""
LINE_CHARS = 100


def place(source: str, hook: str, name: str, write: Callable[[str, str], str]) -> str:
    """The source with one more rule, above the hooks.

    Parameters
    ----------
    source : of a hook file. hook : what has to run the rule. name : for the rule; numbered where it is taken.
    write : ``(name of the register, name of the rule) -> code``.

    Raises
    ------
    SyntaxError: the source does not parse.
    UnknownGuard: it binds a name in a way that leaves no place for the rule.
    """
    taken, register = _names(source), _register(source)
    rules = register or _free("rules", taken)
    code = write(rules, _free(name, taken))
    if not register:
        source = _below_imports(_with_imports(source, {"Rules"}), f"{rules} = Rules()")
    source = _with_imports(source, {n.id for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Name)})
    source = _run_by(source, rules, hook)
    at = min(_start(node) for one in HOOKS for node in _bindings(source, one)[-1:])
    if at < _start(_bindings(source, rules)[0]):
        raise UnknownGuard(f"{rules} stands below a hook")
    lines = source.split("\n")
    while lines[at - 1].startswith("#"):  # comments right above belong to the hook
        at -= 1
    above, below = "\n".join(lines[:at]).rstrip("\n"), "\n".join(lines[at:])
    return f"{above}\n\n\n{code.rstrip()}\n\n\n{below}"


def _names(source: str) -> set[str]:
    """Names and texts of a file, and what else a new name should not be."""
    nodes = list(ast.walk(ast.parse(source)))
    names = {n.id for n in nodes if isinstance(n, ast.Name)} | {*hooks.__all__, *HOOKS}
    names |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    names |= {n.asname or n.name for n in nodes if isinstance(n, ast.alias)}
    return names | {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def _free(name: str, taken: set[str]) -> str:
    """The name, or the first of ``name_2``, ``name_3`` … that is free."""
    n, found = 1, name
    while found in taken:
        n += 1
        found = f"{name}_{n}"
    return found


def _bindings(source: str, name: str) -> list[ast.stmt]:
    """Statements at the top level that bind a name."""
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound = {node.name}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound = {alias.asname or alias.name for alias in node.names}
        else:
            nodes = (n for n in ast.walk(node) if isinstance(n, ast.Name))
            bound = {n.id for n in nodes if isinstance(n.ctx, ast.Store)}
        found += [node] if name in bound else []
    return found


def _register(source: str) -> str:
    """Name of the file's register of rules, or an empty string."""
    for node in ast.parse(source).body:
        if (
            isinstance(node, ast.Assign | ast.AnnAssign)
            and node.value
            and ast.unparse(node.value) == "Rules()"
        ):
            return ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
    return ""


def _start(node: ast.stmt) -> int:
    """0-based line on which a statement starts, with its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)]) - 1


def _run_by(source: str, rules: str, hook: str) -> str:
    """The source with a hook that runs the register: a new one, or the file's own after it."""
    bound, lines = _bindings(source, hook), source.split("\n")
    if not bound:
        return f"{source.rstrip()}\n\n\n{_hook(hook, f'{rules}.{hook}')}"
    own = bound[-1]
    if any(isinstance(n, ast.Name) and n.id == rules for n in ast.walk(own)):
        return source
    if isinstance(own, ast.FunctionDef):
        made, rest = f"@{rules}.first", lines[_start(own) :]
    elif isinstance(own, ast.Assign) and ast.unparse(own.targets[0]) == hook:
        value = ast.unparse(own.value)
        made = f"@{rules}.first\n{_hook(hook, value if value.isidentifier() else f'({value})')}"
        rest = lines[own.end_lineno :]
    else:
        raise UnknownGuard(f"{hook} is bound in a way that leaves no place for a rule")
    return "\n".join([*lines[: _start(own)], made, *rest])


def _hook(hook: str, function: str) -> str:
    arguments, about = NEW_HOOKS[hook]
    return f'def {hook}({arguments}):\n    """{about}"""\n    return {function}({arguments})\n'


# -- imports ---


def _head(source: str) -> list[ast.stmt]:
    """The docstring and the imports below it."""
    head: list[ast.stmt] = []
    for node in ast.parse(source).body:
        docstring = not head and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not docstring and not isinstance(node, ast.Import | ast.ImportFrom):
            break
        head.append(node)
    return head


def _below_imports(source: str, text: str) -> str:
    lines, head = source.split("\n"), _head(source)
    end = (head[-1].end_lineno or 0) if head else 0
    return "\n".join([*lines[:end], *([""] if end else []), text, *lines[end:]])


def _with_imports(source: str, used: set[str]) -> str:
    """The source with imports of those names that the hooks have."""
    aliases = [a for n in ast.parse(source).body if _of_hooks(n) for a in getattr(n, "names", [])]
    given = {alias.name for alias in aliases if not alias.asname}
    missing = used & set(hooks.__all__) - given
    clash = sorted(name for name in missing if _bindings(source, name))
    if clash:
        raise UnknownGuard(f"the file has its own {', '.join(clash)}")
    return _with_hooks(source, missing) if missing else source


def _of_hooks(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "ecdysis_lab.hooks"


def _with_hooks(source: str, names: set[str]) -> str:
    lines = source.split("\n")
    for node in filter(_of_hooks, _head(source)):
        assert isinstance(node, ast.ImportFrom)
        at, end = node.lineno - 1, node.end_lineno
        if "#" not in "".join(lines[at:end]):
            given = [f"{a.name} as {a.asname}" if a.asname else a.name for a in node.names]
            return "\n".join([*lines[:at], _import({*given, *names}), *lines[end:]])
    return _below_imports(source, _import(names))


def _import(names: set[str]) -> str:
    line = f"from ecdysis_lab.hooks import {', '.join(sorted(names))}"
    if len(line) <= LINE_CHARS:
        return line
    return "\n".join(["from ecdysis_lab.hooks import (", *(f"    {name}," for name in sorted(names)), ")"])
