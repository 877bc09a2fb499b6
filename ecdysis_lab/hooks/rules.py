"""The register of a harness file's rules, and how they run."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ecdysis_lab.hooks.forms import Pattern, Row
from ecdysis_lab.hooks.verdicts import Allow, Call, Realize, Refuse, Rewrite, Verdict, enabled
from ecdysis_lab.hooks.view import View

Canonical = Callable[[str], Any]
CallRule = Callable[[Call, View], Verdict | None]
FindCall = Callable[[Call, View], str | None]
NoteRule = Callable[[Call, str, View], str | None]
FindReply = Callable[[str, View], tuple[str, str] | None]
FindCalls = Callable[[str, View], Call | tuple[Call, ...] | None]
ReplyRule = Callable[[str, View], Verdict | None]
Hook = Callable[..., Any]
Form = tuple[str, Canonical, Collection[str]]  # name, what it does, tools that it is for (none: all)
Canonicals = dict[
    str, list[Form]
]  # argument, or path of one inside a list -> its forms in the order they apply


class Rules:
    """The rules of one harness file, by name and in the order in which they were registered and run.

    A rule that ``harness.toml`` switches off is skipped. What runs is fixed when a rule is registered; the attributes
    show the rules, to run one alone. Registering raises ValueError for a name that is taken.

    Attributes
    ----------
    forms, lines : what ``check`` runs: first all forms, then policy lines up to the first refusal.
    notes : what ``observe`` runs, up to the first note.
    replies : what ``on_reply`` runs, up to the first that finds something.
    hints, procedures : what ``describe`` and ``brief`` add, each in a paragraph of its own.
    """

    def __init__(self) -> None:
        self.forms: dict[str, CallRule] = {}
        self.lines: dict[str, CallRule] = {}
        self.notes: dict[str, NoteRule] = {}
        self.replies: dict[str, ReplyRule] = {}
        self.hints: dict[str, tuple[str, str]] = {}
        self.procedures: dict[str, tuple[Pattern | None, str]] = {}
        self._names: dict[str, CallRule] = {}
        self._canonicals: Canonicals = {}
        self._lines_of: dict[str, dict[str, CallRule]] = {}

    def line(self, name: str, policy: str, *tools: str) -> Callable[[FindCall], CallRule]:
        """Register ``find(call, view) -> option or None`` as a rule that refuses these tools by that policy.

        Without tools it is for all of them, also those that do not exist, and runs after the lines of a tool.
        """

        def register(find: FindCall) -> CallRule:
            def rule(call: Call, view: View) -> Verdict | None:
                option = find(call, view) if not tools or call.name in tools else None
                return Refuse(f"Policy: {policy}.", option, name) if option else None

            _add(self.lines, name, rule)
            for tool in tools or ("",):
                self._lines_of.setdefault(tool, {})[name] = rule
            return rule

        return register

    def names(self, name: str, right: Mapping[str, str | None]) -> None:
        """Register the right names of arguments by the wrong ones, None to leave one out.

        Only names that a tool's schema does not have are changed, and only to one that it has. This comes before forms.
        """

        def rule(call: Call, view: View) -> Verdict | None:
            schema: Row = next((tool["parameters"] for tool in view.tools if tool["name"] == call.name), {})
            known: Row = schema.get("properties", {})
            wrong = {k: v for k, v in right.items() if k not in known and (v is None or v in known)}
            if not wrong.keys() & call.arguments.keys():
                return None
            named = {wrong.get(k, k): v for k, v in call.arguments.items()}
            return Rewrite({k: v for k, v in named.items() if k is not None}, rule=name)

        _add(self.forms, name, rule)
        self._names[name] = rule

    def form(
        self, name: str, *keys: str, tools: Collection[str] = (), shape: str = ""
    ) -> Callable[[Canonical], CallRule]:
        """Register ``canonical(text) -> value or None`` for these arguments, inside lists of objects too.

        Parameters
        ----------
        name : of the rule. keys : arguments; ``"rows[].key"`` is for those in the objects of one list only.
        tools : what it is for; all where empty. shape : pattern that the value has to match, else nothing changes.
        """

        def register(found: Canonical) -> CallRule:
            canonical = _shaped(found, shape) if shape else found

            def rule(call: Call, view: View) -> Verdict | None:
                arguments, applied = _canonical(call, {key: [(name, canonical, tools)] for key in keys})
                return Rewrite(arguments, rule=name) if applied else None

            _add(self.forms, name, rule)
            for key in keys:
                self._canonicals.setdefault(key, []).append((name, canonical, tools))
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

    def realize(self, name: str) -> Callable[[FindCalls], ReplyRule]:
        """Register ``find(text, view) -> call, calls or None`` as a rule that takes a reply as the calls it meant."""

        def register(find: FindCalls) -> ReplyRule:
            def rule(text: str, view: View) -> Verdict | None:
                found = find(text, view)
                calls = (found,) if isinstance(found, Call) else found
                return Realize(tuple(calls), name) if calls else None

            _add(self.replies, name, rule)
            return rule

        return register

    def hint(self, name: str, tool: str, text: str) -> None:
        """Register a text for the description of a tool."""
        _add(self.hints, name, (tool, text))

    def procedure(self, name: str, text: str, when: Pattern | None = None) -> None:
        """Register a text for the system prompt, where the words occur in the user's first message, or always."""
        _add(self.procedures, name, (when, text))

    def first(self, hook: Hook) -> Hook:
        """Decorate a hook of the file's own: these rules run first, and it where they find nothing.

        It sees calls in their canonical form. Texts of ``describe`` and ``brief`` come after its own.

        Raises
        ------
        KeyError: the function has not the name of a hook.
        """

        def check(call: Call, view: View) -> Verdict:
            verdict = self.check(call, view)
            if isinstance(verdict, Refuse):
                return verdict
            again = hook(Call(call.name, getattr(verdict, "arguments", call.arguments), call.id), view)
            return verdict if isinstance(again, Allow) else again

        def observe(call: Call, result: str, view: View) -> str | None:
            return self.observe(call, result, view) or hook(call, result, view)

        def on_reply(text: str, view: View) -> Verdict:
            verdict = self.on_reply(text, view)
            return hook(text, view) if isinstance(verdict, Allow) else verdict

        def describe(tool: Row) -> Row:
            return self.describe(hook(tool))

        def brief(opening: str, policy: str) -> str:
            return _paragraphs(hook(opening, policy), self.brief(opening, policy))

        made: dict[str, Hook] = {f.__name__: f for f in (check, observe, on_reply, describe, brief)}
        return made[hook.__name__]

    def describe(self, tool: Row) -> Row:
        """The tool with its hints under its description."""
        texts = [text for name, (of, text) in self.hints.items() if of == tool["name"] and enabled(name)]
        return {**tool, "description": _paragraphs(tool["description"], *texts)} if texts else tool

    def brief(self, opening: str, policy: str) -> str:
        """The procedures that fit the user's first message."""
        fitting = (
            (name, text) for name, (when, text) in self.procedures.items() if not when or when.search(opening)
        )
        return _paragraphs(*(text for name, text in fitting if enabled(name)))

    def check(self, call: Call, view: View) -> Verdict:
        """Bring a call to canonical form, then hold it against the policy."""
        applied = set()
        for name, rule in self._names.items():
            found = rule(call, view) if enabled(name) else None
            if isinstance(found, Rewrite) and found.arguments is not None:
                call = Call(call.name, found.arguments, call.id)
                applied.add(name)
        arguments, formed = _canonical(call, self._canonicals)
        applied |= formed
        call = Call(call.name, arguments, call.id) if formed else call
        for name, rule in (self._lines_of.get(call.name, {}) | self._lines_of.get("", {})).items():
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
        """What the first rule says that finds something: a refusal, or the calls that the reply meant."""
        verdicts = (rule(text, view) for name, rule in self.replies.items() if enabled(name))
        return next((verdict for verdict in verdicts if verdict), Allow())


def _shaped(canonical: Canonical, shape: str) -> Canonical:
    fits = re.compile(shape).fullmatch

    def found(text: str) -> Any:
        value = canonical(text)
        return value if fits(str(value)) else None

    return found


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


def _add(rules: dict[str, Any], name: str, rule: Any) -> None:
    if name in rules:
        raise ValueError(f"a rule named {name!r} is registered already")
    rules[name] = rule


def _canonical(call: Call, forms: Canonicals) -> tuple[dict[str, Any], set[str]]:
    """A call's arguments with the forms that are switched on applied, and the names of those that changed something.

    Forms of one argument apply in the order in which they were registered. In an object or list that one of them has
    made, they apply too, but for that one.
    """
    applied: set[str] = set()

    def convert(data: Any, key: str = "", path: str = "", made_by: frozenset[str] = frozenset()) -> Any:
        if isinstance(data, dict):
            return {k: convert(v, k, f"{path}.{k}" if path else k, made_by) for k, v in data.items()}
        if isinstance(data, list):
            return [convert(v, "", f"{path}[]", made_by) for v in data]
        here = forms.get(key, []) + (forms.get(path, []) if path != key else [])
        for name, canonical, tools in here if data is not None else ():
            fits = enabled(name) and name not in made_by and (not tools or call.name in tools)
            found = canonical(str(data).strip()) if fits else None
            if found is not None and found != data:
                applied.add(name)
                data = found
                if isinstance(data, (dict, list)):
                    return convert(data, "", path, made_by | {name})
        return data

    return {k: convert(v, k, k) for k, v in call.arguments.items()}, applied
