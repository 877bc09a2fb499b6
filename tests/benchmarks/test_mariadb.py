"""DBBench on a real MariaDB: the server, what a trial sees of it, and AgentBench's own hashes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ecdysis_lab.benchmarks.agentbench import mariadb, mariadb_server
from ecdysis_lab.benchmarks.agentbench.engine import MAX_ROWS, Table
from ecdysis_lab.benchmarks.agentbench.mariadb import MariaEngine
from ecdysis_lab.benchmarks.agentbench.scoring import kind_of, official_hash, table_hash
from ecdysis_lab.records import LabError
from tests.benchmarks.hostile_sql import HOSTILE, TABLE, TOLD

ROOT = Path(__file__).resolve().parents[2]
CLONE = ROOT.parent / "shared/data/agentbench/dbbench"
STATEMENT_SECONDS = 0.5
SMALL = Table("My Table", ("a", "b c"), (("1", None), ("2", "é'`")))


@pytest.fixture(scope="module")
def engine(needs: Any) -> Iterator[MariaEngine]:
    """With a quarter of the time for a statement, so that the hostile ones end sooner."""
    needs("mariadbd")
    with pytest.MonkeyPatch.context() as patch:
        for module in (mariadb, mariadb_server):
            patch.setattr(module, "STATEMENT_SECONDS", STATEMENT_SECONDS)
        patch.setitem(mariadb_server.SETTINGS, "max-statement-time", str(STATEMENT_SECONDS))
        yield MariaEngine.started()


@pytest.fixture
def database(engine: MariaEngine) -> Iterator[Any]:
    made = engine.open(SMALL)
    yield made
    made.close()


def test_statements_errors_and_rows(database: Any) -> None:
    assert database.execute("SELECT * FROM `My Table` WHERE a < 10").rows == (("1", None), ("2", "é'`"))
    assert (
        database.execute("SELECT nope FROM `My Table`").error
        == "1054 (42S22): Unknown column 'nope' in 'SELECT'"
    )
    assert database.execute("INSERT INTO `My Table` VALUES ('3', 'x')").rows == ()
    assert database.rows("my table") is None and len(database.rows("My Table")) == 3
    assert "1064 (42000)" in database.execute("SELECT 1; SELECT 2").error


def test_two_trials_read_the_same(engine: MariaEngine, database: Any) -> None:
    """Names of database and account are made up for each trial, and never shown."""
    other = engine.open(SMALL)
    for sql in (
        "SELECT * FROM nope",
        "SELECT * FROM mysql.user",
        "SELECT DATABASE()",
        "SELECT * FROM dbbench.`My Table`",
    ):
        first, second = database.execute(sql), other.execute(sql)
        assert first == second and "ecdysis" not in str(first), first
    other.close()


def test_reading_changes_nothing(database: Any) -> None:
    for sql in ("DELETE FROM `My Table`", "DROP TABLE `My Table`", "CREATE TABLE x (a TEXT)"):
        assert "denied" in database.execute(sql, read_only=True).error
    assert database.execute("SELECT COUNT(*) FROM `My Table`", read_only=True).rows == ((2,),)
    assert database.rows("My Table") == SMALL.rows


def test_what_a_statement_did_is_there_for_the_scorer_even_inside_a_transaction(database: Any) -> None:
    database.execute("BEGIN")
    database.execute("DELETE FROM `My Table`")
    assert database.rows("My Table") == ()


def test_the_scorer_reads_columns_by_name_and_ends(database: Any) -> None:
    """As AgentBench hashes them: a renamed column is missing, an added one is not looked at."""
    database.execute("ALTER TABLE `My Table` ADD COLUMN c TEXT DEFAULT 'x'")
    assert database.rows("My Table", SMALL.columns) == SMALL.rows
    assert database.rows("My Table", ("b c",)) == ((None,), ("é'`",))
    database.execute("ALTER TABLE `My Table` RENAME COLUMN a TO z")
    assert database.rows("My Table", SMALL.columns) is None
    database.execute("DROP TABLE `My Table`")
    database.execute("CREATE VIEW `My Table` AS SELECT SLEEP(1000) AS a, 1 AS `b c`")
    assert database.rows("My Table", SMALL.columns) is None


def test_a_table_that_cannot_be_leaves_no_database(engine: MariaEngine) -> None:
    with engine.admin() as cursor:
        cursor.execute("SHOW DATABASES")
        before = set(cursor.fetchall())
        with pytest.raises(LabError, match="refuses to set a trial up: Duplicate column name 'A'"):
            engine.open(Table("t", ("a", "A"), ()))
        cursor.execute("SHOW DATABASES")
        assert set(cursor.fetchall()) == before


def test_a_trial_sees_no_other(engine: MariaEngine, database: Any) -> None:
    other = engine.open(SMALL)
    try:
        names = {name for (name,) in database.execute("SHOW DATABASES").rows}
        assert names == {"dbbench", "information_schema"}
        for sql in (
            f"SELECT * FROM {other.name}.`My Table`",
            "SELECT * FROM mysql.user",
            f"DROP DATABASE {other.name}",
        ):
            assert "denied" in database.execute(sql).error
    finally:
        other.close()


def test_nothing_is_left_of_a_trial(engine: MariaEngine) -> None:
    made = engine.open(SMALL)
    name = made.name
    made.close()
    made.close()
    with engine.admin() as cursor:
        cursor.execute("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = %s", (name,))
        assert cursor.fetchone() == (0,)
        cursor.execute("SELECT COUNT(*) FROM mysql.user WHERE user = %s", (name,))
        assert cursor.fetchone() == (0,)


@pytest.mark.parametrize(("name", "statements"), HOSTILE, ids=[name for name, _ in HOSTILE])
def test_hostile_statements_are_contained(
    engine: MariaEngine, name: str, statements: tuple[str, ...]
) -> None:
    database = engine.open(TABLE)
    try:
        for sql in statements:
            began = time.monotonic()
            answer = database.execute(sql)
            assert time.monotonic() - began < STATEMENT_SECONDS + 3, sql[:80]
            assert len(answer.rows) <= MAX_ROWS
            if name in TOLD:
                assert answer.error
        assert len(database.execute("SELECT COUNT(*) FROM `Swim Records`").rows) == 1
        assert database.rows(TABLE.name) is not None
        assert not list(Path("/tmp").glob("ecdysis_hostile*"))
    finally:
        database.close()


def test_a_statement_that_lifts_its_own_limit_is_killed(engine: MariaEngine, database: Any) -> None:
    answer = database.execute("SET STATEMENT max_statement_time=0 FOR SELECT SLEEP(1000)")
    assert "2013" in answer.error
    deadline = time.monotonic() + 5
    with engine.admin() as cursor:
        while True:
            cursor.execute(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE %s", ("SET STATEMENT%",)
            )
            if cursor.fetchone() == (0,):
                break
            assert time.monotonic() < deadline, "the statement still runs"
    assert database.execute("SELECT 1").rows == ((1,),)


def test_the_server_ends_with_its_starter_even_when_that_is_killed(needs: Any) -> None:
    needs("mariadbd")
    code = (
        "from ecdysis_lab.benchmarks.agentbench.mariadb_server import start; import time\n"
        "print(start(), flush=True); time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    folder = Path(starter.stdout.readline().strip()).parent
    server = int((folder / "pid").read_text())
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    deadline = time.monotonic() + 10
    while folder.exists() or Path(f"/proc/{server}").exists():
        assert time.monotonic() < deadline, "server or folder outlived the starter"
        time.sleep(0.05)


def test_a_server_beside_the_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mariadbd").touch(mode=0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(mariadb_server, "SBIN", str(tmp_path))
    assert mariadb_server.program("mariadbd") == str(tmp_path / "mariadbd")


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mariadb_server.shutil, "which", lambda name, path=None: None)
    with pytest.raises(LabError, match="mariadb-install-db: apt-get install mariadb-server"):
        mariadb_server.start()


@pytest.mark.parametrize("dsn", ["http://x", "mysql://", "mysql://host:99999999/"])
def test_a_bad_address_is_one_sentence(dsn: str) -> None:
    with pytest.raises(LabError, match=r"engine: .*mysql://user:password@host:port/"):
        MariaEngine.at(dsn)


def test_a_server_of_the_users_own(engine: MariaEngine) -> None:
    theirs = MariaEngine.at(f"mysql://root@/?unix_socket={engine.connect['unix_socket']}")
    database = theirs.open(SMALL)
    assert database.rows("My Table") == SMALL.rows
    database.close()
    with pytest.raises(LabError, match="no answer from the server"):
        MariaEngine.at("mysql://root@127.0.0.1:1/")


@pytest.mark.skipif(not CLONE.exists(), reason="needs ../shared/data/agentbench")
def test_gold_writes_leave_agentbenchs_own_hashes(engine: MariaEngine) -> None:
    """All but one, whose hash its gold statement does not give."""
    wrong, writes = [], 0
    for file in ("dev", "standard_200"):
        for n, line in enumerate((CLONE / f"{file}.jsonl").read_text().splitlines(), 1):
            record = json.loads(line)
            if kind_of(record) == "SELECT":
                continue
            writes += 1
            table = record["table"]
            info = table["table_info"]
            rows = tuple(tuple(str(cell) for cell in row) for row in info["rows"])
            database = engine.open(
                Table(table["table_name"], tuple(c["name"] for c in info["columns"]), rows)
            )
            database.execute(record["label"][0])
            if table_hash(database.rows(table["table_name"])) != official_hash(record):
                wrong.append(f"{file}-{n}")
            database.close()
    assert (writes, wrong) == (174, ["standard_200-152"])
