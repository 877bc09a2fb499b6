"""Metrics against exact enumeration, hand-computed tables and simulated truth; scores of runs, alone and pooled."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ecdysis_lab.evaluate.comparisons import differences, paired_difference
from ecdysis_lab.evaluate.metrics import (
    cluster_interval,
    difference_interval,
    pass_at_k,
    pass_hat_k,
)
from ecdysis_lab.evaluate.results import arm_with_patterns, pooled
from ecdysis_lab.evaluate.scores import read_scores, scores, write_scores
from ecdysis_lab.evaluate.summaries import arms_block, metrics, summarise
from ecdysis_lab.records import LabError, Message, Patterns, Trajectory, Trial, Usage
from ecdysis_lab.show import tables
from ecdysis_lab.store import Run
from ecdysis_lab.train.gates import sign_test_p

AIRLINE = "tau2/airline"


def trajectory(
    task: str, seed: int, score: float | None, status: str = "scored", **fields: Any
) -> Trajectory:
    """A minimal trajectory; keyword arguments go to its trial or to the trajectory."""
    own = {k: v for k, v in fields.items() if k in Trajectory.__dataclass_fields__}
    trial = Trial(AIRLINE, "1", task, "test", "m", "sim/user", "h0", seed)
    trial = replace(trial, **{k: v for k, v in fields.items() if k not in own})
    return Trajectory(trial, status, score, "user_stop", {}, (Message("user", "hi"),), **own)  # type: ignore[arg-type]


def grid(outcomes: dict[str, list[int]], start: int = 0, **fields: Any) -> list[Trajectory]:
    """Trials of each task with these scores; ``start`` is the seed of the first."""
    return [
        trajectory(t, start + s, float(o), **fields) for t, row in outcomes.items() for s, o in enumerate(row)
    ]


def long(arms: dict[str, dict[str, list[int]]], seed: int = 0, run: str = "r0", **about: Any) -> pd.DataFrame:
    """A long table from arm -> task -> scores."""
    return pd.concat([scores(grid(tasks, seed), arm=arm, run=run, **about) for arm, tasks in arms.items()])


# -- estimators and intervals


@pytest.mark.parametrize("n", range(1, 8))
def test_estimators_equal_exact_enumeration(n):
    for c in range(n + 1):
        trials = [1] * c + [0] * (n - c)
        for k in range(1, n + 1):
            draws = list(combinations(trials, k))
            assert pass_at_k(n, c, k) == pytest.approx(sum(map(max, draws)) / len(draws), abs=1e-12)
            assert pass_hat_k(n, c, k) == pytest.approx(sum(map(min, draws)) / len(draws), abs=1e-12)


def test_estimators_are_unbiased_over_the_binomial():
    rate, n, k = 0.3, 6, 3
    weights = [_binomial(n, c) * rate**c * (1 - rate) ** (n - c) for c in range(n + 1)]
    assert sum(w * pass_hat_k(n, c, k) for c, w in enumerate(weights)) == pytest.approx(rate**k)
    assert sum(w * pass_at_k(n, c, k) for c, w in enumerate(weights)) == pytest.approx(1 - (1 - rate) ** k)


def _binomial(n: int, c: int) -> int:
    return len(list(combinations(range(n), c)))


@pytest.mark.parametrize("n, c, k", [(3, 4, 1), (3, -1, 1), (3, 1, 0), (2, 1, 3)])
def test_impossible_counts_are_refused(n, c, k):
    for estimator in (pass_at_k, pass_hat_k):
        with pytest.raises(LabError, match=r"must be between"):
            estimator(n, c, k)


@pytest.mark.parametrize("tasks", [1, 2, 7, 20])
def test_an_interval_ends_at_the_end_of_the_scale(tasks):
    assert cluster_interval([0] * tasks, [1] * tasks)[0] == 0.0
    assert cluster_interval([3] * tasks, [3] * tasks)[1] == 1.0


def test_perfect_score_keeps_an_honest_width():
    low, high = cluster_interval([3] * 20, [3] * 20)
    assert high == 1.0
    assert low == pytest.approx(0.8203, abs=1e-3)  # Wilson at 20 independent trials


def test_copies_of_a_trial_do_not_narrow_the_interval():
    outcomes = [1, 0] * 10
    one = cluster_interval(outcomes, [1] * 20)
    copied = cluster_interval([9 * o for o in outcomes], [9] * 20)
    assert copied == pytest.approx(one, abs=0.01)
    independent = cluster_interval([4, 5] * 10, [9] * 20)
    assert independent[1] - independent[0] < 0.5 * (one[1] - one[0])


SETTINGS = [(0.3, 0.2, 3), (0.5, 0.4, 3), (0.7, 0.7, 3), (0.1, 0.4, 3), (0.9, 0.4, 3), (0.5, 0.5, 9)]


@pytest.mark.parametrize("rate, likeness, trials", SETTINGS)
def test_interval_covers_the_truth_95_times_in_100(rate, likeness, trials):
    """20 tasks, difficulty beta-distributed with the given within-task correlation; 9 trials are three seeds of 3."""
    rng, scale, runs = np.random.default_rng(11), (1 - likeness) / likeness, 1000
    difficulty = rng.beta(rate * scale, (1 - rate) * scale, (runs, 20))
    successes = rng.binomial(trials, difficulty)
    hits = 0
    for seed, row in enumerate(successes):
        low, high = cluster_interval(row, np.full(20, trials), seed=seed, n_boot=300)
        hits += low <= rate <= high
    assert 0.93 <= hits / runs <= 0.97


@pytest.mark.parametrize("repaired, harmed", [(0.0, 0.0), (0.3, 0.0), (0.3, 0.15)])
def test_difference_interval_covers_the_truth(repaired, harmed):
    """An edit lifts some tasks to 0.95 and drops others to 0.05; 20 tasks x 3 seeds."""
    rng, runs = np.random.default_rng(5), 1000
    before = rng.beta(2, 2, (runs, 20))
    fate = rng.random((runs, 20))
    after = np.where(fate < repaired, 0.95, np.where(fate > 1 - harmed, 0.05, before))
    truth = repaired * 0.45 - harmed * 0.45
    steps = rng.binomial(3, after) - rng.binomial(3, before)
    hits = 0
    for seed, row in enumerate(steps):
        low, high = difference_interval(row.astype(float), np.full(20, 3.0), seed, 300)
        hits += low <= truth <= high
    assert 0.93 <= hits / runs <= 0.97


SIGN_TESTS = [(0, 0, 1.0), (5, 0, 2 / 32), (6, 0, 2 / 64), (4, 1, 12 / 32), (3, 3, 1.0)]


@pytest.mark.parametrize("gained, lost, p", SIGN_TESTS)
def test_sign_test(gained, lost, p):
    assert sign_test_p(gained, lost) == pytest.approx(p)
    assert sign_test_p(lost, gained) == pytest.approx(p)


# -- the long table


def test_the_long_table_has_one_row_a_trial_and_comes_back_from_the_run_as_it_was(tmp_path: Path) -> None:
    usage = {"agent": Usage(2, 100, 10, 0.02, 1.5, 2), "user": Usage(1, 50, 5, 0.1, 1.0, 1)}
    full = trajectory("0", 4, 1.0, usage=usage, seconds=1 / 3)
    broken = trajectory("NA", 4, None, "infra_error", usage={"agent": Usage(cost_usd=None)})
    table = scores([full, broken], arm="direct", run="r1", train_model="m", simulated=True)
    row = table.iloc[0]
    assert (row["arm"], row["run"], row["train_model"], row["task"], row["seed"]) == (
        "direct",
        "r1",
        "m",
        "0",
        4,
    )
    assert (row["score"], row["success"], row["simulated"]) == (1.0, True, True)
    assert (row["prompt_tokens"], row["completion_tokens"]) == (150, 15)
    assert row["cost_usd"] == pytest.approx(0.12)
    assert (row["seconds"], row["agent_seconds"]) == (1 / 3, 1.5)
    assert table[["score", "success", "cost_usd"]].iloc[1].isna().all()
    run = Run.open(tmp_path, "r1", {})
    with pytest.raises(LabError, match=r"run r1 keeps no scores\.csv"):
        read_scores(run)
    write_scores(run, table)
    pd.testing.assert_frame_equal(read_scores(run), table)


# -- metrics by arm and model


def test_metrics_of_a_known_table() -> None:
    trials = grid({"0": [1, 1, 1], "1": [1, 0, 0], "2": [0, 0, 0], "3": [1, 1, 0]})
    clean = metrics(scores(trials))
    others = [trajectory("0", 9, None, "infra_error", seconds=9.0), trajectory("4", 0, None, "user_fault")]
    got = metrics(scores([*trials, *others]))
    assert got["accuracy"] == pytest.approx(6 / 12)
    assert got["pass@3"] == pytest.approx(3 / 4)
    assert got["pass^3"] == pytest.approx(1 / 4)
    assert (got["n_tasks"], got["n_trials"], got["infra_errors"], got["user_faults"]) == (4, 12, 1, 1)
    low, high = got["accuracy_ci95"]
    assert 0.05 < low < 0.5 < high < 0.95
    assert {**got, "infra_errors": 0, "user_faults": 0} == clean, "unscored trials change no metric"


def test_pass_k_needs_three_trials_of_each_task_and_uses_all_there_are() -> None:
    few = metrics(scores(grid({"0": [1, 1, 1], "1": [1, 1]})))
    assert (few["pass@3"], few["pass^3"], few["accuracy"]) == (None, None, 1.0)
    five = metrics(scores(grid({"0": [1, 1, 1, 1, 0], "1": [1, 0, 0, 0, 0]})))
    assert five["pass^3"] == pytest.approx((4 / 10 + 0) / 2)
    assert five["pass@3"] == pytest.approx((1 + 6 / 10) / 2)


def test_nothing_scored_gives_none_not_zero() -> None:
    for trials, errors in (([trajectory("0", 0, None, "infra_error")], 1), ([], 0)):
        got = metrics(scores(trials))
        assert [got[n] for n in ("accuracy", "accuracy_ci95", "pass@3", "trial_seconds")] == [None] * 4
        assert (got["n_tasks"], got["n_trials"], got["infra_errors"]) == (0, 0, errors)


def test_a_score_below_one_is_no_success_and_an_unknown_price_makes_the_cost_unknown() -> None:
    usage = {"agent": Usage(1, 10, 1, None)}
    got = metrics(scores([trajectory("0", 0, 0.99), trajectory("0", 1, 0.0, usage=usage)]))
    assert (got["accuracy"], got["cost_usd"], got["prompt_tokens"]) == (0.0, None, 10)


def test_a_trial_counted_twice_is_refused() -> None:
    twins = scores([trajectory("0", 0, 1.0)] * 2, arm="human")
    for measure in (metrics, arms_block, lambda t: paired_difference(t, "direct", "human")):
        with pytest.raises(LabError, match="task 0, seed 0 of arm 'human' on m more than once"):
            measure(twins)


def test_interval_hangs_on_the_seed_only() -> None:
    table = scores(grid({str(i): [i % 2, i % 3 == 0, i % 5 == 0] for i in range(20)}))
    assert metrics(table, seed=3) == metrics(table[::-1], seed=3)
    assert metrics(table, seed=3)["accuracy_ci95"] != metrics(table, seed=4)["accuracy_ci95"]


def test_the_block_of_a_summary_and_the_table_of_cells_hold_the_same_numbers() -> None:
    table = long({"direct": {"a": [0, 0, 0], "b": [1, 1, 0]}, "ecdysis": {"a": [1, 1, 1], "b": [1, 1, 0]}})
    block, by_arm = arms_block(table, 5), summarise(table, 5).set_index("arm")
    assert "difference_ci95" not in block["direct"]["m"] and pd.isna(by_arm.loc["direct", "gain_low"])
    for arm, row in by_arm.iterrows():
        got = block[str(arm)]["m"]
        assert [row[n] for n in ("accuracy", "pass@3", "pass^3", "n_trials", "trial_seconds")] == [
            got[n] for n in ("accuracy", "pass@3", "pass^3", "n_trials", "trial_seconds")
        ]
        assert [row["ci_low"], row["ci_high"]] == got["accuracy_ci95"]
    row, got = by_arm.loc["ecdysis"], block["ecdysis"]["m"]
    assert ([row["gain_low"], row["gain_high"]], row["paired_trials"]) == (got["difference_ci95"], 6)
    assert got["paired_trials"] == 6


def test_the_same_task_of_two_benchmarks_is_two_tasks_apart() -> None:
    both = [*grid({"0": [1, 1, 1]}), *grid({"0": [0, 0, 0]}, benchmark="tau2/retail")]
    by_arm = summarise(scores(both))
    assert by_arm["benchmark"].tolist() == [AIRLINE, "tau2/retail"]
    assert by_arm["pass^3"].tolist() == [1.0, 0.0]


# -- paired differences


def test_paired_difference_of_a_known_table() -> None:
    table = long(
        {
            "a": {"0": [0, 0, 0], "1": [1, 1, 0], "2": [1, 1, 1], "3": [0, 1, 0]},
            "b": {"0": [1, 1, 1], "1": [1, 1, 1], "2": [0, 1, 1], "3": [1, 0, 0]},
        }
    )
    got = paired_difference(table, "a", "b")
    assert got["difference"] == pytest.approx((9 - 6) / 12)
    assert (got["gained"], got["lost"], got["sign_test_p"]) == (2, 1, 1.0)
    assert (got["n_pairs"], got["n_tasks"], got["dropped"]) == (12, 4, 0)
    ends = difference_interval(np.array([3.0, 1.0, -1.0, 0.0]), np.full(4, 3.0))
    assert [got["ci_low"], got["ci_high"]] == ends
    back = paired_difference(table, "b", "a")
    assert (back["difference"], back["gained"], back["lost"]) == (pytest.approx(-0.25), 1, 2)


def test_a_trial_without_its_pair_is_dropped_and_counted() -> None:
    table = long({"direct": {"a": [0, 0, 0]}, "ecdysis": {"a": [1, 1], "b": [1]}})
    got = paired_difference(table, "direct", "ecdysis")
    assert (got["n_pairs"], got["dropped"], got["difference"]) == (2, 2, 1.0)
    assert paired_difference(table, "direct", "human") == {}
    unscored = scores([trajectory("a", 0, None, "infra_error")], arm="human", run="r0")
    assert paired_difference(pd.concat([table, unscored]), "direct", "human") == {}


def test_equal_arms_differ_by_zero_with_some_width() -> None:
    tasks = {str(i): [1, 0, 1] for i in range(20)}
    got = paired_difference(long({"a": tasks, "b": tasks}), "a", "b")
    assert (got["difference"], got["gained"], got["lost"]) == (0.0, 0, 0)
    assert got["ci_high"] == pytest.approx(0.0549, abs=1e-3) and got["ci_low"] == -got["ci_high"]


# -- several runs as one


FIRST = {"direct": {"a": [0, 0, 0], "b": [1, 1, 0]}, "ecdysis": {"a": [1, 1, 1], "b": [1, 1, 0]}}
SECOND = {"direct": {"a": [0, 1, 0], "c": [1, 1, 1]}, "ecdysis": {"a": [1, 0, 1], "c": [0, 1, 1]}}


def leave(root: Path, seed: int, arms: dict[str, dict[str, list[int]]], **other: Any) -> Run:
    """An evaluated run with one model."""
    block = {"rounds": [{"decision": "accepted", "editor_calls": 1 + seed}], "phase_seconds": {"review": 2.0 + seed},
             "cost_usd": 1.0 + seed, "wall_seconds": 8.0}  # fmt: skip
    summary = {"run_id": f"r{seed}", "commit": "abc", "seed": seed, "simulated": True, "benchmark": AIRLINE,
               "train_model": "m", "training": {"ecdysis": block}} | other  # fmt: skip
    run = Run.open(root, summary["run_id"], {})
    run.write_json("summary.json", summary)
    table = long(arms, 1000 * seed, run.run_id, train_model="m", simulated=True)
    write_scores(run, table.assign(seconds=2.0 + seed, benchmark=summary["benchmark"]))
    return run


def test_accuracy_is_the_mean_over_seeds_with_one_cluster_a_task(tmp_path: Path) -> None:
    (found,) = pooled([leave(tmp_path, 1, SECOND), leave(tmp_path, 0, FIRST)])
    cell = found.by_arm.set_index("arm").loc["direct"]
    assert (cell["accuracy"], cell["seed_low"], cell["seed_high"]) == (6 / 12, 2 / 6, 4 / 6)
    assert (cell["n_tasks"], cell["n_trials"], cell["n_seeds"]) == (3, 12, 2)
    assert cell["pass@3"] == pytest.approx(3 / 4) and cell["pass^3"] == pytest.approx(1 / 4)
    # Task a was drawn by both seeds and is one cluster of six trials.
    assert [cell["ci_low"], cell["ci_high"]] == cluster_interval([1, 2, 3], [6, 3, 3])
    assert cell["trial_seconds"] == 2.5 and cell["simulated"]
    assert (found.seeds, [r.run_id for r in found.runs], found.name) == ([0, 1], ["r0", "r1"], "2 runs")
    trained = found.training["ecdysis"]
    assert (trained["cost_usd"], trained["editor_calls"], trained["n_accepted"]) == (1.5, 1.5, 1)
    assert (trained["phase_seconds"], trained["prompt_tokens"]) == ({"review": 2.5}, None)
    shown = tables.arms_table(found.by_arm).set_index("arm").loc["direct"]
    assert (shown["accuracy (%)"], shown["range over seeds (%)"]) == ("50.0", "33–67")


def test_differences_pair_run_task_and_trial_seed(tmp_path: Path) -> None:
    (found,) = pooled([leave(tmp_path, 0, FIRST), leave(tmp_path, 1, SECOND)])
    frame = differences(found.scores)
    (row,) = frame.to_dict("records")
    assert (row["arm"], row["against"], row["model"]) == ("ecdysis", "direct", "m")
    assert row["difference"] == pytest.approx((3 + 0 + 1 - 1) / 12)
    assert (row["gained"], row["lost"], row["n_tasks"], row["n_pairs"]) == (1, 1, 3, 12)
    assert row["sign_test_p"] == 1.0 and row["ci_low"] < 0.25 < row["ci_high"]
    cell = found.by_arm.set_index("arm").loc["ecdysis"]
    assert (cell["gain_low"], cell["gain_high"]) == (row["ci_low"], row["ci_high"])
    assert tables.differences_table(frame)["points"].tolist() == ["+25.0"]


def test_runs_that_do_not_belong_together_are_refused_or_kept_apart(tmp_path: Path) -> None:
    first = leave(tmp_path, 0, FIRST)
    with pytest.raises(LabError, match=r"seed 0 occurs 2 times for tau2/airline .*differ in their seed only"):
        pooled([first, leave(tmp_path, 0, FIRST, run_id="other")])
    with pytest.raises(LabError, match="run r0 occurs 2 times"):
        pooled([first, first])
    with pytest.raises(LabError, match="no run"):
        pooled([])
    apart = pooled([first, leave(tmp_path, 1, SECOND, benchmark="tau2/retail")])
    assert [(g.benchmark, g.name) for g in apart] == [(AIRLINE, "run r0"), ("tau2/retail", "run r1")]


def test_the_map_is_drawn_of_an_arm_that_groups_its_failures(tmp_path: Path) -> None:
    """``self-evolution`` hands over every failure by itself and leaves no patterns."""
    folder = Run.open(tmp_path, "r", {})
    rounds = {
        "self-evolution": [{"failures": 3}],
        "ecdysis-no-fdcr": [{"failures": 0}],
        "ecdysis": [{"failures": 3}],
    }
    summary = {"training": {arm: {"rounds": r} for arm, r in rounds.items()}}
    assert arm_with_patterns(folder, summary) is None
    for arm in ("ecdysis-no-fdcr", "ecdysis"):
        folder.round(arm, 1).patterns = Patterns((), {}, {}, "signature", "none", 1.0, None)
    assert arm_with_patterns(folder, summary) == "ecdysis"
