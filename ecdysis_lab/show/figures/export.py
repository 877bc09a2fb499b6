"""Figures to files: HTML that opens offline, PNG and SVG where a Chrome is present, and the CSV behind."""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from ecdysis_lab.records import LabError
from ecdysis_lab.show.figures.chrome import images
from ecdysis_lab.show.figures.style import Footer, stamp
from ecdysis_lab.store.spreadsheet import to_csv

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

Paths = dict[str, Path | str | None]


def save_all(
    figures: Mapping[str, tuple[go.Figure, pd.DataFrame]], folder: Path | str, footer: Footer
) -> dict[str, Paths]:
    """Write figures as HTML, PNG, SVG and CSV, with one browser for all of them.

    Parameters
    ----------
    figures : file name without extension -> (figure, the table behind it).
    folder : made if it does not exist.
    footer : stamped on every figure; ``run_id`` and ``simulated`` also become columns of the CSV.

    Returns
    -------
    name -> ``html``, ``csv``, ``png``, ``svg`` -> path; where no image could be drawn ``png`` and ``svg`` are
    None and ``skipped`` gives the reason.

    Raises
    ------
    LabError: a name that is no plain file name, or a folder that cannot be written.
    """
    folder = Path(folder)
    for name in figures:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise LabError(f"name of a figure takes letters, digits, '.', '_' and '-'; got {name!r}")
    stamped = {name: stamp(fig, footer) for name, (fig, _) in figures.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        out = {name: _write_text(stamped[name], folder, name, figures[name][1], footer) for name in figures}
        drawn, reason = images(stamped)
        for name, paths in out.items():
            paths |= {kind: folder / f"{name}.{kind}" if name in drawn else None for kind in ("png", "svg")}
            if name in drawn:
                _replace(folder / f"{name}.png", drawn[name][0])
                _replace(folder / f"{name}.svg", drawn[name][1].encode())
            else:
                paths["skipped"] = reason
    except OSError as error:
        raise LabError(f"cannot write figures to {folder}: {error.strerror or error}") from error
    return out


def _write_text(fig: go.Figure, folder: Path, name: str, frame: pd.DataFrame, footer: Footer) -> Paths:
    known = {"run_id": footer.run_id, "simulated": footer.simulated}
    table = to_csv(frame.assign(**{k: v for k, v in known.items() if k not in frame.columns}))
    drawing = fig.to_html(full_html=False, include_plotlyjs=True, config={"displaylogo": False}, div_id=name)
    title = re.sub(r"<[^>]+>", "", fig.layout.title.text or name)
    template = (files("ecdysis_lab.show.figures") / "static" / "figure.html").read_text(encoding="utf-8")
    page = Template(template).substitute(
        title=html.escape(title),
        width=int(fig.layout.width),
        figure=drawing,
        name=name,
        csv=base64.b64encode(table.encode()).decode(),
    )
    paths = {"html": folder / f"{name}.html", "csv": folder / f"{name}.csv"}
    _replace(paths["html"], page.encode())
    _replace(paths["csv"], table.encode())
    return dict(paths)


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
