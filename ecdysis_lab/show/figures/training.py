"""Training round by round: score held, candidates accepted and rejected, tasks that flipped."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from ecdysis_lab.show.figures.labels import trials_text
from ecdysis_lab.show.figures.style import (
    INK,
    SOFT,
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
    need,
    note,
    panel,
    panel_room,
)

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

NEED = ("arm", "round", "decision", "gate", "score_before", "score_after", "gained", "lost")
CROWD = 14
FEW_TICKS = 8  # points of score on an axis, up to which each has its tick
LEFT = 92  # margin in pixels
GAP = 0.035  # between panels side by side, as a share of the plot's width
TALL, INNER, AXIS = 360, 25, 62  # pixels: both panels of an arm, the gap between them, the axis under them
SCORES = 0.66  # share of the upper panel
LOST = "#9AA0A6"


def rounds(frame: pd.DataFrame) -> go.Figure:
    """Training score by round, one column of panels an arm, and below it the trials gained and lost.

    Parameters
    ----------
    frame : one row per arm and round, as ``rounds_frame`` makes it; columns arm, round (1, 2, ...), decision
        (``"accepted"`` or not), gate, score_before, score_after (summed training score; missing where the
        rerun was not reached), gained, lost (numbers of tasks); optional failures, n_tasks, n_trials,
        simulated.

    Returns
    -------
    Figure: a filled point is an accepted candidate, a cross a rejected one with the gate that decided; the
    stepped line is the score of the harness that is kept.

    Raises
    ------
    LabError: a missing column, or no row.
    """
    from plotly.subplots import make_subplots

    need(frame, NEED, "rounds")
    arms, frame = arm_order(frame["arm"]), frame.sort_values("round")
    columns = columns_of([arm_label(arm) for arm in arms], LEFT, GAP)
    lines = ceil(len(arms) / columns)
    fig = make_subplots(2 * lines, columns, shared_yaxes=True, horizontal_spacing=GAP)
    notes: list[dict[str, Any]] = []
    room = panel_room(LEFT, columns, GAP)
    headings = [heading(arm_label(arm), _outcome(frame[frame["arm"] == arm]), room) for arm in arms]
    crowded, ticks = len(frame) > CROWD, axis(showgrid=False)
    for i, (arm, text) in enumerate(zip(arms, headings)):
        line, column = divmod(i, columns)
        upper = 2 * line * columns + column + 1
        rows = frame[frame["arm"] == arm]
        notes += [note(text, **panel(upper)[2], yshift=4)]
        notes += _scores(fig, rows, crowded, upper)
        _flips(fig, rows, crowded, upper + columns, columns)
        last = int(rows["round"].max())
        ticks |= {"range": [-0.4, last + 0.6], "dtick": max(1, last // 8)}
        fig.update_xaxes(ticks | {"showticklabels": False}, row=2 * line + 1, col=column + 1)
        fig.update_xaxes(ticks | {"title": axis("round")["title"]}, row=2 * line + 2, col=column + 1)
    top = heading_margin(headings, 132)
    plot = _stacked(fig, lines, columns, AXIS + top - 80)
    _axes(fig, frame, lines)
    empty = range((lines - 1) * columns + len(arms) + 1, (2 * lines - 1) * columns + 1)
    hide(fig, [n + below for n in empty for below in (0, columns)])
    gate = "" if crowded else ", with the gate that decided"
    key = f"● accepted   × rejected{gate} (thin: not rerun)   line: score of the harness kept"
    if {"n_tasks", "n_trials"} <= set(frame.columns):
        key += f"   {trials_text(frame)}"
    fig.update_layout(
        base("Training rounds", key, height=plot + top + 108, l=LEFT, t=top), bargap=0.5, barmode="relative"
    )
    fig.update_layout(annotations=notes)
    return finish(fig, frame)


def _outcome(rows: pd.DataFrame) -> str:
    """How many candidates an arm accepted, and of how many failures at first."""
    accepted = int((rows["decision"] == "accepted").sum())
    text = f"{accepted} of {len(rows)} accepted"
    if "failures" in rows.columns and rows["failures"].notna().any():
        text += f", {int(rows['failures'].dropna().iloc[0])} failures at first"
    return text


def _stacked(fig: go.Figure, lines: int, columns: int, between: int) -> int:
    """Place the rows of panels, ``between`` pixels from line to line; returns the height of the plot in pixels."""
    plot = lines * TALL + (lines - 1) * between
    for n in range(1, 2 * lines * columns + 1):
        line, lower = divmod((n - 1) // columns, 2)
        top = plot - line * (TALL + between)
        cut = top - SCORES * (TALL - INNER)
        ends = (cut, top) if not lower else (top - TALL, cut - INNER)
        axis_of = panel(n)[0]["yaxis"][1:]
        fig.layout[f"yaxis{axis_of}"].domain = [max(0.0, ends[0] / plot), min(1.0, ends[1] / plot)]
    return plot


def _axes(fig: go.Figure, frame: pd.DataFrame, lines: int) -> None:
    """One scale of scores and one of flips over all arms, each with room for labels."""
    scores = frame[["score_before", "score_after"]].astype(float)
    low, high = float(scores.min().min()), float(scores.max().max())
    room = max(1.0, 0.2 * (high - low))
    reach = max(1.0, float(frame[["gained", "lost"]].astype(float).max().max()))
    flips = {"range": [-1.5 * reach, 1.5 * reach], "zeroline": True, "zerolinecolor": SOFT, "nticks": 5}
    for upper in range(1, 2 * lines, 2):
        whole: dict[str, Any] = (
            {"dtick": 1} if high - low + 2 * room < FEW_TICKS else {}
        )  # sums of trials have no halves
        fig.update_yaxes(axis(range=[low - room, high + room], **whole), row=upper)
        fig.update_yaxes(axis() | flips, row=upper + 1)
        fig.update_yaxes(title={"text": "training score<br>(sum over trials)"}, row=upper, col=1)
        fig.update_yaxes(title={"text": "trials gained (+)<br>and lost (−)"}, row=upper + 1, col=1)


def _scores(fig: go.Figure, rows: pd.DataFrame, crowded: bool, n: int) -> list[dict[str, Any]]:
    """Draw the score held and the candidates; returns the labels of what was rejected and of the start."""
    at, refs, _ = panel(n)
    known = rows["score_before"].dropna()
    held = [float(known.iloc[0]) if len(known) else 0.0]
    points: list[tuple[int, float, str, str]] = []
    notes: list[dict[str, Any]] = []
    for row in rows.to_dict("records"):
        ran = row["score_after"] is not None and row["score_after"] == row["score_after"]
        accepted, score = row["decision"] == "accepted", float(row["score_after"]) if ran else held[-1]
        gate = row["gate"] if isinstance(row["gate"], str) and row["gate"] else row["decision"]
        points.append(
            (int(row["round"]), score, "circle" if accepted else "x" if ran else "x-thin", f"{gate}")
        )
        text = f"<b>{score:g}</b>" if accepted else f"{gate}"
        if accepted or not crowded:
            label = {"x": row["round"], "y": score, "yshift": 18 if accepted else -15, "font": {"size": 12}}
            notes.append(note(text, **label, **refs))
        held.append(score if accepted else held[-1])
    x, y, symbols, gates = (list(values) for values in zip(*points))
    start, colour = int(rows["round"].min()) - 1, arm_colour(rows["arm"].iloc[0])
    fig.add_traces(
        [
            {
                "type": "scatter",
                "mode": "lines",
                "x": [start, *x, int(rows["round"].max()) + 0.45],
                "y": [*held, held[-1]],
                "line": {"color": colour, "width": 3, "shape": "hv"},
                "hoverinfo": "skip",
                **at,
            },
            {
                "type": "scatter",
                "mode": "markers",
                "x": x,
                "y": y,
                "marker": {
                    "symbol": symbols,
                    "size": [14 if s == "circle" else 11 for s in symbols],
                    "color": [colour if s == "circle" else INK for s in symbols],
                    "line": {"color": INK, "width": [2 if s == "x-thin" else 0 for s in symbols]},
                    "opacity": 1,
                },
                "customdata": gates,
                "hovertemplate": "round %{x}, gate %{customdata}: score %{y:g}<extra></extra>",
                "cliponaxis": False,
                **at,
            },
        ]
    )
    first = {"x": start, "y": held[0], "yshift": 10, "font": {"size": 12, "color": SOFT}}
    return [*notes, note(f"{held[0]:g}", **first, **refs)]


def _flips(fig: go.Figure, rows: pd.DataFrame, crowded: bool, n: int, panels: int) -> None:
    at = panel(n)[0]
    for side, sign, colour in (("gained", 1, arm_colour(rows["arm"].iloc[0])), ("lost", -1, LOST)):
        counts = rows[side].fillna(0).astype(int)
        bar = {
            "type": "bar",
            "x": rows["round"],
            "y": sign * counts,
            "text": ["" if crowded or not c else f"{'+' if sign > 0 else '−'}{c}" for c in counts],
            "textposition": "outside",
            "textfont": {"size": 12, "color": INK},
            "marker": {"color": colour},
            "width": min(0.5, 0.12 * panels * (len(rows) + 1) / 2),
            "customdata": counts,
            "hovertemplate": f"round %{{x}}: %{{customdata}} {side}<extra></extra>",
            "cliponaxis": False,
        }
        fig.add_traces([{**bar, **at}])
