"""What training is told, and what it led to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ecdysis_lab.harness.rollout import Setup
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.models import ModelParams
from ecdysis_lab.records import RoundRecord, Usage
from ecdysis_lab.store import Run, Store
from ecdysis_lab.store.billing import billed, consumption, trials_of
from ecdysis_lab.train.arms import Arm, arm_of

FRESH_SEEDS = 100  # from here on, seeds of repeats that no round has seen; test seeds begin at 500


@dataclass(frozen=True)
class TrainConfig:
    """How one arm trains.

    Parameters
    ----------
    arm : name of the arm; its row says what an edit answers and which gates it has to pass.
    setup : benchmark, model, user.
    start : harness to start from (name or folder).
    n_tasks : training tasks, drawn by seed; None for the whole split. seed : seed of draw, trials and picks.
    trials : trials per task in a round. rounds : most rounds.
    threshold : ``failure_threshold`` λ. disclosure : what an evidence card may tell.
    subset : ``quarter``, ``all``, ``random-quarter``, or a ``subset.json`` that a person picked (its trials count
        in the rounds that have them; other rounds take the quarter). review_model : LiteLLM name of the roles.
    review_params : their sampling parameters. debate : K; 0 is the arm without FDCR.
    editor : registry name. embedder : name for :func:`ecdysis_lab.failures.embedding.embedder`.
    context_tokens : token budget of the FDCR context. workers : trials at a time.
    reuse : take over results of tasks whose replay shows the model nothing new.
    confirm : how often an accepted candidate has to rise once more, on seeds that no round has seen.
    """

    arm: str
    setup: Setup
    start: str = "empty"
    n_tasks: int | None = 20
    seed: int = 0
    trials: int = 3
    rounds: int = 3
    threshold: float = 1.0
    disclosure: Literal["transcript", "checks", "scenario"] = "checks"
    subset: str = "quarter"
    review_model: str = "sim/reviewer"
    review_params: ModelParams = field(default_factory=ModelParams)
    debate: int = 2
    editor: str = "rules"
    embedder: str = "auto"
    context_tokens: int = 60_000
    workers: int = 1
    reuse: bool = True
    confirm: int = 0

    @property
    def row(self) -> Arm:
        """The arm's row in the table of arms."""
        return arm_of(self.arm, trains=True)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the training trials."""
        return tuple(self.seed * 1000 + i for i in range(self.trials))

    def fresh_seeds(self, repeat: int) -> tuple[int, ...]:
        """Seeds of a repeated evaluation, from 0 on. Each round confirms on repeats of its own, since a harness that
        was accepted on some seeds looks better on them than it is.
        """
        first = self.seed * 1000 + FRESH_SEEDS + repeat * self.trials
        return tuple(range(first, first + self.trials))


@dataclass(frozen=True)
class Trained:
    """Result of training: the frozen harness and the rounds that led to it."""

    harness: Harness
    rounds: tuple[RoundRecord, ...]


def of_rounds(rounds: Sequence[RoundRecord]) -> Usage:
    """Consumption of reviews and editors."""
    return sum((r.usage for r in rounds), Usage())


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
