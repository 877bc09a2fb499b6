"""What a benchmark gives every agent, and the comparable form of a call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ecdysis_lab.hooks import Call


@dataclass(frozen=True)
class Seat:
    """What a benchmark gives every agent.

    Parameters
    ----------
    system_prompt : its prompt with the policy in it. policy : the policy alone.
    tools : schemas ``{"name", "description", "parameters", "kind"}``.
    greeting : the agent's first message, which the benchmark sends itself.
    max_steps : message limit of a trial.
    """

    system_prompt: str
    policy: str
    tools: Sequence[dict[str, Any]]
    greeting: str = ""
    max_steps: int = 200


def tool_key(call: Call) -> str:
    """Name and arguments of a call as one comparable string."""
    return f"{call.name} {json.dumps(call.arguments, sort_keys=True, default=str)}"
