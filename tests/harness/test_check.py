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
    assert found["failing"]["rejected_by_environment"] == 12
    for group in found.values():
        acts = group["acts"]
        legal = [a for a in acts if not a["rejected_by_environment"]]
        assert len(acts) - len(legal) == group["rejected_by_environment"]
        assert len(legal) == group["refused"] + group["altered"] == sum(group["by_rule"].values())


OPEN = {"role": "user", "content": "Please cancel ZZZZZZ and EHGLP3."}


def recorded(tmp_path: Path) -> Path:
    """One passing trace: a cancellation that the environment rejects, one that it accepts, one rewritten read."""
    messages: list[dict] = [OPEN]
    for n, (name, arguments) in enumerate(
        [
            ("cancel_reservation", {"reservation_id": "ZZZZZZ"}),
            ("cancel_reservation", {"reservation_id": "EHGLP3"}),
            ("get_reservation_details", {"reservation_id": "EHGLP3"}),
        ]
    ):
        asked = {
            "id": f"c{n}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [asked]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "name": name, "content": "{}"})
    path = tmp_path / "traces.json"
    path.write_text(json.dumps([{"task_id": 1, "trial": 0, "reward": 1.0, "info": {}, "traj": messages}]))
    return path


def test_acts_that_the_environment_rejected_are_counted_apart_and_each_is_named(
    airline, tmp_path: Path
) -> None:
    (tmp_path / "h").mkdir()
    rewrites = REFUSES_ALL.replace("Allow, Refuse", "Allow, Refuse, Rewrite").replace(
        "    return Allow()",
        "    if call.name == 'get_reservation_details':\n"
        "        return Rewrite(arguments={'reservation_id': 'ZFA04Y'}, rule='other_one')\n    return Allow()",
    )
    guard = folder(tmp_path / "h", actions=rewrites)
    found = {"traces": check.traces(guard, airline, import_traces(recorded(tmp_path)).trajectories)}
    passing = found["traces"]["passing"]
    assert (passing["calls"], passing["refused"], passing["altered"]) == (3, 1, 1)
    assert passing["rejected_by_environment"] == 1 and passing["stopped"] == 1
    assert passing["by_rule"] == {"no_cancel": 1, "other_one": 1}
    told = [(a["step"], a["what"], a["rule"], a["rejected_by_environment"]) for a in passing["acts"]]
    assert told == [(1, "refused", "no_cancel", True), (3, "refused", "no_cancel", False),
                    (5, "altered", "other_one", False)]  # fmt: skip
    assert passing["acts"][0]["call"] == 'cancel_reservation {"reservation_id": "ZZZZZZ"}'
    assert passing["acts"][0]["reason"] == "No cancellations. Offer a change."
    lines = check.report(found).splitlines()
    assert sum("task 1, step" in line for line in lines) == 3
    assert any("step 1: refused (the environment rejected it too) by no_cancel: cancel_" in x for x in lines)


def test_the_command_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "empty", "--json", "--data", str(tmp_path)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["structure"]["probe"] == "ok" and printed["structure"]["prompt_tokens"] == 0
