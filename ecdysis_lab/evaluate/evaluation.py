"""The held-out test: frozen harnesses on the test split, on several models, in a run folder of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.evaluate.frozen import Frozen, find_frozen, training_of
from ecdysis_lab.evaluate.summaries import arms_block, clean_block
from ecdysis_lab.evaluate.testing import Tested, keep_scores, trials_by_model
from ecdysis_lab.models import open_budget
from ecdysis_lab.records import LabError, Progress, Trajectory
from ecdysis_lab.store import Run, Store
from ecdysis_lab.store.billing import at_work, billed, consumption
from ecdysis_lab.train.arms import ARMS
from ecdysis_lab.train.settings import Settings, check_models, configure, smoke


def prepare_evaluation(
    harness: str, baselines: str, models: str, data: Path | str, given: Mapping[str, Any], small: bool = False
) -> tuple[Settings, list[Frozen]]:
    """Validated configuration and harnesses of an evaluation, before anything runs.

    Parameters
    ----------
    harness : comma-separated frozen harnesses, see :func:`ecdysis_lab.evaluate.frozen.find_frozen`.
    baselines : comma-separated arms to compare with: ``direct``, ``human``.
    models : comma-separated LiteLLM names; empty for the training model and the default profiles.
    data : the data folder. given : further fields of the configuration. small : at its smallest.

    Raises
    ------
    LabError: no harness, one that is not frozen, an unknown baseline, model or field.
    """
    names, others = (_names(text) for text in (harness, baselines))
    if not names:
        raise LabError("harness: name at least one frozen harness, as RUN:ARM")
    shipped = [arm.name for arm in ARMS.values() if not arm.trains]
    for name in others:
        if name not in shipped:
            raise LabError(f"baselines: unknown {name!r}; choose one of {', '.join(shipped)}")
    benchmark = configure(**given).benchmark
    found = [find_frozen(n, data, benchmark) for n in dict.fromkeys((*others, *names))]
    chosen = _names(models)
    trained_on = next((f.config["model"] for f in found if f.config.get("model")), "")
    if chosen or trained_on:
        given = {**given, "model": chosen[0] if chosen else trained_on}
    config = configure(**given, test_models=tuple(chosen[1:]), arms=tuple(f.arm for f in found))
    if len(chosen) == 1:  # that model alone, without the default profiles
        config = config.but(test_models=chosen)
    check_models(config)
    return (smoke(config) if small else config), found


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


class Evaluation:
    """Frozen harnesses on the test split, in a run folder of its own; its summary has the shape of an experiment's.

    Parameters
    ----------
    settings : benchmark, models, test tasks, trials, seed, limits. frozen : one per arm. root : the data folder.
    run_id : name of the run; by default from the settings and the harnesses.
    progress : called with (what, done, total).

    Raises
    ------
    LabError: two harnesses of one arm, or more tasks than the test split has; nothing is written then.
    """

    def __init__(
        self,
        settings: Settings,
        frozen: Sequence[Frozen],
        root: Path | str,
        run_id: str = "",
        progress: Progress | None = None,
    ) -> None:
        from ecdysis_lab.benchmarks import load_benchmark

        arms = [f.arm for f in frozen]
        if len(set(arms)) < len(arms):
            raise LabError(
                f"harness: two harnesses of one arm among {', '.join(arms)}; evaluate them in two runs"
            )
        self.settings, self.frozen, self.progress = settings, tuple(frozen), progress
        self.tasks = load_benchmark(settings.benchmark).tasks("test", settings.test_tasks, settings.seed)
        hashes = {f.arm: f.harness.hash for f in frozen}
        mark = "-".join(h[:6] for h in hashes.values())
        self.run = Run.open(
            root, run_id or f"test-{settings.run_id}-{mark}", settings.model_dump() | {"frozen": hashes}
        )
        self.store, self.billing = Store(root), billed(self.run)
        self.budget = open_budget(self.run, settings.limits)

    def go(self) -> dict[str, Any]:
        """Run what is missing and write scores and summary; ``status.json`` tells how it ended."""
        began = time.perf_counter()
        with at_work(self.run):
            tested = {f.arm: self._test(f) for f in self.frozen}
            summary = self._summary(tested, time.perf_counter() - began)
            self.run.summary = summary
        return summary

    def _test(self, frozen: Frozen) -> dict[str, list[Trajectory]]:
        shared = {"budget": self.budget, "progress": self.progress, "on_new": self.billing}
        return trials_by_model(self.settings, frozen.arm, frozen.harness, self.tasks, self.store, **shared)

    def _summary(self, tested: Tested, seconds: float) -> dict[str, Any]:
        from ecdysis_lab.store import commit_hash

        c = self.settings
        trained_on = next((f.config["model"] for f in self.frozen if f.config.get("model")), c.model)
        scores = keep_scores(self.run, tested, trained_on, c.simulated)
        used = {t.key: t for models in tested.values() for ts in models.values() for t in ts}
        total = consumption(used.values())
        paid = consumption(t for t in used.values() if t.key in self.billing.keys)
        return {
            "run_id": self.run.run_id,
            "commit": commit_hash(),
            "seed": c.seed,
            "simulated": c.simulated,
            "benchmark": c.benchmark,
            "train_model": trained_on,
            "arms": arms_block(scores, c.seed),
            **clean_block(scores, load_benchmark(c.benchmark), c.seed),
            "harness": {f.arm: f.harness.hash for f in self.frozen},
            "trained_by": {f.arm: f.run.run_id for f in self.frozen if f.run},
            "training": {f.arm: block for f in self.frozen if (block := training_of(f))},
            "wall_seconds": round(seconds, 1),
            "cost_usd": total.cost_usd,
            "billed_usd": paid.cost_usd,
            "prompt_tokens": total.prompt_tokens,
            "completion_tokens": total.completion_tokens,
        }
