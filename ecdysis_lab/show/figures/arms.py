"""Arms against each other: accuracy with intervals, and gains model by model."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from ecdysis_lab.records import LabError
from ecdysis_lab.show.figures.labels import count, fitting_names, model_names, trials_text
from ecdysis_lab.show.figures.style import (
    HEIGHT,
    INK,
    SOFT,
    arm_axis,
    arm_colour,
    arm_label,
    arm_order,
    axis,
    base,
    columns_of,
    finish,
    heading,
    heading_margin,
    hide,
    label_margin,
    need,
    note,
    panel,
    panel_room,
)
from ecdysis_lab.train.arms import BASELINE

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

PER_ROW = 4
BETWEEN = 104  # pixels between rows of panels, for the axis above and the heading below
GAINS = ("arm", "model", "accuracy", "ci_low", "ci_high", "pass^3", "n_tasks", "n_trials")
TRANSFER = ("arm", "model", "baseline", "accuracy", "gain", "n_tasks", "n_trials")


def gains(frame: pd.DataFrame) -> go.Figure:
    """Accuracy by arm, one panel a model, with 95% intervals and Pass^3.

    Parameters
    ----------
    frame : one row per arm, model and benchmark, as
        :func:`ecdysis_lab.evaluate.summaries.summarise` makes it; columns arm, model, accuracy,
        ci_low, ci_high, pass^3, n_tasks, n_trials (shares in [0, 1]); optional benchmark, infra_errors,
        user_faults, simulated. Tables of several benchmarks may be concatenated.

    Returns
    -------
    Figure with one row of panels per four models; ``customdata`` of an accuracy holds (arm, model).

    Raises
    ------
    LabError: a missing column, no row, or two rows for one arm, model and benchmark.
    """
    from plotly.subplots import make_subplots

    need(frame, GAINS, "gains")
    panels, arms = _panels(frame), arm_order(frame["arm"])
    columns = min(PER_ROW, len(panels))
    lines = ceil(len(panels) / columns)
    height = HEIGHT + (lines - 1) * (110 + 46 * len(arms))
    gap = {"horizontal_spacing": 0.028, "vertical_spacing": 96 / (height - 236)}
    fig = make_subplots(lines, columns, shared_yaxes=True, **gap)
    notes: list[dict[str, Any]] = []
    left = label_margin(map(arm_label, arms), 156)
    room = panel_room(left, columns, gap["horizontal_spacing"])
    titles = fitting_names([title for title, _ in panels], room, 14)
    headings = [heading(title, trials_text(rows), room) for title, (_, rows) in zip(titles, panels)]
    for n, (text, (_, rows)) in enumerate(zip(headings, panels), 1):
        notes.append(note(text, **panel(n)[2], font={"size": 14, "color": INK}))
        notes += _gains_panel(fig, rows, arms, n)
    fig.update_yaxes(arm_axis(arms))
    fig.update_xaxes(axis(range=[-4, 104], tickvals=[0, 25, 50, 75, 100]))
    for n in range(max(1, len(panels) - columns + 1), len(panels) + 1):
        suffix = "" if n == 1 else str(n)
        fig.layout[f"xaxis{suffix}"].title.text = "accuracy (% of trials)"
    key = (
        "● accuracy, with its 95% interval (bootstrap over tasks)   ◊ Pass^3: all 3 trials of a task succeed"
    )
    if BASELINE in arms:
        key += f"   ¦ {BASELINE}; in brackets: points over it"
    margin = {"l": left, "t": heading_margin(headings, 132)}
    fig.update_layout(base(_title("Accuracy by arm", frame), key + _unscored(frame), height=height, **margin))
    fig.update_layout(annotations=notes)
    return finish(fig, frame)


def _panels(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(title, rows) by benchmark and model in order of appearance."""
    by = ["benchmark", "model"] if "benchmark" in frame.columns else ["model"]
    twice = frame[frame.duplicated([*by, "arm"])]
    if len(twice):
        row = twice.iloc[0]
        raise LabError(f"two rows for arm {row['arm']} on {row['model']}: draw one run or one mean at a time")
    several = "benchmark" in by and frame["benchmark"].nunique() > 1
    return [
        (f"{key[-1]} · {key[0].rpartition('/')[2]}" if several else str(key[-1]), rows)
        for key, rows in frame.groupby(by, sort=False)
    ]


def _gains_panel(fig: go.Figure, rows: pd.DataFrame, arms: list[str], n: int) -> list[dict[str, Any]]:
    """Draw one model; returns the values as annotations."""
    at, refs, _ = panel(n)
    rows = rows[rows["accuracy"].notna()]
    reference = rows.loc[rows["arm"] == BASELINE, "accuracy"]
    start = 100 * float(reference.iloc[0]) if len(reference) else None
    traces, notes = [], []
    if start is not None:
        dots = {"color": SOFT, "width": 1, "dash": "dot"}
        ends = {"x": [start, start], "y": [-0.6, len(arms) - 0.4]}
        traces.append({"type": "scatter", "mode": "lines", "line": dots, "hoverinfo": "skip", **ends, **at})
    for row in rows.to_dict("records"):
        y, value = arms.index(row["arm"]), 100 * float(row["accuracy"])
        traces += [{**t, **at} for t in _accuracy_marks(row, y)]
        gain = "" if start is None or row["arm"] == BASELINE else f" ({_signed(value - start)})"
        place = {"x": min(max(value, 17), 83), "y": y, "yshift": 19, "bgcolor": "rgba(255,255,255,0.75)"}
        notes.append(note(f"<b>{value:.0f}%</b>{gain}", **place, borderpad=0, **refs))
    fig.add_traces(traces)
    return notes


def _signed(points: float) -> str:
    return f"{points:+.0f}".replace("-", "−").replace("+0", "±0").replace("−0", "±0")


def _accuracy_marks(row: dict[Any, Any], y: int) -> list[dict[str, Any]]:
    """Pass^3 first, so that the accuracy lies on top of it."""
    colour, arm = arm_colour(row["arm"]), row["arm"]
    value, low, high = (100 * float(row[c]) for c in ("accuracy", "ci_low", "ci_high"))
    point = {"type": "scatter", "mode": "markers", "y": [y], "cliponaxis": False}
    marks = []
    if row["pass^3"] is not None and row["pass^3"] == row["pass^3"]:
        hollow = {"symbol": "diamond", "size": 11, "color": "white", "line": {"color": colour, "width": 2}}
        told = f"{arm}: Pass^3 %{{x:.1f}}%<extra>{row['model']}</extra>"
        marks.append({**point, "x": [100 * float(row["pass^3"])], "marker": hollow, "hovertemplate": told})
    ends = {"type": "data", "array": [high - value], "arrayminus": [value - low]}
    told = f"{arm}: %{{x:.1f}}%, 95% interval {low:.1f} to {high:.1f}<extra>{row['model']}</extra>"
    marks.append(
        {
            **point,
            "x": [value],
            "marker": {"size": 12, "color": colour},
            "error_x": {**ends, "color": colour, "thickness": 2.5, "width": 5},
            "customdata": [[arm, row["model"]]],
            "hovertemplate": told,
        }
    )
    return marks


def _title(text: str, frame: pd.DataFrame) -> str:
    """Title with the benchmark where the table has a single one."""
    names = frame["benchmark"].unique() if "benchmark" in frame.columns else []
    return f"{text}, {names[0]}" if len(names) == 1 and names[0] else text


def _unscored(frame: pd.DataFrame) -> str:
    """An item of the key on trials that no metric counts, or nothing."""
    parts = []
    for column, name in (("infra_errors", "infrastructure error"), ("user_faults", "user fault")):
        n = int(frame[column].sum()) if column in frame.columns else 0
        if n:
            parts.append(count(n, name))
    return f"   Not scored: {' and '.join(parts)}." if parts else ""


def transfer(frame: pd.DataFrame) -> go.Figure:
    """Points gained over ``direct`` on each model, one panel an arm.

    Parameters
    ----------
    frame : one row per arm and model, as ``transfer_frame`` makes it; columns arm, model, baseline, accuracy,
        gain, n_tasks, n_trials (shares in [0, 1]); optional gain_low, gain_high (95% interval of the paired
        difference), trained_on (marks the model that the harness was trained on), benchmark, simulated.

    Returns
    -------
    Figure whose x axes share one scale in percentage points; ``customdata`` holds the model.

    Raises
    ------
    LabError: a missing column, or no row.
    """
    from plotly.subplots import make_subplots

    need(frame, TRANSFER, "transfer")
    arms, (models, trained) = arm_order(frame["arm"]), _models(frame)
    short_names = model_names(models, 24)
    left, gap = label_margin(short_names, 110), 0.028
    columns = columns_of([arm_label(arm) for arm in arms], left, gap)
    lines, tall = ceil(len(arms) / columns), max(HEIGHT - 224, 26 + 62 * len(models))
    plot = lines * tall + (lines - 1) * BETWEEN
    spacing = {"horizontal_spacing": gap, "vertical_spacing": BETWEEN / plot if lines > 1 else 0.0}
    fig = make_subplots(lines, columns, shared_yaxes=True, **spacing)
    low, high = _gain_range(frame)
    notes: list[dict[str, Any]] = []
    for n, arm in enumerate(arms, 1):
        notes.append(note(f"<b>{arm_label(arm)}</b>", **panel(n)[2], yshift=4))
        rows = frame[(frame["arm"] == arm) & frame["gain"].notna()]
        notes += _gain_bars(fig, rows, models, n, tall / (len(models) + 0.2))
    names = [s + ("<br><i>trained on</i>" if m in trained else "") for s, m in zip(short_names, models)]
    ticks: dict[str, Any] = {"tickvals": list(range(len(models))), "ticktext": names}
    fig.update_yaxes(axis(range=[len(models) - 0.4, -0.6], showgrid=False, **ticks))
    zero = {"zeroline": True, "zerolinecolor": SOFT, "zerolinewidth": 1.5}
    fig.update_xaxes(axis("gain (percentage points)", range=[low, high], nticks=6) | zero)
    hide(fig, range(len(arms) + 1, lines * columns + 1))
    key = f"Under each bar: accuracy of {BASELINE} → of the arm; {trials_text(frame)} each"
    if _has_interval(frame):
        key += "   line: 95% interval of the paired difference"
    title = _title(f"Gain over {BASELINE} by model", frame)
    fig.update_layout(base(title, key, height=plot + 224, l=left, t=116))
    fig.update_layout(annotations=notes)
    return finish(fig, frame)


def _models(frame: pd.DataFrame) -> tuple[list[str], set[str]]:
    """Models in order of appearance, those trained on first; and which those are."""
    models = list(dict.fromkeys(frame["model"]))
    if "trained_on" not in frame.columns:
        return models, set()
    trained = set(frame.loc[frame["trained_on"].astype(bool), "model"])
    return sorted(models, key=lambda m: m not in trained), trained


def _has_interval(frame: pd.DataFrame) -> bool:
    return {"gain_low", "gain_high"} <= set(frame.columns) and bool(frame["gain_low"].notna().any())


def _gain_range(frame: pd.DataFrame) -> tuple[float, float]:
    """Common range in points, with room for a label behind the longest bar or interval."""
    ends = [frame["gain"]] + ([frame["gain_low"], frame["gain_high"]] if _has_interval(frame) else [])
    low = 100 * min(0.0, *(float(e.min()) for e in ends))
    high = 100 * max(0.0, *(float(e.max()) for e in ends))
    room = max(high - low, 5.0)
    return low - 0.1 * room, high + 0.38 * room


def _gain_bars(
    fig: go.Figure, rows: pd.DataFrame, models: list[str], n: int, pixels: float
) -> list[dict[str, Any]]:
    """Draw one arm, ``pixels`` a model; returns the values as annotations."""
    at, refs, _ = panel(n)
    y, points = [models.index(m) for m in rows["model"]], 100 * rows["gain"].astype(float)
    tips, thick = points.clip(lower=0), min(38.0, 0.42 * pixels)
    error: dict[str, Any] = {"visible": False}
    if _has_interval(rows):
        up, down = (100 * rows[c].astype(float) for c in ("gain_high", "gain_low"))
        look = {"color": INK, "thickness": 1.5, "width": 4}
        error = {"type": "data", "array": up - points, "arrayminus": points - down, **look}
        tips = tips.combine(up.fillna(0.0), max)
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": points,
        "y": y,
        "width": thick / pixels,
        "marker": {"color": [arm_colour(a) for a in rows["arm"]]},
        "error_x": error,
        "customdata": rows["model"],
        "hovertemplate": "%{customdata}: %{x:+.1f} points<extra></extra>",
    }
    fig.add_traces([{**bars, **at}])
    notes = []
    for line, tip, point, before, after in zip(y, tips, points, rows["baseline"], rows["accuracy"]):
        behind = {"x": tip, "y": line, "xanchor": "left", "xshift": 5}
        notes.append(note(f"<b>{_signed(point)}</b>", **behind, **refs))
        under = {
            "x": 0,
            "y": line,
            "yshift": -thick / 2 - 11,
            "xanchor": "left",
            "xshift": 2,
            "font": {"size": 12, "color": SOFT},
        }
        notes.append(note(f"{100 * before:.0f} → {100 * after:.0f}%", **under, **refs))
    return notes
