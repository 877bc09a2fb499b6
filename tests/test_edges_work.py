"""Work outside the one model call ends in time and says why: tools, editors, browsers, signals, notebooks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2")

from openai_server import OpenAIServer, Reply, Request, call, text
from simlab import bench, folder
from simlab import call as tool_call

from ecdysis_lab.benchmarks import deadline, load_benchmark
from ecdysis_lab.benchmarks.tau2 import env
from ecdysis_lab.harness import SHIPPED, load_harness
from ecdysis_lab.harness.replay import replay
from ecdysis_lab.harness.rollout import Setup, rollout, run_trial
from ecdysis_lab.models import ModelParams
from ecdysis_lab.records import Trajectory
from ecdysis_lab.store import Store

EMPTY = SHIPPED / "empty"
ENDLESS = "9**9**9"
LATE = "Error: calculate took longer than 0.5 s and was stopped"
REWRITE = f'''from ecdysis_lab.hooks import Allow, Rewrite


def check(call, view):
    if call.name == "calculate":
        return Rewrite(arguments={{"expression": "{ENDLESS}"}}, rule="power")
    return Allow()
'''


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setattr(deadline, "TOOL_SECONDS", 0.5)
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
    assert time.monotonic() - began < 30


def test_a_rewrite_into_a_calculation_without_end_is_one_too(tmp_path: Path) -> None:
    harness = folder(tmp_path / "h", actions=REWRITE)
    left = trials("1 + 1", harness.path, tmp_path)[0]
    assert results(left) == [(LATE, True)]
    began = time.monotonic()
    assert replay(left, harness, bench()).calls == 1
    assert time.monotonic() - began < 10


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
    assert time.monotonic() - began < 0.1
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
    assert found == [(f"Error: {tool} took longer than 0.5 s and was stopped", True), None, ("7", False)]
    assert limited.shelf == 3


def test_a_benchmark_of_ones_own_hands_out_limited_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    made = load_benchmark("tests.toy_benchmark:make")
    room = made.environment("lamp")
    monkeypatch.setattr(type(room.bare), "call", lambda self, call: (str(9**9**9), False))
    assert room.call(tool_call("look_up"))[1] is True
    left = run_trial(Setup(made.name, "sim/flawless"), made.tasks("all")[0], EMPTY, 0)
    assert "took longer than 0.5 s" in str(results(left)[0][0])
