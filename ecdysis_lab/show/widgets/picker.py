"""The failure picker: map, table, trace reader and coverage curve around one ``PickerState``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ecdysis_lab.failures.transcript import shorten
from ecdysis_lab.records import Failure, Patterns, Subset
from ecdysis_lab.show.widgets import drawing
from ecdysis_lab.show.widgets.source import open_source
from ecdysis_lab.show.widgets.state import COLOURINGS, PickerState
from ecdysis_lab.show.widgets.trace import trace_html

READER_PIXELS = 690
PAGE_PIXELS = 1290
BUTTONS = {
    "ArrowLeft": ("← previous", "the one before in this pattern"),
    "ArrowRight": ("next →", "the next in this pattern"),
    "p": ("Pin (p)", "keep the open failure in the subset"),
    "x": ("Exclude (x)", "keep the open failure out of the subset"),
    "u": ("Undo (u)", "take the last decision back"),
}


class FailurePicker:
    """A live picker; shows itself as the last value of a notebook cell.

    Keys, once the picker has the focus (click it): ← and → go through the pattern, ``p`` pins, ``x`` excludes,
    ``u`` undoes.

    Parameters
    ----------
    failures, patterns, path, budget, seed : see ``PickerState``.

    Attributes
    ----------
    state : every decision; what the widgets do, a program can do through it.
    box : the ipywidgets container.
    """

    def __init__(
        self,
        failures: Sequence[Failure],
        patterns: Patterns,
        path: Path | str | None = None,
        budget: int | float | None = None,
        seed: int = 0,
    ) -> None:
        self.state = PickerState(failures, patterns, path, budget, seed)
        self._order = (0, False)
        self.box = self._build() if self.state.failures else _nothing()
        if self.state.failures:
            self.state.listen(self.refresh)
            self.refresh()

    @classmethod
    def open(
        cls,
        source: str,
        path: Path | str | None = None,
        *,
        data: Path | str = "",
        budget: int | float | None = None,
        embedder: str = "auto",
        disclosure: str = "checks",
        seed: int = 0,
    ) -> FailurePicker:
        """A picker on a file or folder of traces, an import, or a training run, in one line.

        Parameters
        ----------
        source, data, disclosure : see ``open_source``.
        path, budget, seed : see ``PickerState``; ``path`` is where the pick is saved.
        embedder : see ``failures.embedding.embedder``.

        Raises
        ------
        LabError: nothing there, or a wrong value.
        """
        from ecdysis_lab.failures.embedding import embedder as make
        from ecdysis_lab.failures.patterns import find_patterns

        found = open_source(source, data, disclosure=disclosure)
        return cls(
            found.failures, find_patterns(found.failures, make(embedder), seed=seed), path, budget, seed
        )

    @property
    def subset(self) -> Subset:
        """The present subset."""
        return self.state.banded

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return self.box._repr_mimebundle_(**kwargs)

    def _build(self) -> Any:
        import ipywidgets as w

        from ecdysis_lab.show.widgets.parts import FailureTable, Keys, TraceReader

        self._controls()
        self.map = self._map()
        self.legend, self.status, self.curve = w.HTML(), w.HTML(), w.HTML()
        # Complete from the start: what changes while JupyterLab loads a widget's script can be lost on the way.
        self.reader = TraceReader(height_pixels=READER_PIXELS, **self._trace_traits())
        self.table = FailureTable(columns=list(drawing.COLUMNS), **self._table_traits())
        self.table_note = w.HTML()
        self.table.on_msg(lambda _, content, __: self._hear(content))
        self.keys = Keys(heard=list(BUTTONS), around="el-picker")
        self.keys.on_msg(lambda _, content, __: self.state.press(str(content.get("key", ""))))
        return self._arranged()

    def _arranged(self) -> Any:
        import ipywidgets as w

        left = w.VBox([self.colouring, self.map, self.legend, self.curve], layout=w.Layout(width="640px"))
        right = w.VBox([self.reader], layout=w.Layout(flex="1 1 460px", min_width="340px"))
        self.reader.layout.width = self.table.layout.width = "100%"
        bar = w.HBox([*self.buttons.values(), self.slider], layout=w.Layout(flex_flow="row wrap"))
        row = w.HBox([left, right], layout=w.Layout(width="100%", flex_flow="row wrap"))
        box = w.VBox(
            [bar, self.status, row, self.table_note, self.table, self.keys],
            layout=w.Layout(width="100%", max_width=f"{PAGE_PIXELS}px"),
        )
        box.add_class("el-picker")
        return box

    def _controls(self) -> None:
        import ipywidgets as w

        state = self.state
        self.buttons = {
            key: w.Button(description=text, tooltip=tip, layout=w.Layout(width="108px"))
            for key, (text, tip) in BUTTONS.items()
        }
        for key, button in self.buttons.items():
            button.on_click(lambda _, key=key: state.press(key))
        self.slider = w.IntSlider(
            state.choice.budget, 1, len(state.failures), description="budget", continuous_update=False
        )
        self.slider.observe(lambda change: state.set_budget(change["new"]), "value")
        self.colouring = w.Dropdown(options=COLOURINGS, value=state.colour_by, description="colour by")
        self.colouring.observe(lambda change: state.colour(change["new"]), "value")

    def _map(self) -> Any:
        from ecdysis_lab.show.widgets.parts import MapFigure

        figure = MapFigure(drawing.map_figure(self.state))
        self._markers = drawing.markers(self.state)  # as drawn
        figure.data[0].on_click(self._clicked)
        return figure

    def _clicked(self, trace: Any, points: Any, _: Any) -> None:
        if points.point_inds:
            self.state.open(str(trace.customdata[points.point_inds[0]][0]))

    def _hear(self, content: dict[str, Any]) -> None:
        """Act on a message of the table: a row or a column's head."""
        act = content.get("act")
        if act == "open":
            self.state.open(str(content.get("key", "")))
        elif act == "sort" and content.get("column") in range(len(drawing.COLUMNS)):
            column = int(content["column"])
            self._order = (column, not self._order[1] if column == self._order[0] else False)
            self.refresh()

    def refresh(self) -> None:
        """Show the state as it is now."""
        state, key = self.state, self.state.current
        markers = drawing.markers(state)
        if markers != self._markers:
            self._markers = markers
            with self.map.batch_update():
                self.map.data[0].marker = markers
        self.legend.value, self.status.value = drawing.legend(state), drawing.status(state)
        self.curve.value = drawing.coverage_svg(state.banded)
        self.slider.value, self.colouring.value = state.choice.budget, state.colour_by
        self.table_note.value = drawing.table_note(state, *self._order)
        for name, value in self._table_traits().items():
            setattr(self.table, name, value)
        mark = state.mark(key)
        self.buttons["p"].description = "Unpin (p)" if mark == "pinned" else "Pin (p)"
        self.buttons["x"].description = "Include (x)" if mark == "excluded" else "Exclude (x)"
        self.buttons["u"].disabled = not state.history
        if self.reader.key != key:
            for name, value in self._trace_traits().items():
                setattr(self.reader, name, value)

    def _table_traits(self) -> dict[str, Any]:
        state = self.state
        return {
            "rows": drawing.rows(state, *self._order),
            "order": list(self._order),
            "marks": {k: mark for k in state.failures if (mark := state.mark(k))},
            "current": state.current,
        }

    def _trace_traits(self) -> dict[str, Any]:
        key = self.state.current
        failure, facts = self.state.failures[key], pattern_facts(self.state.patterns, key)
        return {"key": key, "html": trace_html(failure.trajectory, failure, facts)}


def pattern_facts(patterns: Patterns, key: str) -> list[tuple[str, str]]:
    """Head lines of a trace: its pattern, or the nearest one of noise."""
    label = patterns.label(key)
    if label >= 0:
        pattern = patterns.patterns[label]
        kind = "recurring" if pattern.recurring else "auxiliary"
        return [
            ("pattern", f"P{label} {shorten(pattern.name, 120)} ({kind}, {len(pattern.members)} failures)")
        ]
    near, similarity = patterns.noise.get(key, (-1, 0.0))
    return [("pattern", f"noise; nearest P{near} at similarity {similarity:.2f}" if near >= 0 else "noise")]


def _nothing() -> Any:
    import ipywidgets as w

    return w.HTML("<b>No failures: there is nothing to pick.</b>")
