"""τ²-bench telecom: the user has tools of his own, and the simulated one plays them from the oracle."""

from __future__ import annotations

from typing import Any

import pytest

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.benchmarks.tau2 import Tau2
from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.replay import replay
from ecdysis_lab.harness.rollout import Setup, run_trial
from ecdysis_lab.hooks import Call
from ecdysis_lab.models.sim import user

NAME = "tau2/telecom"
SETUP = Setup(NAME, "sim/flawless", user_model="sim/user")
TOOLS = [
    {"function": {"name": name, "parameters": {"required": required}}}
    for name, required in {
        "toggle_data": [], "toggle_data_saver_mode": [], "set_apn_settings": ["apn_settings"], "reset_apn_settings": [],
        "grant_app_permission": ["app_name", "permission"],
    }.items()
]  # fmt: skip
PLAN = [Call("grant_app_permission", {"app_name": "messaging", "permission": p}) for p in ("sms", "storage")]


@pytest.fixture(scope="module")
def bench() -> Tau2:
    return load_benchmark(NAME)  # type: ignore[return-value]


def test_the_official_splits(bench: Tau2) -> None:
    assert [len(bench.tasks(split)) for split in ("train", "test", "all")] == [74, 40, 114]
    assert (bench.human, bench.slips, bench.user) == ("", "", "model")


def test_flawless_is_flawless_whoever_has_to_act(bench: Tau2) -> None:
    """Tasks of each kind; all 114 were run once with the same result."""
    golds = {t: bench.oracle(t.id) for t in bench.tasks("test")}
    longest = max(golds, key=lambda t: len(golds[t].turns))
    handed = next(t for t in golds if any(c.name.startswith("transfer") for c in golds[t].calls))
    paying = next(
        t for t in bench.tasks("all") if any(c.name == "make_payment" for c in bench.oracle(t.id).user_calls)
    )
    for task in (longest, handed, paying):
        left = run_trial(SETUP, task, load_harness("empty").path, 0)
        assert (left.status, left.score) == ("scored", 1.0), (task.id, left.checks, left.error)
        oracle = bench.oracle(task.id)
        made = [c for m in left.messages if m.role == "user" for c in m.calls]
        assert [(c.name, c.arguments) for c in made] == [(c.name, c.arguments) for c in oracle.user_calls]
        ids = [c.id for m in left.messages for c in m.calls]
        assert len(ids) == len(set(ids)), "calls of user and agent must not share an id"


def test_nothing_done_is_no_success(bench: Tau2, monkeypatch: Any) -> None:
    task = max(bench.tasks("test"), key=lambda t: len(bench.oracle(t.id).user_calls))
    monkeypatch.setattr(user, "_handled", lambda *_: "")
    assert run_trial(SETUP, task, load_harness("empty").path, 0).score == 0.0


def test_an_environment_starts_in_the_state_of_its_task(bench: Tau2) -> None:
    """Two trials share nothing, and a replay meets the state that the agent met."""
    refuel = next(
        t for t in bench.tasks("test") if any(c.name == "refuel_data" for c in bench.oracle(t.id).calls)
    )
    call = next(c for c in bench.oracle(refuel.id).calls if c.name == "refuel_data")
    line = {"customer_id": call.arguments["customer_id"], "line_id": call.arguments["line_id"]}
    environment = bench.environment(refuel.id)
    before = environment.read("get_data_usage", line)
    assert environment.call(call)[1] is False
    assert environment.read("get_data_usage", line) != before
    assert bench.environment(refuel.id).read("get_data_usage", line) == before
    left = run_trial(SETUP, refuel, load_harness("empty").path, 0)
    found = replay(left, load_harness("empty"), load_benchmark(NAME))
    assert found.differences == () and found.calls == len(bench.oracle(refuel.id).calls)


def test_facts_of_telecom(bench: Tau2) -> None:
    assert bench.facts(bench.tasks("test")[0].id)["555-123-2002"] == "phone number"


def said(text: str, *after: dict[str, Any]) -> list[dict[str, Any]]:
    opening = [
        {"role": "system", "content": "<scenario>Reason for call: x</scenario>"},
        {"role": "assistant", "content": "x"},
    ]
    return [*opening, {"role": "user", "content": text}, *after]


def called(name: str) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": name}}]}


def test_the_user_does_what_he_is_asked_for_by_name() -> None:
    assert user.reply(said("Please toggle data saver mode."), TOOLS) == Call("toggle_data_saver_mode", {})
    assert user.reply(said("Toggle_Data, please"), TOOLS) == Call("toggle_data", {})
    assert user.reply(said("Now reset APN settings."), TOOLS) == Call("reset_apn_settings", {})
    assert isinstance(user.reply(said("Now set APN settings."), TOOLS), str), "he does not know to what"
    both = "Toggle data, then reset APN settings."
    assert user.reply(said(both, called("toggle_data")), TOOLS) == Call("reset_apn_settings", {})
    done = [called("toggle_data"), {"role": "tool", "content": "Data is ON"}, called("reset_apn_settings")]
    assert (
        user.reply(said(both, *done, {"role": "tool", "content": "Reset"}), TOOLS)
        == "I have done it. Data is ON Reset"
    )
    assert isinstance(user.reply(said("Please toggle data.")), str), "a user without tools only talks"


def test_arguments_are_those_of_the_gold_calls_in_order() -> None:
    ask = "Please grant app permission."
    assert user.reply(said(ask), TOOLS, PLAN) == PLAN[0]
    again = [
        called("grant_app_permission"),
        {"role": "tool", "content": "ok"},
        {"role": "user", "content": ask},
    ]
    assert user.reply(said(ask, *again), TOOLS, PLAN) == PLAN[1]
