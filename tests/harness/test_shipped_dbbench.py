"""The human harness of DBBench: what it puts right and stops, beside the nearest thing that it lets be."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.harness import SHIPPED, load_harness, static_problems
from ecdysis_lab.harness.host import Host
from ecdysis_lab.hooks import Allow, Call, Done, Realize, Refuse, Rewrite

TASK = "How many {}\nThe name of this table is Football League 1987, and the headers of this table are Club,Played,Won,Drawn,Lost,Goals for,Goals against,Points."
SELECT = "SELECT `Club` FROM `Football League 1987`"


def sql(query: str) -> Call:
    return Call("execute_sql", {"query": query})


def commit(*answers: Any) -> Call:
    return Call("commit_final_answer", {"answers": list(answers)})


@cache
def bench() -> Any:
    return load_benchmark("agentbench/dbbench")


@cache
def league() -> str:
    """The task that has the table of the league."""
    return next(t.id for t in bench().tasks("all") if "Football League 1987" in t.scenario)


@pytest.fixture
def host() -> Any:
    environment = bench().environment(league())
    with Host(load_harness("dbbench"), bench().policy, list(bench().tools), environment.read) as made:
        made.add_message("user", TASK.format("clubs?"))
        yield made
    environment.close()


@pytest.mark.parametrize(
    ("written", "executed"),
    [
        ("SELECT Goals for FROM Football League 1987", "SELECT `Goals for` FROM `Football League 1987`"),
        ("SELECT goals_for FROM football_league_1987 WHERE Club = 'x'", "SELECT `Goals for` FROM `Football League 1987` WHERE Club = 'x'"),
        ("INSERT INTO Football League 1987 (Club, Goals for) VALUES ('Goals for', 'a')", "INSERT INTO `Football League 1987` (Club, `Goals for`) VALUES ('Goals for', 'a')"),
        (f"{SELECT} ORDER BY Points DESC LIMIT 1", f"{SELECT} ORDER BY (REPLACE(`Points`, ',', '') + 0) DESC LIMIT 1"),
        ("SELECT max(points) FROM `Football League 1987`", "SELECT max((REPLACE(`Points`, ',', '') + 0)) FROM `Football League 1987`"),
    ],
)  # fmt: skip
def test_a_statement_in_canonical_form(host: Host, written: str, executed: str) -> None:
    verdict = host.check(sql(written), 20)
    assert isinstance(verdict, Rewrite) and verdict.arguments == {"query": executed}


@pytest.mark.parametrize(
    "query",
    [
        SELECT,
        f"{SELECT} ORDER BY `Club`",  # no numbers
        f"{SELECT} WHERE `Club` = 'Football League 1987; Goals for'",
        'SELECT "Goals for" FROM `Football League 1987`',
        "SELECT MAX(`Goals for`) FROM `Football League 1987`",  # two digits each: text order is theirs
        "SELECT MAX(`Club`) FROM `Football League 1987`",
        "UPDATE `Football League 1987` SET `Club` = 'ORDER BY Points'",
        f"{SELECT} UNION SELECT `Points` FROM `Football League 1987` ORDER BY Points",
        "SELECT COUNT(*) AS Points FROM `Football League 1987` GROUP BY `Club` ORDER BY Points",
        f"{SELECT} WHERE `Club` = 'max(points)'",
        "nonsense; ",
    ],
)
def test_what_is_right_or_unclear_stays(host: Host, query: str) -> None:
    assert host.check(sql(query), 20) == Allow()


@pytest.mark.parametrize(
    ("answers", "entries"),
    [(["[('a',), ('b',)]"], ["a", "b"]), (["['a', 'it\\'s']"], ["a", "it\\'s"]), (["[(3,)]"], ["3"])],
)
def test_answers_are_bare(host: Host, answers: list[str], entries: list[str]) -> None:
    host.add_done(Done(sql(SELECT), "[]"))
    assert host.check(commit(*answers), 20) == Rewrite({"answers": entries}, rule="bare_answers")


@pytest.mark.parametrize("answers", [["a", "b"], ["[sic]"], ["a, b"], [], ["(none)"]])
def test_answers_that_are_bare_stay(host: Host, answers: list[str]) -> None:
    host.add_done(Done(sql(SELECT), "[]"))
    assert host.check(commit(*answers), 20) == Allow()


INSERT = "INSERT INTO `Football League 1987` (`Club`) VALUES ('x')"
STOPPED: list[tuple[str, str, list[Done], Call, list[Done], Call]] = [  # rule, task, before, bad, before, good
    ("one_statement", "clubs?", [], sql(f"{SELECT}; {SELECT}"), [], sql(f"{SELECT};")),
    ("insert_once", "clubs?", [Done(sql(INSERT), "[]")], sql(INSERT), [Done(sql(INSERT), "Error", True)], sql(INSERT)),
    ("something_first", "clubs?", [Done(sql("x"), "Error: 1064", True)], commit("1"), [Done(sql(SELECT), "[]")], commit("1")),
    ("change_first", "Insert a club.", [Done(sql(SELECT), "[]")], commit(), [Done(sql(INSERT), "[]")], commit()),
    ("change_first", "Set the points to 3.", [Done(sql(SELECT), "[]")], commit(), [Done(sql("UPDATE x SET a = 1"), "[]")], commit()),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "task", "before", "bad", "fine_after", "good"), STOPPED)
def test_a_call_is_stopped_and_its_neighbour_is_not(
    rule: str, task: str, before: list[Done], bad: Call, fine_after: list[Done], good: Call
) -> None:
    for done, call, stopped in ((before, bad, True), (fine_after, good, False)):
        with Host(load_harness("dbbench"), bench().policy, list(bench().tools), lambda *_: None) as host:
            host.add_message("user", TASK.format("").replace("How many ", task))
            for each in done:
                host.add_done(each)
            verdict = host.check(call, 20)
            assert (isinstance(verdict, Refuse) and verdict.rule == rule) is stopped, verdict


@pytest.mark.parametrize(
    "task", ["Add up the goals.", "Set 3 was won by whom?", "Which change was the last?"]
)
def test_a_question_is_no_change(task: str) -> None:
    with Host(load_harness("dbbench"), bench().policy, list(bench().tools), lambda *_: None) as host:
        host.add_message("user", TASK.format("").replace("How many ", task))
        host.add_done(Done(sql(SELECT), "[]"))
        assert host.check(commit("1"), 20) == Allow()


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("I look it up:\n```sql\nSELECT 1\nFROM x;\n```\nThis gives one.", sql("SELECT 1\nFROM x;")),
        ("```sql\nSELECT 1 -- one\nFROM x\n```", sql("SELECT 1 -- one\nFROM x")),
        ("<sql>\nSELECT 'a  b'\n</sql>", sql("SELECT 'a  b'")),
        ("UPDATE x SET a = 1", sql("UPDATE x SET a = 1")),
        ("The `select` of it is `SELECT `a b` FROM x`.", sql("SELECT `a b` FROM x")),
        ('<execute_sql query="SELECT \'a\'"/>\n<commit_final_answer answers="a"/>', sql("SELECT 'a'")),
        ('So: {{"name": "execute_sql", "arguments": {{"query": "SELECT 1"}}}}', sql("SELECT 1")),
        ('Now {"name": "commit_final_answer", "arguments": {"answers": ["3"]}} it is.', commit("3")),
    ],
)
def test_a_text_is_realized_as_the_call_it_meant(host: Host, text: str, call: Call) -> None:
    verdict = host.on_reply(text, 20)
    assert isinstance(verdict, Realize) and verdict.calls == (call,), verdict


@pytest.mark.parametrize(
    "text",
    ["The answer is 3.", "I selected the club.", '{"name": "execute_sql", "parameters": {"properties": {}}}'],
)  # fmt: skip
def test_any_other_text_is_sent_back_with_the_form(host: Host, text: str) -> None:
    verdict = host.on_reply(text, 20)
    assert isinstance(verdict, Refuse) and '{"name": "execute_sql", "arguments"' in verdict.option
    host.add_message("assistant", text)
    host.add_message("user", "Nothing was executed.")
    assert host.on_reply(text, 18) == Allow(), "told once; from then on the benchmark says so"


def test_a_text_that_repeats_the_last_statement_means_the_next_call(host: Host) -> None:
    first = {"name": "execute_sql", "arguments": {"query": "SELECT Call_sign FROM `Radio Stations`"}}
    then = {"name": "commit_final_answer", "arguments": {"answers": ["KQZ"]}}
    text = f"I do this:\n```json\n{json.dumps(first)}\n```\nand then\n{json.dumps(then)}"
    assert host.on_reply(text, 20).calls[0].name == "execute_sql"  # type: ignore[union-attr]
    host.add_done(Done(sql("SELECT `Call sign` FROM `Radio Stations`"), "[('KQZ',)]"))
    assert host.on_reply(text, 18).calls[0].arguments == then["arguments"]  # type: ignore[union-attr]


def test_results_are_explained(host: Host) -> None:
    told = {
        "`Football League 1987`, its columns are `Club`": (sql("x"), "Error: 1064 (42000): syntax", True),
        "Call commit_final_answer now": (sql(INSERT), "[]", False),
        "No row fits": (sql(SELECT), "[]", False),
        "cut": (sql(SELECT), "[('a'" + " … [cut at 800 characters]", False),
        "gives the same rows": (sql(SELECT), "[('a'" + " … [cut at 800 characters]", False),
    }
    for words, (call, result, error) in told.items():
        host.add_done(Done(call, result, error))
        assert words in (host.observe(call, result, 20) or "")
    host.add_done(Done(sql(SELECT), "[('a',)]"))  # other rows than the time before
    assert host.observe(sql(SELECT), "[('a',)]", 20) is None


def test_the_switches_name_every_rule_and_the_folder_is_clean() -> None:
    folder = SHIPPED / "dbbench"
    assert static_problems(load_harness("dbbench")) == []
    named = set(
        re.findall(r"^(\w+) = true", (folder / "harness.toml").read_text().partition("[rules]")[2], re.M)
    )
    source = "".join((folder / f"{name}.py").read_text() for name in ("actions", "regulation"))
    registered = set(re.findall(r'rules\.(?:line|note|reply|realize)\(\s*"(\w+)"', source))
    assert named == registered | set(re.findall(r'enabled\("(\w+)"\)', source))


def test_the_human_harness_lets_flawless_models_be(tmp_path: Any) -> None:
    """Every own task: nothing refused, nothing else lost than the words of a number's order."""
    from ecdysis_lab.harness.rollout import Setup, run_trial

    setup = Setup("agentbench/dbbench", "sim/flawless")
    folder = load_harness("dbbench").path
    for task in bench().tasks("all"):
        trial = run_trial(setup, task, folder, 0)
        assert trial.score == 1.0 and not [
            i for i in trial.interventions if i.action in ("refuse", "fault", "realize")
        ]


def test_a_column_whose_name_is_in_order_by() -> None:
    rows = [["9"], ["10"]]
    text = "How many?\nThe name of this table is t, and the headers of this table are Club,e."
    with Host(load_harness("dbbench"), bench().policy, list(bench().tools), lambda *_: rows) as host:
        host.add_message("user", text)
        verdict = host.check(sql("SELECT Club FROM t order by e"), 20)
    assert isinstance(verdict, Rewrite) and verdict.arguments == {
        "query": "SELECT Club FROM t order by (REPLACE(`e`, ',', '') + 0)"
    }
