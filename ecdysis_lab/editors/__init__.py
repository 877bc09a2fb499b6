"""Registry of editors: short name -> dotted path of a class; any dotted path works too."""

from __future__ import annotations

import importlib
from typing import Any

from ecdysis_lab.records import Editor, LabError

REGISTRY: dict[str, str] = {
    "rules": "ecdysis_lab.editors.rules:RulesEditor",
    "opencode": "ecdysis_lab.editors.opencode:OpenCodeEditor",
    "litellm": "ecdysis_lab.editors.litellm:LiteLLMEditor",
}


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
