"""From a model's text to a spec: what can be read is read, the rest falls with its reason."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from ecdysis_lab.review.context import Context
from ecdysis_lab.review.spec import MAX_ANSWER_CHARS, find_json, parse_spec, schema
from ecdysis_lab.store.run import Run

RECURRING, AUXILIARY = "0123abcd", "89abcdef"
CONTEXT = Context(
    text="evidence",
    references={RECURRING: 12, AUXILIARY: 5},
    recurring=frozenset({0}),
    pattern_of={RECURRING: 0, AUXILIARY: 1, "77777777": 0},
)
GUARD = {"kind": "contract_hint", "tool": "calculate", "text": "Digits only."}


def change(**other: Any) -> dict[str, Any]:
    return {
        "layer": "contract",
        "what": "say the form",
        "why": "unsaid",
        "evidence": [f"{RECURRING}#3"],
        **other,
    }


def answer(*changes: Any, **other: Any) -> dict[str, Any]:
    return {
        "patterns": ["P0: form"],
        "changes": list(changes) or [change()],
        "rejected": [],
        "notes": "",
        **other,
    }


GOOD = json.dumps(answer())
SAME = {
    "plain": GOOD,
    "indented": json.dumps(answer(), indent=2),
    "fence": f"```json\n{GOOD}\n```",
    "fence without a language": f"```\n{GOOD}\n```",
    "prose around": f"Here is my decision.\n\n{GOOD}\n\nI hope this helps {{really}}.",
    "set braces in prose before": f"The set {{a, b}} matters. {GOOD}",
    "trailing commas": GOOD.replace("}]", "},]").replace('""}', '"",}'),
    "two objects": f"{GOOD}\n{json.dumps(answer(change(what='another change')))}",
    "an unusable draft first": f"{json.dumps(answer(change(evidence=[])))} Better:\n{GOOD}",
    "thoughts first": f"<think>The form {{x}} fails.</think>{GOOD}",
    "wrapped in an object": json.dumps({"spec": answer()}),
    "braces in strings": json.dumps(answer(notes="use {placeholders} and }{")),
    "typographic quotes": GOOD.replace('"', "“", 1).replace('"', "”", 1),
    "byte order mark": "\ufeff" + GOOD,
    "control characters": GOOD + "\x00\x07",
    "half a surrogate": json.dumps(answer(notes="\ud83d")),
    "half a surrogate, raw": GOOD + "\udc80",
    "NaN": GOOD.replace('"notes": ""', '"notes": "", "confidence": NaN'),
    "NaN as pattern": json.dumps(answer(change(pattern=float("nan")))),
    "pattern as a name": json.dumps(answer(change(pattern="P0"))),
    "texts instead of lists": json.dumps(answer(change(evidence=f"see {RECURRING} # 3"), patterns="P0", rejected=None)),
    "objects instead of lines": json.dumps(answer(patterns=[{"id": 0, "name": "form"}], notes=["a", "b"])),
    "extra fields": json.dumps(answer(change(confidence=0.9), summary="x")),
    "one change is a text": json.dumps(answer("say the form", change())),
    "one change is null": json.dumps(answer(None, change())),
    "an unknown layer beside a known one": json.dumps(answer(change(layer="prompt"), change())),
    "an invented trial beside a real one": json.dumps(answer(change(evidence=["ffffffff#1", f"{RECURRING}#3"]))),
    "auxiliary evidence beside recurring": json.dumps(answer(change(evidence=[f"{AUXILIARY}#1", f"{RECURRING}#3"]))),
    "whole trial key": json.dumps(answer(change(evidence=[f"{RECURRING}0011223344556677#3"]))),
    "deep notes": GOOD.replace('"notes": ""', '"notes": ' + "[" * 700 + "]" * 700),
    "a deep change": GOOD.replace('"changes": [', '"changes": [' + "[" * 700 + "]" * 700 + ","),
    "guard is a text": json.dumps(answer(change(guard="contract_hint"))),
    "guard is nested": json.dumps(answer(change(guard={"kind": {"a": {"b": [{"c": 1}]}}}))),
}  # fmt: skip
NOTHING = {
    "empty": ("", "no complete JSON object"),
    "spaces": (" \n\t ", "no complete JSON object"),
    "refusal": ("I am sorry, I cannot help with that.", "no complete JSON object"),
    "truncated": (GOOD[: len(GOOD) // 2], "no complete JSON object"),
    "cut before the last brace": (GOOD[:-1], "no complete JSON object"),
    "single quotes": (str(answer()), "no complete JSON object"),
    "a list": (json.dumps([change()]), "no complete JSON object"),
    "a number": ("42", "no complete JSON object"),
    "no changes key": (json.dumps({"patterns": [], "edits": []}), "no complete JSON object"),
    "only braces": ("{" * 300_000, "no complete JSON object"),
    "nested without end": ('{"a":' * 60_000, "no complete JSON object"),
    "a megabyte": ("x" * 500_000 + GOOD + "y" * 500_000, f"more than {MAX_ANSWER_CHARS}"),
    "an endless number": ('{"changes": [' + "9" * 6000 + "]}", "no complete JSON object"),
    "changes is a text": (json.dumps(answer() | {"changes": "none"}), "changes: "),
    "changes is null": (json.dumps(answer() | {"changes": None}), "changes: "),
    "changes is an object": (json.dumps(answer() | {"changes": change()}), "changes: "),
    "no change": (json.dumps(answer() | {"changes": []}), "it asks for no change"),
    "no change, and why": (
        json.dumps(answer() | {"changes": [], "rejected": ["P2: seen on one task only"]}),
        "it asks for no change, for: P2: seen on one task only",
    ),
    "unknown layer": (json.dumps(answer(change(layer="prompt"))), "layer: Input should be 'contract'"),
    "layer is a number": (json.dumps(answer(change(layer=3))), "layer: "),
    "file of another layer": (json.dumps(answer(change(file="actions.py"))), "is not the file of layer contract"),
    "path outside": (json.dumps(answer(change(file="../../etc/passwd"))), "is not the file of layer contract"),
    "what is missing": (json.dumps(answer({"layer": "contract", "evidence": [f"{RECURRING}#3"]})), "what: Field required"),
    "what is a number": (json.dumps(answer(change(what=7))), "what: "),
    "evidence is missing": (json.dumps(answer({"layer": "contract", "what": "say it"})), "evidence: Field required"),
    "evidence is empty": (json.dumps(answer(change(evidence=[]))), "none of its evidence exists"),
    "invented trial": (json.dumps(answer(change(evidence=["ffffffff#1"]))), "none of its evidence exists"),
    "step past the end": (json.dumps(answer(change(evidence=[f"{RECURRING}#12"]))), "none of its evidence exists"),
    "a trial that was not shown": (json.dumps(answer(change(evidence=["77777777#1"]))), "none of its evidence exists"),
    "auxiliary only": (json.dumps(answer(change(evidence=[f"{AUXILIARY}#1"]))), "auxiliary only"),
}  # fmt: skip


def test_there_are_more_than_forty_answers() -> None:
    assert len(SAME) + len(NOTHING) >= 60


@pytest.mark.parametrize("name", SAME)
def test_readable_answers_give_the_one_change(name: str, tmp_path: Any) -> None:
    spec = parse_spec(SAME[name], CONTEXT)
    made = spec.changes[0]
    assert len(spec.changes) == 1
    assert (made.layer, made.file, made.what) == ("contract", "contract.py", "say the form")
    assert f"{RECURRING}#3" in made.evidence
    assert made.guard is None
    assert made.pattern in (None, 0)
    Run(tmp_path / "run").write_json("spec.json", spec)  # whatever a model wrote can be stored
    assert json.loads((tmp_path / "run/spec.json").read_text())["changes"][0]["what"] == "say the form"


@pytest.mark.parametrize("name", NOTHING)
def test_unusable_answers_say_why(name: str) -> None:
    text, reason = NOTHING[name]
    began = time.process_time()
    with pytest.raises(ValueError) as raised:
        parse_spec(text, CONTEXT)
    assert reason in str(raised.value)
    assert len(str(raised.value)) <= 2000
    assert time.process_time() - began < 5


def test_what_falls_is_recorded_with_its_reason() -> None:
    spec = parse_spec(
        json.dumps(
            answer(
                change(layer="prompt", what="rewrite the prompt"),
                change(what="an act of one task", evidence=[f"{AUXILIARY}#1"]),
                change(what="invented", evidence=["ffffffff#2"]),
                change(guard={**GUARD, "deep": {"a": {"b": 1}}}),
            )
        ),
        CONTEXT,
    )
    reasons = dict(spec.dropped)
    assert len(spec.changes) == 1
    assert reasons["rewrite the prompt"].startswith("changes.0.layer: ")
    assert reasons["an act of one task"] == "its evidence is auxiliary only (no recurring pattern)"
    assert reasons["invented"] == "none of its evidence exists"
    assert reasons["say the form"].startswith("its guard is left out")


def test_a_change_rests_on_two_tasks_where_two_are_shown() -> None:
    """P0 is shown on T1 and T2; what cites T1 alone falls, unless nothing else is shown or one task is enough."""
    other = "0123ffff"
    shown = replace(
        CONTEXT, references={**CONTEXT.references, other: 4}, pattern_of={**CONTEXT.pattern_of, other: 0},
        task_of={RECURRING: "T1", other: "T2", AUXILIARY: "T3"},
    )  # fmt: skip
    one, two = change(what="of one task"), change(evidence=[f"{RECURRING}#3", f"{other}#1"])
    spec = parse_spec(json.dumps(answer(one, two)), shown)
    assert [c.what for c in spec.changes] == ["say the form"]
    assert spec.dropped == (
        ("of one task", "its evidence is all of task T1, though 2 tasks show its pattern"),
    )
    beside = change(evidence=[f"{RECURRING}#3", f"{AUXILIARY}#1"])
    assert parse_spec(json.dumps(answer(beside)), shown).changes, "of two tasks, of which one pattern recurs"
    alone = replace(shown, task_of={RECURRING: "T1", AUXILIARY: "T3"})
    for context in (alone, replace(shown, task_of={})):
        assert parse_spec(json.dumps(answer(one)), context).dropped == ()


def test_a_flat_guard_is_kept_as_it_is() -> None:
    guard = {"kind": "argument_names", "names": {"note": None, "order_number": "order_id"}}
    assert parse_spec(json.dumps(answer(change(guard=guard))), CONTEXT).changes[0].guard == guard


def test_evidence_keeps_real_references_once() -> None:
    cited = [f"{RECURRING}#3, {RECURRING}#4", f"{RECURRING}#3", "ffffffff#9"]
    made = parse_spec(json.dumps(answer(change(evidence=cited))), CONTEXT).changes[0]
    assert made.evidence == (f"{RECURRING}#3", f"{RECURRING}#4")


def test_every_object_of_an_answer_is_found_once() -> None:
    inner = answer(change(guard={"changes": [1]}))
    assert list(find_json(f"{json.dumps(inner)} {GOOD}")) == [inner, json.loads(GOOD)]


def test_the_schema_names_what_a_model_has_to_write() -> None:
    whole = schema()
    assert set(whole["properties"]) == {"patterns", "changes", "rejected", "notes"}
    item = whole["properties"]["changes"]["items"]
    assert item["properties"]["layer"]["enum"] == ["contract", "skills", "actions", "regulation"]
    assert set(item["required"]) == {"layer", "what", "evidence"}
    json.dumps(whole)
