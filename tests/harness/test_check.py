"""``ecdysis-lab check``: a harness against legal acts, illegal ones and recorded traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.cli.parser import main
from ecdysis_lab.failures.importing import import_traces
from ecdysis_lab.harness import Harness, check, load_harness
from ecdysis_lab.records import LabError
from ecdysis_lab.store import Store

TRACES = Path(__file__).resolve().parents[3] / "shared" / "data" / "tau_bench_gpt4o_airline_trials01.json"


@pytest.fixture(scope="module")
def airline():
    return load_benchmark("tau2/airline")


def folder(tmp_path: Path, **files: str) -> Harness:
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    return load_harness(tmp_path)


REFUSES_ALL = """
from ecdysis_lab.hooks import Allow, Refuse


def check(call, view):
    if call.name == "cancel_reservation":
        return Refuse("No cancellations.", "Offer a change.", rule="no_cancel")
    return Allow()
"""


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ({"amount": "$1,050.00"}, {"amount": 1050}, True),
        ({"reservation_id": "#zfa04y"}, {"reservation_id": "ZFA04Y"}, True),
        ({"date": "05/24/2024"}, {"date": "2024-05-24"}, True),
        ({"cabin": "economy"}, {"cabin": "business"}, False),
        ({"total_baggages": 2}, {"total_baggages": 3}, False),
    ],
)
def test_same_meaning_is_form_only(before: dict, after: dict, same: bool) -> None:
    assert check.same_meaning(before, after) is same


def test_a_broken_harness_is_named_with_its_line(airline, tmp_path: Path) -> None:
    found = check.structure(folder(tmp_path, actions="import os\n"), airline)
    assert found["problems"] and found["problems"][0].startswith("actions.py:1 ")
    assert found["probe"] == "not run"


def test_the_flawless_agent_shows_an_over_broad_guard(airline, tmp_path: Path) -> None:
    broad = folder(tmp_path / "h" if (tmp_path / "h").mkdir() is None else tmp_path, actions=REFUSES_ALL)
    found = check.flawless(broad, airline, Store(tmp_path / "data"))
    assert found["tasks"] == 50
    assert found["refusals"] >= 8 and "no_cancel" in found["examples"][0]
    assert found["accuracy"] == pytest.approx(1 - 9 / 50, abs=0.05)


def test_violations_count_only_refusals_with_rule_and_option(airline, tmp_path: Path) -> None:
    guard = folder(tmp_path, actions=REFUSES_ALL)
    cases = [
        check.Violation(check.Call("cancel_reservation", {"reservation_id": "EHGLP3"}), "cancel"),
        check.Violation(check.Call("send_certificate", {"user_id": "emma_kim_9957", "amount": 50}), "gift"),
    ]
    found = check.violations(guard, airline, cases)
    assert (found["calls"], found["refused"]) == (2, 1)
    assert found["missed"][0].startswith("gift: send_certificate")


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "cannot read"), ("{}", "no JSON list"), ('[{"rule": "x"}]', "record 0: field 'call'")],
)
def test_a_bad_violations_file_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "v.json").write_text(text)
    with pytest.raises(LabError, match=says):
        check.read_violations(tmp_path / "v.json")


@pytest.mark.skipif(not TRACES.exists(), reason="recorded traces are not here")
def test_the_human_harness_lets_recorded_successes_through(airline) -> None:
    found = check.traces(load_harness("airline"), airline, import_traces(TRACES).trajectories)
    assert found["passing"]["trajectories"] == 43 and found["failing"]["trajectories"] == 57
    assert found["passing"]["altered"] == 0
    assert found["passing"]["refused"] <= 1  # one cancellation for a reason that no insurance covers
    assert found["failing"]["stopped"] >= 20


def test_the_command_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "empty", "--json", "--data", str(tmp_path)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["structure"]["probe"] == "ok" and printed["structure"]["prompt_tokens"] == 0
