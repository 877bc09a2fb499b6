"""One experiment: train the arms, freeze them, test them on several models, and write ``summary.json``.

The configuration is validated in one place, :func:`configure`, for the command line and the notebooks alike.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ecdysis_lab import llm
from ecdysis_lab.records import LabError, Progress, Trajectory, Usage

DOMAINS = ("airline", "retail")
ARMS = ("direct", "human", "ecdysis")
SUBSETS = ("quarter", "all", "random-quarter")
TEST_PROFILES = ("sim/small", "sim/medium", "sim/large")


@dataclass(frozen=True)
class ExperimentConfig:
    """Everything that decides an experiment's result, besides the code.

    Parameters
    ----------
    domain : τ²-bench domain. model : LiteLLM name of the model that is trained on.
    test_models : models to test on; empty means the default profiles, or the training model when it is a real one.
    arms : arms to compare. seed : seed of task draws, trials and picks.
    train_tasks, test_tasks : tasks per split. trials : trials per task. rounds : most training rounds.
    start : harness that training starts from: ``human``, ``empty`` or a folder.
    subset : ``quarter``, ``all`` or ``random-quarter``. debate : K of FDCR.
    user_model, review_model : LiteLLM names. editor : registry name. embedder : name.
    api_base : URL of an OpenAI-compatible server for the agent model, or an empty string.
    threshold : ``failure_threshold`` λ. disclosure : what an evidence card may tell.
    max_usd, max_tokens, max_seconds : budget, None for no limit. workers : trials at a time; 0 for all cores.
    """

    domain: str = "airline"
    model: str = "sim/small"
    test_models: tuple[str, ...] = ()
    arms: tuple[str, ...] = ARMS
    seed: int = 0
    train_tasks: int = 20
    test_tasks: int = 20
    trials: int = 3
    rounds: int = 3
    start: str = "human"
    subset: str = "quarter"
    debate: int = 2
    user_model: str = "sim/user"
    review_model: str = "sim/reviewer"
    editor: str = "rules"
    embedder: str = "auto"
    api_base: str = ""
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
        kept = {k: v for k, v in asdict(self).items() if k not in ("workers", "max_usd", "max_tokens", "max_seconds")}
        mark = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:6]
        slug = self.model.replace("/", "-").replace(":", "-")
        return f"{self.domain}-{slug}-seed{self.seed}-{mark}"


CHOICES: dict[str, tuple[str, ...]] = {
    "domain": DOMAINS,
    "subset": SUBSETS,
    "disclosure": ("transcript", "checks", "scenario"),
}
AT_LEAST: dict[str, float] = {"seed": 0, "train_tasks": 1, "test_tasks": 1, "trials": 1, "rounds": 0, "debate": 0, "workers": 0}


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
    config = ExperimentConfig(**{name: _typed(name, known[name].default, value) for name, value in given.items()})
    for name, choices in CHOICES.items():
        _one_of(name, getattr(config, name), choices)
    for arm in config.arms:
        _one_of("arm", arm, ARMS)
    if len(config.arms) == 0:
        raise LabError(f"arms: name at least one of {', '.join(ARMS)}")
    for name, least in AT_LEAST.items():
        if getattr(config, name) < least:
            raise LabError(f"{name}: must be at least {least:g}, got {getattr(config, name)}")
    return config


def _one_of(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise LabError(f"{name}: unknown {value!r}; choose one of {', '.join(choices)}")


def _typed(name: str, default: Any, value: Any) -> Any:
    """The value in the type of the field, or LabError."""
    if isinstance(default, tuple):
        items = value.split(",") if isinstance(value, str) else list(value)
        return tuple(str(i).strip() for i in items if str(i).strip())
    wanted = type(default) if default is not None else float
    if value is None and default is None:
        return None
    try:
        made = wanted(value)
    except (TypeError, ValueError):
        made = None
    if made is None or isinstance(value, bool) or (wanted is int and made != float(value)):
        word = {int: "a whole number", float: "a number", str: "text"}[wanted]
        raise LabError(f"{name}: must be {word}, got {value!r}")
    return made


def check_models(config: ExperimentConfig) -> None:
    """Stop before any work when a model cannot be used.

    Raises
    ------
    LabError: unknown provider or profile, or a key that is not set (named, never shown).
    """
    params = llm.ModelParams(api_base=config.api_base or None)
    for model in config.models:
        llm.check_model(model, params)
    for model in (config.user_model, config.review_model):
        llm.check_model(model, llm.ModelParams(api_base=None if model.startswith("sim/") else config.api_base or None))


@dataclass
class _Billing:
    """Which trials this run paid for itself; the list survives a kill."""

    path: Path
    keys: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.path.exists():
            self.keys = set(self.path.read_text(encoding="utf-8").split())

    def __call__(self, trajectory: Trajectory) -> None:
        self.keys.add(trajectory.key)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(trajectory.key + "\n")


class Experiment:
    """Runs a configuration inside ``data/runs/<run_id>/``.

    Parameters
    ----------
    config : what to run. root : the data folder. run_id : name of the run; by default from the configuration.
    progress : called with (what, done, total).
    """

    def __init__(
        self, config: ExperimentConfig, root: Path | str, run_id: str = "", progress: Progress | None = None
    ) -> None:
        from ecdysis_lab.store import RunFolder, Store

        self.config, self.progress = config, progress
        self.run = RunFolder.open(root, run_id or config.run_id, asdict(config))
        self.store = Store(root)
        self.billing = _Billing(self.run.path("billed.txt"))
        limits = (config.max_usd, config.max_tokens, config.max_seconds)
        self.budget = llm.Budget(*limits) if any(limit is not None for limit in limits) else None
        self.phases: dict[str, float] = {}

    def go(self) -> dict[str, Any]:
        """Train, test, and write the summary; ``status.json`` tells how it ended."""
        began = time.perf_counter()
        self.run.write_status("running", run_id=self.run.run_id)
        try:
            trained = {arm: self._harness(arm) for arm in self.config.arms}
            tested = {arm: self._test(arm, harness) for arm, (harness, _) in trained.items()}
            summary = self._summary(trained, tested, time.perf_counter() - began)
            self.run.write_json("summary.json", summary)
        except BaseException as why:
            ended = "interrupted" if isinstance(why, (KeyboardInterrupt, llm.BudgetExceeded)) else "failed"
            self.run.write_status(ended, error=f"{type(why).__name__}: {why}"[:2000])
            raise
        self.run.write_status("done", run_id=self.run.run_id)
        return summary

    # -- stages ------------------------------------------------------------------------------------------------

    def setup(self, model: str) -> Any:
        """Rollout setup for a model."""
        from ecdysis_lab.rollout import Setup

        def params(name: str) -> llm.ModelParams:
            base = None if name.startswith("sim/") else self.config.api_base or None
            return llm.ModelParams(api_base=base)

        user = self.config.user_model
        return Setup(self.config.benchmark, model, user, params(model), params(user))

    def _start(self) -> str:
        return self.config.domain if self.config.start == "human" else self.config.start

    def _harness(self, arm: str) -> tuple[Any, list[Any]]:
        """(frozen harness, round records) of an arm."""
        from ecdysis_lab import harness

        if arm in ("direct", "human"):
            return harness.load({"direct": "empty", "human": self.config.domain}[arm]), []
        from ecdysis_lab.train import TrainConfig, Trainer

        c = self.config
        review = llm.ModelParams(api_base=None if c.review_model.startswith("sim/") else c.api_base or None)
        config = TrainConfig(
            arm=arm,
            setup=self.setup(c.model),
            start=self._start(),
            n_tasks=c.train_tasks,
            seed=c.seed,
            trials=c.trials,
            rounds=c.rounds,
            threshold=c.threshold,
            disclosure=c.disclosure,  # type: ignore[arg-type]
            subset=c.subset,  # type: ignore[arg-type]
            review_model=c.review_model,
            review_params=review,
            debate=c.debate,
            editor=c.editor,
            embedder=c.embedder,
            workers=self.workers,
        )
        trainer = Trainer(
            config, self.run, self.store, budget=self.budget, progress=self.progress, on_new=self.billing
        )
        trained = trainer.train()
        self.run.write_json(f"frozen-{arm}.json", {"harness": trained.harness.hash})
        return trained.harness, list(trained.rounds)

    @property
    def workers(self) -> int:
        """Trials at a time."""
        import os

        return self.config.workers or os.cpu_count() or 1

    def _test(self, arm: str, harness: Any) -> dict[str, list[Trajectory]]:
        """Test trajectories by model, in the frozen harness."""
        from ecdysis_lab import benchmarks
        from ecdysis_lab.rollout import rollout

        tasks = benchmarks.load(self.config.benchmark).tasks("test", self.config.test_tasks, self.config.seed)
        seeds = [self.config.seed * 1000 + 500 + i for i in range(self.config.trials)]
        return {
            model: rollout(
                self.setup(model),
                tasks,
                harness,
                seeds,
                self.store,
                workers=self.workers,
                budget=self.budget,
                progress=self.progress,
                what=f"{arm} on {model}: test trials",
                on_new=self.billing,
            )
            for model in self.config.models
        }

    # -- summary -----------------------------------------------------------------------------------------------

    def _summary(self, trained: Mapping[str, Any], tested: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        from ecdysis_lab.evaluate import summarise
        from ecdysis_lab.store import commit_hash

        arms = {
            arm: {model: summarise(ts, seed=self.config.seed) | self._gain(tested, arm, model) for model, ts in models.items()}
            for arm, models in tested.items()
        }
        used = self._used(trained, tested)
        billed = [t for t in used if t.key in self.billing.keys]
        reviews = [Usage(**r.usage) for _, rounds in trained.values() for r in rounds]
        total, paid = _total(used) + sum(reviews, Usage()), _total(billed) + sum(reviews, Usage())
        return {
            "run_id": self.run.run_id,
            "commit": commit_hash(),
            "seed": self.config.seed,
            "simulated": self.config.simulated,
            "benchmark": self.config.benchmark,
            "train_model": self.config.model,
            "arms": arms,
            "harness": {arm: harness.hash for arm, (harness, _) in trained.items()},
            "training": {arm: self._training(rounds, used) for arm, (_, rounds) in trained.items() if rounds},
            "wall_seconds": round(seconds, 1),
            "cost_usd": total.cost_usd,
            "billed_usd": paid.cost_usd,
            "prompt_tokens": total.prompt_tokens,
            "completion_tokens": total.completion_tokens,
        }

    def _gain(self, tested: Mapping[str, Any], arm: str, model: str) -> dict[str, Any]:
        """Paired difference from ``direct`` with its interval, where both arms have the same scored pairs."""
        from ecdysis_lab.evaluate import paired_difference

        if arm == "direct" or "direct" not in tested:
            return {}
        found = paired_difference(tested["direct"][model], tested[arm][model], seed=self.config.seed, missing="drop")
        return {"difference_ci95": list(found["ci95"]), "paired_trials": found["n_pairs"]}

    def _training(self, rounds: Sequence[Any], used: Sequence[Trajectory]) -> dict[str, Any]:
        """What ``summary.json`` says about the training of one arm."""
        hashes = {h for r in rounds for h in (r.harness, r.candidate) if h} | {self._start_hash()}
        trials = [t for t in used if t.trial.split == "train" and t.trial.harness in hashes]
        usage = _total(trials) + sum((Usage(**r.usage) for r in rounds), Usage())
        phases: dict[str, float] = {}
        for r in rounds:
            for phase, seconds in r.seconds.items():
                phases[phase] = round(phases.get(phase, 0.0) + seconds, 3)
        return {
            "rounds": [asdict(r) for r in rounds],
            "n_tasks": self.config.train_tasks,
            "n_trials": self.config.train_tasks * self.config.trials,
            "phase_seconds": phases,
            "wall_seconds": round(sum(phases.values()), 1),
            "cost_usd": usage.cost_usd,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
        }

    def _start_hash(self) -> str:
        from ecdysis_lab import harness

        return harness.load(self._start()).hash

    def _used(self, trained: Mapping[str, Any], tested: Mapping[str, Any]) -> list[Trajectory]:
        """Every trajectory the experiment rests on, once."""
        found = {t.key: t for models in tested.values() for ts in models.values() for t in ts}
        hashes = {h for _, rounds in trained.values() for r in rounds for h in (r.harness, r.candidate) if h}
        if any(rounds for _, rounds in trained.values()):
            hashes.add(self._start_hash())
            filters = {"benchmark": self.config.benchmark, "model": self.config.model, "split": "train"}
            for t in self.store.trajectories(harness=sorted(hashes), **filters):
                if t.trial.seed in {self.config.seed * 1000 + i for i in range(self.config.trials)}:
                    found[t.key] = t
        return list(found.values())


def _total(trajectories: Sequence[Trajectory]) -> Usage:
    return sum((u for t in trajectories for u in t.usage.values()), Usage())


def smoke(config: ExperimentConfig) -> ExperimentConfig:
    """The same experiment at its smallest: a few tasks, one trial, one round."""
    small = {"train_tasks": 4, "test_tasks": 3, "trials": 1, "rounds": 1}
    return replace(config, **{k: min(v, getattr(config, k)) for k, v in small.items()})  # type: ignore[arg-type]


Printer = Callable[[str], None]


def printing_progress(say: Printer = print, every_seconds: float = 2.0) -> Progress:
    """A progress callback that prints a line when a stage starts, ends, and every few seconds between."""
    state: dict[str, Any] = {"what": "", "at": 0.0}

    def progress(what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what != state["what"] or done == total or now - state["at"] >= every_seconds:
            say(f"{what}: {done}/{total}")
            state.update(what=what, at=now)

    return progress
