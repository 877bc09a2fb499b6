"""The register of a harness file's rules, and how they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ecdysis_lab.hooks import Allow, Call, Refuse, Rewrite, Verdict, View, enabled

Canonical = Callable[[str], Any]
CallRule = Callable[[Call, View], Verdict | None]
FindCall = Callable[[Call, View], str | None]
NoteRule = Callable[[Call, str, View], str | None]
FindReply = Callable[[str, View], tuple[str, str] | None]
ReplyRule = Callable[[str, View], Verdict | None]


class Rules:
    """The rules of one harness file, by name and in the order in which they were registered and run.

    A rule that ``harness.toml`` switches off is skipped.

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

    def line(self, name: str, policy: str, *tools: str) -> Callable[[FindCall], CallRule]:
        """Register ``find(call, view) -> option or None`` as a rule that refuses these tools by that policy."""

        def register(find: FindCall) -> CallRule:
            def rule(call: Call, view: View) -> Verdict | None:
                option = find(call, view) if call.name in tools else None
                return Refuse(f"Policy: {policy}.", option, name) if option else None

            self.lines[name] = rule
            return rule

        return register

    def form(self, name: str, *keys: str) -> Callable[[Canonical], CallRule]:
        """Register ``canonical(text) -> value or None`` for these arguments, inside lists of objects too."""

        def register(canonical: Canonical) -> CallRule:
            def convert(data: Any, key: str = "") -> Any:
                if isinstance(data, dict):
                    return {k: convert(v, k) for k, v in data.items()}
                if isinstance(data, list):
                    return [convert(v) for v in data]
                found = canonical(str(data).strip()) if key in keys and data is not None else None
                return data if found is None else found

            def rule(call: Call, view: View) -> Verdict | None:
                arguments = convert(call.arguments)
                return None if arguments == call.arguments else Rewrite(arguments, rule=name)

            self.forms[name] = rule
            return rule

        return register

    def note(self, name: str) -> Callable[[NoteRule], NoteRule]:
        """Register ``rule(call, result, view) -> note or None``."""

        def register(rule: NoteRule) -> NoteRule:
            self.notes[name] = rule
            return rule

        return register

    def reply(self, name: str) -> Callable[[FindReply], ReplyRule]:
        """Register ``find(text, view) -> (reason, option) or None`` as a rule that stops a reply."""

        def register(find: FindReply) -> ReplyRule:
            def rule(text: str, view: View) -> Verdict | None:
                found = find(text, view)
                return Refuse(*found, name) if found else None

            self.replies[name] = rule
            return rule

        return register

    def check(self, call: Call, view: View) -> Verdict:
        """Bring a call to canonical form, then hold it against the policy."""
        original = call
        applied: list[str] = []
        for name, rule in self.forms.items():
            verdict = rule(call, view) if enabled(name) else None
            if isinstance(verdict, Rewrite):
                call, applied = Call(call.name, verdict.arguments or {}, call.id), [*applied, name]
        for name, rule in self.lines.items():
            verdict = rule(call, view) if enabled(name) else None
            if verdict is not None:
                return verdict
        return Rewrite(call.arguments, rule="+".join(applied)) if call is not original else Allow()

    def observe(self, call: Call, result: str, view: View) -> str | None:
        """The first note that fits a result."""
        notes = (rule(call, result, view) for name, rule in self.notes.items() if enabled(name))
        return next((note for note in notes if note), None)

    def on_reply(self, text: str, view: View) -> Verdict:
        """Stop a reply that is not true."""
        verdicts = (rule(text, view) for name, rule in self.replies.items() if enabled(name))
        return next((verdict for verdict in verdicts if verdict), Allow())
