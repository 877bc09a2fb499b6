"""What training takes: accuracy against cost, and wall clock by phase."""

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
    spread,
    trials_text,
)
from ecdysis_lab.records import LabError

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

# Phases in the order of the flow; colours apart from those of the arms.
PHASE_COLOURS: dict[str, str] = {
    "rollout": "#B7BDC4",
    "failures": "#DDD2B5",
    "patterns": "#C9B458",
    "subset": "#8F8A3C",
    "review": "#B39DDB",
    "edit": "#EE8866",
    "gates": "#44AA99",
    "rerun": "#8FD0C3",
    "evaluate": "#6B7785",
    "training": "#B7BDC4",
}
SPARE = ("#D8A7A0", "#9DB17C", "#A79C8E", "#C7C7E2")


def cost_accuracy(frame: pd.DataFrame) -> go.Figure:
    """Test accuracy against the cost of training, one point an arm.

    Parameters
    ----------
    frame : one row per arm and model, as ``cost_frame`` makes it; columns arm, model, accuracy, n_tasks,
        n_trials, training_cost_usd, training_tokens; optional simulated. The same training cost stands in every
        row of an arm.

    Returns
    -------
    Figure with the mean over models as a large point and each model as a small one. The x axis is USD, or
    tokens where a price is unknown or everything is free.

    Raises
    ------
    LabError: a missing column, no row, or neither cost nor tokens of any arm.
    """
    import plotly.graph_objects as go

    need(frame, ["arm", "model", "accuracy", "training_cost_usd", "training_tokens"], "cost_accuracy")
    column, label, unit, scale = _cost_axis(frame)
    known = frame[frame[column].notna() & frame["accuracy"].notna()]
    if known.empty:
        raise LabError("figure cost_accuracy has neither a cost nor a token count of any arm")
    arms, fig = arm_order(known["arm"]), go.Figure()
    top = float(known[column].max()) / scale or 1.0
    means = [100 * float(known.loc[known["arm"] == a, "accuracy"].mean()) for a in arms]
    spans = 100 * known["accuracy"].min(), 100 * known["accuracy"].max()
    low, high = max(0.0, spans[0] - 8), min(100.0, spans[1] + 8)
    for arm, mean in zip(arms, means):
        rows = known[known["arm"] == arm]
        cost = float(rows[column].iloc[0]) / scale
        _cost_points(fig, rows, arm, cost, mean)
    costs = [float(known.loc[known["arm"] == a, column].iloc[0]) / scale for a in arms]
    for arm, cost, mean, at in zip(arms, costs, means, _label_heights(costs, means, top, high - low)):
        text = f"<b>{arm}</b>  {mean:.0f}%" + (f", {cost:.3g} {unit}" if cost else ", not trained")
        style = {"showarrow": False, "xanchor": "left", "xshift": 16, "font": {"size": 13, "color": INK}}
        fig.add_annotation(text=text, x=cost, y=at, **style)
    fig.update_xaxes(axis(label, range=[-0.04 * top, 1.38 * top], rangemode="tozero"))
    fig.update_yaxes(axis("accuracy on the test split (% of trials)", range=[low, high]))
    n_models = known["model"].nunique()
    key = f"● mean over {n_models} models   small points: single models; {trials_text(known)} each"
    lost = arm_order(set(frame["arm"]) - set(arms))
    key += f"<br>Cost unknown, not drawn: {', '.join(lost)}." if lost else ""
    fig.update_layout(base("Accuracy against the cost of training", key))
    return finish(fig, frame)


def _cost_axis(frame: pd.DataFrame) -> tuple[str, str, str, float]:
    """(column, axis title, unit, divisor) of the x axis."""
    usd = frame["training_cost_usd"]
    if usd.notna().all() and float(usd.max()) > 0:
        return "training_cost_usd", "cost of training (USD)", "USD", 1.0
    if float(frame["training_tokens"].max() or 0) >= 1e6:
        return "training_tokens", "tokens used in training (millions)", "M tokens", 1e6
    return "training_tokens", "tokens used in training (thousands)", "k tokens", 1e3


def _label_heights(costs: list[float], means: list[float], top: float, span: float) -> list[float]:
    """Heights of the arm labels: apart where points stand in one column."""
    heights = list(means)
    for cost in set(costs):
        column = [i for i, c in enumerate(costs) if abs(c - cost) < 0.3 * top]
        for i, at in zip(column, spread([means[i] for i in column], 0.055 * span)):
            if costs[i] == cost:
                heights[i] = at
    return heights


def _cost_points(fig: go.Figure, rows: pd.DataFrame, arm: str, cost: float, mean: float) -> None:
    import plotly.graph_objects as go

    colour = arm_colour(arm)
    single = go.Scatter(
        x=[cost] * len(rows),
        y=100 * rows["accuracy"].astype(float),
        mode="markers",
        marker={"size": 8, "color": "white", "line": {"color": colour, "width": 2}},
        customdata=rows["model"],
        hovertemplate=f"{arm} on %{{customdata}}: %{{y:.1f}}%<extra></extra>",
    )
    whole = go.Scatter(
        x=[cost],
        y=[mean],
        mode="markers",
        marker={"size": 17, "color": colour},
        hovertemplate=f"{arm}: mean %{{y:.1f}}%<extra></extra>",
    )
    fig.add_traces([single, whole])


def phases(frame: pd.DataFrame) -> go.Figure:
    """Wall clock of training by phase, one bar an arm.

    Parameters
    ----------
    frame : one row per arm and phase, as ``phases_frame`` makes it; columns arm, phase, seconds; optional
        simulated.

    Returns
    -------
    Stacked bars in seconds, minutes or hours; the total stands behind each bar, with its ratio to
    ``self-evolution`` where that arm is in the table.

    Raises
    ------
    LabError: a missing column, no row, or a negative time.
    """
    import plotly.graph_objects as go

    need(frame, ["arm", "phase", "seconds"], "phases")
    if (frame["seconds"] < 0).any():
        raise LabError("figure phases: column seconds holds a negative time")
    total = frame.groupby("arm")["seconds"].sum()
    unit, scale = _time_unit(float(total.max()))
    arms, order = arm_order(frame["arm"]), list(PHASE_COLOURS)
    names = sorted(frame["phase"].unique(), key=lambda p: order.index(p) if p in order else len(order))
    fig, spare = go.Figure(), iter(SPARE * len(names))
    widest = float(total.max()) / scale or 1.0
    for name in names:
        rows = frame[frame["phase"] == name].groupby("arm")["seconds"].sum() / scale
        values = [float(rows.get(a, 0.0)) for a in arms]
        inside = [f"{v:.2g}" if v > 0.05 * widest else "" for v in values]
        bar = go.Bar(
            x=values,
            y=list(range(len(arms))),
            orientation="h",
            name=name,
            width=0.5,
            marker={
                "color": PHASE_COLOURS.get(name) or next(spare),
                "line": {"color": "white", "width": 1.5},
            },
            text=inside,
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"size": 12, "color": INK},
            hovertemplate=f"{name}: %{{x:.3g}} {unit}<extra></extra>",
        )
        fig.add_trace(bar)
    norm = total.get("self-evolution")
    for i, arm in enumerate(arms):
        ratio = f" ({total[arm] / norm:.2f}× self-evolution)" if norm and arm != "self-evolution" else ""
        text = f"<b>{total[arm] / scale:.3g} {unit}</b><span style='color:{SOFT}'>{ratio}</span>"
        fig.add_annotation(text=text, x=total[arm] / scale, y=i, xanchor="left", xshift=6, showarrow=False)
    fig.update_xaxes(axis(f"wall clock of training ({unit})", range=[0, 1.32 * widest]))
    ticks = {"tickvals": list(range(len(arms))), "ticktext": [arm_label(a) for a in arms]}
    fig.update_yaxes(axis(range=[len(arms) - 0.4, -0.6], showgrid=False, **ticks))
    fig.update_layout(
        base(
            "Time by phase of training", "Bars read from left to right in the order of the flow", l=150, t=140
        )
    )
    legend = {
        "orientation": "h",
        "x": 0,
        "y": 1,
        "yanchor": "bottom",
        "traceorder": "normal",
        "font": {"size": 13},
    }
    fig.update_layout(barmode="stack", showlegend=True, legend=legend)
    return finish(fig, frame)


def _time_unit(seconds: float) -> tuple[str, float]:
    if seconds < 600:
        return "s", 1.0
    return ("min", 60.0) if seconds < 4 * 3600 else ("h", 3600.0)
