"""PNG and SVG from a headless Chrome that loads Plotly once for all figures of a call.

Kaleido reloads its page, all of Plotly included, before every image; driving the browser through its own
library, choreographer, takes about a third of that time and draws each figure once for both formats.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

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
START_SECONDS = 60.0
FIGURE_SECONDS = 60.0


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
    # A thread of its own: inside Jupyter an event loop already runs in this one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _draw(chrome, figures)).result()


async def _draw(chrome: str, figures: Mapping[str, go.Figure]) -> tuple[dict[str, tuple[bytes, str]], str]:
    import choreographer
    from choreographer.channels import ChannelClosedError
    from choreographer.errors import BrowserClosedError, BrowserFailedError, ChromeNotFoundError

    drawn: dict[str, tuple[bytes, str]] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="ecdysis-figures-") as folder:
            page = Path(folder) / "page.html"
            page.write_text(_page(figures), encoding="utf-8")
            # choreographer starts the browser without its sandbox, which root needs; the page is ours alone.
            browser = choreographer.Browser(path=chrome)
            await asyncio.wait_for(browser.open(), START_SECONDS)
            try:
                tab = await browser.create_tab(page.as_uri())
                await asyncio.wait_for(_run(tab, _LOADED), START_SECONDS)
                for i, name in enumerate(figures):
                    png, svg = await asyncio.wait_for(_run(tab, f"draw({i})"), FIGURE_SECONDS)
                    drawn[name] = base64.b64decode(png), svg
            finally:
                await browser.close()
    except (BrowserClosedError, BrowserFailedError, ChannelClosedError, ChromeNotFoundError) as error:
        return drawn, f"{chrome} did not run: {error!r}"
    except TimeoutError:
        return drawn, f"{chrome} gave no image within {FIGURE_SECONDS:.0f} s"
    except _PageError as error:
        return drawn, f"{chrome} could not draw figure {list(figures)[len(drawn)]}: {error}"
    return drawn, ""


_LOADED = "(async () => { while (!window.draw) await new Promise(r => setTimeout(r, 20)); return true; })()"


class _PageError(RuntimeError):
    """The page threw instead of drawing."""


async def _run(tab: Any, expression: str) -> Any:
    """Value of a JavaScript promise in the page."""
    wanted = {"expression": expression, "awaitPromise": True, "returnByValue": True}
    answer = await tab.send_command("Runtime.evaluate", wanted)
    result = answer.get("result", {})
    if "error" in answer or "exceptionDetails" in result:
        detail = result.get("exceptionDetails", {}).get("exception", {})
        raise _PageError(str(detail.get("description") or answer.get("error") or result)[:300])
    return result["result"].get("value")


def _page(figures: Mapping[str, go.Figure]) -> str:
    import plotly

    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    # "</" inside a string would end the script element.
    specs = ",".join(fig.to_json() for fig in figures.values()).replace("</", "<\\/")
    page = (files("ecdysis_lab.show.figures") / "static" / "draw.html").read_text(encoding="utf-8")
    return Template(page).substitute(plotly=script.as_uri(), figures=f"[{specs}]")
