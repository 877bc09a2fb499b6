"""The accommodation ratio t: which changes of a run serve one model's quirk rather than a defect of the harness.

A change is model-specific when the failures it cites recur on no other model at hand, or when its trigger fires on the
traces of one model only. What is seen on one task only is undecided, unless the trigger fires on another model too:
one task is too little to say whose fault it is. :func:`decide` is pure; ``accommodation_run`` gathers the
facts from a run folder and the trial store. Planted causes of simulated models are never read here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ecdysis_lab.records import Embedder, Failure, Patterns

if TYPE_CHECKING:
    import pandas as pd

Counted = Mapping[str, tuple[int, int]]
"""Model -> (how many of its traces show it, how many were looked at)."""
WEAK = "weak: no other model was run on the tasks of this pattern, which may be all that brings the cause out"
TELLING = 0.05  # a silence elsewhere that chance brings more often than this tells nothing


@dataclass(frozen=True)
class Facts:
    """What is known of one change.

    Parameters
    ----------
    model : the model it was trained on. pattern : name of the pattern it answers, e.g. ``"P3 (id form)"``, or an
        empty string where its evidence belongs to none. tasks : distinct tasks that the pattern spans.
    seen : model -> (its failures in the same pattern, its failures at hand), the trained model included.
    fired : model -> (traces on which the change acts, traces replayed), the trained model included; None where
        nothing was replayed.
    unreplayed : why nothing was replayed, as a sentence without a full stop.
    shared_tasks : tasks of the pattern that another model was run on; None where that is not known.
    """

    model: str
    pattern: str
    tasks: int
    seen: Counted = field(default_factory=dict)
    fired: Counted | None = None
    unreplayed: str = "its trigger was not replayed"
    shared_tasks: int | None = None


@dataclass(frozen=True)
class Judgement:
    """One change with the automatic judgement.

    Parameters
    ----------
    id : ``"<arm>-<round>.<change>"``, both from 1. arm, round, change : its parts. outcome : decision of the round.
    layer, what, why, pattern, evidence : of the change. model : the model it was trained on.
    model_specific : the judgement; None where nothing decides it. reasons : why, in words.
    seen, fired : the numbers behind it, see :class:`Facts`.
    """

    id: str
    arm: str
    round: int
    change: int
    outcome: str
    layer: str
    what: str
    why: str
    pattern: str
    evidence: tuple[str, ...]
    model: str
    model_specific: bool | None
    reasons: tuple[str, ...]
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    fired: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """The judgement as a label: ``model quirk``, ``harness defect`` or ``unsure``."""
        return {True: "model quirk", False: "harness defect", None: "unsure"}[self.model_specific]


def decide(facts: Facts) -> tuple[bool | None, tuple[str, ...]]:
    """Whether a change is model-specific, and why.

    Parameters
    ----------
    facts : what is known of it.

    Returns
    -------
    (True, False, or None where its evidence is of one task, or nothing at hand can be compared with it; reasons in
    words).
    A trigger that fires on another model's failures counts as recurrence there: it is the same act. A trigger that
    stays silent elsewhere decides only where that is no accident of few traces (``TELLING``).
    """
    seen, fired = _split(facts.seen, facts.model), _split(facts.fired or {}, facts.model)
    single = facts.tasks < 2
    reasons = [
        _pattern_reason(facts),
        *([] if single else [_seen_reason(*seen)]),
        _fired_reason(facts, *fired),
    ]
    if _hits(fired[1]):
        return False, tuple(reasons)
    if single:
        return None, tuple(reasons)
    silent = chance(*fired) <= TELLING
    if not silent and (not seen[0][0] or not any(total for _, total in seen[1].values())):
        return None, tuple(reasons)
    specific = silent or not _hits(seen[1])
    if specific and facts.shared_tasks == 0:
        reasons.append(WEAK)
    return specific, tuple(reasons)


def chance(own: tuple[int, int], others: Counted) -> float:
    """Probability that all hits fall on the own traces by accident, if every trace were as likely to be hit.

    Parameters
    ----------
    own : (hits, traces) of the own model. others : of the other models, without a hit. Fisher's exact test, one-sided;
        1.0 without hits or without other traces.
    """
    from scipy.stats import fisher_exact

    hits, n = own
    silent = sum(total for _, total in others.values())
    return float(fisher_exact([[hits, n - hits], [0, silent]], alternative="greater").pvalue)


def _split(counted: Counted, model: str) -> tuple[tuple[int, int], dict[str, tuple[int, int]]]:
    """(Counts of the own model, counts of the others)."""
    return counted.get(model, (0, 0)), {m: c for m, c in counted.items() if m != model}


def _hits(counted: Counted) -> list[str]:
    return sorted(m for m, (n, _) in counted.items() if n)


def _pattern_reason(facts: Facts) -> str:
    if not facts.pattern:
        return "auxiliary: its evidence belongs to no pattern"
    if facts.tasks < 2:
        return f"auxiliary: {facts.pattern} is seen on one task only"
    return f"{facts.pattern} recurs over {facts.tasks} tasks on {facts.model}"


def _seen_reason(own: tuple[int, int], others: Counted) -> str:
    if not any(total for _, total in others.values()):
        return "no failure of another model is at hand"
    if not own[0]:
        return "among the failures of all models its own are noise, so they cannot be compared"
    if shown := _hits(others):
        return f"it recurs on {_counts({m: others[m] for m in shown})} failures"
    return f"it recurs on no other model at hand: {_counts(others)} failures"


def _fired_reason(facts: Facts, own: tuple[int, int], others: Counted) -> str:
    if facts.fired is None:
        return facts.unreplayed
    counts = f"{_counts(facts.fired)} replayed failures"
    if _hits(others):
        return f"its trigger fires on other models too: {counts}"
    if not own[0]:
        return f"its trigger fires on no trace: {counts}"
    p = chance(own, others)
    told = "" if p <= TELLING else ", which few traces would show by accident"
    return f"its trigger fires on {facts.model} only: {counts} (p {p:.2g}{told})"


def _counts(counted: Counted) -> str:
    return ", ".join(f"{model} {n} of {total}" for model, (n, total) in sorted(counted.items()))


def ratio(judgements: Iterable[Judgement], outcome: str | None = None) -> float | None:
    """t: the share of model-specific changes among those decided; None when there are none.

    Parameters
    ----------
    judgements : of one arm or run. outcome : count only changes of rounds with this decision, e.g. ``"accepted"``.
    """
    decided = [
        d.model_specific for d in judgements if d.model_specific is not None and outcome in (None, d.outcome)
    ]
    return sum(decided) / len(decided) if decided else None


def judgements_table(judgements: Iterable[Judgement]) -> pd.DataFrame:
    """One row per change: columns change, layer, what, round, judgement, reasons."""
    import pandas as pd

    rows = [(d.id, d.layer, d.what, d.outcome, d.word, "; ".join(d.reasons)) for d in judgements]
    return pd.DataFrame(rows, columns=["change", "layer", "what", "round", "judgement", "reasons"])


def joint_patterns(
    own: Sequence[Failure], others: Mapping[str, Sequence[Failure]], embedder: Embedder | None, seed: int = 0
) -> Patterns:
    """Patterns over the failures of all models at hand, grouped together."""
    from ecdysis_lab.failures.patterns import find_patterns

    everyone = [*own, *(f for failures in others.values() for f in failures)]
    return find_patterns(everyone, embedder, seed=seed, stability=False)


def seen_on(
    cited: Iterable[str], members: Iterable[str], joint: Patterns, everyone: Mapping[str, Sequence[Failure]]
) -> dict[str, tuple[int, int]]:
    """Model -> (its failures in the joint pattern of a change, its failures at hand).

    Parameters
    ----------
    cited : keys of the failures that the change cites; their joint patterns count. members : keys of its pattern in
        the round, asked where all cited ones are noise among the failures of all models; their commonest one counts.
    joint : what :func:`joint_patterns` found. everyone : failures by model, the trained one included.
    """
    label = {key: p.id for p in joint.patterns for key in p.members}
    wanted = {label[key] for key in cited if key in label}
    if not wanted:
        wanted = {n for n, _ in Counter(label[key] for key in members if key in label).most_common(1)}
    return {
        model: (sum(label.get(f.key) in wanted for f in failures), len(failures))
        for model, failures in everyone.items()
    }
