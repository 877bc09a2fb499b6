"""The three tools of OS interaction on the machine of one task, and AgentBench's check of what is left of it."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Any

from ecdysis_lab.benchmarks.agentbench.box import Box, Ran
from ecdysis_lab.benchmarks.agentbench.desk import given, shortened
from ecdysis_lab.benchmarks.agentbench.os_data import Item, Script
from ecdysis_lab.hooks import Call
from ecdysis_lab.models import TransientError

BASH, ANSWER, FINISH = "bash", "answer", "finish"
SCRIPT_SECONDS = 30.0


def _tool(name: str, does: str, kind: str, **arguments: str) -> dict[str, Any]:
    given_as = {key: {"type": "string", "description": text} for key, text in arguments.items()}
    schema = {"type": "object", "properties": given_as, "required": [*arguments]}
    return {"name": name, "description": does, "parameters": schema, "kind": kind}


TOOLS = [
    _tool(
        BASH, "Run a bash script on the machine and return what it prints.", "write", script="What to run."
    ),
    _tool(
        ANSWER, "Hand in the answer to the question, which ends the task.", "other", answer="The bare value."
    ),
    _tool(FINISH, "Say that the change is made, which ends the task.", "other"),
]


class Machine:
    """An environment of one task: a box, started and made ready by the first call.

    Attributes
    ----------
    over : ``ANSWER`` or ``FINISH`` once it was called. answer : what was handed in, None where nothing was.
    unmade : what the first script failed with of those that make the task's world; empty where all of it was made.
    """

    def __init__(self, item: Item) -> None:
        self.item = item
        self.over = self.unmade = ""
        self.answer: str | None = None
        self._box: Box | None = None

    @property
    def box(self) -> Box:
        """The machine as the calls have left it.

        Raises
        ------
        LabError: no machine can be started here.
        TransientError: it went down, or took too long, before the task's world was made.
        """
        if self._box is None:
            self._box = Box()
            for script in self.item.init:
                made = self._alive(self._box.alone(_same_luck(script, self.item.id).argv(), SCRIPT_SECONDS))
                if made.ended:
                    raise TransientError(
                        f"agentbench/os: the world of {self.item.id} was not made ({made.ended})"
                    )
                if made.exit != 0 and not self.unmade:
                    self.unmade = (made.output.strip().splitlines() or [f"exit code {made.exit}"])[-1][:100]
            if self.item.start:
                self._alive(self._box.shell(self.item.start, SCRIPT_SECONDS))
        return self._box

    @staticmethod
    def _alive(ran: Ran) -> Ran:
        """What was left, unless by a machine that is no more: that is no act of the agent's."""
        if ran.ended == "gone":
            raise TransientError(f"agentbench/os: {ran.output}")
        return ran

    def close(self) -> None:
        """Leave nothing behind; may be called again."""
        if self._box is not None:
            self._box.close()

    def call(self, call: Call) -> tuple[str, bool]:
        """Run a script, or take the answer."""
        if call.name == FINISH:
            self.over = FINISH
            return "The task was ended.", False
        if call.name == ANSWER:
            value = given(call, "answer")
            self.over, self.answer = ANSWER, None if value is None else str(value)
            return "The answer was handed in.", False
        script = given(call, "script")
        if call.name != BASH:
            return f"Error: there is no tool {call.name}; call {BASH}, {ANSWER} or {FINISH}", True
        if not isinstance(script, str) or not script.strip():
            return f"Error: {BASH} needs script, the text of a bash script", True
        return _told(self.run(script))

    def run(self, script: str) -> Ran:
        """Run a script as the agent does; all of its output comes back."""
        return self.box.shell(script, SCRIPT_SECONDS)

    def read(self, tool: str, arguments: dict[str, Any]) -> Any:
        """None: no tool only reads."""
        return None

    def passes(self) -> bool:
        """Whether the answer matches, or every check script ends with 0; each is given what came before it.

        Raises
        ------
        TransientError: the machine has gone down.
        """
        match, said = self.item.match, self.answer
        if "answer" in match:
            strict = match.get("strip", True) is False
            return said is not None and (said if strict else said.strip()) == match["answer"]
        if match:
            return said is not None and re.search(match["regex"], said) is not None
        given_on = [str(said)]  # "None" after a finish, as in AgentBench
        for script in self.item.check:
            program = script or self.item.gold
            assert program is not None
            ran = self._alive(self.box.alone(program.argv(*given_on), SCRIPT_SECONDS))
            if ran.exit != 0:
                return False
            given_on.append(ran.output)
        return True


def _same_luck(script: Script, seed: str) -> Script:
    """A script that makes the same world each time."""
    number = int(hashlib.sha256(seed.encode()).hexdigest()[:4], 16)
    return Script("bash", f"RANDOM={number}\n{script.code}") if script.language == "bash" else script


def _told(ran: Ran) -> tuple[str, bool]:
    if ran.ended == "gone":
        return f"Error: {ran.output}", True
    shown = "".join(c if c in "\t\n" or unicodedata.category(c) != "Cc" else "\ufffd" for c in ran.output)
    if ran.ended:
        what = f"took longer than {SCRIPT_SECONDS:g} s" if ran.ended == "time" else "used too much memory"
        return f"Error: the script {what} and was stopped; it printed: {shortened(shown)}", True
    return shortened(shown) or "The script printed nothing.", False
