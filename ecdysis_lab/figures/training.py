"""Training round by round: score held, candidates accepted and rejected, tasks that flipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecdysis_lab.figures.style import (
    INK,
    SOFT,
    arm_colour,
    arm_label,
    arm_order,
    axis,
    base,
    finish,
    need,
)

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

NEED = ["arm", "round", "verdict", "gate", "score_before", "score_after", "gained", "lost"]


def rounds(frame: pd.DataFrame) -> go.Figure:
    """Training score by round, one column of panels an arm, and below it the tasks gained and lost.

    Parameters
    ----------
    frame : one row per arm and round, as ``rounds_frame`` makes it; columns arm, round, verdict
        (``"accepted"`` or not), gate, score_before, score_after (summed training score; missing where the
        rerun was not reached), gained, lost (numbers of tasks); optional failures, subset, simulated.

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
    arms = arm_order(frame["arm"])
    fig = make_subplots(
        2, len(arms), shared_xaxes=True, shared_yaxes=True, row_heights=[0.66, 0.34],
        horizontal_spacing=0.03, vertical_spacing=0.06,
    )  # fmt: skip
    scores = frame[["score_before", "score_after"]].astype(float)
    low, high = float(scores.min().min()), float(scores.max().max())
    room = max(1.0, 0.22 * (high - low))
    for column, arm in enumerate(arms, 1):
        rows = frame[frame["arm"] == arm].sort_values("round")
        crowded = len(rows) * len(arms) > 14
        _scores(fig, rows, arm, column, crowded)
        _flips(fig, rows, arm, column, crowded)
        accepted = int((rows["verdict"] == "accepted").sum())
        above = f"<b>{arm_label(arm)}</b>  {accepted} of {len(rows)} accepted"
        place = {
            "xref": "x domain",
            "x": 0,
            "xanchor": "left",
            "yref": "y domain",
            "y": 1,
            "yanchor": "bottom",
        }
        fig.add_annotation(text=above, showarrow=False, yshift=4, **place, row=1, col=column)
        last = int(rows["round"].max())
        fig.update_xaxes(axis(range=[-0.35, last + 0.6], dtick=max(1, last // 8), showgrid=False), col=column)
        fig.update_xaxes(title_text="round", title_standoff=6, row=2, col=column)
    fig.update_yaxes(axis(range=[low - room, high + room]), row=1)
    reach = max(1.0, float(frame[["gained", "lost"]].astype(float).max().max()))
    fig.update_yaxes(
        axis(range=[-1.45 * reach, 1.45 * reach], zeroline=True, zerolinecolor=SOFT, nticks=5), row=2
    )
    fig.update_yaxes(title={"text": "training score<br>(sum over trials)"}, row=1, col=1)
    fig.update_yaxes(title={"text": "tasks flipped<br>(number)"}, row=2, col=1)
    key = "● accepted   ✕ rejected, with the gate that decided (hollow: not rerun)   line: score of the harness kept"
    key += "   ▲ gained ▼ lost"
    fig.update_layout(base("Training rounds", key, l=84, t=116), bargap=0.5)
    return finish(fig, frame)


def _scores(fig: go.Figure, rows: pd.DataFrame, arm: str, column: int, crowded: bool) -> None:
    import plotly.graph_objects as go

    held = [float(rows["score_before"].dropna().iloc[0])] if rows["score_before"].notna().any() else [0.0]
    x, y, symbols, texts, notes = [], [], [], [], []
    for _, row in rows.iterrows():
        ran, accepted = row["score_after"] == row["score_after"], row["verdict"] == "accepted"
        ran = ran and row["score_after"] is not None
        score = float(row["score_after"]) if ran else held[-1]
        x.append(int(row["round"]))
        y.append(score)
        symbols.append("circle" if accepted else "x" if ran else "x-open")
        why = row["gate"] if isinstance(row["gate"], str) and row["gate"] else row["verdict"]
        texts.append(f"<b>{score:g}</b>" if accepted else "" if crowded else str(why))
        notes.append(f"{row['verdict']} by gate {why}" if not accepted else "accepted")
        held.append(score if accepted else held[-1])
    colour = arm_colour(arm)
    place = {"row": 1, "col": column}
    start = int(rows["round"].min()) - 1
    line = {"color": colour, "width": 3, "shape": "hv"}
    kept = go.Scatter(
        x=[start, *x, x[-1] + 0.45], y=[*held, held[-1]], mode="lines", line=line, hoverinfo="skip"
    )
    fig.add_trace(kept, **place)
    marks = go.Scatter(
        x=x,
        y=y,
        mode="markers+text",
        text=texts,
        textposition=["top center" if s == "circle" else "bottom center" for s in symbols],
        textfont={"size": 12, "color": INK},
        marker={
            "symbol": symbols,
            "size": [14 if s == "circle" else 11 for s in symbols],
            "color": [colour if s == "circle" else INK for s in symbols],
        },
        customdata=notes,
        hovertemplate="round %{x}: %{customdata}, score %{y:g}<extra></extra>",
        cliponaxis=False,
    )
    fig.add_trace(marks, **place)
    first = {"x": start, "y": held[0], "yanchor": "bottom", "yshift": 3, "showarrow": False}
    fig.add_annotation(text=f"{held[0]:g}", font={"size": 12, "color": SOFT}, **first, **place)


def _flips(fig: go.Figure, rows: pd.DataFrame, arm: str, column: int, crowded: bool) -> None:
    import plotly.graph_objects as go

    for side, sign, colour in (("gained", 1, arm_colour(arm)), ("lost", -1, "#9AA0A6")):
        counts = rows[side].fillna(0).astype(int)
        text = ["" if crowded or not c else f"{'+' if sign > 0 else '−'}{c}" for c in counts]
        bar = go.Bar(
            x=rows["round"],
            y=sign * counts,
            text=text,
            textposition="outside",
            textfont={"size": 12, "color": INK},
            marker={"color": colour, "pattern": {"shape": "" if sign > 0 else "/", "fgcolor": "white"}},
            hovertemplate=f"round %{{x}}: %{{customdata}} {side}<extra></extra>",
            customdata=counts,
            cliponaxis=False,
        )
        fig.add_trace(bar, row=2, col=column)
    fig.update_layout(barmode="relative")
