"""The benchmark seam: a benchmark of a user's, given by a dotted path, runs like a shipped one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.evaluate.experiment import prepare_experiment
from ecdysis_lab.failures.cards import find_failures
from ecdysis_lab.failures.patterns import find_patterns
from ecdysis_lab.harness import check, load_harness
from ecdysis_lab.harness.probe import probe
from ecdysis_lab.harness.replay import replay
from ecdysis_lab.harness.rollout import Setup, rollout, run_trial
from ecdysis_lab.hooks import Call
from ecdysis_lab.models import TransientError
from ecdysis_lab.models.sim import introduce
from ecdysis_lab.models.sim.scene import Scene
from ecdysis_lab.records import LabError, Message, Oracle, Trajectory
from ecdysis_lab.store import Run, Store
from ecdysis_lab.train.leak import facts, leaks
from ecdysis_lab.train.loop import Trainer
from ecdysis_lab.train.settings import configure, fitted

ROOT = Path(__file__).resolve().parents[2]
TOY = "tests.toy_benchmark:make"
SHOP_WORDS = re.compile(
    r"customer|\byes\b|confirm|consent|booking|reservation|\border|no write made|human", re.I
)
EMPTY = load_harness("empty")


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture
def toy() -> Any:
    return load_benchmark(TOY)


@pytest.fixture(scope="module")
def left() -> dict[str, list[Trajectory]]:
    """Trials of two models on all tasks and two seeds, in memory: with their truth."""
    os.chdir(ROOT)
    tasks = load_benchmark(TOY).tasks("all")
    models = ("sim/flawless", "sim/small")
    return {m: [run_trial(Setup(TOY, m), t, EMPTY.path, s) for s in (0, 1) for t in tasks] for m in models}


# -- a solo task ----------------------------------------------------------------------------------------------------


def test_the_gold_turns_score_one(left: Any, toy: Any) -> None:
    assert [(t.status, t.score, t.termination) for t in left["sim/flawless"]] == [
        ("scored", 1.0, "agent_stop")
    ] * 12
    first = left["sim/flawless"][0]
    said = [(m.role, m.content, [c.name for c in m.calls]) for m in first.messages]
    assert said == [
        ("user", "Bring the lamp to shelf 4.", []),
        ("assistant", None, ["look_up"]), ("tool", "LA-10", []),
        ("assistant", None, ["where"]), ("tool", "shelf 1", []),
        ("assistant", None, ["move"]), ("tool", "shelf 4", []),
        ("assistant", "It is moved.", []),
    ]  # fmt: skip
    assert first.trial.user_model == "" and set(first.usage) == {"agent"}


def test_its_own_slips_come_out(left: Any) -> None:
    fatal = {t.truth["fatal"] for t in left["sim/small"] if not t.success}
    assert fatal == {"lower_code", "next_shelf"}
    assert 6 <= sum(t.success is False for t in left["sim/small"]) < 12
    errors = [m.content for t in left["sim/small"] for m in t.messages if m.error]
    assert errors[0] == "Error: where knows nothing like ['la-10']"


def test_cards_and_patterns_speak_no_other_domain(left: Any, toy: Any) -> None:
    failures = find_failures(left["sim/small"], benchmark=toy)
    assert not any(f.dialogue for f in failures)
    assert {f.first_bad_what for f in failures if not f.writes} >= {
        "where: Error: where knows nothing like ['la-10']"
    }
    assert {f.first_bad_what for f in failures if f.writes == ("move",)} == {""}
    patterns = find_patterns(failures, stability=False).patterns
    assert [p.tasks for p in patterns] == [("clock", "lamp", "vase"), ("drum", "ladder")]
    text = "\n".join([*(f.card for f in failures), *(f"{p.name} {p.quote}" for p in patterns)])
    assert SHOP_WORDS.findall(text) == []


def test_replay_under_its_own_harness_changes_nothing(left: Any, toy: Any) -> None:
    for trajectory in left["sim/small"]:
        found = replay(trajectory, EMPTY, toy)
        assert found.unchanged and found.calls == sum(m.role == "tool" for m in trajectory.messages)


def test_a_replay_has_the_step_limit_of_the_trial(toy: Any, tmp_path: Path) -> None:
    source = "def observe(call, result, view):\n    return str(view.steps_left)\n"
    (tmp_path / "regulation.py").write_text(source)
    loaded = load_harness(tmp_path)
    trajectory = run_trial(Setup(TOY, "sim/flawless", max_steps=9), toy.tasks("all")[0], tmp_path, 0)
    assert replay(trajectory, loaded, toy).unchanged
    assert [i.reason for i in trajectory.interventions] == ["7", "5", "3"]


@pytest.mark.parametrize(
    ("limits", "why"), [({"max_steps": 4}, "max_steps"), ({"max_errors": 1}, "too_many_errors")]
)
def test_limits_end_a_trial(toy: Any, limits: dict[str, int], why: str) -> None:
    lamp = toy.tasks("all")[0]
    assert run_trial(replace(Setup(TOY, "sim/small"), **limits), lamp, EMPTY.path, 0).termination == why


def test_an_infrastructure_error_is_no_score(toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*given: Any, **options: Any) -> None:
        raise TransientError("the server is busy")

    monkeypatch.setattr("ecdysis_lab.harness.agent.complete", down)
    trajectory = run_trial(Setup(TOY, "openai/x"), toy.tasks("all")[0], EMPTY.path, 0)
    assert (trajectory.status, trajectory.score, trajectory.error) == (
        "infra_error",
        None,
        "the server is busy",
    )
    assert not Setup(TOY, "openai/x").simulated  # no user is played, so none is simulated


# -- check, gates, the loop -----------------------------------------------------------------------------------------


def test_check_and_probe_take_it(toy: Any, tmp_path: Path) -> None:
    assert check.structure(EMPTY, toy)["probe"] == "ok"
    found = check.flawless(EMPTY, toy, Store(tmp_path / "data"))
    assert (found["tasks"], found["accuracy"], found["refusals"]) == (6, 1.0, 0)
    folder = tmp_path / "h"
    folder.mkdir()
    (folder / "actions.py").write_text("def check(call, view):\n    return view.policy[10 ** 6]\n")
    fault = probe(load_harness(folder), toy, "lamp")
    assert fault is not None and fault.hook == "check"


def test_the_leak_gate_looks_for_what_the_benchmark_names(left: Any, toy: Any) -> None:
    found = facts(left["sim/small"], toy.policy, toy)
    wanted = {"LA-10", "KE-20", "CL-30", "LA-40", "VA-50", "DR-60"}
    assert found == dict.fromkeys(wanted, "code")  # a task id that is an ordinary word is no fact
    assert leaks("+    if code == 'la-10':\n", found) == ["code: LA-10"]
    assert leaks("+    return code.upper()\n", found) == []


def test_the_loop_mends_what_can_be_mended(toy: Any, tmp_path: Path) -> None:
    settings = configure(
        benchmark=TOY, train_tasks=4, trials=1, rounds=2, start="empty", embedder="tfidf", workers=1
    )
    run = Run.open(tmp_path, "toy", settings.model_dump())
    trained = Trainer(settings, "ecdysis", run, Store(tmp_path)).train()
    first = trained.rounds[0]
    assert (first.decision, first.score_before, first.score_after) == ("accepted", 1.0, 3.0)
    assert first.gained == ("clock#0", "lamp#0")
    assert "strip" in trained.harness.files["actions.py"]
    context = (run.folder / "rounds/ecdysis-1/context.md").read_text()
    assert context.startswith("# Setting\nThe agent is for keeping a stock room. Nobody answers it")
    review = (run.folder / "rounds/ecdysis-1/review.json").read_text()
    assert "confirm_before_write" not in review and "unfinished_work" not in review


# -- given by a path ------------------------------------------------------------------------------------------------


def test_workers_find_it_too(toy: Any, tmp_path: Path) -> None:
    made = rollout(Setup(TOY, "sim/flawless"), toy.tasks("all"), EMPTY, [0], Store(tmp_path), workers=2)
    assert [t.score for t in made] == [1.0] * 6


@pytest.mark.parametrize("here", [".", "notebooks/deep"])
def test_a_module_beside_or_above_the_working_directory_is_found(tmp_path: Path, here: str) -> None:
    (tmp_path / "mine.py").write_text(
        "from tests.toy_benchmark import Toy\n\n\ndef make():\n    toy = Toy()\n    toy.name = 'mine:make'\n    return toy\n"
    )
    (tmp_path / here).mkdir(parents=True, exist_ok=True)
    code = "from ecdysis_lab.benchmarks import load_benchmark; print(load_benchmark('mine:make').about)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path / here, capture_output=True, text=True,
                          env=environment)  # fmt: skip
    assert (done.stdout, done.stderr) == ("keeping a stock room\n", "")


def test_a_name_that_no_worker_would_find_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other_name.py").write_text("from tests.toy_benchmark import make\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabError, match="its name must be the path that it is given by, not 'tests"):
        load_benchmark("other_name:make")


# -- what a benchmark may leave out ---------------------------------------------------------------------------------


@pytest.fixture
def bare(toy: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``bare(**attributes)``: the toy under a name of its own, with other attributes."""

    def make(name: str, **other: Any) -> Any:
        changed = type("Changed", (type(toy),), {"name": name, **other})()
        introduce(name, changed)
        monkeypatch.setattr("ecdysis_lab.harness.rollout.load_benchmark", lambda asked: changed)
        return changed

    return make


def test_without_slips_nothing_slips(bare: Any) -> None:
    made = bare("tests.no_slips:make", slips="")
    left = [
        run_trial(Setup(made.name, "sim/small"), t, EMPTY.path, s)
        for s in range(4)
        for t in made.tasks("all")
    ]
    assert {t.truth["fatal"] for t in left} <= {None, "blunder"} and sum(t.success for t in left) > 18


def test_slips_that_are_not_there_are_a_mistake_when_it_is_loaded(bare: Any) -> None:
    with pytest.raises(LabError, match=r"no slips at 'tests\.toy_benchmark:NOSUCH'"):
        bare("tests/wrong_slips", slips="tests.toy_benchmark:NOSUCH")


def test_without_an_oracle_simulated_models_decline(bare: Any) -> None:
    made = bare("tests/no_oracle", oracle=lambda self, task_id: None)
    with pytest.raises(LabError, match="sim/small cannot play tests/no_oracle, which has no oracle"):
        run_trial(Setup(made.name, "sim/small"), made.tasks("all")[0], EMPTY.path, 0)


def test_a_dialogue_asks_before_it_writes_only_where_the_oracle_does(toy: Any) -> None:
    move, look = Call("move", {"code": "LA-10", "shelf": 4}), Call("where", {"code": "LA-10"})
    scene = Scene(
        "x", "t", Oracle(("Hello.", look, "Shall I?", move, "Done.")), toy.effect, "", lambda *a: None
    )
    assert scene.steps == [("", "Hello."), ("", look), ("Shall I?", move)] and scene.answer == "Done."
    ends_with_a_call = Scene("x", "t", Oracle((look, move)), toy.effect, "", lambda *a: None)
    assert ends_with_a_call.steps == [("", look), ("", move)] and ends_with_a_call.answer == ""


def test_facts_of_tau2_come_from_what_is_seen_else_from_the_scenario() -> None:
    pytest.importorskip("tau2")
    bench = load_benchmark("tau2/retail")
    task = next(t for t in bench.tasks("all") if "#W" in t.scenario)
    assert bench.facts(task.id, [Message("user", "It is order #W1234567.")]) == {"W1234567": "order id"}
    named = {fact for fact, kind in bench.facts(task.id).items() if kind == "order id"}
    assert named and all(f"#{fact}" in task.scenario for fact in named)


def test_a_small_benchmark_without_a_harness_by_hand_gets_settings_that_it_can_keep(toy: Any) -> None:
    settings, notes = fitted(configure(benchmark=TOY))
    kept = (settings.train_tasks, settings.test_tasks, settings.start, settings.arms)
    assert kept == (4, 2, "empty", ("direct", "ecdysis", "ecdysis-quarter"))
    assert len(notes) == 4 and notes[0] == f"train_tasks: all 4 that {TOY} has"
    chosen = configure(benchmark=TOY, train_tasks=5, test_tasks=1, arms="human", start="nosuch")
    assert fitted(chosen) == (chosen, ())
    tau2 = configure(benchmark="tau2/airline")
    assert fitted(tau2) == (tau2, ())


def test_smoke_is_said_and_takes_what_there_is(tmp_path: Path) -> None:
    experiment = prepare_experiment({"benchmark": TOY}, tmp_path, small=True)
    s = experiment.settings
    assert (s.train_tasks, s.test_tasks, s.trials, s.rounds) == (4, 2, 1, 1)
    assert "smoke: at most 4 training and 2 test tasks, 1 trial, 1 round" in experiment.notes
