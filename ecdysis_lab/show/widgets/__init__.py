"""Widgets for reading failures and picking the informative quarter, and their HTML export.

``FailurePicker`` needs a live frontend; ``PickerState`` holds every decision without one.
"""

from ecdysis_lab.show.widgets.annotator import EditAnnotator
from ecdysis_lab.show.widgets.answers import AnswerField
from ecdysis_lab.show.widgets.debate import show_review
from ecdysis_lab.show.widgets.export import export_html, patterns_table, picks_table
from ecdysis_lab.show.widgets.gates_view import decision_line, gates_table, round_diff
from ecdysis_lab.show.widgets.picker import FailurePicker
from ecdysis_lab.show.widgets.source import Source, live, open_source, weights_of
from ecdysis_lab.show.widgets.state import PickerState
from ecdysis_lab.show.widgets.trace import trace_html

__all__ = [
    "AnswerField",
    "EditAnnotator",
    "FailurePicker",
    "PickerState",
    "Source",
    "decision_line",
    "export_html",
    "gates_table",
    "live",
    "open_source",
    "patterns_table",
    "picks_table",
    "round_diff",
    "show_review",
    "trace_html",
    "weights_of",
]
