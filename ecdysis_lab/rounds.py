"""What training is told, and what each of its rounds leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ecdysis_lab import llm
from ecdysis_lab.harness import Harness
from ecdysis_lab.rollout import Setup

SubsetKind = Literal["quarter", "all", "random-quarter"]


@dataclass(frozen=True)
class TrainConfig:
    """How one arm trains.

    Parameters
    ----------
    arm : name of the arm. setup : benchmark, model, user.
    start : harness to start from (name or folder).
    n_tasks : training tasks, drawn by seed; None for the whole split. seed : seed of draw, trials and picks.
    trials : trials per task in a round. rounds : most rounds.
    threshold : ``failure_threshold`` λ. disclosure : what an evidence card may tell.
    subset : ``quarter``, ``all`` or ``random-quarter``. review_model : LiteLLM name of the four roles.
    review_params : their sampling parameters. debate : K; 0 is the arm without FDCR.
    editor : registry name. embedder : name for :func:`ecdysis_lab.embed.embedder`.
    context_tokens : token budget of the FDCR context. workers : trials at a time.
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
    subset: SubsetKind = "quarter"
    review_model: str = "sim/reviewer"
    review_params: llm.ModelParams = field(default_factory=llm.ModelParams)
    debate: int = 2
    editor: str = "rules"
    embedder: str = "auto"
    context_tokens: int = 60_000
    workers: int = 1

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the training trials."""
        return tuple(self.seed * 1000 + i for i in range(self.trials))


@dataclass(frozen=True)
class RoundRecord:
    """One round as ``summary.json`` tells it.

    Parameters
    ----------
    round : from 1. failures, patterns, recurring, subset : counts.
    verdict : ``accepted``, ``rejected``, ``no_spec``, ``no_change`` or ``failed``.
    gate : the gate (or stage) that decided. reason : its sentence.
    score_before, score_after : summed training score; after is None when no rerun was needed to decide.
    gained, lost : (task#seed) that flipped. editor_calls : calls of the editor.
    harness : hash in force after the round. candidate : hash of the candidate, or an empty string.
    seconds : wall clock by phase. usage : consumption of review and editor. notes : what was left out.
    """

    round: int
    failures: int
    patterns: int
    recurring: int
    subset: int
    verdict: str
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


@dataclass(frozen=True)
class Trained:
    """Result of training: the frozen harness and the rounds that led to it."""

    harness: Harness
    rounds: tuple[RoundRecord, ...]
