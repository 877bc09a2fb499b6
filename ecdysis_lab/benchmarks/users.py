"""The user side of a trial: which model plays it, and its faults.

A weak model playing the customer may greet back, or hang up before the agent has done anything; the benchmark can
then score 1.0 for a trial in which nothing happened. Such trials are neither success nor failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ecdysis_lab.models import Budget, ModelParams
from ecdysis_lab.records import Message, Usage

STOPS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
AGENT_PHRASES = ("how can i help you", "how can i assist you", "how may i help you", "how may i assist you")


@dataclass
class UserSpec:
    """The user side of one trial: model, parameters, budget, metadata for ``sim`` models, and what it consumed."""

    model: str
    params: ModelParams = field(default_factory=ModelParams)
    budget: Budget | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)


def user_fault(messages: Sequence[Message], tried: bool = False) -> str | None:
    """What is wrong with the user's side of a conversation, or None.

    Parameters
    ----------
    messages : the environment's transcript, which starts with the agent's greeting.
    tried : whether the agent tried a call, be it one that its harness refused and the transcript does not show.

    Returns
    -------
    A sentence for: no user message at all, hanging up before the agent made a call or had two turns, repeating
    the agent's own message, or talking as the agent.
    """
    said = [(i, m.content or "") for i, m in enumerate(messages) if m.role == "user"]
    words = [_plain(text) for _, text in said]
    if not said:
        return "the user said nothing"
    stop = next((i for i, text in said if any(s in text for s in STOPS)), None)
    if stop is not None and not tried and _idle(messages[:stop]):
        return "the user ended the conversation before the agent could act"
    for n, (i, _) in enumerate(said):
        before = next(
            (m.content or "" for m in reversed(messages[:i]) if m.role == "assistant" and m.content), ""
        )
        if (
            words[n] and words[n] == _plain(before) and words[n] not in words[:n]
        ):  # else the agent is the parrot
            return f"the user repeated the agent's message (message {i})"
    first = words[0]
    if any(first.startswith(p) or first.endswith(p) for p in AGENT_PHRASES) and len(first) < 120:
        return "the user spoke as if it were the agent"
    return None


def _idle(before: Sequence[Message]) -> bool:
    agent_turns = [m for m in before if m.role == "assistant"][
        1:
    ]  # the first is the benchmark's own greeting
    return len(agent_turns) < 2 and not any(m.calls for m in agent_turns)


def _plain(text: str) -> str:
    return " ".join(text.lower().replace("?", " ").replace("!", " ").replace(".", " ").split())
