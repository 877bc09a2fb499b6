"""Which failures a round shows to the review: those of recurring patterns first, then what is seen on one task only.

A round that leads to no edit ends neither the training nor the budget: the next one shows others. When nothing is left
to show, the training ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ecdysis_lab.failures.subset import all_failures, budget_of, from_file, pick_quarter, random_quarter
from ecdysis_lab.records import Failure, Patterns, Subset
from ecdysis_lab.review.context import Context
from ecdysis_lab.store import Round

NOTHING_LEFT = "nothing is left to show: every failure was shown with this harness, and led to no edit"
WITHOUT_EDIT = ("no_spec", "no_change")
SHOWN_ALL = "Every failure of a recurring pattern was shown before, and led to no edit. What is left was seen"
NONE_RECURS = "No pattern recurs. What fails was seen"
SINGLE = "on one task only.\nIn this round a change may rest on evidence of a single task"
AGAIN = "; an edit has to raise the score again on fresh seeds"


@dataclass(frozen=True)
class Shown:
    """What one round showed without getting an edit: keys of failures, and whether they were auxiliary."""

    keys: frozenset[str]
    auxiliary: bool


def is_auxiliary(round: Round) -> bool:
    """Whether a round shows what is seen on one task only."""
    return round.subset is not None and round.subset.auxiliary


def shown_before(rounds: Sequence[Round], harness: str) -> list[Shown]:
    """What earlier rounds showed of a harness without getting an edit.

    Parameters
    ----------
    rounds : the earlier ones. harness : hash of the one in force.
    """
    return [
        Shown(frozenset(round.shown or ()), is_auxiliary(round))
        for round in rounds
        if (record := round.record) and record.parent == harness and record.decision in WITHOUT_EDIT
    ]


def left_to_show(
    failures: Sequence[Failure], patterns: Patterns, shown: Sequence[Shown]
) -> tuple[list[Failure], bool]:
    """Failures that may be shown next, and whether they are auxiliary; none where nothing is left.

    Parameters
    ----------
    failures, patterns : of the round. shown : what earlier rounds showed in vain.
    """
    seen = frozenset[str]().union(*(s.keys for s in shown))
    recurring = frozenset(key for p in patterns.recurring for key in p.members)
    fresh = [f for f in failures if f.key not in seen]
    if any(f.key in recurring for f in fresh):
        return fresh, False
    seen = recurring.union(*(s.keys for s in shown if s.auxiliary))
    return [f for f in failures if f.key not in seen], True


def choose(
    how: str, failures: Sequence[Failure], patterns: Patterns, shown: Sequence[Shown], *, n: int, seed: int
) -> Subset:
    """The failures that a round reads.

    Parameters
    ----------
    how : ``"all"``, ``"quarter"``, ``"random-quarter"`` or the path of a ``subset.json``. failures, patterns : of the
        round. shown : what earlier rounds showed in vain. n : number of the round. seed : of the pick.
    """
    left, auxiliary = left_to_show(failures, patterns, shown)
    if how == "all" or not left:
        subset = all_failures(left)
    else:
        size = min(budget_of(len(failures)), len(left))
        if how == "random-quarter":
            subset = random_quarter(left, size, seed)
        else:
            subset = pick_quarter(left, patterns, size, seed=seed)
            if how != "quarter":
                # A pick belongs to the first round's failures; where none of it fails later on, the quarter does.
                subset = from_file(how, left, subset if n > 1 else None)
    return replace(subset, auxiliary=auxiliary)


def opened(context: Context, patterns: Patterns, *, again: bool) -> Context:
    """The context of an auxiliary round: it says so, and evidence of a single task counts.

    Parameters
    ----------
    context, patterns : of the round. again : whether trials can be run on fresh seeds, which an edit then has to pass.
    """
    every = frozenset(p.id for p in patterns.patterns) | {-1}
    why = SHOWN_ALL if patterns.recurring else NONE_RECURS
    note = f"# This round\n{why} {SINGLE}{AGAIN if again else ''}."
    return replace(context, text=f"{note}\n\n{context.text}", recurring=every, task_of={})
