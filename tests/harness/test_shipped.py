"""The human harnesses: silent on every flawless act, loud on every illegal one.

``data/violations_NAME.json`` holds illegal calls on real rows of a benchmark's database, as ``ecdysis-lab check
--violations`` reads them. Each breaks one line of the policy while the environment accepts it, and stands beside its
nearest legal neighbour (``good``, after ``good_messages``; where they are absent, the same call, the same talk).
Nothing in them repeats a task of the benchmark.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import time
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2")

from simlab import bench

from ecdysis_lab.harness import SHIPPED, load_harness, static_problems
from ecdysis_lab.hooks import Allow, Call, Done, Refuse, Rewrite, View, verdicts
from ecdysis_lab.models.sim import user as customer

DOMAINS = ("airline", "retail")
HERE = Path(__file__).parents[1]
TRACES = HERE.parents[1] / "shared" / "data" / "tau_bench_gpt4o_airline_trials01.json"
domains = pytest.mark.parametrize("domain", DOMAINS)


def a_call(record: dict[str, Any]) -> Call:
    return Call(record["name"], record["arguments"])


@dataclass(frozen=True)
class Case:
    """An illegal call after a talk, and its legal neighbour after its own; ``before`` is executed first in both."""

    domain: str
    rule: str
    what: str
    bad: Call
    good: Call
    talk: list[dict[str, str]]
    good_talk: list[dict[str, str]]
    before: list[Call]


@cache
def cases(domain: str) -> list[Case]:
    """The violations of a domain."""
    found = []
    for row in json.loads((HERE / f"data/violations_{domain}.json").read_text(encoding="utf-8")):
        rule, _, what = row["rule"].partition(": ")
        good, good_talk = row.get("good", row["call"]), row.get("good_messages", row["messages"])
        before = [a_call(c) for c in row.get("done", [])]
        found.append(
            Case(domain, rule, what, a_call(row["call"]), a_call(good), row["messages"], good_talk, before)
        )
    return found


CASES = [case for domain in DOMAINS for case in cases(domain)]


def the_case(domain: str, rule: str, tool: str = "", what: str = "") -> Case:
    """The first violation of a rule (by a tool, so described)."""
    return next(c for c in cases(domain) if c.rule == rule and tool in ("", c.bad.name) and what in c.what)


@cache
def layer(domain: str, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"{domain}_{name}", SHIPPED / domain / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Desk:
    """A fresh environment, and the harness's view of a conversation at it."""

    def __init__(self, domain: str, talk: list[dict[str, str]] | None = None) -> None:
        self.domain, self.environment = domain, bench(domain).environment("0")
        tools = [
            *bench(domain).tools,
            {"name": "think", "description": "", "parameters": {}, "kind": "other"},
        ]
        self.view = View(list(talk or []), [], bench(domain).policy, tools, 100, self.environment.read)
        self.reads: list[tuple[str, dict[str, Any]]] = []

    def note_reads(self) -> None:
        """Keep what the harness reads from now on."""

        def noted(tool: str, arguments: dict[str, Any]) -> Any:
            self.reads.append((tool, arguments))
            return self.environment.read(tool, arguments)

        self.view._read = noted

    def check(self, call: Call) -> Any:
        return layer(self.domain, "actions").check(call, self.view)

    def reply(self, text: str) -> Any:
        return layer(self.domain, "regulation").on_reply(text, self.view)

    def run(self, call: Call) -> tuple[str, bool]:
        result, error = self.environment.call(call)
        self.view.done.append(Done(call, result, error))
        return result, error

    def observe(self, call: Call) -> Any:
        """Run a call and ask for the note on its result."""
        return layer(self.domain, "regulation").observe(call, self.run(call)[0], self.view)

    def say(self, role: str, text: str) -> None:
        self.view.messages.append({"role": role, "content": text})


# -- legal acts, and illegal ones ---


@pytest.mark.parametrize("how", ["opening", "scenario"])
@pytest.mark.parametrize(("domain", "counts"), [("airline", (50, 112, 55)), ("retail", (114, 362, 178))])
def test_gold_plans_pass_untouched(domain: str, counts: tuple[int, int, int], how: str) -> None:
    """After what the simulated customer says first, or after everything in the scenario."""
    seen, tasks, times = Counter[str](), bench(domain).tasks("all"), []
    for task in tasks:
        desk = Desk(domain)
        desk.say("assistant", bench(domain).opening)
        desk.say("user", customer.opening(task.scenario) if how == "opening" else task.scenario)
        for call in bench(domain).oracle(task.id).calls:
            if desk.view.kind(call.name) == "write":
                details = ", ".join(f"{k}: {v}" for k, v in call.arguments.items())
                name = call.name.replace("_", " ")
                desk.say("assistant", f"To confirm: {name} with {details}. Shall I proceed?")
                desk.say("user", "Yes, please proceed.")
            started = time.process_time()
            verdict = desk.check(call)
            times.append(time.process_time() - started)
            assert verdict == Allow(), (task.id, call, verdict)
            desk.run(call)
            assert desk.reply("It has been changed.") == Allow()
            seen[desk.view.kind(call.name)] += 1
    assert (len(tasks), seen["read"], seen["write"]) == counts
    assert statistics.median(times) < 0.002


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.domain}: {c.rule}: {c.what}")
def test_violation_is_refused_and_its_neighbour_passes(case: Case) -> None:
    desk = Desk(case.domain, case.talk)
    for call in case.before:
        desk.run(call)
    verdict = desk.check(case.bad)
    assert isinstance(verdict, Refuse), verdict
    assert verdict.rule == case.rule
    assert verdict.reason.startswith("Policy: ") and len(verdict.option) > 10
    rule_alone = layer(case.domain, "actions").rules.lines[case.rule]
    assert rule_alone(case.bad, desk.view) == verdict
    result, error = desk.run(case.bad)
    assert not error, f"the environment rejects this itself: {result}"

    desk = Desk(case.domain, case.good_talk)
    for call in case.before:
        desk.run(call)
    assert desk.check(case.good) == Allow()
    result, error = desk.run(case.good)
    assert not error, result


@pytest.mark.parametrize(("domain", "number"), [("airline", 138), ("retail", 85)])
def test_violations_cover_every_rule(domain: str, number: int) -> None:
    different = {json.dumps([c.rule, c.bad.name, c.bad.arguments, c.talk]) for c in cases(domain)}
    assert len(different) == len(cases(domain)) == number
    assert {c.rule for c in cases(domain)} == set(layer(domain, "actions").rules.lines)


@pytest.mark.parametrize(
    ("domain", "rule"), [("airline", "passengers_at_most_five"), ("retail", "items_listed")]
)
def test_a_rule_can_be_switched_off(domain: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = the_case(domain, rule)
    assert Desk(domain, case.talk).check(case.bad).rule == rule
    monkeypatch.setattr(verdicts, "_DISABLED", {rule})
    assert Desk(domain, case.talk).check(case.bad) == Allow()


YES = {
    "airline": (
        "cancel_reservation",
        ["yes", "Sure!", "ok, that works", "Please do.", "Confirmed.", "Sounds good, go ahead",
         "Correct. And what about bags?", "Let's use the card ending in 1234.", "No other changes, please proceed.",
         "I'd like to cancel it."],
    ),
    "retail": (
        "cancel_pending_order",
        ["yes", "Sure!", "Please do.", "Yes, cancel it, I changed my mind.", "No other items. Please proceed.",
         "Correct."],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("domain", "answer"), [(d, answer) for d in DOMAINS for answer in YES[d][1]])
def test_a_yes_has_many_forms(domain: str, answer: str) -> None:
    case = the_case(domain, "confirmed_first", YES[domain][0])
    talk = [*case.good_talk[:3], {"role": "user", "content": answer}]
    assert Desk(domain, talk).check(case.good) == Allow()


# -- forms ---

FLIGHT = {"flight_number": "HAT069", "date": "2024-05-20"}
ANY = {
    "airline": "list_all_airports",
    "retail": "list_all_product_types",
}  # takes no arguments: only forms matter
FORMS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("airline", "reservation_id_form", {"reservation_id": "#zfa04y "}, {"reservation_id": "ZFA04Y"}),
    ("airline", "user_id_form", {"user_id": "Mia_Li_3668"}, {"user_id": "mia_li_3668"}),
    ("airline", "flight_number_form", {**FLIGHT, "flight_number": "hat 69"}, FLIGHT),
    ("airline", "date_form", {**FLIGHT, "date": "05/20/2024"}, FLIGHT),
    ("airline", "date_form", {**FLIGHT, "date": "May 20th"}, FLIGHT),
    ("airline", "date_form", {**FLIGHT, "date": "2024-5-20"}, FLIGHT),
    ("airline", "airport_form", {"origin": "Denver", "destination": "jfk airport"},
     {"origin": "DEN", "destination": "JFK"}),
    ("airline", "choice_form", {"cabin": "Basic Economy", "flight_type": "one-way"},
     {"cabin": "basic_economy", "flight_type": "one_way"}),
    ("airline", "insurance_form", {"insurance": True}, {"insurance": "yes"}),
    ("airline", "number_form", {"total_baggages": "3", "amount": "$1,050.00"}, {"total_baggages": 3, "amount": 1050}),
    ("airline", "list_form", {"flights": json.dumps([FLIGHT])}, {"flights": [FLIGHT]}),
    ("airline", "expression_form", {"expression": "$1,200.50 × 2"}, {"expression": "1200.50 * 2"}),
    ("retail", "order_id_form", {"order_id": "W2378156"}, {"order_id": "#W2378156"}),
    ("retail", "order_id_form", {"order_id": "#w2378156 "}, {"order_id": "#W2378156"}),
    ("retail", "id_form", {"user_id": "Mei_Davis_8935"}, {"user_id": "mei_davis_8935"}),
    ("retail", "zip_form", {"zip": "98193-0000"}, {"zip": "98193"}),
    ("retail", "zip_form", {"zip": 98193}, {"zip": "98193"}),
    ("retail", "country_form", {"country": "United States"}, {"country": "USA"}),
    ("retail", "address2_form", {"address2": "N/A"}, {"address2": ""}),
    ("retail", "reason_form", {"reason": "No longer needed."}, {"reason": "no longer needed"}),
    ("retail", "list_form", {"item_ids": "1151293680, 4983901480"}, {"item_ids": ["1151293680", "4983901480"]}),
    ("retail", "expression_form", {"expression": "$1,200.50 × 2"}, {"expression": "1200.50 * 2"}),
]  # fmt: skip


@pytest.mark.parametrize(("domain", "rule", "given", "canonical"), FORMS)
def test_form_is_made_canonical(
    domain: str, rule: str, given: dict[str, Any], canonical: dict[str, Any]
) -> None:
    assert Desk(domain).check(Call(ANY[domain], given)) == Rewrite(canonical, rule=rule)


@pytest.mark.parametrize(
    ("domain", "call"),
    [
        (
            "airline",
            Call("search_direct_flight", {"origin": "New York", "destination": "SEA", "date": "2024-05-20"}),
        ),
        ("airline", Call("get_flight_status", {"flight_number": "XYZ", "date": "2024-02-31"})),
        ("airline", Call("get_user_details", {})),
        ("airline", Call("calculate", {"expression": None})),
        ("airline", Call("no_such_tool", {"flights": 3})),
        ("retail", Call("get_product_details", {"product_id": "4107812777"})),
        ("retail", Call("get_order_details", {"order_id": "#9502126"})),
        ("retail", Call(ANY["retail"], {"reason": "found it cheaper"})),
        ("retail", Call(ANY["retail"], {"item_ids": ["1151293680"], "zip": "9819", "country": "Canada"})),
        ("retail", Call("no_such_tool", {"item_ids": 3})),
    ],
)
def test_what_has_no_clear_form_stays(domain: str, call: Call) -> None:
    assert Desk(domain).check(call) == Allow()


def test_an_ambiguous_birth_date_is_asked_for_not_guessed() -> None:
    case = the_case("airline", "passenger_details", what="dob")
    people = [{**case.good.arguments["passengers"][0], "dob": "05/06/1990"}]
    verdict = Desk("airline", case.talk).check(
        Call(case.good.name, {**case.good.arguments, "passengers": people})
    )
    assert isinstance(verdict, Refuse)
    assert verdict.rule == "passenger_details" and "YYYY-MM-DD" in verdict.option


ODD: tuple[Any, ...] = (None, "?", -1.5, True, [], {"a": 1}, ["x", {"amount": "x"}])


@pytest.mark.parametrize("odd", ODD, ids=repr)
@domains
def test_malformed_arguments_break_no_rule(domain: str, odd: Any) -> None:
    talk = [
        {"role": "user", "content": "yes"},
        {"role": "assistant", "content": "Shall I proceed with that?"},
        {"role": "user", "content": "Yes."},
    ]
    legal = {c.good.name: c.good.arguments for c in cases(domain)}
    for tool in bench(domain).tools:
        keys = list(tool["parameters"].get("properties", {}))
        for arguments in [dict.fromkeys(keys, odd), *({**legal.get(tool["name"], {}), k: odd} for k in keys)]:
            desk, call = Desk(domain, talk), Call(tool["name"], arguments)
            assert isinstance(desk.check(call), (Allow, Refuse, Rewrite))
            for rule in layer(domain, "actions").rules.lines.values():
                assert isinstance(rule(call, desk.view), (Refuse, type(None)))
            layer(domain, "regulation").observe(call, f"Error: {odd!r}", desk.view)


# -- what the airline's rules read ---


@pytest.fixture
def searching() -> Desk:
    """A desk whose reads are kept, and none is known from before."""
    desk = Desk("airline")
    desk.note_reads()
    layer("airline", "actions").found_before.clear()
    return desk


def searched(desk: Desk) -> list[str]:
    return [arguments["destination"] for _, arguments in desk.reads]


def test_a_connection_is_found_without_searching_all_directions(searching: Desk) -> None:
    real, departures = searching.environment.read, layer("airline", "actions").departures
    hubs = real("search_onestop_flight", {"origin": "ATL", "destination": "PHL", "date": "2024-05-24"})
    found = next(
        r for r in departures(searching.view, "ATL", "PHL", "2024-05-24") if r["destination"] == "LGA"
    )
    assert found in [first for first, _ in hubs] and searched(searching) == ["PHL", "PHL"]
    everywhere = {r["flight_number"] for r in departures(searching.view, "ATL", "PHL", "2024-05-24")}
    assert everywhere > {first["flight_number"] for first, _ in hubs}
    read = searched(searching)
    assert "ATL" not in read and len(set(read)) == len(layer("airline", "actions").CITY_OF) - 1


def test_on_the_way_back_the_start_is_searched_first(searching: Desk) -> None:
    real, walk = searching.environment.read, layer("airline", "actions").walk
    out = real("search_direct_flight", {"origin": "JFK", "destination": "SFO", "date": "2024-05-26"})[0]
    back = real("search_onestop_flight", {"origin": "SFO", "destination": "JFK", "date": "2024-05-28"})[0]
    flights = [{"flight_number": out["flight_number"], "date": "2024-05-26"}]
    flights += [{"flight_number": leg["flight_number"], "date": leg["date"]} for leg in back]
    legs, problem = walk(Call("book_reservation", {"flights": flights}), searching.view, "JFK", "SFO", [])
    assert problem == "" and [leg["destination"] for leg in legs][0::2] == ["SFO", "JFK"]
    assert searched(searching) == ["SFO", "JFK", "JFK", "JFK"]
    walk(Call("book_reservation", {"flights": flights}), searching.view, "JFK", "SFO", [])
    assert len(searched(searching)) == 4  # a second booking of the same flights searches nothing


@pytest.mark.parametrize(
    ("key", "said", "statuses"),
    [
        ("NQNU5R", "I am aarav_ahmed_6699.", True),  # its flights lie in the past
        ("K1NW8N", "I am mohamed_silva_9265.", False),  # not yet due, and a condition holds without it
    ],
)
def test_only_what_decides_is_read(key: str, said: str, statuses: bool) -> None:
    desk = Desk("airline", [{"role": "user", "content": said}])
    desk.note_reads()
    rules, call = layer("airline", "actions").rules.lines, Call("cancel_reservation", {"reservation_id": key})
    names = ("own_reservation", "cancel_flown", "cancel_conditions")
    assert [rules[name](call, desk.view) for name in names] == [None, None, None]
    read = {tool for tool, _ in desk.reads}
    assert ("get_flight_status" in read) is statuses and "get_user_details" not in read


def test_a_foreign_reservation_is_refused_where_its_owner_exists() -> None:
    desk = Desk("airline", [{"role": "user", "content": "I am sara_doe_496."}])
    rule = layer("airline", "actions").rules.lines["own_reservation"]
    assert "sara_doe_496" in rule(Call("cancel_reservation", {"reservation_id": "K1NW8N"}), desk.view).option
    for arguments in ({"user_id": "nobody_at_1"}, {"user_id": ["a"]}, {}):
        assert rule(Call("book_reservation", arguments), desk.view) is None


# -- regulation ---


@pytest.mark.parametrize(
    ("domain", "rule", "tool", "key"),
    [
        ("airline", "not_cancelled", "get_reservation_details", "reservation_id"),
        ("retail", "modified_order_final", "get_order_details", "order_id"),
    ],
)
def test_third_same_read_is_noted_and_a_write_starts_over(
    domain: str, rule: str, tool: str, key: str
) -> None:
    desk, write = Desk(domain), the_case(domain, rule).before[0]
    read = Call(tool, {key: write.arguments[key]})
    notes = [desk.observe(read) for _ in range(3)]
    assert notes[:2] == [None, None] and "same call" in notes[2]
    desk.run(write)
    assert desk.observe(read) is None


def test_a_wrong_total_is_explained() -> None:
    good = the_case("airline", "passengers_at_most_five").good
    part = [{**good.arguments["payment_methods"][0], "amount": 1}]
    desk = Desk("airline")
    note = desk.observe(Call(good.name, {**good.arguments, "payment_methods": part}))
    assert desk.view.done[-1].error and "$30" in note


def test_rejected_calls_are_explained() -> None:
    desk = Desk("retail")
    name, key = next(iter(desk.environment.read("list_all_product_types", {}).items()))
    item = next(iter(desk.environment.read("get_product_details", {"product_id": key})["variants"]))
    note = desk.observe(Call("get_product_details", {"product_id": item}))
    assert note == f"{item} is an item id; its product is {name}, product_id {key}."
    write = the_case("retail", "modified_order_final").before[0]
    desk.run(write)
    note = desk.observe(write)
    assert desk.view.done[-1].error and "none after its items changed" in note


CONFIRMED = sorted({(c.domain, c.bad.name) for c in CASES if c.rule == "confirmed_first"})


@pytest.mark.parametrize(("domain", "name"), CONFIRMED)
def test_claim_needs_the_confirmed_write(domain: str, name: str) -> None:
    case = the_case(domain, "confirmed_first", name)
    desk = Desk(domain, case.good_talk)
    claim = "I have made that change for you. Everything you asked for has been taken care of."
    verdict = desk.reply(claim)
    assert isinstance(verdict, Refuse)
    assert verdict.rule == "claim_without_write" and name in verdict.option
    assert desk.reply("Which card should I charge?") == Allow()
    assert desk.reply("Which payment method do you want?") == Allow()
    desk.run(case.good)
    assert desk.reply(claim) == Allow()


@domains
def test_transfer_message_needs_the_call(domain: str) -> None:
    desk = Desk(domain, [{"role": "user", "content": "A human please."}])
    text = "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."
    assert desk.reply(text).rule == "transfer_without_call"
    desk.run(Call("transfer_to_human_agents", {"summary": "wants a human"}))
    assert desk.reply(text) == Allow()


# -- the folders ---


@domains
def test_folder_is_clean_and_switches_name_every_rule(domain: str) -> None:
    loaded = load_harness(domain)
    assert not static_problems(loaded)
    actions, regulation = layer(domain, "actions").rules, layer(domain, "regulation").rules
    rules = {*actions.forms, *actions.lines, *regulation.notes, *regulation.replies}
    assert loaded.switches == {
        "layers": dict.fromkeys(("contract", "skills", "actions", "regulation"), True),
        "rules": dict.fromkeys(rules, True),
    }
    assert load_harness("empty").empty


@pytest.mark.parametrize(
    ("domain", "words", "fitting", "other"),
    [
        ("airline", "health or weather", "Please cancel my trip", "I want to add a suitcase"),
        ("retail", "items last", "Please change my order", "Please cancel it"),
    ],
)
def test_prompt_additions_stay_small(domain: str, words: str, fitting: str, other: str) -> None:
    tools, brief = bench(domain).tools, layer(domain, "skills").brief
    described = [layer(domain, "contract").describe(t) for t in tools]
    notes = sum(len(d["description"]) - len(t["description"]) for d, t in zip(described, tools, strict=True))
    briefs = [brief(customer.opening(t.scenario), bench(domain).policy) for t in bench(domain).tasks("all")]
    assert notes > 300 and (notes + max(map(len, briefs))) / 4 < 400
    assert words in brief(fitting, "") and words not in brief(other, "")


# -- recorded GPT-4o trajectories ---

# τ-bench v1 rewards this one; policy line "insured, and the reason is covered by insurance" forbids it (the
# user's reason was a change of plan), and the same task's solution in τ² leaves the reservation alone.
EXCEPTIONS = {(31, 0): ["cancel_conditions"]}


def replay(record: dict[str, Any]) -> list[str]:
    """Rules that would have stopped something in a recorded trajectory; rewrites count as ``"rewrite"``."""
    desk, stopped = Desk("airline"), []
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
                reply = desk.reply(message["content"])
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
