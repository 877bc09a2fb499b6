"""What a harness would have stopped or rewritten in recorded trials, with intervals by task.

A count of trials and neither of successes nor of harm: what an agent does after a refusal is not known from a record,
and an act of a passing trial may break the policy all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ecdysis_lab.evaluate.metrics import cluster_interval
from ecdysis_lab.harness import check
from ecdysis_lab.harness.replay import REPLY
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Benchmark, Trajectory

NOT_A_SUCCESS = (
    "A stopped act is not yet a success: what the agent would have done next is not known from a record, and text that "
    "it would have read cannot be judged by replay. One of a passing trial is not yet harm: the policy may forbid what "
    "the score let pass. Counted are trials, by rule too, with an act that the environment had accepted, or a reply, "
    "stopped or rewritten; trials by rule add up to more where one meets several."
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
    ``{"failing": …, "passing": …}`` with numbers of trials. What counts is an act that the environment had accepted, or
    a reply, that would have been stopped or rewritten: ``executed`` are the failing trials with one, ``touched`` the
    passing ones. Both have ``trials``, ``tasks``; ``acts`` and ``replies``, the trials with either; ``by_rule``, the
    trials by rule (``ecdysis-lab check`` counts acts there); ``other_text``, trials in which the model would have read
    other text; ``broken``, trials in which a hook broke. Of failing trials ``touched`` also has those in which the
    environment rejected the act itself. Of passing ones ``refused_legal`` and ``altered`` are the parts of ``touched``:
    trials in which what is legal to the environment, which need not keep the policy, was refused or rewritten. The
    fields that end in ``_ci95`` are intervals of shares, ``[low, high]`` in [0, 1], clustered by task; None without a
    trial.
    """
    found = check.traces(harness, benchmark, recorded)
    failing = [t for t in recorded if not t.success]
    passing = [t for t in recorded if t.success]
    return {
        "failing": _failing(failing, found["failing"], seed),
        "passing": _passing(passing, found["passing"], seed),
    }


def _failing(trials: Sequence[Trajectory], found: Mapping[str, Any], seed: int) -> dict[str, Any]:
    executed = _accepted(found)
    return {
        **_size(trials),
        **_counted("executed", trials, executed, seed),
        **_counted("touched", trials, found["acts"], seed),
        **_rest(executed, found),
    }


def _passing(trials: Sequence[Trajectory], found: Mapping[str, Any], seed: int) -> dict[str, Any]:
    legal = _accepted(found)
    return {
        **_size(trials),
        **_counted("touched", trials, legal, seed),
        **_counted("refused_legal", trials, [a for a in legal if a["what"] == "refused"], seed),
        **_counted("altered", trials, [a for a in legal if a["what"] == "altered"], seed),
        **_rest(legal, found),
    }


def _accepted(found: Mapping[str, Any]) -> Acts:
    """Acts that the environment had accepted, and replies, which it does not judge."""
    return [a for a in found["acts"] if not a["rejected_by_environment"]]


def _size(trials: Sequence[Trajectory]) -> dict[str, int]:
    return {"trials": len(trials), "tasks": len({t.trial.task_id for t in trials})}


def _counted(name: str, trials: Sequence[Trajectory], acts: Acts, seed: int) -> dict[str, Any]:
    """Trials with any of the acts, and the interval of their share."""
    keys = _keys(acts)
    return {name: len(keys), f"{name}_ci95": _interval(trials, keys, seed)}


def _rest(acts: Acts, found: Mapping[str, Any]) -> dict[str, Any]:
    pairs = {(a["rule"] or "no named rule", a["trajectory"]) for a in acts}
    rules = sorted(Counter(rule for rule, _ in pairs).items(), key=lambda pair: (-pair[1], pair[0]))
    replies = [a for a in acts if a["call"].startswith(REPLY)]
    split = {"acts": len(_keys(a for a in acts if a not in replies)), "replies": len(_keys(replies))}
    return {**split, "by_rule": dict(rules), "other_text": found["other_text"], "broken": found["broken"]}


def _keys(acts: Any) -> set[str]:
    return {a["trajectory"] for a in acts}


def _interval(trials: Sequence[Trajectory], keys: Collection[str], seed: int) -> list[float] | None:
    tasks = sorted({t.trial.task_id for t in trials})
    if not tasks:
        return None
    of = Counter(t.trial.task_id for t in trials)
    hit = Counter(t.trial.task_id for t in trials if t.key in keys)
    return cluster_interval([hit[task] for task in tasks], [of[task] for task in tasks], seed)
