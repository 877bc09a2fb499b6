"""What a slip is made of: a scene, a wrong act, its cause, and the guidance that would prevent it.

A *defect* is a gap of the interface that any model falls into; a *quirk* belongs to one profile. ``wrong`` builds
the wrong act from the plan and from facts of the environment, or returns None where the slip cannot happen.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from ecdysis_lab.hooks import Call

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


@dataclass
class Scene:
    """What a slip may use: the plan, who the user is, and reads of the environment.

    Parameters
    ----------
    plan : gold calls in order. kinds : tool name -> kind. scenario : the user's instructions.
    communicate : strings the user needs to hear. read : read-only access to the environment.
    """

    domain: str
    task_id: str
    plan: list[Call]
    kinds: dict[str, str]
    scenario: str
    communicate: list[str]
    read: Callable[[str, dict[str, Any]], Any]
    _user: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def writes(self) -> list[Call]:
        """Gold calls that change the database."""
        return [c for c in self.plan if self.kinds.get(c.name) == "write"]

    @property
    def user(self) -> dict[str, Any]:
        """The customer's profile, or an empty dict when the scenario does not identify one."""
        if self._user is None:
            self._user = self._find_user() or {}
        return self._user

    def _find_user(self) -> Any:
        ids = [c.arguments.get("user_id") for c in self.plan] + re.findall(
            r"\b[a-z]+_[a-z]+_\d{4}\b", self.scenario
        )
        known = next((i for i in ids if i), None)
        if known is None and self.domain == "retail":
            finder = next((c for c in self.plan if c.name.startswith("find_user")), None)
            known = self.read(finder.name, finder.arguments) if finder else None
        return self.read("get_user_details", {"user_id": known}) if known else None


Wrong = Callable[[Scene, Call | None], "list[Call] | None"]


@dataclass(frozen=True)
class Slip:
    """One way to go wrong.

    Parameters
    ----------
    name : identifier, also the planted cause.
    where : how it enters the plan.
    wrong : builds the wrong calls; None where it does not apply.
    hint : regular expression; harness text that matches it counts as matching guidance.
    form : True when the environment would reject the wrong call, so a call that went through was put right.
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


def changed(call: Call, **arguments: Any) -> list[Call]:
    """The call with some arguments replaced."""
    return [Call(call.name, {**call.arguments, **arguments})]


def on(*tools: str) -> Callable[[Wrong], Wrong]:
    """Limit a ``wrong`` function to calls of these tools."""

    def limit(build: Wrong) -> Wrong:
        return lambda scene, call: build(scene, call) if call is not None and call.name in tools else None

    return limit
