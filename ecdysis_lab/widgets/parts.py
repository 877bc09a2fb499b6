"""The two widgets that draw in the browser: the trace reader and the table, which also carries the keys."""

from __future__ import annotations

import anywidget
import traitlets

from ecdysis_lab.widgets.assets import CSS, READER_ESM, TABLE_ESM


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
