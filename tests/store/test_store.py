"""The store: what is kept, what is hidden, and what survives other processes, kills and full disks."""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecdysis_lab.hooks import Call
from ecdysis_lab.records import (
    Candidate,
    Change,
    Edit,
    Failure,
    GateResult,
    Intervention,
    Judged,
    LabError,
    Message,
    Pattern,
    Patterns,
    Pick,
    Review,
    RoundRecord,
    Spec,
    Subset,
    Trajectory,
    Trial,
    Usage,
    from_json,
)
from ecdysis_lab.store import Run, Store, StoreError, commit_hash, find_run, runs_of

REPOSITORY = Path(__file__).resolve().parents[2]


def trajectory(task: str = "7", seed: int = 0, **changes: Any) -> Trajectory:
    """A small scored trajectory with a planted cause."""
    trial = Trial("tau2/airline", "1.0", task, "train", "sim/small", "sim/user", "0" * 64, seed)
    made = Trajectory(
        trial=trial,
        status="scored",
        score=0.0,
        termination="user_stop",
        checks={"db": False},
        messages=(
            Message("user", "Hello – please cancel"),
            Message("assistant", None, (Call("cancel", {"id": "X1", "n": 2}, "call_1"),)),
            Message("tool", "Error: no", call_id="call_1", name="cancel", error=True),
        ),
        context=(Message("user", "Hello"),),
        interventions=(Intervention(1, "check", "rewrite", "form", "cancel", {"id": "x1"}, {"id": "X1"}),),
        usage={"agent": Usage(2, 100, 20, None, 1.5, 3), "user": Usage(1, 10, 5, 0.25, 0.5, 1)},
        seconds=2.0,
        truth={"slip": "wrong_form", "cause": "defect"},
    )
    return replace(made, **changes)


def run_python(code: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start a second Python with this package on its path."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'tests'}:{Path(__file__).parent}"}
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


def finished(process: subprocess.Popen[str]) -> str:
    """Output of a process that has to succeed."""
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    return out


def test_a_trajectory_comes_back_equal_but_without_truth(tmp_path: Path) -> None:
    store, kept = Store(tmp_path), trajectory()
    assert store.put(kept) is True
    assert store.get(kept.key) == replace(kept, truth={})
    assert store.get(kept.key, with_truth=True) == kept
    assert store.get("0" * 24) is None
    assert store.trajectories() == [replace(kept, truth={})]


def test_truth_stands_in_its_own_table_only(tmp_path: Path) -> None:
    store, kept = Store(tmp_path), trajectory()
    store.put(kept)
    store.put(trajectory(seed=1, status="infra_error", score=None))
    with sqlite3.connect(store.path) as raw:
        import zlib

        bodies = [
            row[0] for row in raw.execute("SELECT body FROM trials UNION ALL SELECT body FROM infra_errors")
        ]
        truths = [row[0] for row in raw.execute("SELECT body FROM truth")]
    assert len(bodies) == 2
    assert all(b"wrong_form" not in zlib.decompress(body) for body in bodies)
    assert [json.loads(zlib.decompress(body)) for body in truths] == [
        {"cause": "defect", "slip": "wrong_form"}
    ]


def test_putting_twice_is_once_and_a_scored_trial_is_never_replaced(tmp_path: Path) -> None:
    store, first = Store(tmp_path), trajectory(score=1.0)
    assert [store.put(first), store.put(first), store.put(replace(first, score=0.0))] == [True, False, False]
    assert store.put(replace(first, status="user_fault", score=None)) is False
    assert store.get(first.key).score == 1.0  # type: ignore[union-attr]
    assert store.keys() == {first.key}


def test_an_infrastructure_error_is_logged_and_not_finished(tmp_path: Path) -> None:
    store, broken = Store(tmp_path), trajectory(status="infra_error", score=None, error="429 four times")
    assert store.put(broken) is False
    assert (store.keys(), store.have([broken.key]), store.get(broken.key)) == (set(), set(), None)
    assert [t.error for t in store.infra_errors()] == ["429 four times"]
    assert store.put(trajectory(score=1.0)) is True
    assert store.put(broken) is False
    assert store.get(broken.key).score == 1.0  # type: ignore[union-attr]
    assert len(store.infra_errors(broken.key)) == 2


def test_a_user_fault_is_finished_and_gives_way_to_a_score(tmp_path: Path) -> None:
    store, fault = Store(tmp_path), trajectory(status="user_fault", score=None, error="user left")
    assert store.put(fault) is True
    assert store.have([fault.key]) == {fault.key}
    assert store.put(replace(fault, error="again")) is False
    assert store.put(trajectory(score=1.0)) is True
    assert store.get(fault.key).status == "scored"  # type: ignore[union-attr]


def test_filters_order_and_many_keys(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = [trajectory(task, seed) for seed in (1, 0) for task in ("b", "a")]
    for one in made:
        store.put(one)
    assert [(t.trial.task_id, t.trial.seed) for t in store.trajectories()] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("b", 1),
    ]
    assert [t.trial.task_id for t in store.trajectories(seed=0)] == ["a", "b"]
    assert len(store.trajectories(task_id=["a", "b"], seed=[1])) == 2
    assert store.trajectories(task_id=[]) == []
    assert [t.key for t in store.trajectories([made[2].key, "none", made[0].key])] == [
        made[2].key,
        made[0].key,
    ]
    assert store.trajectories([made[0].key], seed=0) == []
    assert store.have([f"{i:024d}" for i in range(1300)] + [made[3].key]) == {made[3].key}
    with pytest.raises(LabError, match=r"unknown filter 'domain'; choose one of benchmark, .*seed, status"):
        store.trajectories(domain="airline")


def test_vectors_are_cached_by_model_and_hash(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put_vectors("minilm", {"h1": np.array([0.5, -1.0]), "h2": np.array([1.0, 2.0], dtype=np.float32)})
    store.put_vectors("other", {"h1": np.array([9.0])})
    found = store.get_vectors("minilm", ["h1", "h3", "h2"])
    assert {key: vector.tolist() for key, vector in found.items()} == {"h1": [0.5, -1.0], "h2": [1.0, 2.0]}
    assert found["h1"].dtype == np.float32
    found["h1"][0] = 7.0  # a copy: the caller may change it


def test_threads_and_pickled_copies_share_one_store(tmp_path: Path) -> None:
    store = pickle.loads(pickle.dumps(Store(tmp_path)))
    threads = [
        threading.Thread(target=lambda n=n: [store.put(trajectory(f"{n}.{i}")) for i in range(20)])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.keys()) == 80


WRITER = """
    import sys
    from test_store import trajectory
    from ecdysis_lab.store import Store
    store, name, n = Store(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    print("stored", sum(store.put(trajectory(f"{name if i % 2 else 'shared'}-{i}")) for i in range(n)))
"""


def test_two_processes_writing_at_once_lose_nothing(tmp_path: Path) -> None:
    both = [run_python(WRITER, tmp_path, name, 200) for name in ("left", "right")]
    stored = [int(finished(process).split()[1]) for process in both]
    assert sum(stored) == 300  # 100 of each own, and the 100 shared ones once
    assert len(Store(tmp_path).trajectories()) == 300


def test_a_store_waits_for_another_that_is_being_created(tmp_path: Path) -> None:
    """The lock of a file that is not in WAL yet ignores SQLite's own waiting."""
    other = sqlite3.connect(tmp_path / "trials.sqlite", isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE half (made TEXT)")
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.5, lambda: other.execute("COMMIT"))
    timer.start()
    began = time.monotonic()
    Store(tmp_path).put(trajectory("first"))
    assert time.monotonic() - began > 0.2 and len(Store(tmp_path).keys()) == 1
    timer.join()
    other.close()


def test_processes_may_create_a_store_at_the_same_moment(tmp_path: Path) -> None:
    code = """
        import multiprocessing, sys
        from test_store import trajectory
        from ecdysis_lab.store import Store

        def work(root, name, together):
            together.wait()
            Store(root).put(trajectory(name))

        fork = multiprocessing.get_context("fork")
        for attempt in range(20):  # without the retry, about one in ten meets a lock
            root, together = f"{sys.argv[1]}/{attempt}", fork.Barrier(6)
            workers = [fork.Process(target=work, args=(root, str(n), together)) for n in range(6)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            print(len(Store(root).keys()), sum(worker.exitcode for worker in workers))
    """
    assert finished(run_python(code, tmp_path)).split("\n") == ["6 0"] * 20 + [""]


def test_killed_in_the_middle_of_writes_the_store_is_whole(tmp_path: Path) -> None:
    announce = """
        import sys
        from test_store import trajectory
        from ecdysis_lab.store import Run, Store
        store, run = Store(sys.argv[1]), Run.open(sys.argv[1], "r", {"a": 1})
        for i in range(int(sys.argv[2]), 100000):
            store.put(trajectory(str(i)))
            run.append_ledger({"i": i, "pad": "x" * 3000})
            run.write_json("summary.json", {"i": i, "pad": ["y"] * 500})
            print(i, flush=True)
    """
    last = -1
    for _ in range(4):
        process = run_python(announce, tmp_path, last + 1)
        assert process.stdout is not None
        for _ in range(25):
            last = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        announced = [int(line) for line in process.stdout.read().splitlines()]
        last = announced[-1] if announced else last
        process.wait()
        stored = {t.trial.task_id for t in Store(tmp_path).trajectories()}
        assert stored >= {str(i) for i in range(last + 1)} and len(stored) <= last + 2
        run = Run.open(tmp_path, "r", {"a": 1})
        assert run.read_json("summary.json")["i"] in (last, last + 1)
        ledger = [entry["i"] for entry in run.ledger()]
        assert set(ledger) >= set(range(last + 1)) and len(ledger) <= last + 6  # a repeat per kill at most
    with sqlite3.connect(tmp_path / "trials.sqlite") as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_full_disk_is_one_sentence_and_the_store_stays_whole(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(trajectory("before"))
    connection = store._connection()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own SQLITE_FULL
    noise = Message("user", os.urandom(60000).hex())
    with pytest.raises(
        StoreError, match=r"trials\.sqlite: database or disk is full; what was stored before is intact"
    ):
        store.put(trajectory("big", messages=(noise,)))
    assert [t.trial.task_id for t in store.trajectories()] == ["before"]
    connection.execute("PRAGMA max_page_count = 1000000")
    assert store.put(trajectory("big", messages=(noise,))) is True


def test_a_write_that_breaks_in_the_middle_leaves_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(StoreError, match="is intact"):
        store.put_vectors("m", {"a": np.ones(2), ("no", "text"): np.ones(2)})  # type: ignore[dict-item]
    assert store.get_vectors("m", ["a"]) == {}
    assert store.put(trajectory("after")) is True


def test_a_file_that_may_not_grow_keeps_the_old_content_and_whole_lines(tmp_path: Path) -> None:
    code = """
        import resource, signal, sys
        from ecdysis_lab.store import Run, StoreError
        run = Run.open(sys.argv[1], "r", {})
        run.append_ledger({"n": 1}); run.write_json("summary.json", {"n": 1})
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        long = "x" * 5000
        for act in (lambda: run.append_ledger({"pad": long}), lambda: run.write_json("summary.json", [long])):
            try:
                act()
            except StoreError as error:
                print(error)
    """
    lines = finished(run_python(code, tmp_path)).splitlines()
    assert len(lines) == 2 and "ledger.jsonl" in lines[0] and "summary.json" in lines[1]
    assert all("File too large" in line and "is intact" in line for line in lines)
    run = Run.open(tmp_path, "r", {})
    assert (run.ledger(), run.read_json("summary.json")) == ([{"n": 1}], {"n": 1})
    assert (run.folder / "ledger.jsonl").read_bytes() == b'{"n": 1}\n', "no half line is left"
    assert sorted(path.name for path in run.folder.iterdir()) == [
        "config.json",
        "ledger.jsonl",
        "summary.json",
    ]


def test_a_read_only_folder_is_one_sentence(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(trajectory())
    del store
    for path in (tmp_path, *tmp_path.parents):
        if path != Path("/tmp") and os.access(path, os.W_OK) and str(path).startswith("/tmp/"):
            path.chmod(0o755)
    code = """
        import os, sys
        from ecdysis_lab.records import LabError
        from ecdysis_lab.store import Run, Store
        from test_store import trajectory
        if os.getuid() == 0:
            os.setgid(65534); os.setuid(65534)  # root may write anywhere
        root = sys.argv[1]
        for act in (lambda: Store(root).put(trajectory("2")), lambda: Run.open(root, "r", {})):
            try:
                act()
            except LabError as error:
                print(type(error).__name__, error)
    """
    tmp_path.chmod(0o555)
    try:
        lines = finished(run_python(code, tmp_path)).splitlines()
    finally:
        tmp_path.chmod(0o755)
    assert len(lines) == 2
    assert lines[0].startswith(f"StoreError cannot use {tmp_path}/trials.sqlite: ")
    assert lines[1].startswith(f"StoreError cannot use {tmp_path}/runs/r/config.json: ")
    assert len(Store(tmp_path).keys()) == 1


def test_a_damaged_or_newer_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trials.sqlite").write_bytes(b"this is no database, " * 100)
    with pytest.raises(StoreError, match="file is not a database"):
        Store(tmp_path)
    newer = Store(tmp_path / "newer")
    newer._connection().execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="format 99, this version reads up to 1"):
        Store(tmp_path / "newer")


def test_a_run_continues_with_the_same_config_and_refuses_another(tmp_path: Path) -> None:
    config = {
        "model": "sim/small",
        "seed": 1,
        "sizes": {"train": 20, "test": 20},
        "max_usd": 1.0,
        "path": Path("a"),
    }
    run = Run.open(tmp_path, "first", config)
    run.append_ledger({"round": 1})
    assert json.loads((tmp_path / "runs/first/config.json").read_text())["sizes"] == {"test": 20, "train": 20}
    assert Run.open(tmp_path, "first", dict(config)).ledger() == [{"round": 1}]
    other = {**config, "seed": 2, "sizes": {"train": 10, "test": 20}, "extra": True}
    with pytest.raises(LabError) as refused:
        Run.open(tmp_path, "first", other)
    assert "extra: (not set) → true; seed: 1 → 2; sizes.train: 20 → 10" in str(refused.value)
    assert "model" not in str(refused.value)
    assert run.read_json("config.json")["seed"] == 1
    with pytest.raises(LabError, match="run first exists"):
        Run.open(tmp_path, "first", config, resume=False)


def test_a_budget_may_be_raised_when_a_run_continues(tmp_path: Path) -> None:
    Run.open(tmp_path, "r", {"seed": 1, "budget": {"max_usd": 1.0}, "workers": 1})
    run = Run.open(tmp_path, "r", {"seed": 1, "budget": {"max_usd": 5.0}, "workers": 2})
    assert run.read_json("config.json") == {"seed": 1, "budget": {"max_usd": 5.0}, "workers": 2}


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", ".hidden", "a b"])
def test_a_run_id_cannot_leave_the_folder(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(LabError, match="use letters, digits"):
        Run.open(tmp_path, run_id, {})


def test_a_path_cannot_leave_the_run(tmp_path: Path) -> None:
    run = Run.open(tmp_path, "r", {})
    assert run.path("rounds/1/spec.json") == (tmp_path / "runs/r/rounds/1/spec.json").resolve()
    with pytest.raises(LabError, match="outside the folder"):
        run.write_text("../other/config.json", "x")


@pytest.mark.parametrize("torn", [b'{"n": 2, "half', b'{"n": 2}', b"\xff\x00"])
def test_a_torn_last_ledger_line_is_ignored_and_repaired(tmp_path: Path, torn: bytes) -> None:
    run = Run.open(tmp_path, "r", {})
    run.append_ledger({"n": 1})
    with run.path("ledger.jsonl").open("ab") as file:
        file.write(torn)
    assert run.ledger() == [{"n": 1}]
    run.append_ledger({"n": 3, "text": "line\nbreak – ü"})
    assert run.ledger() == [{"n": 1}, {"n": 3, "text": "line\nbreak – ü"}]


def test_a_damaged_line_inside_the_ledger_is_named(tmp_path: Path) -> None:
    run = Run.open(tmp_path, "r", {})
    run.path("ledger.jsonl").write_text('{"n": 1}\nrubbish\n{"n": 3}\n')
    with pytest.raises(StoreError, match=r"ledger\.jsonl, line 2 is damaged"):
        run.ledger()


def test_two_processes_append_to_one_ledger(tmp_path: Path) -> None:
    code = """
        import sys
        from ecdysis_lab.store import Run
        run = Run.open(sys.argv[1], "r", {})
        for i in range(60):
            run.append_ledger({"who": sys.argv[2], "i": i, "pad": "x" * 9000})
    """
    for process in [run_python(code, tmp_path, who) for who in "ab"]:
        finished(process)
    ledger = Run.open(tmp_path, "r", {}).ledger()
    assert len(ledger) == 120
    assert [entry["i"] for entry in ledger if entry["who"] == "a"] == list(range(60))


def test_a_ledger_line_waits_for_the_line_of_another(tmp_path: Path) -> None:
    run = Run.open(tmp_path, "r", {})
    run.append_ledger({"n": 1})
    with (run.folder / "ledger.jsonl").open("ab", buffering=0) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(b'{"n": ')
        waiting = threading.Thread(target=run.append_ledger, args=({"n": 3},))
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
        other.write(b"2}\n")
    waiting.join()
    assert run.ledger() == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_json_files_take_records_numpy_and_nan(tmp_path: Path) -> None:
    run = Run.open(tmp_path, "r", {})
    value = {
        "usage": Usage(calls=1), "mean": np.float64(0.5), "n": np.int64(3), "ci": np.array([0.1, np.nan]),
        "nan": float("nan"), "where": Path("x/y"), "set": {"b", "a"}, "tuple": (1, True, None),
    }  # fmt: skip
    run.write_json("rounds/1/numbers.json", value)
    read = run.read_json("rounds/1/numbers.json")
    assert read["usage"]["calls"] == 1 and read["usage"]["cost_usd"] == 0.0
    del read["usage"]
    assert read == {"mean": 0.5, "n": 3, "ci": [0.1, None], "nan": None, "where": "x/y", "set": ["a", "b"],
                    "tuple": [1, True, None]}  # fmt: skip
    assert run.read_json("absent.json") is None


def stored(record: Any) -> Any:
    """What JSON leaves of a record."""
    return json.loads(json.dumps(asdict(record)))


def test_a_record_is_read_back_from_its_json() -> None:
    """Nested records, tuples of them, dictionaries of them, and what may be missing."""
    whole = trajectory(
        "1",
        messages=(Message("assistant", None, (Call("f", {"x": [1, 2]}, "c1"),)), Message("tool", "{}", (), "c1", "f", True)),
        interventions=(Intervention(3, "check", "rewrite", before={"a": 1}, after=["b"]),),
        usage={"agent": Usage(calls=2, cost_usd=None)},
        truth={"slips": ["x"]},
    )  # fmt: skip
    for record in (
        whole,
        Patterns((Pattern(0, "n", "q", ("a", "b"), "a", ("1",)),), {"c": (0, 0.5)}, {"a": (1.0, 2.0)}, "m", "e", 1.0, None),
        Subset((Pick("a", 0.5, "r"),), 1, 4, (0.5,), ((0.1, 0.2, 0.3),)),
        Review("spec", Spec(("P0",), (CHANGE,), dropped=(("w", "y"),)), (("analyst", "t"),), Usage(calls=1)),
        Review("no_spec", None, (), Usage(), "why"),
        RECORD,
    ):  # fmt: skip
        assert from_json(type(record), stored(record)) == record
    assert from_json(Message, {"role": "user"}) == Message("user")
    assert from_json(tuple[Usage, ...], None) is None


CHANGE = Change("actions", "actions.py", "w", "y", ("a#1",), ("act",), {"kind": "k", "names": [1]}, 2)
RECORD = RoundRecord(
    1, 5, 2, 1, 2, "rejected", "legal", "refused", 3.0, None, ("1#0",), (), 1, "h", "c", {"edit": 0.5}, Usage(calls=3),
    ("note",), "p", (Judged("c", (GateResult("legal", "rejected", "refused", {"shown": [{"step": 1}]}, "asks", 0.1),)),),
)  # fmt: skip


def test_a_round_keeps_its_files_under_one_name(tmp_path: Path) -> None:
    run = Run.open(tmp_path, "r", {})
    round = run.round("no-fdcr", 2)
    assert (round.failures, round.review, round.record, round.edits, round.debate(), round.diff) == (
        None, None, None, None, None, "",
    )  # fmt: skip
    with pytest.raises(LabError, match="run r has no evidence of round 2 of arm 'no-fdcr'"):
        round.evidence()
    failure = Failure("k", "1", "m", 0.0, "stop", ("db",), 3, "what", ("a:ok",), "card", trajectory("1"))
    subset, patterns = Subset((), 1, 1), Patterns((), {}, {}, "m", "e", 1.0, None)
    round.failures, round.patterns, round.subset, round.record = [failure], patterns, subset, RECORD
    round.edits = (Edit("k", "1", "p", "p", "mended"),)
    round.save_debate({"turns": []}, 3)
    again = Run(run.folder).round("no-fdcr", 2)
    assert again.evidence() == ((replace(failure, trajectory=None),), patterns, subset)
    assert (again.record, again.edits[0].decision, again.debate(3)) == (RECORD, "mended", {"turns": []})
    assert "trajectory" not in (run.folder / "rounds/no-fdcr-2/failures.json").read_text()
    run.round("ecdysis", 10).diff = "+ x"
    run.round("ecdysis", 9).context = "read"
    (run.folder / "rounds" / "notes").mkdir()
    assert [r.name for r in run.rounds()] == ["ecdysis-9", "ecdysis-10", "no-fdcr-2"]
    assert [r.name for r in run.rounds("no-fdcr")] == ["no-fdcr-2"]


def test_a_candidate_is_written_down_beside_its_folder(tmp_path: Path) -> None:
    round = Run.open(tmp_path, "r", {}).round("ecdysis", 1)
    assert round.last_candidate() is None
    for i in (0, 2, 10):
        round.candidate_path(i).mkdir(parents=True)
    assert round.last_candidate() == round.candidate_path(10)
    made = Candidate(round.candidate_path(2), "h", "p", "+ x", "rules", "edited", Usage(calls=1), ("note",))
    round.keep_made(made, "try again")
    assert round.made(made.path) == (made, "try again")
    assert round.made(round.candidate_path(0)) is None


def test_a_record_of_another_shape_is_one_sentence(tmp_path: Path) -> None:
    run = Run.open(tmp_path, "r", {})
    run.write_json("rounds/ecdysis-1/record.json", {**stored(RECORD), "verdict": 1})
    with pytest.raises(StoreError, match=r"record\.json is damaged, or of another version: .*verdict"):
        _ = run.round("ecdysis", 1).record


def test_runs_are_found_by_name_and_by_folder(tmp_path: Path) -> None:
    for name in ("b", "a"):
        Run.open(tmp_path, name, {"seed": 1})
    assert [run.run_id for run in runs_of(tmp_path)] == ["a", "b"]
    assert find_run("a", tmp_path).folder == find_run(str(tmp_path / "runs/a"), "elsewhere").folder
    with pytest.raises(LabError, match=r"run: 'c' is no run in .*runs; runs: a, b$"):
        find_run("c", tmp_path)


@pytest.mark.parametrize("mask, mode", [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_are_readable_as_the_umask_says(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        path = Run(tmp_path / "runs" / "r").write_json("summary.json", {})
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == mode


def test_the_status_says_state_and_time(tmp_path: Path) -> None:
    run = Run.open(tmp_path, "r", {})
    run.write_status("running", round=2)
    run.write_status("failed", error="LabError: no")
    status = run.read_json("status.json")
    assert (status["state"], status["error"], status["pid"]) == ("failed", "LabError: no", os.getpid())
    assert "round" not in status and status["at"].endswith("+00:00")


def test_the_commit_is_that_of_the_source() -> None:
    git = ["git", "-C", str(REPOSITORY)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    assert commit_hash().removesuffix("-dirty") == head.stdout.strip()


def test_outside_git_the_commit_is_unknown(tmp_path: Path) -> None:
    copy = tmp_path / "ecdysis_lab"
    copy.mkdir()
    for name in ("__init__.py", "records.py"):
        shutil.copy(REPOSITORY / "ecdysis_lab" / name, copy)
    for room in ("hooks", "store"):
        shutil.copytree(REPOSITORY / "ecdysis_lab" / room, copy / room)
    code = "from ecdysis_lab.store.run import commit_hash; print(commit_hash())"
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    out = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.strip() == "unknown"


def test_a_put_takes_milliseconds(tmp_path: Path) -> None:
    store = Store(tmp_path)
    long = tuple(Message("user", f"message {i} " * 40) for i in range(60))
    started = time.perf_counter()
    for i in range(50):
        store.put(trajectory(str(i), messages=long, context=long))
    assert (time.perf_counter() - started) / 50 < 0.1
