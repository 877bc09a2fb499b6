"""One experiment end to end: the summary's fields, its determinism, its costs, and going on after a stop."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2")

from simlab import plain

from ecdysis_lab.cli import parser
from ecdysis_lab.evaluate import experiment as module
from ecdysis_lab.evaluate import results
from ecdysis_lab.evaluate.experiment import Experiment
from ecdysis_lab.evaluate.scores import read_scores
from ecdysis_lab.evaluate.summaries import arms_block
from ecdysis_lab.harness import load_harness
from ecdysis_lab.models import answers
from ecdysis_lab.models.calls import BudgetExceeded
from ecdysis_lab.records import LabError, Usage
from ecdysis_lab.show import figures as draw
from ecdysis_lab.show import report, tables
from ecdysis_lab.store import Run, Store
from ecdysis_lab.store.billing import KeyFile
from ecdysis_lab.train.arms import ARMS
from ecdysis_lab.train.settings import Settings, check_parts, configure, smoke

SMALL: dict[str, Any] = {
    "train_tasks": 12, "test_tasks": 3, "trials": 2, "rounds": 1, "seed": 2, "start": "empty", "embedder": "tfidf",
    "test_models": "sim/small,sim/large", "workers": 1, "arms": "direct,human,ecdysis",
}  # fmt: skip
ARM = ("accuracy", "pass@3", "pass^3", "accuracy_ci95", "n_tasks", "n_trials", "infra_errors")
ROUND = (
    "round", "failures", "patterns", "recurring", "subset", "decision", "gate", "score_before", "score_after",
    "gained", "lost", "editor_calls",
)  # fmt: skip
COSTS = ("wall_seconds", "cost_usd", "billed_usd", "prompt_tokens", "completion_tokens")


def small(**other: Any) -> Settings:
    return configure(**(SMALL | other))


def read(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.folder / "summary.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    experiment = Experiment(small(), tmp_path_factory.mktemp("done"))
    experiment.go()
    return experiment


# -- the summary --------------------------------------------------------------------------------------------------


def test_the_summary_has_every_field_under_its_name(done: Experiment) -> None:
    summary = read(done.run)
    assert {"run_id", "commit", "seed", "simulated", "benchmark", "arms", "training"} <= set(summary)
    assert set(COSTS) <= set(summary)
    assert (summary["run_id"], summary["seed"]) == (done.run.run_id, 2)
    assert (summary["simulated"], summary["benchmark"]) == (True, "tau2/airline")
    assert re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?|unknown", summary["commit"])
    assert list(summary["arms"]) == ["direct", "human", "ecdysis"]
    for models in summary["arms"].values():
        assert list(models) == ["sim/small", "sim/large"]
        for numbers in models.values():
            assert set(ARM) <= set(numbers)
    assert list(summary["training"]) == ["ecdysis"]
    trained = summary["training"]["ecdysis"]
    assert {"rounds", *COSTS} <= set(trained)
    for record in trained["rounds"]:
        assert set(ROUND) <= set(record)


def test_the_numbers_are_those_of_the_store_and_of_the_table_of_scores(done: Experiment) -> None:
    summary, store = read(done.run), Store(done.store.root)
    table = read_scores(done.run)
    assert len(table) == 3 * 2 * 6 and set(table["run"]) == {done.run.run_id} and table["simulated"].all()
    assert json.loads(json.dumps(arms_block(table, 2))) == summary["arms"]
    for arm, models in summary["arms"].items():
        for model, numbers in models.items():
            trials = store.trajectories(split="test", model=model, harness=summary["harness"][arm])
            assert (numbers["n_tasks"], numbers["n_trials"]) == (3, 6) == (3, len(trials))
            assert numbers["accuracy"] == sum(t.success for t in trials) / 6
            low, high = numbers["accuracy_ci95"]
            assert 0 <= low <= numbers["accuracy"] <= high <= 1
            assert (numbers["pass@3"], numbers["infra_errors"]) == (None, 0), (
                "two trials say nothing about three"
            )
    record = summary["training"]["ecdysis"]["rounds"][0]
    before = store.trajectories(split="train", harness=load_harness("empty").hash)
    assert record["score_before"] == sum(t.score or 0 for t in before)
    assert record["failures"] == sum(not t.success for t in before)


def test_the_harnesses_are_named(done: Experiment) -> None:
    hashes = read(done.run)["harness"]
    assert hashes["direct"] == load_harness("empty").hash
    assert hashes["human"] == load_harness("airline").hash
    assert hashes["ecdysis"] == done.run.frozen("ecdysis")
    assert load_harness(done.run.harness_path(hashes["ecdysis"])).hash == hashes["ecdysis"]


def test_the_run_is_told_as_done(done: Experiment) -> None:
    assert done.run.status["state"] == "done"
    assert done.run.config["seed"] == 2
    assert len(done.run.ledger()) == 1


def test_tables_for_people(done: Experiment) -> None:
    summary = read(done.run)
    (found,) = results.pooled([done.run])
    table = tables.arms_table(found.by_arm)
    assert len(table) == 6
    row = table[(table["arm"] == "direct") & (table["model"] == "sim/small")].iloc[0]
    assert row["accuracy (%)"] == f"{100 * summary['arms']['direct']['sim/small']['accuracy']:.1f}"
    assert (row["Pass@3 (%)"], row["tasks"], row["trials"]) == ("–", 3, 6)
    rounds = tables.rounds_table(results.rounds_frame(found.training))
    record = summary["training"]["ecdysis"]["rounds"][0]
    assert rounds.iloc[0]["failures"] == record["failures"]
    assert rounds.iloc[0]["gained"] == len(record["gained"])
    assert tables.title(summary) == "SIMULATED · tau2/airline · trained on sim/small · seed 2"
    failures, patterns, subset = results.round_evidence(done.run, "ecdysis")
    assert (len(failures), len(patterns.patterns)) == (record["failures"], record["patterns"])
    assert len(subset.picks) == record["subset"]
    with pytest.raises(LabError, match="no evidence of round 7"):
        results.round_evidence(done.run, "ecdysis", 7)


# -- determinism and stops ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_workers_give_the_same_summary(done: Experiment, tmp_path: Path) -> None:
    again = Experiment(small(workers=2), tmp_path)
    assert again.run.run_id == done.run.run_id
    assert plain(json.loads(json.dumps(again.go()))) == plain(read(done.run))
    assert again.store.keys() == done.store.keys()


@pytest.mark.parametrize("where", ["training", "testing", "summary"])
def test_a_stop_and_a_second_start_give_the_same_summary(
    where: str, done: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(what: str, count: int, total: int) -> None:
        if where in ("training", "testing") and what.startswith(mark) and count == 4:
            raise KeyboardInterrupt

    mark = {"training": "ecdysis round 1: training", "testing": "human on sim/large"}.get(where, "never")
    config = small() if where == "testing" else small(arms="ecdysis", test_models="sim/small")
    first = Experiment(config, tmp_path, progress=stop)
    if where == "summary":
        monkeypatch.setattr("ecdysis_lab.evaluate.experiment.arms_block", interrupt)
    with pytest.raises(KeyboardInterrupt):
        first.go()
    monkeypatch.undo()
    status = first.run.status
    assert (status["state"], status["error"]) == (
        "interrupted", "KeyboardInterrupt: the same command continues where it stopped",
    )  # fmt: skip
    assert first.run.summary is None
    second, ran, finished = Experiment(config, tmp_path), list[str](), set(first.store.keys())
    monkeypatch.setattr(KeyFile, "__call__", lambda self, t: ran.append(t.key) or self.add([t.key]))
    found = plain(json.loads(json.dumps(second.go())))
    assert not finished & set(ran), "a finished trial was run again"
    assert second.run.status["state"] == "done"
    if where == "testing":
        assert found == plain(read(done.run))
    else:
        assert (
            found["arms"]["ecdysis"]["sim/small"]["accuracy"]
            == read(done.run)["arms"]["ecdysis"]["sim/small"]["accuracy"]
        )
        assert found["training"] == plain(read(done.run))["training"]


def interrupt(*args: Any, **named: Any) -> None:
    raise KeyboardInterrupt


def test_a_budget_stops_cleanly_and_a_larger_one_goes_on(done: Experiment, tmp_path: Path) -> None:
    other = {"arms": "direct", "test_models": "sim/small"}
    trials = done.store.trajectories(split="test", model="sim/small", harness=load_harness("empty").hash)
    tokens = sum(u.prompt_tokens + u.completion_tokens for t in trials for u in t.usage.values())
    first = Experiment(small(**other, max_tokens=tokens // 2), tmp_path)
    with pytest.raises(BudgetExceeded, match="max_tokens"):
        first.go()
    assert first.run.status["state"] == "interrupted"
    kept = len(first.store.keys())
    assert 0 < kept < 6
    second = Experiment(small(**other, max_tokens=10_000_000), tmp_path)
    assert second.run.run_id == first.run.run_id
    found = json.loads(json.dumps(second.go()))
    assert plain(found["arms"]["direct"]["sim/small"]) == plain(read(done.run)["arms"]["direct"]["sim/small"])
    assert len(second.store.keys()) == 6


def test_a_failure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> None:
        raise OSError("the disk is gone")

    experiment = Experiment(small(arms="direct"), tmp_path)
    monkeypatch.setattr(Experiment, "_test", broken)
    with pytest.raises(OSError, match="gone"):
        experiment.go()
    status = experiment.run.status
    assert (status["state"], status["error"]) == ("failed", "OSError: the disk is gone")


def test_another_configuration_under_the_same_run_is_refused(done: Experiment) -> None:
    with pytest.raises(LabError, match=r"another config.*trials: 2 → 1"):
        Experiment(small(trials=1), done.store.root, done.run.run_id)


# -- costs --------------------------------------------------------------------------------------------------------


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated models at a dollar per million tokens, so that costs are no zeros."""
    real = answers.usage_of

    def usage_of(*args: Any) -> Usage:
        usage = real(*args)
        return replace(usage, cost_usd=1e-6 * usage.prompt_tokens)

    monkeypatch.setattr(answers, "usage_of", usage_of)


def test_trials_of_the_store_cost_but_are_not_billed(priced: None, tmp_path: Path) -> None:
    """The second run finds every trial in the store; a larger run in the same store changes nothing for it."""
    config = small(arms="direct,ecdysis", test_models="sim/small", train_tasks=6)
    first = Experiment(config, tmp_path, "first").go()
    assert first["billed_usd"] == pytest.approx(first["cost_usd"])
    assert first["cost_usd"] > 0.01
    Experiment(config.but(train_tasks=7, arms="ecdysis"), tmp_path, "larger").go()
    second = Experiment(config, tmp_path, "second").go()
    assert second["cost_usd"] == pytest.approx(first["cost_usd"])
    assert second["prompt_tokens"] == first["prompt_tokens"]
    reviews = sum(r["usage"]["cost_usd"] for r in second["training"]["ecdysis"]["rounds"])
    assert reviews > 0
    assert second["billed_usd"] == pytest.approx(reviews)
    trained = second["training"]["ecdysis"]
    assert trained["billed_usd"] == pytest.approx(reviews)
    assert reviews < trained["cost_usd"] < second["cost_usd"]
    store = Store(tmp_path)
    mine = [
        t
        for t in store.trajectories(keys=Experiment(config, tmp_path, "first").billing.keys)
        if not t.reused_from
    ]
    total = sum(t.cost_usd or 0.0 for t in mine) + reviews
    assert first["cost_usd"] == pytest.approx(total)


# -- the configuration --------------------------------------------------------------------------------------------


def test_a_run_has_the_name_of_its_configuration() -> None:
    config = small()
    assert re.fullmatch(r"tau2-airline-sim-small-seed2-[0-9a-f]{6}", config.run_id)
    assert small(workers=2, max_usd=5, max_tokens=7, max_seconds=9).run_id == config.run_id
    others = [
        small(seed=3),
        small(trials=1),
        small(editor="litellm"),
        small(start="human"),
        small(arms="direct"),
    ]
    assert len({config.run_id, *(c.run_id for c in others)}) == 6


def test_a_model_of_any_name_makes_a_run_id() -> None:
    config = configure(model="vertex_ai/claude-3-5-sonnet@20240620", test_models="sim/small")
    assert config.run_id.startswith("tau2-airline-vertex_ai-claude-3-5-sonnet-20240620-seed0-")


def test_real_models_are_asked_as_the_configuration_says() -> None:
    config = configure(
        model="openai/x", api_base="http://127.0.0.1:9/v1", timeout_seconds="7", temperature=0.3
    )
    params = config.setup("openai/x").params
    assert (params.timeout_seconds, params.temperature, params.api_base) == (
        7.0,
        0.3,
        "http://127.0.0.1:9/v1",
    )
    assert config.setup("openai/x").user_params.api_base is None, "sim/user is asked here"


def test_paired_models_try_the_training_tasks_and_t_reads_them(
    done: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paired = Experiment(small(arms="ecdysis", paired=True, test_tasks=1), tmp_path)
    summary = paired.go()
    ran = paired.store.trajectories(split="train", model="sim/large")
    assert {t.trial.harness for t in ran} == {load_harness("empty").hash}
    assert len(ran) == SMALL["train_tasks"] * SMALL["trials"]
    alone = plain(read(done.run))["training"]["ecdysis"]
    mine = plain(json.loads(json.dumps(summary)))["training"]["ecdysis"]
    assert mine["model_calls"] == alone["model_calls"], "the arm is not charged for them"
    assert parser.main(["ratio", str(paired.run.folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["changes"] and set(found["t"]) == {"proposed", "accepted"}
    assert all("sim/large" in change["reasons"] for change in found["changes"])
    assert parser.main(["ratio", "nosuch", "--data", str(tmp_path)]) == 2


def test_the_noise_floor_is_charged_to_the_run_and_to_no_arm(done: Experiment, tmp_path: Path) -> None:
    plainly = read(done.run)
    found = json.loads(json.dumps(Experiment(small(noise_floor=2), tmp_path).go()))
    assert plain(found["training"]["ecdysis"]) == plain(plainly["training"]["ecdysis"])
    assert found["prompt_tokens"] > plainly["prompt_tokens"]


def test_a_run_of_an_older_lab_goes_on_under_its_name(tmp_path: Path) -> None:
    first = Experiment(small(arms="direct", test_models="sim/small"), tmp_path)
    config = first.run.config
    first.run.write_json("config.json", {k: v for k, v in config.items() if k not in ("paired", "confirm")})
    again = Experiment(small(arms="direct", test_models="sim/small"), tmp_path)
    assert again.run.folder == first.run.folder
    with pytest.raises(LabError, match="undo confirm: null → 1"):
        Experiment(small(arms="direct", test_models="sim/small", confirm=1), tmp_path, first.run.run_id)


def test_a_start_that_finds_everything_done_keeps_the_wall_clock(done: Experiment) -> None:
    before = read(done.run)["wall_seconds"]
    assert before > 0
    again = Experiment(done.settings, done.run.folder.parent.parent).go()
    assert again["wall_seconds"] == before


def test_smoke_is_the_same_at_its_smallest() -> None:
    made = smoke(small(train_tasks=12, trials=3, rounds=3))
    assert (made.train_tasks, made.test_tasks, made.trials, made.rounds) == (4, 3, 1, 1)
    assert made.but(train_tasks=12, trials=2, test_tasks=3) == small()


@pytest.mark.parametrize(
    "given, told",
    [
        ({"start": "nosuch"}, "harness: 'nosuch' is neither a folder nor one of: airline, dbbench, empty"),
        ({"editor": "nosuch"}, "editor: unknown 'nosuch'; choose one of rules"),
        ({"train_tasks": 500}, "airline train has 30 tasks, 500 were asked for"),
        ({"test_tasks": 21}, "airline test has 20 tasks, 21 were asked for"),
    ],
)
def test_what_does_not_exist_is_told_before_anything_is_written(
    given: Any, told: str, tmp_path: Path
) -> None:
    with pytest.raises(LabError, match=told):
        Experiment(small(**given), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_parts_that_exist_pass() -> None:
    check_parts(small())
    check_parts(small(start="human", editor="ecdysis_lab.review.editors.rules:RulesEditor"))


@pytest.mark.parametrize(
    "given, told",
    [
        (
            {"benchmark": "hotel"},
            "benchmark: unknown 'hotel'; choose one of tau2/airline, tau2/retail, tau2/telecom, agentbench/dbbench, agentbench/os or",
        ),
        (
            {"arms": "foo"},
            "arm: 'foo' is unknown; choose one of direct, human, self-evolution, self-evolution-verified, ecdysis-no-fdcr",
        ),
        ({"arms": ""}, "arms: name at least one of direct"),
        ({"seed": "abc"}, "seed: must be a whole number, got 'abc'"),
        ({"seed": -1}, "seed: must be at least 0, got -1"),
        ({"seed": 1.5}, "seed: must be a whole number, got 1.5"),
        ({"seed": True}, "seed: must be a number, got True"),
        ({"trials": 0}, "trials: must be at least 1, got 0"),
        ({"subset": "half"}, "subset: unknown 'half'; give quarter, or a subset.json that a person picked"),
        ({"disclosure": "gold"}, "disclosure: unknown 'gold'"),
        (
            {"subset": "all"},
            "subset: unknown 'all'; give quarter, or a subset.json that a person picked (all",
        ),
        ({"subset": "nosuch.json"}, "subset: unknown 'nosuch.json'; give quarter, or a subset.json"),
        ({"noise_floor": 1}, "noise_floor: one evaluation has nothing to be compared with"),
        ({"threshold": 7}, "threshold: must be at most 1, got 7"),
        ({"threshold": 0}, "threshold: must be more than 0, got 0"),
        ({"trials": 101}, "trials: must be at most 100"),
        (
            {"confirm": 200},
            "rounds, confirm, noise_floor, trials: (rounds x confirm, at least 1, + noise_floor) x trials",
        ),
        ({"rounds": 5, "trials": 100}, "at most 400, the room for fresh seeds, got 500"),
        ({"rounds": 100, "noise_floor": 34}, "at most 400, the room for fresh seeds, got 402"),
        ({"max_seconds": float("nan")}, "max_seconds: must be at least 0, got nan"),
        ({"reuse": "perhaps"}, "reuse: must be true or false, got 'perhaps'"),
        ({"max_usd": "much"}, "max_usd: must be a number, got 'much'"),
        ({"typo": 1}, "unknown parameter 'typo'; choose from benchmark, model"),
    ],
)
def test_a_mistake_names_the_field_and_the_choices(given: Any, told: str) -> None:
    with pytest.raises(LabError) as raised:
        configure(**given)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_texts_of_the_command_line_become_their_types() -> None:
    made = configure(seed="7", arms=" direct, ecdysis ,", max_usd="1.5", threshold="0.5", workers="2")
    assert (made.seed, made.arms, made.max_usd, made.threshold) == (7, ("direct", "ecdysis"), 1.5, 0.5)
    assert made.model_dump()["workers"] == 2


def test_progress_is_printed_when_a_stage_starts_and_ends() -> None:
    said: list[str] = []
    progress = module.printing_progress(said.append, every_seconds=1e9)
    for count in range(4):
        progress("trials", count, 3)
    progress("tests", 0, 2)
    assert said == ["trials: 0/3", "trials: 3/3", "tests: 0/2"]


def test_the_noise_floor_is_measured_on_fresh_seeds(tmp_path: Path) -> None:
    experiment = Experiment(small(arms="direct", test_models="sim/small", noise_floor=3), tmp_path)
    floor = experiment.go()["noise_floor"]
    assert (floor["repeats"], floor["n_tasks"], floor["trials"]) == (3, SMALL["train_tasks"], SMALL["trials"])
    assert len(floor["sums"]) == 3 and floor["smallest_gain"] >= 1
    seeds = {t.trial.seed for t in experiment.store.trajectories(split="train")}
    rounds = SMALL["rounds"] * SMALL["trials"]  # the first fresh seeds: a round may have to confirm on them
    first = SMALL["seed"] * 1000 + 100 + rounds
    assert seeds == set(range(first, first + 3 * SMALL["trials"]))


def test_a_new_arm_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = replace(
        ARMS["ecdysis"], name="toy", about="all failures, no debate", colour="#123456", debate=0, subset="all"
    )
    monkeypatch.setitem(ARMS, "toy", toy)
    experiment = Experiment(small(arms="direct,toy", test_models="sim/small"), tmp_path)
    summary = experiment.go()
    found = results.pooled([experiment.run])[0]
    assert tables.arms_table(found.by_arm)["arm"].tolist() == ["direct", "toy"]
    (row,) = tables.rounds_table(results.rounds_frame(found.training)).to_dict("records")
    assert (row["arm"], row["read"], row["failures"]) == (
        "toy",
        summary["training"]["toy"]["rounds"][0]["subset"],
        row["read"],
    )
    assert "#123456" in draw.gains(found.by_arm).to_json()
    page = report.build([experiment.run]).save(tmp_path / "report.html").read_text()
    assert "#123456" in page and ">toy</td>" in page
    with pytest.raises(LabError, match="ecdysis-random-quarter, toy"):
        configure(arms="foo")


def test_a_user_that_does_not_play_makes_nothing_simulated() -> None:
    real = {"model": "openai/x", "test_models": "openai/x", "review_model": "hand"}
    assert not configure(benchmark="agentbench/dbbench", **real).simulated
    assert configure(benchmark="tau2/airline", **real).simulated, "the user is sim/user"
    assert configure(benchmark="agentbench/dbbench", **{**real, "review_model": "sim/reviewer"}).simulated
