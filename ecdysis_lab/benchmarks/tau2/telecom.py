"""τ² telecom: the agent has the operator's tools, the user those of his phone, and most gold acts are the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ecdysis_lab.benchmarks.tau2 import Tau2
from ecdysis_lab.benchmarks.tau2.dialogue import DENIED, FINAL, GIVE_UP, HUMAN, TRANSFER, asked_for
from ecdysis_lab.benchmarks.tau2.facts import PHONE_FIELDS, PHONE_FORMS, facts_of
from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Effect, Message, Oracle

ASK = "Please do this on your phone: {act}. Tell me what it says."


class Telecom(Tau2):
    """See :class:`ecdysis_lab.benchmarks.tau2.Tau2`; nobody wrote a harness or slips for it."""

    def __init__(self) -> None:
        super().__init__("telecom", "customer service and technical support of a phone company")
        self.human = self.slips = ""

    def facts(self, task_id: str, seen: Sequence[Message] = ()) -> dict[str, str]:
        """Facts that the messages show; without any, those of the scenario."""
        shown = seen or [Message("user", self._tasks[task_id].scenario)]
        return facts_of(shown, PHONE_FORMS, PHONE_FIELDS)

    def oracle(self, task_id: str) -> Oracle:
        """The gold dialogue: it identifies the customer, makes the agent's gold calls and asks for the user's."""
        gold = [
            (a.requestor == "user", Call(a.name, a.arguments))
            for a in self._item(task_id).evaluation_criteria.actions
        ]
        phone = PHONE_FORMS["phone number"].search(self._tasks[task_id].scenario)
        return guided(gold, phone[0] if phone else "", self.effect)


def guided(gold: Sequence[tuple[bool, Call]], phone: str, effect: Callable[[Call], Effect]) -> Oracle:
    """Gold turns of a task.

    Parameters
    ----------
    gold : (whether the user makes it, call) in order. phone : number that the scenario tells. effect : of a call.
    """
    turns: list[str | Call] = [Call("get_customer_by_phone", {"phone_number": phone})]
    for users, call in gold:
        if users:
            details = ", ".join(f"{k}: {v}" for k, v in call.arguments.items())
            turns.append(ASK.format(act=call.name.replace("_", " ") + (f" ({details})" if details else "")))
        else:
            turns += asked_for(call) if effect(call) == "write" else [call]
    last = HUMAN if any(call.name == TRANSFER for _, call in gold) else FINAL
    return Oracle((*turns, last), GIVE_UP, DENIED, tuple(call for users, call in gold if users))
