"""Figures: table in, Plotly figure out.

A drawing function takes one DataFrame (its docstring lists the columns) and returns a plain ``go.Figure``.
``gains`` draws what :func:`ecdysis_lab.evaluate.summaries.summarise` makes of the long table of scores; the ``*_frame``
functions build the other tables from that and from records; ``stamp`` writes the footer; ``save_all`` writes HTML, PNG,
SVG and CSV.
"""

from ecdysis_lab.evaluate.results import rounds_frame
from ecdysis_lab.show.figures.arms import gains, transfer
from ecdysis_lab.show.figures.chrome import find_chrome
from ecdysis_lab.show.figures.costs import cost_accuracy, phases
from ecdysis_lab.show.figures.export import save_all
from ecdysis_lab.show.figures.frames import (
    cost_frame,
    coverage_frame,
    measured_frame,
    patterns_frame,
    phases_frame,
    published_frame,
    transfer_frame,
)
from ecdysis_lab.show.figures.maps import coverage, pattern_map
from ecdysis_lab.show.figures.of_run import evidence_plots, plots_of, show_plots, told
from ecdysis_lab.show.figures.published import reference
from ecdysis_lab.show.figures.style import Footer, arm_colour, stamp
from ecdysis_lab.show.figures.training import rounds

__all__ = [
    "Footer",
    "arm_colour",
    "cost_accuracy",
    "cost_frame",
    "coverage",
    "coverage_frame",
    "evidence_plots",
    "find_chrome",
    "gains",
    "measured_frame",
    "pattern_map",
    "patterns_frame",
    "phases",
    "phases_frame",
    "plots_of",
    "published_frame",
    "reference",
    "rounds",
    "rounds_frame",
    "save_all",
    "show_plots",
    "stamp",
    "told",
    "transfer",
    "transfer_frame",
]
