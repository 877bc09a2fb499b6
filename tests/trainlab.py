"""A small training run in a folder, for tests of rounds and of what shows them."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from ecdysis_lab.records import Trajectory
from ecdysis_lab.store import Run, Store
from ecdysis_lab.train.loop import Trainer
from ecdysis_lab.train.rounds import Trained
from ecdysis_lab.train.settings import Settings, configure


def settings(**other: Any) -> Settings:
    small = {
        "train_tasks": 12,
        "trials": 2,
        "rounds": 2,
        "seed": 2,
        "start": "empty",
        "embedder": "tfidf",
        "workers": 1,
    }
    return configure(**(small | other))


class Lab:
    """One training run in a folder; counts the trials that had to be run. ``like`` lends its finished trials."""

    def __init__(self, root: Path, like: Lab | None = None, **other: Any) -> None:
        self.root, self.arm, self.ran = root, other.pop("arm", "ecdysis"), Counter[str]()
        self.settings = settings(**other)
        if like is not None:
            with sqlite3.connect(like.store.path) as source, sqlite3.connect(Store(root).path) as copy:
                source.backup(copy)

    def train(self, progress: Any = None) -> Trained:
        self.run = Run.open(self.root, "run", self.settings.model_dump())
        self.store = Store(self.root)
        return Trainer(
            self.settings, self.arm, self.run, self.store, progress=progress, on_new=self.note
        ).train()

    def note(self, trajectory: Trajectory) -> None:
        self.ran[trajectory.key] += 1
