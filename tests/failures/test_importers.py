"""Foreign traces: every format, gold at the door, damage by file, record and field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ecdysis_lab.failures.cards import find_failures, outline
from ecdysis_lab.failures.importing import Damaged, import_traces
from ecdysis_lab.records import LabError, Trajectory, to_json
from ecdysis_lab.store import Store

REAL = Path(__file__).parents[3] / "shared" / "data" / "tau_bench_gpt4o_airline_trials01.json"
needs_real = pytest.mark.skipif(not REAL.exists(), reason="shared data absent")
CANARY = "CANARY-7f3a"
GOLD = {"name": CANARY, "kwargs": {"order_id": CANARY}, "arguments": {"order_id": CANARY}, "info": CANARY}
ORDER = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"id": "W1"}'}}
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "policy"},
    {"role": "user", "content": "Where is W1?"},
    {"role": "assistant", "content": None, "tool_calls": [ORDER]},
    {"role": "tool", "tool_call_id": "c1", "name": "get_order", "content": "Error: order not found"},
    {"role": "assistant", "content": "I cannot find it."},
    {"role": "user", "content": "Bye ###STOP###"},
]


def v1(**more: Any) -> dict[str, Any]:
    """A τ-bench v1 record, gold in every place where v1 keeps it."""
    task = {"user_id": "u", "actions": [GOLD], "outputs": [CANARY], "instruction": CANARY}
    reward = {"reward": 0.0, "info": {"r_actions": 0.0, "gt_data_hash": CANARY}, "actions": [GOLD]}
    info = {"task": task, "source": "user", "user_cost": 0.1, "reward_info": reward}
    return {"task_id": 3, "reward": 0.0, "info": info, "traj": CHAT, "trial": 1, **more}


def simulation(**more: Any) -> dict[str, Any]:
    """A τ² simulation, gold in every check."""
    call = {"id": "c1", "name": "cancel_order", "arguments": {"order_id": "#W1"}, "requestor": "assistant"}
    messages = [
        {"role": "user", "content": "Cancel, please", "raw_data": {"gold": CANARY}},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "id": "c1", "content": "no such order", "error": True, "requestor": "assistant"},
        {"role": "user", "content": "###STOP###"},
    ]
    reward = {
        "reward": 0.0,
        "db_check": {"db_match": False, "db_reward": 0.0},
        "action_checks": [{"action": GOLD, "action_match": False, "action_reward": 0.0}],
        "communicate_checks": [{"info": CANARY, "met": True, "justification": CANARY}],
        "nl_assertions": [{"nl_assertion": CANARY, "met": False, "justification": CANARY}],
        "env_assertions": [{"env_assertion": {"func_name": CANARY}, "met": False, "reward": 0.0}],
        "reward_breakdown": {"DB": 0.0, "COMMUNICATE": 1.0},
        "info": {"note": CANARY},
    }
    record = {
        "id": "s1", "task_id": "12", "trial": 0, "seed": 300, "duration": 4.5,
        "termination_reason": "user_stop", "reward_info": reward, "messages": messages,
    }  # fmt: skip
    return {**record, **more}


def results(simulations: list[Any]) -> dict[str, Any]:
    """A τ² ``results.json`` around simulations."""
    task = {
        "id": "12",
        "user_scenario": {"instructions": CANARY},
        "evaluation_criteria": {"actions": [GOLD], "communicate_info": [CANARY], "nl_assertions": [CANARY]},
    }
    info = {
        "environment_info": {"domain_name": "retail", "policy": CANARY},
        "agent_info": {"llm": "gpt-x", "llm_args": {"api_key": CANARY}},
        "user_info": {"llm": "user-y"},
    }
    return {"timestamp": "t", "info": info, "tasks": [task], "simulations": simulations}


def write(path: Path, document: Any) -> Path:
    """JSON in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def write_lines(path: Path, *records: Any) -> Path:
    """JSONL in a file; a text stands as it is."""
    lines = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def all_text(trajectories: tuple[Trajectory, ...]) -> str:
    """Everything that a store, a card or a prompt could take from trajectories."""
    cards = [
        f.card + repr(f)
        for d in ("transcript", "checks", "scenario")
        for f in find_failures(trajectories, disclosure=d)
    ]  # type: ignore[arg-type]
    lines = [line for t in trajectories for line in outline(t.messages)]
    return "\n".join([*map(to_json, trajectories), *cards, *lines])


@needs_real
def test_the_recorded_gpt4o_trials_import_whole() -> None:
    found = import_traces(REAL)
    assert (len(found.trajectories), found.damaged, found.infra, found.format) == (100, (), 0, "tau-bench")
    assert (
        found.counts() == "100 trajectories imported (tau-bench), 0 infrastructure errors, 0 damaged records"
    )
    assert len({t.key for t in found.trajectories}) == 100
    ends = [t.termination for t in found.trajectories]
    assert {e: ends.count(e) for e in set(ends)} == {"user_stop": 76, "transfer": 22, "max_steps": 2}
    failures = find_failures(found.trajectories)
    assert len(failures) == 57
    assert sum("db" in f.failed_checks for f in failures) == 49
    assert sum("communicate" in f.failed_checks for f in failures) == 6
    assert sum(f.first_bad_what.startswith("book_reservation: Error: payment amount") for f in failures) == 4
    calls = sum(len(m.calls) for t in found.trajectories for m in t.messages)
    assert calls == sum(m.role == "tool" for t in found.trajectories for m in t.messages) == 572


@needs_real
def test_no_gold_of_the_real_tasks_survives_unless_it_was_said() -> None:
    raw = json.loads(REAL.read_text(encoding="utf-8"))
    found = import_traces(REAL)
    for record, trajectory in zip(raw, found.trajectories, strict=True):
        said = json.dumps(record["traj"], ensure_ascii=False)
        task = record["info"]["task"]
        gold = [task["instruction"], *task["outputs"]]
        gold += [str((record["info"]["reward_info"] or {}).get("info", {}).get("gt_data_hash"))]
        gold += [
            v for a in task["actions"] for v in a["kwargs"].values() if isinstance(v, str) and len(v) > 5
        ]
        # A gold value may stand in the transcript because the agent got it right; the importer adds none.
        kept = to_json(trajectory) + "".join(f.card for f in find_failures([trajectory]))
        assert [g for g in gold if len(g) > 5 and g != "None" and g not in said and g in kept] == []


@pytest.mark.parametrize("shape", ["v1", "file", "folder", "jsonl", "single"])
def test_canary_gold_never_passes_the_door(shape: str, tmp_path: Path) -> None:
    if shape == "v1":
        path = write(tmp_path / "runs.json", [v1()])
    elif shape == "file":
        path = write(tmp_path / "results.json", results([simulation()]))
    elif shape == "folder":
        write(tmp_path / "run" / "results.json", results([]))
        write(tmp_path / "run" / "simulations" / "s1.json", simulation())
        path = tmp_path / "run"
    elif shape == "single":
        path = write(tmp_path / "one.json", simulation())
    else:
        gold = {k: [GOLD] for k in ("actions", "evaluation_criteria", "outputs", "nl_assertions")}
        record = {"messages": CHAT, "score": 0, "task_id": "3", "gold": CANARY, **gold}
        path = write_lines(tmp_path / "runs.jsonl", record)
    assert CANARY in "".join(f.read_text() for f in tmp_path.rglob("*.json*"))
    found = import_traces(path)
    assert len(found.trajectories) == 1 and found.damaged == ()
    assert CANARY not in all_text(found.trajectories)


def test_canary_gold_never_reaches_a_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for trajectory in import_traces(write(tmp_path / "runs.json", [v1()])).trajectories:
        store.put(trajectory)
    again = import_traces(tmp_path / "store")
    assert again.format == "store" and len(again.trajectories) == 1
    assert again.trajectories[0].trial.task_id == "3"
    assert CANARY not in all_text(again.trajectories)


def test_v1_fields_become_ours(tmp_path: Path) -> None:
    (trajectory,) = import_traces(write(tmp_path / "a.json", [v1()])).trajectories
    assert trajectory.trial.task_id == "3" and trajectory.trial.seed == 1
    assert trajectory.termination == "user_stop" and trajectory.checks == {"db": False}
    assert trajectory.messages[2].calls[0].arguments == {"id": "W1"}
    assert trajectory.messages[3].error and trajectory.messages[3].name == "get_order"


@pytest.mark.parametrize(
    ("info", "reward", "checks"),
    [
        ({"r_actions": 1.0}, 1.0, {"db": True}),
        ({"r_outputs": 0.0, "outputs": {"327": False}}, 0.0, {"communicate": False}),
        ({"r_outputs": 1.0, "outputs": {"327": True}}, 0.0, {"communicate": True, "db": False}),
        ({"r_outputs": 1.0, "outputs": {"327": True}}, 1.0, {"communicate": True, "db": True}),
        ({}, 0.0, {}),
    ],
)
def test_v1_checks(info: dict[str, Any], reward: float, checks: dict[str, bool], tmp_path: Path) -> None:
    record = v1(reward=reward, info={"reward_info": {"reward": reward, "info": info}})
    (trajectory,) = import_traces(write(tmp_path / "a.json", [record])).trajectories
    assert trajectory.checks == checks


def test_v1_infrastructure_error_is_told_from_a_failure(tmp_path: Path) -> None:
    broken = v1(info={"error": "litellm.RateLimitError: 429", "traceback": "..."}, traj=[], trial=2)
    found = import_traces(write(tmp_path / "a.json", [v1(), broken]))
    assert found.infra == 1 and [t.status for t in found.trajectories] == ["scored", "infra_error"]
    assert found.trajectories[1].score is None and "429" in found.trajectories[1].error
    assert len(find_failures(found.trajectories)) == 1


def test_tau2_both_shapes_read_alike(tmp_path: Path) -> None:
    one = write(tmp_path / "one" / "results.json", results([simulation()]))
    write(tmp_path / "two" / "results.json", results([]))
    write(tmp_path / "two" / "simulations" / "s1.json", simulation())
    (a,) = import_traces(one).trajectories
    assert a.trial.benchmark == "tau2/retail" and a.trial.model == "gpt-x" and a.trial.user_model == "user-y"
    assert a.trial.seed == 300 and a.seconds == 4.5 and a.termination == "user_stop"
    assert a.checks == {"db": False, "communicate": True}
    assert a.messages[1].calls[0].name == "cancel_order"
    assert a.messages[2].error and a.messages[2].name == "cancel_order"
    assert import_traces(tmp_path / "two").trajectories == (a,)
    assert import_traces(tmp_path / "two" / "results.json").trajectories == (a,)


@pytest.mark.parametrize(
    ("change", "status", "score"),
    [
        ({"termination_reason": "infrastructure_error"}, "infra_error", None),
        ({"termination_reason": "timeout"}, "infra_error", None),
        ({"skipped": True, "termination_reason": "agent_error"}, "infra_error", None),
        ({"reward_info": None}, "infra_error", None),
        ({"termination_reason": "user_error"}, "user_fault", None),
        ({"termination_reason": "context_window_exceeded", "reward_info": None}, "scored", 0.0),
        ({"termination_reason": "max_steps", "reward_info": {"reward": 0.0}}, "scored", 0.0),
    ],
)
def test_tau2_terminations(change: dict[str, Any], status: str, score: float | None, tmp_path: Path) -> None:
    (trajectory,) = import_traces(
        write(tmp_path / "results.json", results([simulation(**change)]))
    ).trajectories
    assert (trajectory.status, trajectory.score) == (status, score)


def test_tau2_grouped_tool_messages_are_flattened(tmp_path: Path) -> None:
    calls = [{"id": f"c{i}", "name": f"tool_{i}", "arguments": {}} for i in range(2)]
    answers = [{"role": "tool", "id": f"c{i}", "content": str(i), "error": False} for i in range(2)]
    messages = [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_messages": answers},
    ]
    (trajectory,) = import_traces(
        write(tmp_path / "results.json", results([simulation(messages=messages)]))
    ).trajectories
    assert [m.name for m in trajectory.messages[1:]] == ["tool_0", "tool_1"]


def test_jsonl_needs_only_messages_and_score(tmp_path: Path) -> None:
    other = [
        {"role": "user", "content": [{"type": "text", "text": "Bonjour\u2028à tous"}]},
        {"role": "assistant", "content": "Oui"},
    ]
    lines = [
        {"messages": CHAT, "score": 0},
        {"messages": CHAT, "score": 1.0},
        {
            "messages": other,
            "score": 0.5,
            "task_id": 7,
            "model": "m",
            "trial": 2,
            "checks": {"db": False, "x": "g"},
        },
        {"messages": [], "score": None, "error": "Connection reset"},
    ]
    found = import_traces(write_lines(tmp_path / "runs.jsonl", *lines, ""))
    assert found.damaged == () and found.infra == 1 and len(found.trajectories) == 4
    a, b, c, _ = found.trajectories
    assert a.trial.task_id == b.trial.task_id and a.trial.task_id.startswith(
        "opening-"
    )  # same opening, same task
    assert a.key != b.key
    assert (c.trial.task_id, c.trial.model, c.trial.seed, c.score) == ("7", "m", 2, 0.5)
    assert c.messages[0].content == "Bonjour\u2028à tous" and c.checks == {"db": False}
    assert [f.score for f in find_failures(found.trajectories)] == [0.0, 0.5]


def test_damage_is_told_by_file_record_and_field_and_the_rest_imports(tmp_path: Path) -> None:
    nameless = {"role": "assistant", "content": None, "tool_calls": [{"function": {"arguments": "{}"}}]}
    records = [
        v1(),
        {**v1(), "reward": None},
        {**v1(), "reward": float("nan")},
        {k: v for k, v in v1().items() if k != "task_id"},
        {**v1(), "traj": [*CHAT, {"role": "robot", "content": "x"}]},
        {**v1(), "traj": [nameless]},
        {**v1(), "traj": []},
        "not a record",
        v1(trial=2),
    ]
    path = write(tmp_path / "runs.json", records)
    found = import_traces(path)
    assert len(found.trajectories) == 2
    assert [(d.record, d.field) for d in found.damaged] == [
        (1, "reward"),
        (2, "reward"),
        (3, "task_id"),
        (4, "traj[6].role"),
        (5, "traj[0].tool_calls[0].name"),
        (6, "traj"),
        (7, "record"),
    ]
    assert found.damaged[0] == Damaged(str(path), 1, "reward", "missing")
    assert found.damaged[3].what == "unknown role 'robot'"
    assert found.counts().endswith("7 damaged records")


def test_a_list_that_breaks_off_gives_its_complete_records(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    text = json.dumps([v1(trial=i) for i in range(3)])
    path.write_text(text[:-200], encoding="utf-8")
    found = import_traces(path)
    assert len(found.trajectories) == 2
    assert [(d.record, d.field) for d in found.damaged] == [(2, "json")]
    assert "not valid JSON" in found.damaged[0].what


def test_a_broken_line_does_not_stop_jsonl(tmp_path: Path) -> None:
    good = {"messages": CHAT, "score": 0}
    found = import_traces(write_lines(tmp_path / "runs.jsonl", good, '{"messages": [', good))
    assert len(found.trajectories) == 2 and [(d.record, d.field) for d in found.damaged] == [(1, "json")]


def test_a_models_malformed_arguments_are_kept_not_damage(tmp_path: Path) -> None:
    messages = json.loads(json.dumps(CHAT))
    messages[2]["tool_calls"][0]["function"]["arguments"] = '{"id": '
    path = write_lines(tmp_path / "runs.jsonl", {"messages": messages, "score": 0})
    (trajectory,) = import_traces(path).trajectories
    assert trajectory.messages[2].calls[0].arguments == {"_raw": '{"id": '}


@pytest.mark.parametrize(
    ("content", "failed"),
    [
        ("Error: no", True),
        ('{"error": "no"}', True),
        ('{"error": null, "x": 1}', False),
        ("errors were found in 3 rows", False),
        ("[]", False),
    ],
)
def test_errors_are_read_from_text_where_no_flag_says_it(content: str, failed: bool, tmp_path: Path) -> None:
    messages = [CHAT[1], CHAT[2], {**CHAT[3], "content": content}]
    path = write_lines(tmp_path / "runs.jsonl", {"messages": messages, "score": 0})
    assert import_traces(path).trajectories[0].messages[2].error is failed


def test_a_folder_of_files_imports_all_and_says_what_it_does_not_know(tmp_path: Path) -> None:
    write(tmp_path / "a.json", [v1()])
    write(tmp_path / "b.json", results([simulation()]))
    write(tmp_path / "settings.json", {"colour": "red"})
    found = import_traces(tmp_path)
    assert found.format == "tau-bench+tau2" and len(found.trajectories) == 2
    assert [(Path(d.file).name, d.field) for d in found.damaged] == [("settings.json", "format")]


def test_users_mistakes_are_explained(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no such file or folder"):
        import_traces(tmp_path / "absent.json")
    with pytest.raises(LabError, match="unknown format 'csv'; choose one of tau-bench, tau2, jsonl, store"):
        import_traces(tmp_path, "csv")
    with pytest.raises(LabError, match=r"no \.json or \.jsonl file"):
        import_traces(tmp_path)
    with pytest.raises(LabError, match="no known format found; choose one with --format"):
        import_traces(write(tmp_path / "x.json", {"colour": "red"}))


def test_a_forced_format_is_taken_at_its_word(tmp_path: Path) -> None:
    path = write(tmp_path / "runs.json", [v1()])
    assert import_traces(path, "tau-bench").trajectories == import_traces(path).trajectories
    wrong = import_traces(path, "jsonl")
    assert wrong.trajectories == ()
    assert [(d.record, d.field, d.what) for d in wrong.damaged] == [(0, "messages", "missing or empty")]
