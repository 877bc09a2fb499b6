"""The simulated user of a dialogue: speaks from the scenario in its system prompt, by rule.

A user with tools of his own does what the agent asks for by the name of a tool, with the arguments of his gold calls.
"""

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


def reply(
    messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]] = (), plan: Sequence[Call] = ()
) -> str | Call:
    """The user's next message, or a call of one of his own tools.

    Parameters
    ----------
    messages : τ² user-simulator prompt: system with ``<scenario>``, then the agent as ``user`` and the user as
        ``assistant``.
    tools : schemas of the user's own tools. plan : his gold calls in order.
    """
    return (tools and _handled(messages, tools, plan)) or _said(messages)


def _handled(
    messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]], plan: Sequence[Call]
) -> str | Call:
    """What the latest message of the agent asks to do, one call after the other, then what came of it."""
    asked = max((n for n, m in enumerate(messages) if m["role"] == "user"), default=0)
    now = _called(messages[asked:])
    for name in _asked_for(messages[asked].get("content") or "", tools):
        if name not in now:
            golds = [call for call in plan if call.name == name]
            done = _called(messages).count(name)
            if golds:
                return golds[min(done, len(golds) - 1)]
            if not _required(name, tools):
                return Call(name, {})
    results = [m.get("content") or "" for m in messages[asked:] if m["role"] == "tool"]
    return f"I have done it. {' '.join(results)}" if results else ""


def _called(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [call["function"]["name"] for m in messages for call in m.get("tool_calls") or ()]


def _asked_for(text: str, tools: Sequence[dict[str, Any]]) -> list[str]:
    """Tools whose name stands in a text, in its order; of ``toggle data`` and ``toggle data saver`` the longer."""
    names = sorted((tool["function"]["name"] for tool in tools), key=len, reverse=True)
    found = re.findall(rf"(?<![a-z])(?:{'|'.join(names)})(?![a-z])", text.lower().replace(" ", "_"))
    return list(dict.fromkeys(found))


def _required(name: str, tools: Sequence[dict[str, Any]]) -> list[str]:
    schema = next(tool["function"] for tool in tools if tool["function"]["name"] == name)
    return list((schema.get("parameters") or {}).get("required") or ())


def _said(messages: Sequence[dict[str, Any]]) -> str:
    """What the user says to the latest message of the agent."""
    system = next((m["content"] for m in messages if m["role"] == "system"), "")
    scenario = system.partition("<scenario>")[2].partition("</scenario>")[0] or system
    said = [text for m in messages if m["role"] == "assistant" and (text := m.get("content"))]
    agent = next((m.get("content") or "" for m in reversed(messages) if m["role"] == "user"), "")
    if not said:
        return opening(scenario)
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
