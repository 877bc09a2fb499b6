"""FDCR: Analyst, Critic and Engineer argue K times over one shared transcript, then a Moderator writes the spec.

arXiv 2609.11677. The Analyst proposes changes and revises them, the Critic attacks them and is asked again after the
revision, the Engineer keeps the record of agreement and dispute. Each turn is checkpointed as it ends; a debate that
was interrupted goes on where it stopped, and a checkpoint of another context is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

from ecdysis_lab.models import HAND, Budget, ContentError, ModelParams, complete, complete_json, refused
from ecdysis_lab.records import LabError, Review, Usage
from ecdysis_lab.review.context import Context
from ecdysis_lab.review.spec import NoChange, parse_spec, printable, schema, undebated

ROLES = ("analyst", "critic", "engineer")
EDITOR_PROMPTS = "editor"  # what the names of the editors' prompt files begin with
REPAIR = "Your answer could not be used: {why}. Answer again with the corrected JSON object only."
TURN_CHARS = 40_000  # of one turn that the others get to read
REPAIR_CHARS = (
    180_000  # of an unusable answer that its author gets to see again: as much as the evidence may take
)
TIMEOUT_SECONDS = 600.0
Turns = list[tuple[str, str]]


@dataclass
class Reviewer:
    """Who reviews, and how.

    Parameters
    ----------
    model : LiteLLM name, or ``hand``.
    params : sampling parameters (temperature 0 and 600 s by default).
    rounds : K, how often the roles speak. With 0 nobody does, and the editor gets a spec that lists the patterns and
        asks it to find the changes itself; an editor that needs guards gets those of one turn without debate.
    budget : shared budget of the run.
    load, save : read and write the checkpoint,
        ``{"context": hash, "prompts": hash, "model": name, "turns": [[role, text], …], "usage": {…}}``.
    roles : who speaks in each round, in this order.
    vocabulary : whether the spec goes to the ``rules`` editor, which builds what a guard says and nothing else.

    Raises
    ------
    LabError: a role that has no prompt; the choices are listed.
    """

    model: str
    params: ModelParams | None = None
    rounds: int = 2
    budget: Budget | None = None
    load: Callable[[], dict[str, Any] | None] = lambda: None
    save: Callable[[dict[str, Any]], None] = lambda state: None
    roles: tuple[str, ...] = ROLES
    vocabulary: bool = False

    def __post_init__(self) -> None:
        for role in self.roles:
            if role not in ROLES:
                raise LabError(f"roles: unknown {role!r}; choose from {', '.join(ROLES)}")

    def review(self, context: Context) -> Review:
        """Run the debate and return the spec, or ``no_spec`` with the reason; never raises for what a model says.

        Raises
        ------
        LabError: the checkpoint belongs to another context or another debate; an answer by hand that is awaited, or
            that cannot be used (the field is named).
        ecdysis_lab.models.calls.PermanentError, TransientError, BudgetExceeded: the model cannot be asked.
        """
        if not self.rounds and not self.vocabulary:
            return Review("spec", undebated(context), (), Usage())
        script = [*self.roles] * self.rounds if self.rounds else ["single"]
        turns, usage = self._resume(context, script)
        for role in script[len(turns) :]:
            text, usage = self._ask(role, self._prompt(role, context, turns), usage)
            turns.append((role, text))
            self._keep(context, turns, usage)
        return self._close(context, turns[: len(script)], turns[len(script) :], usage)

    def instructions(self, role: str) -> str:
        """Text of ``prompts/<role>.md``; who writes a spec for the ``rules`` editor is told its templates as well."""
        closing = self.vocabulary and role not in (*ROLES, "single")
        return "\n\n".join(prompt(name) for name in (role, *(["guards"] if closing else [])))

    def _resume(self, context: Context, script: list[str]) -> tuple[Turns, Usage]:
        state = self.load()
        if state is None:
            return [], Usage()
        if state["context"] != self._identity(context):
            raise LabError(
                "review: the checkpoint belongs to another context (evidence, harness or prompts changed)"
            )
        turns = [(role, text) for role, text in state["turns"]]
        if [role for role, _ in turns] != [*script, "moderator", "moderator"][: len(turns)]:
            raise LabError("review: the checkpoint belongs to a debate of another length or of other roles")
        return turns, Usage(**state.get("usage", {}))

    def _keep(self, context: Context, turns: Turns, usage: Usage) -> None:
        marks = {"context": self._identity(context), "prompts": prompts_hash(), "model": self.model}
        self.save({**marks, "turns": turns, "usage": asdict(usage)})

    def _identity(self, context: Context) -> str:
        """What a debate rests on; the editors' prompts are none of its business."""
        parts = (context.text, prompts_hash(editors=False), "vocabulary" if self.vocabulary else "")
        return hashlib.sha256("".join(parts).encode()).hexdigest()

    def _prompt(self, role: str, context: Context, turns: Turns) -> list[dict[str, Any]]:
        said = "\n\n".join(
            f"## {name.capitalize()}, turn {n + 1}\n{_cut(text)}" for n, (name, text) in enumerate(turns)
        )
        debate = f"\n\n# Debate so far\n{said}" if said else ""
        now = f"\n\n# Your turn\nAnswer as the {role.capitalize()}{self._where(role, len(turns))}."
        return [
            {"role": "system", "content": f"{prompt('shared')}\n\n{self.instructions(role)}"},
            {"role": "user", "content": context.text + debate + (now if role != "single" else "")},
        ]

    def _where(self, role: str, turns: int) -> str:
        if role == "moderator":
            return ": the JSON object and nothing else"
        return f", round {turns // len(self.roles) + 1} of {self.rounds}"

    def _ask(
        self, role: str, messages: list[dict[str, Any]], usage: Usage, json_answer: bool = False
    ) -> tuple[str, Usage]:
        """(answer, usage so far with this answer's); an answer that the model refuses to give is a text as well."""
        how: dict[str, Any] = {
            "params": self.params or ModelParams(timeout_seconds=TIMEOUT_SECONDS),
            "budget": self.budget,
        }
        try:
            if json_answer:
                answer = complete_json(role, self.model, messages, "spec", schema(), **how)
            else:
                answer = complete(role, self.model, messages, **how)
        except ContentError as why:
            return f"(no answer: {why})", usage + why.usage
        return printable(answer.text or ""), usage + answer.usage

    def _close(self, context: Context, debate: Turns, answers: Turns, usage: Usage) -> Review:
        """Ask the Moderator, and a model once more with the reason when the answer cannot be used."""
        messages, turns, reason = self._prompt("moderator", context, debate), list(debate), ""
        for attempt in range(2):
            known = attempt < len(answers)
            text = answers[attempt][1] if known else ""
            if not known:
                text, usage = self._ask("moderator", messages, usage, json_answer=True)
            turns.append(("moderator", text))
            spec, reason, final = None, "", True
            try:
                spec = parse_spec(text, context, strict=self.model == HAND)
            except NoChange as none:
                reason = str(none)
            except ValueError as why:
                reason, final = str(why), False
            if self.model == HAND and not final:
                raise refused("moderator", messages, reason)
            if not known:
                self._keep(context, turns, usage)
            if final:
                return Review("spec" if spec else "no_spec", spec, tuple(turns), usage, reason)
            messages = [
                *messages,
                {"role": "assistant", "content": _cut(text, REPAIR_CHARS)},
                {"role": "user", "content": REPAIR.format(why=reason)},
            ]
        return Review("no_spec", None, tuple(turns), usage, reason)


def _cut(text: str, most: int = TURN_CHARS) -> str:
    """A text of which no more is shown than there is room for, and the reader told so."""
    if len(text) <= most:
        return text
    missing = f"the last {len(text) - most} of {len(text)} characters are not shown"
    return f"{text[:most]}\n(cut here for lack of room: {missing})"


def prompt(name: str) -> str:
    """Text of ``prompts/<name>.md``."""
    return (
        resources.files("ecdysis_lab.review")
        .joinpath(f"prompts/{name}.md")
        .read_text(encoding="utf-8")
        .strip()
    )


def prompts_hash(editors: bool = True) -> str:
    """SHA-256 over all prompt files, for the run's record; without ``editors`` over those of the review only."""
    files = resources.files("ecdysis_lab.review").joinpath("prompts").iterdir()
    names = sorted(f.name.removesuffix(".md") for f in files if f.name.endswith(".md"))
    kept = [n for n in names if editors or not n.startswith(EDITOR_PROMPTS)]
    return hashlib.sha256("\0".join(f"{n}\0{prompt(n)}" for n in kept).encode()).hexdigest()
