"""The two tools of DBBench on the database of one task."""

from __future__ import annotations

import contextlib
import datetime as dt
import weakref
from decimal import Decimal
from typing import Any

from ecdysis_lab.benchmarks.agentbench.engine import Answer, Database, Engine, Table, Value
from ecdysis_lab.hooks import Call
from ecdysis_lab.records import LabError

SQL, COMMIT = "execute_sql", "commit_final_answer"
MOST_CHARACTERS = 800
CUT = " … [cut at 800 characters]"
TOOLS: list[dict[str, Any]] = [
    {
        "name": SQL,
        "description": "Execute one SQL statement on the MySQL database and return what it answers.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "One MySQL statement on one line."}},
            "required": ["query"],
        },
        "kind": "write",
        "reads": True,
    },
    {
        "name": COMMIT,
        "description": "Hand in the final answer, which ends the task. "
        "After a change of the table the answer may be empty.",
        "parameters": {
            "type": "object",
            "properties": {
                "answers": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "The values that answer the question, one entry each, exactly as they are.",
                }
            },
            "required": ["answers"],
        },
        "kind": "other",
    },
]


def given(call: Call, name: str) -> Any:
    """The argument of a tool that has one; as in AgentBench its name does not matter."""
    return call.arguments.get(name, next(iter(call.arguments.values()), None))


class Desk:
    """An environment of one task; the database is opened by the first call, and closed with the environment.

    Attributes
    ----------
    committed : whether an answer was handed in. answers : as it was given.
    """

    def __init__(self, engine: Engine, table: Table) -> None:
        self.engine, self.table = engine, table
        self.committed = False
        self.answers: Any = None
        self._opened: Database | None = None
        self._closed: weakref.finalize[..., Any] | None = None

    @property
    def database(self) -> Database:
        """The database as the calls have left it."""
        if self._opened is None:
            self._opened = self.engine.open(self.table)
            self._closed = weakref.finalize(self, _close, self._opened)
        return self._opened

    def close(self) -> None:
        """Leave nothing behind; may be called again, and a later call meets a fresh database."""
        if self._closed is not None:
            self._closed()
        self._opened = self._closed = None

    def call(self, call: Call) -> tuple[str, bool]:
        """Execute a statement, or take the answer."""
        if call.name == COMMIT:
            self.committed, self.answers = True, given(call, "answers")
            return "The answer was handed in.", False
        if call.name != SQL:
            return f"Error: there is no tool {call.name}; call {SQL} or {COMMIT}", True
        query = given(call, "query")
        if not isinstance(query, str) or not query.strip():
            return f"Error: {SQL} needs query, one SQL statement as a text", True
        return told(self.database.execute(query))

    def read(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Rows of a statement that changes nothing, as lists of plain values; None on an error."""
        query = given(Call(tool, arguments), "query")
        if tool != SQL or not isinstance(query, str):
            return None
        answer = self.database.execute(query, read_only=True)
        return None if answer.error else [[plain(value) for value in row] for row in answer.rows]


def _close(database: Database) -> None:
    with contextlib.suppress(LabError):  # at the end of the process its server may be gone before it
        database.close()


def told(answer: Answer) -> tuple[str, bool]:
    """What the agent reads of an answer, and whether it is an error."""
    if answer.error:
        return shortened(f"Error: {answer.error}"), True
    rows = ", ".join(f"({', '.join(map(_shown, row))}{',' if len(row) == 1 else ''})" for row in answer.rows)
    more = ", … [more rows were left out]" if answer.cut else ""
    return shortened(f"[{rows}{more}]"), False


def plain(value: Value) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value) if isinstance(value, dt.date | dt.timedelta) else value


def _shown(value: Value) -> str:
    return str(value) if isinstance(value, Decimal) else repr(plain(value))


def shortened(text: str) -> str:
    """The text as far as an agent reads it."""
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + CUT
