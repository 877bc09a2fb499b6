"""The editors with a model: the real OpenCode and edit blocks, both against a scripted server."""

from __future__ import annotations

import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2")

from openai_server import OpenAIServer, Reply, Request, call, hang, status, text
from simlab import bench, folder, host
from simlab import call as tool_call

from ecdysis_lab.harness import Harness, load_harness
from ecdysis_lab.harness.probe import probe
from ecdysis_lab.harness.source import static_problems
from ecdysis_lab.hooks import Allow, Refuse, Rewrite
from ecdysis_lab.models.errors import PermanentError
from ecdysis_lab.records import Candidate, Change, LabError, Spec
from ecdysis_lab.review import editors
from ecdysis_lab.review.debate import prompt
from ecdysis_lab.review.editors import staging
from ecdysis_lab.review.editors.litellm import Block, apply, parse
from ecdysis_lab.review.editors.opencode import TESTED

CANARY = "canary-4f1c9a-never-on-disk"
SPEC = Spec(
    patterns=("P0: ids with a leading #",),
    changes=(
        Change("actions", "actions.py", "Take a leading # off a reservation id.", "Nothing is found otherwise.",
               ("0a1b2c3d#4",), ("cancel_reservation with a plain id",), {"kind": "canonical_argument"}),
        Change("contract", "contract.py", "Say in the schema that ids have no #.", "", ("0a1b2c3d#6",)),
    ),
    rejected=("refuse every cancellation",),
)  # fmt: skip
ACTIONS = '''"""Actions layer."""
from ecdysis_lab.hooks import Allow


def check(call, view):
    return Allow()
'''
OLD = "from ecdysis_lab.hooks import Allow\n\n\ndef check(call, view):\n    return Allow()\n"
NEW = """from ecdysis_lab.hooks import Allow, Rewrite


def check(call, view):
    given = call.arguments.get("reservation_id")
    if isinstance(given, str) and given.startswith("#"):
        if view.read("get_reservation_details", reservation_id=given[1:]) is not None:
            return Rewrite(arguments={**call.arguments, "reservation_id": given[1:]}, rule="reservation_id_form")
    return Allow()
"""
CONTRACT = """def describe(tool):
    if tool["name"] != "cancel_reservation":
        return tool
    return {**tool, "description": tool["description"] + " Ids have no #."}
"""
HASHED, PLAIN = ({"reservation_id": "#4WQ150"}, {"reservation_id": "4WQ150"})


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.setenv("SOME_OTHER_SECRET", "not-for-an-editor")


@pytest.fixture
def parent(tmp_path: Path) -> Harness:
    return folder(tmp_path / "parent", actions=ACTIONS)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which editors make theirs."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def holds(root: Path, needle: str) -> list[str]:
    """Files under a folder with a text in them."""
    files = [p for p in root.rglob("*") if p.is_file() and not p.is_symlink()]
    return [str(p.relative_to(root)) for p in files if needle.encode() in p.read_bytes()]


def alive(mark: Path) -> list[int]:
    """Processes that were given a folder in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.fsencode(mark) in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue  # it ended meanwhile, or is not ours
    return [pid for pid in found if pid != os.getpid()]


def events(candidate: Candidate) -> list[dict[str, Any]]:
    path = candidate.path.with_name(f"{candidate.path.name}.editor.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check_new_rule(candidate: Candidate) -> None:
    """The candidate passes the cheap gates and changes a decision in the live environment."""
    child = load_harness(candidate.path)
    assert static_problems(child) == []
    assert probe(child, bench(), "0") is None
    with host(child) as desk:
        found = desk.check(tool_call("cancel_reservation", **HASHED), 50)
        assert found == Rewrite(PLAIN, None, "reservation_id_form")
        assert desk.check(tool_call("cancel_reservation", reservation_id="#NOSUCH"), 50) == Allow()
        tools = {t["name"]: desk.describe(dict(t)) for t in bench().tools}
    assert tools["cancel_reservation"]["description"].endswith(" Ids have no #.")


def check_old_rule(parent: Harness) -> None:
    with host(parent) as desk:
        assert desk.check(tool_call("cancel_reservation", **HASHED), 50) == Allow()


# -- the spec as text ---------------------------------------------------------------------------------------------


def test_the_spec_is_rendered_with_everything_the_editor_needs() -> None:
    lines = staging.render_spec(SPEC, "refuse an act of passing trial 1234").splitlines()
    for line in (
        "## 1. actions.py (actions)",
        "What: Take a leading # off a reservation id.",
        "Why: Nothing is found otherwise.",
        "Evidence: 0a1b2c3d#4",
        "- cancel_reservation with a plain id",
        'Rule in short: `{"kind": "canonical_argument"}`',
        "## 2. contract.py (contract)",
        "- refuse every cancellation",
        "refuse an act of passing trial 1234",
    ):
        assert line in lines
    assert "gate" not in staging.render_spec(SPEC)


def test_an_unreviewed_editor_is_told_of_patterns_where_they_stand_and_else_of_one_failure() -> None:
    """One failure alone recurs nowhere: told to leave that alone, an editor would change nothing."""
    alone = staging.render_spec(Spec((), ()))
    grouped = staging.render_spec(Spec(("P0 recurring: 4 failures over 2 tasks",), ()))
    assert alone == prompt("undebated_alone") + "\n"
    assert grouped.startswith(prompt("undebated") + "\n\n# Patterns behind them\n- P0 recurring")
    assert "recurring" not in alone and "one task alone" in grouped
    assert prompt("undebated") not in staging.render_spec(SPEC), "there the changes stand"


# -- the real OpenCode --------------------------------------------------------------------------------------------


@dataclass
class Session:
    """One edit by the real program."""

    candidate: Candidate
    requests: list[Request]
    seconds: float
    first_request_seconds: float
    leaked: list[str]


def stage_of(request: Request) -> Path:
    """The staging folder, which OpenCode names in its system prompt."""
    lines = request.body["messages"][0]["content"].splitlines()
    return Path(next(line for line in lines if "Working directory:" in line).split(": ")[1])


def turn_of(request: Request) -> int:
    return sum(m["role"] == "assistant" for m in request.body["messages"])


def session(
    script: Callable[[Path], list[Reply]], parent: Harness, out: Path, temporary: Path, **options: Any
) -> Session:
    """Let OpenCode edit ``parent`` by a script, which gets the staging folder."""
    leaked: list[str] = []

    def reply(request: Request) -> Reply:
        leaked.extend(holds(temporary, CANARY))
        replies = script(stage_of(request))
        return replies[turn_of(request)] if turn_of(request) < len(replies) else text("Done.")

    with OpenAIServer(reply) as server:
        options = {"api_key_env": "OPENAI_API_KEY", "timeout_seconds": 300, **options}
        editor = editors.load("opencode", model="openai/scripted-model", api_base=server.url, **options)
        began = time.monotonic()
        candidate = editor.edit(parent.path, SPEC, out)
        seconds = time.monotonic() - began
    first = server.requests[0].at - began if server.requests else seconds
    assert (alive(temporary), list(temporary.iterdir())) == ([], [])
    return Session(candidate, server.requests, seconds, first, leaked)


def good(stage: Path) -> list[Reply]:
    return [
        call("read", filePath=str(stage / "SPEC.md")),
        call("read", filePath=str(stage / "actions.py")),
        call("edit", filePath=str(stage / "actions.py"), oldString=OLD, newString=NEW),
        call("write", filePath=str(stage / "contract.py"), content=CONTRACT),
        text("Both changes are made."),
    ]


@pytest.mark.slow
@pytest.mark.needs("opencode")
def test_opencode_edits_two_files_and_the_environment_sees_it(
    parent: Harness, tmp_path: Path, temporary: Path
) -> None:
    ran = session(good, parent, tmp_path / "run/candidate", temporary, usd_per_token=(1e-6, 2e-6))
    made = ran.candidate
    assert (made.outcome, made.notes, made.editor, made.parent) == ("edited", (), "opencode", parent.hash)
    assert sorted(p.name for p in made.path.iterdir()) == ["actions.py", "contract.py"]
    assert "+++ b/contract.py" in made.diff and "-from ecdysis_lab.hooks import Allow\n" in made.diff
    check_old_rule(parent)
    check_new_rule(made)

    # one editor call: a single conversation, every request of which is counted, and none spent on a title
    assert [turn_of(r) for r in ran.requests] == [0, 1, 2, 3, 4]
    assert all(
        {"read", "edit", "write"} <= {t["function"]["name"] for t in r.body["tools"]} for r in ran.requests
    )
    assert {r.body["model"] for r in ran.requests} == {"scripted-model"}
    usage = made.usage
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (5, 500, 100)
    assert usage.cost_usd == pytest.approx(500e-6 + 200e-6)
    assert 0 < usage.seconds <= ran.seconds

    # it read the spec, and nothing that it is not for
    shown = json.dumps(ran.requests[1].body["messages"])
    assert "Take a leading # off a reservation id." in shown
    assert not {"bash", "webfetch", "task"} & {t["function"]["name"] for t in ran.requests[0].body["tools"]}

    # the key reached the server and no file, neither during the edit nor after it
    assert {r.headers["authorization"] for r in ran.requests} == {f"Bearer {CANARY}"}
    assert (ran.leaked, holds(tmp_path, CANARY)) == ([], [])
    tools = [e["part"]["tool"] for e in events(made) if e["type"] == "tool_use"]
    assert tools == ["read", "read", "edit", "write"]


@pytest.mark.slow
@pytest.mark.needs("opencode")
def test_opencode_is_denied_shell_and_outside_and_strays_are_dropped(
    parent: Harness, tmp_path: Path, temporary: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("not for the editor")
    outside = tmp_path / "outside.txt"

    def script(stage: Path) -> list[Reply]:
        return [
            call("bash", command=f"touch {outside}", description="make a file"),
            call("write", filePath=str(outside), content="x"),
            call("write", filePath="../../../outside.txt", content="x"),
            call("edit", filePath=str(secret), oldString="not", newString="now"),
            call("read", filePath=str(secret)),
            call("write", filePath=str(stage / "helper.py"), content="x = 1\n"),
            call("write", filePath=str(stage / "sub/actions.py"), content="x = 1\n"),
            call("write", filePath=str(stage / "skills.py"), content="def brief(opening, policy):\n    return 'Be exact.'\n"),
            call("read", filePath=str(stage / "SPEC.md")),
            call("edit", filePath=str(stage / "SPEC.md"), oldString="# Changes to make", newString="# Nothing to do"),
        ]  # fmt: skip

    ran = session(script, parent, tmp_path / "run/candidate", temporary)
    assert not outside.exists() and secret.read_text() == "not for the editor"
    assert "not for the editor" not in json.dumps([r.body for r in ran.requests])
    assert sorted(p.name for p in ran.candidate.path.iterdir()) == ["actions.py", "skills.py"]
    assert ran.candidate.outcome == "edited"
    assert ran.candidate.usage.cost_usd is None
    assert ran.candidate.notes == (
        f"denied: bash touch {outside}",
        f"denied: write {outside}",
        "denied: write ../../../outside.txt",
        f"denied: edit {secret}",
        f"denied: read {secret}",
        "dropped the change to SPEC.md: the editor may not edit it",
        "dropped helper.py: a harness has only contract.py, skills.py, actions.py, regulation.py, harness.toml",
        "dropped sub/actions.py: a harness has only contract.py, skills.py, actions.py, regulation.py, harness.toml",
    )
    assert static_problems(load_harness(ran.candidate.path)) == []


@pytest.mark.slow
@pytest.mark.needs("opencode")
def test_opencode_that_gets_no_answer_is_killed_in_time(
    parent: Harness, tmp_path: Path, temporary: Path
) -> None:
    quick = session(lambda stage: [], parent, tmp_path / "quick", temporary)
    assert (quick.candidate.outcome, quick.candidate.hash) == ("no_change", parent.hash)
    limit = round(
        5 + 3 * quick.first_request_seconds
    )  # long enough for it to ask, however busy the machine is

    def script(stage: Path) -> list[Reply]:
        return [call("write", filePath=str(stage / "contract.py"), content=CONTRACT), hang()]

    ran = session(script, parent, tmp_path / "run/candidate", temporary, timeout_seconds=limit)
    assert limit <= ran.seconds < limit + 15
    assert len(ran.requests) == 2
    made = ran.candidate
    assert (made.outcome, made.diff, made.hash) == ("failed", "", parent.hash)  # nothing half-done is kept
    assert made.notes == (f"opencode: no end within {limit} s; it was stopped",)
    assert made.usage.prompt_tokens == 100


@pytest.mark.slow
@pytest.mark.needs("opencode")
def test_opencode_reports_a_broken_server(parent: Harness, tmp_path: Path, temporary: Path) -> None:
    ran = session(
        lambda stage: [status(500, f"out of memory {CANARY}")] * 9, parent, tmp_path / "c", temporary
    )
    made = ran.candidate
    assert (made.outcome, made.diff) == ("failed", "")
    assert made.notes == ("opencode: the model did not answer: out of memory [key] (4 times in a row)",)
    assert (len(ran.requests), made.usage.calls, made.usage.attempts) == (4, 0, 4)
    assert holds(tmp_path, CANARY) == []


@pytest.mark.slow
@pytest.mark.needs("opencode")
def test_opencode_with_a_wrong_key_stops_the_run(parent: Harness, tmp_path: Path, temporary: Path) -> None:
    with pytest.raises(
        PermanentError, match=r"refused the key .*no such key: \[key\].*; set OPENAI_API_KEY"
    ) as raised:
        session(lambda stage: [status(401, f"no such key: {CANARY}")], parent, tmp_path / "c", temporary)
    assert CANARY not in str(raised.value)
    assert (alive(temporary), list(temporary.iterdir()), holds(tmp_path, CANARY)) == ([], [], [])


# -- OpenCode's surroundings, with stand-ins for the program -------------------------------------------------------


@pytest.fixture
def stand_in(tmp_path: Path, temporary: Path) -> Iterator[Callable[..., Any]]:
    """Makes an editor whose program is a shell script."""

    def make(script: str, version: str = TESTED, **options: Any) -> Any:
        path = tmp_path / f"stand-in-{len(list(tmp_path.iterdir()))}"
        path.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{version}"; exit; fi\n{script}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        options = {"model": "m", "api_base": "http://127.0.0.1:9/v1", "timeout_seconds": 30, **options}
        return editors.load("opencode", binary=str(path), **options)

    yield make
    assert (alive(temporary), list(temporary.iterdir())) == ([], [])


def test_children_are_killed_with_the_program(
    stand_in: Callable[..., Any], parent: Harness, tmp_path: Path
) -> None:
    began = time.monotonic()
    made = stand_in("sleep 300 & sleep 300", timeout_seconds=1).edit(parent.path, SPEC, tmp_path / "c")
    assert 1 <= time.monotonic() - began < 16
    assert (made.outcome, made.notes) == ("failed", ("opencode: no end within 1 s; it was stopped",))


def test_children_that_outlive_the_program_are_killed(
    stand_in: Callable[..., Any], parent: Harness, tmp_path: Path
) -> None:
    made = stand_in("sleep 300 >/dev/null 2>&1 &").edit(parent.path, SPEC, tmp_path / "c")
    assert (made.outcome, made.usage.calls, made.hash) == ("no_change", 0, parent.hash)


def test_it_gets_closed_stdin_and_no_variable_but_the_named(
    stand_in: Callable[..., Any], parent: Harness, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    editor = stand_in(f"env > {seen}; cat >> {seen}; ls >> {seen}", api_key_env="OPENAI_API_KEY")
    editor.edit(parent.path, SPEC, tmp_path / "c")
    lines = seen.read_text().splitlines()
    assert lines[-3:] == ["CONTRACT.md", "SPEC.md", "actions.py"]
    env = dict(line.split("=", 1) for line in lines[:-3])
    assert env["ECDYSIS_EDITOR_KEY"] == CANARY
    assert "not-for-an-editor" not in seen.read_text() and "OPENAI_API_KEY" not in env
    for name in ("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        assert env[name].startswith(f"{tmp_path}/temporary/ecdysis-opencode-")


def test_an_exit_code_is_a_failure_with_its_last_words(
    stand_in: Callable[..., Any], parent: Harness, tmp_path: Path
) -> None:
    script = "echo 'x = 1' > actions.py; echo 'Error: disk on fire' >&2; exit 3"
    made = stand_in(script).edit(parent.path, SPEC, tmp_path / "c")
    assert (made.outcome, made.hash) == ("failed", parent.hash)
    assert made.notes[0].startswith("opencode: exit code 3 (") and "disk on fire" in made.notes[0]


def test_removed_files_links_and_bytes(stand_in: Callable[..., Any], parent: Harness, tmp_path: Path) -> None:
    script = "rm actions.py; ln -s /etc/passwd skills.py; printf 'x = \"\\351\"\\n' > contract.py; mkdir regulation.py"
    made = stand_in(script).edit(parent.path, SPEC, tmp_path / "c")
    assert made.notes == ("removed actions.py", "dropped skills.py: a link")
    assert [p.name for p in made.path.iterdir()] == ["contract.py"]
    assert (made.path / "contract.py").read_bytes() == b'x = "\xe9"\n'
    (problem, *_) = static_problems(load_harness(made.path))
    assert (problem.file, problem.line, problem.what) == ("contract.py", 0, "not plain UTF-8 text")


def test_what_is_missing_is_said_with_the_remedy(stand_in: Callable[..., Any], monkeypatch: Any) -> None:
    server = {"model": "m", "api_base": "http://127.0.0.1:9/v1"}
    with pytest.raises(
        LabError, match=r"no program 'no-such-opencode' on the PATH; `npm install -g opencode-ai@"
    ):
        editors.load("opencode", binary="no-such-opencode", **server)
    with pytest.raises(LabError, match="model is not set"):
        editors.load("opencode")
    with pytest.raises(LabError, match="api_base is not set"):
        editors.load("opencode", model="m")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(LabError, match="api_key_env names OPENAI_API_KEY; set it"):
        editors.load("opencode", api_key_env="OPENAI_API_KEY", **server)
    with pytest.raises(LabError, match="editor: unknown 'vim'; choose one of rules, opencode, litellm"):
        editors.load("vim")


@pytest.mark.parametrize("version", ["1.0.220", "0.9.0", "2.0.1", "hello"])
def test_a_version_with_another_configuration_is_refused(stand_in: Callable[..., Any], version: str) -> None:
    with pytest.raises(
        LabError, match=f"reports version '{version}'; 1.1.1 to 1.x is understood; `npm install"
    ):
        stand_in("exit 1", version=version)


# -- edit blocks --------------------------------------------------------------------------------------------------


def block(file: str, search: str, replacement: str) -> str:
    return f"<<<<<<< SEARCH {file}\n{search}=======\n{replacement}>>>>>>> REPLACE\n"


GOOD = "Here you are:\n```\n" + block("actions.py", OLD, NEW) + "```\n" + block("contract.py", "", CONTRACT)
AMBIGUOUS = block("actions.py", "    return Allow()\n", "    return None\n") + block(
    "actions.py", "x\n", "y\n"
)
TWICE = (
    "def check(call, view):\n    if call:\n        return 1\n    return 2\n\n\ndef other():\n    return 2\n"
)


class Ask:
    """One edit through LiteLLM with scripted answers."""

    def __init__(self, answers: list[Reply], parent: Harness, out: Path) -> None:
        with OpenAIServer(answers, status(400, "no more answers")) as server:
            editor = editors.load("litellm", model="openai/x", api_base=server.url)
            self.candidate = editor.edit(parent.path, SPEC, out, "the last one refused too much")
        self.requests = server.requests


def test_blocks_make_a_candidate_in_one_call(parent: Harness, tmp_path: Path) -> None:
    ran = Ask([text(GOOD)], parent, tmp_path / "run/candidate")
    made = ran.candidate
    assert (made.outcome, made.notes, made.editor, made.parent) == ("edited", (), "litellm", parent.hash)
    assert (made.usage.calls, made.usage.prompt_tokens, made.usage.completion_tokens) == (1, 100, 20)
    check_new_rule(made)
    assert len(ran.requests) == 1
    asked = ran.requests[0].body["messages"][1]["content"]
    for part in (
        ACTIONS,
        "Take a leading # off a reservation id.",
        "What you owe",
        "the last one refused too much",
    ):
        assert part in asked
    assert [m["role"] for m in events(made)] == ["system", "user", "assistant"]
    assert ran.requests[0].headers["authorization"] == f"Bearer {CANARY}"
    assert holds(tmp_path, CANARY) == []


def test_an_ambiguous_search_is_repaired_once(tmp_path: Path) -> None:
    parent = folder(tmp_path / "parent", actions=ACTIONS + "\n\ndef other():\n    return Allow()\n")
    ran = Ask([text(AMBIGUOUS), text(GOOD)], parent, tmp_path / "c")
    assert (ran.candidate.outcome, ran.candidate.usage.calls, ran.candidate.usage.prompt_tokens) == (
        "edited",
        2,
        200,
    )
    check_new_rule(ran.candidate)
    repair = ran.requests[1].body["messages"][-1]["content"]
    assert "block 1: its SEARCH text occurs 2 times in actions.py: 'return Allow()'" in repair
    assert "block 2: its SEARCH text does not occur in actions.py: 'x'" in repair
    assert [m["role"] for m in events(ran.candidate)] == ["system", "user", "assistant", "user", "assistant"]


@pytest.mark.parametrize(
    "second, why",
    [
        (block("actions.py", "nowhere\n", "y\n"), "does not occur in actions.py: 'nowhere'"),
        (block("helper.py", "", "x = 1\n"), "a block names 'helper.py'; the files are contract.py"),
        (block("actions.py", OLD, "def check(:\n"), "actions.py would not be Python any more"),
        ("I am done.", "there is no block in the answer"),
        ("<<<<<<< SEARCH actions.py\nx\n", "a block of actions.py has no line `=======`"),
        ("<<<<<<< SEARCH actions.py\nx\n=======\ny\n", "a block of actions.py has no line `>>>>>>> REPLACE`"),
    ],
)
def test_blocks_that_stay_bad_fail_with_the_reason(
    second: str, why: str, parent: Harness, tmp_path: Path
) -> None:
    first = block("actions.py", "also nowhere\n", "y\n")
    ran = Ask([text(first), text(second)], parent, tmp_path / "c")
    made = ran.candidate
    assert (made.outcome, made.diff, made.hash, made.usage.calls) == ("failed", "", parent.hash, 2)
    assert why in made.notes[0]
    assert len(ran.requests) == 2


def test_no_change_and_no_answer(parent: Harness, tmp_path: Path) -> None:
    same = Ask([text("NO CHANGE")], parent, tmp_path / "a").candidate
    assert (same.outcome, same.hash, same.notes) == ("no_change", parent.hash, ())
    full = Ask([status(400, "maximum context length is 10 tokens")], parent, tmp_path / "b").candidate
    assert full.outcome == "failed"
    assert full.notes[0].startswith("the model did not answer: openai/x: the conversation does not fit")
    with pytest.raises(PermanentError, match="set OPENAI_API_KEY"):
        Ask([status(401, "bad key")], parent, tmp_path / "c")


def test_litellm_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match="editor litellm: model is not set"):
        editors.load("litellm")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(LabError, match="set it in the environment"):
        editors.load("litellm", model="openai/gpt-4o")


def test_search_matches_whole_lines_only_and_exactly_once() -> None:
    files = {"actions.py": TWICE}
    with pytest.raises(ValueError, match="does not occur"):
        apply([Block("actions.py", ("return 2",), ("return 3",))], files)  # inside a line
    found = apply([Block("actions.py", ("    return 2", "", ""), ("    return 3", "", ""))], files)
    assert found["actions.py"] == TWICE.replace("return 2", "return 3", 1)
    assert files == {"actions.py": TWICE}


def test_blocks_apply_in_order_and_an_empty_search_appends() -> None:
    answer = (
        block("skills.py", "", "A = 1\n")
        + block("skills.py", "", "B = 2\n")
        + block("skills.py", "A = 1\n", "A = 3\n")
    )
    assert apply(parse(answer), {}) == {"skills.py": "A = 3\n\n\nB = 2\n"}
    toml = block("harness.toml", "", "[rules]\nloop = false\n")
    assert apply(parse(toml), {})["harness.toml"] == "[rules]\nloop = false\n"
    feed = {"skills.py": 'A = "\x0c\u2028"\nB = 1\n'}
    assert (
        apply([Block("skills.py", ("B = 1",), ("B = 2",))], feed)["skills.py"] == 'A = "\x0c\u2028"\nB = 2\n'
    )
    emptied = block("skills.py", "A = 1\n", "")
    assert apply(parse(emptied), {"skills.py": "A = 1\n"})["skills.py"] == ""


def test_a_refusal_by_blocks_works_in_the_environment(parent: Harness, tmp_path: Path) -> None:
    rule = "from ecdysis_lab.hooks import Allow, Refuse\n\n\ndef check(call, view):\n    if view.read('get_reservation_details', **call.arguments) is None:\n        return Refuse('There is no such reservation.', 'Ask for the id.', rule='known')\n    return Allow()\n"
    made = Ask([text(block("actions.py", OLD, rule))], parent, tmp_path / "c").candidate
    with host(load_harness(made.path)) as desk:
        found = desk.check(tool_call("cancel_reservation", reservation_id="NOSUCH"), 50)
        assert found == Refuse("There is no such reservation.", "Ask for the id.", "known")
        assert desk.check(tool_call("cancel_reservation", **PLAIN), 50) == Allow()
