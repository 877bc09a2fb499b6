"""DBBench of AgentBench (Liu et al. 2023, arXiv 2308.03688): one table, one question or change, two tools.

The rules are AgentBench's: every column is TEXT, fifteen rounds, results cut at 800 characters, and only a commit ends
a trial well. A change is scored by a hash of the whole table, a question by the committed values. Two rules are ours:
four replies in a row without a call end a trial, and three that are the same, which AgentBench lets run to its last
round.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

from ecdysis_lab.benchmarks.agentbench.data import Item, read_items
from ecdysis_lab.benchmarks.agentbench.desk import COMMIT, SQL, TOOLS, Desk, given, plain
from ecdysis_lab.benchmarks.agentbench.engine import quoted
from ecdysis_lab.benchmarks.agentbench.engines import chosen_engine
from ecdysis_lab.benchmarks.agentbench.facts import facts_of
from ecdysis_lab.benchmarks.agentbench.gold import statements
from ecdysis_lab.benchmarks.agentbench.scoring import official_hash, same_answer, table_hash
from ecdysis_lab.benchmarks.agentbench.statements import effect_of
from ecdysis_lab.benchmarks.solo import run_solo
from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Agent, Effect, LabError, Message, Oracle, Task, Trajectory, Trial

ROUNDS = 15
NUDGES, REPEATS = 4, 3
NUDGE = f"Nothing was executed, for the reply called no tool. Call {SQL} with a statement, or {COMMIT} with the answer."
POLICY = f"""\
You operate a MySQL database by SQL to answer a question about its table, or to change the table as asked.
- Think first: say in a few words what is asked and how you go about it. Then call a tool; a reply without a call does \
nothing.
- {SQL} executes one statement at a time, written on one line, and returns MySQL's raw answer: rows as a list of \
tuples, [] for a change, or an error. A long answer is cut short, so ask for no more than you need.
- {COMMIT} hands in the final answer and ends the task. Call it once you are sure.
- A question: commit the values it asks for, one entry each, exactly as the database has them, with no words around \
them.
- A change: execute the INSERT or UPDATE, then commit; what you commit does not matter then, only the table does.
- You have {ROUNDS} rounds. Without a commit the task has failed."""


class DBBench:
    """DBBench on one engine; tasks are those of :func:`ecdysis_lab.benchmarks.agentbench.data.read_items`."""

    name, about = "agentbench/dbbench", "questions to a database and changes of it"
    policy = system_prompt = POLICY
    tools = TOOLS
    user: Literal["model", "scripted", "none"] = "none"
    opening, human, slips = "", "dbbench", "ecdysis_lab.benchmarks.agentbench.slips:SLIPS"
    max_steps = 1 + 2 * ROUNDS

    def __init__(self) -> None:
        self.items, self.engine = read_items(), chosen_engine()
        said = f"{self.items.digest} {self.engine.name} {self.engine.version}"
        self.version = f"{self.engine.name} {hashlib.sha256(said.encode()).hexdigest()[:12]}"
        self._played: dict[str, tuple[Oracle, bool]] = {}

    def tasks(self, split: str, n: int | None = None, seed: int = 0) -> list[Task]:
        """Tasks of a split, in order; ``n`` of them drawn by seed with questions, INSERT and UPDATE balanced.

        Raises
        ------
        LabError: unknown split, or more tasks than there are, or none, asked for.
        """
        drawn = self.items.drawn(split, n, seed, self.name)
        return [Task(item.id, self.name, item.split, item.text) for item in drawn]

    def run(self, task: Task, trial: Trial, agent: Agent, user: Any, limits: dict[str, int]) -> Trajectory:
        """Run one trial and score it by AgentBench's rules; an SQL error costs a round and nothing else."""
        item = self._item(task.id)

        def score(desk: Desk, messages: Sequence[Message]) -> tuple[float, dict[str, bool]]:
            checks = self._checks(item, desk)
            return float(all(checks.values())), checks

        rounds = min(ROUNDS, max(1, limits["max_steps"] // 2))
        rules = {"max_rounds": rounds, "max_nudges": NUDGES, "max_repeats": REPEATS}
        return run_solo(self, task, trial, agent, rules, score, nudge=NUDGE, ended=_committed)

    def environment(self, task_id: str) -> Desk:
        """A fresh database of a task, opened by the first call."""
        return Desk(self.engine, self._item(task_id).table)

    def effect(self, call: Call) -> Effect:
        """By the statement; a commit is neither."""
        query = given(call, "query") if call.name == SQL else None
        return effect_of(query) if isinstance(query, str) else "other"

    def facts(self, task_id: str, seen: Sequence[Message] = ()) -> dict[str, str]:
        """Gold values and telling cells of the table; none for a task of other data, of which nothing is known."""
        item = self.items.by_id.get(task_id)
        return facts_of(item) if item else {}

    def oracle(self, task_id: str) -> Oracle:
        """The gold statement where it leads to the gold, else a look at the table; then the commit."""
        return self._play(self._item(task_id))[0]

    def clean(self, task_id: str) -> bool:
        """Whether the gold statement leads to the gold on this engine: AgentBench has tasks where none can."""
        return self._play(self._item(task_id))[1]

    def _checks(self, item: Item, desk: Desk) -> dict[str, bool]:
        if not desk.committed:
            return {"committed": False}
        if item.kind == "SELECT":
            return {"committed": True, "answer": same_answer(desk.answers, item.label)}
        return {"committed": True, "table": self._table_is_right(item, desk)}

    def _table_is_right(self, item: Item, desk: Desk) -> bool:
        rows = desk.database.rows(item.table.name, item.table.columns)
        return rows is not None and table_hash(rows) == official_hash(item.record)

    def _play(self, item: Item) -> tuple[Oracle, bool]:
        """The oracle, and whether its statement leads to the gold."""
        if item.id not in self._played:
            golds = statements(item)
            leading = next((sql for sql in golds if self._leads(item, sql)), "")
            look = f"SELECT * FROM {quoted(item.table.name)}"
            answers = list(item.label) if item.kind == "SELECT" else []
            query = leading or (look if item.kind == "SELECT" else golds[0])
            turns = (Call(SQL, {"query": query}), Call(COMMIT, {"answers": answers}))
            nothing = Call(COMMIT, {"answers": []})  # what small models do after an error, too
            self._played[item.id] = Oracle(turns, nothing, nothing), bool(leading)
        return self._played[item.id]

    def _leads(self, item: Item, sql: str) -> bool:
        """Whether a statement leads to the gold on a fresh database; a question without a row is answered "none"."""
        desk = Desk(self.engine, item.table)
        try:
            answer = desk.database.execute(sql)
            if item.kind != "SELECT":
                return not answer.error and self._table_is_right(item, desk)
            values = [str(plain(value)) for row in answer.rows for value in row] or ["none"]
            return not answer.error and same_answer(values, item.label)
        finally:
            desk.close()

    def _item(self, task_id: str) -> Item:
        if task_id not in self.items.by_id:
            first = ", ".join(list(self.items.by_id)[:3])
            raise LabError(f"task: {self.name} has no task {task_id!r}; ids run {first} …")
        return self.items.by_id[task_id]


def _committed(desk: Desk) -> str:
    return "committed" if desk.committed else ""
