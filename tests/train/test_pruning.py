"""Pruning: what adds nothing goes, what wins trials stays with its numbers, and what others need is not separable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2")

from simlab import bench

from ecdysis_lab.harness import copy_harness, load_harness
from ecdysis_lab.harness.replay import Difference, Replay
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Candidate, GateResult, Intervention, Trajectory, Trial
from ecdysis_lab.train import gates
from ecdysis_lab.train.judge import judged_of
from ecdysis_lab.train.judging import Judging
from ecdysis_lab.train.pruning import pieces_of, without

SOURCE = """from ecdysis_lab.hooks import Allow

WINS = "two tasks"

PASSENGER = "nothing"


def check(call, view):
    return Allow()
"""


def trials(text: str, harness: str) -> list[Trajectory]:
    """WINS wins tasks 1 and 2 and loses task 3; every character of the harness is shown."""
    wins = "WINS" in text
    scores = {"1": wins, "2": wins, "3": not wins, "4": True}
    return [
        Trajectory(
            Trial("tau2/airline", "1", task, "train", "m", "u", harness, 0), "scored", float(score), "user_stop", {}, (),
            harness_tokens=len(text) // 4,
        )
        for task, score in scores.items()
    ]  # fmt: skip


def pruned(
    tmp_path: Path, needs_check: bool = False, breaks: str = "", by_replay: bool = False, source: str = SOURCE
) -> tuple[Judging, GateResult]:
    """The candidate after pruning; without the text ``breaks`` a hook breaks in a trial of task 1."""
    child = tmp_path / "candidate-0"
    copy_harness(load_harness("empty"), child)
    (child / "actions.py").write_text(source)
    loaded, parent = load_harness(child), load_harness("empty")

    def run(harness: Harness, what: str, ids: set[str], seeds: Sequence[int] | None) -> list[Trajectory]:
        text = harness.files.get("actions.py", "")
        made = [t for t in trials(text, harness.hash) if t.trial.task_id in ids]
        broken = needs_check and "def check" not in text
        faulty = [Intervention(0, "check", "fault", "x", "x")] if breaks and breaks not in text else []
        made = [replace(t, interventions=tuple(faulty)) if t.trial.task_id == "1" else t for t in made]
        return [replace(t, score=0.0) if broken and t.trial.task_id == "4" else t for t in made]

    candidate = Candidate(child, loaded.hash, parent.hash, "diff", "test", "edited")
    before = trials("", parent.hash)
    made = Judging(candidate, parent, before, bench(), run, reuse=False, pruned=tmp_path / "candidate-2",
                   by_replay=by_replay)  # fmt: skip
    return made, gates.prune(made)


def outcomes(result: GateResult) -> dict[str, Any]:
    return {change["change"]: change["outcome"] for change in result.numbers["changes"]}


def test_a_passenger_goes_and_a_contributor_stays_with_its_numbers(tmp_path: Path) -> None:
    made, result = pruned(tmp_path)
    assert outcomes(result) == {
        "from ecdysis_lab.hooks import Allow": "left out",  # once nothing needs it any more
        'WINS = "two tasks"': "kept",
        'PASSENGER = "nothing"': "left out",
        "def check(call, view):": "left out",
    }
    (kept,) = [c for c in result.numbers["changes"] if c["outcome"] == "kept"]
    assert (kept["gain"], kept["lost"], kept["refused_legal"]) == (1.0, 1, 0)
    assert 4 <= kept["tokens"] <= 6, "21 characters"
    assert result.reason == "3 of 4 changes add nothing and went, which leaves the score at 3"
    assert made.child.files == {**made.parent.files, "actions.py": 'WINS = "two tasks"\n\n'}
    assert made.candidate.path == tmp_path / "candidate-2" and made.candidate.hash == made.child.hash
    assert "+WINS" in made.candidate.diff and "PASSENGER" not in made.candidate.diff
    assert result.numbers["pruned_from"] == load_harness(tmp_path / "candidate-0").hash
    assert {t.trial.harness for t in made.after} == {made.child.hash} and made.comparison.after == 3.0
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == [], "what was tried is gone"


def test_what_others_need_is_not_separable(tmp_path: Path) -> None:
    _, result = pruned(tmp_path, needs_check=True)
    assert outcomes(result)["from ecdysis_lab.hooks import Allow"] == "not separable"
    assert outcomes(result)["def check(call, view):"] == "kept"


RARE = '''"""Written once, read by people."""

import re

from ecdysis_lab.hooks import Allow

# what a reader wants to know
WINS = "two tasks"


def check(call, view):
    if call.name == "never_called":
        return re.sub("a", "b", WINS)
    return Allow()
'''


def test_an_import_that_a_rare_branch_needs_stays_and_so_do_words(tmp_path: Path) -> None:
    """No trial of the training tasks meets the branch; one of the test split may."""
    made, result = pruned(tmp_path, needs_check=True, source=RARE)
    assert outcomes(result) == {
        "import re": "not separable",
        "from ecdysis_lab.hooks import Allow": "not separable",
        'WINS = "two tasks"': "not separable",
        "def check(call, view):": "kept",
    }
    assert made.child.files["actions.py"] == RARE


def test_what_breaks_in_a_trial_without_a_change_does_not_go_into_force(tmp_path: Path) -> None:
    made, result = pruned(tmp_path, breaks="PASSENGER")
    assert outcomes(result)['PASSENGER = "nothing"'] == "kept"
    (kept,) = [c for c in result.numbers["changes"] if c["change"].startswith("PASSENGER")]
    assert (kept["gain"], kept["faults"]) == (0.0, 1)
    assert "PASSENGER" in made.child.files["actions.py"] and not any(t.faults for t in made.after)


@pytest.mark.parametrize("found", ["differences", "faults"])
def test_what_refuses_a_legal_act_without_a_change_does_not_go_into_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    one: Any = {
        "differences": Difference(3, "refused", "act", "rule", "no"),
        "faults": Intervention(3, "check", "fault", "x", "x"),
    }

    def replayed(trajectory: Trajectory, harness: Harness, bench: Any) -> Replay:
        bad = "PASSENGER" not in harness.files.get("actions.py", "")
        clean = Replay(trajectory.key, 1, (), False, ())
        return replace(clean, **{found: (one[found],)}) if bad else clean

    monkeypatch.setattr("ecdysis_lab.train.pruning.replay", replayed)
    made, result = pruned(tmp_path)
    assert outcomes(result)['PASSENGER = "nothing"'] == "not separable"
    assert "PASSENGER" in made.child.files["actions.py"]


def test_of_noisy_trials_only_what_no_replay_shows_the_model_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change but the passenger is seen on task 3; nothing is run again, and no lucky sample is picked."""

    def replayed(trajectory: Trajectory, harness: Harness, bench: Any) -> Replay:
        text = harness.files.get("actions.py", "")
        same = all(word in text for word in ("import", "WINS", "check")) or trajectory.trial.task_id != "3"
        return Replay(trajectory.key, 1, (), same, ())

    monkeypatch.setattr("ecdysis_lab.train.judging.replay", replayed)
    made, result = pruned(tmp_path, by_replay=True)
    assert sorted(outcomes(result).values()) == ["kept", "kept", "left out", "not separable"]
    assert [c.get("tasks") for c in result.numbers["changes"] if c["outcome"] == "kept"] == [1, 1]
    assert "PASSENGER" not in made.child.files["actions.py"]
    assert all(t.reused_from and t.trial.harness == made.child.hash for t in made.after)


def test_the_whole_candidate_and_the_pruned_one_are_recorded_apart() -> None:
    results = [GateResult(n, "passed") for n in ("static", "legal", "improvement", gates.PRUNE, "confirm")]
    whole, last = judged_of(results, "whole", "pruned")
    assert (whole.candidate, [g.name for g in whole.gates]) == ("whole", ["static", "legal", "improvement"])
    assert (last.candidate, [g.name for g in last.gates]) == ("pruned", ["prune", "confirm"])
    (same,) = judged_of(results, "whole", "whole")
    assert len(same.gates) == 5


def test_confirmation_judges_what_pruning_left() -> None:
    names = [gate.name for gate in gates.GATES]
    assert names.index(gates.PRUNE) < names.index("confirm")


def test_one_change_is_not_left_out(tmp_path: Path) -> None:
    made, _ = pruned(tmp_path)
    one = Judging(made.candidate, made.parent, made.before, made.bench, made.run, pruned=tmp_path / "x")
    one.__dict__["rerun"] = made.rerun
    assert gates.prune(one).outcome == "passed" and len(gates.prune(one).numbers["changes"]) == 1
    one.pruned = None
    assert gates.prune(one).outcome == "skipped"


def test_pieces_join_to_both_sides() -> None:
    parent = {"actions.py": "a = 1\nb = 2\n", "skills.py": "x = 1\n"}
    child = {"actions.py": "a = 1\nb = 3\n\nc = 4\n\nd = 5\n", "contract.py": "y = 1\n"}
    pieces = pieces_of(parent, child)
    changed = {i for i, piece in enumerate(pieces) if piece.changed}
    assert without(pieces, set()) == child
    assert without(pieces, changed) == parent
    (first,) = [i for i in changed if pieces[i].new == ("y = 1\n",)]
    assert without(pieces, {first}).keys() == {"actions.py"}, "a new file that is left out is none"
