"""Limits on what a run may consume, counted across threads, processes and restarts."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ecdysis_lab.models.errors import BudgetExceeded
from ecdysis_lab.records import Usage
from ecdysis_lab.store import Run, told
from ecdysis_lab.store.foreign import ForeignText, parse_json


@dataclass
class Budget:
    """Limits for one run, checked before a call and charged after it: a run ends within one call of a limit.

    Parameters
    ----------
    max_usd, max_tokens, max_seconds : limits; None for none. Seconds are wall clock since ``started``.
    path : file to which every addition appends one line. Processes that name the same file share one total,
        and a restarted run goes on counting from it.
    started : Unix time at which the clock started.
    """

    max_usd: float | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    path: Path | None = None
    started: float = field(default_factory=time.time)
    _total: Usage = field(default_factory=Usage, repr=False)
    _read_bytes: int = field(default=0, repr=False)
    _lock: Any = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, usage: Usage) -> None:
        """Count what a call consumed."""
        with self._lock:
            if self.path is None:
                self._total += usage
                return
            # One write in append mode: lines of several processes never mix. The newline in front keeps it
            # apart from a line that a full disk cut short.
            line = f"\n{json.dumps(asdict(usage))}\n".encode()
            with told(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("ab", buffering=0) as file:
                    file.write(line)

    @property
    def spent(self) -> Usage:
        """Everything counted so far."""
        with self._lock:
            if self.path is not None and self.path.exists():
                with self.path.open("rb") as file:
                    file.seek(self._read_bytes)
                    fresh, newline, _ = file.read().rpartition(b"\n")
                for line in fresh.split(b"\n"):
                    self._total += _counted(line)
                self._read_bytes += len(fresh) + len(newline)
            return self._total

    def check(self, ahead_seconds: float = 0.0) -> None:
        """Stop at a limit.

        Parameters
        ----------
        ahead_seconds : a wait that is planned; the clock is checked as if it were over.

        Raises
        ------
        BudgetExceeded: a limit is reached, or ``max_usd`` is set and a price is unknown.
        """
        spent, elapsed = self.spent, time.time() - self.started
        tokens = spent.prompt_tokens + spent.completion_tokens
        if self.max_tokens is not None and tokens >= self.max_tokens:
            self._stop(f"max_tokens={self.max_tokens}", f"{tokens} tokens in {spent.calls} calls")
        if self.max_seconds is not None and elapsed + ahead_seconds >= self.max_seconds:
            waiting = f", and a retry would wait {ahead_seconds:.1f} s" if ahead_seconds else ""
            self._stop(f"max_seconds={self.max_seconds:g}", f"{elapsed:.1f} s since the start{waiting}")
        if self.max_usd is not None and spent.cost_usd is None:
            raise BudgetExceeded(
                f"budget max_usd={self.max_usd:g} cannot be kept: LiteLLM has no price for a called model; "
                "set max_tokens, or input_cost_per_token and output_cost_per_token in the model's extra"
            )
        if self.max_usd is not None and (spent.cost_usd or 0.0) >= self.max_usd:
            self._stop(f"max_usd={self.max_usd:g}", f"${spent.cost_usd:.6g} in {spent.calls} calls")

    def _stop(self, limit: str, figures: str) -> None:
        raise BudgetExceeded(f"budget {limit} is used up: {figures}; raise it and start again to continue")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())


def _counted(line: bytes) -> Usage:
    """What a line of the file adds; nothing where a full disk or an editor damaged it."""
    try:
        return Usage() + Usage(**parse_json(line))
    except (ForeignText, TypeError):
        return Usage()


def open_budget(run: Run, limits: tuple[float | None, int | None, float | None]) -> Budget | None:
    """Budget of a run, or None without a limit. It is kept in a file: a run that was stopped goes on counting."""
    return Budget(*limits, path=run.spent_path) if any(v is not None for v in limits) else None
