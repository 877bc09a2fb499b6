"""What draws in the browser: the map, the trace reader, and the table, which also carries the keys."""

from __future__ import annotations

import anywidget
import plotly.graph_objects as go
import traitlets

from ecdysis_lab.show.widgets.assets import CSS, READER_ESM, TABLE_ESM


class TraceReader(anywidget.AnyWidget):
    """A box of escaped HTML that opens at the first bad step."""

    _esm = READER_ESM
    _css = CSS
    html = traitlets.Unicode("").tag(sync=True)
    key = traitlets.Unicode("").tag(sync=True)
    height_pixels = traitlets.Int(600).tag(sync=True)


class FailureTable(anywidget.AnyWidget):
    """A table; sends ``{"act": "open" | "sort" | "next" | "previous" | "pin" | "exclude" | "undo"}``.

    ``rows`` hold a key and then one text per column after the first, which shows the mark of the key.
    """

    _esm = TABLE_ESM
    _css = CSS
    columns = traitlets.List(traitlets.Unicode()).tag(sync=True)
    rows: traitlets.List[list[str]] = traitlets.List().tag(sync=True)
    marks = traitlets.Dict().tag(sync=True)
    current = traitlets.Unicode("").tag(sync=True)
    order = traitlets.List([0, False]).tag(sync=True)
    height_pixels = traitlets.Int(260).tag(sync=True)


class MapFigure(go.FigureWidget):  # type: ignore[misc]
    """A ``FigureWidget`` that opens its channel to the browser once the figure is complete.

    Plotly opens it first and sends data and layout behind it; JupyterLab, which loads the widget's script in
    between, then drew an empty plot (plotly 7.1, anywidget 0.11, JupyterLab 4.6).
    """

    _complete = False

    def __init__(self, figure: go.Figure) -> None:
        super().__init__(figure)
        self._complete = True
        self.open()

    def open(self) -> None:
        """Open the channel, if the figure is complete."""
        if self._complete:
            super().open()
