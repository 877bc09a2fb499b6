"""How a model is asked: the sampling parameters that belong to a trial's identity, and no key."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ecdysis_lab.records import LabError
from ecdysis_lab.store.secrets import public_url

_SECRET = re.compile(
    r"api_?key|secret|password|credential|headers|(?<!per)_token$|authorization", re.IGNORECASE
)
_OWN_ARGUMENTS = (
    "model", "messages", "tools", "seed", "metadata", "timeout", "num_retries", "max_retries", "stream",
    "response_format", "temperature", "max_tokens", "api_base", "base_url", "drop_params",
)  # fmt: skip


@dataclass(frozen=True)
class ModelParams:
    """How a model is asked.

    Parameters
    ----------
    temperature : sampling temperature.
    api_base : server URL for vLLM, llama.cpp, Ollama and the like.
    max_tokens : longest answer in tokens.
    timeout_seconds : wall clock of one attempt.
    extra : further LiteLLM arguments, e.g. ``top_p`` or ``input_cost_per_token``.

    Raises
    ------
    LabError: ``extra`` holds a key, or an argument that this module sets itself.
    """

    temperature: float = 0.0
    api_base: str | None = None
    max_tokens: int | None = None
    timeout_seconds: float = 120.0
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.extra:
            if _SECRET.search(name):
                raise LabError(
                    f"extra.{name}: keys come from the environment only; set the provider's variable"
                )
            if name in _OWN_ARGUMENTS:
                raise LabError(f"extra.{name} is set by the lab; extra takes LiteLLM arguments such as top_p")

    def to_json(self) -> str:
        """What can change an answer, as JSON text for ``Trial.model_params``: no key, no timeout."""
        values = {
            "temperature": self.temperature,
            "api_base": public_url(self.api_base),
            "max_tokens": self.max_tokens,
            "extra": self.extra or None,
        }
        return json.dumps(
            {name: value for name, value in values.items() if value is not None}, sort_keys=True
        )
