"""The human retail harness: silent on every flawless act, loud on every illegal one."""

from __future__ import annotations

import importlib.util
import json
import statistics
import time
from collections import Counter
from functools import cache
from typing import Any

import pytest
import violations_retail

pytest.importorskip("tau2")

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.harness import SHIPPED, load_harness, static_problems
from ecdysis_lab.hooks import Allow, Call, Done, Refuse, Rewrite, View, verdicts
from ecdysis_lab.models.sim import user as customer

FOLDER = SHIPPED / "retail"
CASES = violations_retail.cases()


@cache
def layer(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"retail_{name}", FOLDER / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def bench() -> Any:
    return load_benchmark("tau2/retail")


class Desk:
    """A fresh environment, and the harness's view of a conversation at it."""

    def __init__(self, talk: Any = ()) -> None:
        self.environment = bench().environment("0")
        messages = [{"role": role, "content": text} for role, text in talk]
        self.view = View(messages, [], bench().policy, bench().tools, 100, self.environment.read)

    def check(self, call: Call) -> Any:
        return layer("actions").check(call, self.view)

    def run(self, call: Call) -> tuple[str, bool]:
        result, error = self.environment.call(call)
        self.view.done.append(Done(call, result, error))
        return result, error

    def say(self, role: str, text: str) -> None:
        self.view.messages.append({"role": role, "content": text})


def listing(call: Call) -> str:
    return violations_retail.ask(call)


def scenario(task: Any, how: str) -> str:
    """What the user says first: as the simulated customer does, or everything in the scenario."""
    return customer.opening(task.scenario) if how == "opening" else task.scenario


@pytest.mark.parametrize("how", ["opening", "scenario"])
def test_gold_plans_pass_untouched(how: str) -> None:
    seen, tasks, times = Counter[str](), bench().tasks("all"), []
    for task in tasks:
        desk = Desk([("assistant", bench().opening), ("user", scenario(task, how))])
        for call in bench().oracle(task.id).calls:
            if desk.view.kind(call.name) == "write":
                desk.say("assistant", listing(call))
                desk.say("user", "Yes, please proceed.")
            started = time.process_time()
            verdict = desk.check(call)
            times.append(time.process_time() - started)
            assert verdict == Allow(), (task.id, call, verdict)
            desk.run(call)
            assert layer("regulation").on_reply("It has been changed.", desk.view) == Allow()
            seen[desk.view.kind(call.name)] += 1
    assert (len(tasks), seen["read"], seen["write"]) == (114, 362, 178)
    assert statistics.median(times) < 0.002


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.rule}: {c.what}")
def test_violation_is_refused_and_its_neighbour_passes(case: Any) -> None:
    desk = Desk(case.talk)
    for call in case.before:
        desk.run(call)
    verdict = desk.check(case.bad)
    assert isinstance(verdict, Refuse), verdict
    assert verdict.rule == case.rule
    assert verdict.reason.startswith("Policy: ") and len(verdict.option) > 10
    rule_alone = layer("actions").rules.lines[case.rule]
    assert rule_alone(case.bad, desk.view) == verdict
    result, error = desk.run(case.bad)
    assert not error, f"the environment rejects this itself: {result}"

    desk = Desk(case.talk if case.good_talk is None else case.good_talk)
    for call in case.before:
        desk.run(call)
    assert desk.check(case.good) == Allow()
    result, error = desk.run(case.good)
    assert not error, result


def test_violations_cover_every_rule() -> None:
    assert (
        len({(c.rule, json.dumps([c.bad.name, c.bad.arguments, c.talk])) for c in CASES}) == len(CASES) >= 45
    )
    assert {c.rule for c in CASES} == set(layer("actions").rules.lines)


def test_a_rule_can_be_switched_off() -> None:

    case = next(c for c in CASES if c.rule == "items_listed")
    verdicts._DISABLED.add(case.rule)
    try:
        assert Desk(case.talk).check(case.bad) == Allow()
    finally:
        verdicts._DISABLED.discard(case.rule)
    assert Desk(case.talk).check(case.bad).rule == case.rule


FORM = "list_all_product_types"  # a read that takes no arguments: only the form of what is sent matters


@pytest.mark.parametrize(
    ("rule", "call", "arguments"),
    [
        ("order_id_form", Call(FORM, {"order_id": "W2378156"}), {"order_id": "#W2378156"}),
        ("order_id_form", Call(FORM, {"order_id": "#w2378156 "}), {"order_id": "#W2378156"}),
        ("id_form", Call(FORM, {"user_id": "Mei_Davis_8935"}), {"user_id": "mei_davis_8935"}),
        ("zip_form", Call(FORM, {"zip": "98193-0000"}), {"zip": "98193"}),
        ("zip_form", Call(FORM, {"zip": 98193}), {"zip": "98193"}),
        ("country_form", Call(FORM, {"country": "United States"}), {"country": "USA"}),
        ("address2_form", Call(FORM, {"address2": "N/A"}), {"address2": ""}),
        ("reason_form", Call(FORM, {"reason": "No longer needed."}), {"reason": "no longer needed"}),
        (
            "list_form",
            Call(FORM, {"item_ids": "1151293680, 4983901480"}),
            {"item_ids": ["1151293680", "4983901480"]},
        ),
        (
            "expression_form",
            Call("calculate", {"expression": "$1,200.50 × 2"}),
            {"expression": "1200.50 * 2"},
        ),
    ],
)
def test_form_is_made_canonical(rule: str, call: Call, arguments: dict[str, Any]) -> None:
    assert Desk().check(call) == Rewrite(arguments, rule=rule)


@pytest.mark.parametrize(
    "call",
    [
        Call("get_product_details", {"product_id": "4107812777"}),
        Call("get_order_details", {"order_id": "#9502126"}),
        Call(FORM, {"reason": "found it cheaper"}),
        Call(FORM, {"item_ids": ["1151293680"], "zip": "9819", "country": "Canada"}),
        Call("no_such_tool", {"item_ids": 3}),
    ],
)
def test_what_has_no_clear_form_stays(call: Call) -> None:
    assert Desk().check(call) == Allow()


@pytest.mark.parametrize(
    "answer",
    [
        "yes",
        "Sure!",
        "Please do.",
        "Yes, cancel it, I changed my mind.",
        "No other items. Please proceed.",
        "Correct.",
    ],
)
def test_a_yes_has_many_forms(answer: str) -> None:
    case = next(c for c in CASES if c.rule == "confirmed_first" and c.bad.name == "cancel_pending_order")
    assert Desk((*case.good_talk[:3], ("user", answer))).check(case.good) == Allow()


ODD: tuple[Any, ...] = (None, "?", -1.5, True, [], {"a": 1}, ["x", {"amount": "x"}])


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_malformed_arguments_break_no_rule(odd: Any) -> None:
    talk = [("user", "yes"), ("assistant", "Shall I proceed with that?"), ("user", "Yes.")]
    legal = {c.good.name: c.good.arguments for c in CASES}
    for tool in bench().tools:
        keys = list(tool["parameters"].get("properties", {}))
        for arguments in [dict.fromkeys(keys, odd), *({**legal.get(tool["name"], {}), k: odd} for k in keys)]:
            desk, call = Desk(talk), Call(tool["name"], arguments)
            assert isinstance(desk.check(call), (Allow, Refuse, Rewrite))
            for rule in layer("actions").rules.lines.values():
                assert isinstance(rule(call, desk.view), (Refuse, type(None)))
            layer("regulation").observe(call, f"Error: {odd!r}", desk.view)


# -- regulation ---


def test_third_same_read_is_noted_and_a_write_starts_over() -> None:
    desk, regulation = Desk(), layer("regulation")
    write = next(c for c in CASES if c.rule == "modified_order_final").before[0]
    read = Call("get_order_details", {"order_id": write.arguments["order_id"]})
    notes = [regulation.observe(read, desk.run(read)[0], desk.view) for _ in range(3)]
    assert notes[:2] == [None, None] and "same call" in notes[2]
    desk.run(write)
    assert regulation.observe(read, desk.run(read)[0], desk.view) is None


def test_rejected_calls_are_explained() -> None:
    desk, regulation = Desk(), layer("regulation")
    product = next(iter(violations_retail.db()["products"].values()))
    item = next(iter(product["variants"]))
    call = Call("get_product_details", {"product_id": item})
    note = regulation.observe(call, desk.run(call)[0], desk.view)
    assert (
        note == f"{item} is an item id; its product is {product['name']}, product_id {product['product_id']}."
    )
    write = next(c for c in CASES if c.rule == "modified_order_final").before[0]
    desk.run(write)
    result, error = desk.run(write)
    assert error and "none after its items changed" in regulation.observe(write, result, desk.view)


@pytest.mark.parametrize("name", violations_retail.WRITES)
def test_claim_needs_the_confirmed_write(name: str) -> None:
    case = next(c for c in CASES if c.rule == "confirmed_first" and c.bad.name == name)
    desk, regulation = Desk(case.good_talk), layer("regulation")
    claim = "I have made that change for you. Everything you asked for has been taken care of."
    verdict = regulation.on_reply(claim, desk.view)
    assert isinstance(verdict, Refuse) and verdict.rule == "claim_without_write" and name in verdict.option
    assert regulation.on_reply("Which payment method do you want?", desk.view) == Allow()
    desk.run(case.good)
    assert regulation.on_reply(claim, desk.view) == Allow()


def test_transfer_message_needs_the_call() -> None:
    desk, regulation = Desk([("user", "A human please.")]), layer("regulation")
    text = "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."
    assert regulation.on_reply(text, desk.view).rule == "transfer_without_call"
    desk.run(Call("transfer_to_human_agents", {"summary": "wants a human"}))
    assert regulation.on_reply(text, desk.view) == Allow()


# -- the folder ---


def test_folder_is_clean_and_switches_name_every_rule() -> None:
    loaded = load_harness("retail")
    assert not static_problems(loaded)
    actions, regulation = layer("actions").rules, layer("regulation").rules
    rules = {*actions.forms, *actions.lines, *regulation.notes, *regulation.replies}
    assert loaded.switches["rules"] == dict.fromkeys(rules, True)
    assert loaded.switches["layers"] == dict.fromkeys(("contract", "skills", "actions", "regulation"), True)
    assert load_harness("empty").empty


def test_prompt_additions_stay_small() -> None:
    described = {t["name"]: layer("contract").describe(t) for t in bench().tools}
    notes = sum(len(described[t["name"]]["description"]) - len(t["description"]) for t in bench().tools)
    briefs = [
        layer("skills").brief(customer.opening(t.scenario), bench().policy) for t in bench().tasks("all")
    ]
    assert notes > 300 and (notes + max(map(len, briefs))) / 4 < 400
    assert "items last" in layer("skills").brief("Please change my order", "")
    assert "items last" not in layer("skills").brief("Please cancel it", "")
