"""What stands in a report: sections of figures, tables and sentences, from the summaries of its runs."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecdysis_lab.evaluate import comparisons, results
from ecdysis_lab.records import LabError
from ecdysis_lab.show import figures as draw
from ecdysis_lab.show.report import tables
from ecdysis_lab.show.report.page import page
from ecdysis_lab.store import Run
from ecdysis_lab.train.arms import BASELINE

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

Summary = Mapping[str, Any]


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
    LabError: runs of one seed and setting, which cannot be averaged, or a summary without outcomes.
    """
    summaries = [run.summary or {} for run in runs]
    groups = comparisons.pooled(summaries, n_boot=n_boot)
    several = len(groups) > 1
    sections = [Section("Runs", tables=[("", tables.runs_table(sorted(summaries, key=_order)))])]
    for n, group in enumerate(groups, 1):
        own = [(r, s) for r, s in zip(runs, summaries) if s["run_id"] in group["run_ids"]]
        own.sort(key=lambda pair: int(pair[1]["seed"]))
        sections += _group(group, own, f"-{n}" if several else "", n_boot)
    sections += _published(groups)
    names = [group["benchmark"].rpartition("/")[2] for group in groups]
    title = f"Harness training on τ²-bench {' and '.join(dict.fromkeys(names))}"
    name = runs[0].run_id if len(runs) == 1 else "-".join([*dict.fromkeys(names), f"{len(runs)}runs"])
    seconds = sum(float(s.get("wall_seconds") or 0.0) for s in summaries)
    return Report(name, title, sections, _footer(groups), seconds)


def _order(summary: Summary) -> tuple[str, str, int]:
    return summary["benchmark"], summary["train_model"], int(summary["seed"])


def _footer(groups: Sequence[Summary]) -> draw.Footer:
    """One footer over all groups."""
    ids = [i for g in groups for i in g["run_ids"]]
    commits = ", ".join(dict.fromkeys(c for g in groups for c in g["commit"].split(", ")))
    models = sorted({m for g in groups for by in g["arms"].values() for m in by})
    seeds = sorted({s for g in groups for s in g["seeds"]})
    return draw.Footer(
        ", ".join(ids) if len(ids) <= comparisons.SHOWN else f"{ids[0]} and {len(ids) - 1} more",
        commits,
        seeds[0] if len(seeds) == 1 else ", ".join(map(str, seeds)),
        models,
        simulated=any(g["simulated"] for g in groups),
    )


def _group(group: Summary, runs: Sequence[tuple[Run, Summary]], mark: str, n_boot: int) -> list[Section]:
    """Sections on runs that differ in their seed only."""
    footer = draw.Footer.of(group)
    made = [
        Section(
            f"{group['benchmark']}, trained on {group['train_model']}",
            f"{len(runs)} run{'s' if len(runs) > 1 else ''}, seed{'s' if len(runs) > 1 else ''} "
            f"{', '.join(map(str, group['seeds']))}. " + tables.what_it_can_show(group),
        ),
        _accuracy(group, n_boot),
        *_transfer(group),
        _differences([s for _, s in runs], n_boot),
        *_training(group, runs),
        *_evidence(runs),
        Section("Inference on the test split", tables=[("", tables.inference_table(group))], level=3),
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


def _accuracy(group: Summary, n_boot: int) -> Section:
    frame = draw.gains_frame(group)
    words = (
        "Dots are means over task and trial; intervals come from a bootstrap over tasks, with a correction for few "
        "of them. Infrastructure errors are never scored."
    )
    return Section(
        "Accuracy by arm",
        words,
        {"gains": (draw.gains(frame), frame)},
        [("", tables.arms_table(group))],
        level=3,
    )


def _transfer(group: Summary) -> list[Section]:
    if BASELINE not in group["arms"] or len(group["arms"]) < 2:
        return []
    frame = draw.transfer_frame(group)
    return [Section("Gain by model", "", {"transfer": (draw.transfer(frame), frame)}, level=3)]


def _differences(summaries: Sequence[Summary], n_boot: int) -> Section:
    frame = comparisons.differences(summaries, n_boot=n_boot)
    words = (
        "Paired by run, task and trial seed. <i>Tasks up</i> and <i>down</i> count tasks whose successes rose and "
        "fell; the sign test is exact and two-sided. Many pairs are compared and nothing is corrected for that."
    )
    table = results.differences_table(frame).drop(columns="benchmark", errors="ignore")
    return Section(
        "Paired differences between arms", words, tables=[("", table)], level=3, folded=len(table) > 12
    )


def _training(group: Summary, runs: Sequence[tuple[Run, Summary]]) -> list[Section]:
    if not group["training"]:
        return []
    made = []
    for n, (_, summary) in enumerate(runs):
        frame = draw.rounds_frame(summary)
        if frame.empty:
            continue
        figure = _with_footer(draw.rounds(frame), draw.Footer.of(summary))
        title = "Training rounds" if len(runs) == 1 else f"Training rounds, seed {summary['seed']}"
        table = results.rounds_table(summary)
        plots = {f"rounds-seed{summary['seed']}": (figure, frame)}
        made.append(Section(title, "", plots, [("", table)], level=3, folded=n > 0))
    cost, phases = draw.cost_frame(group), draw.phases_frame(group)
    plots = {}
    if cost["training_tokens"].notna().any():
        plots["cost_accuracy"] = (draw.cost_accuracy(cost), cost)
    if len(phases):
        plots["phases"] = (draw.phases(phases), phases)
    words = "Cost and time of training" + (f", means over {len(runs)} runs." if len(runs) > 1 else ".")
    floor = tables.noise_table([s for _, s in runs])
    made.append(Section("What training took", words, plots, [("", tables.training_table(group))], level=3))
    if len(floor):
        about = "The start harness evaluated against itself; a gain below the smallest one is no evidence."
        made.append(Section("Noise floor (A/A)", about, tables=[("", floor)], level=3))
    return made


def _with_footer(figure: go.Figure, footer: draw.Footer) -> go.Figure:
    from dataclasses import asdict

    return figure.update_layout(meta={"footer": asdict(footer)})


def _evidence(runs: Sequence[tuple[Run, Summary]]) -> list[Section]:
    """Pattern map and coverage of the first round that has any, of the first run."""
    for run, summary in runs:
        home = _home(run, summary)
        for arm, training in summary.get("training", {}).items():
            if not training["rounds"]:
                continue
            try:
                failures, patterns, subset = results.round_evidence(home, arm)
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


def _published(groups: Sequence[Summary]) -> list[Section]:
    """Measured beside published, and the published numbers that no measurement here stands beside."""
    published = draw.published_frame()
    measured = draw.measured_frames(groups)
    figure = draw.reference(measured, published)
    footer = _footer(groups)
    plots = {"reference": (draw.stamp(figure, footer), measured)}
    words = (
        "Left, on grey, what the paper reports; right what was measured here, with other models and tasks."
    )
    rest = [(t, f) for t, f in tables.reference_tables()]
    more = "Copied from a summary of arXiv 2609.11677; none of it was measured here."
    return [
        Section("Measured beside published", words, plots),
        Section("Further published numbers", more, tables=rest, ground="published"),
    ]
