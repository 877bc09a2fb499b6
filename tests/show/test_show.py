"""``ecdysis-lab show``: what each round saw, proposed and decided, from what the rounds recorded."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("tau2")

from trainlab import Lab

from ecdysis_lab.cli import parser
from ecdysis_lab.harness import SHIPPED, copy_harness, diff_harness, load_harness
from ecdysis_lab.records import Candidate, GateResult, Review, Spec, Usage
from ecdysis_lab.review.debate import Reviewer
from ecdysis_lab.show import rounds
from ecdysis_lab.show.widgets.gates_view import gates_table
from ecdysis_lab.store import Run, Store
from ecdysis_lab.train import gates
from ecdysis_lab.train.judging import Judging

BREAKS = """PATH = {path!r}


def observe(call, result, view):
    if [done.call.name for done in view.done] == PATH:
        return 1 / 0
    return None
"""


class Breaking:
    """Edits first to the hand-written actions, then so that a hook breaks in a failing trial only."""

    name = "breaking"
    root: ClassVar[Path]

    def edit(
        self, folder: Path, spec: Spec, out: Path, feedback: str = "", evidence: Any = None
    ) -> Candidate:
        parent = load_harness(folder)
        copy_harness(parent, out)
        if "actions.py" not in parent.files:
            # Without an empty line it is one change, and pruning runs no trials to leave out parts of it.
            source = (SHIPPED / "airline" / "actions.py").read_text()
            (out / "actions.py").write_text(re.sub(r"\n{2,}", "\n", source))
        else:
            (out / "regulation.py").write_text(BREAKS.format(path=self._path(parent.hash)))
        child = load_harness(out)
        return Candidate(out, child.hash, parent.hash, diff_harness(parent, child), self.name, "edited")

    def _path(self, harness: str) -> list[str]:
        """Names of the first calls of a failing trial, which no passing trial begins with."""
        paths: dict[bool, set[tuple[str, ...]]] = {True: set(), False: set()}
        for t in Store(self.root).trajectories(harness=harness, split="train"):
            names = [m.name for m in t.messages if m.role == "tool"]
            paths[t.success] |= {tuple(names[:n]) for n in range(1, len(names) + 1)}
        return list(min(paths[False] - paths[True], key=lambda path: (len(path), path)))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A run with an accepted, a rejected (by the probe, after the rerun) and a ``no_spec`` round."""
    asked, review = [], Reviewer.review

    def at_last_nothing(self: Reviewer, context: Any) -> Review:
        asked.append(context)
        return (
            review(self, context)
            if len(asked) < 3
            else Review("no_spec", None, (), Usage(), "nothing usable")
        )

    lab = Lab(tmp_path_factory.mktemp("shown"), rounds=3, editor=f"{__name__}:Breaking")
    Breaking.root = lab.root
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reviewer, "review", at_last_nothing)
        lab.train()
    return lab


def show(lab: Lab, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert parser.main(["show", *words, "--data", str(lab.root)]) == 0
    return capsys.readouterr().out


def test_the_data_say_what_happened(shown: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(show(shown, capsys, "run", "--json"))
    one, two, three = found["rounds"]
    assert [(r["decision"], r["gate"]) for r in found["rounds"]] == [
        ("accepted", "improvement"), ("rejected", "probe"), ("no_spec", ""),
    ]  # fmt: skip
    assert [g["outcome"] for g in one["candidates"][0]["gates"]] == ["passed"] * 8 + ["skipped"]
    (candidate,) = two["candidates"]
    ran = [(g["name"], g["outcome"]) for g in candidate["gates"]]
    assert ran == [(n, "passed") for n in ("static", "probe", "leak", "legal", "coverage")] + [
        ("probe", "rejected")
    ]
    assert candidate["gates"][-1]["numbers"]["faults"] > 0 < candidate["gates"][3]["numbers"]["replays"]
    assert two["lacked"].startswith("no hook breaks in a trial (probe): a hook broke in ")
    assert (
        two["told"].startswith("REJECTED by probe: a hook broke in ") and "ZeroDivisionError" in two["told"]
    )
    assert two["record"]["score_after"] is not None
    assert three["told"].startswith("NO_SPEC: no spec: nothing usable. Training score ")
    assert (three["candidates"], three["lacked"], three["proposed"]["changes"]) == ([], "", [])
    failures, patterns, subset = shown.run.round("ecdysis", 1).evidence()
    saw = one["saw"]
    assert (saw["failures"], len(saw["patterns"]), len(saw["picks"])) == (
        len(failures), len(patterns.patterns), len(subset.picks),
    )  # fmt: skip
    assert sum(p["picked"] for p in saw["patterns"]) == sum(p["pattern"] >= 0 for p in saw["picks"])
    assert [c["what"] for c in one["proposed"]["changes"]]


def test_the_text_says_the_same_within_a_terminal(shown: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    text = show(shown, capsys, str(shown.run.folder))
    for part in (
        "ecdysis, round 1",
        "ACCEPTED, last gate improvement: training score rises",
        "patterns:",
        "proposed:",
    ):
        assert part in text
    second = show(shown, capsys, "run", "--round", "2", "--arm", "ecdysis")
    assert "ecdysis, round 1" not in second and "lacked: no hook breaks in a trial (probe)" in second
    table = second.partition("gates of candidate")[2].splitlines()[1:8]
    assert [line.split()[0] for line in table] == [
        "gate", "static", "probe", "leak", "legal", "coverage", "probe",
    ]  # fmt: skip
    assert "NO_SPEC: no spec: nothing usable" in show(shown, capsys, "run", "--round", "3")
    assert max(len(line) for line in text.splitlines()) <= rounds.WIDTH
    assert "before 11, after 14, gained 3, lost 0, tasks up 2, tasks down 0, sign test p 0.5, " in text


def test_an_unknown_run_round_or_arm_is_told_with_the_choices(
    shown: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--data", str(shown.root)]
    for words, told in (
        (["nosuch"], f"run: 'nosuch' is no run in {shown.root / 'runs'}; runs: run"),
        (["run", "--round", "7"], "run run has no round 7; it has ecdysis-1, ecdysis-2, ecdysis-3"),
        (["run", "--arm", "human"], "run run has no arm human; it has ecdysis-1"),
    ):
        assert parser.main(["show", *words, *data]) == 2
        assert told in capsys.readouterr().err


def test_a_round_in_the_making_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    run = Run.open(tmp_path, "r", {})
    run.round("ecdysis", 1).save_debate({"turns": []})
    (found,) = rounds.told(run)["rounds"]
    assert (found["decision"], found["told"]) == (None, "The round is not finished.")
    text = rounds.text(rounds.told(run))
    assert "The round is not finished." in text and "not spent" not in text, "its config names no budget"


def test_the_list_of_runs(shown: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(shown, capsys).split()[:2] == ["run", "state"]
    (listed,) = rounds.runs(shown.root)
    assert (listed["run"], listed["rounds"], listed["cost_usd"]) == ("run", {"ecdysis": 3}, None)
    run = Run.open(tmp_path, "tested", {"arms": ["direct", "ecdysis"], "model": "m"})
    run.write_status("done")
    run.summary = {
        "train_model": "m", "simulated": True, "cost_usd": 1.234, "billed_usd": 1.0,
        "arms": {"direct": {"m": {"accuracy": 0.25}}, "ecdysis": {"m": {"accuracy": 0.5}}},
    }  # fmt: skip
    lines = [line.split() for line in rounds.runs_text(rounds.runs(tmp_path)).splitlines()]
    assert lines[1:] == [["tested", "done", "m", "direct", "25.0", "1.23"], ["ecdysis", "50.0"]]
    assert rounds.runs_text(rounds.runs(tmp_path / "none")) == "no runs yet"


def test_edits_one_by_one_are_shown_each(shown: Lab, tmp_path: Path) -> None:
    lab = Lab(tmp_path, shown, rounds=1, arm="self-evolution-verified", editor="rules")
    lab.train()
    (found,) = rounds.told(lab.run)["rounds"]
    assert found["gate"] == "" and found["told"].startswith("ACCEPTED: each failure alone: ")
    text = rounds.text(rounds.told(lab.run))
    for i, edit in enumerate(found["edits"], 1):
        by = f" by {edit['gate']}" if edit["gate"] else ""
        assert f"edit {i}, task {edit['task']}: {edit['decision']}{by}: " in text
    judged = [e for e in found["edits"] if e["gates"]]
    assert judged and all(bool(e["lacked"]) is (e["decision"] == "rejected") for e in judged)


# -- a gate of one's own --------------------------------------------------------------------------------------------


def short(judging: Judging) -> GateResult:
    added = judging.candidate.diff.count("\n+")
    return gates.passed(added=added) if added < 2000 else gates.rejected("the edit is too long", added=added)


def test_a_new_gate_is_a_function_and_a_row(
    shown: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = gates.Gate("short", "the edit is short", short)
    monkeypatch.setattr(gates, "GATES", [toy, *gates.GATES])
    lab = Lab(tmp_path, shown, rounds=1, editor=f"{__name__}:Breaking")
    (record,) = lab.train().rounds
    added = record.candidates[0].gates[0].numbers["added"]
    assert (record.candidates[0].gates[0].name, added > 100) == ("short", True)
    first = gates_table(lab.run, "ecdysis", 1).iloc[0]
    assert (first["gate"], first["asks"], first["told"]) == ("short", "the edit is short", f"added {added}")
    assert "short" in rounds.text(rounds.told(lab.run)).partition("gates of candidate")[2].splitlines()[2]
    strict = replace(toy, check=lambda judging: gates.rejected("too long"))
    monkeypatch.setattr(gates, "GATES", [strict, *gates.GATES[1:]])
    refused = Lab(tmp_path / "strict", shown, rounds=1, editor=f"{__name__}:Breaking")
    (record,) = refused.train().rounds
    assert (record.decision, record.gate, record.editor_calls) == ("rejected", "short", 2)
    assert len(record.candidates) == 2
