"""OS interaction of AgentBench (Liu et al. 2023, arXiv 2308.03688): a Linux machine, one question or change.

The rules are AgentBench's: eight rounds, output cut at 800 characters, one shell for all calls, thirty seconds a
script, and only an answer or a finish ends a trial well. The answer must match, or AgentBench's own check scripts must
pass on the machine as it was left. Ours: a machine is a bubblewrap box over the host's system instead of an Ubuntu
container, random numbers of bash are the same in every trial of a task, a reply may hold several calls and is one round
all the same, and as in DBBench four replies in a row without a call end a trial.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Sequence
from typing import Any, Literal

from ecdysis_lab.benchmarks.agentbench.box import Ran
from ecdysis_lab.benchmarks.agentbench.os_data import Item, read_items
from ecdysis_lab.benchmarks.agentbench.os_machine import ANSWER, BASH, FINISH, TOOLS, Machine
from ecdysis_lab.benchmarks.solo import run_solo
from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Agent, Effect, LabError, Message, Oracle, Task, Trajectory, Trial

ROUNDS, NUDGES = 8, 4
ANYWHERE = ("/bin/", "/usr/bin/", "/dev/")
"""Places of programs and devices that any harness may name."""
NUDGE = f"Nothing was executed, for the reply called no tool. Call {BASH}, {ANSWER} or {FINISH}."
POLICY = f"""\
You operate a Linux machine as root, to answer a question about it or to change it as asked.
- Think first: say in a few words what is asked and how you go about it. Then call one tool; a reply without a call \
does nothing.
- {BASH} runs a script in your shell and returns what it prints. The shell stays: directory and variables are those of \
the script before. Nobody answers prompts, so a script must not ask for input. Long output is cut short.
- {ANSWER} hands in the answer to a question and ends the task. Give the bare value, with no words around it.
- {FINISH} ends a task that asked for a change.
- You have {ROUNDS} rounds. Without {ANSWER} or {FINISH} the task has failed."""


class OSInteraction:
    """OS interaction on this machine's own system; tasks are those of the clone."""

    name, about = "agentbench/os", "questions to a Linux machine and changes of it"
    policy = system_prompt = POLICY
    tools = TOOLS
    user: Literal["model", "scripted", "none"] = "none"
    opening = human = slips = ""
    max_steps = 1 + 2 * ROUNDS

    def __init__(self) -> None:
        self.items, digest = read_items()
        self.system = _system()
        said = hashlib.sha256(f"{digest} {self.system}".encode()).hexdigest()[:12]
        self.version = f"bubblewrap on {self.system} {said}"
        self._played: dict[str, tuple[Oracle, str]] = {}

    def tasks(self, split: str, n: int | None = None, seed: int = 0) -> list[Task]:
        """Tasks of a split, in order; ``n`` of them drawn by seed.

        Raises
        ------
        LabError: unknown split, or more tasks than there are, or none, asked for.
        """
        if split not in ("train", "test", "all"):
            raise LabError(f"split: unknown {split!r}; choose one of train, test, all")
        items = [item for item in self.items.values() if split in (item.split, "all")]
        if n is not None and not 1 <= n <= len(items):
            raise LabError(f"n: {self.name} {split} has {len(items)} tasks, {n} were asked for")

        def luck(item: Item) -> bytes:
            return hashlib.sha256(f"{self.name}:{split}:{seed}:{item.id}".encode()).digest()

        drawn = {item.id for item in sorted(items, key=luck)[:n]}
        return [Task(i.id, self.name, i.split, i.text) for i in items if i.id in drawn]

    def run(self, task: Task, trial: Trial, agent: Agent, user: Any, limits: dict[str, int]) -> Trajectory:
        """Run one trial and score it by AgentBench's rules; a script that fails costs a round and nothing else."""

        def score(machine: Machine, messages: Sequence[Message]) -> tuple[float, dict[str, bool]]:
            if not machine.over:
                return 0.0, {"ended": False}
            checks = {"ended": True, "answer" if machine.item.match else "check": machine.passes()}
            return float(all(checks.values())), checks

        rules = {"max_rounds": min(ROUNDS, max(1, limits["max_steps"] // 2)), "max_nudges": NUDGES}
        return run_solo(self, task, trial, agent, rules, score, nudge=NUDGE, ended=_over)

    def environment(self, task_id: str) -> Machine:
        """A fresh machine of a task, started by the first call."""
        return Machine(self._item(task_id))

    def effect(self, call: Call) -> Effect:
        """A script may change anything."""
        return "write" if call.name == BASH else "other"

    def facts(self, task_id: str, seen: Sequence[Message] = ()) -> dict[str, str]:
        """Paths and longer numbers that a task and its gold name, and the answer that must match: text -> kind."""
        item = self.items.get(task_id)
        if item is None:
            return {}
        text = f"{item.text}\n{item.gold.code if item.gold else ''}"
        paths = {path.rstrip("/.") for path in re.findall(r"(?<![\w.])[~/][\w.+-]*(?:/[\w.+-]+)+", text)}
        found = {path: "path" for path in paths if not path.startswith(ANYWHERE)}
        found |= dict.fromkeys(re.findall(r"\b\d{3,}\b", text), "amount")
        answer = item.match.get("answer", "")
        return found | ({answer: "value"} if len(answer) > 3 else {})

    def oracle(self, task_id: str) -> Oracle:
        """The gold script, and as the answer what it printed on another machine of the task.

        Wrong where a task makes its world from /dev/urandom (two of AgentBench's): such a world is never met again.
        """
        return self._play(task_id)[0]

    def clean(self, task_id: str) -> bool:
        """Whether the gold reaches the gold on this machine."""
        return not self.why_unusable(task_id)

    def why_unusable(self, task_id: str) -> str:
        """Why the gold does not pass its own check here; empty where it does. The box runs once a process for it.

        Raises
        ------
        LabError: no machine can be started here.
        """
        return self._play(task_id)[1]

    def _play(self, task_id: str) -> tuple[Oracle, str]:
        if task_id not in self._played:
            self._played[task_id] = _gold_play(self._item(task_id))
        return self._played[task_id]

    def _item(self, task_id: str) -> Item:
        if task_id not in self.items:
            first = ", ".join(list(self.items)[:3])
            raise LabError(f"task: {self.name} has no task {task_id!r}; ids run {first} …")
        return self.items[task_id]


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:  # no such file: not Linux, or a bare one
        return platform.system()


def _gold_play(item: Item) -> tuple[Oracle, str]:
    """The oracle, and why it does not pass; empty where it does."""
    machine = Machine(item)
    try:
        ran = machine.run(item.gold.code) if item.gold else Ran("")
        asks = bool(item.match) or None in item.check or len(item.check) > 1
        answer = ran.output.strip() if item.gold else str(item.match.get("answer", ""))
        last = Call(ANSWER, {"answer": answer}) if asks else Call(FINISH, {})
        machine.call(last)
        why = "" if machine.passes() else _reason(item, ran)
        if machine.unmade:
            why = f"a script that makes its world fails here: {machine.unmade}"
    finally:
        machine.close()
    turns = (Call(BASH, {"script": item.gold.code}), last) if item.gold else (last,)
    return Oracle(turns, Call(FINISH, {}), Call(FINISH, {})), why


def _reason(item: Item, ran: Ran) -> str:
    if ran.ended:
        return f"the gold script does not come to an end ({ran.ended})"
    said = ran.output.strip().splitlines()
    return f"the gold script does not pass its check; it printed: {said[-1][:100] if said else 'nothing'}"


def _over(machine: Machine) -> str:
    return {ANSWER: "answered", FINISH: "finished"}.get(machine.over, "")
