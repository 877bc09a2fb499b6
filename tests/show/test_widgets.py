"""Decisions of the picker, the trace reader, the sources and the notebook, without a browser."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from widget_data import ATTACK, write_jsonl

from ecdysis_lab.failures.cards import find_failures, to_failure
from ecdysis_lab.failures.embedding import embedder
from ecdysis_lab.failures.importing import import_traces
from ecdysis_lab.failures.patterns import find_patterns
from ecdysis_lab.failures.subset import from_file, pick_quarter
from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Failure, Intervention, LabError, Message, Patterns
from ecdysis_lab.show.figures import Footer
from ecdysis_lab.show.widgets import (
    FailurePicker,
    PickerState,
    drawing,
    export_html,
    live,
    open_source,
    patterns_table,
    trace_html,
    weights_of,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Failure], Patterns]:
    path = write_jsonl(tmp_path_factory.mktemp("traces") / "traces.jsonl")
    failures = find_failures(import_traces(path).trajectories)
    return failures, find_patterns(failures, embedder("tfidf"), stability=False)


@pytest.fixture
def state(found: tuple[list[Failure], Patterns], tmp_path: Path) -> PickerState:
    return PickerState(*found, tmp_path / "subset.json")


def outside(state: PickerState) -> str:
    return next(k for k in state.failures if k not in state.subset.keys)


def saved(state: PickerState) -> dict[str, Any]:
    assert state.path is not None
    return dict(json.loads(state.path.read_text()))


# --- decisions


def test_starts_with_the_automatic_quarter(state: PickerState, found: tuple[list[Failure], Patterns]) -> None:
    assert state.subset == pick_quarter(*found)
    assert len(state.subset.picks) == 6 and state.current == state.subset.keys[0]
    assert (state.cost, state.history, saved(state)["origin"]) == (0.0, [], "automatic")


def test_pin_brings_a_failure_in_and_a_second_pin_lets_it_go(state: PickerState) -> None:
    key, before = outside(state), state.subset
    state.pin(key)
    assert state.subset.keys[0] == key and len(state.subset.picks) == 6
    assert (state.mark(key), state.subset.origin, saved(state)["pins"]) == ("pinned", "person", [key])
    state.pin(key)
    assert state.subset == before and state.choice.pins == ()


def test_exclude_keeps_a_failure_out_and_undoes_its_pin(state: PickerState) -> None:
    key = state.subset.keys[0]
    state.pin(key)
    state.exclude(key)
    assert key not in state.subset.keys and state.choice.pins == () and state.mark(key) == "excluded"
    state.exclude(key)
    assert key in state.subset.keys and state.choice.excludes == ()


def test_undo_restores_each_step_exactly(state: PickerState) -> None:
    seen = [(state.choice, state.subset)]
    for act in (
        lambda: state.pin(outside(state)),
        lambda: state.exclude(state.subset.keys[1]),
        lambda: state.set_budget(9),
        lambda: state.pin(state.choice.pins[0]),
    ):
        act()
        seen.append((state.choice, state.subset))
    assert [override.act for _, override in state.history] == ["pin", "exclude", "budget", "unpin"]
    for choice, subset in reversed(seen[:-1]):
        state.undo()
        assert (state.choice, state.subset) == (choice, subset)
        assert saved(state)["pins"] == list(choice.pins) and saved(state)["budget"] == choice.budget
    state.undo()
    assert state.message == "Nothing to undo." and state.choice == seen[0][0]


def test_each_override_tells_its_coverage_cost(state: PickerState) -> None:
    state.set_budget(4)
    before = state.subset.coverage[-1]
    kind = state.label(state.subset.keys[0])
    assert len({state.label(k) for k in state.subset.keys}) == 2, "each kind from two tasks"
    for key in state.group(state.subset.keys[0])[:4]:  # four of one kind cover less than two kinds
        state.pin(key)
    after = state.subset.coverage[-1]
    costs = [override.cost for _, override in state.history[1:]]
    assert {state.label(k) for k in state.subset.keys} == {kind}
    assert after < before - 0.1 and sum(costs) == pytest.approx(before - after, abs=1e-4)
    assert state.cost == pytest.approx(before - after, abs=1e-4)
    assert f"costs {100 * costs[-1]:.1f} points of coverage" in state.message
    assert f"overrides cost {100 * state.cost:.1f} points" in drawing.status(state)


def test_more_pins_than_budget_is_refused_and_changes_nothing(state: PickerState) -> None:
    state.set_budget(1)
    state.pin(outside(state))
    before = (state.choice, state.subset, saved(state))
    state.pin(outside(state))
    assert (state.choice, state.subset, saved(state)) == before
    assert state.message.startswith("Not done: pins: 2 are more than the budget of 1")


def test_moving_stays_in_the_pattern_and_comes_round(state: PickerState) -> None:
    start, group = state.current, state.group(state.current)
    walked = []
    for _ in group:
        state.move(1)
        walked.append(state.current)
    assert state.current == start and sorted(walked) == sorted(group) and len(group) == 8
    state.move(-1)
    assert state.current == walked[-2]


def test_reopens_from_subset_json(state: PickerState, found: tuple[list[Failure], Patterns]) -> None:
    pinned = outside(state)
    state.pin(pinned)
    state.exclude(state.subset.keys[2])
    state.set_budget(8)
    again = PickerState(*found, state.path)
    assert (again.choice, again.subset) == (state.choice, state.subset)
    assert again.message == "Re-opened: 1 pinned, 1 excluded." and again.history == []
    assert saved(again) == saved(state)
    other = PickerState(*found, state.path, budget=5)  # a new budget parameter wins over the old slider
    assert (other.choice.budget, other.choice.pins) == (5, (pinned,))
    assert list(state.path.parent.iterdir()) == [state.path]  # type: ignore[union-attr]


def test_a_subset_of_other_failures_is_not_overwritten(
    state: PickerState, found: tuple[list[Failure], Patterns]
) -> None:
    key = outside(state)
    state.pin(key)
    rest = [f for f in found[0] if f.key != key]
    content = saved(state)
    with pytest.raises(LabError, match="pins or excludes 1 failures that are not among these 23"):
        PickerState(rest, find_patterns(rest, embedder("tfidf"), stability=False), state.path)
    assert saved(state) == content
    state.path.write_text('{"picks": []}')  # type: ignore[union-attr]
    with pytest.raises(LabError, match=r"subset\.json is no subset of the picker"):
        PickerState(*found, state.path)


def test_a_disk_that_says_no_is_told(state: PickerState) -> None:
    state.path = Path("/proc/no-such-folder/subset.json")
    state.pin(outside(state))
    assert state.message.startswith("NOT SAVED: cannot use /proc/no-such-folder")
    assert "el-alarm" in drawing.status(state)


@pytest.mark.parametrize("n", [0, 1])
def test_few_failures(n: int, found: tuple[list[Failure], Patterns], tmp_path: Path) -> None:
    failures = found[0][:n]
    state = PickerState(failures, find_patterns(failures), tmp_path / "subset.json")
    state.move(1)
    if n:
        state.exclude()
    assert len(state.subset.picks) == 0 and saved(state)["n_failures"] == n


# --- what is drawn


def test_colours_change_and_places_do_not(state: PickerState) -> None:
    picker = FailurePicker(list(state.failures.values()), state.patterns)
    trace = picker.map.data[0]
    places, colours = (list(trace.x), list(trace.y)), list(trace.marker.color)
    names = {by: _colour(picker, by) for by in ("pattern", "termination", "failed check", "model")}
    assert (list(trace.x), list(trace.y)) == places and len(picker.map.data) == 1
    assert len(set(names["pattern"])) == 3 and len(set(names["termination"])) == 2
    assert names["pattern"] == colours and names["model"] != names["termination"]
    assert [row[0] for row in trace.customdata] == list(picker.state.failures)
    with pytest.raises(LabError, match="choose one of pattern, termination, failed check, model"):
        picker.state.colour("shoe size")


def _colour(picker: FailurePicker, by: str) -> list[str]:
    picker.colouring.value = by
    return list(picker.map.data[0].marker.color)


def test_widgets_follow_the_state(found: tuple[list[Failure], Patterns]) -> None:
    picker = FailurePicker(*found)
    key = outside(picker.state)
    picker._hear({"act": "open", "key": key})
    assert picker.reader.key == picker.table.current == key and 'class="el-trace"' in picker.reader.html
    picker.state.press("p")
    assert picker.table.marks[key] == "pinned" and picker.buttons["p"].description == "Unpin (p)"
    assert key in picker.subset.keys and len(picker.subset.random_band) == 6
    picker.slider.value = 3
    assert len(picker.subset.picks) == 3 and "3 of 24 failures" in picker.status.value
    picker.buttons["u"].click()
    assert picker.slider.value == 6
    picker._hear({"act": "sort", "column": 3})
    assert [row[3] for row in picker.table.rows] == [str(i // 4) for i in range(24)]  # by number, not by text
    picker._hear({"act": "sort", "column": 3})
    assert picker.table.rows[0][3] == "5"
    for content in ({}, {"act": "open", "key": "nothing"}, {"act": "sort", "column": 99}):
        picker._hear(content)
    picker.state.press("Escape")
    assert picker.state.current == key and set(picker.keys.heard) == set(picker.buttons)


def test_the_map_opens_its_channel_complete(found: tuple[list[Failure], Patterns]) -> None:
    picker = FailurePicker(*found)
    assert len(picker.map._widget_data) == 1 and picker.map._widget_layout["width"] == 620
    assert picker.map.comm is not None and picker.map._complete


def test_table_and_reader_are_born_complete(
    found: tuple[list[Failure], Patterns], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JupyterLab drew both empty where the content followed while it was still loading their script."""
    monkeypatch.setattr(FailurePicker, "refresh", lambda self: None)
    picker = FailurePicker(*found)
    assert len(picker.table.rows) == 24 and picker.table.current == picker.reader.key == picker.state.current
    assert set(picker.table.marks.values()) == {"picked"} and "el-head" in picker.reader.html


def test_coverage_curve_shows_the_band(state: PickerState) -> None:
    svg = drawing.coverage_svg(state.banded)
    assert svg.count("<polygon") == 1 and svg.count("<polyline") == 2
    assert f">{state.subset.coverage[-1]:.0%}</tspan> this subset" in svg
    assert "<polygon" not in drawing.coverage_svg(replace(state.subset, random_band=()))


# --- the trace reader


def test_markup_in_a_trace_is_shown_and_not_run(
    found: tuple[list[Failure], Patterns], tmp_path: Path
) -> None:
    failures, patterns = found
    pages = [trace_html(f.trajectory, f) for f in failures]
    assert all("<script" not in p and "<img" not in p for p in pages)
    assert all(p.count("&lt;script&gt;window.hacked = 1&lt;/script&gt;") >= 2 for p in pages)
    picker = FailurePicker(failures, patterns)
    assert "<script" not in picker.legend.value + picker.status.value + picker.curve.value
    assert any("<script>" in " ".join(row) for row in picker.table.rows)  # plain text: drawn by textContent
    path = export_html(failures, patterns, picker.subset, tmp_path / "x.html", Footer("r", "c", 0))
    stored = path.read_text().split('<script id="traces" type="application/json">')[1].split("</script>")[0]
    assert "<" not in stored and set(json.loads(stored)) == {f.key for f in failures}
    assert ATTACK not in path.read_text()


def test_reader_joins_calls_marks_the_bad_step_and_folds_the_system_prompt(
    found: tuple[list[Failure], Patterns],
) -> None:
    failure = next(f for f in found[0] if "payment" in f.first_bad_what)
    page = trace_html(failure.trajectory, failure)
    blocks = page.split('<div class="el-msg')
    (bad,) = [b for b in blocks if b.split('"')[0].endswith("el-bad")]
    assert "<b>book_reservation</b><i>#13 → #14 error</i>" in bad and "payment does not add up" in bad
    assert '<details class="el-system"><summary>System prompt' in page and "<details open" not in page
    head = page.split("</header>")[0]
    assert "✗ db" in head and "First thing wrong: book_reservation" in head and "score 0" in head
    assert page.count("<b>tool</b>") == 0  # each result stands with its call
    hidden = to_failure(failure.trajectory, "transcript")
    assert "✗ db" not in trace_html(failure.trajectory, hidden)


def test_reader_shows_harness_acts_and_survives_odd_texts(found: tuple[list[Failure], Patterns]) -> None:
    trajectory = found[0][0].trajectory
    odd = Message("assistant", "\x1b[31mred\x1b[0m\nnext", (Call("f", {}, "a"), Call("g", {}, "b")))
    long = Message("tool", "x" * 1_000_000, (), "b", "g")
    act = Intervention(1, "check", "refuse", "rule_x", "f", reason=f"no {ATTACK}")
    page = trace_html(
        replace(trajectory, messages=(Message("user", "hi"), odd, long), interventions=(act,), context=())
    )
    assert "\x1b" not in page and "red\nnext" in page and len(page) < 60_000
    assert "<i>no result</i>" in page and "… 980,000 more characters" in page
    assert "harness refuse f (rule_x)" in page and "<script" not in page


def test_reader_shows_what_a_reply_was_realized_as(found: tuple[list[Failure], Patterns]) -> None:
    trajectory = found[0][0].trajectory
    meant = [{"name": "f", "arguments": {"id": "7"}}]
    act = Intervention(1, "on_reply", "realize", "in_a_fence", "f", "<f> 7", meant)
    page = trace_html(replace(trajectory, interventions=(act,), context=()))
    assert "harness realize f (in_a_fence)" in page and "&lt;f&gt; 7 → " in page


# --- sources and parameters


def test_sources(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "traces.jsonl")
    got = open_source(str(path), tmp_path)
    assert (got.name, len(got.failures), got.simulated) == ("traces", 24, False)
    assert got.counts.startswith("25 trajectories imported (jsonl)") and "24 failures below 1" in got.counts
    assert len(open_source(str(path), tmp_path, smoke=True).failures) == 20
    for wrong, said in (
        ({"source": ""}, "source: no run with failures"),
        ({"source": str(tmp_path / "nothing")}, "nothing to import"),
        ({"source": str(path), "threshold": 2.0}, "failure_threshold must lie in"),
        ({"source": str(path), "disclosure": "all"}, "unknown disclosure 'all'"),
        ({"source": str(path), "disclosure": "scenario"}, "scenario needs the benchmark"),
    ):
        with pytest.raises(LabError, match=said):
            open_source(**{"data": tmp_path, **wrong})  # type: ignore[arg-type]


def test_weights_are_read_and_checked() -> None:
    made = weights_of("text=1, path = 2")
    assert (made.text, made.path, made.checks) == (1.0, 2.0, 0.3)
    with pytest.raises(LabError, match="weights: unknown part 'colour'; choose from text, path, checks"):
        weights_of("colour=1")
    with pytest.raises(LabError, match=r"weights\.text must be a number, got 'much'"):
        weights_of("text=much")


def test_a_notebook_takes_its_own_parameters_and_may_run_again() -> None:
    from ecdysis_lab.cli import notebooks

    cell = {"harness": "x", "seed": 3, "smoke": False, "_hidden": 1, "Path": Path}
    assert notebooks.parameters(dict(cell), "collect") == {"seed": 3}
    with pytest.raises(LabError, match=r"unknown parameter 'sauce'; choose from benchmark, .*harness"):
        notebooks.parameters({**cell, "sauce": 1}, "collect")
    assert notebooks.parameters(cell, "collect") == {"seed": 3}
    cell["found"] = 3  # a later cell of a live notebook, which is then run from the top
    assert notebooks.parameters(cell, "collect") == {"seed": 3}


def test_plain_python_is_not_live() -> None:
    assert live() is False


@pytest.mark.slow
def test_notebook_under_papermill_writes_everything(tmp_path: Path) -> None:
    from ecdysis_lab.cli import notebooks

    out = tmp_path / "out"
    given = {"source": str(write_jsonl(tmp_path / "traces.jsonl")), "out": str(out), "embedder": "tfidf"}
    assert notebooks.run("patterns", given, tmp_path / "run.ipynb") == 0
    failures = find_failures(import_traces(given["source"]).trajectories)
    patterns = find_patterns(failures, embedder("tfidf"))
    subset = pick_quarter(failures, patterns, 0.25)
    assert [p["key"] for p in json.loads((out / "subset.json").read_text())["picks"]] == list(subset.keys)
    names = {p.name for p in out.iterdir()}
    assert {"pattern_map.html", "coverage.html", "failures.html", "patterns.csv", "picks.csv"} <= names
    text = (tmp_path / "run.ipynb").read_text()
    assert patterns_table(patterns, subset)["pattern"].tolist() == ["P0", "P1", "P2"]
    assert "3 patterns, 3 recurring, 0 noise" in text and "el-picker" not in text
    with pytest.raises(LabError, match="unknown parameter 'sauce' of patterns"):
        notebooks.run("patterns", {"sauce": "x"}, tmp_path / "run.ipynb")


# --- a run of the package


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training run of one round, made by the package."""
    from ecdysis_lab.evaluate.experiment import Experiment
    from ecdysis_lab.train.settings import configure

    config = configure(
        benchmark="tau2/airline", model="sim/small", test_models="sim/small", arms="ecdysis", start="empty",
        train_tasks=7, test_tasks=1, trials=1, rounds=1, embedder="tfidf", workers=1,
    )  # fmt: skip
    run = Experiment(config, tmp_path_factory.mktemp("data"), "picked")
    run.go()
    return run.run.folder


def test_the_picker_opens_on_a_run_and_training_reads_the_pick(run_folder: Path, tmp_path: Path) -> None:
    data, kept = run_folder.parent.parent, tmp_path / "subset.json"
    recorded = json.loads((run_folder / "rounds" / "ecdysis-1" / "failures.json").read_text())
    picker = FailurePicker.open(str(run_folder), kept, embedder="tfidf")
    assert list(picker.state.failures) == sorted(r["key"] for r in recorded) and len(recorded) >= 3
    assert picker.reader.key == picker.state.current and "el-trace" in picker.reader.html
    cards = {f.key: f.card for f in picker.state.failures.values()}
    assert {r["key"]: r["card"] for r in recorded} == cards  # the person reads what the review read
    out = outside(picker.state)
    picker.state.pin(out)
    # By name, and without one: the newest run of the data folder.
    for source in ("picked", ""):
        again = open_source(source, data)
        assert {f.key for f in again.failures} == set(cards) and again.name == "picked" and again.simulated
    subset = from_file(kept, again.failures)
    assert subset.keys == picker.subset.keys and subset.keys[0] == out and subset.origin == "person"


def test_a_table_that_is_cut_says_so(found: tuple[list[Failure], Patterns]) -> None:
    assert FailurePicker(*found).table_note.value == ""
    failures, patterns = found
    many = [replace(failures[i % 24], key=f"{i:05d}", task_id=str(i)) for i in range(2100)]
    groups = replace(
        patterns,
        patterns=(),
        noise={f.key: (-1, 0.0) for f in many},
        layout={f.key: (0.0, 0.0) for f in many},
    )
    picker = FailurePicker(many, groups, budget=2)
    assert len(picker.table.rows) == 2000
    assert "The table shows 2,000 of 2,100 failures: the first by subset, rising." in picker.table_note.value
    picker._hear({"act": "sort", "column": 3})
    picker._hear({"act": "sort", "column": 3})
    assert picker.table.rows[0][0] == "02099" and "by task, falling" in picker.table_note.value
