"""Which runs a report is about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ecdysis_lab.records import LabError
from ecdysis_lab.store import Run, runs_of


def find_runs(names: Sequence[str], data: Path | str) -> list[Run]:
    """Folders of evaluated runs.

    Parameters
    ----------
    names : run ids or run folders; a grid's folder or name stands for the runs of its finished cells. Empty for
        the run whose summary is the newest.
    data : the data folder.

    Raises
    ------
    LabError: nothing of that name (the runs there are listed), or a run without a summary.
    """
    root = Path(data)
    known = [run for run in runs_of(root) if run.ended]
    if not names:
        if not known:
            raise LabError(f"runs: no evaluated run in {root / 'runs'}")
        return [max(known, key=lambda run: run.ended)]
    found: dict[Path, Run] = {}
    for name in names:
        for folder in _folders(name, root, [run.run_id for run in known]):
            found.setdefault(folder.resolve(), Run(folder.resolve()))
    for run in found.values():
        if not run.ended:
            raise LabError(
                f"runs: {run.run_id} has no summary.json yet (state: {run.status['state']}); finish it first"
            )
    return list(found.values())


def _folders(name: str, root: Path, known: Sequence[str]) -> list[Path]:
    tries = [Path(name).expanduser(), root / "runs" / name, root / "grids" / name]
    for path in tries:
        path = path.parent if path.name == "grid.csv" else path
        if (path / "cells").is_dir():
            return _of_grid(path)
        if Run(path).exists:
            return [path]
    raise LabError(f"runs: {name!r} is no run and no grid in {root}; runs: {', '.join(known[:8]) or 'none'}")


def _of_grid(folder: Path) -> list[Path]:
    from ecdysis_lab.store.run import read_status

    statuses = [read_status(cell) for cell in sorted((folder / "cells").iterdir())]
    runs = [folder / s["run"] for s in statuses if s["state"] == "done" and s.get("run")]
    if not runs:
        raise LabError(f"runs: no finished cell of grid {folder.name} left a run")
    return runs
