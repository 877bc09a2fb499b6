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
        each failure alone).
    debate : rounds of Analyst, Critic and Engineer before the spec; None takes the setting.
    subset : which failures the review reads: ``"all"``, ``"quarter"`` or ``"random-quarter"``; empty takes the setting.
    gates : names of the gates that an edit has to pass; None for all.
    rollback : whether its edits stand or fall together, by the ``rollback`` gate at the end of a round.
    """

    name: str
    about: str
    colour: str
    harness: Literal["", "empty", "human"] = ""
    edits: Literal["round", "failure"] = "round"
    debate: int | None = None
    subset: str = ""
    gates: tuple[str, ...] | None = None
    rollback: bool = False

    @property
    def trains(self) -> bool:
        """Whether the arm has training rounds."""
        return not self.harness


BASELINE = "direct"
"""The arm that others are compared with."""

# The first five after Okabe and Ito, the others so that every two are apart for every kind of sight (a test
# holds this), and apart in lightness where they stand side by side.
ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("direct", "no harness", "#4D4D4D", harness="empty"),
        Arm("human", "the harness that was written by hand", "#DF6699", harness="human"),
        Arm(
            "self-evolution",
            "every failure alone to the editor; the round stays unless pass@k falls by more than 5 points",
            "#E69F00",
            edits="failure",
            gates=("static", "probe"),
            rollback=True,
        ),
        Arm(
            "self-evolution-verified",
            "every failure alone to the editor; an edit stays when its own task scores higher",
            "#8F2A00",
            edits="failure",
            gates=("static", "probe", "coverage", "improvement"),
        ),
        Arm(
            "ecdysis-no-fdcr",
            "all failures, one edit a round, without the debate",
            "#56B4E9",
            debate=0,
            subset="all",
        ),
        Arm("ecdysis", "all failures, one edit a round, after the debate", "#0072B2", subset="all"),
        Arm(
            "ecdysis-quarter",
            "as ecdysis, from the informative quarter or a person's pick",
            "#8E3BD8",
        ),
        Arm(
            "ecdysis-random-quarter",
            "as ecdysis, from a random quarter",
            "#CDC68C",
            subset="random-quarter",
        ),
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
