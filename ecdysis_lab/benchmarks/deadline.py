"""A time limit for the tools of an environment, whoever calls them: a model, a rewrite, a hook's read, a replay.

In the main thread an alarm stops a call: Python code, big integers, regular expressions and waits alike. Another
thread cannot be stopped, so there a call that changes nothing is rehearsed in a forked copy of the process first, and
executed only if it came to an end in the copy. Not covered: a write in another thread, a tool that fills the memory
within the limit, C code that never looks at signals, and what a benchmark's own ``run`` executes on an environment
that it did not get from ``environment``.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Effect, Environment

TOOL_SECONDS = 5.0
T = TypeVar("T")


class TooLong(Exception):
    """A tool did not come to an end in time; the message is what the model is told."""


class _Alarm(BaseException):
    """Raised inside a tool by the alarm; no ``except Exception`` of the tool's catches it."""


def within(work: Callable[[], T], tool: str, rehearsed: bool, seconds: float | None = None) -> T:
    """Result of a tool's work.

    Parameters
    ----------
    work : the call. tool : its name. rehearsed : whether it may run twice, since it changes nothing.
    seconds : the limit; ``TOOL_SECONDS`` by default.

    Raises
    ------
    TooLong: it was stopped.
    """
    seconds = TOOL_SECONDS if seconds is None else seconds
    late = TooLong(f"{tool} took longer than {seconds:g} s and was stopped")
    if threading.current_thread() is threading.main_thread():
        return _alarmed(work, seconds, late)
    if rehearsed and not _ends(work, seconds):
        raise late
    return work()


def _alarmed(work: Callable[[], T], seconds: float, late: TooLong) -> T:
    armed = True

    def ring(*_: object) -> None:
        if armed:
            raise _Alarm

    handler = signal.signal(signal.SIGALRM, ring)
    before = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        try:
            return work()
        finally:
            armed = False
    except _Alarm:
        raise late from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)
        signal.signal(signal.SIGALRM, handler or signal.SIG_DFL)


def _ends(work: Callable[[], Any], seconds: float) -> bool:
    """Whether the work comes to an end, with whatever result, in a copy of this process that its own alarm kills."""
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            work()
        finally:
            os._exit(0)
    return not os.WIFSIGNALED(os.waitpid(child, 0)[1])


@dataclass
class Limited:
    """An environment with the time limit; everything else is the environment's own.

    Parameters
    ----------
    bare : the environment. effect : the benchmark's word on a call; a write is not rehearsed.
    """

    bare: Environment
    effect: Callable[[Call], Effect]

    def call(self, call: Call) -> tuple[str, bool]:
        """Execute a call; one that takes too long is an error."""
        try:
            return within(lambda: self.bare.call(call), call.name, self.effect(call) != "write")
        except TooLong as late:
            return f"Error: {late}", True

    def read(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a read-only tool off the record; None on an error, too."""
        try:
            return within(lambda: self.bare.read(tool, arguments), tool, True)
        except TooLong:
            return None

    def __getattr__(self, name: str) -> Any:
        """What a benchmark's scorer looks at."""
        return getattr(self.__dict__["bare"], name)
