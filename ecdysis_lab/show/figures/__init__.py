"""Figures: table in, Plotly figure out.

A drawing function takes one DataFrame (its docstring lists the columns) and returns a plain ``go.Figure``.
The ``*_frame`` functions build them from ``summary.json`` and from records; ``stamp`` writes the footer;
``save`` and ``save_all`` write HTML, PNG, SVG and CSV.
"""

from ecdysis_lab.show.figures.arms import gains, transfer
from ecdysis_lab.show.figures.chrome import find_chrome
from ecdysis_lab.show.figures.costs import cost_accuracy, phases
from ecdysis_lab.show.figures.export import save_all
from ecdysis_lab.show.figures.frames import (
    cost_frame,
    coverage_frame,
    gains_frame,
    patterns_frame,
    phases_frame,
    rounds_frame,
    transfer_frame,
)
from ecdysis_lab.show.figures.maps import coverage, pattern_map
from ecdysis_lab.show.figures.published import measured_frame, measured_frames, published_frame, reference
from ecdysis_lab.show.figures.style import Footer, arm_colour, stamp
from ecdysis_lab.show.figures.training import rounds

__all__ = [
    "Footer",
    "arm_colour",
    "cost_accuracy",
    "cost_frame",
    "coverage",
    "coverage_frame",
    "find_chrome",
    "gains",
    "gains_frame",
    "measured_frame",
    "measured_frames",
    "pattern_map",
    "patterns_frame",
    "phases",
    "phases_frame",
    "published_frame",
    "reference",
    "rounds",
    "rounds_frame",
    "save_all",
    "stamp",
    "transfer",
    "transfer_frame",
]
