"""The A/A noise floor against enumeration and simulation, and the gate it speaks about."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from test_evaluate import grid, trajectory

from ecdysis_lab.evaluate.noise import from_counts, gain_distribution, noise_floor
from ecdysis_lab.records import LabError
from ecdysis_lab.train.gates import rises
from ecdysis_lab.train.judging import Rerun


@pytest.mark.parametrize("c, m, repeats", [(3, 2, 2), (0, 2, 2), (4, 2, 2), (2, 2, 3), (5, 3, 2), (1, 1, 2)])
def test_gains_of_one_task_equal_exact_enumeration(c, m, repeats):
    pool = [1] * c + [0] * (m * repeats - c)
    index = range(len(pool))
    splits = [
        (a, b) for a in combinations(index, m) for b in combinations([i for i in index if i not in a], m)
    ]
    found = [sum(pool[i] for i in b) - sum(pool[i] for i in a) for a, b in splits]
    gains, chances = gain_distribution([c], m, repeats)
    assert gains.tolist() == list(range(-m, m + 1))
    assert chances == pytest.approx([found.count(g) / len(found) for g in gains])


def test_the_floor_of_a_known_setting():
    # Two tasks, one trial a side, one success among two trials each: gains -2, 0, 0, 2 with equal chances.
    got = from_counts([1, 1], 1)
    assert got.null_accept_rate == pytest.approx(0.25) and got.sd == pytest.approx(2**0.5)
    assert got.smallest_gain == 3 and from_counts([1, 1], 1, alpha=0.25).smallest_gain == 1
    assert from_counts([1, 1], 1, alpha=0.3).share == 0.5
    sure = from_counts([0, 6, 6, 0], 3)
    assert (sure.null_accept_rate, sure.smallest_gain, sure.sd) == (0.0, 1, 0.0)
    assert from_counts([3] * 20, 3).smallest_gain == 11


def test_the_floor_comes_from_trajectories():
    first = grid({"0": [1, 0, 1], "1": [0, 0, 0]})
    second = [
        trajectory(t, 10 + s, float(o))
        for t, row in (("0", [0, 0, 1]), ("1", [1, 0, 0]))
        for s, o in enumerate(row)
    ]
    second.append(trajectory("1", 19, None, "infra_error"))
    got = noise_floor([first, second])
    assert got.sums == (2.0, 2.0) and (got.n_tasks, got.trials, got.repeats) == (2, 3, 2)
    assert got == from_counts([3, 1], 3, 2, 0.05, (2.0, 2.0))


def test_evaluations_that_say_nothing_about_noise_are_refused():
    one = grid({"0": [1, 0], "1": [1, 1]})
    other = [trajectory(t, 10 + s, 1.0) for t in "01" for s in range(2)]
    with pytest.raises(LabError, match="at least two evaluations"):
        noise_floor([one])
    with pytest.raises(LabError, match="one trial stands in two evaluations"):
        noise_floor([one, one])
    with pytest.raises(LabError, match="same number of scored trials of each task"):
        noise_floor([one, other[:3]])
    with pytest.raises(LabError, match="are of 2 harnesses"):
        noise_floor([one, grid({"0": [1, 0], "1": [1, 1]}, harness="h1")])


def test_a_null_edit_is_accepted_no_more_often_than_the_a_a_run_predicts():
    """Many labs: each measures A/A twice, then the real gate judges an edit that does nothing; 20 tasks x 3."""
    rng, labs = np.random.default_rng(3), 300
    predicted, accepted, beyond = [], [], []
    for _ in range(labs):
        rate = rng.beta(1, 1, 20)
        floor = from_counts(rng.binomial(6, rate), 3)
        sides = [rng.random((20, 3)) < rate[:, None] for _ in range(2)]
        before, after = (grid({str(t): row.astype(int) for t, row in enumerate(side)}) for side in sides)
        rerun = Rerun(before, after)
        predicted.append(floor.null_accept_rate)
        accepted.append(rises(rerun).outcome == "passed")
        beyond.append(rerun.comparison.after - rerun.comparison.before >= floor.smallest_gain)
    noise = 1.96 * (0.25 / labs) ** 0.5
    assert np.mean(accepted) <= np.mean(predicted) + noise
    assert np.mean(predicted) == pytest.approx(0.45, abs=0.02)  # near a coin: a bare rise says little
    assert np.mean(beyond) <= 0.05 + 1.96 * (0.05 * 0.95 / labs) ** 0.5


def test_the_prediction_is_unbiased_whatever_the_tasks():
    rng = np.random.default_rng(8)
    for a, b in ((1, 1), (0.3, 0.3), (4, 2)):
        rate = rng.beta(a, b, 20)
        truth = np.mean(rng.binomial(3, rate, (40000, 20)).sum(1) < rng.binomial(3, rate, (40000, 20)).sum(1))
        told = np.mean([from_counts(rng.binomial(6, rate), 3).null_accept_rate for _ in range(200)])
        assert told == pytest.approx(truth, abs=0.02)
