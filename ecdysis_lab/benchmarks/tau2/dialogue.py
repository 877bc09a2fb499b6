"""The gold dialogue of a task: gold calls as an agent makes them that asks before it writes and tells what it found."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Effect, Oracle

FINAL = "Everything you asked for has been taken care of. Is there anything else I can help you with?"
DENIED = (
    "I have looked into this, and our policy does not allow anything further here. Is there anything else?"
)
GIVE_UP = "I am sorry, I could not complete this request. Is there anything else?"
HUMAN = "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."
WHO = "I can help with that. Could you tell me your name and zip code, so that I can verify you?"
TRANSFER = "transfer_to_human_agents"
Read = Callable[[str, dict[str, Any]], Any]


def customer_of(plan: Sequence[Call], scenario: str, read: Read) -> dict[str, Any]:
    """Profile of the customer that a plan or a scenario identifies; empty where neither does."""
    ids = [c.arguments.get("user_id") for c in plan] + re.findall(r"\b[a-z]+_[a-z]+_\d{4}\b", scenario)
    known = next((i for i in ids if i), None)
    finder = next((c for c in plan if c.name.startswith("find_user")), None)
    if known is None and finder is not None:
        known = read(finder.name, finder.arguments)
    return (read("get_user_details", {"user_id": known}) if known else None) or {}


def asked_for(call: Call) -> list[str | Call]:
    """The call after the question whether to make it."""
    details = ", ".join(f"{k}: {v}" for k, v in call.arguments.items())
    act = f"{call.name.replace('_', ' ')} ({details})"
    return [f"To confirm, I will do this: {act}. Do you confirm (yes/no)?", call]


def request(call: Call) -> str:
    """What an agent says to have the user do something with his own tools."""
    details = ", ".join(f"{k}: {v}" for k, v in call.arguments.items())
    return f"Please do this on your phone now: {call.name.replace('_', ' ')}{f' ({details})' if details else ''}."


def guided(gold: Sequence[tuple[str, Call]], effect: Callable[[Call], Effect]) -> Oracle:
    """Gold turns of a task whose user has tools of his own: his calls are asked for, one by one, in the gold order.

    Parameters
    ----------
    gold : (``"user"`` or ``"assistant"``, call) in order. effect : of a call of the agent's.
    """
    turns: list[str | Call] = []
    user_calls = tuple(call for who, call in gold if who == "user")
    for who, call in gold:
        if who == "user":
            turns.append(request(call))
        else:
            turns += asked_for(call) if effect(call) == "write" else [call]
    handed_over = any(call.name == TRANSFER for _, call in gold)
    return Oracle((*turns, HUMAN if handed_over else FINAL), GIVE_UP, DENIED, user_calls)


def dialogue(
    gold: Sequence[Call],
    told: Sequence[str],
    effect: Callable[[Call], Effect],
    customer: dict[str, Any],
) -> Oracle:
    """Gold turns of a task.

    Parameters
    ----------
    gold : gold calls. told : figures that the user has to hear. effect : of a call. customer : profile, or empty.
    """
    plan = list(gold)
    if all(effect(c) == "write" for c in plan) and customer:  # it looks before it writes
        plan.insert(0, Call("get_user_details", {"user_id": customer["user_id"]}))
    turns: list[str | Call] = [] if any(effect(c) == "read" for c in plan) else [WHO]
    for call in plan:
        turns += asked_for(call) if effect(call) == "write" else [call]
        if call.name == TRANSFER:
            return Oracle((*turns, HUMAN), GIVE_UP, DENIED)
    figures = [f"For your question, the figure is {figure}." for figure in told]
    last = FINAL if any(effect(c) == "write" for c in plan) else DENIED
    return Oracle((*turns, " ".join([*figures, last])), GIVE_UP, DENIED)
