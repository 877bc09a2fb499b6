"""What draws in the browser: the map, the trace reader, the table, and the keys of the keyboard."""

from __future__ import annotations

import anywidget
import plotly.graph_objects as go
import traitlets

from ecdysis_lab.show.widgets.assets import asset


class TraceReader(anywidget.AnyWidget):
    """A box of escaped HTML that opens at the first bad step."""

    _esm = asset("open_at_bad.js", "reader.js")
    _css = asset("style.css")
    html = traitlets.Unicode("").tag(sync=True)
    key = traitlets.Unicode("").tag(sync=True)
    height_pixels = traitlets.Int(600).tag(sync=True)


class FailureTable(anywidget.AnyWidget):
    """A table; sends ``{"act": "open", "key": …}`` and ``{"act": "sort", "column": …}``.

    ``rows`` hold a key and then one text per column after the first, which shows the mark of the key.
    """

    _esm = asset("table.js")
    _css = asset("style.css")
    columns = traitlets.List(traitlets.Unicode()).tag(sync=True)
    rows: traitlets.List[list[str]] = traitlets.List().tag(sync=True)
    marks = traitlets.Dict().tag(sync=True)
    current = traitlets.Unicode("").tag(sync=True)
    order = traitlets.List([0, False]).tag(sync=True)
    height_pixels = traitlets.Int(260).tag(sync=True)


class Keys(anywidget.AnyWidget):
    """Sends ``{"key": …}`` for each key in ``heard`` pressed while the box with the class ``around`` has the focus."""

    _esm = asset("keys.js")
    heard = traitlets.List(traitlets.Unicode()).tag(sync=True)
    around = traitlets.Unicode("").tag(sync=True)


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
