"""What became of an arm that learned from recorded trials, and which harness its row of the result counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.store import Round, Run
from ecdysis_lab.train.arms import arm_of
from ecdysis_lab.train.rounds import Trained
from ecdysis_lab.train.settings import Settings

UNCHECKED = (
    "each failure was handed over alone; the check of scores that keeps an edit or the round (its own task, pass@k) "
    "cannot be made by replay"
)


def decided(run: Run, settings: Settings, arm: str, made: Trained) -> dict[str, Any]:
    """What became of the arm's edits, and which harness its row counts.

    ``candidate`` is the folder, inside the run's, of what the arm led to, or of its last rejected candidate; empty
    without one. ``counted`` is "candidate", or "start" where there is none; one that the static policy rejected is
    never run, so that the start counts there too. ``reviewer`` is the model that reviewed, empty where none did.

    Parameters
    ----------
    run, settings : of the learning. arm, made : its name, and what it led to.
    """
    round = run.round(arm, made.rounds[-1].round)
    last = round.record or made.rounds[-1]  # as it was written down
    changed = made.harness.hash != last.parent
    rejected, gate = _rejected(round)
    candidate = f"harness/{made.harness.hash}" if changed else rejected
    return {
        "start": settings.start,
        "decision": last.decision,
        "counted": "candidate" if candidate and (changed or gate != "static") else "start",
        "gate": last.gate,
        "reason": last.reason,
        "says": UNCHECKED if arm_of(arm).edits == "failure" else "",
        "failures": last.failures,
        "reviewer": settings.review_model if _reviewed(round) else "",
        "editor_calls": last.editor_calls,
        "notes": last.notes,
        "changed": changed,
        "candidate": candidate,
    }


def counted_harness(run: Run, made: Trained, found: Mapping[str, Any]) -> Harness:
    """The harness that an arm's row counts.

    Parameters
    ----------
    run : of the learning. made : what the arm led to. found : as :func:`decided` tells it.
    """
    rejected = found["counted"] == "candidate" and not found["changed"]
    return load_harness(run.folder / found["candidate"]) if rejected else made.harness


def _rejected(round: Round) -> tuple[str, str]:
    """The last candidate that a gate rejected, as a folder inside the run's, and the gate; empty without one."""
    edits = [(i, e.gate) for i, e in enumerate(round.edits or (), 1) if e.decision == "rejected"]
    if edits:
        return f"{round.place}/edit-{edits[-1][0]}", edits[-1][1]
    last, record = round.last_candidate(), round.record
    if last is None or record is None or record.decision != "rejected":
        return "", ""
    return f"{round.place}/{last.name}", record.gate


def _reviewed(round: Round) -> bool:
    """Whether a model was asked before the editor, for the round or for any failure alone."""
    asked = bool(round.review and round.review.usage.calls)
    return asked or any(round.debate(i) for i, _ in enumerate(round.edits or (), 1))
