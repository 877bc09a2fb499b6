"""PNG and SVG from a headless Chrome that loads Plotly once for all figures of a call.

Kaleido reloads its page, all of Plotly included, before every image; driving the browser through its own
library, choreographer, takes about a third of that time and draws each figure once for both formats. That happens in
a process of its own (``drawing.py``), which is ended with the browser whatever either of them does.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from ecdysis_lab.review.editors.watch import watched

if TYPE_CHECKING:
    import plotly.graph_objects as go

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
)
WAIT_SECONDS = 60.0  # for the browser to start, to load the page, for each figure


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


def images(figures: Mapping[str, go.Figure]) -> tuple[dict[str, tuple[bytes, str]], str]:
    """Draw figures with one browser.

    Parameters
    ----------
    figures : name -> figure whose layout states width and height in pixels.

    Returns
    -------
    ``(name -> (PNG bytes, SVG text), reason)``; the reason is empty when every figure was drawn.
    """
    chrome, reason = find_chrome()
    if chrome is None or not figures:
        return {}, reason
    with tempfile.TemporaryDirectory(prefix="ecdysis-figures-") as folder:
        page = Path(folder) / "page.html"
        page.write_text(_page(figures), encoding="utf-8")
        drawn, reason = _drawn(chrome, page, list(figures))
        return {
            name: (page.with_name(f"{n}.png").read_bytes(), page.with_name(f"{n}.svg").read_text("utf-8"))
            for n, name in enumerate(figures)
            if n < drawn
        }, reason


def _drawn(chrome: str, page: Path, names: list[str]) -> tuple[int, str]:
    """How many figures lie beside the page afterwards, and why there are no more."""
    command = [sys.executable, "-P", str(Path(__file__).with_name("drawing.py")), chrome, str(page)]
    command += [f"{WAIT_SECONDS:g}", *names]
    drawn, reason, said = 0, f"{chrome} did not run", ""
    # The program keeps its own limits; this one is for a program that does not.
    limit = WAIT_SECONDS * (len(names) + 4)
    with closing(watched(command, page.parent, dict(os.environ), limit)) as lines:
        for line in lines:
            if line.text.startswith(('{"drawn"', '{"reason"')):
                told = json.loads(line.text)
                if "reason" in told:
                    return drawn, told["reason"]
                drawn = told["drawn"]
            elif line.text.strip():
                said = line.text.strip()
    return drawn, f"{reason}: {said[:300]}"


def _page(figures: Mapping[str, go.Figure]) -> str:
    import plotly

    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    # "</" inside a string would end the script element.
    specs = ",".join(fig.to_json() for fig in figures.values()).replace("</", "<\\/")
    page = (files("ecdysis_lab.show.figures") / "static" / "draw.html").read_text(encoding="utf-8")
    return Template(page).substitute(plotly=script.as_uri(), figures=f"[{specs}]")
