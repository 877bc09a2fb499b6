"""Each gate rejects for its own reason, with the evidence; only a strict rise is accepted."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2")

from simlab import bench, folder, passing, spec_of, trials

from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.probe import sample_arguments
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Candidate, GateResult, Intervention, LabError, Trajectory, Trial
from ecdysis_lab.review.editors.rules import RulesEditor
from ecdysis_lab.train import gates
from ecdysis_lab.train.arms import ARMS
from ecdysis_lab.train.judge import decided
from ecdysis_lab.train.judging import Judging, Rerun, compare

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


def rerun(**changed: float | None) -> Rerun:
    """BEFORE, and the same with some pairs changed, e.g. ``t1_0=0.0``."""
    after = dict(BEFORE) | {(k[1], int(k[-1])): v for k, v in changed.items()}
    return Rerun(scored(BEFORE), scored(after, "b"))


def never(*args: Any) -> Any:
    raise AssertionError("no trial may be run for this gate")


def judging(
    harness: Harness, before: Sequence[Trajectory] = (), trials: Any = never, diff: str = "", **other: Any
) -> Judging:
    """A candidate before the gates."""
    candidate = Candidate(harness.path, harness.hash, "parent", diff, "test", "edited")
    return Judging(candidate, load_harness("empty"), before or passing(), bench(), trials, **other)


def ran(made: Judging) -> dict[str, str]:
    """Gate -> outcome of all that ran; a gate that ran twice stands under its last outcome."""
    return {r.name: r.outcome for r in gates.run_gates(made, gates.GATES)[0]}


# -- strict improvement -------------------------------------------------------------------------------------------


def test_a_strict_rise_is_accepted() -> None:
    result, found = gates.rises(rerun(t2_0=1.0)), rerun(t2_0=1.0).comparison
    assert (result.outcome, result.reason) == ("passed", "training score rises from 2 to 3 of 5")
    assert (found.before, found.after, found.gained, found.lost) == (2.0, 3.0, ("2#0",), ())
    assert result.numbers == {
        "pairs": 5, "reused": 0, "before": 2.0, "after": 3.0, "gained": 1, "lost": 0,
        "tasks_up": 1, "tasks_down": 0, "sign_test_p": 1.0,
    }  # fmt: skip


def test_the_smallest_rise_is_enough_and_equal_is_not() -> None:
    assert gates.rises(rerun(t2_0=1e-9)).outcome == "passed"
    equal = gates.rises(rerun())
    assert (equal.outcome, equal.reason) == ("rejected", "training score stays from 2 to 2 of 5")


def test_as_many_lost_as_gained_is_rejected_and_both_are_named() -> None:
    found = rerun(t2_0=1.0, t1_0=0.0)
    assert (found.comparison.gained, found.comparison.lost) == (("2#0",), ("1#0",))
    assert gates.rises(found).outcome == "rejected"


def test_a_fall_is_rejected() -> None:
    result = gates.rises(rerun(t1_0=0.0))
    assert (result.outcome, result.reason) == ("rejected", "training score falls from 2 to 1 of 5")


def test_more_gained_than_lost_is_accepted_with_its_sign_test() -> None:
    before = {(str(n), 0): 0.0 for n in range(8)} | {("9", 0): 1.0}
    after = {(str(n), 0): 1.0 for n in range(8)} | {("9", 0): 0.0}
    result = gates.rises(Rerun(scored(before), scored(after, "b"), reused=4))
    assert (result.outcome, result.numbers["gained"], result.numbers["lost"]) == ("passed", 8, 1)
    assert result.numbers["reused"] == 4
    assert result.numbers["sign_test_p"] == pytest.approx(2 * 10 / 2**9)  # P(≥ 8 of 9), two-sided


def test_partial_scores_are_summed() -> None:
    found = compare(scored({("1", 0): 0.5, ("2", 0): 0.5}), scored({("1", 0): 1.0, ("2", 0): 0.25}))
    assert (found.before, found.after) == (1.0, 1.25)


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
        compare(*pair)


def test_several_missing_pairs_are_counted() -> None:
    with pytest.raises(LabError, match=r"task 1, seed 0 \(5 in all\)"):
        compare(scored(BEFORE), [])


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
        found = compare(before, after)
        assert found.whole and (found.before, found.after) == (2.0, 3.0)
        assert (found.gained, found.pairs, found.user_faults) == (("2#0",), 4, 1)


def test_a_user_fault_never_hides_a_loss() -> None:
    """A gain beside a success that is now a user fault: nobody knows whether the sum rises."""
    better = faulted(scored(dict(BEFORE) | {("2", 0): 1.0}, "b"), ("1", 0))
    result = gates.covered(Rerun(scored(BEFORE), better))
    assert result.outcome == "rejected" and result.reason.startswith("the user failed in 1 pairs")
    nothing = Rerun(faulted(scored({("1", 0): 1.0}), ("1", 0)), scored({("1", 0): 1.0}))
    assert gates.covered(nothing).outcome == "rejected"
    assert gates.covered(rerun()).outcome == "passed"


def test_a_hook_that_broke_in_a_trial_rejects_whatever_the_score() -> None:
    after = scored(dict.fromkeys(BEFORE, 1.0), "b")
    fault = Intervention(3, "check", "fault", rule="error", reason="ZeroDivisionError: division by zero")
    after[1] = replace(after[1], interventions=(fault,))
    result = gates.unbroken(Rerun(scored(BEFORE), after))
    assert (result.outcome, result.name, result.numbers) == ("rejected", "probe", {"trials": 5, "faults": 1})
    assert result.reason == "a hook broke in 1 trials: ZeroDivisionError: division by zero"


# -- confirmation -------------------------------------------------------------------------------------------------


def on_fresh_seeds(start: Harness, tmp_path: Path, score: float, **other: Any) -> Any:
    """What the confirmation says where the parent scores 1 of 2 on fresh seeds and the candidate this much more."""
    child, asked = folder(tmp_path / "h", skills="def brief(opening, policy):\n    return ''\n"), []

    def trials(harness: Harness, what: str, tasks: set[str], seeds: Any) -> list[Trajectory]:
        asked.append((what, tuple(seeds)))
        better = score if harness.hash == child.hash else 0.0
        made = scored({("1", s): better for s in seeds} | {("2", s): 1.0 for s in seeds}, harness.hash)
        return [replace(t, **other) for t in made] if harness.hash == child.hash else made

    made = judging(child, scored(BEFORE), trials, fresh_seeds=((7, 8), (9,)))
    return gates.confirm(made), asked


def test_a_candidate_has_to_rise_on_every_fresh_seed_together(tmp_path: Path) -> None:
    result, asked = on_fresh_seeds(load_harness("empty"), tmp_path / "a", 1.0)
    assert result.outcome == "passed"
    assert result.reason == "on fresh seeds training score rises from 3 to 6 of 6"
    assert (result.numbers["repeats"], result.numbers["before"], result.numbers["after"]) == (2, 3.0, 6.0)
    assert asked == [
        ("confirmation 1, parent", (7, 8)), ("confirmation 1, candidate", (7, 8)),
        ("confirmation 2, parent", (9,)), ("confirmation 2, candidate", (9,)),
    ]  # fmt: skip
    same, _ = on_fresh_seeds(load_harness("empty"), tmp_path / "b", 0.0)
    assert (same.outcome, same.reason) == ("rejected", "on fresh seeds training score stays from 3 to 3 of 6")


def test_a_hook_that_breaks_on_a_fresh_seed_is_told_as_what_it_is(tmp_path: Path) -> None:
    fault = (Intervention(3, "check", "fault", reason="KeyError: 'x'"),)
    result, _ = on_fresh_seeds(load_harness("empty"), tmp_path, 1.0, interventions=fault)
    assert (result.outcome, result.reason) == (
        "rejected",
        "on fresh seeds a hook broke in 6 trials: KeyError: 'x'",
    )


def test_no_fresh_seeds_no_confirmation(tmp_path: Path) -> None:
    assert gates.confirm(judging(load_harness("empty"))).outcome == "skipped"


# -- static policy and probe --------------------------------------------------------------------------------------


def test_static_names_file_line_and_breach(tmp_path: Path) -> None:
    loaded = folder(
        tmp_path / "h", actions=HOOKS + "import os\n\n\ndef check(call, view):\n    return open(call.name)\n"
    )
    decision = gates.static(judging(loaded))
    assert (decision.outcome, decision.numbers) == ("rejected", {"problems": 2})
    assert "actions.py:4 import of 'os'" in decision.reason
    assert "actions.py:8 use of 'open'" in decision.reason


def test_static_rejects_stray_files(tmp_path: Path) -> None:
    loaded = folder(tmp_path / "h", skills="def brief(opening, policy):\n    return ''\n")
    (loaded.path / "helper.py").write_text("x = 1\n")
    decision = gates.static(judging(load_harness(loaded.path)))
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
    decision = gates.plain_calls(judging(folder(tmp_path / "h", **{layer: source})))
    assert decision.outcome == "rejected"
    assert decision.reason.startswith("a hook breaks on a plain call: ")
    assert told in decision.reason


@pytest.mark.parametrize("start", ["empty", "airline"])
def test_the_shipped_harnesses_pass(start: str) -> None:
    made = judging(load_harness(start))
    assert (gates.static(made).outcome, gates.plain_calls(made).outcome) == ("passed", "passed")


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
    assert gates.plain_calls(judging(folder(tmp_path / "h", actions=source))).outcome == "rejected"


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
    decision = gates.leak(before_gates(edited(guard, tmp_path), training))
    assert decision.outcome == "rejected"
    assert f"user id: {user}" in decision.reason
    assert f"user id: {user}" in decision.numbers["facts"]
    clean = {**guard, "text": "Cancel within 24 hours of booking; $50 a bag."}
    assert gates.leak(before_gates(edited(clean, tmp_path / "clean"), training)).outcome == "passed"


def before_gates(candidate: Candidate, before: Sequence[Trajectory]) -> Judging:
    return judging(load_harness(candidate.path), before, diff=candidate.diff)


def edited(guard: dict[str, Any], out: Path, start: str = "empty") -> Candidate:
    made = RulesEditor().edit(load_harness(start).path, spec_of(guard), out / "candidate")
    assert made.outcome == "edited"
    return made


# -- legal actions ------------------------------------------------------------------------------------------------


def legally(loaded: Harness, recorded: Sequence[Trajectory]) -> GateResult:
    """What the legal gate says under its own name, as the runner records it."""
    gate = next(g for g in gates.GATES if g.name == "legal")
    return gate.run(judging(loaded, recorded))


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
    decision = legally(folder(tmp_path / "h", actions=source), recorded)
    trajectory, act = cancels[0]
    assert (decision.outcome, decision.name) == ("rejected", "legal")
    assert decision.reason == (
        f"refused an act of passing trial {trajectory.key[:8]}: cancel_reservation "
        f'{{"reservation_id": "{act.arguments["reservation_id"]}"}} (rule never_cancel: Never. Deny it.)'
    )
    assert decision.numbers["differences"] == len(cancels)
    assert decision.numbers["shown"][0]["trial"] == trajectory.key
    assert len(decision.numbers["shown"]) == min(20, len(cancels))


def test_a_candidate_that_alters_a_legal_call_is_rejected_with_both_forms(tmp_path: Path) -> None:
    guard = {"kind": "canonical_argument", "argument": "reservation_id", "transform": ["lower"]}
    decision = legally(load_harness(edited(guard, tmp_path).path), passing())
    assert (decision.name, decision.numbers["shown"][0]["what"]) == ("legal", "altered")
    assert "(rule canonical_reservation_id: " in decision.reason
    assert "→" in decision.reason


def test_the_human_harness_passes_on_flawless_trials() -> None:
    result = legally(load_harness("airline"), passing(n=20))
    assert result.outcome == "passed" and result.numbers["calls"] > result.numbers["replays"] > 15


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
    assert legally(loaded, recorded).outcome == "passed"
    worse = folder(
        tmp_path / "w", actions=source.replace("in WRONG", "in WRONG or call.name == 'get_user_details'")
    )
    assert legally(worse, recorded).outcome == "rejected"


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
    assert gates.plain_calls(judging(loaded)).outcome == "passed"
    decision = legally(loaded, passing())
    assert (decision.outcome, decision.name) == ("rejected", "probe")
    assert decision.asks == "no hook breaks in a replay" and decision.numbers["faults"] > 0
    assert "first check in passing trial" in decision.reason
    assert "ZeroDivisionError" in decision.reason


def test_only_passing_trials_say_what_is_legal(tmp_path: Path) -> None:
    """A candidate that refuses one act which occurs in passing trials only, and one that occurs in failing ones only."""
    recorded = trials("airline", "sim/small", "empty", 20)
    acts: dict[bool, set[str]] = {True: set(), False: set()}
    for t in recorded:
        executed = {m.call_id for m in t.messages if m.role == "tool" and not m.error}
        acts[t.success] |= {
            json.dumps([c.name, c.arguments]) for m in t.messages for c in m.calls if c.id in executed
        }
    only = {success: sorted(acts[success] - acts[not success])[0] for success in (True, False)}

    def refusing(name: str, act: str) -> GateResult:
        source = HOOKS + (
            f"ACT = {json.loads(act)!r}\n\n\ndef check(call, view):\n    if [call.name, call.arguments] == ACT:\n"
            "        return Refuse('Not this one.', 'Do another thing.', 'one_act')\n    return Allow()\n"
        )
        return legally(folder(tmp_path / name, actions=source), recorded)

    assert refusing("legal", only[True]).outcome == "rejected"
    assert refusing("harmless", only[False]).outcome == "passed"


# -- the list -----------------------------------------------------------------------------------------------------


def test_the_gates_stop_at_the_first_that_rejects(tmp_path: Path) -> None:
    broken = folder(tmp_path / "b", actions="import os\n\n\ndef check(call, view):\n    return 1 / 0\n")
    assert ran(judging(broken, diff="+ mia_li_3668")) == {"static": "rejected"}
    results, retry = gates.run_gates(judging(broken), gates.GATES)
    assert retry and len(results) == 1


def test_every_gate_that_ran_is_told_in_order_with_numbers_and_seconds(tmp_path: Path) -> None:
    """The code is sound, the replays are silent, so all is taken over and the score stays: rejected, for good."""
    sound = folder(tmp_path / "s", actions=HOOKS + "def check(call, view):\n    return Allow()\n")
    made = judging(sound, trials=lambda *asked: [])
    results, retry = gates.run_gates(made, gates.GATES)
    told = [(r.name, r.outcome) for r in results]
    assert told == [
        ("static", "passed"), ("probe", "passed"), ("leak", "passed"), ("legal", "passed"), ("coverage", "passed"),
        ("probe", "passed"), ("improvement", "rejected"),
    ]  # fmt: skip
    assert not retry and all(r.asks for r in results)
    assert results[3].numbers["replays"] == len(passing()) == results[6].numbers["reused"]
    assert results[3].seconds > results[0].seconds >= 0


def test_trials_run_for_a_gate_are_not_its_seconds(tmp_path: Path) -> None:
    def slow(harness: Harness, what: str, tasks: set[str], seeds: Any) -> list[Trajectory]:
        time.sleep(0.3)
        return scored(BEFORE, harness.hash)

    made = judging(load_harness("empty"), scored(BEFORE), slow, reuse=False)
    result = next(g for g in gates.GATES if g.name == "coverage").run(made)
    assert result.outcome == "passed" and result.seconds < 0.2 <= made.trial_seconds


def test_an_arm_names_gates_that_exist() -> None:
    known = {gate.name for gate in gates.GATES}
    assert all(set(arm.gates) <= known for arm in ARMS.values() if arm.gates is not None)
    assert [g.name for g in gates.gates_of(ARMS["ecdysis"])] == [g.name for g in gates.GATES]
    verified = [g.name for g in gates.gates_of(ARMS["self-evolution-verified"])]
    assert verified == ["static", "probe", "coverage", "probe", "improvement"]
    alone = gates.gates_of(ARMS["self-evolution"])
    assert [(g.name, g.paid) for g in alone] == [("static", False), ("probe", False)]


# -- the round as a whole ---------------------------------------------------------------------------------------------


def whole(solved_before: int, solved_after: int, tasks: int = 20) -> GateResult:
    """The rollback gate where so many of the tasks have a success among two trials."""

    def trials(solved: int, harness: str) -> list[Trajectory]:
        return scored(
            {(str(n), seed): float(n < solved and seed == 1) for n in range(tasks) for seed in (0, 1)},
            harness,
        )

    made = judging(load_harness("empty"), trials(solved_before, "empty"))
    made.__dict__["rerun"] = Rerun(made.before, trials(solved_after, "b"))
    return gates.rollback(made)


def test_a_fall_of_exactly_five_points_stays_and_one_more_task_is_rolled_back() -> None:
    stays, falls = whole(11, 10), whole(11, 9)
    assert (stays.outcome, stays.reason) == ("passed", "pass@k falls from 55.0 to 50.0 points")
    assert (falls.outcome, falls.reason) == ("rejected", "pass@k falls from 55.0 to 45.0 points")
    assert (falls.numbers["tasks"], falls.numbers["pass_k_before"], falls.numbers["pass_k_after"]) == (
        20,
        55.0,
        45.0,
    )
    assert whole(3, 2, tasks=19).outcome == "rejected", "5.26 points are more than five"
    assert whole(3, 2, tasks=21).outcome == "passed", "4.76 are not"


def test_pass_at_k_asks_for_one_success_and_not_for_the_sum() -> None:
    before = scored({("1", 0): 1.0, ("1", 1): 1.0, ("2", 0): 0.0, ("2", 1): 0.0})
    after = scored({("1", 0): 1.0, ("1", 1): 0.0, ("2", 0): 0.0, ("2", 1): 0.0}, "b")
    made = judging(load_harness("empty"), before)
    made.__dict__["rerun"] = Rerun(before, after)
    assert gates.rollback(made).outcome == "passed" and made.comparison.after < made.comparison.before


def test_the_sign_test_counts_tasks_and_not_trials() -> None:
    """Three trials of one task that flip together are one sign."""
    before = {(task, seed): 0.0 for task in ("1", "2") for seed in range(3)}
    after = {(task, seed): float(task == "1") for task, seed in before}
    numbers = gates.rises(Rerun(scored(before), scored(after, "b"))).numbers
    assert (numbers["gained"], numbers["tasks_up"], numbers["tasks_down"], numbers["sign_test_p"]) == (
        3,
        1,
        0,
        1.0,
    )


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


def test_an_acceptance_does_not_claim_gates_that_were_skipped() -> None:
    through, left = GateResult("static", "passed"), GateResult("improvement", "skipped", "not run")
    assert decided([through, through, left]) == ("accepted", "static", "every gate that ran passed (2 of 3)")
