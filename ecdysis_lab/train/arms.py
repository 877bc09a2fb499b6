"""The arms: one row each, in the order of every table and figure.

A new arm is a row here; help texts, tables, figures and reports take it from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ecdysis_lab.records import LabError


@dataclass(frozen=True)
class Arm:
    """One way to come by a harness.

    Parameters
    ----------
    name : as users give it.
    about : one phrase for help texts and reports.
    colour : hex colour, the same in every figure.
    harness : for an arm that does not train, ``"empty"`` or ``"human"`` (the benchmark's own); else an empty string.
    edits : for an arm that trains, ``"round"`` (one edit from all the evidence of a round) or ``"failure"`` (one from
        each failure alone, kept when the failure's own task scores higher).
    debate : rounds of Analyst, Critic and Engineer before the spec; None takes the setting.
    subset : which failures the review reads; empty takes the setting.
    gates : names of the gates that an edit has to pass; None for all.
    """

    name: str
    about: str
    colour: str
    harness: Literal["", "empty", "human"] = ""
    edits: Literal["round", "failure"] = "round"
    debate: int | None = None
    subset: str = ""
    gates: tuple[str, ...] | None = None

    @property
    def trains(self) -> bool:
        """Whether the arm has training rounds."""
        return not self.harness


BASELINE = "direct"
"""The arm that others are compared with."""

# Colours after Okabe and Ito, apart in lightness too, so that they survive colour blindness and grey print. The two
# Ecdysis arms are two shades of one hue.
ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("direct", "no harness", "#4D4D4D", harness="empty"),
        Arm("human", "the harness that was written by hand", "#DF6699", harness="human"),
        Arm(
            "self-evolution",
            "every failure alone to the editor",
            "#E69F00",
            edits="failure",
            gates=("static", "probe", "coverage", "improvement"),
        ),
        Arm("ecdysis-no-fdcr", "one edit a round, without the debate", "#56B4E9", debate=0),
        Arm("ecdysis", "one edit a round, after the debate", "#0072B2"),
    )
}


def arm_of(name: str, *, trains: bool = False) -> Arm:
    """The row of an arm.

    Parameters
    ----------
    name : of the arm. trains : whether it has to be one that trains.

    Raises
    ------
    LabError: an unknown arm, or one that does not train; the choices are listed.
    """
    choices = [arm.name for arm in ARMS.values() if arm.trains or not trains]
    if name not in choices:
        why = "is not trained" if name in ARMS else "is unknown"
        raise LabError(f"arm: {name!r} {why}; choose one of {', '.join(choices)}")
    return ARMS[name]
