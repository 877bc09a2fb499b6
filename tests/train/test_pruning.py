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
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Candidate, GateResult, Trajectory, Trial
from ecdysis_lab.train import gates
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


def pruned(tmp_path: Path, needs_check: bool = False) -> tuple[Judging, GateResult]:
    child = tmp_path / "candidate-0"
    copy_harness(load_harness("empty"), child)
    (child / "actions.py").write_text(SOURCE)
    loaded, parent = load_harness(child), load_harness("empty")

    def run(harness: Harness, what: str, ids: set[str], seeds: Sequence[int] | None) -> list[Trajectory]:
        text = harness.files.get("actions.py", "")
        made = trials(text, harness.hash)
        broken = needs_check and "def check" not in text
        return [replace(t, score=0.0) if broken and t.trial.task_id == "4" else t for t in made]

    candidate = Candidate(child, loaded.hash, parent.hash, "diff", "test", "edited")
    before = trials("", parent.hash)
    made = Judging(candidate, parent, before, bench(), run, reuse=False, pruned=tmp_path / "candidate-2")
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
