"""Workers ready before they are asked for, and the old ones ended aside: a trial waits for neither.

A worker serves one trial and no other. What is done early is only what no trial has a part in: the fork, the
sandbox's lines, loading the harness. Spares are made from the second trial in a row of one harness on, so a harness
that is used once costs one worker.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
from collections.abc import Callable

from ecdysis_lab.harness.sandbox import client
from ecdysis_lab.harness.sandbox.client import HostError
from ecdysis_lab.harness.sandbox.pipe import HarnessFault, Worker
from ecdysis_lab.harness.sandbox.ready import Recipe

DEPTH = 2  # trials may follow one another faster than a worker is made ready


class Caretaker:
    """Keeps spare workers for the recipe used last; one thread does its errands in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._key: object = None
        self._spares: list[Worker] = []
        self._repeated = False
        threading.Thread(target=self._work, daemon=True, name="harness-caretaker").start()

    def take(self, recipe: Recipe) -> Worker:
        """A ready worker: a spare one where one fits, else a new one.

        Raises
        ------
        HarnessFault, HostError: as :meth:`Recipe.make`.
        """
        with self._lock:
            self._repeated = self._key == recipe.key
            others = [] if self._repeated else self._spares
            self._spares = self._spares if self._repeated else []
            self._key = recipe.key
        for other in others:
            self.bury(other)
        while self._spares:
            spare = self._spares.pop(0)
            if spare.waits and spare.server is client.current():
                return spare
            self.bury(spare)
        return recipe.make()

    def bury(self, worker: Worker, recipe: Recipe | None = None) -> None:
        """End a worker without waiting for it; then make spares of ``recipe``, where trials repeat it.

        They are made when a trial has ended, since making one beside a trial slows the hooks of that trial.
        """
        if recipe is not None and self._repeated:
            self._errands.put(lambda: self._prepare(recipe))
        self._errands.put(worker.close)

    def settle(self) -> None:
        """Wait until all errands given so far are done."""
        done = threading.Event()
        self._errands.put(done.set)
        done.wait()

    def drop(self) -> None:
        """End all spares; the next trial makes its own."""
        with self._lock:
            spares, self._spares, self._key = self._spares, [], None
        for spare in spares:
            spare.close()

    def _prepare(self, recipe: Recipe) -> None:
        while self._wants(recipe):
            try:
                spare = recipe.make()
            except (HarnessFault, HostError):
                return  # the trial that needs a worker meets the fault itself
            with self._lock:
                kept = self._wants(recipe)
                if kept:
                    self._spares.append(spare)
            if not kept:
                spare.close()

    def _wants(self, recipe: Recipe) -> bool:
        return self._key == recipe.key and len(self._spares) < DEPTH

    def _work(self) -> None:
        while True:
            errand = self._errands.get()
            with contextlib.suppress(Exception):  # a worker that cannot be ended goes with the fork server
                errand()


_caretakers: dict[int, Caretaker] = {}
_guard = threading.Lock()


def current() -> Caretaker:
    """The caretaker of this very process; a forked child gets its own."""
    with _guard:
        if os.getpid() not in _caretakers:
            _caretakers[os.getpid()] = Caretaker()
        return _caretakers[os.getpid()]


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()
    _caretakers.clear()


@atexit.register
def _drop() -> None:
    caretaker = _caretakers.pop(os.getpid(), None)
    if caretaker is not None:
        caretaker.drop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
