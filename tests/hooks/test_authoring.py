"""What harness authors share: registers of rules, forms, readers of the talk; and that it is no way out."""

from __future__ import annotations

import ast
import importlib
import re
import types
from pathlib import Path
from typing import Any

import pytest

from ecdysis_lab import hooks as authoring
from ecdysis_lab.harness import SHIPPED, load_harness
from ecdysis_lab.harness.host import Host
from ecdysis_lab.harness.sandbox import lines
from ecdysis_lab.hooks import Allow, Call, Done, Refuse, Rewrite, Rules, View, verdicts

PAY = Call("pay", {"id": "A1", "rows": [{"when": "May 24th"}, 3], "sum": "$1,050.00"}, "c1")
TOOLS: list[dict[str, Any]] = [
    {"name": "look", "description": "Looks.", "parameters": {"properties": {}}, "kind": "read"},
    {"name": "pay", "description": "Pays.", "parameters": {"properties": {}}, "kind": "write"},
]


def talk(*said: tuple[str, str], done: tuple[Done, ...] = ()) -> View:
    return View([{"role": role, "content": text} for role, text in said], list(done), "", TOOLS, 9)


# -- the register ---


def test_forms_add_up_and_keep_the_call_id() -> None:
    rules, ids = Rules(), []
    rules.form("date", "when")(lambda text: authoring.iso_date(text, "2024"))
    rules.form("number", "sum")(authoring.whole_number)

    @rules.line("seen", "p", "pay")
    def seen(call: Call, view: View) -> str | None:
        ids.append((call.id, call.arguments["sum"]))
        return None

    assert rules.check(PAY, talk()) == Rewrite(
        {"id": "A1", "rows": [{"when": "2024-05-24"}, 3], "sum": 1050}, rule="date+number"
    )
    assert ids == [("c1", 1050)]
    assert PAY.arguments["sum"] == "$1,050.00"
    assert rules.check(Call("other", {"sum": None}), talk()) == Allow()


def test_a_form_applies_to_what_an_earlier_one_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules()
    rules.form("list", "rows")(authoring.json_list)
    rules.form("upper", "id", "code")(str.upper)
    rules.form("short", "code")(lambda text: text[:2])
    sent = Call(
        "pay", {"rows": '[{"id": "a1", "code": "xyz"}, 3]', "id": "B2", "code": "XYZ", "rest": "b2"}, "c1"
    )
    found = {"rows": [{"id": "A1", "code": "XY"}, 3], "id": "B2", "code": "XY", "rest": "b2"}
    assert rules.check(sent, talk()) == Rewrite(found, rule="list+upper+short")
    monkeypatch.setattr(verdicts, "_DISABLED", {"list", "short"})
    assert rules.check(sent, talk()) == Allow()
    monkeypatch.setattr(verdicts, "_DISABLED", set())
    with pytest.raises(ValueError, match="'short' is registered already"):
        rules.form("short", "code")(lambda text: None)
    rules.form("wrap", "wrapped")(lambda text: {"wrapped": text})
    wrapped = Rewrite({"wrapped": {"wrapped": "x"}}, rule="wrap")
    assert rules.check(Call("pay", {"wrapped": "x"}), talk()) == wrapped
    alone = rules.forms["upper"](Call("look", {"id": "a1"}), talk())
    assert alone == Rewrite({"id": "A1"}, rule="upper")


def test_the_first_line_that_finds_something_refuses_its_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules()
    rules.line("silent", "nothing", "pay")(lambda call, view: None)
    first = rules.line("first", "ask before you pay", "pay", "give")(lambda call, view: "Ask.")
    rules.line("second", "never", "pay")(lambda call, view: "No.")
    assert rules.check(PAY, talk()) == Refuse("Policy: ask before you pay.", "Ask.", "first")
    assert rules.lines["first"] is first and list(rules.lines) == ["silent", "first", "second"]
    assert rules.check(Call("look", {}), talk()) == Allow()
    monkeypatch.setattr(verdicts, "_DISABLED", {"first"})
    assert rules.check(PAY, talk()) == Refuse("Policy: never.", "No.", "second")


def test_notes_and_replies_stop_at_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules()
    rules.note("a")(lambda call, result, view: None)
    rules.note("b")(lambda call, result, view: f"b {result}")
    rules.note("c")(lambda call, result, view: "c")
    rules.reply("d")(lambda text, view: ("r", "o") if "done" in text else None)
    assert rules.observe(PAY, "ok", talk()) == "b ok"
    assert rules.on_reply("done", talk()) == Refuse("r", "o", "d")
    assert rules.on_reply("open", talk()) == Allow()
    monkeypatch.setattr(verdicts, "_DISABLED", {"b", "d"})
    assert (rules.observe(PAY, "ok", talk()), rules.on_reply("done", talk())) == ("c", Allow())


def test_forms_of_one_tool_and_of_one_list() -> None:
    rules = Rules()
    rules.form("rows", "rows[].when")(lambda text: authoring.iso_date(text, "2024"))
    rules.form("pay", "id", tools=["pay"], shape=r"[a-z]\d")(str.lower)
    sent = {"id": "A1", "when": "May 24th", "rows": [{"when": "May 24th"}], "more": [{"when": "May 24th"}]}
    found = {**sent, "rows": [{"when": "2024-05-24"}]}
    assert rules.check(Call("look", sent), talk()) == Rewrite(found, rule="rows")
    assert rules.check(Call("pay", sent), talk()) == Rewrite({**found, "id": "a1"}, rule="rows+pay")
    assert rules.check(Call("pay", {"id": "ABC"}), talk()) == Allow()


def test_arguments_get_the_names_of_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    rules, view = Rules(), talk()
    view.tools = [{**TOOLS[1], "parameters": {"properties": {"id": {}, "note": {}}}}]
    rules.names("names", {"number": "id", "comment": "text", "note": None, "extra": None})
    rules.form("lower", "id")(str.lower)
    sent = Call("pay", {"number": "A1", "comment": "c", "note": "n", "extra": 1})
    assert rules.check(sent, view) == Rewrite({"id": "a1", "comment": "c", "note": "n"}, rule="names+lower")
    assert rules.check(Call("look", {"number": "A1"}), view) == Allow()
    monkeypatch.setattr(verdicts, "_DISABLED", {"names"})
    assert rules.check(sent, view) == Allow()


def test_a_line_without_tools_is_for_every_call() -> None:
    rules = Rules()
    rules.line("all", "nothing")(lambda call, view: "Rest.")
    rules.line("pays", "no pay", "pay")(lambda call, view: "Ask.")
    assert rules.check(Call("nobody_knows", {}), talk()) == Refuse("Policy: nothing.", "Rest.", "all")
    assert rules.check(PAY, talk()) == Refuse("Policy: no pay.", "Ask.", "pays")


def test_hints_and_procedures_are_paragraphs(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules()
    rules.hint("a", "look", "One.")
    rules.hint("b", "look", "Two.")
    rules.procedure("c", "Always.")
    rules.procedure("d", "To pay.", authoring.anycase("pay"))
    assert rules.describe(TOOLS[0])["description"] == "Looks.\n\nOne.\n\nTwo."
    assert rules.describe(TOOLS[1]) is TOOLS[1]
    assert (rules.brief("I PAY", ""), rules.brief("Hi", "")) == ("Always.\n\nTo pay.", "Always.")
    own = rules.first(lambda_named("brief", lambda opening, policy: "Own."))
    assert own("Hi", "") == "Own.\n\nAlways."
    monkeypatch.setattr(verdicts, "_DISABLED", {"a", "c"})
    assert rules.describe(TOOLS[0])["description"] == "Looks.\n\nTwo."
    assert (rules.brief("Hi", ""), own("Hi", "")) == ("", "Own.")
    with pytest.raises(KeyError, match="elsewhere"):
        rules.first(lambda_named("elsewhere", len))


def lambda_named(name: str, function: Any) -> Any:
    def hook(*arguments: Any) -> Any:
        return function(*arguments)

    hook.__name__ = name
    return hook


FILE = """
from ecdysis_lab.hooks import Rules
from ecdysis_lab.hooks import Refuse

rules = Rules()
rules.{kind}
seen = [sorted({{*rules.forms, *rules.lines, *rules.notes, *rules.replies}})]


def {hook}:
    seen.append(1)
    return {answer}
"""


def test_files_and_trials_share_no_register(tmp_path: Path) -> None:
    answer = "Refuse(str([seen, len(rules.lines), len(rules.replies)]), 'o')"
    line = 'line("line", "p", "pay")(lambda call, view: None)'
    reply = 'reply("reply")(lambda text, view: None)'
    (tmp_path / "actions.py").write_text(FILE.format(kind=line, hook="check(call, view)", answer=answer))
    (tmp_path / "regulation.py").write_text(
        FILE.format(kind=reply, hook="on_reply(text, view)", answer=answer)
    )
    for _ in range(2):
        with Host(load_harness(tmp_path), "", TOOLS) as host:
            assert host.check(PAY, 9) == Refuse("[[['line'], 1], 1, 0]", "o")
            assert host.on_reply("x", 9) == Refuse("[[['reply'], 1], 0, 1]", "o")


# -- forms ---


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2024-5-24", "2024-05-24"),
        ("2023/05/24", "2023-05-24"),
        ("05/06/2024", "2024-05-06"),
        ("05/06/1990", None),
        ("05/24/1990", "1990-05-24"),
        ("May 24th", "2024-05-24"),
        ("sept. 3, 2025", "2025-09-03"),
        ("Foo 3", None),
        ("2024-02-30", None),
        ("tomorrow", None),
    ],
)
def test_dates(text: str, date: str | None) -> None:
    assert authoring.iso_date(text, "2024") == date


def test_dates_without_a_present_year() -> None:
    said = ("05/06/1990", "05/24/1990", "24/05/1990", "May 24th", "May 24, 2024")
    assert [authoring.iso_date(text) for text in said] == [
        "1990-05-06",
        "1990-05-24",
        None,
        None,
        "2024-05-24",
    ]


def test_other_forms() -> None:
    assert authoring.snake_case(" Credit Card-12 ") == "credit_card_12"
    assert authoring.plain_words("No longer  needed.") == "no longer needed"
    assert authoring.plain_expression("$1,200.50 × 2 ÷ 4") == "1200.50 * 2 / 4"
    assert [authoring.whole_number(text) for text in ("$1,050.00", "-3", "2.5", "two")] == [
        1050,
        -3,
        None,
        None,
    ]
    assert [authoring.json_list(text) for text in ('[{"a": 1}]', "[1", "x")] == [[{"a": 1}], None, None]
    call = Call("pay", {"l": [1, {"a": 2}], "n": 3, "t": "x"})
    assert (authoring.rows(call, "l"), authoring.rows(call, "t")) == ([{"a": 2}], [])
    assert (authoring.ids(call, "l"), authoring.ids(call, "none")) == (["1", "{'a': 2}"], [])
    assert (authoring.number(call, "n"), authoring.number(call, "t")) == (3, 0)


# -- the talk ---


@pytest.mark.parametrize(
    ("answer", "no"),
    [
        ("No.", True),
        ("No, go ahead with it.", False),
        ("Wait, yes, but not yet", True),
        ("I can't wait, yes", False),
        ("please don't", True),
        ("Yes", False),
        ("I don't want to cancel", True),
    ],
)
def test_declining(answer: str, no: bool) -> None:
    assert authoring.declines(answer) is no


@pytest.mark.parametrize(
    ("answer", "yes"),
    [
        ("Yes, please proceed.", True),
        ("That works", True),
        ("Sí, claro", True),
        ("好的", True),
        ("I am sure", True),
        ("I am not sure", False),
        ("Make sure that it is cheap", False),
        ("Please cancel it", False),  # a wish; YES takes it, beside a question
        ("No, wait", False),
    ],
)
def test_a_plain_yes(answer: str, yes: bool) -> None:
    assert authoring.agrees(answer) is yes


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("I have successfully cancelled it", "I have successfully cancelled"),
        ("It has now been taken care of.", "has now been taken care"),
        ("You are all set", "are all set"),
        ("Your return has been requested", "been requested"),
        ("You have requested a refund", None),
        ("You have return flights", None),
        ("Shall I cancel it?", None),
    ],
)
def test_claims_of_finished_work(text: str, claim: str | None) -> None:
    found = authoring.CLAIM.search(text)
    assert (found and found[0]) == claim


def test_more_was_agreed_than_done() -> None:
    yes, ask = ("user", "Yes."), ("assistant", "And B2?")
    paid = Done(PAY, "ok")
    done, open_ = talk(yes, done=(paid,)), talk(yes, ask, yes, done=(paid,))
    assert authoring.agreed_not_done("It is done.", done, ["pay"]) is None
    assert authoring.agreed_not_done("It is done.", open_, ["pay"])
    assert authoring.agreed_not_done("It is done.", talk(yes, done=(Done(PAY, "no", True),)), ["pay"])
    assert authoring.agreed_not_done("Which one?", open_, ["pay"]) is None
    assert authoring.agreed_not_done("It is done.", talk(yes, ask, ("user", "Hm?")), ["pay"]) is None


ABOUT, KINDS = authoring.anycase("pay"), (re.compile(r"\b[A-Z]\d\b"),)
ASKED = ("assistant", "Shall I pay A1?")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ((ASKED, ("user", "Yes")), "Shall I pay A1?\nYes"),
        ((ASKED, ("user", "No")), ""),
        ((ASKED, ("user", "Yes"), ("assistant", "Also B2?"), ("user", "not now")), ""),
        ((("assistant", "Shall I pay B2?"), ("user", "Yes")), ""),
        ((("assistant", "I could pay A1."), ("user", "Yes")), "I could pay A1.\nYes"),
        ((("assistant", "I could pay."), ("user", "Yes")), ""),
        ((("user", "Pay A1, yes"),), ""),
        ((ASKED, ("user", "Yes"), *(("user", "Hm?"),) * 4), ""),
    ],
)
def test_confirmed_listing(said: tuple[tuple[str, str], ...], found: str) -> None:
    assert authoring.confirmed_listing(PAY, talk(*said), ABOUT, "id", KINDS) == found


def test_transfers() -> None:
    call, message = Call("move", {"summary": "asks"}), "HOLD ON"
    assert "tools" in (authoring.early_transfer(call, talk(("user", "Hi"))) or "")
    assert authoring.early_transfer(call, talk(("user", "A human!"))) is None
    assert authoring.early_transfer(Call("move", {"summary": "not possible"}), talk()) is None
    found = authoring.transfer_without_call("Please hold on", talk(), "move", message)
    assert found and found[1].startswith("Call move if")
    made = talk(done=(Done(call, "ok"),))
    assert authoring.transfer_without_call("Please hold on", made, "move", message) is None
    assert authoring.transfer_without_call("Hello", talk(), "move", message) is None


def test_notes_on_results() -> None:
    look, pay = Done(Call("look", {"a": 1}), "x"), Done(PAY, "no money", True)
    assert authoring.repeated_read(look.call, "x", talk(done=(look,) * 3))
    assert authoring.repeated_read(look.call, "x", talk(done=(look,) * 2)) is None
    paid = Done(PAY, "ok")
    assert authoring.repeated_read(look.call, "x", talk(done=(look, look, paid, look))) is None
    assert authoring.repeated_read(look.call, "x", talk(done=(look, look, pay, look)))
    assert authoring.repeated_call(look.call, talk(done=(paid, look, look)), 3) is None
    assert "3 times" in (authoring.repeated_call(look.call, talk(done=(paid, look, look, look)), 3) or "")
    assert authoring.repeated_call(look.call, talk(done=(look, look, paid, look)), 2) is None
    assert not authoring.same_call(Call("look", {"a": 1}), Call("look", {"a": True}))
    hints = [(re.compile("gold"), "1"), (re.compile("money"), "2")]
    assert authoring.error_hint(PAY, pay.result, talk(done=(pay,)), hints) == "2"
    assert authoring.error_hint(PAY, "no money", talk(done=(paid,)), hints) is None


def test_claims() -> None:
    tools = {"pay": ABOUT, "look": authoring.anycase("look")}

    def judge(text: str, view: View, doubtful: tuple[str, ...] = ()) -> tuple[str, str] | None:
        return authoring.claim_without_write(text, view, tools, "id", KINDS[0], doubtful)

    said = talk(ASKED, ("user", "Yes"))
    found = judge("It is done", said)
    assert found and found[1] == "Call pay now, or tell the user what is still open."
    both = judge("It is done, look", said, ("pay",))
    assert both and both[1].startswith("Call pay or look now")
    assert judge("It is done", said, ("pay",)) is None
    assert judge("It is open", said) is None
    assert judge("It is done", talk(ASKED, ("user", "Hm"))) is None
    assert judge("It is done", talk(("user", "Yes"))) is None
    assert judge("It is done", talk(("assistant", "I see A1 pay."), ("user", "Yes"))) is None
    for call, silent in (
        (Call("pay", {"id": "A1"}), True),
        (Call("pay", {"id": "B2"}), False),
        (Call("pay", {}), True),
        (Call("look", {"id": "A1"}), False),
    ):
        view = talk(ASKED, ("user", "Yes"), done=(Done(call, "no", True),))
        assert (judge("It is done", view) is None) is silent


def test_texts_before_the_interaction() -> None:
    assert authoring.with_note(TOOLS[0], {"look": "Well."})["description"] == "Looks.\nNote: Well."
    assert authoring.with_note(TOOLS[1], {"look": "Well."}) is TOOLS[1]
    assert authoring.fitting("PAY it", [(ABOUT, "a"), (re.compile("x"), "b")]) == ["a"]


# -- what harness code sees of it ---


def test_harness_code_sees_immutable_public_names_and_no_module() -> None:
    for name in (*lines.ALLOWED, *lines._BEHIND_DATETIME, "ecdysis_lab.hooks"):
        importlib.import_module(name)
    shown = vars(lines.safe_builtins()["__import__"]("ecdysis_lab.hooks", wanted=("Rules",)))
    names = {name: value for name, value in shown.items() if not name.startswith("__")}
    assert sorted(names) == sorted(authoring.__all__)
    allowed = (types.FunctionType, types.GenericAlias, types.UnionType, re.Pattern, type)
    assert [name for name, value in names.items() if not isinstance(value, allowed)] == []


def test_contract_names_every_part() -> None:
    text = (SHIPPED / "README.md").read_text()
    assert [name for name in authoring.__all__ if f"`{name}" not in text] == []


@pytest.mark.parametrize("path", sorted(SHIPPED.rglob("*.py")), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_no_shipped_hook_waits_for_the_pattern_compiler(path: Path) -> None:
    """Patterns are compiled when a file is loaded: a fresh worker has none of them in ``re``'s cache."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Lambda))]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    late = [
        (node.lineno, ast.unparse(node.func))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (ast.unparse(node.func).startswith("re.") or ast.unparse(node.func) == "anycase")
        and (id(node) in inside or ast.unparse(node.func) not in ("re.compile", "anycase"))
    ]
    assert late == []
