"""What training is told, and what each of its rounds leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ecdysis_lab.harness.rollout import Setup
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.models import ModelParams
from ecdysis_lab.records import Trajectory, Usage
from ecdysis_lab.store.billing import consumption

Method = Literal["round", "one-by-one"]
FRESH_SEEDS = 100  # from here on, seeds of repeats that no round has seen; test seeds begin at 500


@dataclass(frozen=True)
class TrainConfig:
    """How one arm trains.

    Parameters
    ----------
    arm : name of the arm. setup : benchmark, model, user.
    method : ``round`` (Ecdysis: one review and one edit a round) or ``one-by-one`` (every failure alone to the
        editor, each edit verified on its own task: how harnesses evolve without Ecdysis).
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
    method: Method = "round"
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
class RoundRecord:
    """One round as ``summary.json`` tells it.

    Parameters
    ----------
    round : from 1. failures, patterns, recurring, subset : counts.
    decision : ``accepted``, ``rejected``, ``no_spec``, ``no_change`` or ``failed``.
    gate : the gate (or stage) that decided. reason : its sentence.
    score_before, score_after : summed training score; after is None when no rerun was needed to decide.
    gained, lost : (task#seed) that flipped. editor_calls : calls of the editor.
    harness : hash in force after the round. candidate : hash of the candidate, or an empty string.
    seconds : wall clock by phase. usage : consumption of review and editor. notes : what was left out.
    parent : hash in force before the round. candidates : hashes of all candidates that were run.
    """

    round: int
    failures: int
    patterns: int
    recurring: int
    subset: int
    decision: str
    gate: str
    reason: str
    score_before: float
    score_after: float | None
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    editor_calls: int
    harness: str
    candidate: str
    seconds: dict[str, float]
    usage: dict[str, Any]
    notes: tuple[str, ...] = ()
    parent: str = ""
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trained:
    """Result of training: the frozen harness and the rounds that led to it."""

    harness: Harness
    rounds: tuple[RoundRecord, ...]


def of_rounds(rounds: Sequence[RoundRecord]) -> Usage:
    """Consumption of reviews and editors."""
    return sum((Usage(**r.usage) for r in rounds), Usage())


def training_block(
    rounds: Sequence[RoundRecord], trials: Sequence[Trajectory], own: set[str], n_tasks: int, n_trials: int
) -> dict[str, Any]:
    """What ``summary.json`` says about the training of one arm.

    Parameters
    ----------
    rounds : its records. trials : all it rests on. own : keys of those that the run paid for.
    n_tasks, n_trials : training tasks, and trials of one evaluation.
    """
    usage = consumption(trials) + of_rounds(rounds)
    paid = consumption(t for t in trials if t.key in own) + of_rounds(rounds)
    phases: dict[str, float] = {}
    for r in rounds:
        for phase, seconds in r.seconds.items():
            phases[phase] = round(phases.get(phase, 0.0) + seconds, 3)
    return {
        "rounds": [asdict(r) for r in rounds],
        "n_tasks": n_tasks,
        "n_trials": n_trials,
        "phase_seconds": phases,
        "wall_seconds": round(sum(phases.values()), 1),
        "editor_calls": sum(r.editor_calls for r in rounds),
        "model_calls": usage.calls,
        "cost_usd": usage.cost_usd,
        "billed_usd": paid.cost_usd,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
    }
