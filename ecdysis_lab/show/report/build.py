"""What stands in a report: sections of figures, tables and sentences, from the results of its runs."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ecdysis_lab.evaluate.comparisons import differences
from ecdysis_lab.evaluate.results import Results, Summary, pooled, round_evidence
from ecdysis_lab.records import LabError
from ecdysis_lab.show import figures as draw
from ecdysis_lab.show import tables
from ecdysis_lab.show.report.page import page
from ecdysis_lab.store import Run
from ecdysis_lab.train.arms import BASELINE

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


@dataclass
class Section:
    """A heading and what follows it: sentences, figures with the tables behind them, tables for people.

    ``ground`` is ``"published"`` for what was not measured here, and ``folded`` hides the content until a click.
    """

    title: str
    words: str = ""
    plots: dict[str, tuple[go.Figure, pd.DataFrame]] = field(default_factory=dict)
    tables: list[tuple[str, pd.DataFrame]] = field(default_factory=list)
    level: int = 2
    ground: str = ""
    folded: bool = False


@dataclass
class Report:
    """Sections and what the footer says."""

    name: str
    title: str
    sections: list[Section]
    footer: draw.Footer
    seconds: float

    @property
    def plots(self) -> dict[str, tuple[go.Figure, pd.DataFrame]]:
        """All figures by name, e.g. for :func:`ecdysis_lab.show.figures.save_all`."""
        return {name: pair for section in self.sections for name, pair in section.plots.items()}

    def save(self, path: Path) -> Path:
        """Write the page, whole or not at all."""
        if path.suffix != ".html":
            raise LabError(f"out: must end in .html, got {path.name}")
        Run(path.resolve().parent).write_text(path.name, page(self))
        return path


def build(runs: Sequence[Run], n_boot: int = 2000) -> Report:
    """Report of evaluated runs.

    Raises
    ------
    LabError: runs of one seed and setting, which cannot be averaged, or a run without its table of scores.
    """
    groups = pooled(runs, n_boot)
    summaries = [s for group in groups for s in group.summaries]
    listed = sorted(summaries, key=lambda s: (s["benchmark"], s["train_model"], int(s["seed"])))
    sections = [Section("Runs", tables=[("", tables.runs_table(listed))])]
    for n, group in enumerate(groups, 1):
        sections += _group(group, f"-{n}" if len(groups) > 1 else "", n_boot)
    footer = draw.Footer.of(summaries)
    sections += _published(groups, footer)
    names = list(dict.fromkeys(group.benchmark.rpartition("/")[2] for group in groups))
    title = f"Harness training on {' and '.join(dict.fromkeys(group.benchmark for group in groups))}"
    name = runs[0].run_id if len(runs) == 1 else "-".join([*names, f"{len(runs)}runs"])
    seconds = sum(float(s.get("wall_seconds") or 0.0) for s in summaries)
    return Report(name, title, sections, footer, seconds)


def _group(group: Results, mark: str, n_boot: int) -> list[Section]:
    """Sections on runs that differ in their seed only."""
    footer, s = draw.Footer.of(group.summaries), "s" if len(group.runs) > 1 else ""
    about = f"{len(group.runs)} run{s}, seed{s} {', '.join(map(str, group.seeds))}. "
    made = [
        Section(
            f"{group.benchmark}, trained on {group.train_model}",
            about + tables.what_it_can_show(group.by_arm),
        ),
        _accuracy(group),
        *_transfer(group),
        _differences(group, n_boot),
        *_training(group),
        *_evidence(group),
        Section("Inference on the test split", tables=[("", tables.inference_table(group.by_arm))], level=3),
    ]
    for section in made:
        section.plots = {
            f"{name}{mark}": (draw.stamp(figure, _own_footer(figure, footer)), frame)
            for name, (figure, frame) in section.plots.items()
        }
    return made


def _own_footer(figure: go.Figure, footer: draw.Footer) -> draw.Footer:
    """The footer that a figure brought along in its ``meta``, else the common one."""
    return draw.Footer(**figure.layout.meta["footer"]) if figure.layout.meta else footer


def _accuracy(group: Results) -> Section:
    words = (
        "Dots are means over task and trial; intervals come from a bootstrap over tasks, with a correction for few "
        "of them. Infrastructure errors are never scored."
    )
    plots = {"gains": (draw.gains(group.by_arm), group.by_arm)}
    shown = [("", tables.arms_table(group.by_arm))]
    reasons = tables.reasons_table(group.scores)
    if len(reasons):
        shown.append(("Scored trials that the model itself ended", reasons))
    return Section("Accuracy by arm", words, plots, shown, level=3)


def _transfer(group: Results) -> list[Section]:
    if not {BASELINE} < set(group.by_arm["arm"]):
        return []
    frame = draw.transfer_frame(group.by_arm)
    return [Section("Gain by model", "", {"transfer": (draw.transfer(frame), frame)}, level=3)]


def _differences(group: Results, n_boot: int) -> Section:
    words = (
        "Paired by run, task and trial seed. <i>Tasks up</i> and <i>down</i> count tasks whose successes rose and "
        "fell; the sign test is exact and two-sided. Many pairs are compared and nothing is corrected for that."
    )
    table = tables.differences_table(differences(group.scores, group.seeds[0], n_boot))
    return Section(
        "Paired differences between arms", words, tables=[("", table)], level=3, folded=len(table) > 12
    )


def _training(group: Results) -> list[Section]:
    if not group.training:
        return []
    made = []
    for n, summary in enumerate(group.summaries):
        frame = draw.rounds_frame(summary["training"], summary["simulated"])
        if frame.empty:
            continue
        figure = _with_footer(draw.rounds(frame), draw.Footer.of(summary))
        title = "Training rounds" if len(group.runs) == 1 else f"Training rounds, seed {summary['seed']}"
        plots = {f"rounds-seed{summary['seed']}": (figure, frame)}
        made.append(Section(title, "", plots, [("", tables.rounds_table(frame))], level=3, folded=n > 0))
    made.append(_costs(group))
    floor = tables.noise_table(group.summaries)
    if len(floor):
        about = "The start harness evaluated against itself; a gain below the smallest one is no evidence."
        made.append(Section("Noise floor (A/A)", about, tables=[("", floor)], level=3))
    return made


def _costs(group: Results) -> Section:
    cost = draw.cost_frame(group.by_arm, group.training)
    phases = draw.phases_frame(group.training, bool(group.by_arm["simulated"].any()))
    plots = {}
    if cost["training_tokens"].notna().any():
        plots["cost_accuracy"] = (draw.cost_accuracy(cost), cost)
    if len(phases):
        plots["phases"] = (draw.phases(phases), phases)
    n = len(group.runs)
    words = "Cost and time of training" + (f", means over {n} runs." if n > 1 else ".")
    return Section("What training took", words, plots, [("", tables.training_table(group.training))], level=3)


def _with_footer(figure: go.Figure, footer: draw.Footer) -> go.Figure:
    return figure.update_layout(meta={"footer": asdict(footer)})


def _evidence(group: Results) -> list[Section]:
    """Pattern map and coverage of the first round that has any, of the first run."""
    for run, summary in zip(group.runs, group.summaries):
        home = _home(run, summary)
        for arm, training in summary["training"].items():
            if not training["rounds"]:
                continue
            try:
                failures, patterns, subset = round_evidence(home, arm)
            except LabError:  # a round in which nothing failed, or a run that was moved without its rounds
                continue
            if not failures:
                continue
            footer = draw.Footer.of(summary, patterns.embedder, patterns.tokens_seen)
            spots = draw.patterns_frame(patterns, failures, bool(summary["simulated"]))
            spots["picked"] = spots["key"].isin(subset.keys)
            plots = {"pattern_map": (_with_footer(draw.pattern_map(spots), footer), spots)}
            if subset.coverage:
                curve = draw.coverage_frame(subset, bool(summary["simulated"]))
                plots["coverage"] = (_with_footer(draw.coverage(curve), footer), curve)
            words = html.escape(f"Arm {arm}, round 1 of run {home.run_id}.")
            return [Section("Patterns and subset", words, plots, level=3)]
    return []


def _home(run: Run, summary: Summary) -> Run:
    """Where the rounds are: an evaluation of a frozen harness leaves them with the run that trained it."""
    trained = list((summary.get("trained_by") or {}).values())
    return Run(run.folder.parent / trained[0]) if trained else run


def _published(groups: Sequence[Results], footer: draw.Footer) -> list[Section]:
    """Measured beside published, and the published numbers that no measurement here stands beside."""
    import pandas as pd

    by_arm = pd.concat([group.by_arm for group in groups], ignore_index=True)
    measured = draw.measured_frame(by_arm, groups[0].name)
    figure = draw.stamp(draw.reference(measured, draw.published_frame()), footer)
    words = (
        "Left, on grey, what the paper reports; right what was measured here, with other models and tasks."
    )
    more = "Copied from a summary of arXiv 2609.11677; none of it was measured here."
    return [
        Section("Measured beside published", words, {"reference": (figure, measured)}),
        Section("Further published numbers", more, tables=tables.reference_tables(), ground="published"),
    ]
