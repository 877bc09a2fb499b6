"""The editor without a model: instantiates guard templates from the spec."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from ecdysis_lab.harness import copy_harness, diff_harness, load_harness
from ecdysis_lab.records import Candidate, Change, Spec
from ecdysis_lab.review.editors.templates import UnknownGuard, block, hook_of

NEEDS = ("import re", "from ecdysis_lab.hooks import Allow, Call, Refuse, Rewrite")


class RulesEditor:
    """Appends one block per change that carries a ``guard``; a change without one is left out and said."""

    name = "rules"

    def edit(self, harness: Path, spec: Spec, out: Path, feedback: str = "") -> Candidate:
        """Edit a copy of the harness once.

        Parameters
        ----------
        harness : folder of the current harness. spec : what to change. out : folder to create.
        feedback : a gate's reason; changes whose rule or tool it names are left out.
        """
        parent = load_harness(harness)
        files, notes = dict(parent.files), []
        for change in spec.changes:
            if feedback and self._named(change, feedback):
                notes.append(f"left out after the gate's reason: {change.what}")
                continue
            notes += self._apply(change, files)
        copy_harness(parent, out)
        for name, text in files.items():
            if parent.files.get(name) != text:
                (out / name).write_text(text, encoding="utf-8")
        child = load_harness(out)
        outcome = "no_change" if child.hash == parent.hash else "edited"
        return Candidate(
            path=out,
            hash=child.hash,
            parent=parent.hash,
            diff=diff_harness(parent, child),
            editor=self.name,
            outcome=outcome,  # type: ignore[arg-type]
            notes=tuple(notes),
        )

    @staticmethod
    def _named(change: Change, feedback: str) -> bool:
        guard = change.guard or {}
        argument = str(guard.get("argument", "")).replace("[].", "_").lower()
        marks = [
            m
            for m in (f"canonical_{argument}" if argument else "", guard.get("kind"), guard.get("tool"))
            if m
        ]
        return any(str(m) in feedback for m in marks)

    @staticmethod
    def _apply(change: Change, files: dict[str, str]) -> list[str]:
        """Add the block of one change to its file; returns notes."""
        if change.guard is None:
            return [f"no template for: {change.what}"]
        name, hook = hook_of(change.guard)
        source = files.get(name, "")
        mark = f"# guard: {json.dumps(change.guard, sort_keys=True)}"
        if mark in source:
            return [f"already there: {change.what}"]
        try:
            name, code = block(change.guard, source.count("# guard: ") + 1, _defines(source, hook))
        except UnknownGuard as why:
            return [f"{why}: {change.what}"]
        except SyntaxError as why:
            return [f"{name} does not parse ({why}): {change.what}"]
        files[name] = (
            _with_imports(source or f'"""{name.removesuffix(".py").capitalize()} layer."""\n') + "\n\n" + code
        )
        return []


def _defines(source: str, hook: str) -> bool:
    """Whether the file binds the hook's name, as a function or otherwise."""
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [t.id for t in targets if isinstance(t, ast.Name)] + [getattr(node, "name", "")]
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names += [alias.asname or alias.name for alias in node.names]
        if hook in names:
            return True
    return False


def _with_imports(source: str) -> str:
    """The source with the imports that guards use, put after its docstring and future imports."""
    missing = [line for line in NEEDS if line not in source.splitlines()]
    if not missing:
        return source.rstrip("\n") + "\n"
    at = 0
    for node in ast.parse(source).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        at = node.end_lineno or at
    lines = source.rstrip("\n").split("\n")
    return "\n".join([*lines[:at], "", *missing, *lines[at:]]) + "\n"
