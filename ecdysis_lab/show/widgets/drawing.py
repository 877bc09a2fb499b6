"""What the picker shows, from its state: markers of the map, legend, rows of the table, coverage curve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ecdysis_lab.records import Subset
from ecdysis_lab.show.widgets.state import PickerState
from ecdysis_lab.show.widgets.trace import escaped

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLUMNS = ("subset", "pick", "pattern", "task", "model", "ended", "failed checks", "first thing wrong")
TABLE_ROWS = 2000
MAP_PIXELS = (620, 430)


def map_figure(state: PickerState) -> go.Figure:
    """The pattern map in the picker's size: one trace, ``customdata[0]`` is the key, patterns by number."""
    from ecdysis_lab.show.figures import pattern_map, patterns_frame

    frame = patterns_frame(state.patterns, list(state.failures.values()))
    fig = pattern_map(frame)
    middle = {p.id: state.patterns.layout[p.medoid] for p in state.patterns.patterns}
    notes = [
        {
            "x": x,
            "y": y,
            "text": f"<b>P{i}</b>",
            "showarrow": False,
            "yshift": 14,
            "bgcolor": "rgba(255,255,255,.7)",
        }
        for i, (x, y) in middle.items()
    ]
    fig.update_layout(
        width=MAP_PIXELS[0], height=MAP_PIXELS[1], title=None, annotations=notes, hovermode="closest",
        margin={"l": 4, "r": 4, "t": 28, "b": 4}, dragmode="pan",
    )  # fmt: skip
    fig.update_traces(marker=markers(state))
    return fig


def palette(state: PickerState) -> dict[str, tuple[str, str]]:
    """Category -> (colour, symbol) at the present colouring, in legend order; patterns as on the saved map."""
    from ecdysis_lab.show.figures.maps import NOISE, PATTERN_COLOURS, SYMBOLS

    counts = Counter(state.category(key) for key in state.failures)
    if state.colour_by == "pattern":
        ids = {state.category(key): state.label(key) for key in state.failures}
        order = sorted(counts, key=lambda c: (ids[c] < 0, ids[c]))
    else:
        order, ids = sorted(counts, key=lambda c: (-counts[c], c)), {}
    n, out = len(PATTERN_COLOURS), {}
    for rank, category in enumerate(order):
        i = ids.get(category, rank)
        out[category] = (
            (NOISE, "circle") if i < 0 else (PATTERN_COLOURS[i % n], SYMBOLS[i // n % len(SYMBOLS)])
        )
    return out


def markers(state: PickerState) -> dict[str, Any]:
    """Marker arrays in the order of ``state.failures``: colour by category, ring by mark, red for the current."""
    shown, colours = list(state.failures), palette(state)
    marks = {key: state.mark(key) for key in shown}
    here = state.current
    ring = {"pinned": ("#222222", 3.5), "picked": ("#222222", 2.0)}
    lines = [("#b30000", 3.5) if k == here else ring.get(marks[k], ("#ffffff", 0.8)) for k in shown]
    looks = [colours[state.category(k)] for k in shown]
    small = 6 if len(shown) > 1000 else 11
    return {
        "color": [colour for colour, _ in looks],
        "symbol": [symbol for _, symbol in looks],
        "size": [small + (5 if k == here else 0) for k in shown],
        "opacity": [0.2 if marks[k] == "excluded" and k != here else 0.9 for k in shown],
        "line": {"color": [colour for colour, _ in lines], "width": [width for _, width in lines]},
    }


def legend(state: PickerState) -> str:
    """Colours, names and counts of the present colouring as HTML."""
    counts = Counter(state.category(key) for key in state.failures)
    chips = [
        f'<span><span style="color:{colour};margin:0">●</span> {escaped(name)} ({counts[name]})</span>'
        for name, (colour, _) in palette(state).items()
    ]
    ring = "<span>ring: in the subset · bold ring: pinned · faint: excluded · red: open</span>"
    return f'<div class="el-legend">{" ".join([*chips, ring])}</div>'


def rows(state: PickerState, column: int, down: bool) -> list[list[str]]:
    """Rows of the table in order of a column, the key first; at most 2,000, the best by that order."""
    rank = {key: i + 1 for i, key in enumerate(state.subset.keys)}
    made = []
    for key, f in state.failures.items():
        label = state.label(key)
        name = f"P{label} {state.patterns.patterns[label].name}" if label >= 0 else "noise"
        cells = [str(rank.get(key, "")), name, f.task_id, f.model, f.termination]
        made.append([key, *cells, ", ".join(f.failed_checks), f.first_bad_what])
    mark_order = ["pinned", "picked", "", "excluded"]

    def value(row: list[str]) -> tuple[Any, ...]:
        if column == 0:
            return (mark_order.index(state.mark(row[0])), rank.get(row[0], len(made)))
        if column == 2:
            return (state.label(row[0]),)
        text = row[column]
        return (0, float(text), "") if text.replace(".", "", 1).isdigit() else (1, 0.0, text)

    filled = [r for r in made if column == 0 or r[column]]
    empty = [r for r in made if column and not r[column]]  # at the end whatever the direction
    return (sorted(filled, key=value, reverse=down) + empty)[:TABLE_ROWS]


def table_note(state: PickerState, column: int, down: bool) -> str:
    """What the table leaves out, as HTML; empty where it shows every failure."""
    n = len(state.failures)
    if n <= TABLE_ROWS:
        return ""
    way = "falling" if down else "rising"
    return (
        f'<div class="el-note el-alarm">The table shows {TABLE_ROWS:,} of {n:,} failures: the first by '
        f"{escaped(COLUMNS[column])}, {way}. Click a column's head for others; the map shows them all.</div>"
    )


def status(state: PickerState) -> str:
    """Counts, coverage, cost of the overrides, and why the open failure was picked, as HTML."""
    subset, choice = state.subset, state.choice
    covered = f"{100 * subset.coverage[-1]:.1f}%" if subset.coverage else "nothing"
    parts = [f"<b>{len(subset.picks)} of {len(state.failures)} failures</b> (budget {choice.budget})"]
    parts.append(f"coverage <b>{covered}</b>")
    if choice.pins or choice.excludes:
        parts.append(f"{len(choice.pins)} pinned, {len(choice.excludes)} excluded")
        parts.append(f"overrides cost {100 * state.cost:.1f} points against the automatic pick")
    if state.path:
        parts.append(f"saved to {escaped(state.path.name)}")
    reason = next((p.reason for p in subset.picks if p.key == state.current), "Not in the subset.")
    mark = state.mark(state.current) or "not picked"
    alarm = " el-alarm" if state.message.upper().startswith("NOT ") else ""
    said = f'<span class="el-message{alarm}">{escaped(state.message)}</span>' if state.message else "&nbsp;"
    return (
        f'<div class="el-note el-status">{" · ".join(parts)}<br>'
        f"Open: <b>{escaped(mark)}</b>. {escaped(reason)}<br>{said}</div>"
    )


SVG_PIXELS = (620, 190)
LEFT, RIGHT, TOP, BOTTOM = 44, 118, 14, 30  # margins of the curve in pixels


def coverage_svg(subset: Subset) -> str:
    """Coverage after each pick as inline SVG, against the band of random subsets (5th to 95th percentile)."""
    if not subset.coverage:
        return '<div class="el-note">No coverage curve: the subset is empty.</div>'
    n, band, (width, height) = len(subset.coverage), subset.random_band, SVG_PIXELS
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = _y(share)
        lines.append(f'<line x1="{LEFT}" x2="{width - RIGHT}" y1="{y}" y2="{y}" stroke="#E3E5E8"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{share:.0%}</text>')
    if band:
        edge = [b[2] for b in band], [b[0] for b in band]
        ring = f"{_points(edge[0], n)} {' '.join(reversed(_points(edge[1], n).split(' ')))}"
        lines.append(f'<polygon points="{ring}" fill="#5F6368" fill-opacity="0.17"/>')
        dash = 'fill="none" stroke="#80868B" stroke-width="2" stroke-dasharray="6 4"'
        lines.append(f'<polyline points="{_points([b[1] for b in band], n)}" {dash}/>')
    look = 'fill="none" stroke="#0072B2" stroke-width="3"'
    lines.append(f'<polyline points="{_points(subset.coverage, n)}" {look}/>')
    own = subset.coverage[-1]
    lines.append(_end_name(own, own, "#0072B2", "this subset"))
    if band:
        other = band[-1][1]
        apart = other if abs(own - other) >= 0.1 else own - 0.1  # keep the two names from overlapping
        lines.append(_end_name(other, apart, "#5F6368", "random"))
    told = f"picks 1 to {n}: share covered; band: random subsets, 5th to 95th percentile"
    lines.append(f'<text x="{LEFT}" y="{height - 8}">{told}</text>')
    font = "font:12px Arial,Helvetica,sans-serif"
    inside = "".join(lines)
    return (
        f'<svg class="el-curve" width="{width}" height="{height}" style="{font}" fill="#222">{inside}</svg>'
    )


def _y(share: float) -> float:
    return round(SVG_PIXELS[1] - BOTTOM - (SVG_PIXELS[1] - TOP - BOTTOM) * share, 1)


def _points(shares: Sequence[float], n: int) -> str:
    step = (SVG_PIXELS[0] - LEFT - RIGHT) / n
    return " ".join(f"{LEFT + step * (i + 1):.1f},{_y(share)}" for i, share in enumerate(shares))


def _end_name(value: float, at: float, colour: str, name: str) -> str:
    x = SVG_PIXELS[0] - RIGHT + 6
    bold = f'<tspan font-weight="bold">{value:.0%}</tspan>'
    return f'<text x="{x}" y="{_y(at) + 4}" fill="{colour}">{bold} {name}</text>'
