"""Training round by round: score held, candidates accepted and rejected, tasks that flipped."""

from __future__ import annotations

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
    finish,
    heading,
    heading_margin,
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
LEFT = 92  # margin in pixels
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
    gap = {"horizontal_spacing": 0.035, "vertical_spacing": 0.07}
    fig = make_subplots(2, len(arms), shared_xaxes=True, shared_yaxes=True, row_heights=[0.66, 0.34], **gap)
    notes: list[dict[str, Any]] = []
    room = panel_room(LEFT, len(arms), gap["horizontal_spacing"])
    headings = [heading(arm_label(arm), _outcome(frame[frame["arm"] == arm]), room) for arm in arms]
    for column, arm in enumerate(arms, 1):
        rows = frame[frame["arm"] == arm]
        crowded = len(frame) > CROWD
        notes += [note(headings[column - 1], **panel(column)[2], yshift=4)]
        notes += _scores(fig, rows, crowded, column)
        _flips(fig, rows, crowded, column + len(arms), len(arms))
        last = int(rows["round"].max())
        fig.update_xaxes(axis(range=[-0.4, last + 0.6], dtick=max(1, last // 8), showgrid=False), col=column)
    _axes(fig, frame)
    gate = "" if len(frame) > CROWD else ", with the gate that decided"
    key = f"● accepted   × rejected{gate} (thin: not rerun)   line: score of the harness kept"
    if {"n_tasks", "n_trials"} <= set(frame.columns):
        key += f"   {trials_text(frame)}"
    fig.update_layout(
        base("Training rounds", key, l=LEFT, t=heading_margin(headings, 132)), bargap=0.5, barmode="relative"
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


def _axes(fig: go.Figure, frame: pd.DataFrame) -> None:
    """One scale of scores and one of flips over all arms, each with room for labels."""
    scores = frame[["score_before", "score_after"]].astype(float)
    low, high = float(scores.min().min()), float(scores.max().max())
    room = max(1.0, 0.2 * (high - low))
    reach = max(1.0, float(frame[["gained", "lost"]].astype(float).max().max()))
    flips = {"range": [-1.5 * reach, 1.5 * reach], "zeroline": True, "zerolinecolor": SOFT, "nticks": 5}
    fig.update_xaxes(title={"text": "round", "standoff": 6}, row=2)
    fig.update_yaxes(axis(range=[low - room, high + room]), row=1)
    fig.update_yaxes(axis() | flips, row=2)
    fig.update_yaxes(title={"text": "training score<br>(sum over trials)"}, row=1, col=1)
    fig.update_yaxes(title={"text": "trials gained (+)<br>and lost (−)"}, row=2, col=1)


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
