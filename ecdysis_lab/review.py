"""FDCR: Analyst, Critic and Engineer argue K times over one transcript, then a Moderator writes the spec.

arXiv 2609.11677. Each turn is checkpointed as it ends; a debate that was interrupted goes on where it stopped, and a
checkpoint of another context is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

from ecdysis_lab import llm
from ecdysis_lab.context import Context
from ecdysis_lab.records import LabError, Review, Usage
from ecdysis_lab.spec import parse_spec, schema

ROLES = ("analyst", "critic", "engineer")
REPAIR = "Your answer could not be used: {why}. Answer again with the corrected JSON object only."


@dataclass
class Reviewer:
    """Who reviews, and how.

    Parameters
    ----------
    model : LiteLLM name.
    params : sampling parameters (temperature 0 by default).
    rounds : K, how often the three roles speak; 0 is the arm without debate.
    budget : shared budget of the run.
    load, save : read and write the checkpoint, ``{"context": hash, "turns": [[role, text], …]}``.
    """

    model: str
    params: llm.ModelParams | None = None
    rounds: int = 2
    budget: llm.Budget | None = None
    load: Callable[[], dict[str, Any] | None] = lambda: None
    save: Callable[[dict[str, Any]], None] = lambda state: None

    def review(self, context: Context) -> Review:
        """Run the debate and return the spec, or ``no_spec`` with the reason; never raises for what a model says.

        Raises
        ------
        LabError: the checkpoint belongs to another context.
        ecdysis_lab.llm.PermanentError, TransientError, BudgetExceeded: the model cannot be asked.
        """
        turns, usage = self._resume(context), Usage()
        script = [*ROLES] * self.rounds if self.rounds else ["single"]
        for role in script[len(turns) :]:
            answer = self._ask(role, self._prompt(role, context, turns))
            usage += answer[1]
            turns.append((role, answer[0]))
            self.save({"context": _hash(context), "turns": turns})
        return self._close(context, turns, usage)

    def _resume(self, context: Context) -> list[tuple[str, str]]:
        state = self.load()
        if state is None:
            return []
        if state["context"] != _hash(context):
            raise LabError("review: the checkpoint belongs to another context (evidence, harness or prompts changed)")
        return [(role, text) for role, text in state["turns"]]

    def _prompt(self, role: str, context: Context, turns: list[tuple[str, str]]) -> list[dict[str, Any]]:
        said = "\n\n".join(f"## {name.capitalize()}, turn {n + 1}\n{text}" for n, (name, text) in enumerate(turns))
        debate = f"\n\n# Debate so far\n{said}" if said else ""
        return [
            {"role": "system", "content": f"{prompt('shared')}\n\n{prompt(role)}"},
            {"role": "user", "content": context.text + debate},
        ]

    def _ask(self, role: str, messages: list[dict[str, Any]], json_answer: bool = False) -> tuple[str, Usage]:
        params = self.params or llm.ModelParams()
        wanted = {"type": "json_schema", "json_schema": {"name": "spec", "schema": schema()}} if json_answer else None
        try:
            answer = llm.complete(role, self.model, messages, params=params, budget=self.budget, response_format=wanted)
        except llm.ContentError as why:
            return f"(no answer: {why})", Usage()
        return answer.text or "", answer.usage

    def _close(self, context: Context, turns: list[tuple[str, str]], usage: Usage) -> Review:
        messages = self._prompt("moderator", context, turns)
        reason = ""
        for attempt in range(2):
            text, used = self._ask("moderator", messages, json_answer=True)
            usage += used
            turns = [*turns, ("moderator", text)]
            try:
                return Review("spec", parse_spec(text, context), tuple(turns), usage)
            except ValueError as why:
                reason = str(why)
            if attempt == 0:
                messages = [*messages, {"role": "assistant", "content": text[:4000]},
                            {"role": "user", "content": REPAIR.format(why=reason)}]  # fmt: skip
        return Review("no_spec", None, tuple(turns), usage, reason)


def prompt(name: str) -> str:
    """Text of ``prompts/<name>.md``."""
    return resources.files("ecdysis_lab").joinpath(f"prompts/{name}.md").read_text(encoding="utf-8").strip()


def prompts_hash() -> str:
    """SHA-256 over all prompt files, for the run's record."""
    names = ("shared", *ROLES, "single", "moderator")
    return hashlib.sha256("\0".join(prompt(n) for n in names).encode()).hexdigest()


def _hash(context: Context) -> str:
    return hashlib.sha256((context.text + prompts_hash()).encode()).hexdigest()
