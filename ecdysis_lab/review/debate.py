"""FDCR: Analyst, Critic and Engineer argue K times over one transcript, then a Moderator writes the spec.

arXiv 2609.11677. Each turn is checkpointed as it ends; a debate that was interrupted goes on where it stopped, and a
checkpoint of another context is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

from ecdysis_lab.models import Budget, ContentError, ModelParams, complete
from ecdysis_lab.records import LabError, Review, Usage
from ecdysis_lab.review.context import Context
from ecdysis_lab.review.spec import parse_spec, schema

ROLES = ("analyst", "critic", "engineer")
EDITOR_PROMPTS = "editor"  # what the names of the editors' prompt files begin with
REPAIR = "Your answer could not be used: {why}. Answer again with the corrected JSON object only."
TURN_CHARS = 16_000  # of one turn that the others get to read
REPAIR_CHARS = 4_000  # of an unusable answer that its author gets to see again
Turns = list[tuple[str, str]]


@dataclass
class Reviewer:
    """Who reviews, and how.

    Parameters
    ----------
    model : LiteLLM name.
    params : sampling parameters (temperature 0 by default).
    rounds : K, how often the three roles speak; 0 is the arm without debate.
    budget : shared budget of the run.
    load, save : read and write the checkpoint,
        ``{"context": hash, "prompts": hash, "turns": [[role, text], …], "usage": {…}}``.
    """

    model: str
    params: ModelParams | None = None
    rounds: int = 2
    budget: Budget | None = None
    load: Callable[[], dict[str, Any] | None] = lambda: None
    save: Callable[[dict[str, Any]], None] = lambda state: None

    def review(self, context: Context) -> Review:
        """Run the debate and return the spec, or ``no_spec`` with the reason; never raises for what a model says.

        Raises
        ------
        LabError: the checkpoint belongs to another context or another debate.
        ecdysis_lab.models.calls.PermanentError, TransientError, BudgetExceeded: the model cannot be asked.
        """
        script = [*ROLES] * self.rounds if self.rounds else ["single"]
        turns, usage = self._resume(context, script)
        for role in script[len(turns) :]:
            text, usage = self._ask(role, self._prompt(role, context, turns), usage)
            turns.append((role, text))
            self._keep(context, turns, usage)
        return self._close(context, turns[: len(script)], turns[len(script) :], usage)

    def _resume(self, context: Context, script: list[str]) -> tuple[Turns, Usage]:
        state = self.load()
        if state is None:
            return [], Usage()
        if state["context"] != _hash(context):
            raise LabError(
                "review: the checkpoint belongs to another context (evidence, harness or prompts changed)"
            )
        turns = [(role, text) for role, text in state["turns"]]
        if [role for role, _ in turns] != [*script, "moderator", "moderator"][: len(turns)]:
            raise LabError("review: the checkpoint belongs to a debate of another length")
        return turns, Usage(**state.get("usage", {}))

    def _keep(self, context: Context, turns: Turns, usage: Usage) -> None:
        marks = {"context": _hash(context), "prompts": prompts_hash()}
        self.save({**marks, "turns": turns, "usage": asdict(usage)})

    def _prompt(self, role: str, context: Context, turns: Turns) -> list[dict[str, Any]]:
        said = "\n\n".join(
            f"## {name.capitalize()}, turn {n + 1}\n{_cut(text)}" for n, (name, text) in enumerate(turns)
        )
        debate = f"\n\n# Debate so far\n{said}" if said else ""
        return [
            {"role": "system", "content": f"{prompt('shared')}\n\n{prompt(role)}"},
            {"role": "user", "content": context.text + debate},
        ]

    def _ask(
        self, role: str, messages: list[dict[str, Any]], usage: Usage, json_answer: bool = False
    ) -> tuple[str, Usage]:
        """(answer, usage so far with this answer's); an answer that the model refuses to give is a text as well."""
        params = self.params or ModelParams()
        wanted = (
            {"type": "json_schema", "json_schema": {"name": "spec", "schema": schema()}}
            if json_answer
            else None
        )
        try:
            answer = complete(
                role, self.model, messages, params=params, budget=self.budget, response_format=wanted
            )
        except ContentError as why:
            return f"(no answer: {why})", usage + why.usage
        return answer.text or "", usage + answer.usage

    def _close(self, context: Context, debate: Turns, answers: Turns, usage: Usage) -> Review:
        """Ask the Moderator, and once more with the reason when the answer cannot be used."""
        messages, turns, reason = self._prompt("moderator", context, debate), list(debate), ""
        for attempt in range(2):
            if attempt < len(answers):
                turns.append(answers[attempt])
            else:
                text, usage = self._ask("moderator", messages, usage, json_answer=True)
                turns.append(("moderator", text))
                self._keep(context, turns, usage)
            text = turns[-1][1]
            try:
                return Review("spec", parse_spec(text, context), tuple(turns), usage)
            except ValueError as why:
                reason = str(why)
            messages = [
                *messages,
                {"role": "assistant", "content": text[:REPAIR_CHARS]},
                {"role": "user", "content": REPAIR.format(why=reason)},
            ]
        return Review("no_spec", None, tuple(turns), usage, reason)


def _cut(text: str) -> str:
    if len(text) <= TURN_CHARS:
        return text
    return f"{text[:TURN_CHARS]}\n(… {len(text) - TURN_CHARS} more characters)"


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


def _hash(context: Context) -> str:
    """What a debate rests on; the editors' prompts are none of its business."""
    return hashlib.sha256((context.text + prompts_hash(editors=False)).encode()).hexdigest()
