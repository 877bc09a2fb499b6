"""One HTML file with the map and the traces, for a reader without Python: it opens offline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from ecdysis_lab.records import Failure, LabError, Patterns, Subset
from ecdysis_lab.show.widgets.assets import asset
from ecdysis_lab.show.widgets.picker import pattern_facts
from ecdysis_lab.show.widgets.trace import escaped, trace_html
from ecdysis_lab.store import Run

if TYPE_CHECKING:
    import pandas as pd

    from ecdysis_lab.show.figures import Footer

MAX_CHARACTERS = 60_000_000  # of all traces; a larger page is slow to open


def patterns_table(patterns: Patterns, subset: Subset | None = None) -> pd.DataFrame:
    """One row per pattern and one for noise, if any.

    Returns
    -------
    DataFrame with columns pattern, name, failures, tasks, kind (recurring, auxiliary or noise), picked, quote.
    """
    import pandas as pd

    picked = set(subset.keys if subset else ())
    rows = [
        (f"P{p.id}", p.name, len(p.members), len(p.tasks), "recurring" if p.recurring else "auxiliary",
         len(picked & set(p.members)), p.quote)
        for p in patterns.patterns
    ]  # fmt: skip
    if patterns.noise:
        inside = len(picked & set(patterns.noise))
        rows.append(("–", "in no pattern", len(patterns.noise), None, "noise", inside, ""))  # type: ignore[arg-type]
    frame = pd.DataFrame(rows, columns=["pattern", "name", "failures", "tasks", "kind", "picked", "quote"])
    return frame.astype({"tasks": "Int64"})


def picks_table(subset: Subset, failures: Sequence[Failure], patterns: Patterns) -> pd.DataFrame:
    """One row per pick: columns pick, task, pattern, coverage (share in [0, 1]), reason, key."""
    import pandas as pd

    task = {f.key: f.task_id for f in failures}
    names = {key: f"P{p.id}" for p in patterns.patterns for key in p.members}
    covered = subset.coverage or (None,) * len(subset.picks)  # only an automatic pick knows it
    rows = [
        (i + 1, task[p.key], names.get(p.key, "noise"), covered[i], p.reason, p.key)
        for i, p in enumerate(subset.picks)
    ]
    return pd.DataFrame(rows, columns=["pick", "task", "pattern", "coverage", "reason", "key"])


def export_html(
    failures: Sequence[Failure], patterns: Patterns, subset: Subset, path: Path | str, footer: Footer
) -> Path:
    """Write the map and all traces as one page: a click on a point opens its trace.

    Parameters
    ----------
    failures : with their trajectories. patterns, subset : theirs.
    path : file to replace. footer : stamped on the map; ``simulated`` marks the page.

    Returns
    -------
    The path. Beyond 60 million characters of traces the picks go first and the page says how many are left out.

    Raises
    ------
    LabError: no failures, or a path that cannot be written.
    """
    from ecdysis_lab.show.figures import pattern_map, patterns_frame, stamp

    if not failures:
        raise LabError("no failures: there is no map to export")
    frame = patterns_frame(patterns, failures, footer.simulated)
    frame["picked"] = frame["key"].isin(subset.keys)
    figure = stamp(pattern_map(frame), footer)
    drawing = figure.to_html(
        full_html=False, include_plotlyjs=True, config={"displaylogo": False}, div_id="map"
    )
    traces = _traces(failures, patterns, subset)
    page = Template(asset("export.html")).substitute(
        title=escaped(f"{'SIMULATED · ' if footer.simulated else ''}Failures of {footer.run_id}"),
        style=asset("style.css"),
        figure=drawing,
        options=_options(failures, patterns, subset, traces),
        notes=_notes(patterns, len(failures) - len(traces)),
        table=_html(patterns_table(patterns, subset)),
        # "<" in any text of a trace would end the script element; JSON takes the escaped form.
        traces=json.dumps(traces, ensure_ascii=False).replace("<", "\\u003c"),
        script=asset("open_at_bad.js", "export.js"),
    )
    path = Path(path)
    return Run(path.parent).write_text(path.name, page)


def _traces(failures: Sequence[Failure], patterns: Patterns, subset: Subset) -> dict[str, str]:
    """Key -> escaped HTML, picks first, as many as fit."""
    of, out, size = {f.key: f for f in failures}, {}, 0
    for key in dict.fromkeys((*subset.keys, *of)):
        text = trace_html(of[key].trajectory, of[key], pattern_facts(patterns, key))
        size += len(text)
        if size > MAX_CHARACTERS:
            break
        out[key] = text
    return out


def _options(failures: Sequence[Failure], patterns: Patterns, subset: Subset, traces: dict[str, str]) -> str:
    """Choices of the list above the reader, in the order of patterns, picks first in each."""
    label = {key: p.id for p in patterns.patterns for key in p.members}
    rank = {key: i for i, key in enumerate(subset.keys)}
    last = len(patterns.patterns)
    shown = [f for f in failures if f.key in traces]
    shown.sort(key=lambda f: (label.get(f.key, last), rank.get(f.key, len(rank)), f.key))
    lines = []
    for f in shown:
        name = f"P{label[f.key]}" if f.key in label else "noise"
        star = "★ " if f.key in rank else ""
        said = escaped(f"{star}{name} · task {f.task_id} · {f.first_bad_what[:90] or f.termination}")
        lines.append(f'<option value="{escaped(f.key)}">{said}</option>')
    return "".join(lines)


def _notes(patterns: Patterns, left_out: int) -> str:
    lines = list(patterns.warnings)
    if left_out:
        lines.append(
            f"{left_out} traces are left out of this page, which would be too large; the picks are all in."
        )
    return "".join(f'<p class="el-note">{escaped(line)}</p>' for line in lines)


def _html(frame: pd.DataFrame) -> str:
    import pandas as pd

    with pd.option_context("display.max_colwidth", None):
        text: str = frame.to_html(index=False, escape=True, border=0, classes="patterns", na_rep="–")
    return text
