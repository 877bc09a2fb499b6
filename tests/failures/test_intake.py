"""``ecdysis-lab import``: counts, damage, repeats, and no gold in the store."""

from __future__ import annotations

import json
import sqlite3
import zlib
from pathlib import Path
from typing import Any

import pytest

from ecdysis_lab.cli import parser
from ecdysis_lab.failures import cards, collection
from ecdysis_lab.records import LabError
from ecdysis_lab.show.widgets import open_source
from ecdysis_lab.store import Store

CANARY = "CANARY-51c0"


def talk(text: str = "Where is my order?") -> list[dict[str, Any]]:
    """A chat with one failed call."""
    call = {"id": "c1", "function": {"name": "get_order", "arguments": '{"id": "W1"}'}}
    return [
        {"role": "user", "content": text},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "get_order", "content": "Error: order not found"},
        {"role": "assistant", "content": "I cannot find it."},
    ]


def chat(task: int, score: float | None = 0.0, **more: Any) -> dict[str, Any]:
    """A JSONL record."""
    return {"task_id": str(task), "score": score, "messages": talk(f"Task {task}"), **more}


def jsonl(path: Path, *records: Any) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))
    return path


def tau_bench(path: Path) -> Path:
    """A τ-bench v1 list with gold: a failure, a success, an infrastructure error."""
    task = {
        "actions": [{"name": CANARY, "kwargs": {"id": CANARY}}],
        "outputs": [CANARY],
        "instruction": CANARY,
    }
    reward = {"info": {"r_actions": 0.0, "gt_data_hash": CANARY}, "actions": [CANARY]}
    info = {"task": task, "reward_info": reward}
    head = {"traj": talk(), "trial": 0}
    rows = [
        {"task_id": 0, "reward": 0.0, "info": info, **head},
        {"task_id": 1, "reward": 1.0, "info": info, **head},
        {"task_id": 2, "reward": 0.0, "info": {"error": "Connection reset", "task": task}, **head},
    ]
    path.write_text(json.dumps(rows))
    return path


def tau2(path: Path, folder: bool = False) -> Path:
    """τ² results as one file, or as a folder with one file a simulation; one user fault among them."""
    info = {"agent_info": {"llm": "gpt-x"}, "user_info": {"llm": "gpt-u"},
            "environment_info": {"domain_name": "airline"}}  # fmt: skip
    tasks = [{"id": "0", "evaluation_criteria": {"actions": [CANARY], "nl_assertions": [CANARY]}}]
    runs = [
        {"task_id": str(i), "trial": 0, "termination_reason": end, "messages": talk(), "duration": 1.0,
         "reward_info": {"reward": float(i), "reward_breakdown": {"DB": float(i)}, "action_checks": [CANARY]}}
        for i, end in enumerate(("user_stop", "user_stop", "user_error"))
    ]  # fmt: skip
    if not folder:
        path.write_text(json.dumps({"info": info, "tasks": tasks, "simulations": runs}))
        return path
    (path / "simulations").mkdir(parents=True)
    (path / "results.json").write_text(json.dumps({"info": info, "tasks": tasks}))
    for i, run in enumerate(runs):
        (path / "simulations" / f"{i}.json").write_text(json.dumps(run))
    return path


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = parser.main(["import", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("name", ["tau-bench", "tau2", "tau2 folder", "jsonl", "store"])
def test_each_format_is_counted_and_opens_again(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {"trajectories": 3, "failures": 1, "infra_errors": 0, "user_faults": 0}
    if name == "tau-bench":
        path, wanted["infra_errors"] = tau_bench(tmp_path / "traces.json"), 1
    elif name.startswith("tau2"):
        path, wanted["user_faults"] = tau2(tmp_path / "traces.json", folder="folder" in name), 1
    else:
        path = jsonl(tmp_path / "traces.jsonl", chat(0), chat(1, 1.0), chat(2, 0.5 + 0.5))
    if name == "store":
        collection.take_in(path, tmp_path / "traces")
        path = tmp_path / "traces"
    code, out, _ = command(capsys, path, "--data", tmp_path / "data", "--json")
    found = json.loads(out)
    assert code == 0 and found["format"] == name.split()[0]
    assert {k: found[k] for k in wanted} == wanted
    assert found["new"] == 3 and found["damaged"] == [] and found["name"] == "traces"
    # The import opens by its folder and by its name, in the picker's reader and in one line for a notebook.
    source = open_source("traces", tmp_path / "data")
    assert [f.task_id for f in source.failures] == ["0"] and source.name == "traces"
    assert [f.key for f in cards.load(found["folder"])] == [f.key for f in source.failures]
    assert f"{wanted['infra_errors']} infrastructure errors" in source.counts
    # The newest import or run is what an empty source means.
    assert [f.key for f in open_source("", tmp_path / "data").failures] == [f.key for f in source.failures]


def test_no_gold_reaches_the_store_or_the_record(tmp_path: Path) -> None:
    for path in (tau_bench(tmp_path / "v1.json"), tau2(tmp_path / "v2.json")):
        assert CANARY in path.read_text()
        collection.take_in(path, tmp_path / "data")
    rows = []
    with sqlite3.connect(tmp_path / "data" / "trials.sqlite") as connection:
        for table in ("trials", "infra_errors", "truth"):
            rows += connection.execute(f"SELECT * FROM {table}").fetchall()
    cells = [zlib.decompress(c).decode() if isinstance(c, bytes) else str(c) for row in rows for c in row]
    assert any("order not found" in cell for cell in cells)
    assert [cell for cell in cells if CANARY in cell] == []
    records = list((tmp_path / "data" / "imports").glob("*/import.json"))
    assert len(records) == 2 and not any(CANARY in record.read_text() for record in records)


def test_damage_is_told_by_file_record_and_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = jsonl(tmp_path / "mixed.jsonl", chat(0), '{"task_id": "1", "sco', chat(2, 7.0), {"task_id": "3"})
    code, out, _ = command(capsys, path, "--data", tmp_path / "data")
    assert code == 0
    assert "1 trajectories imported (jsonl, jsonl)" in out
    assert "1 failures, 0 infrastructure errors, 0 user faults, 3 damaged records" in out
    assert f"{path}, record 1, json: not valid JSON" in out
    assert f"{path}, record 2, score: expected a number in [0, 1], found 7.0" in out
    assert f"{path}, record 3, messages: missing or empty" in out
    assert len(open_source("mixed", tmp_path / "data").damaged) == 3
    with pytest.warns(UserWarning, match=r"3 damaged records; the first damaged one is .*record 1, json"):
        assert len(cards.load(path)) == 1


def test_a_second_import_adds_nothing_and_a_second_file_loses_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (tmp_path / "b").mkdir()
    first = jsonl(tmp_path / "a.jsonl", chat(0), chat(0), chat(1, None, error="time-out"))
    again = [collection.take_in(first, data) for _ in range(2)]
    assert [(i.new, i.trajectories, i.infra_errors) for i in again] == [(3, 3, 1), (0, 3, 1)]
    assert len(Store(data).keys()) == 2 and len(Store(data).infra_errors()) == 1
    # Another conversation about task 0, which no file can tell from the first by its identity.
    other = jsonl(tmp_path / "b" / "a.jsonl", {**chat(0), "messages": talk("quite another")})
    found = collection.take_in(other, data)
    assert found.new == 1 and len(Store(data).keys()) == 3
    assert found.name.startswith("a-") and found.folder != again[0].folder
    assert [f.trajectory.messages[0].content for f in cards.load(found.folder)] == ["quite another"]
    assert len(cards.load("a", data=data)) == 2


def test_a_benchmark_may_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = jsonl(tmp_path / "air.jsonl", chat(0), chat(9999))
    code, out, _ = command(capsys, path, "--data", tmp_path / "data", "--benchmark", "tau2/airline")
    assert code == 0 and "1 tasks are not in tau2/airline, e.g. 9999" in out
    stored = Store(tmp_path / "data").trajectories(benchmark="tau2/airline")
    assert [(t.trial.task_id, t.trial.version, t.trial.split) for t in stored] == [
        ("0", "imported", "imported"),
        ("9999", "imported", "imported"),
    ]
    hidden = open_source("air", tmp_path / "data", disclosure="scenario")
    assert "Scenario:" in hidden.failures[0].card and "Scenario:" not in hidden.failures[1].card


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch.json"], "nothing to import at nosuch.json: no such file or folder"),
        (["FILE", "--format", "csv"], "unknown format 'csv'; choose one of tau-bench, tau2, jsonl, store"),
        (["FILE", "--benchmark", "hotel"], "unknown 'hotel'; choose one of tau2/airline, tau2/retail"),
        (["BAD"], "nothing imported from BAD: 1 damaged records; BAD, record 0, score: missing"),
        (["EMPTY"], "nothing to import in EMPTY: no .json or .jsonl file in the folder"),
        (["TEXT"], "TEXT: no known format found; choose one with --format: tau-bench, tau2, jsonl, store"),
    ],
)
def test_mistakes(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {
        "FILE": jsonl(tmp_path / "file.jsonl", chat(0)),
        "BAD": jsonl(tmp_path / "bad.jsonl", chat(0, None)),
        "EMPTY": tmp_path / "empty",
        "TEXT": jsonl(tmp_path / "text.jsonl", {"a": 1}),
    }
    places["EMPTY"].mkdir()
    given = [str(places.get(a, a)) for a in arguments]
    for name, place in places.items():
        said = said.replace(name, str(place))
    code, out, err = command(capsys, *given, "--data", tmp_path / "data")
    assert (code, out) == (2, "") and err.startswith("ecdysis-lab: ") and said in err
    assert err.count("\n") == 1 and not (tmp_path / "data" / "imports").exists()


def test_an_import_without_its_store_is_told(tmp_path: Path) -> None:
    found = collection.take_in(jsonl(tmp_path / "a.jsonl", chat(0)), tmp_path / "data")
    (tmp_path / "data" / "trials.sqlite").unlink()
    with pytest.raises(LabError, match="1 of 1 trials of a are not in the store"):
        open_source(str(found.folder), tmp_path / "data")
