"""The simulated user of a dialogue: speaks from the scenario in its system prompt, by rule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ecdysis_lab.hooks import Call

PATIENCE_TURNS = 30
FIRST_PERSON = (
    (r"\byou are\b", "I am"), (r"\byou're\b", "I'm"), (r"\byou were\b", "I was"), (r"\byou have\b", "I have"),
    (r"\byours\b", "mine"), (r"\byour\b", "my"), (r"\byourself\b", "myself"), (r"\byou\b", "I"),
)  # fmt: skip
ENDS = re.compile(
    r"anything else|could not complete|great day|nice day|taken care of|has been completed", re.I
)
ASKS_YES = re.compile(r"confirm|proceed|\(yes|go ahead|shall i|would you like me to|is that correct", re.I)
ASKS_WHO = re.compile(r"your name|e-?mail|zip|verify|identif|\b\w+ (id|number)|which", re.I)


def _section(scenario: str, title: str) -> str:
    """One titled block of a τ² scenario (``Reason for call:`` …), joined to one line."""
    found = re.search(rf"{title}:[ \t]*\n?(.*?)(?=\n\s*(?:[A-Z][a-z]+(?: [a-z]+)*):\s*\n|\Z)", scenario, re.S)
    return " ".join(found.group(1).split()) if found else ""


def first_person(text: str) -> str:
    """A scenario sentence as the user would say it."""
    for pattern, word in FIRST_PERSON:
        text = re.sub(pattern, word, text, flags=re.I)
    return re.sub(r"\bI is\b", "I am", text)


def opening(scenario: str) -> str:
    """The first message: what is wanted and who asks."""
    reason, known = _section(scenario, "Reason for call"), _section(scenario, "Known info")
    text = " ".join(first_person(part) for part in (reason, known) if part)
    return text or first_person(" ".join(scenario.split()))


def _asked_for(agent: str, messages: Sequence[dict[str, Any]], plan: Sequence[Call]) -> Call | None:
    """The first call of the plan that is not made yet and that the agent's text names."""
    made = [c["function"]["name"] for m in messages for c in m.get("tool_calls") or ()]
    for call in plan:
        if call.name in made:
            made.remove(call.name)
        elif re.search(rf"\b{call.name.replace('_', '[_ ]')}\b", agent, re.I):
            return call
    return None


def reply(messages: Sequence[dict[str, Any]], plan: Sequence[Call] = ()) -> str | Call:
    """The user's next message, or a call of a tool of his own.

    Parameters
    ----------
    messages : τ² user-simulator prompt: system with ``<scenario>``, then the agent as ``user`` and the user as
        ``assistant``.
    plan : what he does with his own tools, in order, each when the agent asks for it by its name.
    """
    system = next((m["content"] for m in messages if m["role"] == "system"), "")
    scenario = system.partition("<scenario>")[2].partition("</scenario>")[0] or system
    said = [m.get("content") or "" for m in messages if m["role"] == "assistant" and not m.get("tool_calls")]
    agent = next((m.get("content") or "" for m in reversed(messages) if m["role"] == "user"), "")
    if not said:
        return opening(scenario)
    if messages[-1]["role"] == "tool":
        return f"I did that. It says: {messages[-1].get('content')}"
    act = _asked_for(agent, messages, plan)
    if act is not None:
        return act
    if "TRANSFERRED TO A HUMAN" in agent.upper():
        return "###TRANSFER###"
    if ENDS.search(agent) or len(said) >= PATIENCE_TURNS:
        return "No, that is all. Thank you. ###STOP###"
    if ASKS_YES.search(agent):
        return "Yes, please proceed."
    if "?" in agent and ASKS_WHO.search(agent):
        return first_person(_section(scenario, "Known info")) or "I do not remember that."
    wish = first_person(_section(scenario, "Reason for call"))
    return (
        f"What I need is this: {wish}"
        if said[-1] != f"What I need is this: {wish}"
        else "I have told you all I know."
    )
