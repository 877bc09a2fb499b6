"""The tables behind the figures, from ``summary.json`` and from records. Shares are in [0, 1]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ecdysis_lab.evaluate.results import scores_after
from ecdysis_lab.records import Failure, LabError, Patterns, Subset
from ecdysis_lab.train.arms import ARMS, BASELINE

if TYPE_CHECKING:
    import pandas as pd

COVERAGE = (
    "pick",
    "key",
    "gain",
    "reason",
    "coverage",
    "random_low",
    "random_median",
    "random_high",
    "budget",
    "n_failures",
    "origin",
    "simulated",
)
SIZE = ("n_tasks", "n_trials")


def gains_frame(summary: Mapping[str, Any]) -> pd.DataFrame:
    """One row per arm and model.

    Returns
    -------
    DataFrame with columns arm, model, benchmark, accuracy, ci_low, ci_high, pass_at_3, pass_hat_3, n_tasks,
    n_trials, n_seeds (of pooled runs), infra_errors, user_faults, simulated.
    """
    import pandas as pd

    return pd.DataFrame([_arm_row(summary, *cell) for cell in _cells(summary)])


def _cells(summary: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(arm, model, metrics) of a summary.

    Raises
    ------
    LabError: a summary without an arms block.
    """
    if not summary.get("arms"):
        raise LabError("summary.json has no arms block: the run has not been evaluated yet")
    for arm, models in summary["arms"].items():
        for model, metrics in models.items():
            yield arm, model, metrics


def _arm_row(summary: Mapping[str, Any], arm: str, model: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    low, high = metrics.get("accuracy_ci95") or (None, None)
    return {
        "arm": arm,
        "model": model,
        "benchmark": summary.get("benchmark", ""),
        "accuracy": metrics["accuracy"],
        "ci_low": low,
        "ci_high": high,
        "pass_at_3": metrics.get("pass@3"),
        "pass_hat_3": metrics.get("pass^3"),
        "n_tasks": metrics["n_tasks"],
        "n_trials": metrics["n_trials"],
        "n_seeds": metrics.get("n_seeds", 1),
        "infra_errors": metrics.get("infra_errors", 0),
        "user_faults": metrics.get("user_faults", 0),
        "simulated": bool(summary.get("simulated")),
    }


def transfer_frame(summary: Mapping[str, Any], train_model: str | None = None) -> pd.DataFrame:
    """Gain of each arm over ``direct`` on each model.

    Parameters
    ----------
    summary : content of ``summary.json``.
    train_model : the model that the harness was trained on; default is ``summary["train_model"]``, if there.

    Returns
    -------
    DataFrame with columns arm, model, benchmark, baseline, accuracy, gain, gain_low, gain_high, trained_on,
    n_tasks, n_trials, n_seeds, simulated. ``gain_low`` and ``gain_high`` come from ``difference_ci95`` of the arms
    block (``ci95`` of ``paired_difference`` from ``direct``) and are missing without it.

    Raises
    ------
    LabError: the summary holds no arm ``direct`` to compare with.
    """
    import pandas as pd

    base = {model: metrics for arm, model, metrics in _cells(summary) if arm == BASELINE}
    if not base:
        raise LabError(
            f"transfer compares with arm {BASELINE!r}; the summary has {', '.join(summary['arms'])}"
        )
    train_model, rows = train_model or summary.get("train_model"), []
    for arm, model, metrics in _cells(summary):
        if arm == BASELINE or model not in base:
            continue
        row = _arm_row(summary, arm, model, metrics)
        low, high = metrics.get("difference_ci95") or (None, None)
        before = base[model]["accuracy"]
        gain = None if None in (before, metrics["accuracy"]) else metrics["accuracy"] - before
        row |= {"baseline": before, "gain": gain, "gain_low": low, "gain_high": high}
        rows.append({**row, "trained_on": model == train_model})
    keep = "arm model benchmark baseline accuracy gain gain_low gain_high trained_on n_tasks n_trials n_seeds"
    return pd.DataFrame(rows, columns=[*keep.split(" "), "simulated"])


def rounds_frame(summary: Mapping[str, Any]) -> pd.DataFrame:
    """One row per arm and round.

    Returns
    -------
    DataFrame with columns arm, round, failures, patterns, recurring, subset, decision, gate, score_before,
    score_after, gained, lost, editor_calls, simulated. ``gained`` and ``lost`` are counts of trials (task and seed);
    ``score_after`` is missing where the rerun was not reached; where edits were accepted one by one it is the score
    that the next round starts from, or else follows from the flips. ``n_tasks`` and ``n_trials`` of the training
    rollout follow where every training block states them.
    """
    import pandas as pd

    columns = (
        "arm round failures patterns recurring subset decision gate score_before score_after gained lost"
    )
    rows = []
    for arm, training in summary.get("training", {}).items():
        entries = list(training["rounds"] if isinstance(training, Mapping) else training)
        for entry, after in zip(entries, scores_after(entries)):
            flips: dict[str, Any] = {side: _count(entry.get(side, 0)) for side in ("gained", "lost")}
            flips["score_after"] = after
            size = {c: _training(summary, arm)[c] for c in SIZE if _training(summary, arm).get(c)}
            rows.append({**entry, **flips, **size, "arm": arm, "simulated": bool(summary.get("simulated"))})
    return pd.DataFrame(rows, columns=[*columns.split(" "), "editor_calls", *_common(rows), "simulated"])


def _common(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns on the size of the training rollout, where every row has them."""
    return [c for c in SIZE if rows and all(c in row for row in rows)]


def _count(value: Any) -> int:
    """Number of tasks from a count or from a list of ids."""
    return int(value) if isinstance(value, int | float) else len(value or ())


def _training(summary: Mapping[str, Any], arm: str) -> Mapping[str, Any]:
    training = summary.get("training", {}).get(arm, {})
    return training if isinstance(training, Mapping) else {}


def cost_frame(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Accuracy beside what training the arm's harness took.

    Returns
    -------
    DataFrame with the columns of ``gains_frame`` and training_cost_usd, training_tokens,
    training_wall_seconds. ``direct`` and ``human`` cost 0; an unknown price stays missing, and so does
    the cost of an arm whose training the summary does not hold.
    """
    frame = gains_frame(summary)
    trained = summary.get("training", {})
    untrained = {arm.name for arm in ARMS.values() if not arm.trains}
    for column, read in (
        ("training_cost_usd", lambda t: t.get("cost_usd")),
        ("training_tokens", _tokens),
        ("training_wall_seconds", lambda t: t.get("wall_seconds")),
    ):
        value = {arm: 0.0 if arm in untrained else read(trained.get(arm) or {}) for arm in summary["arms"]}
        frame[column] = frame["arm"].map(value).astype("float64")
    return frame


def _tokens(training: Mapping[str, Any]) -> float | None:
    read, written = training.get("prompt_tokens"), training.get("completion_tokens")
    return None if read is None or written is None else float(read + written)


def phases_frame(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Wall clock by phase of each arm's training.

    Returns
    -------
    DataFrame with columns arm, phase, seconds, simulated, and n_tasks, n_trials where every training
    block states them; from ``phase_seconds`` (phase -> seconds) of the training block, or else its
    ``wall_seconds`` as one phase ``training``.
    """
    import pandas as pd

    rows = []
    for arm in summary.get("training", {}):
        training = _training(summary, arm)
        known = training.get("phase_seconds") or {"training": training.get("wall_seconds")}
        size = {c: training[c] for c in SIZE if training.get(c)}
        rows += [{"arm": arm, "phase": p, "seconds": s, **size} for p, s in known.items() if s is not None]
    frame = pd.DataFrame(rows, columns=["arm", "phase", "seconds", *_common(rows)])
    return frame.assign(simulated=bool(summary.get("simulated")))


def patterns_frame(patterns: Patterns, failures: Sequence[Failure], simulated: bool = False) -> pd.DataFrame:
    """One row per failure on the map.

    Returns
    -------
    DataFrame with columns key, x, y, pattern (-1 for noise), pattern_name, pattern_tasks, recurring, medoid,
    task_id, model, termination, failed_checks, first_bad_what, nearest, similarity, picked, simulated.
    ``picked`` is False throughout: set it from ``subset.keys`` to ring the subset on the map.
    """
    import pandas as pd

    of = {key: p for p in patterns.patterns for key in p.members}
    rows = []
    for failure in failures:
        x, y = patterns.layout[failure.key]
        pattern = of.get(failure.key)
        nearest, similarity = patterns.noise.get(failure.key, (-1, None))
        rows.append(
            {
                "key": failure.key,
                "x": x,
                "y": y,
                "pattern": pattern.id if pattern else -1,
                "pattern_name": pattern.name if pattern else "noise",
                "pattern_tasks": len(pattern.tasks) if pattern else 0,
                "recurring": bool(pattern and pattern.recurring),
                "medoid": bool(pattern and pattern.medoid == failure.key),
                "task_id": failure.task_id,
                "model": failure.model,
                "termination": failure.termination,
                "failed_checks": ", ".join(failure.failed_checks),
                "first_bad_what": failure.first_bad_what,
                "nearest": nearest,
                "similarity": similarity,
                "picked": False,
                "simulated": simulated,
            }
        )
    return pd.DataFrame(rows)


def coverage_frame(subset: Subset, simulated: bool = False) -> pd.DataFrame:
    """One row per pick of a subset.

    Returns
    -------
    DataFrame with columns pick (1, 2, ...), key, gain, reason, coverage, random_low, random_median,
    random_high, budget, n_failures, origin, simulated.
    """
    import pandas as pd

    rows = []
    for i, pick in enumerate(subset.picks):
        low, median, high = subset.random_band[i] if i < len(subset.random_band) else (None, None, None)
        covered = subset.coverage[i] if i < len(subset.coverage) else None
        head = [i + 1, pick.key, pick.gain, pick.reason, covered, low, median, high]
        rows.append([*head, subset.budget, subset.n_failures, subset.origin, simulated])
    return pd.DataFrame(rows, columns=list(COVERAGE))
