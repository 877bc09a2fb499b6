"""From the Moderator's text to a validated spec.

Models wrap JSON in fences and prose, leave trailing commas, or stop in the middle. What can be read is read; what
fails validation is dropped with its reason; nothing is guessed.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ecdysis_lab.context import Context
from ecdysis_lab.records import LAYER_FILES, Change, Spec

MAX_ANSWER_CHARS = 400_000
REFERENCE = re.compile(r"([0-9a-f]{8})\s*#\s*(\d+)")


class ChangeModel(BaseModel):
    """One change as the Moderator writes it."""

    model_config = ConfigDict(extra="ignore")
    layer: Literal["contract", "skills", "actions", "regulation"]
    file: str = ""
    what: str = Field(min_length=3)
    why: str = ""
    evidence: list[str]
    must_still_allow: list[str] = []
    guard: dict[str, Any] | None = None
    pattern: int | None = None


class SpecModel(BaseModel):
    """The whole answer; ``changes`` stay raw so that one bad change does not spoil the others."""

    model_config = ConfigDict(extra="ignore")
    patterns: list[str] = []
    changes: list[dict[str, Any]]
    rejected: list[str] = []
    notes: str = ""


def schema() -> dict[str, Any]:
    """JSON schema of the answer, for models that take ``response_format``."""
    whole = SpecModel.model_json_schema()
    whole["properties"]["changes"] = {"type": "array", "items": ChangeModel.model_json_schema()}
    return whole


def find_json(text: str) -> dict[str, Any]:
    """The first complete JSON object in a model's answer.

    Raises
    ------
    ValueError: none, or too long an answer to search.
    """
    if len(text) > MAX_ANSWER_CHARS:
        raise ValueError(f"the answer has {len(text)} characters, more than {MAX_ANSWER_CHARS}")
    decoder = json.JSONDecoder()
    for start in (m.start() for m in re.finditer(r"\{", text)):
        for candidate in (text[start:], re.sub(r",(\s*[}\]])", r"\1", text[start:])):
            try:
                found, _ = decoder.raw_decode(candidate)
            except (json.JSONDecodeError, RecursionError):
                continue
            if isinstance(found, dict) and "changes" in found:
                return found
    raise ValueError("no complete JSON object with `changes` in the answer")


def parse_spec(text: str, context: Context) -> Spec:
    """Validate the Moderator's answer against the context.

    Raises
    ------
    ValueError: no readable object, or none of its changes is usable; the message says why.
    """
    found = find_json(text)
    try:
        whole = SpecModel.model_validate(found)
    except ValidationError as why:
        raise ValueError(_first_error(why)) from why
    kept: list[Change] = []
    dropped: list[tuple[str, str]] = []
    for raw in whole.changes:
        change, reason = _usable(raw, context)
        if change is not None:
            kept.append(change)
        else:
            dropped.append((str(raw.get("what", raw))[:200], reason))
    if not kept:
        reasons = "; ".join(reason for _, reason in dropped) or "it asks for no change"
        raise ValueError(f"no usable change: {reasons}")
    return Spec(tuple(whole.patterns), tuple(kept), tuple(whole.rejected), whole.notes, tuple(dropped))


def _first_error(why: ValidationError) -> str:
    error = why.errors()[0]
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}"


def _usable(raw: dict[str, Any], context: Context) -> tuple[Change | None, str]:
    """The change, or None and the reason why it is dropped."""
    try:
        change = ChangeModel.model_validate(raw)
    except ValidationError as why:
        return None, _first_error(why)
    if change.file not in ("", LAYER_FILES[change.layer]):
        return None, f"file {change.file!r} is not the file of layer {change.layer}"
    evidence = [(m.group(1), int(m.group(2))) for e in change.evidence for m in REFERENCE.finditer(e)]
    real = [(t, s) for t, s in evidence if t in context.references and s < context.references[t]]
    if not real:
        return None, "none of its evidence exists"
    if not any(context.pattern_of.get(t) in context.recurring for t, _ in real):
        return None, "its evidence is auxiliary only (no recurring pattern)"
    return (
        Change(
            layer=change.layer,
            file=LAYER_FILES[change.layer],
            what=change.what,
            why=change.why,
            evidence=tuple(f"{t}#{s}" for t, s in real),
            must_still_allow=tuple(change.must_still_allow),
            guard=change.guard,
            pattern=change.pattern,
        ),
        "",
    )
