"""Only a frozen harness meets the test split; runs over seeds are pooled; collected trajectories can be read again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ecdysis_lab.cli import notebooks
from ecdysis_lab.evaluate.evaluation import Evaluation, prepare_evaluation
from ecdysis_lab.evaluate.frozen import check_frozen, find_frozen, training_of
from ecdysis_lab.evaluate.scores import read_scores
from ecdysis_lab.harness import SHIPPED, copy_harness, load_harness
from ecdysis_lab.records import LabError, RoundRecord, Usage
from ecdysis_lab.store import Run

SMALL: dict[str, Any] = {"benchmark": "tau2/airline", "test_tasks": 2, "trials": 3, "workers": 1}


def variant(run: Run, word: str) -> str:
    """A harness of its own in the run folder; returns its hash."""
    draft = run.path(f"draft-{word}/skills.py")
    draft.write_text(f'def brief(opening, policy):\n    return "{word}"\n')
    loaded = load_harness(draft.parent)
    copy_harness(loaded, run.harness_path(loaded.hash))
    return loaded.hash


@pytest.fixture
def trained(tmp_path):
    """A finished training: round 1 accepted, round 2 rejected; and the hashes of start, kept and rejected."""
    run = Run.open(
        tmp_path, "r1", {"benchmark": "tau2/airline", "model": "sim/medium", "train_tasks": 4, "trials": 2}
    )
    start, kept, lost = (variant(run, w) for w in ("start", "kept", "lost"))
    for n, decision, candidate in ((1, "accepted", kept), (2, "rejected", lost)):
        record = RoundRecord(
            n, 5, 2, 1, 2, decision, "improvement", "it rises", 3.0, 4.0, (), (), 1, kept, candidate,
            {"review": 2.0 * n}, Usage(calls=2, prompt_tokens=10),
        )  # fmt: skip
        run.append_ledger({"arm": "ecdysis", **asdict(record)})
        run.round("ecdysis", n).record = record
    run.freeze("ecdysis", kept)
    return run, start, kept, lost


def test_the_last_accepted_harness_is_frozen(trained, tmp_path):
    run, _, kept, _ = trained
    assert check_frozen(run, "ecdysis").hash == kept
    assert check_frozen(run, "ecdysis", load_harness(run.harness_path(kept))).hash == kept
    found = find_frozen("r1:ecdysis", tmp_path, "tau2/airline")
    assert (found.arm, found.harness.hash, found.config["model"]) == ("ecdysis", kept, "sim/medium")
    by_folder = find_frozen(str(run.harness_path(kept)), tmp_path, "tau2/airline")
    assert (by_folder.arm, by_folder.harness.hash) == ("ecdysis", kept)
    assert training_of(found)["phase_seconds"] == {"review": 6.0}
    assert [r["round"] for r in training_of(found)["rounds"]] == [1, 2]
    assert (training_of(found)["n_trials"], training_of(found)["prompt_tokens"]) == (8, 20)


def test_nothing_accepted_freezes_the_start(tmp_path):
    run = Run.open(tmp_path, "r2", {"benchmark": "tau2/airline"})
    start, lost = variant(run, "start"), variant(run, "lost")
    run.append_ledger(
        {"arm": "ecdysis", "round": 1, "decision": "rejected", "harness": start, "candidate": lost}
    )
    run.freeze("ecdysis", start)
    assert check_frozen(run, "ecdysis").hash == start


def test_whatever_is_not_frozen_is_refused_with_the_reason(trained, tmp_path):
    run, start, kept, lost = trained
    with pytest.raises(LabError, match=r"is not frozen: it is an earlier or rejected candidate; .* accepted"):
        find_frozen(str(run.harness_path(lost)), tmp_path, "tau2/airline")
    with pytest.raises(LabError, match="is not frozen: it is no harness of this training"):
        check_frozen(run, "ecdysis", load_harness(run.harness_path(start)))
    with pytest.raises(LabError, match="trained no arm 'human'; it trained ecdysis"):
        find_frozen("r1:human", tmp_path, "tau2/airline")
    with pytest.raises(LabError, match="is not frozen: it lies in no run"):
        find_frozen(str(SHIPPED / "retail"), tmp_path, "tau2/airline")
    with pytest.raises(LabError, match=r"'r9:ecdysis' is no RUN:ARM, .*direct, human; runs: r1"):
        find_frozen("r9:ecdysis", tmp_path, "tau2/airline")
    with pytest.raises(
        LabError, match="benchmark: ecdysis of run r1 was trained on tau2/airline, not tau2/retail"
    ):
        find_frozen("r1:ecdysis", tmp_path, "tau2/retail")
    (run.harness_path(kept) / "skills.py").write_text("# edited by hand\n")
    with pytest.raises(LabError, match="have changed since training"):
        check_frozen(run, "ecdysis")


def test_a_training_that_has_not_ended_is_refused(trained, tmp_path):
    run = trained[0]
    (run.folder / "frozen-ecdysis.json").unlink()
    with pytest.raises(LabError, match=r"has not ended \(2 rounds so far\)"):
        find_frozen("r1:ecdysis", tmp_path, "tau2/airline")


def test_wrong_parameters_of_an_evaluation_are_refused_before_anything_runs(trained, tmp_path):
    with pytest.raises(LabError, match="harness: name at least one"):
        prepare_evaluation("", "direct", "", tmp_path, SMALL)
    with pytest.raises(LabError, match="baselines: unknown 'ecdysis'; choose one of direct, human"):
        prepare_evaluation("r1:ecdysis", "ecdysis", "", tmp_path, SMALL)
    with pytest.raises(LabError, match="sim/tiny"):
        prepare_evaluation("r1:ecdysis", "", "sim/tiny", tmp_path, SMALL)
    config, found = prepare_evaluation("r1:ecdysis", "direct,human", "", tmp_path, SMALL)
    assert [f.arm for f in found] == ["direct", "human", "ecdysis"] and config.model == "sim/medium"
    assert config.models == ("sim/medium", "sim/small", "sim/large")
    assert prepare_evaluation("r1:ecdysis", "", "sim/large", tmp_path, SMALL)[0].models == ("sim/large",)


def test_evaluation_leaves_a_summary_like_an_experiment_s(trained, tmp_path):
    pytest.importorskip("tau2")
    config, found = prepare_evaluation("r1:ecdysis", "direct", "sim/large,sim/small", tmp_path, SMALL)
    summary = Evaluation(config, found, tmp_path).go()
    assert list(summary["arms"]) == ["direct", "ecdysis"]
    assert list(summary["arms"]["ecdysis"]) == ["sim/large", "sim/small"]
    cell = summary["arms"]["ecdysis"]["sim/large"]
    assert (cell["n_tasks"], cell["n_trials"], cell["paired_trials"]) == (2, 6, 6)
    assert cell["prompt_tokens"] > 0 and cell["trial_seconds"] > 0
    assert len(read_scores(Run(tmp_path / "runs" / summary["run_id"]))) == 2 * 2 * 6
    assert summary["harness"]["ecdysis"] == trained[2] and summary["trained_by"] == {"ecdysis": "r1"}
    assert summary["training"]["ecdysis"]["wall_seconds"] == 6.0 and summary["train_model"] == "sim/medium"
    again = Evaluation(config, found, tmp_path)
    paid = set(again.billing.keys)
    assert again.go()["arms"] == summary["arms"] and again.billing.keys == paid != set()
    status = json.loads((again.run.folder / "status.json").read_text())
    assert status["state"] == "done"


@pytest.mark.slow
def test_collected_trajectories_feed_patterns(tmp_path):
    pytest.importorskip("tau2")
    from ecdysis_lab.evaluate import collecting
    from ecdysis_lab.show import tables, widgets

    given = {"benchmark": "tau2/airline", "model": "sim/small", "trials": 2, "workers": 1}
    with pytest.raises(LabError, match="split: unknown 'dev'; choose one of train, test, all"):
        collecting.prepare_collection(given, "dev", "empty", 3, tmp_path)
    work = collecting.prepare_collection(given, "train", "empty", 3, tmp_path)
    found = work.go()
    assert len(found) == 6 and work.folder.name == "collect-tau2-airline-train-sim-small-empty-seed0-3x2"
    table = tables.tasks_table(found)
    assert table["trials"].tolist() == [2, 2, 2]
    assert table["successes"].sum() == sum(t.success for t in found)
    source = widgets.open_source(work.folder.name, tmp_path)
    assert {f.key for f in source.failures} == {t.key for t in found if not t.success}


@pytest.mark.slow
def test_the_notebooks_run_by_papermill(trained, tmp_path, capfd):
    pytest.importorskip("tau2")
    common = {"data": str(tmp_path), "benchmark": "tau2/airline", "workers": 1, "smoke": True}
    out = tmp_path / "out.ipynb"
    mine = {**common, "harness": "r1:ecdysis", "models": "sim/small", "figures": str(tmp_path / "figures")}
    assert notebooks.run("evaluate", mine, out) == 0
    told = capfd.readouterr().out
    assert "SIMULATED" in told and "against" in told
    assert list((tmp_path / "figures").glob("test-*/gains.html"))
    assert notebooks.run("collect", {**common, "split": "train"}, out) == 0
    assert list(Path(tmp_path).glob("imports/collect-*/import.json"))
    with pytest.raises(LabError, match=r"unknown parameter .harnes. of evaluate.ipynb; choose from harness"):
        notebooks.run("evaluate", {"harnes": "x"}, out)
