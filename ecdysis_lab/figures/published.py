"""Published figures beside measured ones, in panels of their own and never mixed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecdysis_lab.figures.style import (
    ALARM,
    INK,
    SOFT,
    arm_colour,
    arm_label,
    arm_order,
    axis,
    base,
    need,
    simulated,
)

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

METRICS = ("pass@3", "accuracy", "pass^3")
NAMES = {"pass@3": "Pass@3", "accuracy": "accuracy", "pass^3": "Pass^3"}
SYMBOLS = {"pass@3": "triangle-right", "accuracy": "circle", "pass^3": "diamond"}


def reference(frame_measured: pd.DataFrame, frame_published: pd.DataFrame) -> go.Figure:
    """Measured metrics beside the published ones.

    Parameters
    ----------
    frame_measured : columns arm, metric (``accuracy``, ``pass@3``, ``pass^3``), value in [0, 1], source;
        optional n_models, n_tasks, n_trials, simulated; as ``measured_frame`` makes it.
    frame_published : columns arm, metric, value, source; as ``published_frame`` makes it.

    Returns
    -------
    Figure with published values on the left (hollow marks, grey ground) and measured ones on the right
    (filled marks), one row an arm, one scale.

    Raises
    ------
    LabError: a missing column, or no row.
    """
    from plotly.subplots import make_subplots

    for frame in (frame_measured, frame_published):
        need(frame, ["arm", "metric", "value", "source"], "reference")
    arms = arm_order([*frame_measured["arm"], *frame_published["arm"]])
    fig = make_subplots(1, 2, shared_yaxes=True, horizontal_spacing=0.06)
    sides = ((frame_published, "published", True), (frame_measured, "measured here", False))
    for column, (frame, word, hollow) in enumerate(sides, 1):
        for y, arm in enumerate(arms):
            _row(fig, frame[frame["arm"] == arm], y, hollow, {"row": 1, "col": column})
        _heading(fig, frame, word, {"row": 1, "col": column})
    ground = {"type": "rect", "fillcolor": "#F3F4F6", "line": {"width": 0}, "layer": "below"}
    fig.add_shape(**ground, xref="x domain", yref="y domain", x0=0, x1=1, y0=0, y1=1)
    ticks = {"tickvals": list(range(len(arms))), "ticktext": [arm_label(a) for a in arms]}
    fig.update_yaxes(axis(range=[len(arms) - 0.4, -0.6], showgrid=False, **ticks))
    fig.update_xaxes(axis("share (%)", range=[0, 105], tickvals=[0, 25, 50, 75, 100]))
    fig.update_xaxes(gridcolor="white", row=1, col=1)
    key = "▶ Pass@3   ● accuracy   ◆ Pass^3   Other models, tasks and prices: compare the order, not the values."
    fig.update_layout(base("Published beside measured", key, l=150, t=150))
    return fig


def _row(fig: go.Figure, rows: pd.DataFrame, y: int, hollow: bool, place: dict[str, int]) -> None:
    """One arm: its metrics on one line, values above the marks."""
    import plotly.graph_objects as go

    rows = rows[rows["value"].notna()]
    if rows.empty:
        fig.add_annotation(
            text="not run", x=50, y=y, showarrow=False, font={"size": 12, "color": SOFT}, **place
        )
        return
    colour, arm = arm_colour(rows["arm"].iloc[0]), rows["arm"].iloc[0]
    values = {m: 100 * float(v) for m, v in zip(rows["metric"], rows["value"]) if m in METRICS}
    ends = go.Scatter(
        x=[min(values.values()), max(values.values())],
        y=[y, y],
        mode="lines",
        line={"color": colour, "width": 2, "dash": "dot" if hollow else "solid"},
        hoverinfo="skip",
    )
    fig.add_trace(ends, **place)
    for metric, value in values.items():
        mark = {"symbol": SYMBOLS[metric], "size": 13, "color": "white" if hollow else colour}
        fig.add_trace(
            go.Scatter(
                x=[value],
                y=[y],
                mode="markers+text",
                text=[f"{value:.0f}"],
                textposition="top center",
                textfont={"size": 12, "color": INK},
                marker={**mark, "line": {"color": colour, "width": 2}},
                hovertemplate=f"{arm}: {NAMES[metric]} %{{x:.2f}}%<extra></extra>",
            ),
            **place,
        )


def _heading(fig: go.Figure, frame: pd.DataFrame, word: str, place: dict[str, int]) -> None:
    source = ", ".join(dict.fromkeys(frame["source"]))
    if "n_models" in frame.columns:
        first = frame.iloc[0]
        source += f": {first['n_models']} models, {first['n_tasks']} tasks, {first['n_trials']} trials each"
    mark = f" <span style='color:{ALARM}'>SIMULATED</span>" if simulated(frame) else ""
    fig.add_annotation(
        text=f"<b>{word.upper()}</b>{mark}<br><span style='color:{SOFT};font-size:12px'>{source}</span>",
        showarrow=False,
        align="left",
        font={"size": 14},
        **{"xref": "x domain", "x": 0, "xanchor": "left", "yref": "y domain", "y": 1, "yanchor": "bottom"},
        **place,
    )
