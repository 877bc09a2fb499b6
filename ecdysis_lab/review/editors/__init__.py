"""Registry of editors: short name -> dotted path of a class; any dotted path works too."""

from __future__ import annotations

import importlib
import os
import shutil
from typing import Any

from ecdysis_lab.models import HAND, ModelParams
from ecdysis_lab.records import Editor, LabError

REGISTRY: dict[str, str] = {
    "rules": "ecdysis_lab.review.editors.rules:RulesEditor",
    "opencode": "ecdysis_lab.review.editors.opencode:OpenCodeEditor",
    "litellm": "ecdysis_lab.review.editors.litellm:LiteLLMEditor",
    "hand": "ecdysis_lab.review.editors.hand:HandEditor",
}
SERVER_KEY = "OPENAI_API_KEY"  # what LiteLLM sends to the server of an ``openai/`` model, and to no other


def load(name: str, **options: Any) -> Editor:
    """An editor by name.

    Parameters
    ----------
    name : a key of ``REGISTRY``, or ``"package.module:Class"``. options : for its constructor.

    Raises
    ------
    LabError: unknown name, or nothing at the dotted path; the choices are listed.
    """
    path = REGISTRY.get(name, name)
    if ":" not in path:
        raise LabError(f"editor: unknown {name!r}; choose one of {', '.join(REGISTRY)} or give module:Class")
    module, _, attribute = path.partition(":")
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as why:
        raise LabError(f"editor: nothing at {path!r} ({why}); choose one of {', '.join(REGISTRY)}") from None
    made: Editor = kind(**options)
    return made


def chosen(name: str, model: str, api_base: str | None = None) -> str:
    """What ``auto`` stands for on this machine; any other name is itself.

    ``rules`` where the review model is simulated, ``hand`` where a person plays it; else ``opencode`` where it is
    installed and there is a server that it can talk to; else ``litellm``.

    Parameters
    ----------
    name : of an editor, or ``auto``. model, api_base : LiteLLM name of the review model and its server.
    """
    if name != "auto":
        return name
    if model.startswith("sim/"):
        return "rules"
    if model == HAND:
        return HAND
    served = model.startswith("openai/") and api_base
    return "opencode" if served and shutil.which("opencode") else "litellm"


def for_run(
    name: str,
    model: str,
    api_base: str | None = None,
    budget: Any = None,
    prompt_tokens: int = 80_000,
    params: ModelParams | None = None,
) -> Editor:
    """An editor for a training run; editors with a model use the run's review model.

    Parameters
    ----------
    name : as for :func:`chosen`. model, api_base : LiteLLM name of the review model and its server.
    budget : shared budget of the run. prompt_tokens : of one prompt at most. params : how ``litellm`` asks its model.

    Raises
    ------
    LabError: unknown name, or an editor that needs a model with a simulated one, or with answers by hand.
    """
    name = chosen(name, model, api_base)
    key = SERVER_KEY if model.startswith("openai/") and os.environ.get(SERVER_KEY) else None
    price = price_of(model) if name == "opencode" else None
    options: dict[str, dict[str, Any]] = {
        "opencode": {
            "model": model,
            "api_base": api_base,
            "api_key_env": key,
            "budget": budget,
            "usd_per_token": price,
        },
        "litellm": {
            "model": model,
            "api_base": api_base,
            "budget": budget,
            "prompt_tokens": prompt_tokens,
            "params": params,
        },
        HAND: {"prompt_tokens": prompt_tokens},
    }
    if name in ("opencode", "litellm") and (model.startswith("sim/") or model == HAND):
        other = HAND if model == HAND else "rules"
        raise LabError(
            f"editor {name!r} needs a real review model, got {model!r}; or choose the editor {other}"
        )
    return load(name, **options.get(name, {}))


def price_of(model: str) -> tuple[float, float] | None:
    """Price in USD of a prompt and of a completion token, or None where LiteLLM knows none; ``sim/`` is free."""
    if model.startswith("sim/"):
        return 0.0, 0.0
    import litellm

    for name in (model, model.partition("/")[2]):
        row = litellm.model_cost.get(name, {})
        if row.get("input_cost_per_token") and row.get("output_cost_per_token"):
            return float(row["input_cost_per_token"]), float(row["output_cost_per_token"])
    return None
