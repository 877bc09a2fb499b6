"""The configuration of an experiment, validated in one place for the command line and the notebooks alike."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import Field, asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecdysis_lab.models import ModelParams, check_model
from ecdysis_lab.records import LabError
from ecdysis_lab.store.run import CHANGEABLE

if TYPE_CHECKING:
    from ecdysis_lab.harness.rollout import Setup

DOMAINS = ("airline", "retail")
ARMS = ("direct", "human", "self-evolution", "ecdysis-no-fdcr", "ecdysis")
UNTRAINED = ("direct", "human")
DEFAULT_ARMS = ("direct", "human", "ecdysis")
SUBSETS = ("quarter", "all", "random-quarter")
TEST_PROFILES = ("sim/small", "sim/medium", "sim/large")


@dataclass(frozen=True)
class ExperimentConfig:
    """Everything that decides an experiment's result, besides the code.

    Parameters
    ----------
    domain : τ²-bench domain. model : LiteLLM name of the model that is trained on.
    test_models : models to test on; empty means the default profiles, or the training model when it is a real one.
    arms : arms to compare (``ARMS``). seed : seed of task draws, trials and picks.
    train_tasks, test_tasks : tasks per split. trials : trials per task. rounds : most training rounds.
    start : harness that training starts from: ``human``, ``empty`` or a folder.
    subset : ``quarter``, ``all``, ``random-quarter`` or a ``subset.json`` that a person picked.
    debate : K of FDCR (the arm ``ecdysis-no-fdcr`` has none).
    reuse : take over results of training tasks whose replay shows the model nothing new.
    confirm : repeats, on fresh seeds, in which an accepted candidate has to rise again (not in ``self-evolution``,
        which judges an edit by its own task).
    noise_floor : A/A repeats of the start harness; with at least 2 the smallest gain that can be told is reported.
    paired : run the other models on the training tasks too, in the start harness; the accommodation ratio t needs
        them to tell a quirk of one model from a defect (``ecdysis-lab ratio RUN``).
    train_split : split to train on; only ``train``, since the test split stays untouched until the harness is frozen.
    user_model, review_model : LiteLLM names. editor : registry name. embedder : name.
    api_base : URL of an OpenAI-compatible server that every model which is not simulated is asked at, or an empty
        string. context_tokens : token budget of what the review roles read.
    threshold : ``failure_threshold`` λ. disclosure : what an evidence card may tell.
    temperature : of every model asked through ``api_base`` or a provider; ``sim`` has none.
    timeout_seconds : wall clock of one call of a model; a model on a CPU may need more for a long prompt.
    max_usd, max_tokens, max_seconds : budget, None for no limit. workers : trials at a time; 0 for all cores.
    """

    domain: str = "airline"
    model: str = "sim/small"
    test_models: tuple[str, ...] = ()
    arms: tuple[str, ...] = DEFAULT_ARMS
    seed: int = 0
    train_tasks: int = 20
    test_tasks: int = 20
    trials: int = 3
    rounds: int = 3
    start: str = "human"
    subset: str = "quarter"
    debate: int = 2
    reuse: bool = True
    confirm: int = 0
    noise_floor: int = 0
    paired: bool = False
    train_split: str = "train"
    user_model: str = "sim/user"
    review_model: str = "sim/reviewer"
    editor: str = "rules"
    embedder: str = "auto"
    context_tokens: int = 60_000
    api_base: str = ""
    temperature: float = 0.0
    timeout_seconds: float = 120.0
    threshold: float = 1.0
    disclosure: str = "checks"
    max_usd: float | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    workers: int = 0

    @property
    def benchmark(self) -> str:
        """Registry name of the benchmark."""
        return f"tau2/{self.domain}"

    @property
    def models(self) -> tuple[str, ...]:
        """Models to test on, the training model first."""
        others = self.test_models or (TEST_PROFILES if self.model.startswith("sim/") else ())
        return tuple(dict.fromkeys((self.model, *others)))

    @property
    def simulated(self) -> bool:
        """Whether any model is simulated."""
        return any(m.startswith("sim/") for m in (*self.models, self.user_model, self.review_model))

    @property
    def run_id(self) -> str:
        """Name that depends on the configuration only, so that starting it again continues it."""
        default = {f.name: f.default for f in fields(self)}
        kept = {  # without what is as it is by default, so that a new setting renames no run
            k: v for k, v in asdict(self).items() if v != default[k] and k not in CHANGEABLE
        }
        mark = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:6]
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", self.model)
        return f"{self.domain}-{slug}-seed{self.seed}-{mark}"

    @property
    def test_seeds(self) -> tuple[int, ...]:
        """Seeds of the test trials; no training trial has one of them."""
        return tuple(self.seed * 1000 + 500 + i for i in range(self.trials))

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

        params, user = self.params, self.user_model
        return Setup(self.benchmark, model, user, params(model), params(user))

    def params(self, model: str) -> ModelParams:
        """How a model is asked: the server of ``api_base`` for every model that is not simulated."""
        if model.startswith("sim/"):
            return ModelParams()
        return ModelParams(
            temperature=self.temperature,
            api_base=self.api_base or None,
            timeout_seconds=self.timeout_seconds,
        )


MOST_TRIALS = 100  # seeds of training trials; those of repeats follow
FRESH_ROOM = 400  # seeds between those of training and those of the test trials
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
CHOICES: dict[str, tuple[str, ...]] = {
    "domain": DOMAINS,
    "disclosure": ("transcript", "checks", "scenario"),
}
AT_LEAST: dict[str, float] = {
    "seed": 0,
    "train_tasks": 1,
    "test_tasks": 1,
    "trials": 1,
    "rounds": 0,
    "debate": 0,
    "confirm": 0,
    "noise_floor": 0,
    "workers": 0,
    "temperature": 0,
    "context_tokens": 2000,
    "timeout_seconds": 1,
}


def configure(**given: Any) -> ExperimentConfig:
    """A validated configuration.

    Raises
    ------
    LabError: an unknown name, a wrong type or an unknown choice; the sentence names the field and the choices.
    """
    known = {f.name: f for f in fields(ExperimentConfig)}
    for name in given:
        if name not in known:
            raise LabError(f"unknown parameter {name!r}; choose from {', '.join(known)}")
    config = ExperimentConfig(**{name: _typed(known[name], value) for name, value in given.items()})
    for name, choices in CHOICES.items():
        _one_of(name, getattr(config, name), choices)
    for arm in config.arms:
        _one_of("arm", arm, ARMS)
    if len(config.arms) == 0:
        raise LabError(f"arms: name at least one of {', '.join(ARMS)}")
    for name, least in AT_LEAST.items():
        if not getattr(config, name) >= least:  # NaN is not at least anything
            raise LabError(f"{name}: must be at least {least:g}, got {getattr(config, name)}")
    for name in ("max_usd", "max_tokens", "max_seconds"):
        limit = getattr(config, name)
        if limit is not None and not limit >= 0:
            raise LabError(f"{name}: must be at least 0, got {limit}")
    _check_training(config)
    return config


def _check_training(config: ExperimentConfig) -> None:
    """What training needs: its own split, a subset that can be read, and room between the seeds."""
    if config.train_split != "train":
        raise LabError(
            f"train_split: {config.train_split!r} is not for training; the test split stays untouched until the "
            "harness is frozen, so the only choice is train"
        )
    if not (config.subset.endswith(".json") and Path(config.subset).is_file()):
        _one_of("subset", config.subset, (*SUBSETS, "a subset.json that a person picked"))
    if config.noise_floor == 1:
        raise LabError("noise_floor: one evaluation has nothing to be compared with; give 0, or 2 and more")
    if config.trials > MOST_TRIALS:
        raise LabError(
            f"trials: must be at most {MOST_TRIALS}, which is the room for seeds, got {config.trials}"
        )
    if max(config.confirm, config.noise_floor) * config.trials > FRESH_ROOM:
        raise LabError(
            f"confirm, noise_floor: times trials must be at most {FRESH_ROOM}, which is the room for seeds"
        )


def _one_of(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise LabError(f"{name}: unknown {value!r}; choose one of {', '.join(choices)}")


def _typed(field: Field[Any], value: Any) -> Any:
    """The value in the type of the field, or LabError."""
    name, default = field.name, field.default
    if isinstance(default, tuple):
        items = value.split(",") if isinstance(value, str) else list(value)
        return tuple(str(i).strip() for i in items if str(i).strip())
    wanted: Any = type(default) if default is not None else int if "int" in str(field.type) else float
    if value is None and default is None:
        return None
    try:
        made = wanted(value)
    except (TypeError, ValueError):
        made = None
    if wanted is bool:
        made = _BOOLEANS.get(str(value).lower())
    elif isinstance(value, bool):
        made = None
    if made is None or (wanted is int and made != float(value)):
        word = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}[wanted]
        raise LabError(f"{name}: must be {word}, got {value!r}")
    return made


def check_models(config: ExperimentConfig) -> None:
    """Stop before any work when a model cannot be used.

    Raises
    ------
    LabError: unknown provider or profile, or a key that is not set (named, never shown).
    """
    for model in (*config.models, config.user_model, config.review_model):
        check_model(model, config.params(model))


def smoke(config: ExperimentConfig) -> ExperimentConfig:
    """The same experiment at its smallest: a few tasks, one trial, one round."""
    small = {"train_tasks": 4, "test_tasks": 3, "trials": 1, "rounds": 1}
    return replace(config, **{k: min(v, getattr(config, k)) for k, v in small.items()})  # type: ignore[arg-type]
