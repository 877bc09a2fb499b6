"""A trial without a user: the task's text opens it, calls are executed, the first reply without a call ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ecdysis_lab.models import ContentError, TransientError
from ecdysis_lab.records import Agent, Benchmark, Environment, Message, Task, Trajectory, Trial

Score = Callable[[Any, Sequence[Message]], tuple[float, dict[str, bool]]]
"""(environment, messages) -> score in [0, 1] and checks by name."""


def run_solo(
    benchmark: Benchmark, task: Task, trial: Trial, agent: Agent, limits: dict[str, int], score: Score
) -> Trajectory:
    """Run one trial on a fresh environment of the task and score what is left of it.

    Parameters
    ----------
    benchmark : gives the environment. task, trial : what runs. agent : in the agent's seat.
    limits : ``max_steps`` in messages, ``max_errors`` in rejected calls. score : the benchmark's scorer.

    Raises
    ------
    ecdysis_lab.models.calls.PermanentError, BudgetExceeded: the run must stop. Transient errors come back as an
        ``infra_error`` trajectory without a score.
    """
    began = time.perf_counter()
    environment = benchmark.environment(task.id)
    messages = [Message("user", task.scenario)]
    try:
        agent.start(environment)
        ended = _play(environment, messages, agent, limits)
    except ContentError:
        ended = "agent_error"
    except TransientError as why:
        seconds = time.perf_counter() - began
        return Trajectory(trial, "infra_error", None, "infra_error", {}, (), seconds=seconds, error=str(why))
    value, checks = score(environment, messages)
    seconds = time.perf_counter() - began
    return Trajectory(trial, "scored", value, ended, checks, tuple(messages), seconds=seconds)


def _play(environment: Environment, messages: list[Message], agent: Agent, limits: dict[str, int]) -> str:
    """Fill in the messages; returns why the trial ended."""
    reply = agent.user_says(messages[0].content or "")
    errors = 0
    while True:
        messages.append(reply)
        if not reply.calls:
            return "agent_stop"
        results = []
        for call in reply.calls:
            text, error = environment.call(call)
            results.append(Message("tool", text, call_id=call.id, name=call.name, error=error))
        messages += results
        errors += sum(m.error for m in results)
        if errors >= limits["max_errors"]:
            return "too_many_errors"
        if len(messages) >= limits["max_steps"]:
            return "max_steps"
        reply = agent.tools_return(results)
