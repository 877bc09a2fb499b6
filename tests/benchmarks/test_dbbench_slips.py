"""Slips on DBBench: each can happen on our own tasks, alone it costs the trial, and its name is the planted cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.benchmarks.agentbench.slips import SLIPS
from ecdysis_lab.harness import SHIPPED
from ecdysis_lab.harness.rollout import Setup, run_trial
from ecdysis_lab.models.sim import PROFILES, provider
from ecdysis_lab.models.sim.profiles import Profile
from ecdysis_lab.models.sim.scene import Slip, possible
from ecdysis_lab.records import Task

NAME = "agentbench/dbbench"
STUBBORN = Profile("small", slip=1.0, heed=1.0, recover=0.0, recover_error=0.0, blunder=0.0)


def where_possible(slip: Slip) -> list[Task]:
    return [t for t in load_benchmark(NAME).tasks("all") if possible(slip, provider._scene(NAME, t.id))]


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.name)
def test_a_slip_alone_costs_the_trial(slip: Slip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "susceptible", lambda benchmark, task_id: (slip,))
    monkeypatch.setitem(PROFILES, "small", replace(STUBBORN, quirks=(slip.name,)))
    tasks = where_possible(slip)
    assert tasks
    trial = run_trial(Setup(NAME, "sim/small"), tasks[0], SHIPPED / "empty", 0)
    assert (trial.score, trial.truth["fatal"], trial.truth["cause"]) == (0.0, slip.name, slip.cause)
    results = [m for m in trial.messages if m.role == "tool"]
    assert slip.form == (results[0].error or slip.name == "wrong_column")


def test_a_change_that_returned_nothing_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """[] is MySQL's answer to a change: the wrong numbers went in, and no second row follows."""
    slip = next(s for s in SLIPS if s.name == "plain_numbers")
    monkeypatch.setattr(provider, "susceptible", lambda benchmark, task_id: (slip,))
    monkeypatch.setitem(PROFILES, "small", replace(STUBBORN, recover_error=1.0))
    trial = run_trial(Setup(NAME, "sim/small"), where_possible(slip)[0], SHIPPED / "empty", 0)
    calls: list[Any] = [c for m in trial.messages for c in m.calls]
    assert [c.name for c in calls] == ["execute_sql", "commit_final_answer"] and trial.score == 0.0


def test_some_profile_has_every_quirk() -> None:
    quirks = {slip.name for slip in SLIPS if slip.quirk}
    assert quirks and all(any(q in p.quirks for p in PROFILES.values()) for q in quirks)
