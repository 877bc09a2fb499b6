"""What goes wrong around a run: a bad network, a limit, a second process. Nothing becomes a failure or a score."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2")

from openai_server import OpenAIServer, Reply, Request, call, raw_call, reset, slow, status, text, truncated
from simlab import bench

from ecdysis_lab.evaluate.experiment import Experiment
from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.rollout import Setup, rollout
from ecdysis_lab.models import Budget, BudgetExceeded, ModelParams, complete
from ecdysis_lab.records import LabError, Trajectory
from ecdysis_lab.store import Store
from ecdysis_lab.store.billing import KeyFile
from ecdysis_lab.train.settings import Settings, configure

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"train_tasks": 6, "test_tasks": 2, "trials": 2, "rounds": 1, "seed": 2, "embedder": "tfidf",
         "arms": "direct,ecdysis", "test_models": "sim/small", "workers": 1}  # fmt: skip


# -- a bad network ------------------------------------------------------------------------------------------------


def model(request: Request) -> Reply:
    """A model that looks up the user it is told about, once, then says good-bye."""
    said = " ".join(str(m["content"]) for m in request.body["messages"] if m["role"] == "user")
    known = [w.strip(".,!") for w in said.split() if w.count("_") == 2]
    if known and not any(m["role"] == "tool" for m in request.body["messages"]):
        return call("get_user_details", user_id=known[0])
    return text("Is there anything else I can help you with?")


class Weather:
    """Three in ten answers come to grief, each kind in its turn; counts them."""

    def __init__(self) -> None:
        self.rng, self.seen = random.Random(4), Counter[str]()

    def __call__(self, request: Request) -> Reply:
        good = model(request)
        if self.rng.random() >= 0.3:
            return good
        kinds: dict[str, Reply] = {
            "429": status(429, "slow down"),
            "500": status(500, "oops"),
            "reset": reset(),
            "slow": slow(good, 0.5),
            "truncated": truncated(good),
            "invalid call": raw_call("get_user_details", '{"user_id": '),
        }
        kind = list(kinds)[self.seen.total() % len(kinds)]
        self.seen[kind] += 1
        return kinds[kind]


def outcomes(server: OpenAIServer, root: Path) -> list[Trajectory]:
    params = ModelParams(api_base=server.url, timeout_seconds=4)
    setup = Setup("tau2/airline", "openai/scripted", params=params)
    tasks = bench().tasks("test", 6, 0)
    return rollout(setup, tasks, load_harness("empty"), [1, 2], Store(root), workers=2)


def test_a_bad_network_changes_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setattr(
        complete, "__kwdefaults__", {**complete.__kwdefaults__, "sleep": lambda seconds: None}
    )
    with OpenAIServer(model) as calm:
        expected = outcomes(calm, tmp_path / "calm")
    weather = Weather()
    with OpenAIServer(weather) as stormy:
        found = outcomes(stormy, tmp_path / "stormy")
    assert set(weather.seen) == {"429", "500", "reset", "slow", "truncated", "invalid call"}
    assert {t.status for t in found} == {"scored"}, "full coverage, and no error is a score"
    assert [(t.trial.task_id, t.trial.seed, t.score) for t in found] == [
        (t.trial.task_id, t.trial.seed, t.score) for t in expected
    ]
    assert [[m.calls for m in t.messages] for t in found] == [[m.calls for m in t.messages] for t in expected]
    assert {t.score for t in expected} == {0.0, 1.0}


# -- limits -------------------------------------------------------------------------------------------------------


def small(**other: Any) -> Settings:
    return configure(**(SMALL | other))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return Experiment(small(), tmp_path_factory.mktemp("whole"), "run").go()


@pytest.mark.parametrize(
    ("name", "limit", "told"),
    [
        ("max_tokens", 200_000, "max_tokens=200000 is used up"),
        ("max_seconds", 0.5, "max_seconds=0.5 is used up"),
    ],
)
def test_each_limit_stops_the_run_and_a_higher_one_goes_on(
    name: str,
    limit: float,
    told: str,
    whole: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(BudgetExceeded, match=told):
        Experiment(small(**{name: limit}), tmp_path, "run").go()
    run = tmp_path / "runs" / "run"
    assert '"interrupted"' in (run / "status.json").read_text()
    finished = {t.key for t in Store(tmp_path).trajectories()}
    ran: list[str] = []  # billed.txt names a trial once, however often it ran
    monkeypatch.setattr(KeyFile, "__call__", lambda self, t: ran.append(t.key) or self.add([t.key]))
    summary = Experiment(small(), tmp_path, "run").go()
    assert ran and not finished & set(ran)
    assert {a: m["sim/small"]["accuracy"] for a, m in summary["arms"].items()} == {
        a: m["sim/small"]["accuracy"] for a, m in whole["arms"].items()
    }


def test_a_limit_in_dollars_stops_within_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    price = {
        "input_cost_per_token": 1e-5,
        "output_cost_per_token": 0.0,
    }  # 100 tokens a call: a tenth of a cent
    store, tasks = Store(tmp_path), bench().tasks("test", 4, 0)
    with OpenAIServer(model) as server:
        params = ModelParams(api_base=server.url, extra=price)
        setup = Setup("tau2/airline", "openai/scripted", params=params)
        with pytest.raises(BudgetExceeded, match=r"max_usd=0.0035 is used up: \$0.004 in 7 calls"):
            rollout(setup, tasks, load_harness("empty"), [1], store, budget=Budget(max_usd=0.0035))
        assert len(server.requests) == 4
        finished = len(store.trajectories())
        found = rollout(setup, tasks, load_harness("empty"), [1], store, budget=Budget(max_usd=1.0))
    assert 0 < finished < 4 and {t.status for t in found} == {"scored"}
    assert len({t.key for t in found}) == 4 == len(store.trajectories())


def test_a_run_that_goes_on_counts_what_it_has_spent(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceeded):
        Experiment(small(max_tokens=200_000), tmp_path, "run").go()
    with pytest.raises(BudgetExceeded, match=r"max_tokens=200000 is used up: 2\d\d\d\d\d tokens"):
        Experiment(small(max_tokens=200_000), tmp_path, "run").go()
    first = Experiment(small(max_tokens=200_000), tmp_path, "run").budget
    assert (
        first is not None and 200_000 <= first.spent.prompt_tokens + first.spent.completion_tokens < 215_000
    )


# -- a second process ---------------------------------------------------------------------------------------------


def test_one_run_has_one_worker(tmp_path: Path) -> None:
    experiment = Experiment(small(), tmp_path, "run")
    code = "import sys; from ecdysis_lab.store import Run\nwith Run(__import__('pathlib').Path(sys.argv[1])).locked():\n    print('in', flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(experiment.run.folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert other.stdout is not None and other.stdout.readline() == "in\n"
    with pytest.raises(LabError, match=rf"run run is being worked on by process {other.pid}; wait for it"):
        experiment.go()
    other.kill()
    other.wait()
    with experiment.run.locked():  # a lock dies with its process
        pass
