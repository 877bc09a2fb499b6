"""Reads evaluated runs back: scores and training of runs that differ in their seed only, and a round's evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ecdysis_lab.evaluate.scores import read_scores
from ecdysis_lab.evaluate.summaries import summarise
from ecdysis_lab.records import Failure, LabError, Patterns, Subset
from ecdysis_lab.store import Run

if TYPE_CHECKING:
    import pandas as pd

Summary = Mapping[str, Any]
ROUND = ("arm", "round", "failures", "patterns", "recurring", "subset", "decision", "gate", "score_before",
         "score_after", "gained", "lost", "editor_calls")  # fmt: skip
SIZE = ("n_tasks", "n_trials")


@dataclass(frozen=True)
class Results:
    """Evaluated runs that differ in their seed only, as one; often a single run.

    Parameters
    ----------
    runs, summaries : folders and contents of ``summary.json``, by seed. scores : their long tables as one.
    by_arm : :func:`ecdysis_lab.evaluate.summaries.summarise` of it.
    training : arm -> block of the summary, with n_rounds, n_accepted and editor_calls; numbers are means over the runs
        that trained the arm.
    """

    runs: tuple[Run, ...]
    summaries: tuple[Summary, ...]
    scores: pd.DataFrame
    by_arm: pd.DataFrame
    training: dict[str, dict[str, Any]]

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return str(self.summaries[0]["benchmark"])

    @property
    def train_model(self) -> str:
        """The model that the arms were trained on."""
        return str(self.summaries[0]["train_model"])

    @property
    def seeds(self) -> list[int]:
        """Seeds of the runs, rising."""
        return [int(s["seed"]) for s in self.summaries]

    @property
    def name(self) -> str:
        """``run r1``, or how many runs."""
        return f"run {self.summaries[0]['run_id']}" if len(self.runs) == 1 else f"{len(self.runs)} runs"


def pooled(runs: Sequence[Run], n_boot: int = 2000) -> list[Results]:
    """Results of evaluated runs, one per benchmark and training model.

    Parameters
    ----------
    runs : evaluated runs. n_boot : bootstrap resamples; its seed is the lowest of the runs, so that one run alone has
        the intervals of its summary.

    Raises
    ------
    LabError: no run, a run twice, two runs of one seed, or a run without its table of scores.
    """
    groups: dict[tuple[str, str], list[tuple[Run, Summary]]] = {}
    for run in runs:
        summary = run.read_json("summary.json")
        groups.setdefault((summary["benchmark"], summary["train_model"]), []).append((run, summary))
    if not groups:
        raise LabError("no run to pool")
    return [_pool(sorted(group, key=lambda part: int(part[1]["seed"])), n_boot) for group in groups.values()]


def _pool(parts: Sequence[tuple[Run, Summary]], n_boot: int) -> Results:
    import pandas as pd

    runs, summaries = (tuple(column) for column in zip(*parts))
    _refuse_repeats(summaries)
    table = pd.concat([read_scores(run) for run in runs], ignore_index=True)
    blocks: dict[str, list[Mapping[str, Any]]] = {}
    for summary in summaries:
        for arm, block in summary["training"].items():
            blocks.setdefault(arm, []).append(block)
    training = {arm: _mean_training(own) for arm, own in blocks.items()}
    by_arm = summarise(table, int(summaries[0]["seed"]), n_boot)
    return Results(runs, summaries, table, by_arm, training)


def _refuse_repeats(summaries: Sequence[Summary]) -> None:
    first, ids = summaries[0], [str(s["run_id"]) for s in summaries]
    for what, values in (("run", ids), ("seed", [str(s["seed"]) for s in summaries])):
        twice = [v for v in values if values.count(v) > 1]
        if twice:
            raise LabError(
                f"{what} {twice[0]} occurs {values.count(twice[0])} times for {first['benchmark']} trained on "
                f"{first['train_model']} (runs {', '.join(ids)}); pool runs that differ in their seed only"
            )


def _mean_training(blocks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Training of one arm as means over runs, None where any is unknown; the rounds are those of the first run."""
    import pandas as pd

    names = ("wall_seconds", "cost_usd", "billed_usd", "prompt_tokens", "completion_tokens")
    rows = [{name: block.get(name) for name in names} | _counts(block["rounds"]) for block in blocks]
    means = pd.DataFrame(rows, dtype="float64").mean(skipna=False)
    phases = pd.DataFrame([block["phase_seconds"] for block in blocks]).fillna(0.0).mean()
    known = {name: None if mean != mean else mean for name, mean in means.items()}
    return {**blocks[0], **known, "phase_seconds": phases.to_dict()}


def _counts(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "n_rounds": len(rounds),
        "n_accepted": sum(r["decision"] == "accepted" for r in rounds),
        "editor_calls": sum(r["editor_calls"] for r in rounds),
    }


def rounds_frame(training: Mapping[str, Mapping[str, Any]], simulated: bool = False) -> pd.DataFrame:
    """The rounds of a run, one row per arm and round.

    Parameters
    ----------
    training : arm -> its block of ``summary.json``, or at least its ``rounds``. simulated : whether any model is.

    Returns
    -------
    DataFrame with columns arm, round, failures, patterns, recurring, subset, decision, gate, score_before,
    score_after, gained, lost, editor_calls, simulated. ``gained`` and ``lost`` are counts of trials (task and seed);
    ``score_after`` is missing where the rerun was not reached. ``n_tasks`` and ``n_trials`` of the training rollout
    follow where every block states them.
    """
    import pandas as pd

    rows = []
    for arm, block in training.items():
        for record, after in zip(block["rounds"], _scores_after(block["rounds"])):
            flips = {side: len(record[side]) for side in ("gained", "lost")}
            size = {name: block.get(name) for name in SIZE}
            rows.append({**record, **flips, **size, "arm": arm, "score_after": after})
    frame = pd.DataFrame(rows, columns=[*ROUND, *SIZE]).astype({"score_after": "float64"})
    return drop_unsized(frame).assign(simulated=simulated)


def drop_unsized(frame: pd.DataFrame) -> pd.DataFrame:
    """A table without ``n_tasks`` and ``n_trials`` unless every row has them."""
    return frame if frame[list(SIZE)].notna().all(axis=None) else frame.drop(columns=list(SIZE))


def _scores_after(rounds: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """Training score after each round, None where no rerun was reached.

    Where edits are accepted one by one, each on its own task, no sum is taken at the time; it is then the score that
    the next round starts from, or else follows from the flips.
    """
    found: list[float | None] = []
    for n, r in enumerate(rounds):
        after = r["score_after"]
        if after is None and r["decision"] == "accepted":
            known = n + 1 < len(rounds)
            flips = len(r["gained"]) - len(r["lost"])
            after = float(rounds[n + 1]["score_before"] if known else r["score_before"] + flips)
        found.append(after)
    return found


def arm_with_patterns(run: Run, summary: Mapping[str, Any]) -> str | None:
    """The first arm whose first round grouped failures; ``self-evolution`` groups none."""
    for arm, training in summary["training"].items():
        if any(r["failures"] for r in training["rounds"][:1]) and run.round(arm, 1).patterns:
            return str(arm)
    return None


def round_evidence(run: Run, arm: str, n: int = 1) -> tuple[tuple[Failure, ...], Patterns, Subset]:
    """Failures (without trajectories), patterns and subset of a training round.

    Raises
    ------
    LabError: the run has no such round.
    """
    return run.round(arm, n).evidence()
