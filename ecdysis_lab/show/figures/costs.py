"""What training takes: accuracy against cost, and wall clock by phase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ecdysis_lab.records import LabError
from ecdysis_lab.show.figures.labels import count, spread, text_width, trials_text
from ecdysis_lab.show.figures.style import (
    INK,
    TEXT,
    WIDTH,
    arm_axis,
    arm_colour,
    arm_label,
    arm_order,
    axis,
    base,
    finish,
    label_margin,
    need,
    note,
)

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
START = 0.05  # of the axis of costs, before zero, as a share of the highest cost
AWAY = 16  # pixels from a point to its label
SPARE = ("#D8A7A0", "#9DB17C", "#A79C8E", "#C7C7E2")


def cost_accuracy(frame: pd.DataFrame) -> go.Figure:
    """Test accuracy against the cost of training, one point an arm.

    Parameters
    ----------
    frame : one row per arm and model, as ``cost_frame`` makes it; columns arm, model, accuracy, n_tasks,
        n_trials, training_cost_usd, training_tokens; optional simulated. The same training cost stands in
        every row of an arm.

    Returns
    -------
    Figure with the mean over models as a large point and each model as a small one. The x axis is USD, or
    tokens where a price is unknown or everything is free.

    Raises
    ------
    LabError: a missing column, no row, or neither cost nor tokens of any arm.
    """
    import plotly.graph_objects as go

    need(frame, ("arm", "model", "accuracy", "training_cost_usd", "training_tokens"), "cost_accuracy")
    column, label, unit, scale = _cost_axis(frame)
    known = frame[frame[column].notna() & frame["accuracy"].notna()]
    if known.empty:
        raise LabError("figure cost_accuracy has neither a cost nor a token count of any arm")
    arms = arm_order(known["arm"])
    by_arm = [known[known["arm"] == a] for a in arms]
    costs = [float(rows[column].iloc[0]) / scale for rows in by_arm]
    means = [100 * float(rows["accuracy"].mean()) for rows in by_arm]
    top = max(costs) or 1.0
    low, high = 100 * known["accuracy"].min() - 8, min(103.0, 100 * known["accuracy"].max() + 8)
    fig = go.Figure()
    places = _apart(costs, 0.013 * top)
    for rows, x, mean in zip(by_arm, places, means):
        fig.add_traces(_cost_points(rows, x, mean))
    words = [f" {_cost_text(mean, cost, unit)}" for mean, cost in zip(means, costs)]
    long = max(text_width(f"<b>{arm_label(arm)}</b> {text}", TEXT) for arm, text in zip(arms, words))
    end, reach = _label_room(top, long)
    heights = _label_heights(costs, means, reach, high - low)
    notes = []
    for arm, x, text, y in zip(arms, places, words, heights):
        at = _clear(x, y, places, means, reach, high - low)
        name = arm if at == x else arm_label(arm)
        look = {"xanchor": "left", "xshift": AWAY, "bgcolor": "rgba(255,255,255,0.75)"}
        notes.append(note(f"<b>{name}</b> {text}", x=at, y=y, **look))
    fig.update_xaxes(axis(label, range=[-START * top, end]))
    fig.update_yaxes(axis("accuracy on the test split (% of trials)", range=[max(-3, low), high]))
    key = f"● mean over {count(known['model'].nunique(), 'model')}   ○ one model, {trials_text(known)}"
    lost = arm_order(set(frame["arm"]) - set(arms))
    key += f"<br>Cost unknown, not drawn: {', '.join(lost)}." if lost else ""
    fig.update_layout(base("Accuracy against the cost of training", key), annotations=notes)
    return finish(fig, frame)


def _apart(costs: list[float], step: float) -> list[float]:
    """The costs, arms of equal cost (the untrained) a little apart, so that none hides another."""
    out = []
    for i, cost in enumerate(costs):
        before, same = costs[:i].count(cost), costs.count(cost)
        out.append(cost + step * (before - (same - 1) / 2))
    return out


def _cost_axis(frame: pd.DataFrame) -> tuple[str, str, str, float]:
    """(column, axis title, unit, divisor) of the x axis."""
    usd = frame["training_cost_usd"]
    if usd.notna().all() and float(usd.max()) > 0:
        return "training_cost_usd", "cost of training (USD)", "USD", 1.0
    if float(frame["training_tokens"].max() or 0) >= 1e6:
        return "training_tokens", "tokens used in training (millions)", "M tokens", 1e6
    return "training_tokens", "tokens used in training (thousands)", "k tokens", 1e3


def _cost_text(mean: float, cost: float, unit: str) -> str:
    """Accuracy and cost of an arm as words."""
    return f"{mean:.0f}%, " + (f"{cost:{'.2g' if cost < 100 else ',.0f'}} {unit}" if cost else "not trained")


def _label_room(top: float, long: float) -> tuple[float, float]:
    """Room for labels of at most ``long`` pixels behind points at costs up to ``top``.

    Returns
    -------
    Where the axis ends, and what a label with its distance from the point takes, both in units of the cost.
    """
    wide, long = WIDTH - 80 - 30, long + AWAY
    span = top * (1 + START) * max(1.4, wide / (wide - min(long, 0.5 * wide)))
    return span - START * top, span * long / wide


def _label_heights(costs: list[float], means: list[float], reach: float, span: float) -> list[float]:
    """Heights of the arm labels: apart where a label would reach the next one."""
    heights = list(means)
    for cost in set(costs):
        column = [i for i, c in enumerate(costs) if abs(c - cost) < reach]
        for i, at in zip(column, spread([means[i] for i in column], 0.055 * span)):
            if costs[i] == cost:
                heights[i] = at
    return heights


def _clear(x: float, y: float, places: list[float], means: list[float], reach: float, span: float) -> float:
    """Where a label at height y starts: behind the last large point that it would else cover."""
    near = [p for p, m in zip(places, means) if abs(m - y) < 0.05 * span]
    for place in sorted(near):
        if x < place < x + reach:
            x = place
    return x


def _cost_points(rows: pd.DataFrame, x: float, mean: float) -> list[dict[str, Any]]:
    arm = rows["arm"].iloc[0]
    colour = arm_colour(arm)
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [x] * len(rows),
            "y": 100 * rows["accuracy"].astype(float),
            "marker": {"size": 8, "color": "white", "line": {"color": colour, "width": 2}},
            "customdata": rows["model"],
            "hovertemplate": f"{arm} on %{{customdata}}: %{{y:.1f}}%<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "x": [x],
            "y": [mean],
            "marker": {"size": 17, "color": colour},
            "hovertemplate": f"{arm}: mean %{{y:.1f}}%<extra></extra>",
        },
    ]


def phases(frame: pd.DataFrame) -> go.Figure:
    """Wall clock of training by phase, one bar an arm.

    Parameters
    ----------
    frame : one row per arm and phase, as ``phases_frame`` makes it; columns arm, phase, seconds; optional
        simulated.

    Returns
    -------
    Stacked bars in seconds, minutes or hours; the total stands behind each bar.

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
        colour = PHASE_COLOURS.get(name) or next(spare)
        fig.add_traces([_phase_bar(name, colour, [float(rows.get(a, 0.0)) for a in arms], widest, unit)])
    notes = []
    for y, arm in enumerate(arms):
        text = f"<b>{total[arm] / scale:.3g} {unit}</b>"
        notes.append(note(text, x=total[arm] / scale, y=y, xanchor="left", xshift=6))
    fig.update_xaxes(axis(f"wall clock of training ({unit})", range=[0, 1.34 * widest]))
    fig.update_yaxes(arm_axis(arms))
    counted = {"n_tasks", "n_trials"} <= set(frame.columns)
    key = "Phases in the order of the flow" + (f"; {trials_text(frame)} a rollout" if counted else "")
    # Arms share trials: a ratio of these clocks would compare who came first.
    key += "; what another arm had run already took no time" if len(arms) > 1 else ""
    fig.update_layout(
        base("Time by phase of training", key, l=label_margin(map(arm_label, arms), 156), t=124),
        annotations=notes,
    )
    legend = {
        "orientation": "h",
        "x": 0,
        "y": 1.01,
        "yanchor": "bottom",
        "traceorder": "normal",
        "itemwidth": 30,
    }
    fig.update_layout(barmode="stack", showlegend=True, legend={**legend, "font": {"size": 13}})
    return finish(fig, frame)


def _phase_bar(name: str, colour: str, values: list[float], widest: float, unit: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "x": values,
        "y": list(range(len(values))),
        "width": min(0.5, 0.2 * len(values)),
        "marker": {"color": colour, "line": {"color": "white", "width": 1.5}},
        "text": [f"{v:.2g}" if v > 0.04 * widest else "" for v in values],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"size": 12, "color": INK},
        "hovertemplate": f"{name}: %{{x:.3g}} {unit}<extra></extra>",
    }


def _time_unit(seconds: float) -> tuple[str, float]:
    if seconds < 600:
        return "s", 1.0
    return ("min", 60.0) if seconds < 4 * 3600 else ("h", 3600.0)
