"""One worker ready before it is asked for, and the old ones ended aside: a trial waits for neither.

A worker serves one trial and no other. What is done early is only what no trial has a part in: the fork, the
sandbox's lines, loading the harness. A spare is made from the second trial in a row of one harness on, so a harness
that is used once costs one worker.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
from collections.abc import Callable

from ecdysis_lab.sandbox import client
from ecdysis_lab.sandbox.client import HostError
from ecdysis_lab.sandbox.pipe import HarnessFault, Worker
from ecdysis_lab.sandbox.ready import Recipe


class Caretaker:
    """Keeps one spare worker for the recipe used last; one thread does its errands in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._key: object = None
        self._spare: Worker | None = None
        threading.Thread(target=self._work, daemon=True, name="harness-caretaker").start()

    def take(self, recipe: Recipe) -> Worker:
        """A ready worker: the spare one where it fits, else a new one.

        Raises
        ------
        HarnessFault, HostError: as :meth:`Recipe.make`.
        """
        with self._lock:
            again = self._key == recipe.key
            spare, self._spare, self._key = self._spare, None, recipe.key
        if spare is not None and not (again and spare.waits and spare.server is client.current()):
            self.bury(spare)
            spare = None
        worker = spare or recipe.make()
        if again:
            self._errands.put(lambda: self._prepare(recipe))
        return worker

    def bury(self, worker: Worker) -> None:
        """End a worker without waiting for it."""
        self._errands.put(worker.close)

    def settle(self) -> None:
        """Wait until all errands given so far are done."""
        done = threading.Event()
        self._errands.put(done.set)
        done.wait()

    def drop(self) -> None:
        """End the spare worker; the next trial makes its own."""
        with self._lock:
            spare, self._spare, self._key = self._spare, None, None
        if spare is not None:
            spare.close()

    def _prepare(self, recipe: Recipe) -> None:
        if not self._wants(recipe):
            return
        try:
            spare = recipe.make()
        except (HarnessFault, HostError):
            return  # the trial that needs a worker meets the fault itself
        with self._lock:
            if self._wants(recipe):
                self._spare = spare
                return
        spare.close()

    def _wants(self, recipe: Recipe) -> bool:
        return self._spare is None and self._key == recipe.key

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
