"""What training led to, and what ``summary.json`` says of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ecdysis_lab.harness.source import Harness
from ecdysis_lab.models import open_budget
from ecdysis_lab.records import RoundRecord, Trajectory, Usage
from ecdysis_lab.store import Run, Store
from ecdysis_lab.store.billing import billed, consumption, trials_of


@dataclass(frozen=True)
class Trained:
    """Result of training: the frozen harness and the rounds that led to it."""

    harness: Harness
    rounds: tuple[RoundRecord, ...]


def summed(trajectories: Iterable[Trajectory]) -> float:
    """Summed score of what was scored; a trial that the user spoiled has none."""
    return sum(t.score for t in trajectories if t.score is not None)


def of_rounds(rounds: Sequence[RoundRecord]) -> Usage:
    """Consumption of reviews and editors."""
    return sum((r.usage for r in rounds), Usage())


def left_of(run: Run, arm: str) -> dict[str, Any]:
    """What was not spent of a budget: rounds of an arm, ``tokens`` and ``usd`` of the whole run; each if limited."""
    config = run.config or {}
    left: dict[str, Any] = {}
    if "rounds" in config:
        left["rounds"] = config["rounds"] - sum(bool(r.record) for r in run.rounds(arm))
    limits = config.get("max_usd"), config.get("max_tokens"), config.get("max_seconds")
    budget = open_budget(run, limits)
    spent = budget.spent if budget else Usage()
    if limits[1] is not None:
        left["tokens"] = max(0, limits[1] - spent.prompt_tokens - spent.completion_tokens)
    if limits[0] is not None:
        left["usd"] = None if spent.cost_usd is None else max(0.0, limits[0] - spent.cost_usd)
    return left


def training_block(run: Run, store: Store, arm: str) -> dict[str, Any]:
    """What ``summary.json`` says about the training of one arm; empty where it has no finished round.

    Parameters
    ----------
    run : its records, its config, and the keys of the trials it rests on and of those it paid for. store : its trials.
    """
    rounds = [record for each in run.rounds(arm) if (record := each.record)]
    if not rounds:
        return {}
    config, own, trials = run.config or {}, billed(run).keys, trials_of(run, store, arm)
    usage = consumption(trials) + of_rounds(rounds)
    paid = consumption(t for t in trials if t.key in own) + of_rounds(rounds)
    phases: dict[str, float] = {}
    for r in rounds:
        for phase, seconds in r.seconds.items():
            phases[phase] = round(phases.get(phase, 0.0) + seconds, 3)
    return {
        "rounds": [asdict(r) for r in rounds],
        "ended": rounds[-1].ended,
        "left": left_of(run, arm),
        "n_tasks": config["train_tasks"],
        "n_trials": config["train_tasks"] * config["trials"],
        "phase_seconds": phases,
        "wall_seconds": round(sum(phases.values()), 1),
        "editor_calls": sum(r.editor_calls for r in rounds),
        "model_calls": usage.calls,
        "cost_usd": usage.cost_usd,
        "billed_usd": paid.cost_usd,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
    }
