"""Metrics of trials: one table, one summary an arm and model, paired differences between arms.

Only trials with status ``scored`` enter a metric. An infrastructure error or a user fault is counted apart
and is never a success or a failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ecdysis_lab.evaluate.metrics import (
    cluster_interval,
    difference_interval,
    pass_at_k,
    pass_hat_k,
)
from ecdysis_lab.evaluate.noise import NoiseFloor, noise_floor
from ecdysis_lab.records import LabError, Trajectory, Usage
from ecdysis_lab.train.gates import sign_test_p

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NoiseFloor", "noise_floor", "paired_difference", "summarise", "table"]
K = 3
COLUMNS = (
    "arm",
    "model",
    "benchmark",
    "task_id",
    "seed",
    "status",
    "score",
    "success",
    "seconds",
    "cost_usd",
    "prompt_tokens",
    "completion_tokens",
    "interventions",
    "refusals",
)
TaskId = tuple[str, str]


def table(trajectories: Iterable[Trajectory], arm_of: Mapping[str, str] | str) -> pd.DataFrame:
    """One row per trial.

    Parameters
    ----------
    trajectories : trials of any status.
    arm_of : the arm of all of them, or a mapping from trial key or harness hash to arm. Where two arms share
        one harness, call once per arm and concatenate.

    Returns
    -------
    DataFrame with columns arm, model, benchmark, task_id, seed, status, score, success, seconds, cost_usd,
    prompt_tokens, completion_tokens, interventions, refusals. ``score`` and ``success`` are missing for
    trials that were not scored, ``cost_usd`` where a price is unknown. Tokens and cost sum over roles.

    Raises
    ------
    LabError: a trial whose key and harness are both absent from ``arm_of``.
    """
    import pandas as pd

    frame = pd.DataFrame([_row(t, _arm(t, arm_of)) for t in trajectories], columns=list(COLUMNS))
    numeric = {"score": "float64", "seconds": "float64", "cost_usd": "float64", "success": "boolean"}
    return frame.astype(numeric)


def _arm(trajectory: Trajectory, arm_of: Mapping[str, str] | str) -> str:
    if isinstance(arm_of, str):
        return arm_of
    for name in (trajectory.key, trajectory.trial.harness):
        if name in arm_of:
            return arm_of[name]
    arms = ", ".join(sorted(set(arm_of.values()))) or "none"
    raise LabError(
        f"arm_of names neither trial {trajectory.key} nor its harness {trajectory.trial.harness[:12]}; "
        f"arms it knows: {arms}"
    )


def _row(trajectory: Trajectory, arm: str) -> dict[str, Any]:
    trial, used = trajectory.trial, sum(trajectory.usage.values(), Usage())
    scored = trajectory.status == "scored"
    return {
        "arm": arm,
        "model": trial.model,
        "benchmark": trial.benchmark,
        "task_id": trial.task_id,
        "seed": trial.seed,
        "status": trajectory.status,
        "score": trajectory.score if scored else None,
        "success": trajectory.success if scored else None,
        "seconds": trajectory.seconds,
        "cost_usd": used.cost_usd,
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "interventions": len(trajectory.interventions),
        "refusals": sum(i.action == "refuse" for i in trajectory.interventions),
    }


def summarise(trajectories: Iterable[Trajectory], seed: int = 0, n_boot: int = 2000) -> dict[str, Any]:
    """Metrics of one arm on one model.

    Parameters
    ----------
    trajectories : trials of any status.
    seed : seed of the bootstrap.
    n_boot : resamples of the tasks.

    Returns
    -------
    ``accuracy`` (share of scored trials that succeed), ``pass@3`` and ``pass^3`` (means over tasks),
    ``accuracy_ci95`` as ``[low, high]``, ``n_tasks`` and ``n_trials`` (scored), ``infra_errors``,
    ``user_faults``; of the scored trials ``prompt_tokens``, ``completion_tokens`` and ``cost_usd`` (sums over
    roles, None for an unknown price), ``trial_seconds`` and ``agent_seconds`` (mean wall clock of a trial and of
    the agent model's calls in it, its inference latency); ``outcomes`` (task -> seed -> 0 or 1), from which runs
    are pooled. Pass@3 and Pass^3 are None when any task has fewer than three scored trials, for a mean
    over the remaining tasks would be another quantity. Without a scored trial every metric is None.

    Raises
    ------
    LabError: one trial occurs twice, which would count it double.
    """
    import numpy as np

    trials = list(trajectories)
    twice = [key for key, times in Counter(t.key for t in trials).items() if times > 1]
    if twice:
        raise LabError(f"trajectories hold trial {twice[0]} more than once ({len(twice)} such trials)")
    counts = _counts(trials)
    n = np.array([len(s) for s in counts.values()], dtype=float)
    c = np.array([sum(s) for s in counts.values()], dtype=float)
    status = Counter(t.status for t in trials)
    enough = bool(len(n)) and n.min() >= K
    return {
        "accuracy": float(c.sum() / n.sum()) if len(n) else None,
        f"pass@{K}": _mean(pass_at_k, counts) if enough else None,
        f"pass^{K}": _mean(pass_hat_k, counts) if enough else None,
        "accuracy_ci95": cluster_interval(c, n, seed, n_boot) if len(n) else None,
        "n_tasks": len(n),
        "n_trials": int(n.sum()),
        "infra_errors": status["infra_error"],
        "user_faults": status["user_fault"],
        **_consumption([t for t in trials if t.status == "scored"]),
        "outcomes": _outcomes(trials),
    }


def _consumption(scored: Sequence[Trajectory]) -> dict[str, Any]:
    """Tokens and cost summed, seconds as means."""
    used = sum((u for t in scored for u in t.usage.values()), Usage())
    agent = sum(t.usage.get("agent", Usage()).seconds for t in scored)
    n = len(scored)
    return {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "cost_usd": used.cost_usd,
        "trial_seconds": round(sum(t.seconds for t in scored) / n, 3) if n else None,
        "agent_seconds": round(agent / n, 3) if n else None,
    }


def _outcomes(trials: Iterable[Trajectory]) -> dict[str, dict[str, int]]:
    """Task -> seed -> 0 or 1, sorted; keys are text, as in JSON."""
    found: dict[str, dict[str, int]] = {}
    for t in sorted(trials, key=lambda t: (t.trial.task_id, t.trial.seed)):
        if t.status == "scored":
            found.setdefault(t.trial.task_id, {})[str(t.trial.seed)] = int(t.success)
    return found


def _counts(trials: Iterable[Trajectory]) -> dict[TaskId, list[bool]]:
    """Successes by task, tasks in a fixed order so that the bootstrap does not hang on the order of input."""
    counts: dict[TaskId, list[bool]] = {}
    for t in trials:
        if t.status == "scored":
            counts.setdefault((t.trial.benchmark, t.trial.task_id), []).append(t.success)
    return dict(sorted(counts.items()))


def _mean(estimator: Any, counts: Mapping[TaskId, Sequence[bool]]) -> float:
    return float(sum(estimator(len(s), sum(s), K) for s in counts.values()) / len(counts))


def paired_difference(
    a: Iterable[Trajectory],
    b: Iterable[Trajectory],
    seed: int = 0,
    n_boot: int = 2000,
    missing: Literal["raise", "drop"] = "raise",
) -> dict[str, Any]:
    """How much more often ``b`` succeeds than ``a``, paired by (model, benchmark, task, seed).

    Parameters
    ----------
    a, b : trials of two arms, e.g. ``direct`` and ``ecdysis``.
    seed : seed of the bootstrap over tasks.
    n_boot : resamples.
    missing : what to do with a trial that is not scored in both: ``"raise"``, or ``"drop"`` (counted).

    Returns
    -------
    ``difference`` (accuracy of b minus accuracy of a), ``ci95`` as ``[low, high]``, ``gained`` and ``lost``
    (sorted ids of the tasks whose successes rose and fell), ``sign_test_p`` (exact, two-sided, over those
    tasks), ``n_pairs``, ``n_tasks``, ``dropped``.

    Raises
    ------
    LabError: a trial without its pair (at ``missing="raise"``), one pair twice, or no pair at all.
    """
    import numpy as np

    if missing not in ("raise", "drop"):
        raise LabError(f"missing must be 'raise' or 'drop'; got {missing!r}")
    left, right = _scored(a, "a"), _scored(b, "b")
    lone = sorted(left.keys() ^ right.keys())
    if lone and missing == "raise":
        model, benchmark, task, number = lone[0]
        side = "b" if lone[0] in left else "a"
        raise LabError(
            f"{side} has no scored trial of task {task} ({benchmark}, {model}, seed {number}); {len(lone)} "
            "trials lack their pair. Rerun them, or pass missing='drop' to leave them out"
        )
    steps: dict[TaskId, list[int]] = {}
    for key in sorted(left.keys() & right.keys()):
        steps.setdefault((key[1], key[2]), []).append(int(right[key]) - int(left[key]))
    if not steps:
        raise LabError("a and b share no scored trial of the same model, benchmark, task and seed")
    sums = np.array([sum(s) for s in steps.values()], dtype=float)
    sizes = np.array([len(s) for s in steps.values()], dtype=float)
    gained = sorted(task for (_, task), s in steps.items() if sum(s) > 0)
    lost = sorted(task for (_, task), s in steps.items() if sum(s) < 0)
    return {
        "difference": float(sums.sum() / sizes.sum()),
        "ci95": difference_interval(sums, sizes, seed, n_boot),
        "gained": gained,
        "lost": lost,
        "sign_test_p": sign_test_p(len(gained), len(lost)),
        "n_pairs": int(sizes.sum()),
        "n_tasks": len(steps),
        "dropped": len(lone),
    }


def _scored(trajectories: Iterable[Trajectory], name: str) -> dict[tuple[str, str, str, int], bool]:
    found: dict[tuple[str, str, str, int], bool] = {}
    for t in trajectories:
        key = (t.trial.model, t.trial.benchmark, t.trial.task_id, t.trial.seed)
        if key in found:
            raise LabError(
                f"{name} holds two scored trials of task {key[2]} ({key[1]}, {key[0]}, seed {key[3]})"
            )
        if t.status == "scored":
            found[key] = t.success
    return found
