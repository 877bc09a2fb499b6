"""Figures to files: HTML that opens offline, PNG and SVG where a Chrome is present, and the CSV behind."""

from __future__ import annotations

import base64
import html
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecdysis_lab.figures.style import Footer, stamp
from ecdysis_lab.records import LabError

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

Paths = dict[str, Path | str | None]
BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
)
RENDER_SECONDS = 60.0
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body{{margin:16px auto;max-width:{width}px;font:13px Arial,Helvetica,sans-serif;color:#5f6368}}
a{{color:#0072b2}}</style></head>
<body>{figure}
<p><a download="{name}.csv" href="data:text/csv;base64,{csv}">Table behind this figure (CSV)</a></p>
<noscript>This figure is drawn by JavaScript inside this file; the table is in the link above.</noscript>
</body></html>
"""


def find_chrome() -> tuple[str | None, str]:
    """Look for a browser that can draw PNG and SVG.

    Returns
    -------
    ``(path, "")``, or ``(None, reason)``. ``BROWSER_PATH`` wins over what is on ``PATH``.
    """
    named = os.environ.get("BROWSER_PATH")
    if named:
        found = shutil.which(named)
        return (found, "") if found else (None, f"BROWSER_PATH names no program: {named}")
    for name in BROWSERS:
        found = shutil.which(name)
        if found:
            return found, ""
    return None, "no Chrome found: put chromium or google-chrome on PATH, or set BROWSER_PATH"


def save(fig: go.Figure, folder: Path | str, name: str, frame: pd.DataFrame, footer: Footer) -> Paths:
    """Write one figure; see ``save_all``, which starts the browser only once for several.

    Returns
    -------
    ``html``, ``csv``, ``png``, ``svg`` -> path; with no browser the last two are None and ``skipped`` says why.
    """
    return save_all({name: (fig, frame)}, folder, footer)[name]


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
        skipped = _render(stamped, folder)
    except OSError as error:
        raise LabError(f"cannot write figures to {folder}: {error.strerror or error}") from error
    for name, paths in out.items():
        drawn = name not in skipped
        paths |= {kind: folder / f"{name}.{kind}" if drawn else None for kind in ("png", "svg")}
        if not drawn:
            paths["skipped"] = skipped[name]
    return out


def _write_text(fig: go.Figure, folder: Path, name: str, frame: pd.DataFrame, footer: Footer) -> Paths:
    known = {"run_id": footer.run_id, "simulated": footer.simulated}
    table = frame.assign(**{k: v for k, v in known.items() if k not in frame.columns}).to_csv(index=False)
    drawing = fig.to_html(full_html=False, include_plotlyjs=True, config={"displaylogo": False}, div_id=name)
    title = re.sub(r"<[^>]+>", "", fig.layout.title.text or name)
    page = PAGE.format(
        title=html.escape(title),
        width=int(fig.layout.width),
        figure=drawing,
        name=name,
        csv=base64.b64encode(table.encode()).decode(),
    )
    paths = {"html": folder / f"{name}.html", "csv": folder / f"{name}.csv"}
    _replace(paths["html"], page)
    _replace(paths["csv"], table)
    return dict(paths)


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _render(figures: Mapping[str, go.Figure], folder: Path) -> dict[str, str]:
    """PNG and SVG of every figure from one browser; name -> reason for those that could not be drawn."""
    chrome, reason = find_chrome()
    if chrome is None:
        return dict.fromkeys(figures, reason)
    import kaleido
    from choreographer.errors import BrowserClosedError, BrowserFailedError, ChromeNotFoundError

    jobs: list[dict[str, Any]] = []
    for name, fig in figures.items():
        size = {"width": fig.layout.width, "height": fig.layout.height, "scale": 1}
        for kind in ("png", "svg"):
            part = folder / f".{name}.{os.getpid()}.{kind}"
            jobs.append({"fig": fig, "path": part, "opts": {**size, "format": kind}})
    options = {"n": 1, "path": chrome, "mathjax": False, "timeout": RENDER_SECONDS}
    try:
        errors = kaleido.write_fig_from_object_sync(jobs, kopts=options)
        reason = f"{chrome} could not draw it: {errors[0]!r}" if errors else ""
    except (BrowserClosedError, BrowserFailedError, ChromeNotFoundError, TimeoutError) as error:
        reason = f"{chrome} did not start: {error!r}"
    return _collect(jobs, figures, folder, reason)


def _collect(
    jobs: list[dict[str, Any]], names: Mapping[str, Any], folder: Path, reason: str
) -> dict[str, str]:
    """Move finished images to their names; a figure with an image missing is reported with the reason."""
    parts = [job["path"] for job in jobs]
    skipped: dict[str, str] = {}
    for name, pair in zip(names, zip(parts[::2], parts[1::2])):
        if all(p.is_file() and p.stat().st_size for p in pair):
            for part, kind in zip(pair, ("png", "svg")):
                part.replace(folder / f"{name}.{kind}")
        else:
            skipped[name] = reason or f"{name}: the browser left no image"
            for part in pair:
                part.unlink(missing_ok=True)
    return skipped
