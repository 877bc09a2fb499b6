"""From the Moderator's text to a validated spec.

Models wrap JSON in fences and prose, leave trailing commas, or stop in the middle. What can be read is read; what
fails validation is dropped with its reason; nothing is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ecdysis_lab.records import LAYER_FILES, Change, Spec
from ecdysis_lab.review.context import Context
from ecdysis_lab.store.foreign import clean

MAX_ANSWER_CHARS = 400_000
MAX_STARTS = 2_000  # places where an object may begin; an answer with more is no answer
REFERENCE = re.compile(r"([0-9a-f]{8})[0-9a-f]*\s*#\s*(\d{1,6})\b")
PATTERN_LINE = re.compile(r"- (P\d+ |noise:)")
QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'"})
GUARD_VALUES = (str, int, float, bool, type(None))


def _text(value: Any) -> str:
    """A text as it is, anything else as JSON text: a model that writes objects for lines is still understood."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _lines(value: Any) -> Any:
    items = [] if value is None else value if isinstance(value, list) else [value]
    return [_text(item) for item in items]


def _number(value: Any) -> Any:
    """``"P3"`` as 3; a text without a number as None."""
    found = re.search(r"\d{1,6}", value) if isinstance(value, str) else None
    return (int(found[0]) if found else None) if isinstance(value, str) else value


Line = Annotated[str, BeforeValidator(_text)]
Lines = Annotated[list[str], BeforeValidator(_lines)]


class ChangeModel(BaseModel):
    """One change as the Moderator writes it."""

    model_config = ConfigDict(extra="ignore")
    layer: Literal["contract", "skills", "actions", "regulation"]
    file: Line = ""
    what: str = Field(min_length=3)
    why: Line = ""
    evidence: Lines
    must_still_allow: Lines = []
    guard: Any = None
    pattern: Annotated[int | None, BeforeValidator(_number)] = None


class SpecModel(BaseModel):
    """The whole answer; ``changes`` stay raw so that one bad change does not spoil the others."""

    model_config = ConfigDict(extra="ignore")
    patterns: Lines = []
    changes: list[Any]
    rejected: Lines = []
    notes: Line = ""


def schema() -> dict[str, Any]:
    """JSON schema of the answer, for models that take ``response_format``."""
    whole = SpecModel.model_json_schema()
    whole["properties"]["changes"] = {"type": "array", "items": ChangeModel.model_json_schema()}
    return whole


def find_json(text: str) -> Iterator[dict[str, Any]]:
    """Complete JSON objects with ``changes`` in a model's answer, in order; an object inside a found one is skipped.

    Trailing commas are forgiven; typographic quotes only where nothing is found otherwise. NaN becomes null.

    Raises
    ------
    ValueError: there is none, or the answer is too long to search.
    """
    if len(text) > MAX_ANSWER_CHARS:
        raise ValueError(f"the answer has {len(text)} characters, more than {MAX_ANSWER_CHARS}")
    without = re.sub(r",(\s*[}\]])", r"\1", text)
    for candidate in (text, without, without.translate(QUOTES)):
        found = list(_objects(candidate))
        if found:
            yield from found
            return
    raise ValueError("no complete JSON object with `changes` in the answer")


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder(parse_constant=lambda name: None)
    end = 0
    for start in [m.start() for m in re.finditer(r"\{", text)][:MAX_STARTS]:
        if start < end:
            continue
        try:
            found, stop = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):  # also an integer of thousands of digits
            continue
        if isinstance(found, dict) and "changes" in found:
            end = stop
            yield found


class NoChange(ValueError):
    """The Moderator asks for no change, and that is an answer."""


def undebated(context: Context) -> Spec:
    """The spec where nobody reviewed: the lines of the pattern table, and no change; the editor finds those itself.

    What the context says of this round, such as that one task is evidence enough, goes along as a note.
    """
    lines = _section(context.text, "Patterns").splitlines()
    patterns = tuple(line[2:] for line in lines if PATTERN_LINE.match(line))
    return Spec(patterns, (), notes=" ".join(_section(context.text, "This round").split()))


def _section(text: str, title: str) -> str:
    """Body of a section of the context; empty where there is none."""
    return f"\n{text}".partition(f"\n# {title}")[2].partition("\n")[2].partition("\n# ")[0]


def parse_spec(text: str, context: Context, strict: bool = False) -> Spec:
    """Validate the Moderator's answer against the context; of several objects the first usable one counts.

    Parameters
    ----------
    text : the answer. context : what it was made from.
    strict : whether a change of a wrong form spoils the answer, as for a person who can mend it, or is dropped.

    Raises
    ------
    NoChange: it asks for none.
    ValueError: no readable object, or none of its changes is usable; the message says why.
    """
    first: ValueError | None = None
    for found in find_json(clean(text)):
        try:
            return _spec(found, context, strict)
        except ValueError as why:
            first = first or why
    raise first or ValueError("no spec")


def check_form(text: str) -> None:
    """Look at an answer without its context, as far as that goes.

    Raises
    ------
    ValueError: no object in it has the form of a spec; the message names the field.
    """
    first: ValueError | None = None
    for found in find_json(clean(text)):
        try:
            for n, raw in enumerate(_whole(found).changes):
                _form(n, raw)
        except ValueError as why:
            first = first or why
        else:
            return
    raise first or ValueError("no spec")


def _whole(found: dict[str, Any]) -> SpecModel:
    try:
        return SpecModel.model_validate(json.loads(clean(json.dumps(found, ensure_ascii=False))))
    except ValidationError as why:
        raise ValueError(_first_error(why)) from why
    except RecursionError:
        raise ValueError("the object is nested too deeply") from None


def _form(n: int, raw: Any) -> ChangeModel:
    """The n-th change; a ValueError names the field that is wrong."""
    try:
        return ChangeModel.model_validate(raw)
    except ValidationError as why:
        raise ValueError(_first_error(why, "changes", n)) from why


def _spec(found: dict[str, Any], context: Context, strict: bool) -> Spec:
    whole = _whole(found)
    kept: list[Change] = []
    dropped: list[tuple[str, str]] = []
    for n, raw in enumerate(whole.changes):
        try:
            change, reason = _usable(_form(n, raw), context)
        except ValueError as why:
            if strict:
                raise
            change, reason = None, str(why)
        if change is not None:
            kept.append(change)
        if reason:
            dropped.append((_name(raw), reason))
    if not whole.changes:
        told = "; ".join(map(str, whole.rejected))
        raise NoChange(f"no usable change: it asks for no change{f', for: {told}' if told else ''}"[:2000])
    if not kept:
        raise ValueError(f"no usable change: {'; '.join(reason for _, reason in dropped)}"[:2000])
    return Spec(tuple(whole.patterns), tuple(kept), tuple(whole.rejected), whole.notes, tuple(dropped))


def _name(raw: Any) -> str:
    """What a dropped change was about; no repr of it, since it may be nested without end."""
    what = raw.get("what") if isinstance(raw, dict) else raw
    if isinstance(what, str):
        return what[:200]
    fields = ", ".join(map(str, raw))[:200] if isinstance(raw, dict) else ""
    return f"a change with {fields or 'nothing'}" if isinstance(raw, dict) else f"a {type(raw).__name__}"


def _first_error(why: ValidationError, *place: str | int) -> str:
    error = why.errors()[0]
    return f"{'.'.join(map(str, (*place, *error['loc'])))}: {error['msg']}"


def _usable(change: ChangeModel, context: Context) -> tuple[Change | None, str]:
    """The change, or None, and what was dropped and why (empty where nothing was)."""
    if change.file not in ("", LAYER_FILES[change.layer]):
        return None, f"file {change.file!r} is not the file of layer {change.layer}"
    evidence = [(m.group(1), int(m.group(2))) for e in change.evidence for m in REFERENCE.finditer(e)]
    real = [
        (t, s) for t, s in dict.fromkeys(evidence) if t in context.references and s < context.references[t]
    ]
    if not real:
        return None, "none of its evidence exists"
    if not any(context.pattern_of.get(t) in context.recurring for t, _ in real):
        return None, "its evidence is auxiliary only (no recurring pattern)"
    cited, shown = _tasks(real, context)
    if len(cited) == 1 < len(shown):
        return None, f"its evidence is all of task {cited.pop()}, though {len(shown)} tasks show its pattern"
    plain = change.guard is None or (isinstance(change.guard, dict) and _plain(change.guard))
    made = Change(
        layer=change.layer,
        file=LAYER_FILES[change.layer],
        what=change.what,
        why=change.why,
        evidence=tuple(f"{t}#{s}" for t, s in real),
        must_still_allow=tuple(change.must_still_allow),
        guard=change.guard if plain else None,
        pattern=change.pattern,
    )
    return (
        made,
        "" if plain else "its guard is left out: values must be texts, numbers, or lists or objects of them",
    )


def _tasks(real: list[tuple[str, int]], context: Context) -> tuple[set[str], set[str]]:
    """Labels of the tasks that a change cites, and of those that are shown of the recurring patterns that it cites."""
    patterns = {context.pattern_of.get(trial) for trial, _ in real} & context.recurring
    cited = {context.task_of[trial] for trial, _ in real if trial in context.task_of}
    return cited, {task for trial, task in context.task_of.items() if context.pattern_of[trial] in patterns}


def _plain(guard: dict[str, Any]) -> bool:
    """Whether a guard is flat: values, and at most one level of lists or objects of values."""
    inner = [v for value in guard.values() for v in (value.values() if isinstance(value, dict) else [value])]
    return all(
        isinstance(v, GUARD_VALUES) or (isinstance(v, list) and all(isinstance(i, GUARD_VALUES) for i in v))
        for v in inner
    )
