"""τ² telecom: official scores, a user who acts on a phone of his own, and whose acts are whose."""

import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("tau2")

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.benchmarks.tau2.env import fresh_environment
from ecdysis_lab.benchmarks.tau2.sides import LiveEnvironment
from ecdysis_lab.benchmarks.users import UserSpec
from ecdysis_lab.evaluate.traces import _check_benchmark
from ecdysis_lab.failures.transcript import outline, steps
from ecdysis_lab.harness import SHIPPED, load_harness
from ecdysis_lab.harness.agent import HarnessedAgent
from ecdysis_lab.harness.replay import replay
from ecdysis_lab.harness.rollout import Setup, run_trial
from ecdysis_lab.hooks import Call
from ecdysis_lab.models.sim.user import reply
from ecdysis_lab.records import Completion, LabError, Message, Task, Trajectory, Usage, users_own
from ecdysis_lab.review.sections import acts_of
from ecdysis_lab.train.settings import configure, fitted, harness_of

NAME, EMPTY = "tau2/telecom", SHIPPED / "empty"
SETUP = Setup(NAME, "sim/flawless")


def bench() -> Any:
    return load_benchmark(NAME)


def gold(task: Task) -> list[Any]:
    return list(bench()._item(task.id).evaluation_criteria.actions)


def with_act(name: str, split: str = "test") -> Task:
    """The first task whose gold plan makes this call."""
    return next(t for t in bench().tasks(split) if any(a.name == name for a in gold(t)))


@pytest.fixture(scope="module")
def paid() -> Trajectory:
    """A flawless trial in which the user pays a bill."""
    return run_trial(SETUP, with_act("make_payment"), EMPTY, 0)


def official(simulation: Any, task: Task) -> Any:
    """The official evaluator on the package's own environment."""
    from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation

    return evaluate_simulation(simulation, bench()._item(task.id), EvaluationType.ALL, False, "telecom")


def simulation(task: Task) -> Any:
    metadata = {"benchmark": NAME, "task_id": task.id}
    agent = HarnessedAgent("sim/flawless", load_harness(EMPTY), bench(), metadata=metadata)
    trial = SETUP.trial(task, agent.harness.hash, 0)
    return bench().simulate(task, trial, agent, UserSpec("sim/user", metadata=metadata), SETUP.limits)


# -- scores ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "act",
    ["transfer_to_human_agents", "make_payment", "refuel_data", "disconnect_vpn", "grant_app_permission"],
)
def test_flawless_does_a_task_of_every_kind(act: str) -> None:
    """And its score is the official one to the last field."""
    task = with_act(act)
    run = simulation(task)
    ours, theirs = bench().evaluate(run, task.id), official(run, task)
    assert ours.reward == 1.0 and ours.model_dump() == theirs.model_dump()


@pytest.mark.slow
def test_flawless_does_the_official_test_split() -> None:
    left = {t.id: run_trial(SETUP, t, EMPTY, 0) for t in bench().tasks("test")}
    assert len(left) == 40 and [i for i, t in left.items() if t.score != 1.0] == []
    assert max(len(t.messages) for t in left.values()) < 60


def test_a_user_who_does_nothing_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The score rests on what he does with his phone."""
    monkeypatch.setattr("ecdysis_lab.models.sim.custom_llm.user_calls", lambda metadata: ())
    left = run_trial(SETUP, with_act("disconnect_vpn"), EMPTY, 0)
    assert (left.status, left.score, left.termination) == ("scored", 0.0, "user_stop")


def test_tasks_and_tools_are_the_official_ones() -> None:
    made = bench()
    by_split = {split: [t.id for t in made.tasks(split)] for split in ("train", "test", "all")}
    assert [len(ids) for ids in by_split.values()] == [74, 40, 114]
    assert set(by_split["train"]) | set(by_split["test"]) == set(by_split["all"])
    assert {t["kind"] for t in made.tools} == {"read", "write", "other"} and len(made.tools) == 13
    assert not {t["name"] for t in made.tools} & {t.name for t in made._user_tools}
    assert made.effect(Call("toggle_data", {})) == "other"  # no act of the agent's


def test_the_oracle_divides_the_gold_acts_between_both_sides() -> None:
    for task in bench().tasks("all"):
        oracle, plan = bench().oracle(task.id), gold(task)
        identified, *calls = oracle.calls
        assert (
            identified.name == "get_customer_by_phone"
            and identified.arguments["phone_number"] in task.scenario
        )
        assert [(c.name, c.arguments) for c in calls] == [
            (a.name, a.arguments) for a in plan if a.requestor == "assistant"
        ]
        assert [(c.name, c.arguments) for c in oracle.user_calls] == [
            (a.name, a.arguments) for a in plan if a.requestor == "user"
        ]


# -- environments --------------------------------------------------------------------------------------------------


def test_an_environment_is_as_the_task_finds_it_and_answers_as_the_official_one() -> None:
    from tau2.domains.telecom.environment import get_environment

    task = with_act("make_payment")
    ours, theirs = bench().environment(task.id), get_environment()
    start = bench()._item(task.id).initial_state
    theirs.set_state(start.initialization_data, start.initialization_actions, [])
    assert ours.read("get_details_by_id", {"id": "L1002"})["status"] == "Suspended"
    for action in gold(task):
        call = Call(action.name, action.arguments)
        answer = ours.user_call(call) if action.requestor == "user" else ours.call(call)
        assert answer == LiveEnvironment(theirs)._respond(call, action.requestor)
        assert not answer[1]
    assert ours.environment.get_db_hash() == theirs.get_db_hash()
    assert ours.environment.get_user_db_hash() == theirs.get_user_db_hash()
    assert ours.call(Call("toggle_data", {}))[1]  # the agent cannot reach the user's phone


def test_a_broken_phone_is_broken_in_its_own_trial_only() -> None:
    """τ² keeps the details of the VPN in the class, where breaking them breaks every later trial."""
    first = fresh_environment("telecom")
    shared = type(first.user_tools).default_vpn_details
    before = shared.model_copy()
    first.user_tools.break_vpn()
    first.tools.db.lines.clear()
    second = fresh_environment("telecom")
    second.user_tools.connect_vpn()
    assert first.user_tools.device.vpn_details.server_performance.value == "poor"
    assert second.user_tools.device.vpn_details.server_performance.value == "excellent"
    assert shared == before and shared is not first.user_tools.default_vpn_details
    assert len(second.tools.db.lines) == 9
    with pytest.raises(ValueError, match="no solo mode"):
        fresh_environment("telecom", solo_mode=True)


def test_a_charge_opens_the_same_bill_whenever_it_is_repeated() -> None:
    """τ² draws the id of a new bill; whoever reads it would break the scorer, which makes all calls again."""
    answers = set()
    for _ in range(2):
        live = LiveEnvironment(fresh_environment("telecom"))
        assert not live.call(
            Call("refuel_data", {"customer_id": "C1002", "line_id": "L1004", "gb_amount": 1.0})
        )[1]
        answers.add(live.call(Call("get_bills_for_customer", {"customer_id": "C1002"})))
    (bills,) = answers
    assert len(json.loads(bills[0])) == 3


def test_two_new_bills_of_a_customer_are_two() -> None:
    kit = fresh_environment("telecom").tools
    customer = kit.get_customer_by_id("C1002")
    for _ in range(2):
        kit._apply_one_time_charge("C1002", 1.0, "again")
        bill = kit._get_bill_by_id(customer.bill_ids[-1])
        bill.status = type(bill.status).PAID
    assert len(set(customer.bill_ids)) == len(customer.bill_ids) == 4


# -- whose acts ----------------------------------------------------------------------------------------------------


def test_the_users_calls_are_no_acts_of_the_agents(paid: Trajectory) -> None:
    plan = gold(with_act("make_payment"))
    users = [c.name for m in paid.messages if m.role == "user" for c in m.calls]
    assert users == [a.name for a in plan if a.requestor == "user"]
    assert [s.call.name for s in steps(paid.messages)] == [
        "get_customer_by_phone",
        *(a.name for a in plan if a.requestor == "assistant"),
    ]
    assert len(users_own(paid.messages)) == 2 * len(users)
    ids = [c.id for m in paid.messages for c in m.calls]
    assert len(set(ids)) == len(ids)  # both sides count their calls from the same
    lines = outline(paid.messages)
    assert any(" user call make_payment {}" in line for line in lines)
    assert any(" user ok make_payment: Payment of 65.0 USD" in line for line in lines)
    assert not any("make_payment" in line for line in acts_of([paid]))
    _check_benchmark([paid], NAME)
    assert not any(c.name == "make_payment" for m in paid.context for c in m.calls)


def test_results_of_a_users_calls_end_with_them() -> None:
    call = Call("toggle_data", {}, "a")
    told = [
        Message("user", "Hi"),
        Message("user", None, (call, Call("make_payment", {}, "b"))),
        Message("tool", "on"),
        Message("tool", "paid"),
        Message("tool", "of nobody"),
        Message("assistant", None, (call,)),
        Message("tool", "on"),
    ]
    assert users_own(told) == {1, 2, 3}


def test_a_replay_goes_through_what_the_user_did(paid: Trajectory, monkeypatch: pytest.MonkeyPatch) -> None:
    made, fresh = [], bench().environment
    monkeypatch.setattr(bench(), "environment", lambda task_id: made.append(fresh(task_id)) or made[-1])
    for trajectory in (paid, Trajectory(paid.trial, "scored", 1.0, "user_stop", {}, paid.messages)):
        left = replay(trajectory, load_harness(EMPTY), bench())
        assert (left.calls, left.differences, left.faults) == (3, (), ())
        assert made[-1].read("get_details_by_id", {"id": "B1234321"})["status"] == "Paid"
    assert replay(paid, load_harness(EMPTY), bench()).unchanged


def test_facts_of_a_task_are_what_its_messages_show(paid: Trajectory) -> None:
    task = paid.trial.task_id
    assert bench().facts(task) == {
        "555-123-2002": "phone number",
        "John Smith": "person",
        "john smith": "person",
    }
    found = bench().facts(task, paid.messages)
    for fact, kind in [
        ("C1001", "customer id"),
        ("L1002", "line id"),
        ("B1234321", "bill id"),
        ("1985-06-15", "date of birth"),
        ("90210", "zip code"),
        ("john.smith@example.com", "e-mail"),
    ]:
        assert found[fact] == kind
    assert "P1002" not in found  # a plan is in the catalogue, not a customer's


# -- the user's model ----------------------------------------------------------------------------------------------


def prompt(*talk: tuple[str, str]) -> list[dict[str, Any]]:
    scenario = "<scenario>Reason for call:\n\tYou are lost.\nKnown info:\n\tYou are Ann.\n</scenario>"
    return [{"role": "system", "content": scenario}, *({"role": r, "content": c} for r, c in talk)]


def test_the_user_makes_the_call_that_is_named_and_tells_its_result() -> None:
    plan = (Call("toggle_data", {}), Call("reboot_device", {}), Call("toggle_data", {}))
    start = (("user", "Hi!"), ("assistant", "I am lost."))
    assert reply(prompt(*start, ("user", "Please toggle data.")), plan) == plan[0]
    assert reply(prompt(*start, ("user", "Use reboot_device now.")), plan) == plan[1]
    assert reply(prompt(*start, ("user", "Is the data toggled?")), plan) not in plan
    assert reply(prompt(*start, ("user", "Please toggle data."))) == "What I need is this: I am lost."
    done = {"role": "assistant", "tool_calls": [{"function": {"name": "toggle_data", "arguments": "{}"}}]}
    told = [*prompt(*start, ("user", "Please toggle data.")), done, {"role": "tool", "content": "ON"}]
    assert reply(told, plan) == "I did that. It says: ON"
    again = [*told, {"role": "assistant", "content": "ON"}, {"role": "user", "content": "Toggle data again."}]
    assert reply(again, plan) is plan[2]
    assert reply([*again[:-1], done, again[-1]], plan) not in plan  # no more than the plan has


Scripted = Callable[..., dict[str, list[Any]]]
SAID = Usage(1, 10, 5, 0.0, 0.1, 1)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Completions by role in place of ``complete``; returns the tools that each role was shown."""

    def install(**script: list[Completion]) -> dict[str, list[Any]]:
        shown: dict[str, list[Any]] = {}

        def complete(role: str, model: str, messages: Any, tools: Any = None, **options: Any) -> Completion:
            shown[role] = [t["function"]["name"] for t in tools or ()]
            return script[role].pop(0)

        for place in ("ecdysis_lab.harness.agent", "ecdysis_lab.benchmarks.tau2.sides"):
            monkeypatch.setattr(f"{place}.complete", complete)
        return shown

    return install


def says(text: str | None, *calls: Call, broken: bool = False) -> Completion:
    return Completion(text, calls, (("toggle_data", "{"),) if broken else (), "stop", SAID)


def test_a_model_that_plays_the_user_has_his_tools(scripted: Scripted) -> None:
    both = (Call("toggle_data", {}, "x"), Call("no_such_tool", {}, "y"))
    shown = scripted(
        agent=[says("Toggle data, please."), says("Thank you. Bye.")],
        user=[says("My phone is dead."), says(None, *both), says("It is on."), says("###STOP###")],
    )
    left = run_trial(Setup(NAME, "openai/x", "openai/y"), with_act("make_payment"), EMPTY, 0)
    assert (left.status, left.score, left.error) == ("scored", 0.0, "")
    assert len(shown["user"]) == 30 and "toggle_data" in shown["user"] and "toggle_data" not in shown["agent"]
    told = [(m.role, m.name, m.call_id, m.error) for m in left.messages if m.role == "tool"]
    assert told == [("tool", "toggle_data", "user_x", False), ("tool", "no_such_tool", "user_y", True)]
    assert left.usage["user"].calls == 4 and steps(left.messages) == []


@pytest.mark.parametrize("said", [None, "Done, I switched it on."])
def test_a_call_that_cannot_be_read_is_the_users_fault(scripted: Scripted, said: str | None) -> None:
    scripted(agent=[], user=[says(said, broken=True)])
    left = run_trial(Setup(NAME, "openai/x", "openai/y"), with_act("make_payment"), EMPTY, 0)
    assert (left.status, left.score) == ("user_fault", None)


# -- without a harness by hand --------------------------------------------------------------------------------------


def test_nobody_wrote_a_harness_or_slips_for_it() -> None:
    assert bench().human == bench().slips == ""
    settings, notes = fitted(configure(benchmark=NAME))
    assert settings.start == "empty" and not any("human" in arm for arm in settings.arms)
    assert f"start: empty, since {NAME} has no harness by hand" in notes
    with pytest.raises(LabError, match="has none by hand; start from empty"):
        harness_of(NAME, "human")
