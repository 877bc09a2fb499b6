"""What a slip is made of: a scene, a wrong act, its cause, and the guidance that would prevent it.

A *defect* is a gap of the interface that any model falls into; a *quirk* belongs to one profile. ``wrong`` builds
the wrong act from the plan and from facts of the environment, or returns None where the slip cannot happen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Effect, Oracle

Act = str | Call
"""What an agent does in a turn: say a text, or make one call."""
Where = Literal[
    "call",
    "before_write",
    "skip_last_write",
    "loop",
    "instead_of_write",
    "unconfirmed",
    "after",
    "info",
    "deny",
]


@dataclass(eq=False)
class Scene:
    """What a simulated agent and its slips may use: the gold turns and reads of the environment.

    Parameters
    ----------
    benchmark : last part of the benchmark's name; draws depend on it. task_id : the task.
    oracle : how the task is done. effect : what a call does. scenario : the user's instructions, or the task's text.
    read : read-only access to the environment.
    """

    benchmark: str
    task_id: str
    oracle: Oracle
    effect: Callable[[Call], Effect]
    scenario: str
    read: Callable[[str, dict[str, Any]], Any]

    @cached_property
    def plan(self) -> tuple[Call, ...]:
        """Gold calls in order."""
        return self.oracle.calls

    @cached_property
    def writes(self) -> list[Call]:
        """Gold calls that change the environment."""
        return [c for c in self.plan if self.effect(c) == "write"]

    @cached_property
    def answer(self) -> str:
        """The last gold text, or an empty string where the plan ends with a call."""
        last = self.oracle.turns[-1] if self.oracle.turns else ""
        return last if isinstance(last, str) else ""

    @cached_property
    def steps(self) -> list[tuple[str, Act]]:
        """(consent asked for it, turn) of every gold turn but the answer."""
        turns = self.oracle.turns[: -1 if self.answer else None]
        steps: list[tuple[str, Act]] = []
        asked = ""
        for turn, after in zip(turns, (*turns[1:], ""), strict=True):
            if isinstance(turn, str) and after in self.writes:
                asked = turn
            else:
                steps.append((asked, turn))
                asked = ""
        return steps


Wrong = Callable[[Scene, Call | None], "list[Act] | None"]


@dataclass(frozen=True)
class Slip:
    """One way to go wrong.

    Parameters
    ----------
    name : identifier, also the planted cause.
    where : how it enters the plan.
    wrong : builds what is done or said instead, from the gold call whose place it takes where there is one; None
        where it does not apply.
    hint : regular expression; harness text that matches it counts as matching guidance.
    form : True when the environment would reject the wrong call (a result that begins with ``Error``, or ``[]``), so
        a call that went through was put right.
    quirk : True when it belongs to the profiles that list it.
    share : share of the tasks where it can happen that are susceptible to it.
    """

    name: str
    where: Where
    wrong: Wrong
    hint: str
    form: bool = False
    quirk: bool = False
    share: float = 0.3

    @property
    def cause(self) -> str:
        """``"defect"`` or ``"quirk"``."""
        return "quirk" if self.quirk else "defect"


BLUNDER = Slip("blunder", "deny", lambda scene, call: [] if scene.writes else None, r"(?!)", quirk=True)
"""Doing nothing; no guidance prevents it. Its chance is the profile's ``blunder``."""


def possible(slip: Slip, scene: Scene) -> bool:
    """Whether the slip can happen in this task."""
    calls: list[Call | None] = [*scene.plan] if slip.where in ("call", "loop", "unconfirmed") else [None]
    return any(slip.wrong(scene, call) is not None for call in calls)


def changed(call: Call, **arguments: Any) -> list[Act]:
    """The call with some arguments replaced."""
    return [Call(call.name, {**call.arguments, **arguments})]


def on(*tools: str) -> Callable[[Wrong], Wrong]:
    """Limit a ``wrong`` function to calls of these tools."""

    def limit(build: Wrong) -> Wrong:
        return lambda scene, call: build(scene, call) if call is not None and call.name in tools else None

    return limit
