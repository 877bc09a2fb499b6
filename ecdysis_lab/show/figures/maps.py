"""The pattern map, and how much of the failures a subset covers."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from ecdysis_lab.show.figures.labels import count, short, spread, text_width
from ecdysis_lab.show.figures.style import (
    HEIGHT,
    INK,
    SOFT,
    WIDTH,
    axis,
    base,
    finish,
    need,
    note,
)

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

# Okabe-Ito without its black, then darker shades; patterns beyond them repeat colours with another symbol.
PATTERN_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800", "#7A5195")
SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "star")
NOISE = "#B5B9BF"
MANY = 3000
MARGIN = {"l": 24, "r": 24, "t": 92, "b": 58}
Box = tuple[float, float, float, float]


def pattern_map(frame: pd.DataFrame) -> go.Figure:
    """Failures in the plane, coloured by pattern, patterns named at their medoids.

    Parameters
    ----------
    frame : one row per failure, as ``patterns_frame`` makes it; columns key, x, y, pattern (-1 for noise),
        pattern_name, pattern_tasks, medoid, task_id, model, termination, failed_checks, first_bad_what;
        optional picked (rings the subset), nearest, similarity, sampled_from (how many failures there were,
        where the rows are a sample of them), simulated.

    Returns
    -------
    Figure with exactly one trace, since clicks on several traces report wrong points; ``customdata[0]`` of a
    point is its trial key.

    Raises
    ------
    LabError: a missing column, or no row.
    """
    import plotly.graph_objects as go

    columns = "key x y pattern pattern_name pattern_tasks medoid task_id model termination failed_checks"
    need(frame, [*columns.split(" "), "first_bad_what"], "pattern_map")
    kind = go.Scattergl if len(frame) > MANY else go.Scatter
    told = (
        "<b>%{customdata[1]}</b><br>pattern over %{customdata[2]} tasks"
        "<br>task %{customdata[3]} · %{customdata[4]}"
        "<br>ended by %{customdata[5]}; failed: %{customdata[6]}<br>%{customdata[7]}<extra></extra>"
    )
    trace = kind(
        x=frame["x"],
        y=frame["y"],
        mode="markers",
        marker=_markers(frame),
        customdata=_custom(frame),
        hovertemplate=told,
    )
    fig = go.Figure(trace)
    xs, ys = _range(frame["x"]), _range(frame["y"])
    for label in _labels(frame, xs, ys):
        fig.add_annotation(**label)
    frameless = {"showgrid": False, "showticklabels": False, "zeroline": False}
    line = {"showline": True, "linecolor": "#D0D3D8", "mirror": True}
    fig.update_xaxes(**frameless, **line, range=xs)
    fig.update_yaxes(**frameless, **line, range=ys)
    fig.update_layout(base("Map of failures by pattern", _map_key(frame), **MARGIN))
    return finish(fig, frame)


def _map_key(frame: pd.DataFrame) -> str:
    """What is on the map, in numbers."""
    all_of_them = int(frame["sampled_from"].max()) if "sampled_from" in frame.columns else len(frame)
    sampled = f" SAMPLED from {all_of_them}" if all_of_them > len(frame) else ""
    named = frame.loc[frame["pattern"] >= 0, "pattern"].nunique()
    parts = [f"{count(len(frame), 'failure')}{sampled} of {count(frame['task_id'].nunique(), 'task')}"]
    parts += [count(named, "pattern"), f"{int((frame['pattern'] < 0).sum())} noise (grey)"]
    if "picked" in frame.columns and frame["picked"].any():
        parts.append(f"{int(frame['picked'].sum())} in the subset (black ring)")
    return "; ".join(parts) + ". Only nearness has a meaning; axes have no unit."


def _markers(frame: pd.DataFrame) -> dict[str, Any]:
    large, ids = len(frame) > MANY, frame["pattern"].astype(int)
    n = len(PATTERN_COLOURS)
    ring = frame["picked"].astype(bool) if "picked" in frame.columns else ids < -1
    size = 5 if large else 10 if len(frame) > 300 else 12
    return {
        "color": [PATTERN_COLOURS[i % n] if i >= 0 else NOISE for i in ids],
        "symbol": [SYMBOLS[i // n % len(SYMBOLS)] if i >= 0 else "circle" for i in ids],
        "size": [size if i >= 0 else 0.75 * size for i in ids],
        "opacity": 0.7 if large else 0.9,
        "line": {"color": [INK if r else "white" for r in ring], "width": [2 if r else 0.8 for r in ring]},
    }


def _custom(frame: pd.DataFrame) -> list[list[Any]]:
    rows = []
    for row in frame.to_dict("records"):
        name = f"P{row['pattern']} {row['pattern_name']}" if row["pattern"] >= 0 else _noise_text(row)
        rest = [row["task_id"], row["model"], row["termination"], row["failed_checks"] or "not disclosed"]
        rows.append([row["key"], name, row["pattern_tasks"], *rest, short(str(row["first_bad_what"]), 90)])
    return rows


def _noise_text(row: dict[Any, Any]) -> str:
    near = row.get("nearest", -1)
    return (
        f"noise; nearest P{near} at similarity {row['similarity']:.2f}"
        if near is not None and near >= 0
        else "noise"
    )


def _range(values: pd.Series) -> list[float]:
    low, high = float(values.min()), float(values.max())
    room = 0.09 * ((high - low) or 1.0)
    return [low - room, high + room]


def _labels(frame: pd.DataFrame, xs: list[float], ys: list[float]) -> list[dict[str, Any]]:
    """Names of patterns near their medoids, largest first, kept off points and off each other."""
    wide, tall = WIDTH - MARGIN["l"] - MARGIN["r"], HEIGHT - MARGIN["t"] - MARGIN["b"]
    px = (frame["x"] - xs[0]) / (xs[1] - xs[0]) * wide
    py = (frame["y"] - ys[0]) / (ys[1] - ys[0]) * tall
    step = max(1, len(frame) // 1500)
    dots = list(zip(px[::step], py[::step]))
    sizes = frame.loc[frame["pattern"] >= 0, "pattern"].value_counts()
    taken: list[Box] = []
    out = []
    for pattern in sizes.index[:16]:
        row = frame[(frame["pattern"] == pattern) & frame["medoid"].astype(bool)].head(1)
        if row.empty:
            continue
        one = row.iloc[0]
        lines = _label_lines(one, int(pattern), int(sizes[pattern]))
        width, height = 10 + max(text_width(f"<b>{x}</b>", 13) for x in lines), 17.0 * len(lines) + 6
        at = float(px[row.index[0]]), float(py[row.index[0]])
        box = _place(at, width, height, dots, taken, (wide, tall))
        taken.append(box)
        out.append(_label(one, lines, box, at))
    return out


def _label_lines(one: pd.Series, pattern: int, size: int) -> list[str]:
    """Name of a pattern in at most two lines, then its size."""
    name = textwrap.wrap(f"P{pattern} {one['pattern_name']}", 34, max_lines=2, placeholder=" …")
    tasks = f"{one['pattern_tasks']} task{'s' if one['pattern_tasks'] != 1 else ''}"
    return [*name, f"{size} failure{'s' if size != 1 else ''}, {tasks}"]


def _place(
    at: tuple[float, float], width: float, height: float, dots: list[tuple[float, float]], taken: list[Box],
    canvas: tuple[float, float],
) -> Box:  # fmt: skip
    """Box for a label: the candidate around its medoid with the fewest points under it and no label."""
    best, least = (0.0, 0.0, width, height), float("inf")
    for radius in (30, 45, 65, 90, 120, 160, 210, 270):
        for turn in range(24):
            angle = math.pi / 2 + turn * math.pi / 12
            x = at[0] + math.cos(angle) * (radius + width / 2) - width / 2
            y = at[1] + math.sin(angle) * (radius + height / 2) - height / 2
            x = min(max(x, 3), canvas[0] - width - 3)
            y = min(max(y, 3), canvas[1] - height - 3)
            box = (x, y, x + width, y + height)
            under = sum(box[0] - 5 < a < box[2] + 5 and box[1] - 5 < b < box[3] + 5 for a, b in dots)
            clash = sum(_overlap(box, other) for other in taken)
            cost = 4 * under + 1000 * clash + radius / 12
            if cost < least:
                best, least = box, cost
    return best


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] + 4 and b[0] < a[2] + 4 and a[1] < b[3] + 4 and b[1] < a[3] + 4


def _label(one: pd.Series, lines: list[str], box: Box, at: tuple[float, float]) -> dict[str, Any]:
    """Annotation with a thin line from its box to the medoid."""
    middle = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return {
        "x": one["x"],
        "y": one["y"],
        "ax": middle[0] - at[0],
        "ay": at[1] - middle[1],
        "text": f"<b>{'<br>'.join(lines[:-1])}</b><br><span style='color:{SOFT}'>{lines[-1]}</span>",
        "align": "left",
        "showarrow": True,
        "arrowhead": 0,
        "arrowwidth": 1,
        "arrowcolor": SOFT,
        "standoff": 6,
        "font": {"size": 13, "color": INK},
        "bgcolor": "rgba(255,255,255,0.82)",
        "borderpad": 2,
    }


def coverage(frame: pd.DataFrame) -> go.Figure:
    """Coverage of the failures after each pick, against random subsets of the same size.

    Parameters
    ----------
    frame : one row per pick, as ``coverage_frame`` makes it; columns pick, coverage, random_low,
        random_median, random_high (shares in [0, 1]), reason, budget, n_failures, origin; optional simulated.

    Returns
    -------
    Figure with the picks as a line and random subsets as a band (5th to 95th percentile).

    Raises
    ------
    LabError: a missing column, or no row.
    """
    import plotly.graph_objects as go

    columns = "pick coverage random_low random_median random_high reason budget n_failures origin"
    need(frame, columns.split(" "), "coverage")
    x, last = frame["pick"], frame.iloc[-1]
    grey = {"mode": "lines", "hoverinfo": "skip", "line": {"width": 0}}
    fig = go.Figure()
    if frame["random_low"].notna().any():
        fig.add_trace(go.Scatter(x=x, y=100 * frame["random_high"], **grey))
        fig.add_trace(
            go.Scatter(
                x=x, y=100 * frame["random_low"], fill="tonexty", fillcolor="rgba(95,99,104,0.17)", **grey
            )
        )
        dash = {"color": "#80868B", "width": 2, "dash": "dash"}
        told = "random: %{y:.0f}%<extra></extra>"
        fig.add_trace(
            go.Scatter(x=x, y=100 * frame["random_median"], mode="lines", line=dash, hovertemplate=told)
        )
    picked = go.Scatter(
        x=x,
        y=100 * frame["coverage"],
        mode="lines+markers",
        line={"color": PATTERN_COLOURS[0], "width": 3},
        marker={"size": 9},
        customdata=frame["reason"],
        hovertemplate="pick %{x}: %{y:.0f}% covered<br>%{customdata}<extra></extra>",
    )
    fig.add_trace(picked)
    n = int(last["pick"])
    fig.update_xaxes(axis("failures in the subset (number)", range=[0.5, n + 0.5], dtick=max(1, n // 12)))
    fig.update_yaxes(axis("coverage (% of what there is to cover)", range=[0, 104]))
    key = f"{n} of {last['n_failures']} failures (budget {last['budget']}), picked: {last['origin']}. "
    key += "Band: random subsets of equal size, 5th to 95th percentile"
    labels = _end_labels(last)
    right = max(170, 16 + math.ceil(max(text_width(label["text"], 14) for label in labels)))
    fig.update_layout(base("Coverage of the subset", key, r=right), annotations=labels)
    return finish(fig, frame)


def _end_labels(last: pd.Series) -> list[dict[str, Any]]:
    """Names and values at the right end of the lines, kept apart."""
    ends = [
        ("this subset", PATTERN_COLOURS[0], last["coverage"]),
        ("random, median", SOFT, last["random_median"]),
    ]
    known = [(name, colour, 100 * float(v)) for name, colour, v in ends if v is not None and v == v]
    place = {"x": 1, "xref": "paper", "xanchor": "left", "xshift": 4}
    return [
        note(f"<b>{value:.0f}%</b> {name}", y=y, font={"size": 14, "color": colour}, **place)
        for (name, colour, value), y in zip(known, spread([k[2] for k in known], 5.5))
    ]
