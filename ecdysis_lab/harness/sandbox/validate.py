"""What a hook may answer, checked on our side: the worker that sent it may be in any state.

Every function takes JSON data and raises ``HarnessFault`` of kind ``contract``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ecdysis_lab.harness.sandbox.pipe import HarnessFault
from ecdysis_lab.harness.static import HOOKS
from ecdysis_lab.hooks import Allow, Call, Realize, Refuse, Rewrite, Verdict
from ecdysis_lab.records import LAYER_FILES

MAX_DEPTH = 32
MAX_REALIZED = 8


def contract(hook: str, what: str) -> HarnessFault:
    """A fault of kind ``contract``."""
    return HarnessFault("contract", hook, LAYER_FILES[HOOKS[hook][0]], 0, what)


def text(hook: str, value: Any, what: str = "the answer") -> str:
    """A text that later stages can encode."""
    if not isinstance(value, str):
        raise contract(hook, f"{what} must be text, not {type(value).__name__}")
    if not clean(value):
        raise contract(hook, f"{what} is not valid Unicode text")
    return value


def tool(value: Any, before: dict[str, Any]) -> dict[str, Any]:
    """A described tool, checked against the one it came from."""
    if not isinstance(value, dict) or not clean(value):
        raise contract("describe", "must return a tool as plain JSON data")
    for key in ("name", "kind"):
        if value.get(key) != before.get(key):
            raise contract("describe", f"must not change the tool's {key}")
    text("describe", value.get("description"), "description")
    new, old = value.get("parameters"), before.get("parameters") or {}
    if not isinstance(new, dict) or not isinstance(new.get("properties", {}), dict):
        raise contract("describe", "parameters must be a JSON schema object")
    if set(new.get("properties", {})) != set(old.get("properties", {})):
        raise contract("describe", "must not add or remove parameters")
    return value


def verdict(hook: str, value: Any, tools: Collection[str] = ()) -> Verdict:
    """A verdict from its JSON form; None is an ``Allow()``. ``tools`` are those that a reply can be realized as."""
    if value is None:
        return Allow()
    if not isinstance(value, dict) or not clean(value):
        raise contract(hook, "must return Allow(), Rewrite(...) or Refuse(...) with plain JSON data")
    rule = text(hook, value.get("rule", ""), "rule")
    if value.get("kind") == "Allow":
        return Allow(rule)
    if value.get("kind") == "Refuse":
        reason, option = (text(hook, value.get(part), part) for part in ("reason", "option"))
        if not reason.strip() or not option.strip():
            raise contract(hook, "a refusal needs a reason and a valid option")
        return Refuse(reason, option, rule)
    if value.get("kind") == "Realize":
        return Realize(_calls(hook, value.get("calls"), tools), rule)
    arguments, reply = value.get("arguments"), value.get("text")
    if hook == "check":
        if not isinstance(arguments, dict) or reply is not None:
            raise contract(
                hook, "Rewrite of a call needs arguments=, the full new argument object, and no text="
            )
        return Rewrite(arguments=arguments, rule=rule)
    if not text(hook, reply, "text").strip() or arguments is not None:
        raise contract(hook, "Rewrite of a reply needs text=, not empty, and no arguments=")
    return Rewrite(text=reply, rule=rule)


def _calls(hook: str, value: Any, tools: Collection[str]) -> tuple[Call, ...]:
    if hook != "on_reply":
        raise contract(hook, "only a reply can be realized as calls; of a call return Rewrite(arguments=...)")
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_REALIZED:
        raise contract(hook, f"Realize needs calls=, one to {MAX_REALIZED} of them")
    for call in value:
        match call:
            case [str(name), dict()]:
                if name not in tools:
                    raise contract(
                        hook, f"there is no tool {name[:80]!r}; the tools are {', '.join(sorted(tools))}"
                    )
            case _:
                raise contract(hook, "Realize needs calls with a tool's name and an argument object")
    return tuple(Call(name, arguments) for name, arguments in value)


def clean(value: Any, depth: int = 0) -> bool:
    """Whether JSON data is safe for those after us: shallow, encodable text, integers of 64 bits."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, dict):
        return depth < MAX_DEPTH and all(clean(k) and clean(v, depth + 1) for k, v in value.items())
    if isinstance(value, list):
        return depth < MAX_DEPTH and all(clean(item, depth + 1) for item in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63
