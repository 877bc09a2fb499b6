"""Work outside the one model call ends in time and says why: tools, editors, browsers, signals, notebooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2")

from openai_server import OpenAIServer, Reply, Request, call, hang, status, text
from simlab import bench, folder
from simlab import call as tool_call
from simlab import trials as trials_of

from ecdysis_lab.benchmarks import deadline, load_benchmark
from ecdysis_lab.benchmarks.tau2 import env
from ecdysis_lab.cli import commands, main, notebooks
from ecdysis_lab.failures.cards import to_failure
from ecdysis_lab.harness import SHIPPED, Harness, load_harness
from ecdysis_lab.harness.replay import replay
from ecdysis_lab.harness.rollout import Setup, rollout, run_trial
from ecdysis_lab.models import Budget, ModelParams
from ecdysis_lab.models.errors import BudgetExceeded
from ecdysis_lab.records import Change, LabError, Spec, Trajectory, to_json
from ecdysis_lab.review import editors
from ecdysis_lab.review.editors.opencode import TESTED
from ecdysis_lab.show.figures import chrome
from ecdysis_lab.show.widgets.trace import trace_html
from ecdysis_lab.store import Store

EMPTY = SHIPPED / "empty"
ENDLESS = "9**9**9"
LATE = "Error: calculate took longer than 1 s and was stopped"
REWRITE = f'''from ecdysis_lab.hooks import Allow, Rewrite


def check(call, view):
    if call.name == "calculate":
        return Rewrite(arguments={{"expression": "{ENDLESS}"}}, rule="power")
    return Allow()
'''


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setattr(deadline, "TOOL_SECONDS", 1.0)
    monkeypatch.setattr(env, "_stopped", {})


# -- tools of an environment --------------------------------------------------------------------------------------


def computes(expression: str) -> Callable[[Request], Reply]:
    """A model that calculates once and then says good-bye."""

    def reply(request: Request) -> Reply:
        done = any(m["role"] == "tool" for m in request.body["messages"])
        return text("Anything else?") if done else call("calculate", expression=expression)

    return reply


def trials(
    expression: str, harness: Path, tmp_path: Path, workers: int = 1, benchmark: str = "tau2/airline"
) -> list[Trajectory]:
    with OpenAIServer(computes(expression)) as server:
        setup = Setup(benchmark, "openai/x", params=ModelParams(api_base=server.url))
        tasks = load_benchmark(benchmark).tasks("test", 2, 0)
        return rollout(setup, tasks, load_harness(harness), [7], Store(tmp_path / "data"), workers=workers)


def results(trajectory: Trajectory) -> list[tuple[str | None, bool]]:
    return [(m.content, m.error) for m in trajectory.messages if m.role == "tool"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_calculation_without_end_is_an_error_that_the_model_sees(workers: int, tmp_path: Path) -> None:
    began = time.monotonic()
    for left in trials(ENDLESS, EMPTY, tmp_path, workers):
        assert results(left) == [(LATE, True)]
        assert LATE in [m.content for m in left.context]
        assert (left.status, left.termination) == ("scored", "user_stop")
    assert time.monotonic() - began < 60


def test_a_rewrite_into_a_calculation_without_end_is_one_too(tmp_path: Path) -> None:
    harness = folder(tmp_path / "h", actions=REWRITE)
    left = trials("1 + 1", harness.path, tmp_path)[0]
    assert results(left) == [(LATE, True)]
    began = time.monotonic()
    assert replay(left, harness, bench()).calls == 1
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("domain", ["airline", "retail"])
@pytest.mark.parametrize(
    "expression", [ENDLESS, "2**(10**11)", "(9**9**7)**(9**5)", "9**9**9 / 7", "-(9**9**9)"]
)
def test_no_power_hangs_the_environment(domain: str, expression: str) -> None:
    environment, found = bench(domain).environment("0"), []
    asked = tool_call("calculate", expression=expression)
    assert environment.call(asked) == (LATE, True)
    env._stopped.clear()
    thread = threading.Thread(target=lambda: found.append(environment.call(asked)))
    thread.start()
    thread.join(20)
    assert found == [(LATE, True)]
    began = time.monotonic()
    assert environment.call(asked) == (LATE, True), "the evaluator calls everything again"
    assert time.monotonic() - began < 0.9
    assert environment.call(tool_call("calculate", expression="2 ** 10")) == ("1024.0", False)


class Slow:
    """An environment whose tools do not end."""

    shelf = 3

    def call(self, call: Any) -> tuple[str, bool]:
        return self.read(call.name, call.arguments), False

    def read(self, tool: str, arguments: dict[str, Any]) -> str:
        while tool == "loop":
            pass
        if tool == "sleep":
            time.sleep(60)
        return str(9**9**9 if tool == "power" else 7)


@pytest.mark.parametrize("tool", ["loop", "sleep", "power"])
@pytest.mark.parametrize("threaded", [False, True])
def test_any_tool_of_any_benchmark_is_stopped(tool: str, threaded: bool) -> None:
    limited, found = deadline.Limited(Slow(), lambda call: "read"), []

    def work() -> None:
        found.extend([limited.call(tool_call(tool)), limited.read(tool, {}), limited.call(tool_call("fine"))])

    if threaded:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(20)
    else:
        work()
    assert found == [(f"Error: {tool} took longer than 1 s and was stopped", True), None, ("7", False)]
    assert limited.shelf == 3


def test_a_benchmark_of_ones_own_hands_out_limited_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    made = load_benchmark("tests.toy_benchmark:make")
    room = made.environment("lamp")
    monkeypatch.setattr(type(room.bare), "call", lambda self, call: (str(9**9**9), False))
    assert room.call(tool_call("look_up"))[1] is True
    left = run_trial(Setup(made.name, "sim/flawless"), made.tasks("all")[0], EMPTY, 0)
    assert "took longer than 1 s" in str(results(left)[0][0])


# -- OpenCode's surroundings --------------------------------------------------------------------------------------

ACTIONS = "from ecdysis_lab.hooks import Allow\n\n\ndef check(call, view):\n    return Allow()\n"
SPEC = Spec((), (Change("actions", "actions.py", "Look first.", "It slips.", ("0a1b2c3d#4",)),))


def step(*acts: dict[str, Any], reason: str = "tool-calls", tokens: int = 1000) -> list[str]:
    """Event lines of one step, as OpenCode writes them."""
    done = {"type": "step_finish", "part": {"reason": reason, "tokens": {"input": tokens, "output": 0}}}
    used = [
        {"type": "tool_use", "part": {"tool": "read", "state": {"status": "completed", "input": act}}}
        for act in acts
    ]
    return [json.dumps(event) for event in (*used, done)]


@pytest.fixture
def parent(tmp_path: Path) -> Harness:
    return folder(tmp_path / "parent", actions=ACTIONS)


@pytest.fixture
def opencode(tmp_path: Path) -> Callable[..., Any]:
    """Makes an editor whose program is a shell script, or the real one."""

    def make(script: str = "", **options: Any) -> Any:
        path = tmp_path / f"program-{len(list(tmp_path.iterdir()))}"
        path.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo {TESTED}; exit; fi\n{script}\n')
        path.chmod(0o755)
        options = {"model": "m", "api_base": "http://127.0.0.1:9/v1", "timeout_seconds": 30, **options}
        return editors.load("opencode", binary=str(path) if script else "opencode", **options)

    return make


def says(tmp_path: Path, *lines: str, then: str = "") -> str:
    """A script that writes lines, one every tenth of a second."""
    path = tmp_path / "lines"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return f'while IFS= read -r line; do printf "%s\\n" "$line"; sleep 0.1; done < {path}\n{then}'


Opencode = Callable[..., Any]


@pytest.mark.parametrize(
    "limits, price, told, steps",
    [
        ({"max_tokens": 2500}, None, "max_tokens=2500 is used up: 3000 tokens in 3 calls", 3),
        ({"max_usd": 0.0015}, (1e-6, 1e-6), r"max_usd=0.0015 is used up: \$0.002 in 2 calls", 2),
        ({"max_usd": 1.0}, None, "max_usd=1 cannot be kept", 1),
    ],
)
def test_opencode_ends_within_a_step_of_a_limit(
    limits: Any, price: Any, told: str, steps: int, opencode: Opencode, parent: Harness, tmp_path: Path
) -> None:
    budget = Budget(**limits, path=tmp_path / "spent.jsonl")
    lines = [line for n in range(20) for line in step({"filePath": str(n)})]
    editor = opencode(says(tmp_path, *lines, then="sleep 60"), usd_per_token=price, budget=budget)
    with pytest.raises(BudgetExceeded, match=told):
        editor.edit(parent.path, SPEC, tmp_path / "c")
    assert (budget.spent.calls, budget.spent.prompt_tokens) == (steps, 1000 * steps)
    assert not (tmp_path / "c").exists(), "the same command goes on with the same edit"
    assert len((tmp_path / "c.editor.jsonl").read_text().splitlines()) == 2 * steps
    with pytest.raises(BudgetExceeded):
        editor.edit(parent.path, SPEC, tmp_path / "d")
    assert budget.spent.calls == steps, "nothing is asked once the budget is used up"


def test_the_last_step_of_an_edit_is_paid_and_kept(
    opencode: Opencode, parent: Harness, tmp_path: Path
) -> None:
    budget = Budget(max_tokens=500)
    script = f"echo 'x = 1' > contract.py\n{says(tmp_path, *step(reason='stop'))}"
    made = opencode(script, budget=budget).edit(parent.path, SPEC, tmp_path / "c")
    assert (made.outcome, budget.spent.prompt_tokens) == ("edited", 1000)


def test_the_clock_of_the_run_ends_an_edit(opencode: Opencode, parent: Harness, tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(BudgetExceeded, match=r"max_seconds=1\.5 is used up"):
        opencode("sleep 300", budget=Budget(max_seconds=1.5)).edit(parent.path, SPEC, tmp_path / "c")
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    "acts, which",
    [
        ([({"filePath": "actions.py"},)] * 30, r'read {"filePath": "actions.py"}'),
        ([({"filePath": str(n % 2)},) for n in range(30)], r'read {"filePath": "0"}; read {"filePath": "1"}'),
        ([()] * 30, "an empty step"),
    ],
)
def test_a_loop_of_steps_ends_soon_and_the_note_says_which(
    acts: Any, which: str, opencode: Opencode, parent: Harness, tmp_path: Path
) -> None:
    lines = [line for act in acts for line in step(*act)]
    made = opencode(says(tmp_path, *lines, then="sleep 60")).edit(parent.path, SPEC, tmp_path / "c")
    assert (made.outcome, made.hash) == ("failed", parent.hash)
    assert made.usage.calls <= 7
    assert made.notes[0].startswith("opencode: stopped in a loop: 5 steps in a row brought nothing new (")
    assert all(act in made.notes[0] for act in which.split("; "))


def test_reading_again_between_edits_is_no_loop(opencode: Opencode, parent: Harness, tmp_path: Path) -> None:
    lines = [
        line
        for n in range(8)
        for act in ({"filePath": "a"}, {"old": n}, {"filePath": "a"})
        for line in step(act)
    ]
    made = opencode(says(tmp_path, *lines, *step(reason="stop"))).edit(parent.path, SPEC, tmp_path / "c")
    assert (made.outcome, made.notes, made.usage.calls) == ("no_change", (), 25)


def test_no_event_line_breaks_the_edit(opencode: Opencode, parent: Harness, tmp_path: Path) -> None:
    deep = "[" * 10_000 + "]" * 10_000
    odd = [
        "5", "null", '"text"', "[1]", "NaN", "-" * 50, '{"type":', "9" * 5000, f'{{"type": "step_finish", "part": {deep}}}',
        '{"type": "step_finish", "part": "text"}', '{"type": "step_finish", "part": {"tokens": "many"}}',
        '{"type": "step_finish", "part": {"tokens": {"input": "5", "output": -3, "cache": 7, "reasoning": 1e400}}}',
        '{"type": "tool_use", "part": {"tool": 5, "state": "error"}}', '{"type": ["x"], "error": 5}',
        '{"type": "tool_use", "part": {"tool": "\\ud800", "state": {"status": "error", "input": [], '
        '"error": "a rule prevents you from using this"}}}',
        f'{{"type": "step_finish", "part": {{"tokens": {{"input": {"9" * 5000}}}}}}}',
    ]  # fmt: skip
    script = f"echo 'x = 1' > contract.py\n{says(tmp_path, *odd, *step(reason='length'))}"
    made = opencode(script).edit(parent.path, SPEC, tmp_path / "c")
    assert (made.outcome, made.usage.calls, made.usage.prompt_tokens) == ("edited", 3, 1000)
    assert made.notes == (
        "denied: ?",
        "opencode: answers cut off at the model's output limit: 1",
        "opencode: event lines that could not be read: 4",
    )
    assert json.loads(json.dumps(to_json(made))) and "\ud800" not in "".join(made.notes)


def test_an_error_event_without_form_is_the_reason(
    opencode: Opencode, parent: Harness, tmp_path: Path
) -> None:
    made = opencode(says(tmp_path, '{"type": "error", "error": "out of \\ud800 order"}')).edit(
        parent.path, SPEC, tmp_path / "c"
    )
    assert (made.outcome, made.notes) == ("failed", ("opencode: the model did not answer: out of ? order",))


def test_odd_things_in_the_staging_folder_neither_block_nor_leak(
    opencode: Opencode, parent: Harness, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SECRET = 'token'\n")
    script = f"""
rm actions.py SPEC.md; mkfifo actions.py SPEC.md pipe; ln {secret} contract.py; ln {secret} other
truncate -s 2G skills.py; echo 'A = 1' > regulation.py; mkdir -m 0 shut; : > "$(printf 'a\\377b')"
setsid sh -c 'while :; do echo "B = 2" > regulation.py; sleep 0.01; done' >/dev/null 2>&1 &
for n in $(seq 30); do : > stray-$n; done
sleep 0.5"""
    began = time.monotonic()
    made = opencode(script).edit(parent.path, SPEC, tmp_path / "c")
    assert time.monotonic() - began < 60
    assert [p.name for p in made.path.iterdir()] == ["regulation.py"]
    assert "token" not in made.diff
    dropped = "\n".join(made.notes)
    for told in (
        "dropped actions.py: not a plain file",
        "dropped SPEC.md: not a plain file",
        "dropped contract.py: a hard link",
        "dropped skills.py: 2147483648 bytes; at most 1000000 are read",
        "dropped a?b: a harness has only",
        "dropped 17 more paths",
    ):
        assert told in dropped
    kept = (made.path / "regulation.py").read_text()
    time.sleep(0.3)
    assert (made.path / "regulation.py").read_text() == kept
    assert running('echo "B = 2"') == []


def running(mark: str) -> list[int]:
    """Processes that have a text in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                shown = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                found += [int(entry.name)] if mark.encode() in shown else []
        except OSError:
            continue
    return found


KILLED = """
import sys
from pathlib import Path
from ecdysis_lab.records import Change, Spec
from ecdysis_lab.review import editors
binary, url, harness, out = sys.argv[1:]
editor = editors.load("opencode", model="m", api_base=url, binary=binary, timeout_seconds=120)
editor.edit(Path(harness), Spec((), (Change("actions", "actions.py", "x", "", ()),)), Path(out))
"""


def kill_at_work(
    binary: str, url: str, parent: Harness, tmp_path: Path, at_work: Callable[[], bool]
) -> float:
    """Seconds until nothing is left running after the process that edits was killed."""
    (tmp_path / "temporary").mkdir()
    environment = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
    command = [sys.executable, "-c", KILLED, binary, url, str(parent.path), str(tmp_path / "c")]
    process = subprocess.Popen(command, env=environment)
    until = time.monotonic() + 90
    while not at_work() and time.monotonic() < until:
        time.sleep(0.1)
    mark = str(tmp_path / "temporary")
    assert len(running(mark)) > 2, "the program works"
    process.kill()
    process.wait()
    began = time.monotonic()
    while running(mark) and time.monotonic() < began + 10:
        time.sleep(0.05)
    return time.monotonic() - began


def test_nothing_is_left_of_a_killed_run(parent: Harness, tmp_path: Path) -> None:
    program, mark = tmp_path / "program", tmp_path / "mark"
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = --version ]; then echo {TESTED}; exit; fi\n'
        f"setsid sleep 301 & (setsid sh -c 'sleep 302 & sleep 303' &)\ntouch {mark}\nsleep 304\n"
    )
    program.chmod(0o755)
    assert kill_at_work(str(program), "http://127.0.0.1:9/v1", parent, tmp_path, mark.exists) < 5


@pytest.mark.slow
@pytest.mark.needs("opencode")
def test_nothing_is_left_of_a_run_killed_while_the_real_opencode_works(
    parent: Harness, tmp_path: Path
) -> None:
    with OpenAIServer([], hang()) as server:
        took = kill_at_work("opencode", server.url, parent, tmp_path, lambda: bool(server.requests))
    assert took < 5


@pytest.mark.slow
@pytest.mark.needs("opencode")
def test_the_real_opencode_ends_within_a_step_of_max_tokens(
    opencode: Opencode, parent: Harness, tmp_path: Path
) -> None:
    def reads_on(request: Request) -> Reply:
        turn = len(request.body["messages"])
        more = call("glob", pattern=f"*{turn}", path=".") if turn < 60 else text("Done.")
        return replace(
            more, delay_seconds=1.0
        )  # a model takes its time; a step of none is over before it is told

    budget = Budget(max_tokens=250)
    with OpenAIServer(reads_on) as server:
        editor = opencode(api_base=server.url, budget=budget, timeout_seconds=120)
        with pytest.raises(BudgetExceeded, match="max_tokens=250 is used up: 360 tokens in 3 calls"):
            editor.edit(parent.path, SPEC, tmp_path / "c")
    assert len(server.requests) <= 4


@pytest.mark.slow
@pytest.mark.needs("opencode")
@pytest.mark.parametrize(
    "reply, which",
    [
        (call("glob", pattern="*.py"), 'glob {"pattern": "*.py"}'),
        (text("", finish="tool_calls"), "an empty step"),
    ],
)
def test_a_loop_of_the_real_opencode_ends_within_ten_steps(
    reply: Reply, which: str, opencode: Opencode, parent: Harness, tmp_path: Path
) -> None:
    with OpenAIServer([], reply) as server:
        made = opencode(api_base=server.url, timeout_seconds=120).edit(parent.path, SPEC, tmp_path / "c")
    assert len(server.requests) <= 10
    assert which in made.notes[0] and made.outcome == "failed"


# -- edit blocks --------------------------------------------------------------------------------------------------


def test_a_truncated_answer_of_blocks_says_so_and_is_not_applied(parent: Harness, tmp_path: Path) -> None:
    block = "<<<<<<< SEARCH contract.py\n=======\nA = 1\n>>>>>>> REPLACE\n"
    with OpenAIServer([text(block, finish="length"), text(block, finish="length")]) as server:
        made = editors.load("litellm", model="openai/x", api_base=server.url).edit(
            parent.path, SPEC, tmp_path / "c"
        )
    assert (made.outcome, made.hash) == ("failed", parent.hash)
    assert "the answer was cut off at the model's output limit" in made.notes[0]
    assert "cut off" in server.requests[1].body["messages"][-1]["content"]


# -- the browser --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script", ["sleep 300", "sleep 301 & exec sleep 302", "exec cat", "setsid sleep 303 &"]
)
def test_a_browser_that_hangs_ends_with_the_export(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import plotly.graph_objects as go

    fake = tmp_path / "chromium"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("BROWSER_PATH", str(fake))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(chrome, "WAIT_SECONDS", 2.0)
    began = time.monotonic()
    drawn, reason = chrome.images({"one": go.Figure(), "two": go.Figure()})
    assert (drawn, str(fake) in reason) == ({}, True)
    assert time.monotonic() - began < 60
    assert running(f"TMPDIR={tmp_path}") == []


def test_an_interpreter_ends_after_a_browser_that_hangs(tmp_path: Path) -> None:
    fake = tmp_path / "chromium"
    fake.write_text("#!/bin/sh\nsleep 305\n")
    fake.chmod(0o755)
    source = (
        "import plotly.graph_objects as go\nfrom ecdysis_lab.show.figures import chrome\n"
        "chrome.WAIT_SECONDS = 2.0\nprint(chrome.images({'one': go.Figure()})[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], env=os.environ | {"BROWSER_PATH": str(fake)}, timeout=60,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{fake} gave no answer within 2 s\n"


# -- reasons reach the reader -------------------------------------------------------------------------------------


def notebook_error(source: str) -> dict[str, Any]:
    """What IPython shows of a cell that raises."""
    from IPython.core.interactiveshell import InteractiveShell

    shell, shown = InteractiveShell(), []
    shell._showtraceback = lambda kind, value, lines: shown.append((kind.__name__, str(value), lines))
    shell.run_cell(source)
    return dict(zip(("name", "value", "lines"), shown[0], strict=True))


@pytest.mark.parametrize(
    "raised", ["records.LabError", "models.PermanentError", "records.Stopped", "models.BudgetExceeded"]
)
def test_a_mistake_in_a_notebook_is_one_sentence(raised: str) -> None:
    room, _, name = raised.partition(".")
    shown = notebook_error(f"from ecdysis_lab.{room} import {name}\nraise {name}('arm: unknown x')")
    assert shown == {"name": name, "value": "arm: unknown x", "lines": ["ecdysis-lab: arm: unknown x"]}


WORK = """
import sys, time
from ecdysis_lab.store import Run
from ecdysis_lab.store.billing import at_work
with at_work(Run.open(sys.argv[1], "run", {})):
    print("at work", flush=True)
    time.sleep(60)
"""


def test_a_run_that_gets_sigterm_is_interrupted_and_says_so(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WORK, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "at work\n"
    process.terminate()
    _, said = process.communicate(timeout=20)
    assert process.returncode != 0
    assert "Terminated: SIGTERM arrived; the same command continues where it stopped" in said
    status = json.loads((tmp_path / "runs/run/status.json").read_text())
    assert status["state"] == "interrupted" and "SIGTERM" in status["error"]


@pytest.mark.slow
def test_a_demo_that_gets_sigterm_says_so_and_goes_on(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "ecdysis_lab.cli",
        "demo",
        "--smoke",
        "--data",
        str(tmp_path),
        "--run-id",
        "r",
    ]
    command += ["--figures", str(tmp_path / "figures")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    status, until = tmp_path / "runs/r/status.json", time.monotonic() + 120
    while not (status.exists() and "running" in status.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "ecdysis-lab: SIGTERM arrived; the same command continues where it stopped" in said
    assert "Traceback" not in said
    assert json.loads(status.read_text())["state"] == "interrupted"


def test_a_run_that_scores_nothing_ends_with_1_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "run",
        "--benchmark",
        "tau2/airline",
        "--split",
        "test",
        "--tasks",
        "1",
        "--data",
        str(tmp_path),
    ]
    with OpenAIServer([], Reply(content="", usage=(1, 1))) as server:
        user = ["--model", "sim/flawless", "--user-model", "openai/x", "--api-base", server.url]
        assert main([*command, *user]) == 1
    out, said = capsys.readouterr()
    assert said.startswith("ecdysis-lab: no trial could be scored: 1 x the user model gave no usable message")
    assert ": user_fault: the user model gave no usable message" in out
    with OpenAIServer([], status(400, "unknown parameter seed")) as server:
        assert main([*command, "--model", "openai/x", "--api-base", server.url]) == 2
    assert "the server rejected the request (400" in capsys.readouterr().err


def test_a_kernel_that_meets_a_rejected_request_gives_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import papermill
    from papermill.exceptions import PapermillExecutionError

    def fails(*_: Any, **__: Any) -> None:
        raise PapermillExecutionError(0, 1, "go()", "PermanentError", "openai/x: no such key", [])

    monkeypatch.setattr(papermill, "execute_notebook", fails)
    with pytest.raises(LabError, match="openai/x: no such key"):
        notebooks.run("quickstart", {"data": str(tmp_path)})


FULL = "openai/x: the conversation does not fit the model's context window"


def test_the_reason_of_an_outcome_is_in_the_list_on_the_card_and_in_the_reader() -> None:
    left = next(t for t in trials_of("airline", "sim/small", "empty") if not t.success)
    left = replace(left, termination="agent_error", error=FULL)
    assert commands._left(left) == f"{left.trial.task_id} seed 0: {left.score} (agent_error): {FULL}"
    failure = to_failure(left)
    assert failure is not None
    assert failure.card.splitlines()[0] == f"Ended: agent_error ({FULL})"
    head = trace_html(left).partition("</header>")[0]
    assert f"ended by <b>agent_error</b> · because <b>{FULL.replace(chr(39), '&#x27;')}</b>" in head
    quiet = to_failure(replace(left, error=""))
    assert quiet is not None and quiet.card.splitlines()[0] == "Ended: agent_error"
