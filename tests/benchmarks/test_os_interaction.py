"""OS interaction of AgentBench: reading a clone, machines that contain what runs on them, trials and their scores."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_scripts import NEVER, SCRIPTS

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.benchmarks.agentbench import box, os_machine
from ecdysis_lab.benchmarks.agentbench.data import PLACE
from ecdysis_lab.benchmarks.agentbench.os_interaction import NUDGE, ROUNDS, OSInteraction
from ecdysis_lab.benchmarks.agentbench.os_machine import ANSWER, BASH, FINISH
from ecdysis_lab.cli import doctor
from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.rollout import Setup, run_trial
from ecdysis_lab.hooks import Call
from ecdysis_lab.models.sim import provider
from ecdysis_lab.records import LabError, Message, Trial

NAME = "agentbench/os"
CLONE = Path(__file__).resolve().parents[3] / "shared" / "data" / "agentbench"
LIMITS = {"max_steps": 100, "max_errors": 10}
TASKS = [
    {
        "description": "How many files are in ~/things?",
        "create": {"init": {"code": "mkdir ~/things; touch ~/things/{a,b,c}"}},
        "evaluation": {
            "check": [None, {"language": "python", "file": "check/same.py"}],
            "example": "ls ~/things | wc -l",
        },
    },
    {
        "description": "Make a command greet that prints hello.",
        "evaluation": {
            "check": {"code": '[ "$(greet)" = hello ]'},
            "example": {
                "code": "printf '#!/bin/sh\\necho hello' > /usr/local/bin/greet; chmod +x /usr/local/bin/greet"
            },
        },
    },
    {"description": "What is in var?", "start": "var=42; cd /usr", "evaluation": {"match": "42"}},
    {
        "description": "A number of the day?",
        "create": {"init": ["echo $RANDOM > ~/n"]},
        "evaluation": {"match": {"regex": "^[0-9]+$"}, "example": "cat ~/n"},
    },
]
SAME = "from sys import argv\nassert int(argv[1]) == int(argv[2])\n"

machines = pytest.mark.skipif(bool(box.missing()), reason=f"no machine can be started here: {box.missing()}")


def clone(folder: Path, layout: str, tasks: list[Any]) -> Path:
    top = folder / layout
    for group in ("dev", "1"):
        (top / "scripts" / group / "check").mkdir(parents=True)
        (top / "scripts" / group / "check" / "same.py").write_text(SAME)
    (top / "data" / "1").mkdir(parents=True)
    (top / "data" / "dev.json").write_text(json.dumps(tasks))
    (top / "data" / "1" / "more.json").write_text(json.dumps(tasks[0]))
    return folder


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OSInteraction]:
    """Four tasks of our own; nothing cached of another clone."""
    cached = (load_benchmark, provider._scene, provider.susceptible)
    monkeypatch.setenv(PLACE, str(clone(tmp_path, "os_interaction", TASKS)))
    for one in cached:
        one.cache_clear()
    yield load_benchmark(NAME)  # type: ignore[misc]
    for one in cached:
        one.cache_clear()


class Scripted:
    def __init__(self, *replies: Message) -> None:
        self.replies = list(replies)

    def start(self, environment: Any) -> None: ...

    def user_says(self, text: str) -> Message:
        return self.replies.pop(0)

    def tools_return(self, results: Any) -> Message:
        return self.replies.pop(0)

    def close(self) -> None: ...


def bash(script: Any) -> Message:
    return Message("assistant", None, (Call(BASH, {"script": script}, "c"),))


def said(name: str, **arguments: Any) -> Message:
    return Message("assistant", None, (Call(name, arguments, "c"),))


def play(bench: OSInteraction, n: int, *replies: Message) -> Any:
    task = bench.tasks("train")[n]
    trial = Trial(NAME, bench.version, task.id, task.split, "m", "", "h", 0)
    return bench.run(task, trial, Scripted(*replies), None, LIMITS)  # type: ignore[arg-type]


# -- reading a clone ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["os_interaction", "data/os_interaction"])
def test_a_clone_is_read_in_either_layout(layout: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv(PLACE, str(clone(tmp_path, layout, TASKS)))
    made = OSInteraction()
    assert [t.id for t in made.tasks("train")] == [f"dev-001-dev-0000{n}" for n in range(4)]
    assert [t.id for t in made.tasks("test")] == ["std-001-more-00000"]
    assert [t.id for t in made.tasks("train", 2, 1)] == [t.id for t in made.tasks("train", 2, 1)]
    with pytest.raises(LabError, match="train has 4 tasks, 5 were asked for"):
        made.tasks("train", 5)
    assert made.facts("dev-001-dev-00001") == {"/usr/local/bin/greet": "path"}


def test_without_a_clone_one_sentence_says_what_is_needed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv(PLACE, "")
    with pytest.raises(
        LabError, match=f"needs a clone of AgentBench; name its folder by --agentbench or {PLACE}"
    ):
        OSInteraction()
    monkeypatch.setenv(PLACE, str(tmp_path))
    with pytest.raises(LabError, match="no OS tasks of AgentBench"):
        OSInteraction()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ({"description": 5}, "description: must be a text"),
        ({"evaluation": {}}, "evaluation: must hold match or check"),
        ({"evaluation": {"check": [None]}}, "evaluation.example: is missing"),
        ({"evaluation": {"match": {}, "check": []}}, "evaluation.match: must hold answer or regex"),
        ({"evaluation": {"match": 5}}, "evaluation.match: must hold answer or regex"),
        ({"evaluation": {"match": {"answer": 3, "regex": "3"}}}, "evaluation.match.answer: must be a text"),
        ({"evaluation": {"match": {"regex": "("}}}, "evaluation.match.regex: "),
        ({"create": {"init": {"code": None}}}, "create.init.code: must be a text"),
        ({"create": {"init": {"file": "../../../x"}}}, "create.init.file: .* lies outside"),
        (
            {"create": {"init": {"code": "x", "language": "c"}}},
            "create.init.language: unknown 'c'; choose one of bash",
        ),
    ],
)
def test_a_damaged_record_is_named(damage: Any, told: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv(PLACE, str(clone(tmp_path, "os_interaction", [TASKS[0], TASKS[0] | damage])))
    with pytest.raises(LabError, match=f"dev.json, record 2: {told}"):
        OSInteraction()


def test_the_clone_at_hand_is_read_whole(monkeypatch: Any) -> None:
    if not (CLONE / "os_interaction").is_dir():
        pytest.skip("needs ../shared/data/agentbench")
    monkeypatch.setenv(PLACE, str(CLONE))
    made = OSInteraction()
    assert Counter(i.split for i in made.items.values()) == {"train": 26, "test": 144}
    assert made.items["std-004-Q47-00000"].start == "mkdir /home/user2 && cd /home/user2"
    assert len(made.items["std-002-environment-00004"].init) == 2


# -- trials ---------------------------------------------------------------------------------------------------------


@machines
def test_the_flawless_agent_does_all_of_them(bench: OSInteraction) -> None:
    empty = load_harness("empty").path
    for task in bench.tasks("all"):
        left = run_trial(Setup(NAME, "sim/flawless"), task, empty, 0)
        assert (left.status, left.score) == ("scored", 1.0), (task.id, left)
        assert bench.clean(task.id)


@machines
def test_one_shell_for_all_calls_and_a_check_on_what_is_left(bench: OSInteraction) -> None:
    left = play(
        bench, 2, bash("echo $var $PWD; var=43; false"), bash("echo $var"), said(ANSWER, answer=" 42 ")
    )
    assert [m.content for m in left.messages if m.role == "tool"][:2] == ["42 /usr\n", "43\n"]
    assert (left.score, left.termination, left.checks) == (1.0, "answered", {"ended": True, "answer": True})
    assert play(bench, 0, said(ANSWER, answer="3")).score == 1.0
    assert play(bench, 0, said(ANSWER, answer="4")).checks == {"ended": True, "check": False}
    assert play(bench, 1, said(FINISH)).score == 0.0
    made = play(bench, 1, bash("cd /usr/local/bin; echo echo hello > greet; chmod +x greet"), said(FINISH))
    assert (made.score, made.termination) == (1.0, "finished")
    assert play(bench, 0, said(FINISH)).score == 0.0, "no answer is not the number"


@machines
def test_the_world_of_a_task_is_the_same_each_time(bench: OSInteraction) -> None:
    seen = {play(bench, 3, bash("cat ~/n"), said(ANSWER, answer="1")).messages[2].content for _ in range(2)}
    assert len(seen) == 1


@machines
def test_output_is_cut_and_clean(bench: OSInteraction) -> None:
    left = play(
        bench, 0, bash("seq 1000"), bash("true"), bash("printf 'a\\0b\\377\\033'"), bash(5), said(FINISH)
    )
    told = [m.content or "" for m in left.messages if m.role == "tool"]
    assert len(told[0]) < 850 and told[0].endswith("[cut at 800 characters]")
    assert told[1:3] == ["The script printed nothing.", "a\ufffdb\ufffd\ufffd"]
    assert told[3].startswith("Error: bash needs script")


@machines
def test_rounds_and_nudges_end_a_trial(bench: OSInteraction) -> None:
    left = play(bench, 0, *[bash("true")] * ROUNDS)
    assert (left.score, left.termination, left.checks) == (0.0, "max_rounds", {"ended": False})
    talk = play(bench, 0, *[Message("assistant", "hm")] * 4)
    assert talk.termination == "max_nudges" and talk.messages[2].content == NUDGE


def test_a_script_may_change_anything(bench: OSInteraction) -> None:
    assert bench.effect(Call(BASH, {"script": "ls"})) == "write"
    assert bench.effect(Call(ANSWER, {"answer": "1"})) == "other"
    assert bench.environment("dev-001-dev-00000").read(BASH, {"script": "ls"}) is None


@machines
def test_gold_that_does_not_reach_its_check_is_told_with_the_reason(tmp_path: Path, monkeypatch: Any) -> None:
    wrong = TASKS[0] | {"evaluation": TASKS[0]["evaluation"] | {"example": "echo five"}}  # type: ignore[operator]
    monkeypatch.setenv(PLACE, str(clone(tmp_path, "os_interaction", [wrong])))
    made = OSInteraction()
    assert (
        made.why_unusable("dev-001-dev-00000") == "the gold script does not pass its check; it printed: five"
    )
    assert not made.clean("dev-001-dev-00000")


@machines
def test_a_world_that_cannot_be_made_is_told_even_where_the_gold_passes(
    tmp_path: Path, monkeypatch: Any
) -> None:
    broken = TASKS[0] | {
        "create": {"init": {"code": "mkdir ~/things; touch ~/things/{a,b,c}; no_such_program"}}
    }
    monkeypatch.setenv(PLACE, str(clone(tmp_path, "os_interaction", [broken])))
    why = OSInteraction().why_unusable("dev-001-dev-00000")
    assert why.startswith("a script that makes its world fails here:") and "no_such_program" in why


@machines
def test_a_machine_that_is_no_more_is_no_fault_of_the_agents(bench: OSInteraction, monkeypatch: Any) -> None:
    alone = box.Box.alone
    monkeypatch.setattr(box.Box, "alone", lambda self, *a: self.close() or alone(self, *a))
    left = play(bench, 0, said(ANSWER, answer="3"))
    assert (left.status, left.score) == ("infra_error", None) and box.GONE in left.error


@machines
def test_without_a_closed_folder_on_the_host_a_machine_starts(monkeypatch: Any) -> None:
    monkeypatch.setattr(box, "_closed_folders", lambda: "")
    made = box.Box()
    assert made.alone(["echo", "up"], 5).output == "up\n"
    made.close()


def test_where_no_machine_can_be_started_one_sentence_says_why(
    bench: OSInteraction, monkeypatch: Any
) -> None:
    monkeypatch.setattr(box, "UNSHARE", ("bash", "-c", "echo no such luck >&2; exit 1"))
    with pytest.raises(LabError, match="agentbench/os: no machine can be started: no such luck"):
        play(bench, 0, bash("ls"))
    box.missing.cache_clear()
    try:
        assert doctor._machines().startswith("none (no machine can be started: no such luck")
    finally:
        box.missing.cache_clear()


# -- hostile scripts ------------------------------------------------------------------------------------------------


def running(mark: str) -> list[str]:
    """Host processes whose command line holds a text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] if mark.encode() in path.read_bytes() else []
        except OSError:
            continue
    return found


@machines
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_hostile_script_is_contained_and_its_trial_scored(
    name: str, bench: OSInteraction, tmp_path: Path, monkeypatch: Any
) -> None:
    mark = f"ecdysis-hostile-{os.getpid()}-{abs(hash(name)) % 10**6}"
    secret = tmp_path / "secret"
    secret.write_text("HOST-SECRET")
    monkeypatch.setenv("HOST_TOKEN", "HOST-SECRET")
    monkeypatch.setattr(os_machine, "SCRIPT_SECONDS", 10.0 if "memory" in name else 1.0)
    own = tmp_path / "init.py"  # other workers of the suite have boxes, too
    own.write_text(f"{box.INIT.read_text()}\n# {mark}\n")
    monkeypatch.setattr(box, "INIT", own)
    passwd = Path("/etc/passwd").read_bytes()
    canary = subprocess.Popen(["sleep", "60"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        places = {"secret": secret, "pid": canary.pid, "port": server.getsockname()[1], "mark": mark}
        script = SCRIPTS[name].format(**places, home=Path.home())
        began = time.monotonic()
        left = play(bench, 0, bash(script), bash("echo again"), said(ANSWER, answer="3"))
        assert time.monotonic() - began < 20
        with pytest.raises(BlockingIOError):
            server.accept()
    assert left.status == "scored" and left.score in (0.0, 1.0) and left.termination == "answered"
    told = [m.content or "" for m in left.messages if m.role == "tool"]
    assert not [word for word in NEVER if word in "\n".join(told)]
    assert all(len(text) < 1000 for text in told)
    assert not [c for c in "".join(told) if c not in "\t\n" and unicodedata.category(c) == "Cc"]
    state = Path(f"/proc/{canary.pid}/stat").read_text().rpartition(")")[2].split()[0]
    assert canary.poll() is None and state == "S", "a process of the host was hit"
    canary.kill()
    canary.wait()
    assert secret.read_text() == "HOST-SECRET" and Path("/etc/passwd").read_bytes() == passwd
    assert not [top for top in ("/usr", "/etc", "/var") if Path(top, mark).exists()]
    assert running(mark) == [], "something outlived its trial"
    harmless = name in (
        "endless loop",
        "endless output",
        "by process 1",
        "mount",
        "network",
        "trace",
        "end of process 1",
        "binary garbage",
        "daemon",
    )
    assert not harmless or (told[1], left.score) == ("again\n", 1.0)
    if name == "fill the disk":
        assert int(told[0].split()[-1]) <= box.DISK_BYTES >> 20
    if name.startswith("fill the memory"):
        assert "memory" in told[0] or "Memory" in told[0]
