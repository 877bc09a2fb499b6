"""The register of a harness file's rules, and how they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ecdysis_lab.hooks.verdicts import Allow, Call, Refuse, Rewrite, Verdict, enabled
from ecdysis_lab.hooks.view import View

Canonical = Callable[[str], Any]
CallRule = Callable[[Call, View], Verdict | None]
FindCall = Callable[[Call, View], str | None]
NoteRule = Callable[[Call, str, View], str | None]
FindReply = Callable[[str, View], tuple[str, str] | None]
ReplyRule = Callable[[str, View], Verdict | None]
Canonicals = dict[str, list[tuple[str, Canonical]]]  # argument -> its forms by name, in the order they apply


class Rules:
    """The rules of one harness file, by name and in the order in which they were registered and run.

    A rule that ``harness.toml`` switches off is skipped. What runs is fixed when a rule is registered; the attributes
    show the rules, to run one alone. Registering raises ValueError for a name that is taken.

    Attributes
    ----------
    forms, lines : what ``check`` runs: first all forms, then policy lines up to the first refusal.
    notes : what ``observe`` runs, up to the first note. replies : what ``on_reply`` runs, up to the first refusal.
    """

    def __init__(self) -> None:
        self.forms: dict[str, CallRule] = {}
        self.lines: dict[str, CallRule] = {}
        self.notes: dict[str, NoteRule] = {}
        self.replies: dict[str, ReplyRule] = {}
        self._canonicals: Canonicals = {}
        self._lines_of: dict[str, dict[str, CallRule]] = {}

    def line(self, name: str, policy: str, *tools: str) -> Callable[[FindCall], CallRule]:
        """Register ``find(call, view) -> option or None`` as a rule that refuses these tools by that policy."""

        def register(find: FindCall) -> CallRule:
            def rule(call: Call, view: View) -> Verdict | None:
                option = find(call, view) if call.name in tools else None
                return Refuse(f"Policy: {policy}.", option, name) if option else None

            _add(self.lines, name, rule)
            for tool in tools:
                self._lines_of.setdefault(tool, {})[name] = rule
            return rule

        return register

    def form(self, name: str, *keys: str) -> Callable[[Canonical], CallRule]:
        """Register ``canonical(text) -> value or None`` for these arguments, inside lists of objects too."""

        def register(canonical: Canonical) -> CallRule:
            def rule(call: Call, view: View) -> Verdict | None:
                arguments, applied = _canonical(call.arguments, {key: [(name, canonical)] for key in keys})
                return Rewrite(arguments, rule=name) if applied else None

            _add(self.forms, name, rule)
            for key in keys:
                self._canonicals.setdefault(key, []).append((name, canonical))
            return rule

        return register

    def note(self, name: str) -> Callable[[NoteRule], NoteRule]:
        """Register ``rule(call, result, view) -> note or None``."""

        def register(rule: NoteRule) -> NoteRule:
            _add(self.notes, name, rule)
            return rule

        return register

    def reply(self, name: str) -> Callable[[FindReply], ReplyRule]:
        """Register ``find(text, view) -> (reason, option) or None`` as a rule that stops a reply."""

        def register(find: FindReply) -> ReplyRule:
            def rule(text: str, view: View) -> Verdict | None:
                found = find(text, view)
                return Refuse(*found, name) if found else None

            _add(self.replies, name, rule)
            return rule

        return register

    def check(self, call: Call, view: View) -> Verdict:
        """Bring a call to canonical form, then hold it against the policy."""
        arguments, applied = _canonical(call.arguments, self._canonicals)
        call = Call(call.name, arguments, call.id) if applied else call
        for name, rule in self._lines_of.get(call.name, {}).items():
            verdict = rule(call, view) if enabled(name) else None
            if verdict is not None:
                return verdict
        used = [name for name in self.forms if name in applied]
        return Rewrite(arguments, rule="+".join(used)) if used else Allow()

    def observe(self, call: Call, result: str, view: View) -> str | None:
        """The first note that fits a result."""
        notes = (rule(call, result, view) for name, rule in self.notes.items() if enabled(name))
        return next((note for note in notes if note), None)

    def on_reply(self, text: str, view: View) -> Verdict:
        """Stop a reply that is not true."""
        verdicts = (rule(text, view) for name, rule in self.replies.items() if enabled(name))
        return next((verdict for verdict in verdicts if verdict), Allow())


def _add(rules: dict[str, Any], name: str, rule: Any) -> None:
    if name in rules:
        raise ValueError(f"a rule named {name!r} is registered already")
    rules[name] = rule


def _canonical(arguments: dict[str, Any], forms: Canonicals) -> tuple[dict[str, Any], set[str]]:
    """Arguments with the forms that are switched on applied, and the names of those that changed something.

    Forms of one argument apply in the order in which they were registered. In an object or list that one of them has
    made, they apply too, but for that one.
    """
    applied: set[str] = set()

    def convert(data: Any, key: str = "", made_by: frozenset[str] = frozenset()) -> Any:
        if isinstance(data, dict):
            return {k: convert(v, k, made_by) for k, v in data.items()}
        if isinstance(data, list):
            return [convert(v, "", made_by) for v in data]
        for name, canonical in forms.get(key, ()) if data is not None else ():
            found = canonical(str(data).strip()) if enabled(name) and name not in made_by else None
            if found is not None and found != data:
                applied.add(name)
                data = found
                if isinstance(data, (dict, list)):
                    return convert(data, "", made_by | {name})
        return data

    return {k: convert(v, k) for k, v in arguments.items()}, applied
