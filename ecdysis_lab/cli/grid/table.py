"""The table of a grid: rows for ``grid.csv`` and ``grid.html``, and what the terminal shows while it runs."""

from __future__ import annotations

import html
import json
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import quote

from ecdysis_lab.cli.grid.spec import Grid
from ecdysis_lab.store.run import Run, read_status
from ecdysis_lab.store.spreadsheet import to_csv

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
HEAD = ("cell", "key")
TAIL = ("status", "seconds", "error", "notebook", "run_id")
NUMBERS = ("simulated", "wall_seconds", "cost_usd", "billed_usd", "prompt_tokens", "completion_tokens")
METRICS = ("accuracy", "pass^3")
MARKS = {"done": "✓", "failed": "✗", "running": "▸", "interrupted": "‖", "missing": "·"}


def rows(grid: Grid, folder: Path) -> list[Row]:
    """One row per cell: parameters, status, seconds, error, notebook (relative to the table), run_id, numbers.

    The numbers come from ``summary.json`` of the run that the notebook named: ``accuracy <arm> <model>`` and
    ``pass^3 <arm> <model>`` in [0, 1], cost, tokens. They are left out where a notebook leaves no summary.
    """
    names = list(dict.fromkeys(name for cell in grid.cells for name in cell.parameters))
    found = []
    for cell in grid.cells:
        status = read_status(folder / "cells" / cell.key)
        row: Row = {"cell": cell.number, "key": cell.key}
        row |= {_column(n): cell.parameters.get(n, "") for n in names}
        kept = status.get("notebook", "")
        row |= {
            "status": status["state"],
            "seconds": status.get("seconds", ""),
            "error": status.get("error", ""),
            "notebook": f"cells/{cell.key}/{kept}" if kept else "",
            "run_id": Path(status.get("run") or "").name,
        }
        found.append(row | _numbers(folder / status["run"] if status.get("run") else None))
    return found


def _column(name: str) -> str:
    return f"parameter {name}" if name in (*HEAD, *TAIL, *NUMBERS) else name


def _numbers(run: Path | None) -> Row:
    summary = Run(run).summary if run else None
    if not isinstance(summary, dict):
        return {}
    found: Row = {name: summary[name] for name in NUMBERS if summary.get(name) is not None}
    for arm, models in summary.get("arms", {}).items():
        for model, metrics in models.items():
            found |= {f"{m} {arm} {model}": metrics.get(m) for m in METRICS}
    return found


def write(grid: Grid, folder: Path) -> list[Row]:
    """Write ``grid.csv`` and ``grid.html`` (whole or not at all) and return their rows."""
    import pandas as pd

    table = rows(grid, folder)
    frame = pd.DataFrame(table)
    run = Run(folder)
    run.write_text("grid.csv", to_csv(frame))
    run.write_text("grid.html", _page(grid, frame, counts(table)))
    return table


STYLE = """body{font:14px Arial,Helvetica,sans-serif;color:#222;margin:24px} a{color:#0072b2}
table{border-collapse:collapse;font-variant-numeric:tabular-nums} td,th{padding:4px 10px;text-align:left;
border-bottom:1px solid #e3e5e8;vertical-align:top;max-width:420px;overflow-wrap:anywhere}"""


def _page(grid: Grid, frame: pd.DataFrame, told: str) -> str:
    """The table with a link to each notebook; opens offline."""
    shown = frame.assign(
        notebook=[
            f'<a href="{quote(n)}">{html.escape(Path(n).name)}</a>' if n else "" for n in frame["notebook"]
        ]
    )
    escaped = {name: _cell for name in shown.columns if name != "notebook"}
    body = shown.to_html(index=False, escape=False, formatters=escaped, na_rep="", border=0)
    name, notebook = html.escape(grid.name), html.escape(grid.notebook.name)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title><style>
{STYLE}
</style></head><body><h1>{name}</h1>
<p>{html.escape(told)}. Notebook: {notebook}</p>
{body}
</body></html>
"""


def _cell(value: Any) -> str:
    if isinstance(value, float):
        value = "" if value != value else f"{value:.4g}" if abs(value) < 10000 else f"{value:.0f}"
    return html.escape(str(value))


def counts(table: Sequence[Row]) -> str:
    """``"9 of 12 done, 3 failed"``."""
    states = Counter(row["status"] for row in table)
    parts = [f"{states['done']} of {len(table)} done"]
    parts += [f"{states[s]} {s}" for s in ("running", "failed", "interrupted") if states[s]]
    left = states["missing"]
    return ", ".join(parts + ([f"{left} to do"] if left else []))


class Display:
    """What the terminal shows: a table that is redrawn, or, where no terminal listens, a line per change.

    Parameters
    ----------
    grid, folder : whose. stream : where to. live : whether the stream can be redrawn; None asks it.
    """

    def __init__(self, grid: Grid, folder: Path, stream: TextIO, live: bool | None = None) -> None:
        self.grid, self.folder, self.stream = grid, folder, stream
        self.live = stream.isatty() if live is None else live
        self.drawn = 0
        self.states: dict[int, str] = {}

    def show(self) -> None:
        """Bring the stream up to date."""
        table = rows(self.grid, self.folder)
        if self.live:
            size = shutil.get_terminal_size()
            lines = [line[: size.columns - 1] for line in self._lines(table, size.lines - 4)]
            up = f"\x1b[{self.drawn}F\x1b[J" if self.drawn else ""
            self.stream.write(up + "\n".join(lines) + "\n")
            self.drawn = len(lines)
        else:
            for row in table:
                if self.states.get(row["cell"]) not in (row["status"], None) or (
                    row["cell"] not in self.states and row["status"] not in ("missing", "interrupted")
                ):
                    self.stream.write(self._line(row) + "\n")
                self.states[row["cell"]] = row["status"]
        self.stream.flush()

    def _lines(self, table: Sequence[Row], room: int) -> list[str]:
        """The rows that fit: running and failed ones first, then the newest."""
        rank = {"running": 0, "failed": 1, "interrupted": 2, "missing": 4}
        chosen = sorted(table, key=lambda r: (rank.get(r["status"], 3), r["cell"]))[: max(3, room)]
        lines = [self._line(r) for r in sorted(chosen, key=lambda r: r["cell"])]
        hidden = len(table) - len(chosen)
        return [*lines, *([f"  … {hidden} more"] if hidden else []), f"{self.grid.name}: {counts(table)}"]

    def _line(self, row: Row) -> str:
        seconds = row["seconds"]
        if row["status"] == "running":
            began = read_status(self.folder / "cells" / row["key"]).get("started_at", time.time())
            seconds = round(time.time() - began, 0)
        values = "  ".join(f"{a}={row[_column(a)]}" for a in self.grid.axes)
        took = f"{seconds:7.1f} s" if isinstance(seconds, int | float) else " " * 9
        what = f"  {row['error'].splitlines()[0]} → {row['notebook']}" if row["error"] else ""
        return f"{MARKS.get(row['status'], '?')} {row['cell']:>3}  {row['status']:<11}{took}  {values}{what}"


def as_json(table: Sequence[Row], folder: Path) -> str:
    """The table as one JSON object."""
    states = Counter(row["status"] for row in table)
    return json.dumps(
        {"folder": str(folder), "counts": dict(states), "cells": list(table)}, ensure_ascii=False
    )
