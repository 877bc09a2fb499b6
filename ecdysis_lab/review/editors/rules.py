"""The editor without a model: turns the guards of a spec into registered rules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ecdysis_lab.harness import load_harness
from ecdysis_lab.records import Candidate, Change, Spec, Usage
from ecdysis_lab.review.editors import staging
from ecdysis_lab.review.editors.parameters import UnknownGuard
from ecdysis_lab.review.editors.placing import place
from ecdysis_lab.review.editors.templates import code, mark, template


class RulesEditor:
    """Adds one rule per change that carries a ``guard``; a change without one is left out and said."""

    name = "rules"

    def edit(
        self,
        harness: Path,
        spec: Spec,
        out: Path,
        feedback: str = "",
        evidence: Mapping[str, str] | None = None,
    ) -> Candidate:
        """Edit a copy of the harness once.

        Parameters
        ----------
        harness : folder of the current harness. spec : what to change. out : folder to create.
        feedback : a gate's reason; changes whose rule or tool it names are left out.
        evidence : is not read; the guards say all.
        """
        parent = load_harness(harness)
        files, notes = dict(parent.files), []
        for change in spec.changes:
            if feedback and _named(change, feedback):
                notes.append(f"left out after the gate's reason: {change.what}")
                continue
            notes += _apply(change, files)
        raw = staging.raw_files(parent)
        raw |= {name: text.encode() for name, text in files.items() if text != parent.files.get(name)}
        return staging.candidate(parent, staging.Edit(raw, Usage(), tuple(notes)), out, self.name)


def _named(change: Change, feedback: str) -> bool:
    guard = change.guard or {}
    argument = str(guard.get("argument", "")).replace("[].", "_").lower()
    marks = (f"canonical_{argument}" if argument else "", guard.get("kind"), guard.get("tool"))
    return any(str(m) in feedback for m in marks if m)


def _apply(change: Change, files: dict[str, str]) -> list[str]:
    """Add the rule of one change to its file; returns notes."""
    guard = change.guard
    if guard is None:
        return [f"no template for: {change.what}"]
    try:
        found = template(guard)
        source = files.get(found.file) or f'"""{found.file.removesuffix(".py").capitalize()} layer."""\n'
        source = source.replace("\r\n", "\n").replace("\r", "\n")
        if mark(guard) in source.split("\n"):
            return [f"already there: {change.what}"]
        files[found.file] = place(
            source, found.hook, found.name(guard), lambda rules, name: code(guard, rules, name)
        )
    except UnknownGuard as why:
        return [f"{why}: {change.what}"]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as why:
        return [f"{found.file} does not parse ({why}): {change.what}"]
    return []
