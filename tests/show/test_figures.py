"""Figures: what they draw, that it is readable, and that the files open offline."""

from __future__ import annotations

import asyncio
import json
import re
import struct
import subprocess
import time
from itertools import combinations
from pathlib import Path

import figure_data as data
import numpy as np
import pandas as pd
import plotly
import pytest

from ecdysis_lab.evaluate.summaries import summarise
from ecdysis_lab.records import LabError
from ecdysis_lab.show import figures as f
from ecdysis_lab.show import tables
from ecdysis_lab.show.figures.labels import (
    fitting_names,
    model_names,
    short,
    spread,
    text_width,
    trials_text,
    wrap,
)
from ecdysis_lab.show.figures.maps import NOISE, _labels, _overlap, _range
from ecdysis_lab.show.figures.stopped import stopped_acts
from ecdysis_lab.train.arms import ARMS

COLOURS = {arm.name: arm.colour for arm in ARMS.values()}


@pytest.fixture(scope="module")
def run():
    return data.made(data.ARMS5, data.MODELS4)


@pytest.fixture(scope="module")
def chrome(needs):
    return needs("chromium")


@pytest.fixture(scope="module")
def drawn():
    """Every figure for a small run, a wide one with long model names, and three pooled: size -> (summaries, figures)."""
    many = [data.made(data.ARMS5, data.MODELS4, seed=s, run=f"airline-s{s}") for s in range(3)]
    by_arm = summarise(pd.concat([m.scores for m in many]), n_boot=200)
    runs = {
        "3x3": data.made(data.ARMS3, data.MODELS4[:3]),
        "5x4": data.made(data.ARMS5, data.REAL4),
        "all arms": data.made(tuple(ARMS), data.MODELS4[:3]),
        "5x4x3": many[0]._replace(by_arm=by_arm),
    }
    summaries = {size: [run.summary] for size, run in runs.items()} | {"5x4x3": [m.summary for m in many]}
    return {
        size: (summaries[size], {name: fig for name, (fig, _) in data.figures(run).items()})
        for size, run in runs.items()
    }


def texts(fig) -> str:
    """All text of a figure."""
    notes = [a.text for a in fig.layout.annotations]
    axes = [fig.layout[a].title.text or "" for a in fig.layout if re.fullmatch(r"[xy]axis\d*", a)]
    return "\n".join([fig.layout.title.text, fig.layout.title.subtitle.text, *notes, *axes])


# ---- the look


def lab_of(linear: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    t = to_xyz @ linear / [0.9505, 1.0, 1.089]
    g = np.where(t > 216 / 24389, np.cbrt(t), (24389 / 27 * t + 16) / 116)
    return np.array([116 * g[1] - 16, 500 * (g[0] - g[1]), 200 * (g[1] - g[2])])


# Full-strength deficiencies on linear RGB, after Machado, Oliveira and Fernandes (2009).
SIGHT = {
    "normal": (1, 0, 0, 0, 1, 0, 0, 0, 1),
    "protan": (0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998),
    "deutan": (0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881),
    "tritan": (1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900),
}


@pytest.mark.parametrize("sight", SIGHT)
def test_arm_colours_stay_apart_for_every_kind_of_sight(sight):
    seen = {}
    for arm, colour in COLOURS.items():
        rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        seen[arm] = lab_of(np.clip(np.reshape(SIGHT[sight], (3, 3)) @ linear, 0, 1))
    assert [arm for arm in seen if arm in data.ARMS5] == list(data.ARMS5) and len(seen) == 8
    for a, b in combinations(seen, 2):
        assert np.linalg.norm(seen[a] - seen[b]) > 20, (a, b)


def test_an_arm_has_one_colour_in_every_figure(drawn):
    wide = drawn["5x4"][1]
    bars = {t.marker.color[0] for t in wide["transfer"].data}
    assert bars == {COLOURS[a] for a in data.ARMS5[1:]}
    points = {t.marker.color for t in wide["gains"].data if t.customdata is not None}
    assert points == {COLOURS[a] for a in data.ARMS5}
    lines = [t.line.color for t in wide["rounds"].data if t.type == "scatter" and t.mode == "lines"]
    assert lines == [COLOURS[a] for a in data.ARMS5[2:]]
    assert f.arm_colour("retry-budget") == f.arm_colour("retry-budget")
    assert f.arm_colour("retry-budget") not in COLOURS.values()


@pytest.mark.parametrize("size", ["3x3", "5x4", "5x4x3"])
def test_every_figure_is_readable_as_data(drawn, size):
    """Fonts of at least 12 px, a unit on each axis with numbers, SIMULATED in each title, n in each."""
    for name, fig in drawn[size][1].items():
        spec = fig.to_json()
        sizes = [float(s) for s in re.findall(r'font[^{}]*?\{[^{}]*?"size":([\d.]+)', spec)]
        sizes += [float(s) for s in re.findall(r"font-size:([\d.]+)px", spec)]
        assert sizes and min(sizes) >= 12, name
        assert (fig.layout.width, fig.layout.height) == (1000, 600), name
        assert "SIMULATED" in fig.layout.title.text, name
        assert re.search(r"\d+ (tasks|failures|of \d+ failures)", texts(fig)), name
        if name != "pattern_map":
            assert re.search(r"\((%|USD|s|number|percentage points|sum over|% of)", texts(fig)), name


def test_real_models_are_not_called_simulated():
    for name, (fig, _) in data.figures(data.made(data.ARMS3, data.REAL4, simulated=False)).items():
        assert "SIMULATED" not in texts(fig) and not fig.layout.images, name


def test_spread_keeps_order_and_distance():
    got = spread([50, 51, 10, 50.5], 5)
    assert got[2] == 10
    assert sorted(got)[1:] == pytest.approx([45.5, 50.5, 55.5])
    assert got[0] < got[3] < got[1]
    assert spread([1, 20], 5) == [1, 20]


def test_long_names_stay_distinct():
    names = model_names([f"openrouter/vendor/some-very-long-model-name-{i}-instruct-2507" for i in "ab"], 20)
    assert len(set(names)) == 2 and max(map(len, names)) <= 20
    assert model_names(["sim/small", "a/b/c-model-with-a-name"], 18) == ["sim/small", "c-mode…with-a-name"]
    assert short("abc", 3) == "abc"


def test_text_is_measured_by_the_wider_of_dejavu_and_a_monospaced_font():
    assert text_width("MMM", 100) == pytest.approx(3 * 86)
    assert text_width("<b>MMM</b>", 100) == text_width('<b><span style="color:red">MMM</span></b>', 100)
    assert text_width("MMM<b>M</b>", 100) == pytest.approx(3 * 86 + 100)
    assert text_width("ill", 100) == pytest.approx(3 * 60.2)
    assert text_width("■", 13) == 13


def test_lines_end_between_items_else_words_else_letters():
    assert wrap("● one item   ○ another item", 130, 10) == ["● one item", "○ another item"]
    assert wrap("one two   three", 50, 10) == ["one two", "three"]
    assert wrap("one two three", 1000, 10) == ["one two three"] and wrap("", 9, 10) == [""]
    assert wrap("x" * 9, 4 * 6.1, 10) == ["xxxx", "xxxx", "x"]
    text = "run a · models " + ", ".join(f"provider/model-{i}" for i in range(9))
    assert " ".join(wrap(text, 200, 12)) == text
    assert all(text_width(line, 12) <= 200 for line in wrap(text, 200, 12))


def test_names_are_cut_only_as_far_as_they_must():
    names = ["vendor/qwen3-32b-instruct-2507", "sim/small"]
    assert fitting_names(names, 202, 14) == ["qwen3-32b-instruct-2507", "sim/small"]
    assert fitting_names(names, 1000, 14) == names
    assert "…" in fitting_names(names, 150, 14)[0]


def test_a_long_title_or_subtitle_makes_the_canvas_grow_and_leaves_the_plot_its_size(run):
    plain = f.gains(run.by_arm).layout
    long = f.gains(run.by_arm.assign(benchmark="mine/" + 90 * "x")).layout
    assert long.height - plain.height == long.margin.t - plain.margin.t > 0


def test_trials_text_says_what_was_run():
    def row(tasks, trials):
        return {"n_tasks": tasks, "n_trials": trials}

    assert trials_text(pd.DataFrame([row(20, 60), row(20, 60)])) == "20 tasks × 3 trials"
    assert trials_text(pd.DataFrame([row(20, 20)])) == "20 tasks × 1 trial"
    assert trials_text(pd.DataFrame([row(20, 60), row(19, 55)])) == "19–20 tasks, 55–60 trials"
    pooled = pd.DataFrame([{**row(31, 180), "n_seeds": 3}])
    assert trials_text(pooled) == "31 tasks, 180 trials over 3 seeds"


# ---- what each figure draws


def test_gains_draws_accuracy_interval_and_pass_hat_3(run):
    arms = run.summary["arms"]
    fig, cell = f.gains(run.by_arm), arms["ecdysis"]["sim/large"]
    point = next(
        t for t in fig.data if t.customdata is not None and list(t.customdata[0]) == ["ecdysis", "sim/large"]
    )
    low, high = cell["accuracy_ci95"]
    assert point.x[0] == pytest.approx(100 * cell["accuracy"])
    assert point.x[0] - point.error_x.arrayminus[0] == pytest.approx(100 * low)
    assert point.x[0] + point.error_x.array[0] == pytest.approx(100 * high)
    diamonds = [
        t for t in fig.data if t.marker.symbol == "diamond" and t.xaxis == point.xaxis and t.y == point.y
    ]
    assert [d.x[0] for d in diamonds] == pytest.approx([100 * cell["pass^3"]])
    gain = 100 * (cell["accuracy"] - arms["direct"]["sim/large"]["accuracy"])
    assert f"(+{gain:.0f})" in texts(fig)
    assert "Not scored: 1 infrastructure error" in texts(fig)


def test_gains_takes_missing_metrics_and_several_benchmarks(run):
    frame = run.by_arm.copy()
    frame.loc[0, ["accuracy", "ci_low", "ci_high", "pass^3"]] = None
    frame.loc[1, "pass^3"] = None
    points = [t for t in f.gains(frame).data if t.customdata is not None]
    assert len(points) == 19
    both = pd.concat([run.by_arm, run.by_arm.assign(benchmark="tau2/retail")])
    fig = f.gains(both)
    assert "sim/small · airline" in texts(fig) and "sim/small · retail" in texts(fig)
    assert fig.layout.height > 600
    with pytest.raises(LabError, match="two rows for arm direct on sim/small"):
        f.gains(pd.concat([frame, frame]))


def test_transfer_marks_the_training_model_and_draws_paired_intervals(run):
    frame = f.transfer_frame(run.by_arm)
    assert set(frame["arm"]) == set(data.ARMS5[1:])
    row = frame[(frame["arm"] == "ecdysis") & (frame["model"] == "sim/quirky")].iloc[0]
    arms = run.summary["arms"]
    want = arms["ecdysis"]["sim/quirky"]["accuracy"] - arms["direct"]["sim/quirky"]["accuracy"]
    assert row["gain"] == pytest.approx(want) and not row["trained_on"]
    fig = f.transfer(f.transfer_frame(run.by_arm.assign(train_model="sim/quirky")))
    assert fig.layout.yaxis.ticktext[0] == "sim/quirky<br><i>trained on</i>"
    bars = fig.data[-1]
    at = list(bars.customdata).index("sim/quirky")
    assert bars.x[at] == pytest.approx(100 * want)
    low, high = arms["ecdysis"]["sim/quirky"]["difference_ci95"]
    assert bars.x[at] + bars.error_x.array[at] == pytest.approx(100 * high)
    assert bars.x[at] - bars.error_x.arrayminus[at] == pytest.approx(100 * low)
    assert "paired difference" in texts(fig)
    with pytest.raises(LabError, match="compares with arm 'direct'; the table has human"):
        f.transfer_frame(run.by_arm[run.by_arm["arm"] == "human"])


def entry(n, decision, gate, before, after, gained=0, lost=0):
    """A round's record."""
    counts = {"failures": 6, "patterns": 3, "recurring": 2, "subset": 5, "editor_calls": 1}
    flips = {"gained": ["t#0"] * gained, "lost": ["t#0"] * lost}
    scores = {"score_before": before, "score_after": after}
    return {"round": n, "decision": decision, "gate": gate, **scores, **counts, **flips}


def test_rounds_draws_kept_score_rejections_and_flips():
    rows = [
        entry(1, "accepted", "improvement", 7, 11, 5, 1),
        entry(2, "rejected", "leak", 11, None),
        entry(3, "rejected", "improvement", 11, 9, 1, 3),
    ]
    frame = f.rounds_frame({"ecdysis": {"rounds": rows}})
    assert frame[["gained", "lost"]].to_numpy().tolist() == [[5, 1], [0, 0], [1, 3]]
    kept, marks, gained, lost = f.rounds(frame).data
    assert list(kept.y) == [7, 11, 11, 11, 11]
    assert list(marks.y) == [11, 11, 9] and list(marks.marker.symbol) == ["circle", "x-thin", "x"]
    assert list(gained.y) == [5, 0, 1] and list(lost.y) == [-1, 0, -3]
    shown = texts(f.rounds(frame))
    assert "leak" in shown and "1 of 3 accepted" in shown
    assert tables.rounds_table(frame)["score"].tolist() == ["7 → 11", "11", "11 → 9"]
    assert tables.rounds_table(frame)["patterns"].tolist() == ["3 (2 recurring)"] * 3
    close = f.rounds_frame({"ecdysis": {"rounds": [entry(1, "accepted", "improvement", 47, 48, 1)]}})
    assert f.rounds(close).layout.yaxis.dtick == 1, "no half trials on the axis"


def test_edits_kept_one_by_one_have_the_score_that_the_next_round_starts_from():
    """``self-evolution`` verifies each edit on its own task, so its rounds take no sum."""
    rows = [
        entry(1, "accepted", "own task", 14, None, 2),
        entry(2, "rejected", "own task", 17, None),
        entry(3, "accepted", "own task", 17, None, 1, 2),
    ]
    frame = f.rounds_frame({"self-evolution": {"rounds": rows}})
    assert frame["score_after"].tolist()[::2] == [17, 16] and np.isnan(frame["score_after"][1])
    assert list(f.rounds(frame).data[0].y) == [14, 17, 17, 16, 16]
    assert tables.rounds_table(frame)["score"].tolist() == ["14 → 17", "17", "17 → 16"]


def test_cost_is_usd_and_falls_back_to_tokens(run):
    trained = run.summary["training"]
    fig = f.cost_accuracy(f.cost_frame(run.by_arm, trained))
    assert fig.layout.xaxis.title.text == "cost of training (USD)"
    means = {t.hovertemplate.split(":")[0]: (t.x[0], t.y[0]) for t in fig.data if "mean" in t.hovertemplate}
    accuracies = [100 * m["accuracy"] for m in run.summary["arms"]["ecdysis"].values()]
    assert means["ecdysis"] == pytest.approx((0.42, np.mean(accuracies)))
    assert means["self-evolution"][0] == pytest.approx(1.84 * 0.42)
    unpriced = trained | {"ecdysis": trained["ecdysis"] | {"cost_usd": None}}
    fig = f.cost_accuracy(f.cost_frame(run.by_arm, unpriced))
    assert fig.layout.xaxis.title.text == "tokens used in training (thousands)"
    assert "448 k tokens" in texts(fig)


def test_phases_stack_in_order_with_totals(run):
    fig = f.phases(f.phases_frame(run.summary["training"]))
    assert [t.name for t in fig.data] == ["rollout", "patterns", "subset", "review", "edit", "gates", "rerun"]
    review = next(t for t in fig.data if t.name == "review")
    assert list(review.x) == pytest.approx([1.84 * 18, 0, 18])
    assert "101 s" in texts(fig) and "what another arm had run already took no time" in texts(fig)
    frame = pd.DataFrame({"arm": ["ecdysis"], "phase": ["rollout"], "seconds": [7200.0]})
    fig = f.phases(frame)
    assert fig.layout.xaxis.title.text == "wall clock of training (min)" and fig.data[0].x[0] == 120
    with pytest.raises(LabError, match="negative"):
        f.phases(frame.assign(seconds=-1))
    bare = f.phases_frame({"ecdysis": {"phase_seconds": {"review": 5.0}}})
    assert list(bare.columns) == ["arm", "phase", "seconds", "simulated"]


def test_pattern_map_is_one_trace_with_ids_and_labels_apart():
    found, failures = data.patterns(300, 9, seed=4)
    frame = f.patterns_frame(found, failures)
    fig = f.pattern_map(frame)
    assert len(fig.data) == 1
    trace = fig.data[0]
    assert [c[0] for c in trace.customdata] == [x.key for x in failures]
    colours = np.array(trace.marker.color)
    noise = (frame["pattern"] == -1).to_numpy()
    assert set(colours[noise]) == {NOISE} and NOISE not in colours[~noise]
    first = frame.index[frame["pattern"] == 0][0]
    assert trace.customdata[first][2] == len(found.patterns[0].tasks)
    assert trace.customdata[np.flatnonzero(noise)[0]][1].startswith("noise; nearest P")
    for pattern in found.patterns:
        assert any(f"P{pattern.id} " in a.text for a in fig.layout.annotations)
    medoid = frame[frame["medoid"] & (frame["pattern"] == 0)].iloc[0]
    assert (fig.layout.annotations[0].x, fig.layout.annotations[0].y) == (medoid["x"], medoid["y"])
    boxes = _boxes(frame)
    assert not any(_overlap(a, b) for a, b in combinations(boxes, 2))


def _boxes(frame):
    import ecdysis_lab.show.figures.maps as maps

    boxes, place = [], maps._place
    maps._place = lambda *a: boxes.append(place(*a)) or boxes[-1]
    try:
        _labels(frame, _range(frame["x"]), _range(frame["y"]))
    finally:
        maps._place = place
    return boxes


def test_pattern_map_rings_the_subset_and_says_when_it_is_a_sample():
    found, failures = data.patterns(40, 3)
    frame = f.patterns_frame(found, failures)
    frame["picked"] = frame["key"].isin([x.key for x in failures[:10]])
    fig = f.pattern_map(frame)
    assert list(fig.data[0].marker.line.width[:11]) == [2] * 10 + [0.8]
    assert "10 in the subset" in texts(fig)
    assert "40 failures SAMPLED from 50000" in texts(f.pattern_map(frame.assign(sampled_from=50_000)))


def test_coverage_draws_the_band_and_the_last_values():
    frame = f.coverage_frame(data.subset(12, 48))
    fig = f.coverage(frame)
    high, low, median, picked = fig.data
    assert list(picked.y) == pytest.approx([100 * (1 - 0.82 ** (i + 1)) for i in range(12)])
    assert all(a >= m >= b for a, m, b in zip(high.y, median.y, low.y))
    assert "<b>91%</b> this subset" in texts(fig) and "12 of 48 failures (budget 12)" in texts(fig)
    assert list(picked.customdata) == frame["reason"].tolist()


def test_reference_never_mixes_published_with_measured(run):
    fig = f.reference(f.measured_frame(run.by_arm, "run r"), f.published_frame())
    left = [t for t in fig.data if t.xaxis == "x" and t.mode == "markers"]
    right = [t for t in fig.data if t.xaxis == "x2" and t.mode == "markers"]
    assert {t.marker.color for t in left} == {"white"} and "white" not in {t.marker.color for t in right}
    accuracies = sorted(round(t.x[0], 2) for t in left if t.marker.symbol == "circle")
    assert accuracies == [38.17, 46.67, 51.67, 54.67, 59.33]
    mean = np.mean([100 * m["accuracy"] for m in run.summary["arms"]["ecdysis"].values()])
    assert any(t.x[0] == pytest.approx(mean) for t in right if t.marker.symbol == "circle")
    assert "Published</b>" in texts(fig) and "Measured here</b>" in texts(fig)
    # Only the measured half of the ground is marked: the published numbers are not simulated.
    assert fig.layout.images[0].x > 0.5


def test_several_sets_are_averaged_before_they_stand_beside_the_published_ones():
    two = [data.made(benchmark=b, seed=s).by_arm for s, b in enumerate(("tau2/airline", "tau2/retail"))]
    two[1].loc[two[1]["arm"] == "human", "pass@3"] = None
    found = f.measured_frame(pd.concat(two), "").set_index(["arm", "metric"])
    each = [f.measured_frame(s, "run r").set_index(["arm", "metric"])["value"] for s in two]
    assert found.loc[("ecdysis", "accuracy"), "value"] == pytest.approx(
        sum(e["ecdysis", "accuracy"] for e in each) / 2
    )
    assert found.loc[("ecdysis", "accuracy"), ["n_models", "n_tasks", "n_trials"]].tolist() == [3, 20, 60]
    assert ("human", "pass@3") not in found.index and ("human", "pass^3") in found.index
    assert set(found["source"]) == {"2 sets (airline, retail)"}


def test_an_arm_whose_training_is_unknown_has_no_cost_and_an_untrained_one_costs_nothing():
    frame = f.cost_frame(data.made().by_arm, {}).drop_duplicates("arm").set_index("arm")
    assert frame["training_tokens"].isna().to_dict() == {"direct": False, "human": False, "ecdysis": True}
    assert frame.loc["human", "training_cost_usd"] == 0


def test_labels_of_arms_that_cost_alike_cover_no_point():
    rows = [("direct", 0.44, 0.0), ("ecdysis-no-fdcr", 0.75, 1.76e6), ("ecdysis", 0.75, 1.84e6)]
    frame = pd.DataFrame([{"arm": a, "model": "m", "accuracy": y, "training_tokens": t, "training_cost_usd": None,
                           "n_tasks": 20, "n_trials": 60} for a, y, t in rows])  # fmt: skip
    labels = {
        a.text.split("</b>")[0].rpartition(">")[2].strip(): a
        for a in f.cost_accuracy(frame).layout.annotations
    }
    assert labels["ecdysis-no-fdcr"].x == labels["ecdysis"].x == pytest.approx(1.84)
    assert "■" in labels["ecdysis-no-fdcr"].text and labels["direct"].x == 0
    assert abs(labels["ecdysis-no-fdcr"].y - labels["ecdysis"].y) > 1


def test_reference_tables_hold_the_published_numbers():
    """As issue 6 lists them."""
    folder = Path(__file__).parents[2] / "data" / "reference"
    arms = pd.read_csv(folder / "arms.csv").pivot(index="arm", columns="metric", values="value_percent")
    assert arms[["accuracy", "pass@3", "pass^3"]].T.to_dict("list") == {
        "direct": [38.17, 53.50, 22.50],
        "human": [51.67, 66.00, 37.00],
        "self-evolution": [46.67, 63.50, 29.00],
        "ecdysis-no-fdcr": [54.67, 66.50, 42.00],
        "ecdysis": [59.33, 71.50, 45.00],
    }
    models = pd.read_csv(folder / "models.csv")
    assert sorted(models["accuracy_percent"]) == [11.67, 35, 51.67, 60, 65, 68.33, 71.67, 75, 96.67, 100]
    costs = pd.read_csv(folder / "costs.csv")["value"].tolist()
    assert costs == [8120.6, 4403.0, 2510.8, 8.484, 5.763, 2.485]
    changes = pd.read_csv(folder / "changes.csv")[["before", "after"]].to_numpy().tolist()
    assert changes == [[58.67, 69.56], [11.57, 10.16], [60.0, 45.5], [43.38, 159.60]]


def test_reference_tables_agree_with_their_own_arithmetic():
    folder = Path(__file__).parents[2] / "data" / "reference"
    tables = {p.stem: pd.read_csv(p) for p in folder.glob("*.csv")}
    assert set(tables) == {"arms", "models", "costs", "changes"}
    assert all(t["source"].eq("arXiv 2609.11677").all() for t in tables.values())
    seconds = tables["costs"].query("quantity == 'training_wall_seconds'").set_index("arm")["value"]
    assert seconds["self-evolution"] / seconds["ecdysis"] == pytest.approx(1.84, abs=0.005)
    assert seconds["self-evolution"] / seconds["ecdysis-no-fdcr"] == pytest.approx(3.23, abs=0.005)
    change = tables["changes"].set_index("quantity").loc["accuracy"]
    assert change["after"] / change["before"] - 1 == pytest.approx(0.1856, abs=5e-4)
    ranked = f.published_frame().query("metric == 'accuracy'").sort_values("value")["arm"].tolist()
    assert ranked == ["direct", "self-evolution", "human", "ecdysis-no-fdcr", "ecdysis"]


@pytest.mark.parametrize(
    "name", ["gains", "transfer", "rounds", "cost_accuracy", "phases", "pattern_map", "coverage"]
)
def test_bad_tables_are_refused_by_name(name):
    draw = getattr(f, name)
    with pytest.raises(LabError, match=rf"figure {name} needs column '\w+'"):
        draw(pd.DataFrame({"colour": [1]}))


# ---- files

FOOTER = f.Footer("run-7", "c27b1459d0e4a1f5", 3, ("sim/small", "sim/large"), "all-MiniLM-L6-v2", 0.97, True)


def test_footer_names_run_commit_seed_models_embedder_and_simulated():
    assert FOOTER.text == (
        "run run-7 · commit c27b1459d0e4 · seed 3 · models sim/small, sim/large · "
        "embedder all-MiniLM-L6-v2 (97% of tokens seen) · "
        "SIMULATED: planted-defect models, not a result about real ones"
    )
    assert "SIMULATED" not in f.Footer("r", "c", 0).text
    several = f.Footer("r", "863323e-dirty, b8d04fa", "0, 1").text
    assert several == "run r · commit 863323e-dirty, b8d04fa · seeds 0, 1"


def test_footer_of_a_summary(run):
    footer = f.Footer.of(run.summary)
    assert (footer.run_id, footer.seed, footer.simulated) == ("2026-11-29-airline-s0", 0, True)
    assert footer.models == sorted(data.MODELS4)
    several = f.Footer.of([run.summary | {"run_id": f"r{s}", "seed": s} for s in (2, 0, 1, 3)])
    assert (several.run_id, several.seed) == ("r2 and 3 more", "0, 1, 2, 3")


def test_stamp_marks_a_copy_once():
    plain = f.coverage(f.coverage_frame(data.subset()))
    once = f.stamp(plain, FOOTER)
    twice = f.stamp(once, FOOTER)
    assert "SIMULATED" not in plain.layout.title.text and len(plain.layout.images) == 0
    assert once.layout.title.text.count("SIMULATED") == 1 and len(once.layout.images) == 1
    assert json.loads(once.to_json()) == json.loads(twice.to_json())
    footers = [a.text.replace("<br>", " ") for a in once.layout.annotations if a.name == "footer"]
    assert footers == [FOOTER.text]


def test_many_models_make_the_footer_and_the_canvas_grow():
    plain = f.coverage(f.coverage_frame(data.subset()))
    long = f.stamp(plain, f.Footer("r", "c", 0, tuple(f"provider/model-number-{i}" for i in range(30))))
    assert long.layout.height > 600
    assert long.layout.height - plain.layout.height == long.layout.margin.b - plain.layout.margin.b


def save(fig, folder, name, frame):
    return f.save_all({name: (fig, frame)}, folder, FOOTER)[name]


def test_without_a_browser_the_rest_is_written_and_the_reason_given(tmp_path, monkeypatch):
    monkeypatch.setenv("BROWSER_PATH", "/no/such/chrome")
    frame = f.coverage_frame(data.subset())
    got = save(f.coverage(frame), tmp_path / "new", "coverage", frame)
    assert got["png"] is None and got["svg"] is None
    assert got["skipped"] == "BROWSER_PATH names no program: /no/such/chrome"
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["coverage.csv", "coverage.html"]
    monkeypatch.delenv("BROWSER_PATH")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert f.find_chrome()[0] is None and "no Chrome found" in f.find_chrome()[1]


def test_a_browser_that_dies_is_a_reason_and_not_a_crash(tmp_path, monkeypatch):
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("BROWSER_PATH", str(broken))
    frame, started = f.coverage_frame(data.subset()), time.monotonic()
    got = save(f.coverage(frame), tmp_path, "coverage", frame)
    assert got["png"] is None and str(broken) in got["skipped"]
    assert got["html"].is_file() and time.monotonic() - started < 30


def test_csv_holds_the_table_with_run_and_simulated(tmp_path, monkeypatch):
    monkeypatch.setenv("BROWSER_PATH", "/none")
    frame = f.coverage_frame(data.subset(3, 10)).drop(columns="simulated")
    back = pd.read_csv(save(f.coverage(frame), tmp_path, "coverage", frame)["csv"])
    assert back["coverage"].tolist() == pytest.approx(frame["coverage"].tolist())
    assert back["run_id"].eq("run-7").all() and back["simulated"].all()


def test_bad_names_and_folders_are_refused(tmp_path):
    frame = f.coverage_frame(data.subset())
    fig = f.coverage(frame)
    with pytest.raises(LabError, match=r"name of a figure .* got '\.\./x'"):
        save(fig, tmp_path, "../x", frame)
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="cannot write figures to"):
        save(fig, tmp_path / "file" / "sub", "x", frame)


@pytest.fixture(scope="module")
def written(tmp_path_factory, chrome):
    """Two figures saved by one call inside a running event loop, as in Jupyter; and the browsers started."""
    folder = tmp_path_factory.mktemp("figures")
    starts, counting = folder.with_name("starts"), folder.with_name("chromium")
    counting.write_text(f'#!/bin/sh\necho >> {starts}\nexec {chrome} "$@"\n')
    counting.chmod(0o755)
    frame = f.coverage_frame(data.subset(), simulated=True)
    found, failures = data.patterns()
    spots = f.patterns_frame(found, failures, simulated=True)
    pairs = {"coverage": (f.coverage(frame), frame), "map": (f.pattern_map(spots), spots)}

    async def notebook():
        return f.save_all(pairs, folder, FOOTER)

    patch = pytest.MonkeyPatch()
    patch.setenv("BROWSER_PATH", str(counting))
    got = asyncio.run(notebook())
    patch.undo()
    return got, len(starts.read_text())


def test_one_browser_draws_png_and_svg_of_all_figures(written):
    got, browsers = written
    assert browsers == 1
    for name, paths in got.items():
        assert "skipped" not in paths
        head = paths["png"].read_bytes()[:24]
        assert head[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", head[16:24]) == (1000, 600)
        svg = paths["svg"].read_text()
        assert svg.startswith("<svg") and "SIMULATED" in svg and "run run-7" in svg, name
    folder = got["map"]["png"].parent
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        f"{n}.{e}" for n in ("coverage", "map") for e in ("html", "png", "svg", "csv")
    )


def test_html_draws_itself_with_no_network(written, chrome, tmp_path):
    page = written[0]["coverage"]["html"]
    assert not re.search(r"""<(?:script|link|img)[^>]+(?:src|href)=["']?https?:""", page.read_text())
    dom = _dump(chrome, page.as_uri(), tmp_path)
    assert 'class="main-svg"' in dom and ">SIMULATED</" in dom
    assert "planted-defect models" in dom
    assert re.search(r'href="data:text/csv;base64,[A-Za-z0-9+/=]{200,}"', dom)


def _dump(chrome: str, url: str, profile: Path) -> str:
    """DOM of a page after its scripts ran, in a browser that can reach no host."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]
    options += [f"--user-data-dir={profile}", "--virtual-time-budget=20000", "--dump-dom"]
    done = subprocess.run([chrome, *options, url], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


LOOK = """<!doctype html><meta charset="utf-8"><body><script src="{plotly}"></script><script>
const FIGURES = {figures}, found = {{}}, pen = document.createElement("canvas").getContext("2d");
function drawing(letter, family) {{
  pen.clearRect(0, 0, 300, 150);
  pen.font = "40px " + family;
  pen.fillText(letter, 20, 80);
  return pen.canvas.toDataURL();
}}
(async () => {{
  for (const [name, spec] of Object.entries(FIGURES)) {{
    const div = document.createElement("div");
    document.body.replaceChildren(div);
    await Plotly.newPlot(div, spec.data, spec.layout, {{staticPlot: true}});
    const canvas = div.getBoundingClientRect(), bad = [];
    const all = [...div.querySelectorAll("text")].filter(t => t.textContent.trim());
    const boxes = all.map(t => [t.textContent, t.getBoundingClientRect()]).filter(b => b[1].width > 0);
    boxes.forEach(([text, a], i) => {{
      if (a.left < canvas.left || a.right > canvas.left + spec.layout.width || a.bottom > canvas.top +
          spec.layout.height || a.top < canvas.top) bad.push("outside: " + text);
      boxes.slice(i + 1).forEach(([other, b]) => {{
        const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (x > 2 && y > 3) bad.push(text + " | " + other);
      }});
    }});
    const family = spec.layout.font.family, none = drawing("\\u{{10fffd}}", family);
    const signs = new Set(all.map(t => t.textContent).join("").replace(/[ -~]/g, ""));
    for (const sign of signs) if (drawing(sign, family) === none) bad.push("no glyph: " + sign);
    found[name] = [boxes.length, bad];
  }}
  const out = document.createElement("pre");
  out.textContent = JSON.stringify(found);
  document.body.replaceChildren(out);
}})();
</script>"""


FONTS = {
    "DejaVu": "DejaVu*.ttf",
    "Liberation": "Liberation*.ttf",
    "monospaced": "DejaVuSansMono*.ttf",
    "own": None,
}


@pytest.mark.parametrize("fonts", FONTS)
def test_no_text_overlaps_another_or_leaves_the_canvas(
    drawn, chrome, fonts, fonts_config, tmp_path, monkeypatch
):
    """Boxes of all texts as a real browser sets them, for four sizes of run, on machines with these fonts only."""
    if FONTS[fonts]:
        monkeypatch.setenv("FONTCONFIG_FILE", str(fonts_config(FONTS[fonts])))
    specs = {}
    for size, (summaries, figures) in drawn.items():
        for name, fig in figures.items():
            specs[f"{name} {size}"] = json.loads(f.stamp(fig, f.Footer.of(summaries)).to_json())
    sets = [data.made(benchmark=b, seed=s).by_arm for s, b in enumerate(("tau2/airline", "tau2/retail"))]
    several = f.reference(f.measured_frame(pd.concat(sets), ""), f.published_frame())
    long = f.Footer("r", "c", 0, [f"provider/model-number-{i}" for i in range(40)], simulated=True)
    specs["several sets, many models"] = json.loads(f.stamp(several, long).to_json())
    specs["stopped acts"] = json.loads(f.stamp(stopped_acts(data.stopped_acts()), long).to_json())
    twin = {"text": "twin", "showarrow": False, "x": 3, "xref": "x", "y": 10, "yref": "y"}
    control = f.coverage(f.coverage_frame(data.subset())).update_layout(annotations=[twin, twin])
    control.update_xaxes(title_text="\U0010fffe")
    specs["control"] = json.loads(control.to_json())
    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    page = tmp_path / "look.html"
    figures = json.dumps(specs).replace("</", "<\\/")
    page.write_text(LOOK.format(plotly=script.as_uri(), figures=figures), encoding="utf-8")
    dom = _dump(chrome, page.as_uri(), tmp_path / "profile")
    found = json.loads(
        re.search(r"<pre>(.*)</pre>", dom, re.DOTALL)[1].replace("&lt;", "<").replace("&amp;", "&")
    )
    assert found.pop("control")[1] == ["twin | twin", "no glyph: \U0010fffe"]
    assert len(found) == 34 and all(n >= 8 for n, _ in found.values())
    assert {name: bad for name, (_, bad) in found.items() if bad} == {}
