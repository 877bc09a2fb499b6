"""The human airline harness: silent on every flawless act, loud on every illegal one."""

from __future__ import annotations

import importlib.util
import json
import statistics
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import violations_airline

pytest.importorskip("tau2")

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.harness import SHIPPED, load_harness, static_problems
from ecdysis_lab.hooks import Allow, Call, Done, Refuse, Rewrite, View, verdicts
from ecdysis_lab.models.sim import user as customer

FOLDER = SHIPPED / "airline"
TRACES = Path(__file__).parents[2] / "shared" / "data" / "tau_bench_gpt4o_airline_trials01.json"
CASES = violations_airline.cases()


@cache
def layer(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"airline_{name}", FOLDER / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def bench() -> Any:
    return load_benchmark("tau2/airline")


class Desk:
    """A fresh environment, and the harness's view of a conversation at it."""

    def __init__(self, talk: Any = ()) -> None:
        self.environment = bench().environment("0")
        messages = [{"role": role, "content": text} for role, text in talk]
        tools = [*bench().tools, {"name": "think", "description": "", "parameters": {}, "kind": "other"}]
        self.view = View(messages, [], bench().policy, tools, 100, self.environment.read)

    def check(self, call: Call) -> Any:
        return layer("actions").check(call, self.view)

    def run(self, call: Call) -> tuple[str, bool]:
        result, error = self.environment.call(call)
        self.view.done.append(Done(call, result, error))
        return result, error

    def say(self, role: str, text: str) -> None:
        self.view.messages.append({"role": role, "content": text})


@pytest.fixture
def searched() -> tuple[Desk, list[str]]:
    """A desk, and the destinations that its harness has searched for so far."""
    desk, read = Desk(), list[str]()
    real = desk.environment.read

    def noted(tool: str, arguments: dict[str, Any]) -> Any:
        read.append(arguments["destination"])
        return real(tool, arguments)

    desk.view._read = noted
    layer("actions").found_before.clear()
    return desk, read


def test_a_connection_is_found_without_searching_all_directions(searched: tuple[Desk, list[str]]) -> None:
    desk, read = searched
    real, departures = desk.environment.read, layer("actions").departures
    hubs = real("search_onestop_flight", {"origin": "ATL", "destination": "PHL", "date": "2024-05-24"})
    found = next(r for r in departures(desk.view, "ATL", "PHL", "2024-05-24") if r["destination"] == "LGA")
    assert found in [first for first, _ in hubs] and read == ["PHL", "PHL"]
    everywhere = {r["flight_number"] for r in departures(desk.view, "ATL", "PHL", "2024-05-24")}
    assert everywhere > {first["flight_number"] for first, _ in hubs}
    assert "ATL" not in read and len(set(read)) == len(layer("actions").CITY_OF) - 1


def test_on_the_way_back_the_start_is_searched_first(searched: tuple[Desk, list[str]]) -> None:
    desk, read = searched
    real = desk.environment.read
    out = real("search_direct_flight", {"origin": "JFK", "destination": "SFO", "date": "2024-05-26"})[0]
    back = real("search_onestop_flight", {"origin": "SFO", "destination": "JFK", "date": "2024-05-28"})[0]
    flights = [{"flight_number": out["flight_number"], "date": "2024-05-26"}]
    flights += [{"flight_number": leg["flight_number"], "date": leg["date"]} for leg in back]
    legs, problem = layer("actions").walk(
        Call("book_reservation", {"flights": flights}), desk.view, "JFK", "SFO", []
    )
    assert problem == "" and [leg["destination"] for leg in legs][0::2] == ["SFO", "JFK"]
    assert read == ["SFO", "JFK", "JFK", "JFK"]

    layer("actions").walk(Call("book_reservation", {"flights": flights}), desk.view, "JFK", "SFO", [])
    assert len(read) == 4  # a second booking of the same flights searches nothing


@pytest.mark.parametrize(
    ("key", "said", "statuses"),
    [
        ("NQNU5R", "I am aarav_ahmed_6699.", True),  # its flights lie in the past
        ("K1NW8N", "I am mohamed_silva_9265.", False),  # not yet due, and a condition holds without it
    ],
)
def test_only_what_decides_is_read(key: str, said: str, statuses: bool) -> None:
    desk, read = Desk([("user", said)]), list[str]()
    real = desk.environment.read

    def noted(tool: str, arguments: dict[str, Any]) -> Any:
        read.append(tool)
        return real(tool, arguments)

    desk.view._read = noted
    call = Call("cancel_reservation", {"reservation_id": key})
    rules = layer("actions").rules.lines
    found = [
        rules[name](call, desk.view) for name in ("own_reservation", "cancel_flown", "cancel_conditions")
    ]
    assert ("get_flight_status" in read) is statuses and "get_user_details" not in read
    assert found == [None, None, None]


def test_a_foreign_reservation_is_refused_where_its_owner_exists() -> None:
    desk = Desk([("user", "I am sara_doe_496.")])
    rule = layer("actions").rules.lines["own_reservation"]
    assert "sara_doe_496" in rule(Call("cancel_reservation", {"reservation_id": "K1NW8N"}), desk.view).option
    for arguments in ({"user_id": "nobody_at_1"}, {"user_id": ["a"]}, {}):
        assert rule(Call("book_reservation", arguments), desk.view) is None


def listing(call: Call) -> str:
    return violations_airline.ask(call)


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
    assert (len(tasks), seen["read"], seen["write"]) == (50, 112, 55)
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

    case = next(c for c in CASES if c.rule == "passengers_at_most_five")
    verdicts._DISABLED.add(case.rule)
    try:
        assert Desk(case.talk).check(case.bad) == Allow()
    finally:
        verdicts._DISABLED.discard(case.rule)
    assert Desk(case.talk).check(case.bad).rule == case.rule


FLIGHT = {"flight_number": "HAT069", "date": "2024-05-20"}


@pytest.mark.parametrize(
    ("rule", "call", "arguments"),
    [
        (
            "reservation_id_form",
            Call("get_reservation_details", {"reservation_id": "#zfa04y "}),
            {"reservation_id": "ZFA04Y"},
        ),
        ("user_id_form", Call("get_user_details", {"user_id": "Mia_Li_3668"}), {"user_id": "mia_li_3668"}),
        ("flight_number_form", Call("get_flight_status", {**FLIGHT, "flight_number": "hat 69"}), FLIGHT),
        ("date_form", Call("get_flight_status", {**FLIGHT, "date": "05/20/2024"}), FLIGHT),
        ("date_form", Call("get_flight_status", {**FLIGHT, "date": "May 20th"}), FLIGHT),
        ("date_form", Call("get_flight_status", {**FLIGHT, "date": "2024-5-20"}), FLIGHT),
        (
            "airport_form",
            Call("list_all_airports", {"origin": "Denver", "destination": "jfk airport"}),
            {"origin": "DEN", "destination": "JFK"},
        ),
        (
            "expression_form",
            Call("calculate", {"expression": "$1,200.50 × 2"}),
            {"expression": "1200.50 * 2"},
        ),
        (
            "choice_form",
            Call("list_all_airports", {"cabin": "Basic Economy", "flight_type": "one-way"}),
            {"cabin": "basic_economy", "flight_type": "one_way"},
        ),
        ("insurance_form", Call("list_all_airports", {"insurance": True}), {"insurance": "yes"}),
        (
            "number_form",
            Call("list_all_airports", {"total_baggages": "3", "amount": "$1,050.00"}),
            {"total_baggages": 3, "amount": 1050},
        ),
        ("list_form", Call("list_all_airports", {"flights": json.dumps([FLIGHT])}), {"flights": [FLIGHT]}),
    ],
)
def test_form_is_made_canonical(rule: str, call: Call, arguments: dict[str, Any]) -> None:
    assert Desk().check(call) == Rewrite(arguments, rule=rule)


@pytest.mark.parametrize(
    "call",
    [
        Call("search_direct_flight", {"origin": "New York", "destination": "SEA", "date": "2024-05-20"}),
        Call("get_flight_status", {"flight_number": "XYZ", "date": "2024-02-31"}),
        Call("get_user_details", {}),
        Call("calculate", {"expression": None}),
        Call("no_such_tool", {"flights": 3}),
    ],
)
def test_what_has_no_clear_form_stays(call: Call) -> None:
    assert Desk().check(call) == Allow()


def test_an_ambiguous_birth_date_is_asked_for_not_guessed() -> None:
    case = next(c for c in CASES if c.rule == "passenger_details" and "dob" in c.what)
    people = [{**case.good.arguments["passengers"][0], "dob": "05/06/1990"}]
    verdict = Desk(case.talk).check(violations_airline.changed(case.good, passengers=people))
    assert (
        isinstance(verdict, Refuse) and verdict.rule == "passenger_details" and "YYYY-MM-DD" in verdict.option
    )


@pytest.mark.parametrize(
    "answer",
    [
        "yes",
        "Sure!",
        "ok, that works",
        "Please do.",
        "Confirmed.",
        "Sounds good, go ahead",
        "Correct. And what about bags?",
        "Let's use the card ending in 1234.",
        "No other changes, please proceed.",
        "I'd like to cancel it.",
    ],
)
def test_a_yes_has_many_forms(answer: str) -> None:
    case = next(
        c for c in CASES if c.rule == "confirmed_first" and c.bad.name == "cancel_reservation" and c.good_talk
    )
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
    case = next(c for c in CASES if c.rule == "not_cancelled")
    read = Call("get_reservation_details", {"reservation_id": case.before[0].arguments["reservation_id"]})
    notes = [regulation.observe(read, desk.run(read)[0], desk.view) for _ in range(3)]
    assert notes[:2] == [None, None] and "same call" in notes[2]
    desk.run(case.before[0])
    assert regulation.observe(read, desk.run(read)[0], desk.view) is None


def test_a_wrong_total_is_explained() -> None:
    case = next(c for c in CASES if c.rule == "passengers_at_most_five")
    part = [{**case.good.arguments["payment_methods"][0], "amount": 1}]
    call, desk = violations_airline.changed(case.good, payment_methods=part), Desk()
    result, error = desk.run(call)
    assert error and "$30" in layer("regulation").observe(call, result, desk.view)


def test_claim_needs_the_confirmed_write() -> None:
    case = next(
        c for c in CASES if c.rule == "confirmed_first" and c.bad.name == "update_reservation_baggages"
    )
    desk, regulation = Desk(case.good_talk), layer("regulation")
    claim = "I have made that change for you. Everything you asked for has been taken care of."
    verdict = regulation.on_reply(claim, desk.view)
    assert isinstance(verdict, Refuse) and verdict.rule == "claim_without_write"
    assert "update_reservation_baggages" in verdict.option
    assert regulation.on_reply("Which card should I charge?", desk.view) == Allow()
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
    loaded = load_harness("airline")
    assert not static_problems(loaded)
    actions, regulation = layer("actions").rules, layer("regulation").rules
    rules = {*actions.forms, *actions.lines, *regulation.notes, *regulation.replies}
    assert loaded.switches == {
        "layers": dict.fromkeys(("contract", "skills", "actions", "regulation"), True),
        "rules": dict.fromkeys(rules, True),
    }


def test_prompt_additions_stay_small() -> None:
    described = {t["name"]: layer("contract").describe(t) for t in bench().tools}
    notes = sum(len(described[t["name"]]["description"]) - len(t["description"]) for t in bench().tools)
    briefs = [
        layer("skills").brief(customer.opening(t.scenario), bench().policy) for t in bench().tasks("all")
    ]
    assert notes > 300 and (notes + max(map(len, briefs))) / 4 < 400
    assert "health or weather" in layer("skills").brief("Please cancel my trip", "")
    assert "health or weather" not in layer("skills").brief("I want to add a suitcase", "")


# -- recorded GPT-4o trajectories ---

# τ-bench v1 rewards this one; policy line "insured, and the reason is covered by insurance" forbids it (the
# user's reason was a change of plan), and the same task's solution in τ² leaves the reservation alone.
EXCEPTIONS = {(31, 0): ["cancel_conditions"]}


def replay(record: dict[str, Any]) -> list[str]:
    """Rules that would have stopped something in a recorded trajectory; rewrites count as ``"rewrite"``."""
    desk, stopped = Desk(), []
    for message in record["traj"][1:]:
        for tool in (message.get("tool_calls") or []) if message["role"] == "assistant" else []:
            call = Call(tool["function"]["name"], json.loads(tool["function"]["arguments"]))
            verdict = desk.check(call)
            stopped += (
                [] if verdict == Allow() else [verdict.rule if isinstance(verdict, Refuse) else "rewrite"]
            )
            desk.run(call)
        if message.get("content") and message["role"] in ("user", "assistant"):
            if message["role"] == "assistant":
                reply = layer("regulation").on_reply(message["content"], desk.view)
                stopped += [reply.rule] if isinstance(reply, Refuse) else []
            desk.say(message["role"], message["content"])
    return stopped


@pytest.mark.skipif(not TRACES.exists(), reason="no recorded trajectories here")
def test_recorded_trajectories(capsys: pytest.CaptureFixture[str]) -> None:
    records = json.loads(TRACES.read_text())
    found = {(r["task_id"], r["trial"]): replay(r) for r in records}
    passing = {(r["task_id"], r["trial"]) for r in records if r["reward"] == 1}
    failing = {k: v for k, v in found.items() if k not in passing and v}
    assert len(passing) == 43
    assert {k: v for k, v in found.items() if k in passing and v} == EXCEPTIONS
    by_rule = Counter(rule for rules in failing.values() for rule in set(rules))
    with capsys.disabled():
        print(f"\nfailing GPT-4o trajectories with a stopped call: {len(failing)} of 57; {dict(by_rule)}")
    assert len(failing) >= 20 and by_rule["cancel_conditions"] >= 5 and by_rule["basic_economy_fixed"] >= 2
