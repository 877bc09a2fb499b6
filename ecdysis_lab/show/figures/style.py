"""One look for every figure: colours of the arms, fonts, canvas, footer, SIMULATED mark."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from ecdysis_lab.models.hand import played
from ecdysis_lab.records import LabError
from ecdysis_lab.show.figures.labels import text_width, wrap
from ecdysis_lab.train.arms import ARMS

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

OTHER_COLOURS = ("#009E73", "#D55E00", "#7A5195", "#8C6D31")
INK, SOFT, FAINT, ALARM = "#222222", "#5F6368", "#E3E5E8", "#B30000"
FONT = "Arial, Helvetica, Liberation Sans, sans-serif"
WIDTH, HEIGHT, EDGE = 1000, 600, 24
ROOM = WIDTH - 2 * EDGE  # for a line of text
TITLE, TEXT, SMALL = 19, 13, 12  # font sizes
SPACING = 1.3  # from line to line, as Plotly sets them, in font sizes
FOOTER_LINES = SUBTITLE_LINES = 2  # that fit into the margins of every figure
SHOWN_RUNS = 3  # run ids that a footer spells out


def arm_colour(arm: str) -> str:
    """Colour of an arm; one outside the table keeps one of four further colours, chosen by its name."""
    if arm in ARMS:
        return ARMS[arm].colour
    return OTHER_COLOURS[hashlib.md5(arm.encode(), usedforsecurity=False).digest()[0] % len(OTHER_COLOURS)]


def arm_order(arms: Iterable[str]) -> list[str]:
    """Distinct arms in the order of the arms table, further ones behind by name."""
    rank = list(ARMS)
    return sorted(set(arms), key=lambda a: (rank.index(a) if a in rank else len(rank), a))


def arm_label(arm: str) -> str:
    """Arm name behind a swatch of its colour, for tick labels."""
    return f'<span style="color:{arm_colour(arm)};font-size:16px">■</span> {arm}'


def label_margin(labels: Iterable[str], least: int) -> int:
    """Left margin in pixels, at least ``least``, that holds the tick labels of a y axis."""
    return max(least, EDGE + 12 + ceil(max(text_width(label, TEXT) for label in labels)))


@dataclass(frozen=True)
class Footer:
    """What a reader needs in order to find the run behind a figure.

    Parameters
    ----------
    run_id, commit, seed : identity of the run; several seeds as text, ``"0, 1, 2"``.
    models : names of the models shown.
    embedder : name of the embedder, or empty where none was used.
    tokens_seen : share of card tokens that the embedder saw, in [0, 1], or None.
    simulated : whether any model was simulated.
    by_hand : what a person, or a chat window, did in place of a model; see :func:`by_hand`.
    """

    run_id: str
    commit: str
    seed: int | str
    models: Sequence[str] = ()
    embedder: str = ""
    tokens_seen: float | None = None
    simulated: bool = False
    by_hand: str = ""

    @classmethod
    def of(
        cls,
        summaries: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        embedder: str = "",
        tokens_seen: float | None = None,
    ) -> Footer:
        """Footer of a run from its ``summary.json``, or of several as one; models are those of the arms blocks."""
        runs = [summaries] if isinstance(summaries, Mapping) else summaries
        ids, seeds = [str(s["run_id"]) for s in runs], sorted({int(s["seed"]) for s in runs})
        return cls(
            ", ".join(ids) if len(ids) <= SHOWN_RUNS else f"{ids[0]} and {len(ids) - 1} more",
            ", ".join(dict.fromkeys(str(s["commit"]) for s in runs)),
            seeds[0] if len(seeds) == 1 else ", ".join(map(str, seeds)),
            sorted({m for s in runs for by_model in s["arms"].values() for m in by_model}),
            embedder,
            tokens_seen,
            any(s["simulated"] for s in runs),
            by_hand(runs),
        )

    @property
    def text(self) -> str:
        """The footer as one line of plain text."""
        parts = [
            f"run {self.run_id}",
            f"commit {_short_commits(self.commit)}",
            f"seed{'s' if ',' in str(self.seed) else ''} {self.seed}",
        ]
        if self.models:
            parts.append(f"models {', '.join(self.models)}")
        if self.embedder:
            seen = "" if self.tokens_seen is None else f" ({self.tokens_seen:.0%} of tokens seen)"
            parts.append(f"embedder {self.embedder}{seen}")
        if self.by_hand:
            parts.append(self.by_hand)
        if self.simulated:
            parts.append("SIMULATED: planted-defect models, not a result about real ones")
        return " · ".join(parts)


def by_hand(summaries: Sequence[Mapping[str, Any]]) -> str:
    """What was done by hand in the rounds of these runs (:func:`ecdysis_lab.models.hand.played`); else empty."""
    rounds = [r for s in summaries for block in s.get("training", {}).values() for r in block["rounds"]]
    return played(str(note) for r in rounds for note in r.get("notes") or ())


def _short_commits(text: str) -> str:
    """Commits, comma-separated, to twelve digits each; ``-dirty`` stays."""
    parts = [part.strip().partition("-") for part in text.split(",") if part.strip()]
    return ", ".join(dict.fromkeys(head[:12] + dash + rest for head, dash, rest in parts)) or "unknown"


def base(title: str, subtitle: str, *, height: int = HEIGHT, **margin: int) -> dict[str, Any]:
    """Layout keys that every figure shares; ``margin`` overrides l, r, t, b in pixels.

    Title and subtitle are wrapped. Lines that the top margin has no room for make it and the canvas grow.
    """
    heads = wrap(title, ROOM - text_width("<b>SIMULATED</b>  ", TITLE), TITLE, bold=True)
    lines = [line for part in subtitle.split("<br>") for line in wrap(part, ROOM, TEXT)]
    extra = _height(len(heads) - 1, TITLE) + _height(len(lines) - SUBTITLE_LINES, TEXT)
    margin = {"l": 80, "r": 30, "t": 96, "b": 108, **margin}
    margin["t"] += extra
    height += extra
    return {
        "template": "none",
        "width": WIDTH,
        "height": height,
        "margin": margin,
        "font": {"family": FONT, "size": TEXT, "color": INK},
        "paper_bgcolor": "white",
        "plot_bgcolor": "rgba(0,0,0,0)",  # the SIMULATED mark lies under the plot
        "showlegend": False,
        "hoverlabel": {"align": "left", "font": {"family": FONT, "size": TEXT}},
        "title": {
            "text": f"<b>{'<br>'.join(heads)}</b>",
            "x": EDGE / WIDTH,
            "xanchor": "left",
            "y": 1 - 20 / height,
            "yanchor": "top",
            "font": {"size": TITLE, "color": INK},
            "subtitle": {"text": "<br>".join(lines), "font": {"size": TEXT, "color": SOFT}},
        },
    }


def _height(lines: int, size: int) -> int:
    """Pixels that lines of text take at a font of ``size`` pixels; none for a negative number."""
    return ceil(max(0, lines) * SPACING * size)


def axis(title: str = "", **more: Any) -> dict[str, Any]:
    """Keys of a quiet axis: faint grid, no line, title with its unit."""
    look = {"gridcolor": FAINT, "zeroline": False, "ticks": "", "ticklabelstandoff": 5}
    return {
        **look,
        "title": {"text": title, "standoff": 8, "font": {"size": TEXT}},
        "tickfont": {"size": TEXT},
        **more,
    }


def arm_axis(arms: Sequence[str]) -> dict[str, Any]:
    """Keys of a y axis with one row an arm, the first on top."""
    ticks: dict[str, Any] = {"tickvals": list(range(len(arms))), "ticktext": [arm_label(a) for a in arms]}
    return axis(range=[len(arms) - 0.4, -0.6], showgrid=False, **ticks)


def panel(n: int) -> tuple[dict[str, str], dict[str, str], dict[str, Any]]:
    """Where panel n of ``make_subplots`` (1, 2, ... row by row) is.

    Returns
    -------
    Axis keys for a trace, references for an annotation in data coordinates, and keys that put an annotation
    above the panel's top left corner.
    """
    suffix = "" if n == 1 else str(n)
    x, y = f"x{suffix}", f"y{suffix}"
    above = {
        "xref": f"{x} domain",
        "x": 0,
        "xanchor": "left",
        "yref": f"{y} domain",
        "y": 1,
        "yanchor": "bottom",
    }
    return {"xaxis": x, "yaxis": y}, {"xref": x, "yref": y}, {**above, "showarrow": False, "align": "left"}


def hide(fig: go.Figure, panels: Iterable[int]) -> None:
    """Draw no axes for panels that a grid has too many."""
    for n in panels:
        at = panel(n)[0]
        for kind in ("x", "y"):
            fig.layout[f"{kind}axis{at[f'{kind}axis'][1:]}"].visible = False


def panel_room(left: int, columns: int, spacing: float) -> float:
    """Pixels for a line above a panel: its width and most of the gap behind it.

    Parameters
    ----------
    left : margin in pixels.
    columns, spacing : of ``make_subplots``.
    """
    wide = WIDTH - left - 30
    return wide * (1 - spacing * (columns - 1)) / columns + min(0.7 * spacing * wide, EDGE)


def columns_of(labels: Sequence[str], left: int, spacing: float) -> int:
    """How many panels stand side by side: as many as have room for each of these bold labels, in rows of like length.

    Parameters
    ----------
    labels : one a panel. left : margin in pixels. spacing : between panels, as a share of the plot's width.
    """
    wide = max(text_width(f"<b>{label}</b>", TEXT) for label in labels)
    fitting = (n for n in range(len(labels), 1, -1) if wide <= panel_room(left, n, spacing))
    return ceil(len(labels) / ceil(len(labels) / next(fitting, 1)))


def heading(name: str, about: str, room: float) -> str:
    """Text above a panel: its name in bold, then small lines about it that ``room`` pixels hold."""
    lines = "<br>".join(wrap(about, room, SMALL))
    return f"<b>{name}</b><br><span style='color:{SOFT};font-size:{SMALL}px'>{lines}</span>"


def heading_margin(headings: Iterable[str], top: int) -> int:
    """Top margin in pixels: ``top``, which holds headings of two lines, and what the longest has beyond."""
    return top + _height(max(text.count("<br>") for text in headings) - 1, SMALL)


def note(text: str, **more: Any) -> dict[str, Any]:
    """Keys of a plain text annotation."""
    return {"text": text, "showarrow": False, "font": {"size": TEXT, "color": INK}, **more}


def need(frame: pd.DataFrame, columns: Iterable[str], figure: str) -> None:
    """Refuse a table that a figure cannot draw.

    Raises
    ------
    LabError: a missing column, or no row.
    """
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise LabError(
            f"figure {figure} needs column {missing[0]!r}; the table has {', '.join(frame.columns)}"
        )
    if frame.empty:
        raise LabError(f"figure {figure} has nothing to draw: the table has no row")


def stamp(fig: go.Figure, footer: Footer) -> go.Figure:
    """A copy of a figure with its footer, and with SIMULATED in title and ground where so.

    Stamping twice changes nothing.
    """
    import plotly.graph_objects as go

    copy = go.Figure(fig)
    if any(a.name == "footer" for a in copy.layout.annotations):
        return copy
    if footer.simulated:
        mark_simulated(copy)
    lines = wrap(footer.text, ROOM, SMALL)
    extra = _height(len(lines) - FOOTER_LINES, SMALL)
    height, bottom = copy.layout.height + extra, copy.layout.margin.b + extra
    copy.update_layout(height=height, margin_b=bottom, title_y=1 - 20 / height)
    place = {"xref": "paper", "x": 0, "xanchor": "left", "xshift": EDGE - copy.layout.margin.l}
    place |= {"yref": "paper", "y": 0, "yanchor": "bottom", "yshift": 6 - bottom}
    text = note("<br>".join(lines), name="footer", align="left", font={"size": SMALL, "color": SOFT}, **place)
    copy.add_annotation(text)
    return copy


def mark_simulated(fig: go.Figure, title: str = "{mark}  {title}", x0: float = 0.0, x1: float = 1.0) -> None:
    """Write SIMULATED into the title and, pale, under the data of a figure; once.

    ``x0`` and ``x1`` bound the ground that is marked, as shares of the plot's width.
    """
    if any(i.name == "simulated" for i in fig.layout.images):
        return
    mark = f'<span style="color:{ALARM}"><b>SIMULATED</b></span>'
    fig.update_layout(title_text=title.format(mark=mark, title=fig.layout.title.text))
    drawing = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 400"><text x="400" y="230" font-size="118" '
        f'font-family="Arial, Liberation Sans" fill="{ALARM}" fill-opacity="0.07" text-anchor="middle" '
        'transform="rotate(-18 400 200)">SIMULATED</text></svg>'
    )
    source = "data:image/svg+xml;base64," + base64.b64encode(drawing.encode()).decode()
    place = {"xref": "paper", "x": x0, "sizex": x1 - x0, "yref": "paper", "y": 1, "sizey": 1}
    fig.add_layout_image(name="simulated", source=source, layer="below", sizing="contain", **place)


def simulated(frame: pd.DataFrame) -> bool:
    """Whether any row of a table says that it came from simulated models."""
    return "simulated" in frame.columns and bool(frame["simulated"].astype(bool).any())


def finish(fig: go.Figure, frame: pd.DataFrame) -> go.Figure:
    """The figure, marked where its table says SIMULATED, so that it is never shown unmarked."""
    if simulated(frame):
        mark_simulated(fig)
    return fig
