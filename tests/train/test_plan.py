"""The plan: smallest gains, counts, tokens and cost of a small case, worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ecdysis_lab.cli.parser import main
from ecdysis_lab.records import Trajectory, Trial, Usage
from ecdysis_lab.store import Store
from ecdysis_lab.train import plan
from ecdysis_lab.train.settings import configure

SMALL = {"train_tasks": 10, "test_tasks": 5, "trials": 2, "rounds": 3, "test_models": "sim/small"}


def test_six_tasks_have_to_rise_before_a_sign_test_believes_it() -> None:
    """2 x 0.5^6 = 0.031 is under 0.05, 2 x 0.5^5 = 0.063 is not."""
    assert plan.smallest_gain(20, 3) == {"tasks": 20, "trials": 3, "net_tasks": 6, "points": 10.0}
    assert plan.smallest_gain(6, 1)["points"] == 100.0
    assert plan.smallest_gain(5, 3)["net_tasks"] is plan.smallest_gain(5, 3)["points"] is None


def test_without_earlier_trials_a_typical_one_counts_and_says_so(tmp_path: Path) -> None:
    """20 training and 10 test trials of 12 calls and 77,000 tokens; 10 of 20 training trials fail."""
    arms = "direct,self-evolution,self-evolution-verified,ecdysis-no-fdcr,ecdysis"
    found = plan.plan(configure(**SMALL, arms=arms), Store(tmp_path))
    rows = {row["arm"]: row for row in found["arms"]}
    per_trial, context, answer = 77_000, 80_000, 1_500
    assert rows["direct"] == {
        "arm": "direct", "training_trials": 0, "test_trials": 10, "agent_calls": 120, "review_calls": 0,
        "editor_calls": 0, "tokens": 10 * per_trial, "cost_usd": 0.0,
    }  # fmt: skip
    # 20 of the start harness and a rerun in each of 3 rounds; each of 10 failures is reviewed for the rules editor
    assert rows["self-evolution"] == {
        "arm": "self-evolution", "training_trials": 80, "test_trials": 10, "agent_calls": 90 * 12, "review_calls": 30,
        "editor_calls": 30, "tokens": 90 * per_trial + 30 * (15_000 + answer), "cost_usd": 0.0,
    }  # fmt: skip
    # each edit reruns its own task, all but the first of a round also before it; rounds 2 and 3 begin with all tasks
    assert rows["self-evolution-verified"]["training_trials"] == 30 * 2 + 27 * 2 + 2 * 20
    assert [rows["ecdysis-no-fdcr"][c] for c in ("training_trials", "review_calls", "editor_calls")] == [
        60,
        6,
        3,
    ]
    ecdysis = rows["ecdysis"]
    assert (ecdysis["review_calls"], ecdysis["editor_calls"]) == (3 * (3 * 2 + 1), 3)
    assert ecdysis["tokens"] == 70 * per_trial + 21 * (context + answer)
    assert found["total"]["editor_calls"] == 30 + 30 + 3 + 3
    assert found["basis"] == [f"sim/small: {plan.TYPICAL.about}"]
    alone = plan.trials_of_model(configure(benchmark="agentbench/dbbench"), Store(tmp_path), "sim/small")
    assert alone == replace(plan.TYPICAL_ALONE, cost_usd=0.0)


def test_a_model_that_edits_needs_no_reviewer_alone_and_a_price_nobody_knows_stays_unknown(
    tmp_path: Path,
) -> None:
    settings = configure(
        **SMALL | {"test_models": ""}, model="openai/nobody", review_model="openai/nobody", editor="litellm",
        arms="self-evolution,ecdysis-no-fdcr,ecdysis",
    )  # fmt: skip
    found = plan.plan(settings, Store(tmp_path))
    alone, no_fdcr, ecdysis = found["arms"]
    assert (alone["review_calls"], alone["editor_calls"]) == (0, 30)
    assert (no_fdcr["review_calls"], no_fdcr["editor_calls"]) == (0, 3)
    # each round: the rerun, and parent and candidate once more on fresh seeds
    assert settings.repeats == 1 and no_fdcr["training_trials"] == 3 * 20 * (1 + 2)
    assert ecdysis["cost_usd"] is None and found["total"]["cost_usd"] is None
    assert any(line.endswith("unknown") for line in plan.lines(found))


def test_earlier_trials_are_what_is_expected(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for task, score in (("1", 1.0), ("2", 0.0), ("3", 0.0), ("4", 0.0)):
        usage = {"agent": Usage(4, 1000, 100, 0.5), "user": Usage(4, 200, 20, 0.25)}
        trial = Trial("tau2/airline", "1", task, "train", "sim/small", "sim/user", "a", 0)
        store.put(Trajectory(trial, "scored", score, "user_stop", {}, (), usage=usage))
    found = plan.plan(configure(**SMALL, arms="self-evolution"), store)
    (row,) = found["arms"]
    assert row["editor_calls"] == 3 * 15, "three of four trials fail"
    assert row["agent_calls"] == 4 * 90 and row["tokens"] == 90 * 1320 + 45 * 16_500
    assert row["cost_usd"] == pytest.approx(90 * 0.75)
    assert found["basis"] == ["sim/small: the mean of 4 earlier trials on tau2/airline"]


def test_trials_of_no_arm_are_counted(tmp_path: Path) -> None:
    """Three A/A evaluations of 20 trials; of three models, the one that trains has run the start harness already."""
    models = "sim/small,sim/medium,sim/large"
    given = SMALL | {"noise_floor": 3, "paired": True, "test_models": models}
    for arms, paired in (("ecdysis", 40), ("direct", 60)):
        found = plan.plan(configure(**given, arms=arms), Store(tmp_path))
        assert [(r["arm"], r["training_trials"]) for r in found["others"]] == [
            ("noise_floor", 60),
            ("paired", paired),
        ]
        for count in plan.COUNTS:
            assert found["total"][count] == sum(r[count] for r in [*found["arms"], *found["others"]])
        text = plan.lines(found)
        assert any(line.startswith("noise_floor ") for line in text) and plan.NOT_COUNTED in text[-1]


def test_a_user_has_its_own_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agent at 1 USD a token, user at 10: four and one fifth of 77,000 tokens; no user, no price of one."""
    prices = {"openai/agent": (1.0, 1.0), "openai/user": (10.0, 10.0)}
    monkeypatch.setattr(plan, "price_of", prices.get)
    settings = configure(**SMALL, model="openai/agent", user_model="openai/user")
    found = plan.trials_of_model(settings, Store(tmp_path), "openai/agent")
    assert found.cost_usd == pytest.approx(77_000 * (0.8 + 2.0))
    solo = settings.but(benchmark="tests.toy_benchmark:make", start="empty")
    assert plan.trials_of_model(solo, Store(tmp_path), "openai/agent").cost_usd == pytest.approx(2_090)


def test_the_command_prints_the_plan_and_calls_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--train-tasks", "10", "--arms", "direct,ecdysis", "--data", str(tmp_path)]
    assert main(["plan", "--json", *given]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["arm"] for row in found["arms"]] == ["direct", "ecdysis"]
    assert main(["plan", *given]) == 0
    text = capsys.readouterr().out
    assert "train: 10 tasks x 3 trials: the smallest gain that is no chance" in text and "is 6 tasks" in text
    assert Store(tmp_path).keys() == set()
