"""One self-contained HTML report of one run, of several runs, or of a grid; it opens offline, without Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ecdysis_lab.show.report.build import Report, build
from ecdysis_lab.show.report.sources import find_runs

__all__ = ["Report", "build", "find_runs", "write"]


def write(runs: Sequence[str], data: Path | str, out: Path | str | None = None, n_boot: int = 2000) -> Path:
    """Write the report.

    Parameters
    ----------
    runs : run ids, run folders, or grid folders and names; see :func:`find_runs`. data : the data folder.
    out : HTML file; by default ``figures/report-<name>.html`` of the project. n_boot : bootstrap resamples.

    Raises
    ------
    LabError: an unknown run, one that has not been evaluated, or runs that cannot be pooled.
    """
    from ecdysis_lab.show.figures.frames import PUBLISHED

    report = build(find_runs(runs, data), n_boot)
    path = Path(out) if out else PUBLISHED.parents[1] / "figures" / f"report-{report.name}.html"
    return report.save(path)
