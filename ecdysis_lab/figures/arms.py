"""Arms against each other: accuracy with intervals, and gains model by model."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from ecdysis_lab.figures.frames import BASELINE
from ecdysis_lab.figures.style import (
    EDGE,
    HEIGHT,
    INK,
    SOFT,
    WIDTH,
    arm_colour,
    arm_label,
    arm_order,
    axis,
    base,
    finish,
    need,
    short,
    trials_text,
)
from ecdysis_lab.records import LabError

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

PER_ROW = 4


def gains(frame: pd.DataFrame) -> go.Figure:
    """Accuracy by arm, one panel a model, with 95% intervals and Pass^3.

    Parameters
    ----------
    frame : one row per arm, model and benchmark, as ``gains_frame`` makes it; columns arm, model, accuracy,
        ci_low, ci_high, pass_hat_3, n_tasks, n_trials (shares in [0, 1]); optional benchmark, infra_errors,
        user_faults, simulated. Tables of several benchmarks may be concatenated.

    Returns
    -------
    Figure with one row of panels per four models; ``customdata`` holds (arm, model).

    Raises
    ------
    LabError: a missing column, no row, or two rows for one arm, model and benchmark.
    """
    from plotly.subplots import make_subplots

    need(frame, "arm model accuracy ci_low ci_high pass_hat_3 n_tasks n_trials".split(" "), "gains")
    panels, arms = _panels(frame), arm_order(frame["arm"])
    columns = min(PER_ROW, len(panels))
    lines = ceil(len(panels) / columns)
    height = HEIGHT + (lines - 1) * (110 + 46 * len(arms))
    fig = make_subplots(
        lines, columns, shared_yaxes=True, horizontal_spacing=0.025, vertical_spacing=92 / (height - 210)
    )
    for i, (where, rows) in enumerate(panels):
        line, column = i // columns + 1, i % columns + 1
        reference = rows.loc[rows["arm"] == BASELINE, "accuracy"].dropna()
        start = 100 * float(reference.iloc[0]) if len(reference) else None
        for arm in arms:
            _accuracy(fig, rows[rows["arm"] == arm], arms.index(arm), start, {"row": line, "col": column})
        if start is not None:
            fig.add_vline(start, line={"color": SOFT, "width": 1, "dash": "dot"}, row=line, col=column)
        _panel_title(fig, where, trials_text(rows), {"row": line, "col": column}, int(800 / columns / 7.5))
    ticks = {"tickvals": list(range(len(arms))), "ticktext": [arm_label(a) for a in arms]}
    fig.update_yaxes(axis(range=[len(arms) - 0.45, -0.6], showgrid=False, **ticks))
    fig.update_xaxes(axis("accuracy (% of trials)", range=[-3, 103], tickvals=[0, 25, 50, 75, 100]))
    key = "● accuracy, line = 95% interval (bootstrap over tasks)   ◇ Pass^3: all 3 trials of a task succeed"
    if BASELINE in arms:
        key += f"   ┊ {BASELINE}, in brackets the points gained over it"
    fig.update_layout(
        base(_title("Accuracy by arm", frame), key + _unscored(frame), height=height, l=150, t=128)
    )
    return finish(fig, frame)


def _panels(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(title, rows) by benchmark and model in order of appearance."""
    by = ["benchmark", "model"] if "benchmark" in frame.columns else ["model"]
    if frame.duplicated([*by, "arm"]).any():
        row = frame[frame.duplicated([*by, "arm"])].iloc[0]
        raise LabError(f"two rows for arm {row['arm']} on {row['model']}: draw one run or one mean at a time")
    several = "benchmark" in by and frame["benchmark"].nunique() > 1
    panels = []
    for key, rows in frame.groupby(by, sort=False):
        panels.append((f"{key[-1]} · {key[0].rpartition('/')[2]}" if several else key[-1], rows))
    return panels


def _accuracy(fig: go.Figure, rows: pd.DataFrame, y: int, start: float | None, place: dict[str, int]) -> None:
    """One arm in one panel: Pass^3 first, so that the accuracy lies on top of it."""
    import plotly.graph_objects as go

    rows = rows[rows["accuracy"].notna()]
    if rows.empty:
        return
    row = rows.iloc[0]
    colour = arm_colour(row["arm"])
    value, low, high = (100 * float(row[c]) for c in ("accuracy", "ci_low", "ci_high"))
    if row["pass_hat_3"] is not None and row["pass_hat_3"] == row["pass_hat_3"]:
        mark = {"symbol": "diamond", "size": 11, "color": "white", "line": {"color": colour, "width": 2}}
        told = f"{row['arm']}: Pass^3 %{{x:.1f}}%<extra>{row['model']}</extra>"
        fig.add_trace(
            go.Scatter(
                x=[100 * float(row["pass_hat_3"])], y=[y], mode="markers", marker=mark, hovertemplate=told
            ),
            **place,
        )
    told = f"{row['arm']}: %{{x:.1f}}%, 95% interval {low:.1f} to {high:.1f}<extra>{row['model']}</extra>"
    bar = {"type": "data", "array": [high - value], "arrayminus": [value - low]}
    point = go.Scatter(
        x=[value],
        y=[y],
        mode="markers",
        marker={"size": 12, "color": colour},
        error_x={**bar, "color": colour, "thickness": 2.5, "width": 5},
        customdata=[[row["arm"], row["model"]]],
        hovertemplate=told,
    )
    fig.add_trace(point, **place)
    gain = "" if start is None or row["arm"] == BASELINE else f" ({value - start:+.0f})".replace("-", "−")
    fig.add_annotation(
        text=f"<b>{value:.0f}%</b>{gain}",
        x=min(max(value, 16), 84),
        y=y,
        yshift=18,
        showarrow=False,
        font={"size": 13, "color": INK},
        **place,
    )


def _panel_title(fig: go.Figure, text: str, below: str, place: dict[str, int], chars: int) -> None:
    """Name above a panel, with its tasks and trials under it."""
    fig.add_annotation(
        text=f"<b>{short(text, chars)}</b><br><span style='color:{SOFT};font-size:12px'>{below}</span>",
        showarrow=False,
        align="left",
        font={"size": 14},
        **{"xref": "x domain", "x": 0, "xanchor": "left", "yref": "y domain", "y": 1, "yanchor": "bottom"},
        **place,
    )


def _title(text: str, frame: pd.DataFrame) -> str:
    """Title with the benchmark where the table has a single one."""
    names = frame["benchmark"].unique() if "benchmark" in frame.columns else []
    return f"{text} on {names[0]}" if len(names) == 1 and names[0] else text


def _unscored(frame: pd.DataFrame) -> str:
    """A line on trials that no metric counts, or nothing."""
    parts = []
    for column, name in (("infra_errors", "infrastructure error"), ("user_faults", "user fault")):
        count = int(frame[column].sum()) if column in frame.columns else 0
        if count:
            parts.append(f"{count} {name}{'s' if count > 1 else ''}")
    return f"<br>Not scored: {' and '.join(parts)}." if parts else ""


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

    need(frame, ["arm", "model", "baseline", "accuracy", "gain", "n_tasks", "n_trials"], "transfer")
    arms, models = arm_order(frame["arm"]), _models(frame)
    height = max(HEIGHT, 250 + 62 * len(models))
    fig = make_subplots(1, len(arms), shared_yaxes=True, horizontal_spacing=0.025)
    low, high = _gain_range(frame)
    for column, arm in enumerate(arms, 1):
        place = {"row": 1, "col": column}
        rows = frame[frame["arm"] == arm]
        _gain_bars(fig, rows, models, high, place)
        _panel_title(fig, arm, "", place, 40)
    trained = (
        set(frame.loc[frame["trained_on"].astype(bool), "model"]) if "trained_on" in frame.columns else set()
    )
    names = [short(m, 24) + ("<br><i>trained on</i>" if m in trained else "") for m in models]
    ticks = {"tickvals": list(range(len(models))), "ticktext": names}
    fig.update_yaxes(axis(range=[len(models) - 0.4, -0.6], showgrid=False, **ticks))
    zero = {"zeroline": True, "zerolinecolor": SOFT, "zerolinewidth": 1.5}
    fig.update_xaxes(axis(f"gain over {BASELINE}<br>(percentage points)", range=[low, high], nticks=6) | zero)
    left = 40 + 7 * max(len(short(m, 24)) for m in models)
    key = f"Below each bar: accuracy of {BASELINE} → of the arm; {trials_text(frame)} a cell"
    if _has_interval(frame):
        key += "; line = 95% interval of the paired difference"
    title = _title(f"Gain over {BASELINE}, model by model", frame)
    fig.update_layout(base(title, key, height=height, l=max(110, left), t=116, b=122))
    return finish(fig, frame)


def _models(frame: pd.DataFrame) -> list[str]:
    """Models in order of appearance, those trained on first."""
    models = list(dict.fromkeys(frame["model"]))
    if "trained_on" not in frame.columns:
        return models
    trained = set(frame.loc[frame["trained_on"].astype(bool), "model"])
    return sorted(models, key=lambda m: m not in trained)


def _has_interval(frame: pd.DataFrame) -> bool:
    return {"gain_low", "gain_high"} <= set(frame.columns) and bool(frame["gain_low"].notna().any())


def _gain_range(frame: pd.DataFrame) -> tuple[float, float]:
    """Common range in points, with room for a label behind the longest bar or interval."""
    ends = [frame["gain"]] + ([frame["gain_low"], frame["gain_high"]] if _has_interval(frame) else [])
    low = 100 * min(0.0, *(float(e.min()) for e in ends))
    high = 100 * max(0.0, *(float(e.max()) for e in ends))
    room = 0.12 * max(high - low, 5)
    return low - room, high + 3 * room


def _gain_bars(
    fig: go.Figure, rows: pd.DataFrame, models: list[str], high: float, place: dict[str, int]
) -> None:
    import plotly.graph_objects as go

    rows = rows[rows["gain"].notna()]
    at, points = [models.index(m) for m in rows["model"]], 100 * rows["gain"].astype(float)
    error: dict[str, Any] = {"visible": False}
    tips = points.clip(lower=0)
    if _has_interval(rows):
        up, down = (100 * rows[c].astype(float) for c in ("gain_high", "gain_low"))
        error = {
            "type": "data",
            "array": up - points,
            "arrayminus": points - down,
            "color": INK,
            "thickness": 1.5,
        }
        tips = tips.combine(up.fillna(0), max)
    bars = go.Bar(
        x=points,
        y=at,
        orientation="h",
        width=0.42,
        marker={"color": [arm_colour(a) for a in rows["arm"]]},
        error_x=error,
        customdata=rows["model"],
        hovertemplate="%{customdata}: %{x:+.1f} points<extra></extra>",
    )
    fig.add_trace(bars, **place)
    for y, tip, point, before, after in zip(at, tips, points, rows["baseline"], rows["accuracy"]):
        told = f"<b>{point:+.0f}</b>".replace("-", "−")
        fig.add_annotation(text=told, x=tip, y=y, xanchor="left", xshift=5, showarrow=False, **place)
        under = f"{100 * before:.0f} → {100 * after:.0f}%"
        font = {"size": 12, "color": SOFT}
        fig.add_annotation(
            text=under, x=0, y=y + 0.36, xanchor="left", xshift=3, showarrow=False, font=font, **place
        )
