"""What harnesses would have stopped or rewritten in recorded trials: failing trials beside passing ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ecdysis_lab.show.figures.labels import count
from ecdysis_lab.show.figures.style import (
    HEIGHT,
    INK,
    arm_axis,
    arm_colour,
    arm_label,
    arm_order,
    axis,
    base,
    finish,
    heading,
    heading_margin,
    label_margin,
    need,
    note,
    panel,
    panel_room,
)

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

NEED = ("arm", "remark", "start", "group", "trials", "tasks", "stopped", "share", "ci_low", "ci_high",
        "failures", "reviewer")  # fmt: skip
GAP = 0.04  # between the panels, as a share of the width
PANELS = {
    "failing": ("Failing trials", "act that ran, or reply, stopped; not yet a success"),
    "passing": ("Passing trials", "act or reply of a passing trial stopped; not yet harm"),
}


def stopped_acts(frame: pd.DataFrame) -> go.Figure:
    """Share of recorded trials in which a harness would have stopped an act or reply, with 95% intervals by task.

    Parameters
    ----------
    frame : one row per harness and group, as :func:`ecdysis_lab.show.learned.stopped_frame` makes it; columns arm,
        remark (behind the arm's name), start (harness; empty where shipped), group (``"failing"``, ``"passing"``),
        trials, tasks, stopped (trials), share, ci_low, ci_high (in [0, 1], missing without a trial), failures (learned
        from; empty where shipped), reviewer; optional simulated.

    Returns
    -------
    Figure with two panels, one row an arm.

    Raises
    ------
    LabError: a missing column, or no row.
    """
    from plotly.subplots import make_subplots

    need(frame, NEED, "stopped_acts")
    arms = arm_order(frame["arm"])
    fig = make_subplots(1, 2, shared_yaxes=True, horizontal_spacing=GAP)
    labels = [_label(frame[frame["arm"] == arm].iloc[0]) for arm in arms]
    left = label_margin((line for label in labels for line in label.split("<br>")), 156)
    notes: list[dict[str, Any]] = []
    headings = []
    for n, (group, (name, about)) in enumerate(PANELS.items(), 1):
        rows = frame[frame["group"] == group]
        sizes = f"{count(_most(rows, 'trials'), 'trial')} of {count(_most(rows, 'tasks'), 'task')}"
        headings.append(heading(name, f"{about}; {sizes}", panel_room(left, 2, GAP)))
        notes.append(note(headings[-1], **panel(n)[2], font={"size": 14, "color": INK}))
        notes += _panel(fig, rows[rows["share"].notna()], arms, n)
    fig.update_yaxes(arm_axis(arms) | {"ticktext": labels})
    fig.update_xaxes(axis("share of recorded trials (%)", range=[-4, 104], tickvals=[0, 25, 50, 75, 100]))
    key = "● trials with one stopped or rewritten, 95% interval (bootstrap over tasks)"
    key += "   tasks that no arm was trained on"
    starts = ", ".join(dict.fromkeys(start for start in frame["start"] if start))
    key += f"   arms start from {starts}" if starts else ""
    height = max(HEIGHT - 160, 260 + 62 * len(arms))
    look = base(
        "A stopped act is not yet a success: acts of recorded trials, by replay",
        key,
        height=height,
        l=left,
        t=heading_margin(headings, 132),
    )
    fig.update_layout(look)
    fig.update_layout(annotations=notes)
    return finish(fig, frame)


def _label(row: pd.Series) -> str:
    """Name of an arm, what its row is, and what it learned from; a line each."""
    lines = [arm_label(row["arm"]), row["remark"]]
    if row["failures"] != "":
        by = f"reviewed by {row['reviewer']}" if row["reviewer"] else "no review"
        lines += [f"{count(int(row['failures']), 'failure')}, {by}"]
    return "<br>".join(filter(None, lines))


def _most(rows: pd.DataFrame, column: str) -> int:
    return int(rows[column].max()) if len(rows) else 0


def _panel(fig: go.Figure, rows: pd.DataFrame, arms: list[str], n: int) -> list[dict[str, Any]]:
    """Draw one group; returns the values as annotations."""
    at, refs, _ = panel(n)
    notes = []
    for row in rows.to_dict("records"):
        y, colour = arms.index(row["arm"]), arm_colour(row["arm"])
        value, low, high = (100 * float(row[c]) for c in ("share", "ci_low", "ci_high"))
        ends = {"type": "data", "array": [high - value], "arrayminus": [value - low]}
        told = (
            f"{row['arm']} {row['remark']}: {row['stopped']} of {row['trials']} trials, "
            f"95% interval {low:.1f} to {high:.1f}%"
        )
        fig.add_traces(
            [{
                "type": "scatter", "mode": "markers", "x": [value], "y": [y], "cliponaxis": False,
                "marker": {"size": 12, "color": colour},
                "error_x": {**ends, "color": colour, "thickness": 2.5, "width": 5},
                "hovertemplate": f"{told}<extra></extra>", **at,
            }]
        )  # fmt: skip
        text = f"<b>{row['stopped']}</b> of {row['trials']}"
        notes.append(note(text, x=min(max(value, 9), 91), y=y, yshift=19, **refs))
    return notes
