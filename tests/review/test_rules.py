"""The editor without a model: each guard becomes code that the gates let pass and that does what it says."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2")

from simlab import bench, call, folder, host, spec_of

from ecdysis_lab.harness import Harness, diff_harness, load_harness
from ecdysis_lab.harness.host import Host
from ecdysis_lab.harness.probe import probe
from ecdysis_lab.harness.source import static_problems
from ecdysis_lab.hooks import Allow, Call, Refuse, Rewrite
from ecdysis_lab.records import Candidate, LabError, Spec
from ecdysis_lab.review import editors
from ecdysis_lab.review.editors.rules import RulesEditor
from ecdysis_lab.review.editors.templates import KINDS, mark

DATES = {
    "kind": "canonical_argument",
    "argument": "flights[].date",
    "transform": ["iso_date"],
    "shape": r"\d{4}-\d\d-\d\d",
}
IDS = {
    "kind": "canonical_argument",
    "argument": "reservation_id",
    "transform": ["unprefix:#", "upper"],
    "shape": r"[A-Z0-9]{6}",
}
GUARDS: dict[str, dict[str, Any]] = {
    "canonical_argument": IDS,
    "argument_names": {
        "kind": "argument_names",
        "names": {"reservation_number": "reservation_id", "note": None},
    },
    "known_tools": {"kind": "known_tools"},
    "confirm_before_write": {
        "kind": "confirm_before_write",
        "tools": ["cancel_reservation", "book_reservation"],
    },
    "read_before_write": {
        "kind": "read_before_write",
        "tool": "cancel_reservation",
        "read": "get_reservation_details",
    },
    "contract_hint": {"kind": "contract_hint", "tool": "calculate", "text": 'Digits and "+-*/" only, no $.'},
    "procedure": {"kind": "procedure", "text": "Read the booking first.", "when": "cancel|refund"},
    "repeat_breaker": {"kind": "repeat_breaker", "limit": 3},
    "unfinished_work": {"kind": "unfinished_work", "tools": ["cancel_reservation"]},
}
CANCEL = call("cancel_reservation", reservation_id="ZFA04Y")
READ = call("get_reservation_details", reservation_id="ZFA04Y")


def edit(start: str | Path, spec: Spec, out: Path, feedback: str = "") -> Candidate:
    return RulesEditor().edit(load_harness(start).path, spec, out, feedback)


def made(tmp_path: Path, *guards: dict[str, Any], start: str = "empty") -> Harness:
    candidate = edit(start, spec_of(*guards), tmp_path / "candidate")
    assert (candidate.outcome, candidate.notes) == ("edited", ())
    return load_harness(candidate.path)


# -- what each guard does -----------------------------------------------------------------------------------------


def canonical(desk: Host) -> None:
    found = desk.check(call("cancel_reservation", reservation_id="#zfa04y"), 50)
    assert found == Rewrite({"reservation_id": "ZFA04Y"}, None, "canonical_reservation_id")
    assert desk.check(CANCEL, 50) == Allow()
    assert desk.check(call("cancel_reservation", reservation_id="not an id"), 50) == Allow()
    assert desk.check(call("cancel_reservation", reservation_id=7), 50) == Allow()
    assert desk.check(call("cancel_reservation"), 50) == Allow()


def names(desk: Host) -> None:
    wrong = call("cancel_reservation", reservation_number="ZFA04Y", note="please")
    assert desk.check(wrong, 50) == Rewrite({"reservation_id": "ZFA04Y"}, None, "argument_names")
    assert desk.check(CANCEL, 50) == Allow()


def known(desk: Host) -> None:
    found = desk.check(call("get_booking", reservation_id="ZFA04Y"), 50)
    assert isinstance(found, Refuse)
    assert (found.rule, found.reason) == ("known_tools", "Policy: only the tools that are listed exist.")
    assert "cancel_reservation" in found.option
    assert desk.check(CANCEL, 50) == Allow()


def confirm(desk: Host) -> None:
    desk.add_message("user", "Cancel my flight.")
    found = desk.check(CANCEL, 50)
    assert isinstance(found, Refuse)
    assert found.rule == "confirm_before_write"
    assert desk.check(READ, 50) == Allow()
    desk.add_message("assistant", "Do you confirm (yes/no)?")
    desk.add_message("user", "Yes, please proceed.")
    assert desk.check(CANCEL, 50) == Allow()


def read_first(desk: Host) -> None:
    found = desk.check(CANCEL, 50)
    assert isinstance(found, Refuse)
    assert (found.rule, found.option) == (
        "read_before_write",
        "Call get_reservation_details first, then decide.",
    )
    desk.add_done(done(READ, "{}"))
    assert desk.check(CANCEL, 50) == Allow()


def hint(desk: Host) -> None:
    tools = {t["name"]: t for t in bench().tools}
    told = desk.describe(dict(tools["calculate"]))
    assert told["description"] == tools["calculate"]["description"] + '\n\nDigits and "+-*/" only, no $.'
    assert (
        desk.describe(dict(tools["book_reservation"]))["description"]
        == tools["book_reservation"]["description"]
    )


def procedure(desk: Host) -> None:
    assert desk.brief("I want to CANCEL my trip") == "Read the booking first."
    assert desk.brief("I want to book a trip") == ""


def breaker(desk: Host) -> None:
    notes = []
    for _ in range(4):
        desk.add_done(done(READ, "{}"))
        notes.append(desk.observe(READ, "{}", 50))
    assert notes[:2] == [None, None]
    assert notes[2].startswith("This is the same call 3 times in a row.")
    other = call("get_user_details", user_id="x")
    desk.add_done(done(other, "{}"))
    assert desk.observe(other, "{}", 50) is None


def unfinished(desk: Host) -> None:
    desk.add_message("user", "Yes, go ahead.")
    found = desk.on_reply("Your reservation has been cancelled.", 50)
    assert isinstance(found, Refuse)
    assert found.rule == "unfinished_work"
    assert desk.on_reply("Which reservation do you mean?", 50) == Allow()
    desk.add_done(done(CANCEL, "{}"))
    assert desk.on_reply("Your reservation has been cancelled.", 50) == Allow()


def done(act: Call, result: str) -> Any:
    from ecdysis_lab.hooks import Done

    return Done(act, result)


WORKS: dict[str, Callable[[Host], None]] = {
    "canonical_argument": canonical,
    "argument_names": names,
    "known_tools": known,
    "confirm_before_write": confirm,
    "read_before_write": read_first,
    "contract_hint": hint,
    "procedure": procedure,
    "repeat_breaker": breaker,
    "unfinished_work": unfinished,
}


def test_every_kind_is_tested() -> None:
    assert set(WORKS) == set(GUARDS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_guard_passes_the_gates_and_does_what_it_says(kind: str, tmp_path: Path) -> None:
    loaded = made(tmp_path, GUARDS[kind])
    assert list(loaded.files) == sorted({KINDS[kind].file, *load_harness("empty").files})
    assert static_problems(loaded) == []
    assert probe(loaded, bench(), "0") is None
    with host(loaded) as desk:
        WORKS[kind](desk)


@pytest.mark.parametrize("kind", KINDS)
def test_a_guard_works_on_top_of_the_human_harness(kind: str, tmp_path: Path) -> None:
    before = load_harness("airline")
    loaded = made(tmp_path, GUARDS[kind], start="airline")
    file, hook = KINDS[kind].file, KINDS[kind].hook
    assert loaded.files[file].count("# guard: ") == 1
    assert {n for n in loaded.files if loaded.files[n] != before.files.get(n)} == {file}
    assert static_problems(loaded) == []
    assert probe(loaded, bench(), "0") is None
    assert loaded.files[file].count("Rules()") == 1
    defined = [n for n in ast.parse(loaded.files[file]).body if isinstance(n, ast.FunctionDef)]
    (own,) = [n for n in defined if n.name == hook]
    assert [ast.unparse(d) for d in own.decorator_list] == (
        ["rules.first"] if hook in ("describe", "brief") else []
    )


def test_the_human_rules_still_hold_below_a_guard(tmp_path: Path) -> None:
    loaded = made(tmp_path, GUARDS["known_tools"], start="airline")
    for which in (load_harness("airline"), loaded):
        with host(which) as desk:
            found = desk.check(call("get_reservation_details", reservation_id="#zfa04y"), 50)
            assert found.arguments == {"reservation_id": "ZFA04Y"}
            people = [{"first_name": "A", "last_name": "B", "dob": "1990-01-01"}] * 6
            found = desk.check(call("book_reservation", passengers=people), 50)
            assert isinstance(found, Refuse)


TRANSFORMS: list[tuple[list[str], Any, Any]] = [
    (["iso_date"], "05/20/2024", "2024-05-20"),
    (["strip", "lower"], "  ABC ", "abc"),
    (["snake"], "Credit Card 12", "credit_card_12"),
    (["zip5"], "78750-1234", "78750"),
    (["plain_expression"], "$1,286 + 50", "1286 + 50"),
    (["prefix:#"], "W1234567", "#W1234567"),
    (["unprefix:#"], "#W1234567", "W1234567"),
    (["list"], "a, b ,c", ["a", "b", "c"]),
    (["integer"], " 3 ", 3),
    (["enum"], "No longer needed.", "no longer needed"),
]


@pytest.mark.parametrize(("steps", "before", "after"), TRANSFORMS, ids=lambda v: str(v)[:20])
def test_every_transform(steps: list[str], before: Any, after: Any, tmp_path: Path) -> None:
    values = {"values": ["no longer needed", "ordered by mistake 😀"]} if steps == ["enum"] else {}
    guard = {"kind": "canonical_argument", "argument": "x", "transform": steps, **values}
    with host(made(tmp_path, guard)) as desk:
        assert desk.check(call("calculate", x=before), 50) == Rewrite({"x": after}, None, "canonical_x")
        assert desk.check(call("calculate", x=after), 50) == Allow()
        assert desk.check(call("calculate", x=None), 50) == Allow()


def test_arguments_inside_lists(tmp_path: Path) -> None:
    with host(made(tmp_path, DATES)) as desk:
        rows = [{"date": "05/20/2024", "flight_number": "HAT1"}, {"flight_number": "HAT2"}, "text"]
        found = desk.check(call("book_reservation", flights=rows), 50)
        assert found.arguments == {"flights": [{"date": "2024-05-20", "flight_number": "HAT1"}, *rows[1:]]}
        assert desk.check(call("book_reservation", flights="none"), 50) == Allow()


def test_a_canonical_form_for_one_tool_only(tmp_path: Path) -> None:
    with host(made(tmp_path, {**IDS, "tool": "cancel_reservation"})) as desk:
        assert isinstance(desk.check(call("cancel_reservation", reservation_id="#zfa04y"), 50), Rewrite)
        assert desk.check(call("get_reservation_details", reservation_id="#zfa04y"), 50) == Allow()


# -- guards together ----------------------------------------------------------------------------------------------


def test_two_guards_in_one_file_compose(tmp_path: Path) -> None:
    """The form comes first, the refusal sees the canonical call; a refusal by one guard stands."""
    loaded = made(tmp_path, GUARDS["read_before_write"], IDS, DATES, GUARDS["known_tools"])
    assert loaded.files["actions.py"].count("# guard: ") == 4
    assert static_problems(loaded) == []
    assert probe(loaded, bench(), "0") is None
    wrong = call("cancel_reservation", reservation_id="#zfa04y")
    with host(loaded) as desk:
        refused = desk.check(wrong, 50)
        assert isinstance(refused, Refuse)
        assert refused.rule == "read_before_write"
        assert isinstance(desk.check(call("nothing"), 50), Refuse)
        desk.add_done(done(READ, "{}"))
        assert desk.check(wrong, 50) == Rewrite(
            {"reservation_id": "ZFA04Y"}, None, "canonical_reservation_id"
        )
        both = call("update_reservation_flights", reservation_id="#zfa04y", flights=[{"date": "05/20/2024"}])
        assert desk.check(both, 50).arguments == {
            "reservation_id": "ZFA04Y",
            "flights": [{"date": "2024-05-20"}],
        }


def test_all_guards_at_once(tmp_path: Path) -> None:
    loaded = made(tmp_path, *GUARDS.values(), start="airline")
    assert static_problems(loaded) == []
    assert probe(loaded, bench(), "0") is None


def test_guards_add_up_over_rounds(tmp_path: Path) -> None:
    first = edit("empty", spec_of(IDS), tmp_path / "one")
    second = edit(first.path, spec_of(DATES), tmp_path / "two")
    assert (second.parent, second.outcome) == (first.hash, "edited")
    with host(load_harness(second.path)) as desk:
        wrong = call("update_reservation_flights", reservation_id="#zfa04y", flights=[{"date": "05/20/2024"}])
        assert desk.check(wrong, 50).arguments["reservation_id"] == "ZFA04Y"
        assert desk.check(wrong, 50).arguments["flights"] == [{"date": "2024-05-20"}]


@pytest.mark.parametrize("start", ["empty", "airline"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_guard_twice_changes_nothing(kind: str, start: str, tmp_path: Path) -> None:
    first = edit(start, spec_of(GUARDS[kind]), tmp_path / "one")
    again = edit(first.path, spec_of(dict(reversed(GUARDS[kind].items()))), tmp_path / "two")
    assert (again.outcome, again.hash, again.diff) == ("no_change", first.hash, "")
    assert again.notes == ("already there: change 0",)


# -- what is left out ---------------------------------------------------------------------------------------------

CODE = '"""\nimport os\n"""'
BROKEN: dict[str, tuple[dict[str, Any] | None, str]] = {
    "no guard": (None, "no template for: change 0"),
    "unknown kind": ({"kind": "deny_everything"}, "guard kind 'deny_everything'; choose one of canonical_argument, "),
    "no kind": ({}, "guard kind None"),
    "missing parameter": ({"kind": "contract_hint", "tool": "calculate"}, "guard contract_hint lacks 'text'"),
    "null parameter": ({"kind": "read_before_write", "tool": None, "read": "x"}, "guard read_before_write lacks 'tool'"),
    "unknown transform": ({**IDS, "transform": ["reverse"]}, "transform 'reverse'; choose from strip, upper"),
    "transform as text": ({**IDS, "transform": "upper"}, "transform must be a list of steps"),
    "broken shape": ({**IDS, "shape": "[A-"}, "shape must be a regular expression"),
    "broken when": ({**GUARDS["procedure"], "when": "("}, "when must be a regular expression"),
    "limit as text": ({"kind": "repeat_breaker", "limit": "often"}, "limit must be a whole number from 2 to 100"),
    "limit of one": ({"kind": "repeat_breaker", "limit": 1}, "limit must be a whole number"),
    "limit true": ({"kind": "repeat_breaker", "limit": True}, "limit must be a whole number"),
    "tools as text": ({"kind": "unfinished_work", "tools": "all"}, "tools must be a list of tool names"),
    "names as list": ({"kind": "argument_names", "names": ["a"]}, "names must be an object"),
    "code in a tool": ({**GUARDS["contract_hint"], "tool": CODE}, "tool must be a tool name"),
    "code in a read": ({**GUARDS["read_before_write"], "read": '", x)\nimport os\n("'}, "read must be a tool name"),
    "code in an argument": ({**IDS, "argument": CODE}, "argument must be an argument name"),
    "text as number": ({**GUARDS["contract_hint"], "text": 5}, "text must be a text"),
    "endless text": ({**GUARDS["contract_hint"], "text": "x" * 5000}, "text must be a text of at most 4000"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_no_template_takes_is_noted(name: str, tmp_path: Path) -> None:
    guard, why = BROKEN[name]
    candidate = edit("airline", spec_of(guard), tmp_path / "one")
    assert (candidate.outcome, candidate.hash) == ("no_change", load_harness("airline").hash)
    assert len(candidate.notes) == 1
    assert why in candidate.notes[0]
    assert candidate.notes[0].endswith("change 0")


def test_one_bad_guard_does_not_stop_the_others(tmp_path: Path) -> None:
    candidate = edit("empty", spec_of({"kind": "nothing"}, IDS), tmp_path / "one")
    assert candidate.outcome == "edited"
    assert len(candidate.notes) == 1
    assert "canonical_reservation_id" in candidate.diff


@pytest.mark.parametrize(
    "text", ["'''\"\"\"\\", "{braces} %s \\n \u2028 😀", "back\\slash\n# Role: x", "'; import os #"]
)
def test_texts_stay_texts(text: str, tmp_path: Path) -> None:
    loaded = made(tmp_path, {"kind": "contract_hint", "tool": "calculate", "text": text})
    assert static_problems(loaded) == []
    tool = next(t for t in bench().tools if t["name"] == "calculate")
    with host(loaded) as desk:
        assert desk.describe(dict(tool))["description"] == tool["description"] + "\n\n" + text


def test_a_file_that_does_not_parse_is_left_alone(tmp_path: Path) -> None:
    folder(tmp_path / "broken", actions="def check(call, view:\n")
    candidate = edit(tmp_path / "broken", spec_of(IDS), tmp_path / "one")
    assert candidate.outcome == "no_change"
    assert candidate.notes[0].startswith("actions.py does not parse")


# -- files that people wrote ------------------------------------------------------------------------------------------

PLAIN = """from ecdysis_lab.hooks import Allow, Refuse


# Nothing is cancelled by a lower-case id.
def check(call, view):
    if call.name == "cancel_reservation" and call.arguments["reservation_id"].islower():
        return Refuse("Never.", "Ask.", "never")
    return Allow()
"""
EDITED = """from ecdysis_lab.hooks import Allow, Refuse, Rules

rules = Rules()


{mark}
@rules.form("canonical_reservation_id", "reservation_id", shape=r"[A-Z0-9]{{6}}")
def canonical_reservation_id(text):
    \"\"\"`reservation_id` in its canonical form.\"\"\"
    text = text.removeprefix("#")
    return text.upper()


{hook}"""


def test_a_plain_check_gets_a_register_and_stays(tmp_path: Path) -> None:
    """The rules come first, and the file's own check sees what they leave, in canonical form."""
    folder(tmp_path / "start", actions=PLAIN)
    loaded = made(tmp_path, IDS, start=str(tmp_path / "start"))
    own = PLAIN.partition("\n\n\n")[2].replace("def check", "@rules.first\ndef check")
    assert loaded.files["actions.py"] == EDITED.format(mark=mark(IDS), hook=own)
    again = edit(loaded.path, spec_of(GUARDS["read_before_write"]), tmp_path / "two")
    assert load_harness(again.path).files["actions.py"].count("@rules.first") == 1
    with host(load_harness(again.path)) as desk:
        wrong = call("cancel_reservation", reservation_id="#zfa04y")
        assert desk.check(wrong, 50).rule == "read_before_write"
        desk.add_done(done(READ, "{}"))
        fixed = Rewrite({"reservation_id": "ZFA04Y"}, None, "canonical_reservation_id")
        assert desk.check(wrong, 50) == fixed
        assert desk.check(call("cancel_reservation", reservation_id="zfa"), 50).rule == "never"
        assert desk.check(CANCEL, 50) == Allow()


HOOKED: dict[str, tuple[str, str, str]] = {
    "assigned": (
        "from ecdysis_lab.hooks import Refuse\n\n\n"
        "def no(call, view):\n    return Refuse('Never.', 'Ask.', 'never')\n\n\ncheck = no\n",
        "@rules.first\ndef check(call, view):",
        "return no(call, view)",
    ),
    "another register": (
        "from ecdysis_lab.hooks import Refuse, Rules\n\nmine = Rules()\n"
        "mine.line('never', 'x', 'cancel_reservation')(lambda call, view: 'Ask.')\n\n\n"
        "def check(call, view):\n    return mine.check(call, view)\n",
        '@mine.form("canonical_reservation_id", "reservation_id"',
        "return mine.check(call, view)",
    ),
    "its own rules": (
        "from ecdysis_lab.hooks import Refuse\n\nrules = canonical_reservation_id = 3\n\n\n"
        "def check(call, view):\n    return Refuse('Never.', 'Ask.', 'never')\n",
        '@rules_2.form("canonical_reservation_id_2", "reservation_id"',
        "rules_2 = Rules()",
    ),
    "long imports": (
        '"""Mine."""\n\nfrom __future__ import annotations\n\nfrom ecdysis_lab.hooks import (\n    Call,\n'
        "    Refuse,\n    View,\n)\n\n\n@staticmethod\ndef check(call: Call, view: View) -> Refuse:\n"
        "    return Refuse('Never.', 'Ask.', 'never')\n",
        "from __future__ import annotations\n\nfrom ecdysis_lab.hooks import Call, Refuse, Rules, View",
        "@rules.first\n@staticmethod\ndef check(call: Call",
    ),
}


@pytest.mark.parametrize("name", HOOKED)
def test_what_a_person_wrote_stays_in_force(name: str, tmp_path: Path) -> None:
    source, *expected = HOOKED[name]
    folder(tmp_path / "start", actions=source)
    loaded = made(tmp_path, IDS, start=str(tmp_path / "start"))
    assert [part for part in expected if part not in loaded.files["actions.py"]] == []
    assert static_problems(loaded) == []
    with host(loaded) as desk:
        assert desk.check(CANCEL, 50).rule == "never"
        read = call("get_reservation_details", reservation_id="#zfa04y")
        assert desk.check(read, 50).rule in ("never", "canonical_reservation_id")


NO_PLACE = {
    "def agrees(text):\n    return True\n": "the file has its own agrees: change 0",
    "check, other = 1, 2\n": "check is bound in a way that leaves no place for a rule: change 0",
    "def check(call, view):\n    return rules.check(call, view)\n\n\nrules = Rules()\n": "rules stands below a hook",
}


@pytest.mark.parametrize("source", NO_PLACE)
def test_a_file_without_a_place_is_left_alone(source: str, tmp_path: Path) -> None:
    folder(tmp_path / "start", actions=f"from ecdysis_lab.hooks import Rules\n\n{source}")
    candidate = edit(tmp_path / "start", spec_of(GUARDS["confirm_before_write"]), tmp_path / "one")
    assert candidate.outcome == "no_change"
    assert NO_PLACE[source] in candidate.notes[0]


@pytest.mark.parametrize("file", ["observe", "on_reply"])
def test_plain_regulation_stays_too(file: str, tmp_path: Path) -> None:
    source = (
        "from ecdysis_lab.hooks import Refuse\n\n\ndef observe(call, result, view):\n    return 'Noted.'\n\n\n"
        "def on_reply(text, view):\n    return Refuse('Never.', 'Ask.', 'never')\n"
    )
    folder(tmp_path / "start", regulation=source)
    kind = {"observe": "repeat_breaker", "on_reply": "unfinished_work"}[file]
    loaded = made(tmp_path, GUARDS[kind], start=str(tmp_path / "start"))
    assert loaded.files["regulation.py"].count("@rules.first") == 1
    with host(loaded) as desk:
        notes = []
        for _ in range(3):
            desk.add_done(done(READ, "{}"))
            notes.append(desk.observe(READ, "{}", 50))
        assert notes[1] == "Noted."
        assert (notes[2] == "Noted.") is (file == "on_reply")
        assert desk.on_reply("Hello", 50) == Refuse("Never.", "Ask.", "never")


def test_a_rule_is_switched_off_by_its_name(tmp_path: Path) -> None:
    guards = [
        IDS,
        GUARDS["contract_hint"],
        GUARDS["procedure"],
        GUARDS["unfinished_work"],
        GUARDS["argument_names"],
    ]
    loaded = made(tmp_path, *guards)
    names = ("canonical_reservation_id", "contract_hint", "procedure", "unfinished_work", "argument_names")
    switches = "".join(f"{name} = false\n" for name in names)
    (loaded.path / "harness.toml").write_text(f"[rules]\n{switches}")
    with host(load_harness(loaded.path)) as desk:
        wrong = call("cancel_reservation", reservation_number="#zfa04y")
        assert desk.check(wrong, 50) == Allow()
        assert desk.brief("Please cancel it") == ""
        tool = next(t for t in bench().tools if t["name"] == "calculate")
        assert desk.describe(dict(tool))["description"] == tool["description"]
        desk.add_message("user", "Yes, go ahead.")
        assert desk.on_reply("It has been cancelled.", 50) == Allow()


# -- feedback and identity ----------------------------------------------------------------------------------------


def test_feedback_leaves_out_the_rule_that_a_gate_named(tmp_path: Path) -> None:
    reason = "altered an act of passing trial 01234567: x (rule canonical_flights_date: …)"
    candidate = edit("empty", spec_of(DATES, GUARDS["known_tools"]), tmp_path / "one", reason)
    assert candidate.notes == ("left out after the gate's reason: change 0",)
    assert "canonical_flights_date" not in candidate.diff
    assert "known_tools" in candidate.diff
    nothing = edit("empty", spec_of(DATES), tmp_path / "two", reason)
    assert nothing.outcome == "no_change"


def test_the_candidate_tells_where_it_comes_from(tmp_path: Path) -> None:
    parent = load_harness("airline")
    candidate = edit("airline", spec_of(IDS), tmp_path / "one")
    assert (candidate.parent, candidate.editor) == (parent.hash, "rules")
    assert candidate.hash == load_harness(tmp_path / "one").hash != parent.hash
    assert candidate.diff == diff_harness(parent, load_harness(tmp_path / "one"))
    assert load_harness("airline").hash == parent.hash
    again = edit("airline", spec_of(IDS), tmp_path / "two")
    assert replace(again, path=candidate.path) == candidate


def test_editors_by_name() -> None:
    assert editors.load("rules").name == "rules"
    assert editors.load("ecdysis_lab.review.editors.rules:RulesEditor").name == "rules"
    for wrong in ("nosuch", "nosuch.module:Editor", "ecdysis_lab.review.editors.rules:Nobody", ":"):
        with pytest.raises(LabError, match=r"editor: .*rules"):
            editors.load(wrong)
