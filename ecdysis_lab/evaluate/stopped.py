"""What a harness would have stopped or rewritten in recorded trials, with intervals by task.

A count of acts and not of successes: what an agent does after a refusal is not known from a record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ecdysis_lab.evaluate.metrics import cluster_interval
from ecdysis_lab.harness import check
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Benchmark, Trajectory

NOT_A_SUCCESS = (
    "A stopped act is not yet a success: what the agent would have done next is not known from a record, and text that "
    "it would have read cannot be judged by replay."
)
Acts = Sequence[Mapping[str, Any]]


def stopped(
    harness: Harness, benchmark: Benchmark, recorded: Sequence[Trajectory], seed: int = 0
) -> dict[str, Any]:
    """Recorded trials by a harness, failing and passing apart; each trial counts once, however many acts are touched.

    Parameters
    ----------
    harness : that judges. benchmark : where they happened. recorded : scored trials.
    seed : of the intervals' bootstrap.

    Returns
    -------
    ``{"failing": …, "passing": …}`` with numbers of trials. Both have ``trials``, ``tasks``; ``touched``, trials in
    which an act would have been stopped or rewritten; ``by_rule``, the same by rule; ``other_text``, trials in which
    the model would have read other text; ``broken``, trials in which a hook broke. ``executed`` counts the failing
    trials in which the environment had accepted such an act. Of passing trials only acts that the environment accepted
    count, for those are legal: ``refused_legal`` and ``altered`` are the parts of ``touched``. The fields that end in
    ``_ci95`` are intervals of shares, ``[low, high]`` in [0, 1], clustered by task; None without a trial.
    """
    found = check.traces(harness, benchmark, recorded)
    failing = [t for t in recorded if not t.success]
    passing = [t for t in recorded if t.success]
    return {
        "failing": _failing(failing, found["failing"], seed),
        "passing": _passing(passing, found["passing"], seed),
    }


def _failing(trials: Sequence[Trajectory], found: Mapping[str, Any], seed: int) -> dict[str, Any]:
    acts = found["acts"]
    return {
        **_size(trials),
        **_counted("touched", trials, acts, seed),
        "executed": len(_keys(a for a in acts if not a["rejected_by_environment"])),
        **_rest(acts, found),
    }


def _passing(trials: Sequence[Trajectory], found: Mapping[str, Any], seed: int) -> dict[str, Any]:
    legal = [a for a in found["acts"] if not a["rejected_by_environment"]]
    return {
        **_size(trials),
        **_counted("touched", trials, legal, seed),
        **_counted("refused_legal", trials, [a for a in legal if a["what"] == "refused"], seed),
        **_counted("altered", trials, [a for a in legal if a["what"] == "altered"], seed),
        **_rest(legal, found),
    }


def _size(trials: Sequence[Trajectory]) -> dict[str, int]:
    return {"trials": len(trials), "tasks": len({t.trial.task_id for t in trials})}


def _counted(name: str, trials: Sequence[Trajectory], acts: Acts, seed: int) -> dict[str, Any]:
    """Trials with any of the acts, and the interval of their share."""
    keys = _keys(acts)
    return {name: len(keys), f"{name}_ci95": _interval(trials, keys, seed)}


def _rest(acts: Acts, found: Mapping[str, Any]) -> dict[str, Any]:
    pairs = {(a["rule"] or "no named rule", a["trajectory"]) for a in acts}
    rules = sorted(Counter(rule for rule, _ in pairs).items(), key=lambda pair: (-pair[1], pair[0]))
    return {"by_rule": dict(rules), "other_text": found["other_text"], "broken": found["broken"]}


def _keys(acts: Any) -> set[str]:
    return {a["trajectory"] for a in acts}


def _interval(trials: Sequence[Trajectory], keys: Collection[str], seed: int) -> list[float] | None:
    tasks = sorted({t.trial.task_id for t in trials})
    if not tasks:
        return None
    of = Counter(t.trial.task_id for t in trials)
    hit = Counter(t.trial.task_id for t in trials if t.key in keys)
    return cluster_interval([hit[task] for task in tasks], [of[task] for task in tasks], seed)
