"""Learning from recorded trials: the split, what is counted on the other half, resume, and what a user gets wrong."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.cli import notebooks
from ecdysis_lab.cli.parser import main
from ecdysis_lab.evaluate.learn import Learning, prepare_learning, split_by_task
from ecdysis_lab.evaluate.metrics import cluster_interval
from ecdysis_lab.evaluate.stopped import stopped
from ecdysis_lab.failures.importing import import_traces
from ecdysis_lab.harness import Harness, load_harness
from ecdysis_lab.models import Waiting
from ecdysis_lab.records import Candidate, Change, LabError, Review, Spec, Usage
from ecdysis_lab.review.debate import Reviewer
from ecdysis_lab.review.editors import staging
from ecdysis_lab.show import figures as draw
from ecdysis_lab.show import learned, rounds
from ecdysis_lab.store import Run
from ecdysis_lab.train.recorded import NOT_RUN

TOY = "tests.toy_benchmark:make"
CODES = {
    "lamp": "LA-10",
    "kettle": "KE-20",
    "clock": "CL-30",
    "ladder": "LA-40",
    "vase": "VA-50",
    "drum": "DR-60",
}
GUARD = """
from ecdysis_lab.hooks import Allow, Refuse, Rewrite


def check(call, view):
    if call.name == "move" and call.arguments["shelf"] > 6:
        return Refuse("Shelf 6 is the last one.", "Choose a lower shelf.", rule="last_shelf")
    if call.name == "move" and call.arguments["shelf"] == 6:
        return Rewrite(arguments={**call.arguments, "shelf": 5}, rule="one_lower")
    return Allow()
"""
SPEC = Spec(("P0",), (Change("actions", "actions.py", "guard the shelves", "", ("a#1",)),))


def trial(task: str, score: float, *moves: tuple[str, int], seed: int = 0) -> dict[str, Any]:
    """One recorded trial: calls of ``move`` as (code, shelf)."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Bring the {task} to its shelf."}]
    for n, (code, shelf) in enumerate(moves):
        asked = {"name": "move", "arguments": json.dumps({"code": code, "shelf": shelf})}
        call = {"id": f"c{n}", "type": "function", "function": asked}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append(
            {"role": "tool", "tool_call_id": f"c{n}", "name": "move", "content": f"shelf {shelf}"}
        )
    messages.append({"role": "assistant", "content": "It is moved."})
    return {"task_id": task, "seed": seed, "model": "maker/one", "score": score, "messages": messages}


def trace(folder: Path, *trials: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "traces.jsonl"
    path.write_text("".join(json.dumps(t) + "\n" for t in trials))
    return path


def six_tasks(folder: Path) -> Path:
    """Two trials a task; all tasks but clock and drum fail once, on shelf 9."""
    made = []
    for task, code in CODES.items():
        good = task in ("clock", "drum")
        made.append(trial(task, float(good), (code, 2 if good else 9)))
        made.append(trial(task, 1.0, (code, 3), seed=1))
    return trace(folder, *made)


class Guarding:
    """An editor that adds ``GUARD``; it counts its calls, and stops at the one in ``stop_at``."""

    name, calls, stop_at = "guarding", 0, 0

    def edit(
        self,
        harness: Path,
        spec: Spec,
        out: Path,
        feedback: str = "",
        evidence: Mapping[str, str] | None = None,
    ) -> Candidate:
        Guarding.calls += 1
        if Guarding.calls == Guarding.stop_at:
            raise Waiting([out.parent / "001-editor.answer.md"])
        parent = load_harness(harness)
        raw = staging.raw_files(parent) | ({"actions.py": GUARD.encode()} if GUARD else {})
        return staging.candidate(parent, staging.Edit(raw, Usage(), ()), out, self.name)


@pytest.fixture(autouse=True)
def reviewed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Every review asks for one change; the arms' reviews are counted."""
    asked = Counter[str]()

    def review(self: Reviewer, context: Any) -> Review:
        asked[type(self).__name__] += 1
        return Review("spec", SPEC, (), Usage(1, 10, 5, None))

    monkeypatch.setattr(Reviewer, "review", review)
    monkeypatch.setattr("ecdysis_lab.train.one_by_one.Alone.review", review)
    Guarding.calls = Guarding.stop_at = 0
    return asked


def prepared(tmp_path: Path, traces: Path | str = "", **other: Any) -> Learning:
    given = {"benchmark": TOY, "editor": f"{__name__}:Guarding", "embedder": "tfidf"}
    own = {
        k: other.pop(k)
        for k in ("arms", "split", "alone", "model", "run_id", "small", "progress")
        if k in other
    }
    return prepare_learning(
        given | other, str(traces or six_tasks(tmp_path / "in")), tmp_path / "data", **own
    )


def guard(tmp_path: Path, **files: str) -> Harness:
    tmp_path.mkdir(parents=True, exist_ok=True)
    for name, source in (files or {"actions": GUARD}).items():
        (tmp_path / f"{name}.py").write_text(source)
    return load_harness(tmp_path)


# ---- what is counted


def test_each_trial_counts_once_by_group_and_rule(tmp_path: Path) -> None:
    path = trace(
        tmp_path / "in",
        trial("lamp", 0.0, ("LA-10", 9), ("LA-10", 8), ("LA-10", 6)),  # two refused, one rewritten: one trial
        trial("lamp", 0.0, ("ZZ-99", 9), seed=1),  # refused, but the environment rejected it as well
        trial("kettle", 0.0, ("KE-20", 2)),
        trial("clock", 1.0, ("CL-30", 9)),  # an act that ran, refused
        trial("clock", 1.0, ("CL-30", 6), seed=1),  # an act that ran, rewritten
        trial("vase", 1.0, ("ZZ-99", 9)),  # the environment rejected it itself
        trial("drum", 1.0, ("DR-60", 2)),
    )
    found = stopped(guard(tmp_path / "h"), load_benchmark(TOY), import_traces(path).trajectories)
    failing, passing = found["failing"], found["passing"]
    assert (failing["trials"], failing["tasks"], failing["touched"], failing["executed"]) == (3, 2, 2, 1)
    assert failing["by_rule"] == {"last_shelf": 1, "one_lower": 1}  # trials, of acts that ran
    assert failing["touched_ci95"] == cluster_interval([0, 2], [1, 2])  # kettle, lamp
    assert failing["executed_ci95"] == cluster_interval([0, 1], [1, 2])
    assert (passing["trials"], passing["tasks"], passing["touched"]) == (4, 3, 2)
    assert (passing["refused_legal"], passing["altered"]) == (1, 1)
    assert passing["by_rule"] == {"last_shelf": 1, "one_lower": 1}
    assert passing["refused_legal_ci95"] == cluster_interval([1, 0, 0], [2, 1, 1])
    assert (failing["other_text"], failing["broken"]) == (0, 0)


def test_acts_and_replies_are_told_apart(tmp_path: Path) -> None:
    talk = """
from ecdysis_lab.hooks import Allow, Refuse


def on_reply(text, view):
    return Refuse("Say where.", "Name the shelf.", rule="name_shelf") if "moved" in text else Allow()
"""
    both = guard(tmp_path / "h", actions=GUARD, regulation=talk)
    path = trace(
        tmp_path / "in",
        trial("lamp", 0.0, ("LA-10", 9), ("LA-10", 8)),
        trial(
            "kettle", 0.0, ("ZZ-99", 9)
        ),  # the environment rejected the act, so that its reply alone counts
        trial("clock", 1.0, ("CL-30", 2)),
    )
    found = stopped(both, load_benchmark(TOY), import_traces(path).trajectories)
    failing, passing = found["failing"], found["passing"]
    assert (failing["executed"], failing["acts"], failing["replies"]) == (2, 1, 2)
    assert (passing["touched"], passing["refused_legal"], passing["acts"], passing["replies"]) == (1, 1, 0, 1)
    assert failing["by_rule"] == {"name_shelf": 2, "last_shelf": 1} and passing["by_rule"] == {
        "name_shelf": 1
    }


def test_text_is_counted_apart_and_touches_no_act(tmp_path: Path) -> None:
    path = six_tasks(tmp_path / "in")
    skills = guard(tmp_path / "s", skills="def brief(opening, policy):\n    return 'Read the task twice.'\n")
    note = "def observe(call, result, view):\n    return 'Look again.' if call.arguments['shelf'] > 6 else None\n"
    noting = guard(tmp_path / "n", regulation=note)
    trials = import_traces(path).trajectories
    for harness, texts in ((skills, (4, 8)), (noting, (4, 0))):
        found = stopped(harness, load_benchmark(TOY), trials)
        assert [found[group]["touched"] for group in ("failing", "passing")] == [0, 0]
        assert (found["failing"]["other_text"], found["passing"]["other_text"]) == texts


def test_a_hook_that_breaks_is_counted(tmp_path: Path) -> None:
    broken = guard(tmp_path / "b", actions="def check(call, view):\n    return call.arguments['nothing']\n")
    found = stopped(broken, load_benchmark(TOY), import_traces(six_tasks(tmp_path / "in")).trajectories)
    assert (found["failing"]["broken"], found["passing"]["broken"]) == (4, 8)


def test_without_a_trial_there_is_no_interval() -> None:
    found = stopped(load_harness("empty"), load_benchmark(TOY), [])
    assert found["failing"]["touched_ci95"] is None and found["passing"]["refused_legal_ci95"] is None


# ---- the split


def test_the_halves_share_no_task_and_depend_on_the_seed(tmp_path: Path) -> None:
    trials = import_traces(six_tasks(tmp_path)).trajectories
    tasks = [{t.trial.task_id for t in split_by_task(trials, 0.5, seed).training} for seed in (0, 0, 1, 2, 3)]
    assert tasks[0] == tasks[1] and len({frozenset(t) for t in tasks}) > 1
    for share, n in ((0.5, 3), (0.01, 1), (0.99, 5)):  # both halves get a task
        halves = split_by_task(trials, share, 0)
        training, other = ({t.trial.task_id for t in half} for half in (halves.training, halves.other))
        assert (len(training), len(other)) == (n, 6 - n) and not training & other
        assert len(halves.training) + len(halves.other) == 12


# ---- learning


def test_learning_counts_the_other_half_only_and_says_what_it_is(tmp_path: Path) -> None:
    learning = prepared(tmp_path)
    found = learning.go()
    arm = found["arms"]["ecdysis"]
    other = {t.trial.task_id for t in learning.halves.other}
    failing = sorted(other - {"clock", "drum"})
    assert found["split"] == {
        "seed": 0, "share": 0.5, "training_tasks": 3, "training_trials": 6, "training_failing": 4 - len(failing),
        "other_tasks": 3, "other_trials": 6, "other_failing": len(failing),
    }  # fmt: skip
    assert arm["failing"]["trials"] == arm["failing"]["touched"] == len(failing)
    assert arm["failing"]["by_rule"] == {"last_shelf": len(failing)}
    assert (arm["passing"]["trials"], arm["passing"]["touched"]) == (6 - len(failing), 0)
    assert found["empty"]["failing"]["touched"] == 0 and found["human"] is None  # the toy has none by hand
    assert (arm["decision"], arm["gate"], arm["start"], arm["changed"]) == (
        "accepted",
        "legal",
        "empty",
        True,
    )
    assert load_harness(learning.run.folder / arm["candidate"]).hash == arm["harness"]
    assert (arm["candidate"], arm["counted"]) == (f"harness/{arm['harness']}", "candidate")
    assert (arm["reviewer"], arm["failures"]) == ("sim/reviewer", found["split"]["training_failing"])
    assert "not yet a success" in found["says"] and NOT_RUN in arm["reason"]
    assert found["models"] == ("maker/one",) and found["prompt_tokens"] == 10 and found["cost_usd"] is None
    assert json.loads(json.dumps(found)) == Run(learning.run.folder).learned


def test_only_gates_without_trials_judge_and_the_others_say_why_not(tmp_path: Path) -> None:
    learning = prepared(tmp_path)
    learning.go()
    record = learning.run.round("ecdysis", 1).record
    assert record and len(record.candidates) == 1
    outcomes = {(g.name, g.outcome) for g in record.candidates[0].gates}
    assert {(n, "passed") for n in ("static", "probe", "leak", "legal")} <= outcomes
    assert {n for n, outcome in outcomes if outcome == "skipped"} >= {"coverage", "improvement", "confirm"}
    assert {g.reason for g in record.candidates[0].gates if g.outcome == "skipped"} == {NOT_RUN}
    text = rounds.text(rounds.told(learning.run))
    assert "ACCEPTED, last gate legal" in text and "a stopped act is not yet a success" in " ".join(
        text.split()
    )


def test_a_candidate_that_stops_a_legal_act_of_the_training_half_is_rejected(tmp_path: Path) -> None:
    made = [trial(task, 0.0, (code, 9)) for task, code in CODES.items()]
    made += [trial(task, 1.0, (code, 7), seed=1) for task, code in CODES.items()]
    learning = prepared(tmp_path, trace(tmp_path / "in", *made))
    arm = learning.go()["arms"]["ecdysis"]
    assert (arm["decision"], arm["gate"], arm["changed"]) == ("rejected", "legal", False)
    rejected = load_harness(learning.run.folder / arm["candidate"])
    assert (
        rejected.files["actions.py"] == GUARD and Run(learning.run.folder).frozen("ecdysis") != rejected.hash
    )
    assert (arm["counted"], arm["harness"]) == ("candidate", rejected.hash)  # the row is what was rejected
    assert arm["failing"]["executed"] == arm["passing"]["touched"] == 3
    found = learning.run.learned or {}
    assert list(learned.stopped_table(found)["harness"]) == ["empty", "ecdysis (rejected)"]
    assert "ecdysis: rejected; " in learned.text(found) and "its row counts the candidate" in learned.text(
        found
    )
    assert "ecdysis (rejected)" in set(learned.rules_table(found)["harness"])
    assert (
        "<br>(rejected)<br>3 failures" in learned.plots(found)[0]["stopped_acts"][0].layout.yaxis.ticktext[1]
    )


@pytest.mark.parametrize(
    ("source", "decision", "candidate", "label"),
    [
        ("", "no_change", "", "ecdysis (no edit: the start harness)"),
        ("import os\n", "rejected", "rounds/ecdysis-1/candidate-1", "ecdysis (rejected and not run: the start harness)"),
    ],
)  # fmt: skip
def test_without_a_candidate_that_may_run_the_row_is_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, decision: str, candidate: str, label: str
) -> None:
    monkeypatch.setattr(f"{__name__}.GUARD", source)
    found = prepared(tmp_path).go()
    arm = found["arms"]["ecdysis"]
    assert (arm["decision"], arm["counted"], arm["candidate"]) == (decision, "start", candidate)
    assert arm["harness"] == load_harness("empty").hash and arm["failing"]["executed"] == 0
    assert list(learned.stopped_table(found)["harness"]) == ["empty", label]


def test_an_arm_that_nobody_reviewed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(
        "ecdysis_lab.train.loop.Reviewer.review", lambda *a: Review("spec", SPEC, (), Usage())
    )
    Guarding.calls = Guarding.stop_at = 0
    found = prepared(tmp_path, arms="ecdysis-no-fdcr").go()
    assert found["arms"]["ecdysis-no-fdcr"]["reviewer"] == "" and "review model none" in learned.title(found)
    assert list(learned.stopped_table(found)["reviewed by"]) == ["–", "nobody"]
    label = learned.plots(found)[0]["stopped_acts"][0].layout.yaxis.ticktext[1]
    assert label.endswith(f"{found['arms']['ecdysis-no-fdcr']['failures']} failures, no review")


def test_auto_is_recorded_as_the_editor_it_stands_for_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepared(tmp_path, editor="auto")
    assert first.run.config["editor"] == first.editor == "rules"
    monkeypatch.setattr(
        "ecdysis_lab.review.editors.chosen", lambda name, *_: "hand" if name == "auto" else name
    )
    again = prepared(tmp_path, editor="auto")
    assert again.run.folder == first.run.folder and again.editor == "rules"
    assert again.go()["editor"] == "rules"


def test_what_is_expected_is_told_by_arm(tmp_path: Path) -> None:
    given = {"arms": "ecdysis,ecdysis-no-fdcr,self-evolution", "split": 0.9, "alone": 2}
    learning = prepared(tmp_path, **given)
    n = len([t for t in learning.halves.training if not t.success])
    assert n > 2 and learning.expected == (
        f"expected: ecdysis (failures {n}, review calls 7, editor calls 1), ecdysis-no-fdcr (failures {n}, review "
        "calls 0, editor calls 1), self-evolution (failures 2, review calls 0, editor calls 2); editor "
        f"{__name__}:Guarding; no call of the agent"
    )


def test_a_run_that_was_moved_has_its_pages(tmp_path: Path) -> None:
    run = prepared(tmp_path).run
    prepared(tmp_path).go()
    moved = run.folder.rename(tmp_path / "elsewhere")
    assert "last_shelf" in learned.write_pages(Run(moved))["ecdysis"].read_text()


def test_an_arm_that_hands_over_each_failure_sees_a_draw_of_them(
    tmp_path: Path, reviewed: Counter[str]
) -> None:
    found = prepared(tmp_path, arms="self-evolution", split=0.9, alone=2).go()
    assert found["split"]["training_failing"] > 2
    arm = found["arms"]["self-evolution"]
    assert reviewed["Alone"] <= 2 and arm["failures"] == 2
    assert "pass@k" in arm["says"] and found["arms"].keys() == {"self-evolution"}


def test_every_arm_goes_as_far_as_it_can_before_the_run_waits(tmp_path: Path, reviewed: Counter[str]) -> None:
    Guarding.stop_at = 1
    with pytest.raises(Waiting, match=r"^waiting for 1 answer in .*/ecdysis-no-fdcr-1: 001-editor"):
        prepared(tmp_path, arms="ecdysis-no-fdcr,ecdysis").go()
    run = Run(next((tmp_path / "data" / "runs").iterdir()))
    assert Guarding.calls == 2 and run.status["state"] == "interrupted" and run.learned is None
    assert run.round("ecdysis", 1).record and not run.round("ecdysis-no-fdcr", 1).record
    learning = prepared(tmp_path, arms="ecdysis-no-fdcr,ecdysis")
    found = learning.go()
    assert learning.run.folder == run.folder and run.status["state"] == "done"
    assert Guarding.calls == 3  # the finished arm is read back
    assert {a: v["decision"] for a, v in found["arms"].items()} == dict.fromkeys(
        ("ecdysis-no-fdcr", "ecdysis"), "accepted"
    )


def test_arms_wait_for_answers_by_hand_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()  # the real reviewers
    places = ["--data", str(tmp_path / "data"), "--figures", str(tmp_path / "figures"), "--run-id", "by-hand"]
    asked = ["learn", str(six_tasks(tmp_path / "in")), "--benchmark", TOY, "--embedder", "tfidf", "--json",
             "--review-model", "hand", "--editor", "hand", "--arms", "ecdysis,self-evolution", *places]  # fmt: skip
    assert main(asked) == 2
    told, run = capsys.readouterr().err, Run(tmp_path / "data" / "runs" / "by-hand")
    assert told.count("\n") == 1 and "waiting for 2 answers" in told
    assert sorted(p.parent.name for p in run.folder.glob("hand/*/001-*.prompt.md")) == [
        "ecdysis", "self-evolution",
    ]  # fmt: skip
    assert run.status["state"] == "interrupted"
    texts = "".join(p.read_text() for p in run.folder.glob("hand/*/*.prompt.md"))
    halves = split_by_task(import_traces(tmp_path / "in").trajectories, 0.5, 0)
    shown = {task: f"Bring the {task} " in texts for task in CODES}
    assert not any(shown[t.trial.task_id] for t in halves.other)  # the other half is nobody's evidence
    assert any(shown[t.trial.task_id] for t in halves.training)
    for path in run.folder.glob("hand/ecdysis/*.prompt.md"):  # one arm is answered, the other goes on waiting
        path.with_name(path.name.replace(".prompt.", ".answer.")).write_text("P0: the shelves are guessed.")
    assert main(asked) == 2
    names = capsys.readouterr().err
    assert "ecdysis/002-" in names and "self-evolution/001-" in names


def test_the_same_command_gives_the_same_result_and_asks_nobody_again(
    tmp_path: Path, reviewed: Counter[str]
) -> None:
    first = prepared(tmp_path).go()
    asked = dict(reviewed)
    again = prepared(tmp_path)
    assert again.go() == first and dict(reviewed) == asked and Guarding.calls == 1
    other = prepared(tmp_path, seed=1, split=0.3)
    assert other.run.folder != again.run.folder


def test_a_run_that_is_stopped_anywhere_goes_on(tmp_path: Path, reviewed: Counter[str]) -> None:
    def stop(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    whole = prepared(tmp_path / "whole", six_tasks(tmp_path / "in")).go()
    reviewed.clear()
    learning = prepared(tmp_path, tmp_path / "in" / "traces.jsonl", progress=stop)
    with pytest.raises(KeyboardInterrupt):
        learning.go()
    assert learning.run.status["state"] == "interrupted" and learning.run.learned is None
    assert prepared(tmp_path, tmp_path / "in" / "traces.jsonl").go() == whole
    assert reviewed == {"Reviewer": 1}


def test_one_model_at_a_time_for_an_arm_that_hands_over_each_failure(tmp_path: Path) -> None:
    made = [trial(task, 0.0, (code, 9)) for task, code in CODES.items()]
    made += [{**t, "model": "maker/two"} for t in made]
    path = trace(tmp_path / "in", *made)
    with pytest.raises(
        LabError, match=r"traces: 2 trials of task \w+ with seed 0 \(models maker/one, maker/two\)"
    ):
        prepared(tmp_path, path, arms="ecdysis,self-evolution")
    assert prepared(tmp_path, path, arms="ecdysis").recording.models == ("maker/one", "maker/two")


def test_who_acted_may_be_named_where_the_traces_do_not_tell(tmp_path: Path) -> None:
    nameless = [{**trial(task, 0.0, (code, 9)), "model": ""} for task, code in CODES.items()]
    path = trace(tmp_path / "in", *nameless)
    assert prepared(tmp_path, path).recording.models == ("unknown",)
    learning = prepared(tmp_path, path, model="maker/three")
    assert learning.recording.models == ("maker/three",) and learning.settings.model == "maker/three"
    assert prepared(tmp_path, six_tasks(tmp_path / "told"), model="maker/three").recording.models == (
        "maker/one",
    )


def test_an_import_is_a_source_by_its_name_and_the_newest_by_default(tmp_path: Path) -> None:
    path = six_tasks(tmp_path / "in")
    assert main(["import", str(path), "--benchmark", TOY, "--data", str(tmp_path / "data"), "--json"]) == 0
    named = prepared(tmp_path, "traces")
    newest = prepare_learning(
        {"benchmark": TOY, "editor": f"{__name__}:Guarding", "embedder": "tfidf"}, "", tmp_path / "data"
    )
    assert named.run.folder == newest.run.folder == prepared(tmp_path, path).run.folder
    assert named.recording.told == {
        "name": "traces",
        "trials": 12,
        "left_out": 0,
        "mark": named.recording.mark,
    }


# ---- what a user gets wrong


@pytest.mark.parametrize(
    ("trials", "given", "says"),
    [
        ([], {}, "no known format found"),
        ([trial("lamp", 0.0, ("LA-10", 9)), trial("lamp", 1.0, seed=1)], {}, "of 1 task only (lamp); two are needed"),
        ([trial(t, 1.0, (c, 2)) for t, c in CODES.items()], {}, "no failing trial among the 3 on the training tasks"),
        ([trial("sofa", 0.0), trial("lamp", 1.0)], {}, f"1 of 2 tasks in them are not of {TOY} (sofa)"),
        (None, {"benchmark": "tau2/airlines"}, "benchmark: unknown 'tau2/airlines'; choose one of"),
        (None, {"split": 1.0}, "split: must be between 0 and 1, got 1"),
        (None, {"alone": 0}, "alone: must be at least 1, got 0"),
        (None, {"arms": "human"}, "arm: 'human' is not trained; choose one of"),
        (None, {"editor": "sed"}, "editor: unknown 'sed'; choose one of"),
        (None, {"review_model": "sim/nobody"}, "nobody"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_and_leaves_no_run(
    tmp_path: Path, trials: list[Any] | None, given: dict[str, Any], says: str
) -> None:
    path = six_tasks(tmp_path / "in") if trials is None else trace(tmp_path / "in", *trials)
    with pytest.raises(LabError) as told:
        prepared(tmp_path, path, **given)
    assert says in str(told.value) and "\n" not in str(told.value)
    assert not (tmp_path / "data" / "runs").exists()


def test_traces_of_another_benchmark_are_told_by_their_tools(tmp_path: Path) -> None:
    strange = trial("lamp", 0.0)
    strange["messages"][1:1] = [
        {
            "role": "assistant", "content": None,
            "tool_calls": [{"id": f"s{n}", "type": "function", "function": {"name": name, "arguments": "{}"}}],
        }
        for n, name in enumerate(("cancel_order", "get_order", "move"))
    ]  # fmt: skip
    path = trace(tmp_path / "in", strange, trial("kettle", 1.0))
    with pytest.raises(LabError, match=r"2 of 3 tools in them are not of .* \(cancel_order, get_order\)"):
        prepared(tmp_path, path)


# ---- what a person sees


def test_the_command_prints_json_and_writes_pages_and_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ecdysis_lab.show.figures.export.images", lambda figures: ({}, "no Chrome is wanted"))
    places = ["--data", str(tmp_path / "data"), "--figures", str(tmp_path / "figures")]
    asked = ["learn", str(six_tasks(tmp_path / "in")), "--benchmark", TOY, "--editor", f"{__name__}:Guarding",
             "--embedder", "tfidf", "--split", "0.5", *places]  # fmt: skip
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    folder = tmp_path / "data" / "runs" / found["run_id"]
    page = (folder / "diff-ecdysis.html").read_text()
    assert "last_shelf" in page and "not yet a success" in page and "<script" not in page
    made = {p.suffix for p in (tmp_path / "figures" / found["run_id"]).iterdir()}
    assert {".html", ".csv"} <= made
    assert main(asked) == 0
    text = capsys.readouterr().out
    assert "A stopped act is not yet a success" in text and "trials by rule:" in text and "last_shelf" in text
    assert text.startswith("expected: ecdysis ")
    assert "no PNG and SVG: no Chrome is wanted" in text
    assert main(["show", found["run_id"], "--data", str(tmp_path / "data")]) == 0
    shown = capsys.readouterr().out
    assert "guard the shelves" in shown and "not spent" not in shown
    assert "failing: act that ran, or reply, stopped" in shown and "trials by rule:" in shown
    assert main(["show", found["run_id"], "--data", str(tmp_path / "data"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["learned"] == found
    Guarding.stop_at = 2
    assert main([*asked, "--seed", "1"]) == 2
    assert capsys.readouterr().err.startswith("ecdysis-lab: waiting for 1 answer in ")


def test_figure_and_tables_hold_every_harness(tmp_path: Path) -> None:
    found = prepared(tmp_path).go()
    frame = learned.stopped_frame(found)
    assert list(frame["arm"]) == ["direct", "direct", "ecdysis", "ecdysis"]
    assert list(frame["reviewer"]) == ["", "", "sim/reviewer", "sim/reviewer"]
    figure = draw.stamp(learned.plots(found)[0]["stopped_acts"][0], learned.plots(found)[1])
    texts = " ".join([figure.layout.title.text, *(a.text for a in figure.layout.annotations)])
    texts = texts.replace("<br>", " ")
    arm = found["arms"]["ecdysis"]["failing"]
    assert "not yet a success" in texts and "not yet harm" in texts and "SIMULATED" in texts
    assert "arms start from empty" in figure.layout.title.subtitle.text
    assert f"<b>{arm['touched']}</b> of {arm['trials']}" in texts
    table = learned.stopped_table(found)
    assert list(table["harness"]) == ["empty", "ecdysis"] and list(table["decision"]) == ["–", "accepted"]
    rules = learned.rules_table(found)
    assert rules.to_dict("records") == [
        {"harness": "ecdysis", "rule": "last_shelf", "failing trials": arm["executed"], "passing trials": 0}
    ]


@pytest.mark.slow
def test_the_notebook_learns_and_shows_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "none"))
    given = {"traces": str(six_tasks(tmp_path / "in")), "benchmark": TOY, "embedder": "tfidf", "smoke": True}
    places = {"data": str(tmp_path / "data"), "figures": str(tmp_path / "figures")}
    assert notebooks.run("logs", {**given, **places}, tmp_path / "out.ipynb") == 0
    outputs = [
        o for c in json.loads((tmp_path / "out.ipynb").read_text())["cells"] for o in c.get("outputs", [])
    ]
    said = "".join("".join(o.get("text", "")) for o in outputs)
    assert "SIMULATED" in said and "A stopped act is not yet a success" in said
    (run,) = (tmp_path / "data" / "runs").glob("learn-*")
    assert Run(run).status["state"] == "done" and (run / "diff-ecdysis.html").is_file()
    assert (tmp_path / "figures" / run.name / "stopped_acts.csv").is_file()


def test_a_run_without_a_result_has_no_pages(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="has no result of recorded trials"):
        learned.write_pages(Run.open(tmp_path, "empty", {}))
