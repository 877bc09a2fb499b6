"""A trial without a user: the task's text opens it, calls are executed, and it ends by the first reply without a call.

A benchmark may end it by a call instead, and answer such a reply.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ecdysis_lab.models import ContentError, TransientError
from ecdysis_lab.records import Agent, Benchmark, Environment, Message, Task, Trajectory, Trial, tool_key

Score = Callable[[Any, Sequence[Message]], tuple[float, dict[str, bool]]]
"""(environment, messages) -> score in [0, 1] and checks by name."""
Ended = Callable[[Any], str]
"""environment -> why the trial is over after a call; empty while it goes on."""


def run_solo(
    benchmark: Benchmark,
    task: Task,
    trial: Trial,
    agent: Agent,
    limits: dict[str, int],
    score: Score,
    *,
    nudge: str = "",
    ended: Ended | None = None,
) -> Trajectory:
    """Run one trial on a fresh environment of the task and score what is left of it.

    Parameters
    ----------
    benchmark : gives the environment. task, trial : what runs. agent : in the agent's seat.
    limits : any of ``max_steps`` in messages, ``max_errors`` in rejected calls, ``max_rounds`` in turns of the agent,
        ``max_nudges`` in turns without a call and ``max_repeats`` in equal turns, one after the other.
    score : the benchmark's scorer.
    nudge : what a reply without a call is answered; empty where it ends the trial. ended : see ``Ended``.

    Raises
    ------
    ecdysis_lab.models.calls.PermanentError, BudgetExceeded: the run must stop. Transient errors come back as an
        ``infra_error`` trajectory without a score.
    """
    began = time.perf_counter()
    environment = benchmark.environment(task.id)
    messages = [Message("user", task.scenario)]
    try:
        try:
            agent.start(environment)
            why = _play(environment, messages, agent, limits, nudge, ended)
        except ContentError:
            why = "agent_error"
        value, checks = score(environment, messages)
    except TransientError as failed:
        seconds = time.perf_counter() - began
        return Trajectory(
            trial, "infra_error", None, "infra_error", {}, (), seconds=seconds, error=str(failed)
        )
    finally:
        leave(environment)
    seconds = time.perf_counter() - began
    return Trajectory(trial, "scored", value, why, checks, tuple(messages), seconds=seconds)


def leave(environment: Environment) -> None:
    """Close an environment that holds something open."""
    close = getattr(environment, "close", None)
    if close is not None:
        close()


def _play(
    environment: Environment,
    messages: list[Message],
    agent: Agent,
    limits: dict[str, int],
    nudge: str,
    ended: Ended | None,
) -> str:
    """Fill in the messages; returns why the trial ended."""
    reply = agent.user_says(messages[0].content or "")
    errors = rounds = nudges = repeats = 0
    last = ""
    while True:
        messages.append(reply)
        rounds += 1
        same = f"{reply.content} {' '.join(map(tool_key, reply.calls))}"
        last, repeats = same, repeats + 1 if same == last else 1
        if not reply.calls and not nudge:
            return "agent_stop"
        results: list[Message] = []
        for call in reply.calls:
            text, error = environment.call(call)
            results.append(Message("tool", text, call_id=call.id, name=call.name, error=error))
            if ended and (why := ended(environment)):
                messages += results
                return why
        messages += results
        errors += sum(m.error for m in results)
        nudges = 0 if results else nudges + 1
        reached = {
            "max_errors": errors,
            "max_rounds": rounds,
            "max_nudges": nudges,
            "max_repeats": repeats,
            "max_steps": len(messages),
        }
        over = next((name for name, n in reached.items() if n >= limits.get(name, n + 1)), "")
        if over:
            return "too_many_errors" if over == "max_errors" else over
        if results:
            reply = agent.tools_return(results)
        else:
            messages.append(Message("user", nudge))
            reply = agent.user_says(nudge)
