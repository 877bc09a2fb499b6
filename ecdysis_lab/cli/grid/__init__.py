"""A grid of notebook runs: one process per cell, in parallel, resumable; failed cells are kept and the rest go on.

``read`` takes a grid file, ``run`` works it off through joblib, so ``joblib.parallel_config("dask")`` or ``"ray"``
moves the cells to a cluster that shares the data folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from ecdysis_lab.cli import notebooks
from ecdysis_lab.cli.grid import table
from ecdysis_lab.cli.grid.cell import DONE, STOP, run_cell
from ecdysis_lab.cli.grid.spec import Cell, Grid, read
from ecdysis_lab.cli.grid.table import as_json
from ecdysis_lab.records import LabError
from ecdysis_lab.store.files import told
from ecdysis_lab.store.run import read_status

__all__ = ["Cell", "Grid", "as_json", "done", "folder_of", "read", "run"]
REFRESH_SECONDS = 0.5


def folder_of(grid: Grid, data: Path | str) -> Path:
    """Where a grid keeps its cells and tables: ``<data>/grids/<name>``."""
    return Path(data).resolve() / "grids" / grid.name


def done(folder: Path, cell: Cell) -> bool:
    """Whether a cell has finished: its status says so and its notebook is there."""
    home = folder / "cells" / cell.key
    return read_status(home)["state"] == "done" and (home / DONE).is_file()


def run(
    grid: Grid,
    data: Path | str,
    workers: int | None = None,
    stream: TextIO | None = None,
    cwd: Path | str = notebooks.PROJECT,
) -> list[table.Row]:
    """Run what is missing or failed; a cell that fails stops no other.

    Parameters
    ----------
    grid : from ``read``. data : the data folder; also given to notebooks that have a parameter ``data``.
    workers : cells at a time; None leaves it to joblib, so to an active ``joblib.parallel_config``. A notebook
        with a parameter ``workers`` gets its share of the cores unless the grid file sets it.
    stream : where the live table goes, None for nowhere. cwd : where kernels work.

    Returns
    -------
    The rows of ``grid.csv``, which is rewritten whenever a cell ends.

    Raises
    ------
    LabError: another process works on this grid, or the folder cannot be written.
    KeyboardInterrupt: SIGINT or SIGTERM arrived; running cells were interrupted, and the next call continues.
    """
    import joblib

    folder = folder_of(grid, data)
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        (folder / STOP).unlink(missing_ok=True)
        left = [cell for cell in grid.cells if not done(folder, cell)]
        _forget(folder, left)
        jobs = [_job(grid, cell, folder, Path(data).resolve(), workers, Path(cwd).resolve()) for cell in left]
        with _stoppable(folder / STOP) as stopped, _shown(grid, folder, stream):
            # Each task waits for a process of its own, so threads do; another active backend takes over.
            joblib.Parallel(n_jobs=workers, prefer="threads", batch_size=1, pre_dispatch="all")(
                joblib.delayed(run_cell)(*job) for job in jobs
            )
        rows = table.write(grid, folder)
        if stopped.is_set():
            raise KeyboardInterrupt
        return rows


def _job(
    grid: Grid, cell: Cell, folder: Path, data: Path, workers: int | None, cwd: Path
) -> tuple[str, str, dict[str, Any], str]:
    """Arguments of ``run_cell``. What changes no result is added here and is no part of the cell's key."""
    places: dict[str, Any] = {"data": str(data)}
    if workers:
        places["workers"] = max(1, (os.cpu_count() or 1) // workers)
    added = {k: v for k, v in places.items() if k in grid.known}
    return str(folder / "cells" / cell.key), str(grid.notebook), {**added, **cell.parameters}, str(cwd)


def _forget(folder: Path, cells: list[Cell]) -> None:
    """Cells that wait say so, whatever an earlier start left."""
    for cell in cells:
        (folder / "cells" / cell.key / "status.json").unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the grid's lock."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"another process works on grid {folder.name} in {folder}") from None
        yield


@contextlib.contextmanager
def _stoppable(stop: Path) -> Iterator[threading.Event]:
    """SIGINT and SIGTERM leave the stop file; a second SIGINT breaks off at once."""
    stopped = threading.Event()

    def ask(number: int, frame: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()
        stop.touch()

    if threading.current_thread() is not threading.main_thread():
        yield stopped  # signals belong to the main thread
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _shown(grid: Grid, folder: Path, stream: TextIO | None) -> Iterator[None]:
    """Keep the live table and the files up to date from a thread, whatever backend runs the cells."""
    display = table.Display(grid, folder, stream) if stream else None
    over, known = threading.Event(), [""]

    def follow() -> None:
        while not over.wait(REFRESH_SECONDS):
            states = table.counts(table.rows(grid, folder))
            if states != known[0]:
                known[0] = states
                table.write(grid, folder)
            if display:
                display.show()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if display:
            display.show()
