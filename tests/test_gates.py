"""Each gate rejects for its own reason, with the evidence; only a strict rise is accepted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2")

from simlab import bench, folder, passing, spec_of, trials

from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.probe import sample_arguments
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Candidate, Intervention, LabError, Trajectory, Trial
from ecdysis_lab.review.editors.rules import RulesEditor
from ecdysis_lab.train import gates

HOOKS = "from ecdysis_lab.hooks import Allow, Refuse, Rewrite\n\n\n"


def scored(scores: dict[tuple[str, int], float | None], start: str = "a") -> list[Trajectory]:
    """Trajectories with these scores by (task, seed); None is an infrastructure error."""
    return [
        Trajectory(
            Trial("tau2/airline", "1", task, "train", "m", "u", start, seed),
            "infra_error" if score is None else "scored", score, "user_stop", {}, (),
        )
        for (task, seed), score in scores.items()
    ]  # fmt: skip


BEFORE = {("1", 0): 1.0, ("1", 1): 0.0, ("2", 0): 0.0, ("2", 1): 1.0, ("3", 0): 0.0}


def judged(**changed: float | None) -> Any:
    """The decision on BEFORE with some pairs changed, e.g. ``t1_0=0.0``."""
    after = dict(BEFORE) | {(k[1], int(k[-1])): v for k, v in changed.items()}
    return gates.improvement_gate(scored(BEFORE), scored(after, "b"))


# -- strict improvement -------------------------------------------------------------------------------------------


def test_a_strict_rise_is_accepted() -> None:
    decision = judged(t2_0=1.0)
    assert (decision.accepted, decision.gate) == (True, "improvement")
    assert (decision.score_before, decision.score_after) == (2.0, 3.0)
    assert (decision.gained, decision.lost) == (("2#0",), ())
    assert decision.reason == "training score rises from 2 to 3 of 5"
    assert decision.numbers == {"pairs": 5, "reused": 0, "user_faults": 0, "sign_test_p": 1.0}


def test_the_smallest_rise_is_enough_and_equal_is_not() -> None:
    assert judged(t2_0=1e-9).accepted
    equal = judged()
    assert (equal.accepted, equal.score_before, equal.score_after) == (False, 2.0, 2.0)
    assert equal.reason == "training score stays from 2 to 2 of 5"


def test_as_many_lost_as_gained_is_rejected_and_both_are_named() -> None:
    decision = judged(t2_0=1.0, t1_0=0.0)
    assert (decision.accepted, decision.gained, decision.lost) == (False, ("2#0",), ("1#0",))


def test_a_fall_is_rejected() -> None:
    decision = judged(t1_0=0.0)
    assert (decision.accepted, decision.reason) == (False, "training score falls from 2 to 1 of 5")


def test_more_gained_than_lost_is_accepted_with_its_sign_test() -> None:
    before = {(str(n), 0): 0.0 for n in range(8)} | {("9", 0): 1.0}
    after = {(str(n), 0): 1.0 for n in range(8)} | {("9", 0): 0.0}
    decision = gates.improvement_gate(scored(before), scored(after, "b"), reused=4)
    assert (decision.accepted, len(decision.gained), decision.lost) == (True, 8, ("9#0",))
    assert decision.numbers["reused"] == 4
    assert decision.numbers["sign_test_p"] == pytest.approx(2 * 10 / 2**9)  # P(≥ 8 of 9), two-sided


def test_partial_scores_are_summed() -> None:
    decision = gates.improvement_gate(
        scored({("1", 0): 0.5, ("2", 0): 0.5}), scored({("1", 0): 1.0, ("2", 0): 0.25})
    )
    assert (decision.accepted, decision.score_before, decision.score_after) == (True, 1.0, 1.25)


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("how", ["absent", "unscored"])
def test_a_missing_pair_is_named_and_never_a_zero(side: str, how: str) -> None:
    whole, gap = scored(BEFORE), dict(BEFORE)
    if how == "absent":
        del gap[("2", 1)]
    else:
        gap[("2", 1)] = None  # type: ignore[assignment]
    better = {k: 1.0 for k in gap if gap[k] is not None} | {k: v for k, v in gap.items() if v is None}
    pair = (scored(gap), whole) if side == "before" else (whole, scored(better))
    with pytest.raises(LabError, match=r"task 2, seed 1 \(1 in all\)"):
        gates.improvement_gate(*pair)


def test_several_missing_pairs_are_counted() -> None:
    with pytest.raises(LabError, match=r"task 1, seed 0 \(5 in all\)"):
        gates.improvement_gate(scored(BEFORE), [])


def faulted(trajectories: list[Trajectory], *pairs: tuple[str, int]) -> list[Trajectory]:
    """The same, with user faults in these pairs."""
    bad = [(t.trial.task_id, t.trial.seed) in pairs for t in trajectories]
    return [
        replace(t, status="user_fault", score=None) if b else t
        for t, b in zip(trajectories, bad, strict=True)
    ]


def test_a_user_fault_is_left_out_on_both_sides_and_counted() -> None:
    better = scored(dict(BEFORE) | {("2", 0): 1.0, ("3", 0): 1.0}, "b")
    for before, after in (
        (faulted(scored(BEFORE), ("3", 0)), better),
        (scored(BEFORE), faulted(better, ("3", 0))),
    ):
        decision = gates.improvement_gate(before, after)
        assert (decision.accepted, decision.score_before, decision.score_after) == (True, 2.0, 3.0)
        assert (decision.gained, decision.numbers["pairs"], decision.numbers["user_faults"]) == (
            ("2#0",),
            4,
            1,
        )


def test_a_user_fault_never_hides_a_loss() -> None:
    """A gain beside a success that is now a user fault: nobody knows whether the sum rises."""
    better = faulted(scored(dict(BEFORE) | {("2", 0): 1.0}, "b"), ("1", 0))
    decision = gates.improvement_gate(scored(BEFORE), better)
    assert (decision.accepted, decision.gate, decision.score_after) == (False, "coverage", None)
    assert decision.reason.startswith("the user failed in 1 pairs")
    nothing = gates.improvement_gate(faulted(scored({("1", 0): 1.0}), ("1", 0)), scored({("1", 0): 1.0}))
    assert (nothing.accepted, nothing.gate) == (False, "coverage")


def test_a_hook_that_broke_in_a_trial_rejects_whatever_the_score() -> None:
    after = scored(dict.fromkeys(BEFORE, 1.0), "b")
    fault = Intervention(3, "check", "fault", rule="error", reason="ZeroDivisionError: division by zero")
    after[1] = replace(after[1], interventions=(fault,))
    decision = gates.improvement_gate(scored(BEFORE), after)
    assert (decision.accepted, decision.gate, decision.numbers["faults"]) == (False, "probe", 1)
    assert decision.reason == "a hook broke in 1 trials: ZeroDivisionError: division by zero"
    assert decision.score_after == 5.0


# -- static policy and probe --------------------------------------------------------------------------------------


def test_static_names_file_line_and_breach(tmp_path: Path) -> None:
    loaded = folder(
        tmp_path / "h", actions=HOOKS + "import os\n\n\ndef check(call, view):\n    return open(call.name)\n"
    )
    decision = gates.static_gate(loaded)
    assert (decision.accepted, decision.gate, decision.numbers) == (False, "static", {"problems": 2})
    assert "actions.py:4 import of 'os'" in decision.reason
    assert "actions.py:8 use of 'open'" in decision.reason


def test_static_rejects_stray_files(tmp_path: Path) -> None:
    loaded = folder(tmp_path / "h", skills="def brief(opening, policy):\n    return ''\n")
    (loaded.path / "helper.py").write_text("x = 1\n")
    decision = gates.static_gate(load_harness(loaded.path))
    assert "helper.py" in decision.reason


@pytest.mark.parametrize(
    "layer, source, told",
    [
        ("contract", "def describe(tool):\n    return tool['descriptoin']\n", "KeyError"),
        ("skills", "def brief(opening, policy):\n    return 7\n", "brief"),
        ("actions", "def check(call, view):\n    return 1 / 0\n", "ZeroDivisionError"),
        ("actions", "def check(call, view):\n    while True:\n        pass\n", "check"),
        ("regulation", "def observe(call, result, view):\n    return 5\n", "observe"),
        (
            "regulation",
            "def observe(call, result, view):\n    return 5 if view.done and view.done[-1].error else None\n",
            "observe",
        ),
        ("regulation", "def on_reply(text, view):\n    return None\n", "on_reply"),
        ("regulation", HOOKS + "def on_reply(text, view):\n    return Refuse('No.', '', 'x')\n", "option"),
    ],
)
def test_probe_rejects_a_hook_that_breaks(layer: str, source: str, told: str, tmp_path: Path) -> None:
    decision = gates.probe_gate(folder(tmp_path / "h", **{layer: source}), bench(), "0")
    assert (decision.accepted, decision.gate) == (False, "probe")
    assert decision.reason.startswith("a hook breaks on a plain call: ")
    assert told in decision.reason


@pytest.mark.parametrize("start", ["empty", "airline"])
def test_the_shipped_harnesses_pass(start: str) -> None:
    assert gates.static_gate(load_harness(start)) is None
    assert gates.probe_gate(load_harness(start), bench(), "0") is None


def test_every_tool_is_probed_with_every_argument(tmp_path: Path) -> None:
    """A hook that breaks on the last argument of one tool only is found."""
    for tool in bench().tools:
        for name in tool["parameters"].get("properties", {}):
            assert name in sample_arguments(tool)
    source = HOOKS + (
        "def check(call, view):\n"
        "    if call.name == 'update_reservation_baggages':\n        return Rewrite({'x': call.arguments['payment_id'] + 1})\n"
        "    return Allow()\n"
    )
    assert gates.probe_gate(folder(tmp_path / "h", actions=source), bench(), "0").gate == "probe"


# -- leak ---------------------------------------------------------------------------------------------------------


def test_leak_names_the_fact(tmp_path: Path) -> None:
    training = trials("airline", "sim/flawless", "empty", 10)
    user = next(
        c.arguments["user_id"]
        for t in training
        for m in t.messages
        for c in m.calls
        if "user_id" in c.arguments
    )
    guard = {"kind": "contract_hint", "tool": "calculate", "text": f"Not for {user}."}
    decision = gates.leak_gate(edited(guard, tmp_path), training, bench())
    assert (decision.accepted, decision.gate) == (False, "leak")
    assert f"user id: {user}" in decision.reason
    assert f"user id: {user}" in decision.numbers["facts"]
    clean = {**guard, "text": "Cancel within 24 hours of booking; $50 a bag."}
    assert gates.leak_gate(edited(clean, tmp_path / "clean"), training, bench()) is None


def edited(guard: dict[str, Any], out: Path, start: str = "empty") -> Candidate:
    made = RulesEditor().edit(load_harness(start).path, spec_of(guard), out / "candidate")
    assert made.outcome == "edited"
    return made


# -- legal actions ------------------------------------------------------------------------------------------------


def replays(loaded: Harness, recorded: list[Trajectory]) -> list[Any]:
    return list(gates.replays_of(recorded, loaded, bench()).values())


def test_a_candidate_that_refuses_a_legal_call_is_rejected_with_that_call(tmp_path: Path) -> None:
    source = HOOKS + (
        "def check(call, view):\n"
        "    if call.name == 'cancel_reservation':\n        return Refuse('Never.', 'Deny it.', 'never_cancel')\n"
        "    return Allow()\n"
    )
    recorded = passing(n=20)
    cancels = [
        (t, c) for t in recorded for m in t.messages for c in m.calls if c.name == "cancel_reservation"
    ]
    assert cancels, "some passing trial cancels"
    decision = gates.legal_gate(replays(folder(tmp_path / "h", actions=source), recorded))
    trajectory, act = cancels[0]
    assert (decision.accepted, decision.gate) == (False, "legal")
    assert decision.reason == (
        f"refused an act of passing trial {trajectory.key[:8]}: cancel_reservation "
        f'{{"reservation_id": "{act.arguments["reservation_id"]}"}} (rule never_cancel: Never. Deny it.)'
    )
    assert decision.numbers["differences"] == len(cancels)
    assert decision.numbers["shown"][0]["trial"] == trajectory.key
    assert len(decision.numbers["shown"]) == min(20, len(cancels))


def test_a_candidate_that_alters_a_legal_call_is_rejected_with_both_forms(tmp_path: Path) -> None:
    guard = {"kind": "canonical_argument", "argument": "reservation_id", "transform": ["lower"]}
    decision = gates.legal_gate(replays(load_harness(edited(guard, tmp_path).path), passing()))
    assert (decision.gate, decision.numbers["shown"][0]["what"]) == ("legal", "altered")
    assert "(rule canonical_reservation_id: " in decision.reason
    assert "→" in decision.reason


def test_the_human_harness_passes_on_flawless_trials() -> None:
    assert gates.legal_gate(replays(load_harness("airline"), passing(n=20))) is None


def test_a_call_that_the_environment_rejected_may_change(tmp_path: Path) -> None:
    """A passing trial that recovered from an error: the guard that prevents the error is legal."""
    recorded = [t for t in trials("airline", "sim/large", "empty", 30) if t.success]
    failed = [(t, c) for t in recorded for m in t.messages for c in m.calls if errored(t, c.id)]
    assert failed, "some passing trial recovered from an error"
    acts = [(c.name, c.arguments) for _, c in failed]
    source = HOOKS + (
        f"WRONG = {acts!r}\n\n\ndef check(call, view):\n    if (call.name, call.arguments) in WRONG:\n"
        "        return Refuse('It fails.', 'Use the right form.', 'form')\n    return Allow()\n"
    )
    loaded = folder(tmp_path / "h", actions=source)
    assert gates.legal_gate(replays(loaded, recorded)) is None
    worse = folder(
        tmp_path / "w", actions=source.replace("in WRONG", "in WRONG or call.name == 'get_user_details'")
    )
    assert gates.legal_gate(replays(worse, recorded)).gate == "legal"


def errored(trajectory: Trajectory, call_id: str) -> bool:
    return any(m.error and m.call_id == call_id for m in trajectory.messages)


def test_a_hook_that_breaks_on_a_real_call_is_rejected_before_the_rerun(tmp_path: Path) -> None:
    """The probe's plain arguments do not reach it, a recorded call does."""
    source = HOOKS + (
        "def check(call, view):\n"
        "    if call.name == 'get_user_details' and '_' in call.arguments['user_id']:\n        return 1 / 0\n"
        "    return Allow()\n"
    )
    loaded = folder(tmp_path / "h", actions=source)
    assert gates.probe_gate(loaded, bench(), "0") is None
    decision = gates.legal_gate(replays(loaded, passing()))
    assert (decision.accepted, decision.gate) == (False, "probe")
    assert "first check in passing trial" in decision.reason
    assert "ZeroDivisionError" in decision.reason


def test_cheap_gates_stop_at_the_first(tmp_path: Path) -> None:
    training = passing()
    candidate = edited({"kind": "known_tools"}, tmp_path)
    assert gates.cheap_gates(candidate, gates.loaded(candidate), training, bench()) is None
    broken = folder(tmp_path / "b", actions="import os\n\n\ndef check(call, view):\n    return 1 / 0\n")
    leaking = replace(candidate, path=broken.path, diff="+ mia_li_3668")
    assert gates.cheap_gates(leaking, broken, training, bench()).gate == "static"


# -- growth ---------------------------------------------------------------------------------------------------------


def lines(n: int) -> str:
    return "".join(f"A_{i} = {i}\n" for i in range(n))


def test_growth_over_thirty_per_cent_is_warned_of(tmp_path: Path) -> None:
    parent = folder(tmp_path / "a", skills=lines(100))
    same, more = folder(tmp_path / "b", skills=lines(130)), folder(tmp_path / "c", skills=lines(131))
    assert gates.growth_notes(parent, parent) == ()
    assert gates.growth_notes(parent, folder(tmp_path / "d", skills=lines(50))) == ()
    (said,) = gates.growth_notes(parent, same)  # 130 lines are 30% more; their tokens are over it
    assert "lines" not in said
    assert said == "growth: the candidate has 90 more tokens than its parent (245 to 335, +37%)"
    (said,) = gates.growth_notes(parent, more)
    assert said.endswith("and 31 more lines than its parent (100 to 131, +31%)")


def test_growth_from_nothing_has_no_measure(tmp_path: Path) -> None:
    assert gates.growth_notes(load_harness("empty"), folder(tmp_path / "a", skills=lines(500))) == ()


def test_an_editor_hears_of_every_gate_that_judges_code() -> None:
    assert gates.BACK_TO_EDITOR == ("static", "probe", "leak", "legal")
