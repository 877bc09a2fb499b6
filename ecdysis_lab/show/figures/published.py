"""Published figures beside measured ones, in panels of their own and never mixed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ecdysis_lab.show.figures.labels import count, spread, trials_text
from ecdysis_lab.show.figures.style import (
    INK,
    SOFT,
    arm_axis,
    arm_colour,
    arm_label,
    arm_order,
    axis,
    base,
    heading,
    heading_margin,
    label_margin,
    mark_simulated,
    need,
    note,
    panel,
    panel_room,
    simulated,
)

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

NAMES = {"pass^3": "Pass^3", "accuracy": "accuracy", "pass@3": "Pass@3"}
SYMBOLS = {"pass^3": "diamond", "accuracy": "circle", "pass@3": "triangle-right"}
GAP = 0.06  # between the two sides, as a share of both
NEAR = 9.0  # points that the values over the marks stay apart


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
        need(frame, ("arm", "metric", "value", "source"), "reference")
    arms = arm_order([*frame_measured["arm"], *frame_published["arm"]])
    fig = make_subplots(1, 2, shared_yaxes=True, horizontal_spacing=GAP)
    notes: list[dict[str, Any]] = []
    left = label_margin(map(arm_label, arms), 156)
    sides, room = {"Published": frame_published, "Measured here": frame_measured}, panel_room(left, 2, GAP)
    headings = [heading(word, _source_text(frame), room) for word, frame in sides.items()]
    for n, (text, frame) in enumerate(zip(headings, sides.values()), 1):
        notes.append(note(text, **panel(n)[2], yshift=2, font={"size": 14, "color": INK}))
        for y, arm in enumerate(arms):
            notes += _row(fig, frame[(frame["arm"] == arm) & frame["value"].notna()], y, n)
    ground = {"type": "rect", "fillcolor": "#F1F3F4", "line": {"width": 0}, "layer": "below"}
    fig.add_shape(**ground, xref="x domain", yref="y domain", x0=0, x1=1, y0=0, y1=1)
    fig.update_yaxes(arm_axis(arms))
    fig.update_xaxes(axis("share (%)", range=[-4, 104], tickvals=[0, 25, 50, 75, 100]))
    fig.update_xaxes(gridcolor="white", row=1, col=1)
    key = "♦ Pass^3   ● accuracy   ► Pass@3   Models and tasks differ: compare the order, not the values."
    fig.update_layout(
        base("Published beside measured", key, l=left, t=heading_margin(headings, 138)), annotations=notes
    )
    if simulated(frame_measured):
        mark_simulated(fig, "{title} ({mark})", x0=0.55)
    return fig


def _row(fig: go.Figure, rows: pd.DataFrame, y: int, n: int) -> list[dict[str, Any]]:
    """Draw the metrics of one arm on one line; returns their values as annotations."""
    at, refs, _ = panel(n)
    if rows.empty:
        return [note("not run", x=50, y=y, font={"size": 12, "color": SOFT}, **refs)]
    hollow, arm, colour = n == 1, rows["arm"].iloc[0], arm_colour(rows["arm"].iloc[0])
    known = {m: 100 * float(v) for m, v in zip(rows["metric"], rows["value"])}
    values = {m: known[m] for m in NAMES if m in known}
    line = {"color": colour, "width": 2, "dash": "dot" if hollow else "solid"}
    ends = {"x": [min(values.values()), max(values.values())], "y": [y, y], "line": line}
    traces: list[dict[str, Any]] = [{"type": "scatter", "mode": "lines", "hoverinfo": "skip", **ends, **at}]
    for metric, value in values.items():
        fill = "white" if hollow else colour
        look = {"symbol": SYMBOLS[metric], "size": 13, "color": fill, "line": {"color": colour, "width": 2}}
        told = f"{arm}: {NAMES[metric]} %{{x:.2f}}%<extra></extra>"
        point = {"x": [value], "y": [y], "marker": look, "hovertemplate": told, "cliponaxis": False}
        traces.append({"type": "scatter", "mode": "markers", **point, **at})
    fig.add_traces(traces)
    spots = spread(list(values.values()), NEAR)
    over = max(0.0, max(spots) - 100)
    words = {"yshift": 17, "font": {"size": 12, "color": INK}}
    return [note(f"{v:.1f}", x=x - over, y=y, **words, **refs) for v, x in zip(values.values(), spots)]


def _source_text(frame: pd.DataFrame) -> str:
    """Where the values of a side come from and over how much."""
    source = ", ".join(dict.fromkeys(frame["source"]))
    if {"n_models", "n_tasks", "n_trials"} <= set(frame.columns):
        source += f": {count(int(frame['n_models'].max()), 'model')}, {trials_text(frame)} each"
    return source
