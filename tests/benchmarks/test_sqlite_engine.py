"""The embedded engine: MariaDB's recorded answers, statements that must be contained, effects, AgentBench's hashes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import dbbench
from hostile_sql import HOSTILE, TABLE, TOLD

from ecdysis_lab.benchmarks.agentbench import sqlite
from ecdysis_lab.benchmarks.agentbench.engine import MAX_ROWS, Table
from ecdysis_lab.benchmarks.agentbench.scoring import kind_of, official_hash, table_hash
from ecdysis_lab.benchmarks.agentbench.sqlite import SqliteEngine
from ecdysis_lab.benchmarks.agentbench.statements import effect_of

RECORDED = json.loads((Path(__file__).parent / "dbbench_recorded.json").read_text(encoding="utf-8"))
CLONE = Path(__file__).parents[3] / "shared/data/agentbench/dbbench"
MATCHES = Table(*(RECORDED["table"][0], tuple(RECORDED["table"][1]), tuple(map(tuple, RECORDED["table"][2]))))


@pytest.mark.parametrize(("sql", "expected"), RECORDED["answers"])
def test_answers_as_mariadb_did(sql: list[str], expected: object) -> None:
    """Each entry: statements on a fresh table, and what MariaDB 10.11 answered to the last of them."""
    database = SqliteEngine().open(MATCHES)
    for statement in sql[:-1]:
        assert database.execute(statement).error == ""
    seen = dbbench.seen(database.execute(sql[-1]), ordered=True)
    assert (seen if isinstance(seen, str) else [list(row) for row in seen]) == expected
    database.close()


@pytest.mark.parametrize(("name", "statements"), HOSTILE)
def test_hostile_statements_are_contained(
    name: str, statements: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "STATEMENT_SECONDS", 0.4)
    database = SqliteEngine().open(TABLE)
    errors = []
    for sql in statements:
        began = time.monotonic()
        errors.append(database.execute(sql).error)
        assert time.monotonic() - began < 0.4 + 1.5
    assert all(errors) or name not in TOLD
    assert database.rows(TABLE.name) is not None
    assert table_hash(database.rows(TABLE.name) or ())
    assert not database.execute("SELECT COUNT(*) FROM `Swim Records`").error
    assert not list(Path("/tmp").glob("ecdysis_hostile*"))
    database.close()


@pytest.mark.parametrize(
    ("sql", "effect"),
    [
        ("SELECT 1", "read"),
        ("(SELECT 1) UNION (SELECT 2)", "read"),
        ("WITH a AS (SELECT 1) SELECT * FROM a;", "read"),
        ("SELECT INSERT('abc', 1, 1, 'x'), REPLACE('a', 'a', 'b')", "read"),
        ("SELECT 'DELETE FROM t; DROP TABLE t'", "read"),
        ("SHOW TABLES", "read"),
        ("DESC `t`", "read"),
        ("EXPLAIN SELECT 1", "read"),
        ("insert into t values (1)", "write"),
        ("REPLACE INTO t VALUES (1)", "write"),
        ("UPDATE t SET a = 1", "write"),
        ("DELETE FROM t", "write"),
        ("DROP TABLE t", "write"),
        ("CREATE TABLE t (a INT)", "write"),
        ("ALTER TABLE t ADD b INT", "write"),
        ("SELECT 1; DROP TABLE t", "other"),
        ("SELECT 1 INTO OUTFILE '/tmp/x'", "other"),
        ("EXPLAIN DELETE FROM t", "other"),
        ("ANALYZE TABLE t", "other"),
        ("SELECT GET_LOCK('a', 1)", "other"),
        ("SELECT /*! 1 INTO @a */ 1", "other"),
        ("SET @a = 1", "other"),
        ("SELECT 'abc", "other"),
        ("the answer is 5", "other"),
        ("", "other"),
    ],
)
def test_effect(sql: str, effect: str) -> None:
    assert effect_of(sql) == effect


@pytest.mark.parametrize(
    "sql", ["UPDATE Matches SET Pts = 1", "DROP TABLE Matches", "SELECT 1; DELETE FROM Matches", "BEGIN"]
)
def test_a_read_only_statement_changes_nothing(sql: str) -> None:
    database = SqliteEngine().open(MATCHES)
    assert database.execute(sql, read_only=True).error.startswith(("1792", "1064"))
    assert database.rows("Matches") == MATCHES.rows
    assert database.execute("SELECT COUNT(*) FROM Matches", read_only=True).rows == ((len(MATCHES.rows),),)
    database.execute("DELETE FROM Matches")
    assert database.rows("Matches") == ()


def test_rows_beyond_the_limit_are_left_out_and_said_so() -> None:
    database = SqliteEngine().open(Table("t", ("a",), (("x",),) * (MAX_ROWS + 1)))
    answer = database.execute("SELECT * FROM t")
    assert (len(answer.rows), answer.cut) == (MAX_ROWS, True)
    assert not database.execute("SELECT * FROM t LIMIT 5").cut
    assert database.rows("t") == (("x",),) * (MAX_ROWS + 1)
    database.close()
    database.close()
    assert database.execute("SELECT 1").error.startswith("2006")
    assert database.rows("t") is None


def test_the_scorer_reads_columns_by_name() -> None:
    database = SqliteEngine().open(MATCHES)
    database.execute("ALTER TABLE Matches ADD COLUMN more TEXT")
    assert database.rows("Matches", MATCHES.columns) == MATCHES.rows
    database.execute(f"ALTER TABLE Matches RENAME COLUMN `{MATCHES.columns[0]}` TO other")
    assert database.rows("Matches", MATCHES.columns) is None


def test_a_fault_of_a_function_is_told_and_no_null(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sqlite.FUNCTIONS, "upper", (lambda value: value.nosuch, 1, 1, "text"))
    assert SqliteEngine().open(MATCHES).execute("SELECT UPPER('a')").error


@pytest.mark.skipif(not CLONE.exists(), reason="needs ../shared/data/agentbench")
def test_gold_writes_leave_agentbenchs_own_hashes() -> None:
    """All but one, whose hash its gold statement does not give."""
    writes = [
        task for task in dbbench.records(CLONE) if kind_of(task) != "SELECT" and task["file"] != "dbbench"
    ]
    unequal = 0
    for task in writes:
        database = SqliteEngine().open(dbbench.table_of(task))
        assert database.execute(dbbench.gold_of(task)).error == ""
        unequal += table_hash(database.rows(dbbench.table_of(task).name) or ()) != official_hash(task)
        database.close()
    assert (len(writes), unequal) == (174, 1)
