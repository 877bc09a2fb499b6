"""DBBench: its data, its tools, its trials and its scores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.benchmarks.agentbench import desk
from ecdysis_lab.benchmarks.agentbench.data import OWN, PLACE
from ecdysis_lab.benchmarks.agentbench.dbbench import NUDGE, ROUNDS, DBBench
from ecdysis_lab.benchmarks.agentbench.engine import Answer
from ecdysis_lab.benchmarks.agentbench.engines import ENGINE
from ecdysis_lab.cli import main
from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.replay import replay
from ecdysis_lab.harness.rollout import Setup, run_trial
from ecdysis_lab.hooks import Call
from ecdysis_lab.models.sim import provider
from ecdysis_lab.records import LabError, Message, Trial
from ecdysis_lab.train.leak import facts, leaks

NAME = "agentbench/dbbench"
CLONE = Path(__file__).resolve().parents[3] / "shared" / "data" / "agentbench"
RECORDS = [json.loads(line) for line in OWN.read_text(encoding="utf-8").splitlines()]
EMPTY = load_harness("empty")
LIMITS = {"max_steps": 100, "max_errors": 10}


@pytest.fixture(autouse=True)
def chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The shipped set on SQLite, and nothing cached of another one."""
    monkeypatch.setenv(PLACE, "")  # set, so that what a test or a command sets is taken back
    monkeypatch.setenv(ENGINE, "")
    for cached in (load_benchmark, provider._scene, provider.susceptible):
        cached.cache_clear()
    yield
    for cached in (load_benchmark, provider._scene, provider.susceptible):
        cached.cache_clear()


@pytest.fixture(scope="module")
def own() -> DBBench:
    return DBBench()


def clone(folder: Path, dev: list[Any], standard: list[Any], layout: str = "dbbench") -> Path:
    (folder / layout).mkdir(parents=True)
    for name, records in (("dev", dev), ("standard_200", standard)):
        lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
        (folder / layout / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


# -- the shipped set ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["sqlite", "mariadb"])
def test_an_engine_proves_every_label_and_hash_of_our_own(
    engine: str, monkeypatch: Any, request: Any
) -> None:
    if engine == "mariadb":
        request.getfixturevalue("needs")("mariadbd")
    monkeypatch.setenv(ENGINE, engine)
    made = DBBench()
    assert made.version.startswith(engine)
    assert [i for i in made.items.by_id if not made.clean(i)] == []


def test_our_own_tasks_have_what_a_table_can_have(own: DBBench) -> None:
    items = list(own.items.by_id.values())
    assert Counter((i.split, i.kind) for i in items) == Counter(
        {(s, k): 11 for s in ("train", "test") for k in ("SELECT", "INSERT", "UPDATE")}
    )
    assert [items[0].id, items[-1].id] == ["own-01", "own-66"]
    halves = [{i.table.name for i in items if i.split == split} for split in ("train", "test")]
    assert not halves[0] & halves[1], "what is learnt of a table must not help on the test half"
    assert len({i.text for i in items}) == 66
    rows = [i.table.rows for i in items]
    cells = {cell for table in rows for row in table for cell in row}
    assert all(6 <= len(table) <= 41 for table in rows)
    assert {None, "", "Total", "12,480", "2024-01-08", "September 14, 2022", "03/14/2015"} <= cells
    assert any("'" in cell for cell in cells if cell) and any('"' in cell for cell in cells if cell)
    assert any(len(set(table)) < len(table) for table in rows), "a row that occurs twice"
    assert any(sum(len(str(row)) for row in table) > 1600 for table in rows)
    assert {"Order", "Rank", "Group", "Key", "From", "To"} <= {c for i in items for c in i.table.columns}


# -- reading a clone ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["dbbench", "data/dbbench"])
def test_a_clone_is_read_in_either_layout(
    layout: str, tmp_path: Path, own: DBBench, monkeypatch: Any
) -> None:
    monkeypatch.setenv(PLACE, str(clone(tmp_path, RECORDS[:3], ["", *RECORDS[3:12]], layout)))
    made = DBBench()
    assert [t.id for t in made.tasks("train")] == ["dev-1", "dev-2", "dev-3"]
    assert next(t.id for t in made.tasks("test", 1, 0)).startswith("standard-")
    assert next(t.id for t in made.tasks("test")) == "standard-02", "the number is that of the line"
    assert made.version != own.version and made.version.startswith("sqlite ")
    text = made.tasks("train")[0].scenario
    assert text.startswith("How many lighthouses") and "The name of this table is Lighthouses" in text


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("{", "no JSON"),
        ("[]", "a record must be an object"),
        ({"description": 5}, "description: must be a text"),
        ({"label": []}, "label: is empty"),
        ({"label": "x"}, "label: must be a list"),
        ({"type": None}, "type: is missing"),
        ({"answer_md5": "x", "type": ["UPDATE"]}, "answer_md5: "),
        ({"table": []}, "table: must hold"),
        ({"table": {"table_name": "T", "table_info": {"columns": [], "rows": []}}}, "columns: must be a list"),
        ({"table": {"table_name": "T", "table_info": {"columns": [{"name": "a"}], "rows": [["1", "2"]]}}},
         "rows: row 1 must have 1 cells"),
        ({"table": {"table_info": {"columns": [{"name": "a"}], "rows": []}}}, "table_name: is missing"),
    ],
)  # fmt: skip
def test_a_damaged_record_is_named(damage: Any, told: str, tmp_path: Path, monkeypatch: Any) -> None:
    broken = {**RECORDS[0], **damage} if isinstance(damage, dict) else damage
    monkeypatch.setenv(PLACE, str(clone(tmp_path, [RECORDS[0], broken], RECORDS[:1])))
    with pytest.raises(LabError, match=r"dev\.jsonl, line 2: ") as why:
        load_benchmark(NAME)
    assert told in str(why.value)


def test_a_place_or_an_engine_that_is_none_is_one_sentence(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv(PLACE, "/nowhere")
    with pytest.raises(LabError, match=r"^ECDYSIS_AGENTBENCH: no clone of AgentBench at /nowhere"):
        load_benchmark(NAME)
    monkeypatch.setenv(PLACE, "")
    monkeypatch.setenv(ENGINE, "oracle://me:secret@host")
    with pytest.raises(LabError, match=r"^engine: unknown 'oracle'; choose one of sqlite, mariadb") as why:
        load_benchmark(NAME)
    assert "secret" not in str(why.value)
    for option, said in (("--agentbench", "no clone of AgentBench"), ("--engine", "choose one of sqlite")):
        assert main(["run", option, "nothing"]) == 2
        assert said in capsys.readouterr().err


def test_draws_balance_the_kinds(own: DBBench) -> None:
    kinds = [Counter(own.items.by_id[t.id].kind for t in own.tasks("test", n, 3)) for n in (3, 20, 33)]
    assert [sorted(k.values()) for k in kinds] == [[1, 1, 1], [6, 7, 7], [11, 11, 11]]
    draws = {seed: [t.id for t in own.tasks("train", 9, seed)] for seed in (0, 1)}
    assert draws[0] != draws[1] and draws[0] == [t.id for t in own.tasks("train", 9, 0)] == sorted(draws[0])
    with pytest.raises(LabError, match="n: agentbench/dbbench train has 33 tasks, 34 were asked for"):
        own.tasks("train", 34)
    with pytest.raises(LabError, match="split: unknown 'dev'; choose one of train, test, all"):
        own.tasks("dev")
    with pytest.raises(LabError, match="no task 'own-99'; ids run own-01"):
        own.environment("own-99")


# -- the tools ------------------------------------------------------------------------------------------------------


def sql(query: Any, **more: Any) -> Call:
    return Call(desk.SQL, {"query": query, **more}, "c1")


def test_results_read_as_mysql_gives_them_to_python(own: DBBench) -> None:
    room = own.environment("own-02")
    assert room.call(sql("SELECT `Product`, `Price` FROM `Bakery Sales 2023` LIMIT 2")) == (
        "[('Rye loaf', '3.20'), ('Wheat loaf', '2.90')]", False)  # fmt: skip
    assert room.call(sql("SELECT COUNT(*) FROM `Bakery Sales 2023`")) == ("[(10,)]", False)
    assert room.call(sql("UPDATE `Bakery Sales 2023` SET `Price` = '1' WHERE `Product` = 'none'")) == (
        "[]",
        False,
    )
    text, error = room.call(sql("SELEC 1"))
    assert error and text.startswith("Error: 1064 (42000): ")
    for wrong in (sql(3), sql(" "), Call(desk.SQL, {}), Call("drop", {})):
        text, error = room.call(wrong)
        assert error and text.startswith("Error: ")
    assert room.call(Call(desk.SQL, {"sql": "SELECT 1"})) == ("[(1,)]", False)


def test_values_and_cuts() -> None:
    from datetime import date, timedelta
    from decimal import Decimal

    answer = Answer(((Decimal("1.50"), date(2024, 1, 2), timedelta(hours=1), b"x", None, 2.0),))
    assert desk.told(answer) == ("[(1.50, '2024-01-02', '1:00:00', 'x', None, 2.0)]", False)
    text, _ = desk.told(Answer((("x" * 900,),)))
    assert text[: desk.MOST_CHARACTERS] == "[('" + "x" * 797 and text[800:] == desk.CUT
    assert desk.told(Answer(((1,),), cut=True))[0] == "[(1,), … [more rows were left out]]"


def test_a_read_off_the_record_changes_nothing(own: DBBench) -> None:
    room = own.environment("own-01")
    count = {"query": "SELECT COUNT(*), NULL FROM `Lighthouses of the North Coast`"}
    assert room.read(desk.SQL, count) == [[10, None]]
    assert room.read(desk.SQL, {"query": "DELETE FROM `Lighthouses of the North Coast`"}) is None
    assert room.read(desk.SQL, count) == [[10, None]]
    assert room.read(desk.COMMIT, {"answers": []}) is None and not room.committed
    room.close()
    room.close()
    assert room.read(desk.SQL, count) == [[10, None]], "a new database"


def test_a_call_is_judged_by_its_statement(own: DBBench) -> None:
    effects = [
        own.effect(call) for call in (sql("SELECT 1"), sql("DELETE FROM t"), sql(3), Call(desk.COMMIT, {}))
    ]
    assert effects == ["read", "write", "other", "other"]


# -- a trial --------------------------------------------------------------------------------------------------------


class Scripted:
    """An agent that says what it was given, and text without end."""

    def __init__(self, *replies: Message) -> None:
        self.replies, self.heard = list(replies), []

    def start(self, environment: Any) -> None:
        self.environment = environment

    def user_says(self, text: str) -> Message:
        self.heard.append(text)
        return self.replies.pop(0) if self.replies else Message("assistant", "Let me think.")

    def tools_return(self, results: Any) -> Message:
        return self.user_says(results[-1].content)

    def close(self) -> None: ...


def calling(*calls: Call) -> Message:
    return Message("assistant", None, calls)


def play(bench: DBBench, task: str, *replies: Message) -> Any:
    agent = Scripted(*replies)
    found = next(t for t in bench.tasks("all") if t.id == task)
    trial = Trial(NAME, bench.version, task, found.split, "m", "", "h", 0)
    return bench.run(found, trial, agent, None, LIMITS), agent


COMMIT_2 = Call(desk.COMMIT, {"answers": ["2"]}, "c2")


def test_text_is_nudged_and_a_commit_ends_the_trial(own: DBBench) -> None:
    left, agent = play(own, "own-01", Message("assistant", "Two."), calling(COMMIT_2, sql("SELECT 1")))
    assert (left.score, left.termination, left.checks) == (
        1.0,
        "committed",
        {"committed": True, "answer": True},
    )
    assert [m.role for m in left.messages] == ["user", "assistant", "user", "assistant", "tool"]
    assert agent.heard == [left.messages[0].content, NUDGE]
    assert agent.environment._opened is None, "the database is closed"


def test_fifteen_rounds_without_a_commit_fail(own: DBBench) -> None:
    wrong = [calling(replace(sql(f"SELEC {n}"), id=str(n))) for n in range(15)]
    left, _ = play(own, "own-01", *wrong)
    assert (left.score, left.termination, left.checks) == (0.0, "max_rounds", {"committed": False})
    assert [m.role for m in left.messages] == ["user", *["assistant", "tool"] * ROUNDS] and ROUNDS == 15
    wrong = [calling(replace(sql(f"SELEC {n}"), id=str(n))) for n in range(14)]
    left, _ = play(own, "own-01", *wrong, calling(COMMIT_2))
    assert left.score == 1.0, "an error costs a round, and nothing else"


def test_four_replies_in_a_row_without_a_call_end_it(own: DBBench) -> None:
    talk = [Message("assistant", f"I look, and look {n}.") for n in range(4)]
    left, _ = play(own, "own-01", *talk, calling(COMMIT_2))
    assert (left.score, left.termination) == (0.0, "max_nudges")
    left, _ = play(own, "own-01", *talk[:3], calling(sql("SELECT 1")), *talk[:3], calling(COMMIT_2))
    assert (left.score, left.termination) == (1.0, "committed")


def test_three_replies_that_are_the_same_end_it(own: DBBench) -> None:
    again = [calling(replace(sql("SELEC"), id=str(n))) for n in range(3)]
    left, _ = play(own, "own-01", *again, calling(COMMIT_2))
    assert (left.score, left.termination) == (0.0, "max_repeats")
    left, _ = play(own, "own-01", *again[:2], calling(sql("SELECT 1")), again[2], calling(COMMIT_2))
    assert (left.score, left.termination) == (1.0, "committed")


@pytest.mark.parametrize(
    ("answers", "score"),
    [(["2"], 1.0), (["2.0"], 1.0), ("2", 1.0), (["3"], 0.0), ([], 0.0), (None, 0.0), (["2", "2"], 0.0), ({"a": 1}, 0.0)],
)  # fmt: skip
def test_questions_are_scored_by_the_answer(own: DBBench, answers: Any, score: float) -> None:
    left, _ = play(own, "own-01", calling(Call(desk.COMMIT, {"answers": answers}, "c")))
    assert (left.score, left.checks) == (score, {"committed": True, "answer": bool(score)})


def test_changes_are_scored_by_the_table(own: DBBench) -> None:
    gold = own.oracle("own-03").calls
    done = [calling(replace(call, id=str(n))) for n, call in enumerate(gold)]
    table = {"committed": True, "table": False}
    assert play(own, "own-03", *done)[0].checks == {"committed": True, "table": True}
    assert play(own, "own-03", done[-1])[0].checks == table
    again = calling(replace(gold[0], id="again"))
    assert play(own, "own-03", done[0], again, done[1])[0].checks == table, "inserted twice"
    dropped = calling(sql("DROP TABLE `Lighthouses of the North Coast`"))
    assert play(own, "own-03", dropped, done[1])[0].checks == table
    assert play(own, "own-03", done[0])[0].checks == {"committed": False}


def test_the_flawless_agent_does_all_of_our_own(own: DBBench) -> None:
    trials = [
        run_trial(Setup(NAME, "sim/flawless"), t, EMPTY.path, 0) for t in load_benchmark(NAME).tasks("all")
    ]
    assert {(t.score, t.termination) for t in trials} == {(1.0, "committed")}
    assert all(replay(t, EMPTY, load_benchmark(NAME)).unchanged for t in trials[:6])
    assert trials[0].trial.version == own.version and not trials[0].trial.user_model


def test_a_hook_may_read_and_not_write(tmp_path: Path) -> None:
    table = "`Lighthouses of the North Coast`"
    (tmp_path / "actions.py").write_text(f'''
from ecdysis_lab.hooks import Allow, Refuse

def check(call, view):
    view.read("execute_sql", query="DELETE FROM {table}")
    count = view.read("execute_sql", query="SELECT COUNT(*) FROM {table}")
    if call.name == "execute_sql" and count != [[10]]:
        return Refuse("rows", str(count), "stop")
    return Allow()
''')  # fmt: skip
    task = load_benchmark(NAME).tasks("all")[0]
    left = run_trial(Setup(NAME, "sim/flawless"), task, tmp_path, 0)
    assert (left.score, left.interventions) == (1.0, ())


def test_a_hook_knows_how_many_messages_are_left(tmp_path: Path) -> None:
    source = "def observe(call, result, view):\n    return str(view.steps_left)\n"
    (tmp_path / "regulation.py").write_text(source)
    bench = load_benchmark(NAME)
    left = run_trial(Setup(NAME, "sim/flawless"), bench.tasks("all")[0], tmp_path, 0)
    assert [i.reason for i in left.interventions] == ["29"], "of 15 rounds the first is over"
    assert replay(left, load_harness(tmp_path), bench).unchanged
    assert play(bench, "own-01")[0].termination == "max_repeats"


# -- clean tasks, facts ---------------------------------------------------------------------------------------------


def test_gold_that_leads_nowhere_is_told_apart(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    broken = {**RECORDS[0], "sql": {"query": "SELECT Keeper left FROM x y z"}}
    none = {key: value for key, value in RECORDS[1].items() if key != "sql"}
    lost = {**RECORDS[2], "answer_md5": "[('0123',)]"}
    place = clone(tmp_path / "clone", [broken, none, lost, RECORDS[3]], RECORDS[:1])
    monkeypatch.setenv(PLACE, str(place))
    made = DBBench()
    assert [made.clean(f"dev-{n}") for n in (1, 2, 3, 4)] == [False, False, False, True]
    look, commit = made.oracle("dev-1").calls
    assert look.arguments["query"] == "SELECT * FROM `Lighthouses of the North Coast`"
    assert commit.arguments == {"answers": ["2"]}
    monkeypatch.setenv(PLACE, "")
    given = ["run", "--benchmark", NAME, "--data", str(tmp_path / "data"), "--split", "train", "--json"]
    assert main([*given, "--agentbench", str(place)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["accuracy"], told["n_tasks"]) == (0.75, 4)
    assert (told["accuracy_clean"], told["n_tasks_clean"]) == (1.0, 1)
    assert told["unclean_tasks"] == ["dev-1", "dev-2", "dev-3"]


@pytest.mark.parametrize(
    ("gold", "label", "played"),
    [
        ("SELECT COUNT(*) FROM \"Lighthouses of the North Coast\" WHERE Keeper left = ''", "2",
         "SELECT COUNT(*) FROM `Lighthouses of the North Coast` WHERE `Keeper left` = ''"),
        ("SELECT [Built]\n FROM 'Lighthouses of the North Coast' WHERE Name = 'Keeper left'", "none",
         "SELECT `Built` FROM `Lighthouses of the North Coast` WHERE Name = 'Keeper left'"),
        ("SELECT COUNT(*) FROM Lighthouses of the North Coast", "11", "SELECT * FROM `Lighthouses of the North Coast`"),
    ],
)  # fmt: skip
def test_names_in_gold_may_want_quotes(
    gold: str, label: str, played: str, tmp_path: Path, monkeypatch: Any
) -> None:
    place = clone(tmp_path, [{**RECORDS[0], "sql": {"query": gold}, "label": [label]}], RECORDS[:1])
    monkeypatch.setenv(PLACE, str(place))
    made = DBBench()
    assert made.oracle("dev-1").calls[0].arguments["query"] == played
    assert made.clean("dev-1") == (label != "11")


def test_a_column_without_a_name_gets_one(tmp_path: Path, monkeypatch: Any) -> None:
    info = {"columns": [{"name": ""}, {"name": "b"}], "rows": [["1", None]]}
    record = {**RECORDS[0], "table": {"table_name": "t", "table_info": info}}
    monkeypatch.setenv(PLACE, str(clone(tmp_path, [record], RECORDS[:1])))
    room = DBBench().environment("dev-1")
    assert room.call(sql("SELECT `column 1`, b FROM t")) == ("[('1', None)]", False)


def test_no_harness_may_hold_what_a_task_says(own: DBBench) -> None:
    trial = run_trial(Setup(NAME, "sim/flawless"), load_benchmark(NAME).tasks("all")[7], EMPTY.path, 0)
    assert own.items.by_id["own-08"].table.name == "Library Loans"
    known = facts([trial], own.policy, own)

    def found(text: str) -> list[str]:
        return leaks(f"+++ b/skills.py\n+{text!r}\n", known)

    assert found("The reader is M. Lindqvist.") == ["cell: M. Lindqvist"]
    assert found("Look into Library Loans.") == ["name in a table: Library Loans"]
    assert found("Write L-311 and 2024-03-02") == ["cell: L-311", "date: 2024-03-02"]
    assert found("Leave a Total row out; quote `Order` and `Returned`; 800 characters; INSERT once.") == []
    assert own.facts("elsewhere") == {}


# -- AgentBench's own tasks -----------------------------------------------------------------------------------------


@pytest.mark.skipif(not CLONE.is_dir(), reason="needs AgentBench's data beside the project")
def test_flawless_on_all_clean_tasks_at_hand(monkeypatch: Any) -> None:
    monkeypatch.setenv(PLACE, str(CLONE))
    made: Any = load_benchmark(NAME)
    tasks = made.tasks("all")
    trials = [run_trial(Setup(NAME, "sim/flawless"), t, EMPTY.path, 0) for t in tasks]
    clean = [t for t in trials if made.clean(t.trial.task_id)]
    assert len(tasks) == 261 and len(clean) > 200
    assert [t.trial.task_id for t in clean if not t.success] == []
    assert sum(not t.success for t in trials) <= 2
