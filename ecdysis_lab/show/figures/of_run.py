"""The figures of one evaluated run, from what its folder holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ecdysis_lab.evaluate.results import Results, arm_with_patterns, round_evidence, rounds_frame
from ecdysis_lab.records import Failure, Patterns, Subset
from ecdysis_lab.show.figures.arms import gains, transfer
from ecdysis_lab.show.figures.frames import coverage_frame, patterns_frame, transfer_frame
from ecdysis_lab.show.figures.maps import coverage, pattern_map
from ecdysis_lab.show.figures.style import Footer
from ecdysis_lab.show.figures.training import rounds
from ecdysis_lab.train.arms import BASELINE

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

Plots = dict[str, "tuple[go.Figure, pd.DataFrame]"]


def plots_of(found: Results) -> tuple[Plots, Footer]:
    """Figures by name, each with its table, and their footer: patterns and rounds where an arm was trained, then gains.

    Parameters
    ----------
    found : results of one run, see :func:`ecdysis_lab.evaluate.results.pooled`.
    """
    run, summary, made = found.runs[0], found.summaries[0], {}
    seen: tuple[str, float] | tuple[()] = ()
    trained = arm_with_patterns(run, summary)
    if trained:
        failures, patterns, subset = round_evidence(run, trained)
        made = evidence_plots(failures, patterns, subset, bool(summary["simulated"]))
        seen = (patterns.embedder, patterns.tokens_seen)
        frame = rounds_frame(found.training, summary["simulated"])
        made["rounds"] = (rounds(frame), frame)
    made["gains"] = (gains(found.by_arm), found.by_arm)
    if BASELINE in summary["arms"] and len(summary["arms"]) > 1:
        gain = transfer_frame(found.by_arm)
        made["transfer"] = (transfer(gain), gain)
    return made, Footer.of(summary, *seen)


def evidence_plots(failures: Sequence[Failure], patterns: Patterns, subset: Subset, simulated: bool) -> Plots:
    """Map of the patterns with the picks marked, and the curve of what the picks cover."""
    made: Plots = {}
    if failures:
        table = patterns_frame(patterns, failures, simulated)
        table["picked"] = table["key"].isin(subset.keys)
        made["pattern_map"] = (pattern_map(table), table)
    if subset.coverage:
        curve = coverage_frame(subset, simulated)
        made["coverage"] = (coverage(curve), curve)
    return made


def show_plots(plots: Mapping[str, Any]) -> None:
    """Draw figures in a notebook, one below the other."""
    for figure, _ in plots.values():
        figure.show(renderer="plotly_mimetype+notebook_connected")


def told(saved: Mapping[str, Mapping[str, Any]], folder: Any) -> str:
    """Which figures were written, and why some formats are missing."""
    skipped = {f"no PNG and SVG: {paths['skipped']}" for paths in saved.values() if "skipped" in paths}
    return "\n".join([f"figures: {', '.join(saved)} in {folder}", *sorted(skipped)])
