"""The settings of an experiment: one model, from which the command line, notebooks and grid files take theirs."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from ecdysis_lab.benchmarks import REGISTRY, load_benchmark
from ecdysis_lab.harness import sound_harness
from ecdysis_lab.models import HAND, ModelParams, check_model
from ecdysis_lab.records import Disclosure, LabError
from ecdysis_lab.store import CHANGEABLE
from ecdysis_lab.train.arms import ARMS, Arm, arm_of

if TYPE_CHECKING:
    from ecdysis_lab.harness import Harness
    from ecdysis_lab.harness.rollout import Setup

TEST_PROFILES = ("sim/small", "sim/medium", "sim/large")
FIRST = ("benchmark", "model", "user_model", "review_model", "arms", "seed", "max_usd")
"""Settings that people change first; the quickstart notebook shows these, and ``smoke``."""
MOST_TRIALS = 100  # seeds of training trials; those of repeats follow
FRESH_SEEDS = MOST_TRIALS  # from here on, seeds of repeats that no round has seen
FRESH_ROOM = 400  # of them; then come the seeds of the test trials


def _several(value: Any) -> Any:
    """A comma-separated text as its parts."""
    return (
        tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
    )


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"must be a number, got {value!r}")
    return value


Several = Annotated[tuple[str, ...], BeforeValidator(_several)]
Whole = Annotated[int, BeforeValidator(_no_boolean)]
Number = Annotated[float, BeforeValidator(_no_boolean)]


class Settings(BaseModel):
    """Everything that decides an experiment's result, besides the code. Each field's description is its help text."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False, protected_namespaces=())

    benchmark: str = Field("tau2/airline", description="{benchmarks} or module:factory")
    model: str = Field(
        "sim/small", description="LiteLLM name of the agent model to train on, e.g. openai/NAME"
    )
    test_models: Several = Field(
        (),
        description="comma-separated models to test on; empty: the training model and the default profiles",
    )
    arms: Several = Field(
        ("direct", "human", "ecdysis", "ecdysis-quarter"),
        description="comma-separated: {arms}",
    )
    seed: Whole = Field(0, ge=0, description="seed of task draws, trials and picks")
    train_tasks: Whole = Field(20, ge=1, description="training tasks")
    test_tasks: Whole = Field(20, ge=1, description="test tasks")
    trials: Whole = Field(3, ge=1, le=MOST_TRIALS, description="trials per task")
    rounds: Whole = Field(3, ge=0, description="most training rounds")
    start: str = Field("human", description="harness to start from: human, empty or a folder")
    subset: str = Field(
        "quarter", description="what ecdysis-quarter reads: quarter, or a subset.json that was picked"
    )
    debate: Whole = Field(2, ge=0, description="K: how often Analyst, Critic and Engineer speak")
    reuse: bool = Field(
        True, description="take over results of training tasks that the edit cannot have changed"
    )
    confirm: Whole | None = Field(
        None,
        ge=0,
        description="repeats on fresh seeds that an edit has to pass; None: 1, or 0 with sim models",
    )
    noise_floor: Whole = Field(
        0,
        ge=0,
        description="A/A repeats of the start harness (2 or more): the smallest gain that can be told",
    )
    paired: bool = Field(
        False,
        description="run the other models on the training tasks too, which the accommodation ratio needs",
    )
    user_model: str = Field("sim/user", description="LiteLLM name of the simulated user")
    review_model: str = Field(
        "sim/reviewer", description="LiteLLM name for the review roles; hand: answers in files"
    )
    editor: str = Field(
        "auto",
        description="auto (rules with a simulated review, else a model), rules, litellm, opencode or hand",
    )
    embedder: str = Field("auto", description="auto, minilm, tfidf or a sentence-transformers name")
    # Fifteen whole trials of GPT-4o beside the largest shipped harness need 62,000; with the debate and an answer that
    # stays inside a window of 128,000.
    context_tokens: Whole = Field(
        80_000, ge=2000, description="token budget of what the review roles read, and of an editor's prompt"
    )
    api_base: str = Field(
        "", description="URL of an OpenAI-compatible server for models that are not simulated"
    )
    temperature: Number = Field(0.0, ge=0, description="of agent and user models that are not simulated")
    timeout_seconds: Number = Field(
        120.0, ge=1, description="wall clock of one model call; a model on a CPU may need more"
    )
    review_timeout_seconds: Number = Field(
        600.0,
        ge=1,
        description="wall clock of one call of a review role, and of the editor litellm",
    )
    threshold: Number = Field(
        1.0, gt=0, le=1, description="failure_threshold λ: a score below it is a failure"
    )
    disclosure: Disclosure = Field(
        "checks", description="what an evidence card may tell: transcript, checks or scenario"
    )
    max_usd: Number | None = Field(None, ge=0, description="budget in USD; None: no limit")
    max_tokens: Whole | None = Field(None, ge=0, description="budget in tokens; None: no limit")
    max_seconds: Number | None = Field(None, ge=0, description="budget in seconds; None: no limit")
    workers: Whole = Field(0, ge=0, description="trials at a time; 0: all cores")

    @field_validator("benchmark")
    @classmethod
    def _known_benchmark(cls, name: str) -> str:
        if name not in REGISTRY and ":" not in name:
            raise ValueError(f"unknown {name!r}; choose one of {', '.join(REGISTRY)} or give module:factory")
        return name

    @field_validator("arms")
    @classmethod
    def _known_arms(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names:
            raise ValueError(f"name at least one of {', '.join(ARMS)}")
        for name in names:
            arm_of(name)
        return names

    @field_validator("subset")
    @classmethod
    def _known_subset(cls, name: str) -> str:
        if name != "quarter" and not (name.endswith(".json") and Path(name).is_file()):
            raise ValueError(
                f"unknown {name!r}; give quarter, or a subset.json that a person picked "
                "(all failures and a random quarter are arms)"
            )
        return name

    @field_validator("model", "user_model", "test_models")
    @classmethod
    def _not_by_hand(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if HAND in ((value,) if isinstance(value, str) else value):
            raise ValueError(f"{HAND!r} plays review roles and the editor only; name a model")
        return value

    @model_validator(mode="after")
    def _room_between_seeds(self) -> Settings:
        if self.noise_floor == 1:
            raise ValueError(
                "noise_floor: one evaluation has nothing to be compared with; give 0, or 2 and more"
            )
        seeds = (self.rounds * self.repeats_room + self.noise_floor) * self.trials
        if seeds > FRESH_ROOM:
            raise ValueError(
                "rounds, confirm, noise_floor, trials: (rounds x confirm, at least 1, + noise_floor) x trials must be "
                f"at most {FRESH_ROOM}, the room for fresh seeds, got {seeds}"
            )
        return self

    def but(self, **changed: Any) -> Settings:
        """The same settings with some changed, validated again."""
        return configure(**{**self.model_dump(), **changed})

    @property
    def models(self) -> tuple[str, ...]:
        """Models to test on, the training model first."""
        others = self.test_models or (TEST_PROFILES if self.model.startswith("sim/") else ())
        return tuple(dict.fromkeys((self.model, *others)))

    @property
    def simulated(self) -> bool:
        """Whether any model that plays is simulated; the user's counts where the benchmark has one."""
        user = self.user_model if load_benchmark(self.benchmark).user == "model" else ""
        return any(m.startswith("sim/") for m in (*self.models, user, self.review_model))

    @property
    def run_id(self) -> str:
        """Name that depends on the settings only, so that starting them again continues the run."""
        kept = {  # without what is as it is by default, so that a new setting renames no run
            name: value
            for name, value in self.model_dump().items()
            if value != type(self).model_fields[name].default and name not in CHANGEABLE
        }
        mark = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:6]
        return f"{slug(self.benchmark)}-{slug(self.model)}-seed{self.seed}-{mark}"

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the training trials."""
        return tuple(self.seed * 1000 + i for i in range(self.trials))

    @property
    def repeats(self) -> int:
        """How often an accepted candidate has to rise again on fresh seeds."""
        return int(not self.model.startswith("sim/")) if self.confirm is None else self.confirm

    @property
    def repeats_room(self) -> int:
        """Fresh repeats that belong to one round: one even where none is asked for, which auxiliary evidence needs."""
        return max(self.repeats, 1)

    def fresh_seeds(self, repeat: int) -> tuple[int, ...]:
        """Seeds of a repeated evaluation, from 0 on. Each round confirms on repeats of its own, since a harness that
        was accepted on some seeds looks better on them than it is.
        """
        first = self.seed * 1000 + FRESH_SEEDS + repeat * self.trials
        return tuple(range(first, first + self.trials))

    def of_arm(self, arm: Arm) -> Settings:
        """These settings as an arm trains with them: its row in the table may fix the debate."""
        return self if arm.debate is None else self.but(debate=arm.debate)

    @property
    def test_seeds(self) -> tuple[int, ...]:
        """Seeds of the test trials; no training trial has one of them."""
        return tuple(self.seed * 1000 + FRESH_SEEDS + FRESH_ROOM + i for i in range(self.trials))

    @property
    def at_a_time(self) -> int:
        """Trials at a time."""
        return self.workers or os.cpu_count() or 1

    @property
    def limits(self) -> tuple[float | None, int | None, float | None]:
        """What the run may consume at most: USD, tokens, seconds."""
        return self.max_usd, self.max_tokens, self.max_seconds

    def setup(self, model: str) -> Setup:
        """Rollout setup for a model."""
        from ecdysis_lab.harness.rollout import Setup

        return Setup(self.benchmark, model, self.user_model, self.params(model), self.params(self.user_model))

    def params(self, model: str) -> ModelParams:
        """How a model is asked: the server of ``api_base`` for every model that is not simulated."""
        if model.startswith("sim/"):
            return ModelParams()
        return ModelParams(
            temperature=self.temperature,
            api_base=self.api_base or None,
            timeout_seconds=self.timeout_seconds,
        )

    @property
    def review_params(self) -> ModelParams:
        """How a review role and the editor are asked: at temperature 0, with a time limit of their own."""
        own = self.params(self.review_model)
        return replace(own, temperature=0.0, timeout_seconds=self.review_timeout_seconds)

    def harness(self, name: str) -> Harness:
        """A harness by name, see :func:`harness_of`."""
        return harness_of(self.benchmark, name)


def harness_of(benchmark: str, name: str) -> Harness:
    """A harness by the name that settings and arms give it: a shipped one, a folder, or ``human``.

    Parameters
    ----------
    benchmark : whose harness ``human`` means. name : of the harness.

    Raises
    ------
    LabError: there is no such harness, it breaks the static policy, or the benchmark has none by hand.
    """
    if name == "human":
        name = load_benchmark(benchmark).human
        if not name:
            raise LabError(f"harness: benchmark {benchmark!r} has none by hand; start from empty")
    return sound_harness(name)


def slug(name: str) -> str:
    """A name as a part of a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def help_of(name: str) -> str:
    """Help text of a setting, with the benchmarks and arms that are registered now."""
    text = Settings.model_fields[name].description or ""
    return text.format(arms=", ".join(ARMS), benchmarks=", ".join(REGISTRY))


def configure(**given: Any) -> Settings:
    """Validated settings.

    Raises
    ------
    LabError: an unknown name, a wrong type or an unknown choice; the sentence names the field and the choices.
    """
    try:
        return Settings(**given)
    except ValidationError as wrong:
        raise LabError(sentence(wrong.errors()[0], Settings)) from None


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "dict": "a mapping of names to values",
}


def sentence(error: Any, model: type[BaseModel]) -> str:
    """What pydantic found first, as one sentence that names the field and the choices.

    Parameters
    ----------
    error : an entry of ``ValidationError.errors()``. model : whose fields are the choices of an unknown name.
    """
    name, kind = ".".join(map(str, error["loc"])), error["type"]
    value, limits = error["input"], error.get("ctx", {})
    if kind == "extra_forbidden":
        word = "parameter" if model is Settings else "field"
        return f"unknown {word} {name!r}; choose from {', '.join(model.model_fields)}"
    if kind == "value_error":
        return f"{name}: {limits['error']}" if name else str(limits["error"])
    if kind == "literal_error":
        return f"{name}: unknown {value!r}; choose one of {limits['expected'].replace(chr(39), '')}"
    if kind == "string_pattern_mismatch":
        return f"{name}: use letters, digits, '.', '_' and '-', got {value!r}"
    if kind == "missing":
        return f"{name}: is missing"
    for bound, words in (("ge", "at least"), ("gt", "more than"), ("le", "at most")):
        if bound in limits:
            return f"{name}: must be {words} {limits[bound]:g}, got {value}"
    if "min_length" in limits:
        return f"{name}: must not be empty"
    word = _KINDS.get(kind.partition("_")[0], error["msg"])
    return f"{name}{':' if name else ''} must be {word}, got {value!r}"


def check_models(settings: Settings) -> None:
    """Stop before any work when a model cannot be used.

    Raises
    ------
    LabError: unknown provider or profile, or a key that is not set (named, never shown).
    """
    for model in (*settings.models, settings.user_model, settings.review_model):
        check_model(model, settings.params(model))


def check_parts(settings: Settings) -> None:
    """Stop before any work when a part of the settings does not exist.

    Raises
    ------
    LabError: an unknown editor, benchmark or start harness; the choices are listed.
    """
    from ecdysis_lab.review import editors

    editors.for_run(settings.editor, settings.review_model, settings.api_base or None)
    settings.harness(settings.start)


def editor_of(settings: Settings, recorded: Mapping[str, Any] | None) -> str:
    """The name of a run's editor: ``auto`` is what the run was started with, or else what it stands for here.

    Parameters
    ----------
    settings : of the run. recorded : the run's config, None before it is written.
    """
    from ecdysis_lab.review import editors

    name = (recorded or {}).get("editor", "auto") if settings.editor == "auto" else settings.editor
    return editors.chosen(name, settings.review_model, settings.params(settings.review_model).api_base)


def fitted(settings: Settings) -> tuple[Settings, tuple[str, ...]]:
    """Settings that a small benchmark can keep, and what was changed for it, as sentences.

    Only what stands at its default gives way: 20 tasks where a split has fewer, the harness by hand and its arm where
    there is none. What was chosen otherwise is left to be refused.
    """
    bench = load_benchmark(settings.benchmark)
    changed: dict[str, Any] = {}
    notes: list[str] = []
    for name in ("train_tasks", "test_tasks"):
        there, default = len(bench.tasks(name.partition("_")[0])), Settings.model_fields[name].default
        if there < getattr(settings, name) == default:
            changed[name] = there
            notes.append(f"{name}: all {there} that {settings.benchmark} has")
    if not bench.human and settings.start == Settings.model_fields["start"].default:
        changed["start"] = "empty"
        notes.append(f"start: empty, since {settings.benchmark} has no harness by hand")
    if not bench.human and settings.arms == Settings.model_fields["arms"].default:
        changed["arms"] = tuple(a for a in settings.arms if ARMS[a].harness != "human")
        notes.append(f"arms: {', '.join(changed['arms'])}, for the same reason")
    return settings.but(**changed) if changed else settings, tuple(notes)


def smoke(settings: Settings) -> Settings:
    """The same experiment at its smallest: a few tasks, one trial, one round."""
    small = {"train_tasks": 4, "test_tasks": 3, "trials": 1, "rounds": 1}
    return settings.but(**{name: min(value, getattr(settings, name)) for name, value in small.items()})
