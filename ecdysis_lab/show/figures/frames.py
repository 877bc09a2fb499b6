"""The tables behind the figures, from the long table of scores and from records. Shares are in [0, 1]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecdysis_lab.evaluate.results import SIZE, drop_unsized
from ecdysis_lab.evaluate.scores import SET
from ecdysis_lab.records import Failure, LabError, Patterns, Subset
from ecdysis_lab.train.arms import ARMS, BASELINE

if TYPE_CHECKING:
    import pandas as pd

PUBLISHED = Path(__file__).resolve().parents[3] / "data" / "reference"
METRICS = ("accuracy", "pass@3", "pass^3")
RANDOM = ("random_low", "random_median", "random_high")


def transfer_frame(by_arm: pd.DataFrame) -> pd.DataFrame:
    """Gain of each arm over ``direct`` on each model.

    Parameters
    ----------
    by_arm : as :func:`ecdysis_lab.evaluate.summaries.summarise` makes it.

    Returns
    -------
    DataFrame with its columns and baseline (accuracy of ``direct``), gain, trained_on (whether the harness was trained
    on the model).

    Raises
    ------
    LabError: the table holds no arm ``direct`` to compare with.
    """
    on = [*SET, "model"]
    base = by_arm.loc[by_arm["arm"] == BASELINE, [*on, "accuracy"]].rename(columns={"accuracy": "baseline"})
    if base.empty:
        arms = ", ".join(by_arm["arm"].unique())
        raise LabError(f"transfer compares with arm {BASELINE!r}; the table has {arms}")
    frame = by_arm[by_arm["arm"] != BASELINE].merge(base, on=on)
    return frame.assign(
        gain=frame["accuracy"] - frame["baseline"], trained_on=frame["model"] == frame["train_model"]
    )


def cost_frame(by_arm: pd.DataFrame, training: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Accuracy beside what training the arm's harness took.

    Parameters
    ----------
    by_arm : as :func:`ecdysis_lab.evaluate.summaries.summarise` makes it. training : arm -> block of the summary.

    Returns
    -------
    DataFrame with its columns and training_cost_usd, training_tokens, training_wall_seconds. An arm that does not train
    costs 0; an unknown price stays missing, and so does the cost of an arm without a block.
    """
    untrained = {arm.name for arm in ARMS.values() if not arm.trains}
    frame = by_arm.copy()
    for column, read in (
        ("training_cost_usd", lambda t: t.get("cost_usd")),
        ("training_tokens", training_tokens),
        ("training_wall_seconds", lambda t: t.get("wall_seconds")),
    ):
        value = {arm: 0.0 if arm in untrained else read(training.get(arm) or {}) for arm in by_arm["arm"]}
        frame[column] = frame["arm"].map(value).astype("float64")
    return frame


def training_tokens(block: Mapping[str, Any]) -> float | None:
    """Tokens that the training of an arm took, read and written; None where a block does not say."""
    read, written = block.get("prompt_tokens"), block.get("completion_tokens")
    return None if read is None or written is None else float(read + written)


def phases_frame(training: Mapping[str, Mapping[str, Any]], simulated: bool = False) -> pd.DataFrame:
    """Wall clock by phase of each arm's training.

    Parameters
    ----------
    training : arm -> block of the summary, with ``phase_seconds`` (phase -> seconds). simulated : whether any model is.

    Returns
    -------
    DataFrame with columns arm, phase, seconds, simulated, and n_tasks, n_trials where every block states them.
    """
    import pandas as pd

    rows = [
        {"arm": arm, "phase": phase, "seconds": seconds, **{name: block.get(name) for name in SIZE}}
        for arm, block in training.items()
        for phase, seconds in block["phase_seconds"].items()
    ]
    frame = pd.DataFrame(rows, columns=["arm", "phase", "seconds", *SIZE])
    return drop_unsized(frame).assign(simulated=simulated)


def published_frame(folder: Path = PUBLISHED) -> pd.DataFrame:
    """Published results of the paper by arm, from ``data/reference/arms.csv``.

    Returns
    -------
    DataFrame with columns arm, metric (``accuracy``, ``pass@3``, ``pass^3``), value, source.

    Raises
    ------
    LabError: the file is not there.
    """
    import pandas as pd

    path = folder / "arms.csv"
    if not path.is_file():
        raise LabError(
            f"published figures are read from arms.csv in the reference folder; not found in {folder}"
        )
    frame = pd.read_csv(path)
    scope = frame["models"].astype(str) + " models, " + frame["task_sets"].str.replace("+", " and ")
    frame = frame.assign(value=frame["value_percent"] / 100, source=frame["source"] + ": " + scope)
    return frame[["arm", "metric", "value", "source"]]


def measured_frame(by_arm: pd.DataFrame, source: str) -> pd.DataFrame:
    """Measured means over models, in the shape of ``published_frame``.

    Parameters
    ----------
    by_arm : as :func:`ecdysis_lab.evaluate.summaries.summarise` makes it. The means over models are averaged over its
        sets (a benchmark and a training model), where there are several.
    source : of a single set, e.g. ``"run r1"``.

    Returns
    -------
    DataFrame with columns arm, metric, value, n_models, n_tasks, n_trials, n_seeds, simulated, source. A metric that is
    missing for any model, or for an arm in any set, is left out.
    """
    sizes = {name: (name, "max") for name in ("n_tasks", "n_trials", "n_seeds")} | {
        "simulated": ("simulated", "any")
    }
    long = by_arm.melt([*SET, "arm", "model", *sizes], METRICS, "metric")
    each = long.groupby([*SET, "arm", "metric"], sort=False)
    each = each.agg(value=("value", _mean_of_all), n_models=("model", "size"), **sizes).dropna()
    means = each.groupby(["arm", "metric"], sort=False)
    found = means.agg(value=("value", "mean"), sets=("value", "size"), n_models=("n_models", "max"), **sizes)
    sets = by_arm[SET].drop_duplicates()
    if len(sets) > 1:
        names = ", ".join(dict.fromkeys(sets["benchmark"].str.rpartition("/")[2]))
        source = f"{len(sets)} sets ({names})"
    return found[found["sets"] == len(sets)].drop(columns="sets").reset_index().assign(source=source)


def _mean_of_all(values: pd.Series) -> float:
    return float(values.mean(skipna=False))


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

    nothing = (None, None, None)
    rows = [
        {
            "pick": i + 1,
            "key": pick.key,
            "gain": pick.gain,
            "reason": pick.reason,
            "coverage": subset.coverage[i] if i < len(subset.coverage) else None,
            **dict(zip(RANDOM, subset.random_band[i] if i < len(subset.random_band) else nothing)),
        }
        for i, pick in enumerate(subset.picks)
    ]
    frame = pd.DataFrame(rows, columns=["pick", "key", "gain", "reason", "coverage", *RANDOM])
    about = {"budget": subset.budget, "n_failures": subset.n_failures, "origin": subset.origin}
    return frame.assign(**about, simulated=simulated)
