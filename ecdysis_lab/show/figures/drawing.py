"""Draws the figures of a page in a headless Chrome, as a program of its own: a browser that hangs hangs nothing else.

Started as ``python -P drawing.py CHROME PAGE SECONDS NAME…``. The images go beside the page, as ``<n>.png`` and
``<n>.svg``; one JSON text a line says how many there are, and a last one why there are no more.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

_LOADED = "(async () => { while (!window.draw) await new Promise(r => setTimeout(r, 20)); return true; })()"


class _PageError(RuntimeError):
    """The page threw instead of drawing."""


def _say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def _draw(chrome: str, page: Path, seconds: float, names: list[str]) -> None:
    """Every wait has the limit; the browser is left to the process's end."""
    import choreographer

    # choreographer starts the browser without its sandbox, which root needs; the page is ours alone.
    browser = choreographer.Browser(path=chrome)
    await asyncio.wait_for(browser.open(), seconds)
    tab = await asyncio.wait_for(browser.create_tab(page.as_uri()), seconds)
    await asyncio.wait_for(_run(tab, _LOADED), seconds)
    for n, name in enumerate(names):
        try:
            png, svg = await asyncio.wait_for(_run(tab, f"draw({n})"), seconds)
        except _PageError as error:
            raise _PageError(f"could not draw figure {name}: {error}") from None
        page.with_name(f"{n}.png").write_bytes(base64.b64decode(png))
        page.with_name(f"{n}.svg").write_text(svg, encoding="utf-8")
        _say(drawn=n + 1)


async def _run(tab: Any, expression: str) -> Any:
    """Value of a JavaScript promise in the page."""
    wanted = {"expression": expression, "awaitPromise": True, "returnByValue": True}
    answer = await tab.send_command("Runtime.evaluate", wanted)
    result = answer.get("result", {})
    if "error" in answer or "exceptionDetails" in result:
        detail = result.get("exceptionDetails", {}).get("exception", {})
        raise _PageError(str(detail.get("description") or answer.get("error") or result)[:300])
    return result["result"].get("value")


async def _reason(chrome: str, page: Path, seconds: float, names: list[str]) -> str:
    """Draw; why not every figure was drawn, or an empty text."""
    from choreographer.channels import ChannelClosedError
    from choreographer.errors import BrowserClosedError, BrowserFailedError, ChromeNotFoundError

    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        await _draw(chrome, page, seconds, names)
    except _PageError as error:
        return f"{chrome} {error}"
    except TimeoutError:
        return f"{chrome} gave no answer within {seconds:g} s"
    except (BrowserClosedError, BrowserFailedError, ChannelClosedError, ChromeNotFoundError) as error:
        if loop.time() - began >= seconds:  # how choreographer reports that its start was broken off
            return f"{chrome} gave no answer within {seconds:g} s"
        return f"{chrome} did not run: {error!r}"
    return ""


async def _main(chrome: str, page: str, seconds: str, *names: str) -> None:
    _say(reason=await _reason(chrome, Path(page), float(seconds), list(names)))
    os._exit(0)  # choreographer's threads wait for the browser; the keeper of this process ends it


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
