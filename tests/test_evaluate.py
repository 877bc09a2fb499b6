"""Metrics against exact enumeration, hand-computed tables and simulated truth."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from ecdysis_lab.evaluate.metrics import (
    cluster_interval,
    difference_interval,
    pass_at_k,
    pass_hat_k,
)
from ecdysis_lab.evaluate.scores import COLUMNS, paired_difference, summarise, table
from ecdysis_lab.records import Intervention, LabError, Message, Trajectory, Trial, Usage
from ecdysis_lab.train.gates import sign_test_p


def trajectory(task: str, seed: int, score: float | None, status: str = "scored", **fields) -> Trajectory:
    """A minimal trajectory; keyword arguments go to its trial or to the trajectory."""
    trial = Trial("tau2/airline", "1", task, "test", "sim/small", "sim/user", "h0", seed)
    own = {k: v for k, v in fields.items() if k in Trajectory.__dataclass_fields__}
    trial = replace(trial, **{k: v for k, v in fields.items() if k not in own})
    return Trajectory(trial, status, score, "user_stop", {}, (Message("user", "hi"),), **own)


def grid(outcomes: dict[str, list[int]], **fields) -> list[Trajectory]:
    return [trajectory(t, s, float(o), **fields) for t, row in outcomes.items() for s, o in enumerate(row)]


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


def test_summary_of_a_known_table():
    trials = grid({"0": [1, 1, 1], "1": [1, 0, 0], "2": [0, 0, 0], "3": [1, 1, 0]})
    trials += [trajectory("0", 9, None, "infra_error"), trajectory("4", 0, None, "user_fault")]
    got = summarise(trials)
    assert got["accuracy"] == pytest.approx(6 / 12)
    assert got["pass@3"] == pytest.approx(3 / 4)
    assert got["pass^3"] == pytest.approx(1 / 4)
    assert (got["n_tasks"], got["n_trials"], got["infra_errors"], got["user_faults"]) == (4, 12, 1, 1)
    low, high = got["accuracy_ci95"]
    assert 0.05 < low < 0.5 < high < 0.95


def test_unscored_trials_change_no_metric():
    trials = grid({"0": [1, 1, 1], "1": [0, 0, 1]})
    extra = [trajectory("0", 7, None, "infra_error"), trajectory("1", 7, None, "user_fault")]
    clean, noisy = summarise(trials), summarise(trials + extra)
    for name in ("accuracy", "pass@3", "pass^3", "accuracy_ci95", "n_tasks", "n_trials"):
        assert clean[name] == noisy[name]


def test_pass_k_is_none_with_fewer_than_three_trials_of_a_task():
    got = summarise(grid({"0": [1, 1, 1], "1": [1, 1]}))
    assert got["pass@3"] is None and got["pass^3"] is None
    assert got["accuracy"] == 1.0


def test_five_trials_use_the_unbiased_estimators():
    got = summarise(grid({"0": [1, 1, 1, 1, 0], "1": [1, 0, 0, 0, 0]}))
    assert got["pass^3"] == pytest.approx((4 / 10 + 0) / 2)
    assert got["pass@3"] == pytest.approx((1 + 6 / 10) / 2)


def test_nothing_scored_gives_none_not_zero():
    got = summarise([trajectory("0", 0, None, "infra_error")])
    assert got["accuracy"] is None and got["accuracy_ci95"] is None and got["pass@3"] is None
    assert (got["n_tasks"], got["n_trials"], got["infra_errors"]) == (0, 0, 1)


def test_same_task_id_of_two_benchmarks_is_two_tasks():
    trials = grid({"0": [1, 1, 1]}) + grid({"0": [0, 0, 0]}, benchmark="tau2/retail")
    assert summarise(trials)["n_tasks"] == 2
    assert summarise(trials)["pass^3"] == 0.5


def test_a_trial_counted_twice_is_refused():
    one = trajectory("0", 0, 1.0)
    with pytest.raises(LabError, match="more than once"):
        summarise([one, one])


@pytest.mark.parametrize("tasks", [1, 2, 7, 20])
def test_an_interval_ends_at_the_end_of_the_scale(tasks):
    assert cluster_interval([0] * tasks, [1] * tasks)[0] == 0.0
    assert cluster_interval([3] * tasks, [3] * tasks)[1] == 1.0


def test_interval_hangs_on_the_seed_only():
    trials = grid({str(i): [i % 2, i % 3 == 0, i % 5 == 0] for i in range(20)})
    assert summarise(trials, seed=3) == summarise(trials[::-1], seed=3)
    assert summarise(trials, seed=3)["accuracy_ci95"] != summarise(trials, seed=4)["accuracy_ci95"]


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


@pytest.mark.parametrize("rate, likeness", [(0.3, 0.2), (0.5, 0.4), (0.7, 0.7), (0.1, 0.4), (0.9, 0.4)])
def test_interval_covers_the_truth_95_times_in_100(rate, likeness):
    """20 tasks x 3 trials, task difficulty beta-distributed with the given within-task correlation."""
    rng, scale, runs = np.random.default_rng(11), (1 - likeness) / likeness, 2000
    difficulty = rng.beta(rate * scale, (1 - rate) * scale, (runs, 20))
    successes = rng.binomial(3, difficulty)
    hits = 0
    for seed, row in enumerate(successes):
        low, high = cluster_interval(row, np.full(20, 3), seed=seed, n_boot=300)
        hits += low <= rate <= high
    assert 0.93 <= hits / runs <= 0.97


@pytest.mark.parametrize("repaired, harmed", [(0.0, 0.0), (0.3, 0.0), (0.3, 0.15)])
def test_difference_interval_covers_the_truth(repaired, harmed):
    """An edit lifts some tasks to 0.95 and drops others to 0.05; 20 tasks x 3 seeds."""
    rng, runs = np.random.default_rng(5), 2000
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


def test_paired_difference_of_a_known_table():
    a = grid({"0": [0, 0, 0], "1": [1, 1, 0], "2": [1, 1, 1], "3": [0, 1, 0]})
    b = grid({"0": [1, 1, 1], "1": [1, 1, 1], "2": [0, 1, 1], "3": [1, 0, 0]}, harness="h1")
    got = paired_difference(a, b)
    assert got["difference"] == pytest.approx((9 - 6) / 12)
    assert got["gained"] == ["0", "1"] and got["lost"] == ["2"]
    assert got["sign_test_p"] == 1.0
    assert (got["n_pairs"], got["n_tasks"], got["dropped"]) == (12, 4, 0)
    assert got["ci95"][0] < got["difference"] < got["ci95"][1]
    back = paired_difference(b, a)
    assert back["difference"] == pytest.approx(-0.25) and back["gained"] == ["2"]


def test_missing_pair_is_an_error_and_can_be_dropped_only_on_demand():
    a, b = grid({"0": [0, 0], "1": [1, 1]}), grid({"0": [1, 1], "1": [1]}, harness="h1")
    b.append(trajectory("1", 1, None, "infra_error", harness="h1"))
    with pytest.raises(LabError, match=r"b has no scored trial of task 1 .*seed 1"):
        paired_difference(a, b)
    got = paired_difference(a, b, missing="drop")
    assert got["dropped"] == 1 and got["n_pairs"] == 3 and got["difference"] == pytest.approx(2 / 3)
    with pytest.raises(LabError, match="'raise' or 'drop'"):
        paired_difference(a, b, missing="ignore")


def test_two_trials_for_one_pair_and_no_common_pair_are_errors():
    a = grid({"0": [1]})
    with pytest.raises(LabError, match="two scored trials of task 0"):
        paired_difference(a + grid({"0": [0]}, harness="h2"), a)
    with pytest.raises(LabError, match="share no scored trial"):
        paired_difference(a, grid({"0": [1]}, model="sim/large"), missing="drop")


def test_equal_arms_differ_by_zero_with_some_width():
    a = grid({str(i): [1, 0, 1] for i in range(20)})
    got = paired_difference(a, grid({str(i): [1, 0, 1] for i in range(20)}, harness="h1"))
    assert got["difference"] == 0.0 and got["gained"] == [] and got["lost"] == []
    assert got["ci95"][1] == pytest.approx(0.0549, abs=1e-3) and got["ci95"][0] == -got["ci95"][1]


SIGN_TESTS = [(0, 0, 1.0), (5, 0, 2 / 32), (6, 0, 2 / 64), (4, 1, 12 / 32), (3, 3, 1.0)]


@pytest.mark.parametrize("gained, lost, p", SIGN_TESTS)
def test_sign_test(gained, lost, p):
    assert sign_test_p(gained, lost) == pytest.approx(p)
    assert sign_test_p(lost, gained) == pytest.approx(p)


def test_table_has_one_row_a_trial_with_sums_over_roles():
    usage = {"agent": Usage(2, 100, 10, 0.02, 1.0, 2), "user": Usage(1, 50, 5, 0.01, 1.0, 1)}
    acts = (Intervention(1, "check", "refuse"), Intervention(2, "observe", "annotate"))
    full = trajectory("0", 4, 1.0, usage=usage, interventions=acts, seconds=2.5)
    broken = trajectory("1", 4, None, "infra_error", usage={"agent": Usage(cost_usd=None)})
    frame = table([full, broken], {"h0": "direct"})
    assert tuple(frame.columns) == COLUMNS and len(frame) == 2
    row = frame.iloc[0]
    assert row["arm"] == "direct" and row["success"] and row["seconds"] == 2.5 and row["seed"] == 4
    assert row["cost_usd"] == pytest.approx(0.03)
    assert (row["prompt_tokens"], row["completion_tokens"]) == (150, 15)
    assert (row["interventions"], row["refusals"]) == (2, 1)
    assert frame[["score", "success", "cost_usd"]].iloc[1].isna().all()


def test_table_takes_one_arm_or_a_mapping_by_trial_and_names_an_unknown_one():
    one = trajectory("0", 0, 1.0)
    assert table([one], "human")["arm"].tolist() == ["human"]
    assert table([one], {one.key: "ecdysis", "h0": "direct"})["arm"].tolist() == ["ecdysis"]
    with pytest.raises(LabError, match="arms it knows: human"):
        table([one], {"other": "human"})
    assert len(table([], "human")) == 0


def test_score_below_one_is_no_success():
    assert summarise([trajectory("0", 0, 0.99)])["accuracy"] == 0.0
