"""Model-specific or not: each rule decides for its own reason; labels survive the round trip; κ where it is defined."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2")

from trainlab import Lab

from ecdysis_lab.evaluate.accommodation import (
    Facts,
    Judgement,
    chance,
    decide,
    joint_patterns,
    judgements_table,
    ratio,
    seen_on,
)
from ecdysis_lab.evaluate.accommodation_facts import judgements_of
from ecdysis_lab.evaluate.agreement import (
    DEFECT,
    QUIRK,
    UNSURE,
    Label,
    agreement,
    cohen,
    read_labels,
    write_labels,
)
from ecdysis_lab.records import LAYER_FILES, Failure, LabError, Pattern, Patterns, Trajectory, Trial


def facts(**other: Any) -> Facts:
    """A pattern over three tasks that another model shows too, with a trigger that nobody replayed."""
    base = {"model": "a", "pattern": "P0 (form)", "tasks": 3, "seen": {"a": (5, 20), "b": (2, 10)}}
    return Facts(**(base | other))


# -- the rules ------------------------------------------------------------------------------------------------------


NOWHERE = {"a": (5, 20), "b": (0, 10), "c": (0, 4)}


@pytest.mark.parametrize(
    "known, specific, told",
    [
        ({}, False, ("it recurs on b 2 of 10 failures", "its trigger was not replayed")),
        ({"seen": NOWHERE}, True, ("it recurs on no other model at hand: b 0 of 10, c 0 of 4 failures",)),
        # Grouping may miss a shared cause; the same remedy acting on another model's failures does not.
        ({"seen": NOWHERE, "fired": {"a": (4, 20), "b": (1, 10)}}, False,
         ("its trigger fires on other models too: a 4 of 20, b 1 of 10 replayed failures",)),
        # The pattern looks alike elsewhere, and yet the remedy never acts there.
        ({"fired": {"a": (6, 20), "b": (0, 20)}}, True,
         ("its trigger fires on a only: a 6 of 20, b 0 of 20 replayed failures (p 0.01)",)),
        # One hit in twenty against none in twenty is a coin toss.
        ({"fired": {"a": (1, 20), "b": (0, 20)}}, False,
         ("its trigger fires on a only: a 1 of 20, b 0 of 20 replayed failures "
          "(p 0.5, which few traces would show by accident)",)),
        ({"fired": {"a": (0, 20), "b": (0, 20)}}, False,
         ("its trigger fires on no trace: a 0 of 20, b 0 of 20 replayed failures",)),
        ({"seen": {"a": (5, 20)}}, None, ("no failure of another model is at hand",)),
        ({"seen": {"a": (5, 20), "b": (0, 0)}}, None, ("no failure of another model is at hand",)),
        ({"seen": {"a": (0, 20), "b": (0, 10)}}, None,
         ("among the failures of all models its own are noise, so they cannot be compared",)),
    ],
)  # fmt: skip
def test_a_recurring_pattern_is_decided_by_other_models(known: Any, specific: bool | None, told: Any) -> None:
    found, reasons = decide(facts(**known))
    assert found is specific
    assert reasons[0] == "P0 (form) recurs over 3 tasks on a" and set(told) <= set(reasons)


@pytest.mark.parametrize(
    "other, told",
    [
        ({"tasks": 1}, "auxiliary: P0 (form) is seen on one task only"),
        ({"pattern": "", "tasks": 0}, "auxiliary: its evidence belongs to no pattern"),
    ],
)
def test_one_task_decides_nothing_unless_the_trigger_fires_elsewhere_too(other: Any, told: str) -> None:
    for fired in (None, {"a": (9, 9), "b": (0, 9)}):
        specific, reasons = decide(facts(**other, fired=fired))
        assert specific is None and reasons[0] == told
    assert decide(facts(**other, fired={"a": (3, 9), "b": (3, 9)}))[0] is False


def test_silence_on_other_tasks_is_called_weak() -> None:
    nowhere = {"a": (5, 20), "b": (0, 10)}
    for shared, told in ((0, True), (1, False), (None, False)):
        specific, reasons = decide(facts(seen=nowhere, shared_tasks=shared))
        assert specific is True
        assert reasons[-1].startswith("weak: no other model was run on the tasks of this pattern") == told
    assert not decide(facts(shared_tasks=0))[1][-1].startswith("weak"), "a defect needs no such warning"


def test_chance_that_all_hits_fall_on_the_own_traces() -> None:
    assert chance((3, 20), {"b": (0, 35)}) == pytest.approx(1140 / 26235)  # (20 over 3) in (55 over 3)
    assert chance((7, 7), {"b": (0, 1)}) == pytest.approx(1 / 8)
    assert chance((0, 20), {"b": (0, 20)}) == chance((3, 20), {}) == pytest.approx(1.0)


# -- t --------------------------------------------------------------------------------------------------------------


def judgement(n: int, specific: bool | None, outcome: str = "accepted", **other: Any) -> Judgement:
    made = Judgement(
        f"ecdysis-1.{n}", "ecdysis", 1, n, outcome, "actions", f"change {n}", "why", "P0", ("0123abcd#4",), "a",
        specific, ("because", "and because"),
    )  # fmt: skip
    return replace(made, **other)


def test_t_is_the_share_of_model_specific_changes_among_the_decided() -> None:
    every = [judgement(1, True), judgement(2, False, "rejected"), judgement(3, None), judgement(4, False)]
    assert ratio(every) == pytest.approx(1 / 3)
    assert ratio(every, "accepted") == 0.5
    assert ratio(every, "rejected") == 0.0
    assert ratio([]) is None
    assert ratio([judgement(1, None)]) is None


def test_the_table_has_a_row_per_change() -> None:
    table = judgements_table([judgement(1, True), judgement(2, None)])
    assert table["judgement"].tolist() == ["model quirk", "unsure"]
    assert table["reasons"][0] == "because; and because"


# -- recurrence over models -------------------------------------------------------------------------------------------


def failure(key: str, model: str, task: str, what: str) -> Failure:
    head = f"First thing wrong: {what}\nWrites: none\nLast exchanges:\n[1] user: {what}"
    path = (f"{what.split()[0]}:error",)
    left = Trajectory(Trial("b", "1", task, "train", model, "u", "h", 0), "scored", 0.0, "user_stop", {}, ())
    return Failure(key, task, model, 0.0, "user_stop", ("db",), 1, f"{what}: Error: {what}", path, head, left)


def test_failures_of_one_cause_are_found_on_another_model() -> None:
    own = [failure(f"a{n}", "a", str(n), "find_order with a short id") for n in range(3)]
    own += [failure(f"q{n}", "a", str(n), "send_gift to an angry customer") for n in range(3)]
    others = {"b": [failure(f"b{n}", "b", str(n), "find_order with a short id") for n in range(2)], "c": []}
    joint = joint_patterns(own, others, None)
    everyone = {"a": own, **others}
    assert seen_on(["a0"], [], joint, everyone) == {"a": (3, 6), "b": (2, 2), "c": (0, 0)}
    assert seen_on(["q0"], [], joint, everyone) == {"a": (3, 6), "b": (0, 2), "c": (0, 0)}


def test_cited_noise_falls_back_on_the_pattern_of_its_round() -> None:
    group = Pattern(0, "n", "q", ("k1", "k2", "k3"), "k1", ("1", "2"))
    joint = Patterns((group,), {"lost": (0, 0.5)}, {}, "hdbscan", "none", 1.0, None)
    everyone = {
        "a": [failure("k1", "a", "1", "x"), failure("lost", "a", "2", "x")],
        "b": [failure("k3", "b", "1", "x")],
    }
    assert seen_on(["lost"], ["lost", "k1"], joint, everyone) == {"a": (1, 2), "b": (1, 1)}
    assert seen_on(["lost"], ["lost"], joint, everyone) == {"a": (0, 2), "b": (0, 1)}


# -- labels -----------------------------------------------------------------------------------------------------------

EVERY = [judgement(1, True), judgement(2, False), judgement(3, None)]


def test_labels_survive_the_round_trip(tmp_path: Path) -> None:
    mine = {"ecdysis-1.1": Label(QUIRK, '=1+1, "quoted"\nand a second line'), "ecdysis-1.2": Label(UNSURE), "ecdysis-1.3": Label("", "only a note")}  # fmt: skip
    path = write_labels(tmp_path / "labels.csv", EVERY, mine)
    assert read_labels(path) == mine
    rows = list(csv.DictReader(path.open(newline="")))
    assert [r["automatic"] for r in rows] == ["model quirk", "harness defect", "unsure"]
    assert rows[0]["note"].startswith("'="), "no spreadsheet takes it for a formula"
    assert write_labels(path, EVERY, read_labels(path)).read_text() == path.read_text()


def test_a_file_that_excel_saved_is_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes("\ufeffid,label,note\r\necdysis-1.1,Model Quirk ,\r\necdysis-1.2,,\r\n".encode())
    assert read_labels(path) == {"ecdysis-1.1": Label(QUIRK)}


@pytest.mark.parametrize(
    "text, told",
    [
        ("id,label\nx,maybe\n", "row 2: unknown label 'maybe'; choose one of harness defect, model quirk, unsure"),
        ("id,label\nx,unsure\nx,unsure\n", "row 3: a second row for change x"),
        ("id\nx\n", "row 2: column 'label' is missing"),
    ],
)  # fmt: skip
def test_a_bad_file_is_told_by_row(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(LabError, match=told):
        read_labels(path)


def test_an_unknown_label_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="label: unknown 'quirk'"):
        write_labels(tmp_path / "labels.csv", EVERY, {"ecdysis-1.1": Label("quirk")})
    assert not (tmp_path / "labels.csv").exists()


# -- agreement --------------------------------------------------------------------------------------------------------


def test_kappa_of_a_known_table() -> None:
    """20 both yes, 5 and 10 split, 15 both no: observed 0.7, expected 0.5, κ 0.4."""
    first = [True] * 25 + [False] * 25
    second = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    kappa, reason = cohen(first, second)
    assert (kappa, reason) == (pytest.approx(0.4), "")
    assert cohen([True, False], [True, False])[0] == 1.0
    assert cohen([True, False], [False, True])[0] == -1.0


def test_kappa_is_undefined_with_a_reason() -> None:
    assert cohen([], []) == (None, "no change is decided by both")
    kappa, reason = cohen([True] * 3, [True] * 3)
    assert kappa is None
    assert reason == "both call every one of the 3 changes a model quirk, so chance explains all"
    assert cohen([True] * 3, [True, True, False])[0] == 0.0, "one constant rater is defined"


def test_agreement_leaves_out_what_either_side_leaves_open() -> None:
    every = [judgement(n + 1, specific) for n, specific in enumerate((True, False, None, False, True))]
    mine = {f"ecdysis-1.{n}": Label(w) for n, w in ((1, QUIRK), (2, DEFECT), (3, QUIRK), (4, UNSURE))}
    found = agreement(every, mine)
    assert (found.kappa, found.n, found.agreed, found.left_out) == (1.0, 2, 1.0, 3)
    nobody = agreement(every, {})
    assert (nobody.kappa, nobody.n, nobody.agreed) == (None, 0, None)
    assert nobody.reason == "no change is decided by both"


def test_edits_of_failures_alone_are_judged_each_under_a_number_of_its_own(tmp_path: Path) -> None:
    """Of an editor that read no spec, each file that it changed is a change."""
    lab = Lab(tmp_path, rounds=1, arm="self-evolution", train_tasks=6, trials=1)
    lab.train()
    edits = lab.run.round("self-evolution", 1).edits
    found = judgements_of(lab.run, lab.store)
    assert [d.id for d in found] == [f"self-evolution-1.{n}" for n in range(1, len(found) + 1)]
    assert [d.outcome for d in found] == [e.decision for e in edits for _ in e.changes]
    assert len(found) == sum(len(e.changes) for e in edits) > 0
    lab.run.round("self-evolution", 1).edits = tuple(replace(e, changes=()) for e in edits)
    bare = judgements_of(lab.run, lab.store, replays=False)
    assert [d.outcome for d in bare] == ["accepted"] * len(bare) != []
    assert {d.what for d in bare} <= {f"the edit of {file}" for file in LAYER_FILES.values()}
    assert all(d.model_specific is not True for d in bare), "one task decides nothing"
