"""The picker in a real JupyterLab in a real browser, and the HTML export opened from disk."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from widget_data import write_jsonl

from ecdysis_lab.failures.cards import find_failures
from ecdysis_lab.failures.embedding import embedder
from ecdysis_lab.failures.importing import import_traces
from ecdysis_lab.failures.patterns import find_patterns
from ecdysis_lab.failures.subset import pick_quarter
from ecdysis_lab.show.figures import Footer
from ecdysis_lab.show.widgets import export_html

ROOT = Path(__file__).resolve().parents[2]
SHOTS = os.environ.get("WIDGET_SCREENSHOTS")  # a folder, for people who want to look
pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium")]


class Page:
    """One tab of a headless Chromium, over the DevTools protocol."""

    def __init__(self, port: int) -> None:
        import websocket

        listed = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{port}/json").read())
        url = next(t["webSocketDebuggerUrl"] for t in listed if t["type"] == "page")
        self.socket = websocket.create_connection(url, timeout=60, suppress_origin=True)
        self.ids = itertools.count(1)
        self.requests: list[str] = []
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Network"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)  # JupyterLab acts on what has the focus

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method and wait for its answer; events that arrive before it are kept."""
        number = next(self.ids)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("method") == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])
            if answer.get("method") == "Page.javascriptDialogOpening":  # "leave without saving?": yes
                accept = {"method": "Page.handleJavaScriptDialog", "params": {"accept": True}}
                self.socket.send(json.dumps({"id": next(self.ids), **accept}))
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(answer["params"]["exceptionDetails"])[:300])
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def eval(self, code: str) -> Any:
        """Value of a JavaScript expression; promises are awaited."""
        done = self.send("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, (code, done)
        return done["result"].get("value")

    def wait(self, code: str, seconds: float = 60) -> Any:
        """Wait until an expression is true; its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := self.eval(code):
                return value
            time.sleep(0.2)
        self.shot("failed")
        raise AssertionError(f"not within {seconds:g} s: {code}")

    def goto(self, url: str) -> None:
        self.send("Page.navigate", url=url)

    def click(self, x: float, y: float) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)
            time.sleep(0.15)  # plotly looks for the point under a resting mouse

    def key(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def shot(self, name: str) -> None:
        if SHOTS:
            image = self.send("Page.captureScreenshot", format="png")["data"]
            (Path(SHOTS) / f"{name}.png").write_bytes(base64.b64decode(image))


@pytest.fixture(scope="module")
def page(needs: Callable[[str], str]) -> Iterator[Page]:
    folder = Path(tempfile.mkdtemp(prefix="chromium-"))
    look = ["--window-size=1700,1500", "--hide-scrollbars=false", "--force-device-scale-factor=1"]
    safe = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command = [needs("chromium"), *safe, *look, "--remote-debugging-port=0", f"--user-data-dir={folder}"]
    process = subprocess.Popen([*command, "about:blank"], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "DevTools listening" in line)
        yield Page(int(re.search(r":(\d+)/", line).group(1)))  # type: ignore[union-attr]
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A JupyterLab server on a folder with the notebook and traces: its address and the folder."""
    folder = tmp_path_factory.mktemp("lab")
    write_jsonl(folder / "traces.jsonl")
    notebook = json.loads((ROOT / "notebooks/patterns.ipynb").read_text())
    cell = next(c for c in notebook["cells"] if "parameters" in c["metadata"].get("tags", []))
    given = {"source": str(folder / "traces.jsonl"), "out": str(folder / "out"), "embedder": "tfidf"}
    text = "".join(cell["source"])
    for name, value in given.items():
        text = re.sub(rf'(?m)^{name}: str = "[^"]*"', f"{name}: str = {value!r}", text)
    cell["source"] = text
    # The picker's cell is what a person looks at; the figures after it are tested elsewhere.
    last = next(i for i, c in enumerate(notebook["cells"]) if "FailurePicker" in "".join(c["source"]))
    notebook["cells"] = notebook["cells"][: last + 1]
    (folder / "patterns.ipynb").write_text(json.dumps(notebook))
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--port=0", "--allow-root"]
    command += ["--IdentityProvider.token=", "--ServerApp.password=", "--expose-app-in-browser"]
    command += [f"--ServerApp.root_dir={folder}", "--LabApp.news_url=", "--ServerApp.disable_check_xsrf=True"]
    command += ["--ServerApp.jpserver_extensions={'jupyter_lsp': False, 'jupyter_server_terminals': False}"]
    private = {
        k: str(folder / k.lower()) for k in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    }
    environment = {**os.environ, **private, "PYTHONPATH": str(ROOT)}
    with (folder / "lab.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment)
    try:
        url = _answering(Path(private["JUPYTER_RUNTIME_DIR"]), folder / "lab.log", process)
        yield url.rstrip("/"), folder
    finally:
        process.terminate()
        process.wait(30)


def _answering(runtime: Path, log: Path, process: subprocess.Popen[bytes]) -> str:
    """Address of the server, from the file that it writes about itself, once it answers."""
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            (about,) = runtime.glob("jpserver-*.json")
            url = str(json.loads(about.read_text())["url"]).replace("localhost", "127.0.0.1")
            urllib.request.urlopen(f"{url}api", timeout=5).read()
            return url
        except (OSError, ValueError):
            time.sleep(0.3)
    raise AssertionError(log.read_text()[-2000:])


POINT = """(() => {{
  const plot = document.querySelector(".el-picker .js-plotly-plot"), data = plot._fullData[0];
  const i = plot.data[0].customdata.findIndex((c) => c[0] === {key});
  const box = plot.getBoundingClientRect(), size = plot._fullLayout._size;
  return [box.left + size.l + plot._fullLayout.xaxis.d2p(data.x[i]),
          box.top + size.t + plot._fullLayout.yaxis.d2p(data.y[i])];
}})()"""
OPEN = 'document.querySelector(".el-picker .el-reader")?.dataset.key'
RUN = """(async () => {
  const app = window.jupyterapp;
  if (!app?.commands.hasCommand("notebook:run-all-cells")) return false;
  const notebook = [...app.shell.widgets("main")].find((w) => w.sessionContext);
  if (notebook?.sessionContext.session?.kernel?.status !== "idle") return false;
  app.shell.activateById(notebook.id);
  if (!app.commands.isEnabled("notebook:run-all-cells")) return false;
  app.commands.execute("notebook:run-all-cells");
  return true;
})()"""


SHOW = """(() => {
  const notebook = [...window.jupyterapp.shell.widgets("main")].find((w) => w.sessionContext).content;
  notebook.scrollToItem(notebook.widgets.length - 1, "auto");  // cells out of sight are not drawn
  const ready = document.querySelectorAll(".el-picker .js-plotly-plot .scatterlayer .point").length === 24;
  return ready && !!document.querySelector(".el-picker .el-reader")?.dataset.key;
})()"""
APART = """(() => {
  const {x, y, customdata} = document.querySelector(".el-picker .js-plotly-plot").data[0];
  const [xs, ys] = [[...x], [...y]], far = (i, j) => Math.hypot(xs[i] - xs[j], ys[i] - ys[j]);
  return xs.map((_, i) => [customdata[i][0], Math.min(...xs.map((_, j) => i === j ? 1e9 : far(i, j)))])
           .sort((a, b) => b[1] - a[1]).map((pair) => pair[0]);
})()"""


def open_picker(page: Page, url: str) -> None:
    """Open the notebook, run it, and bring the picker into view."""
    page.goto(f"{url}/lab/tree/patterns.ipynb?reset")
    page.wait(RUN, 90)
    page.wait(SHOW, 90)
    page.eval('document.querySelector(".el-picker").scrollIntoView({block: "start"})')
    time.sleep(1)


def test_picker_in_jupyterlab(page: Page, lab: tuple[str, Path]) -> None:
    url, folder = lab
    saved = folder / "out" / "subset.json"

    def subset() -> dict[str, Any]:
        return dict(json.loads(saved.read_text()))

    def until(check: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + 20
        while not check(subset()) and time.monotonic() < end:
            time.sleep(0.1)
        return subset()

    open_picker(page, url)
    page.shot("1-open")
    first = subset()
    keys = page.eval(
        'document.querySelector(".el-picker .js-plotly-plot").data[0].customdata.map((c) => c[0])'
    )
    picks = [p["key"] for p in first["picks"]]
    assert len(keys) == 24 and len(picks) == 6 and first["origin"] == "automatic"
    assert page.eval('document.querySelectorAll(".el-picker .el-table tbody tr").length') == 24

    # a click on a point opens that trace, at the bad step
    other = next(k for k in keys if k not in picks)
    page.click(*page.eval(POINT.format(key=json.dumps(other))))
    page.wait(f"{OPEN} === {json.dumps(other)}")
    page.wait('!!document.querySelector(".el-picker .el-bad")')
    seen = page.eval(
        """(() => { const box = document.querySelector(".el-picker .el-reader").getBoundingClientRect();
        const bad = document.querySelector(".el-picker .el-bad").getBoundingClientRect();
        return bad.top >= box.top && bad.top < box.bottom; })()"""
    )
    assert seen and page.eval("window.hacked") is None
    page.shot("2-clicked")

    # keys: pin and exclude change the subset on disk, undo takes the exclude back
    page.eval('document.querySelector(".el-picker").focus({preventScroll: true})')
    page.key("p")
    pinned = until(lambda s: s["pins"] == [other])
    assert pinned["pins"] == [other] and other in [p["key"] for p in pinned["picks"]]
    page.eval(f"""document.querySelector('.el-picker tr[data-key={json.dumps(picks[0])}]').click()""")
    page.wait(f"{OPEN} === {json.dumps(picks[0])}")
    page.key("x")
    excluded = until(lambda s: s["excludes"] == [picks[0]])
    assert excluded["excludes"] == [picks[0]] and picks[0] not in [p["key"] for p in excluded["picks"]]
    page.wait('/cost|add/.test(document.querySelector(".el-message")?.textContent)')
    page.shot("3-overrides")
    page.key("ArrowRight")
    page.wait(f"{OPEN} !== {json.dumps(picks[0])}")
    page.key("u")
    assert until(lambda s: not s["excludes"])["picks"] == pinned["picks"]

    # colours change, places do not
    places = 'JSON.stringify(document.querySelector(".el-picker .js-plotly-plot")._fullData[0].x)'
    before, colours = page.eval(places), "[...new Set([].concat(plot.data[0].marker.color))].join()"
    plot = 'const plot = document.querySelector(".el-picker .js-plotly-plot");'
    was = page.eval(f"(() => {{ {plot} return {colours}; }})()")
    page.eval(
        """(() => { const list = document.querySelector(".el-picker select"); list.selectedIndex = 1;
        list.dispatchEvent(new Event("change", {bubbles: true})); })()"""
    )
    page.wait(f"(() => {{ {plot} return {colours} !== {json.dumps(was)}; }})()")
    page.shot("4-termination")
    assert page.eval(places) == before

    # reload: the notebook runs again, and the pin is still there
    open_picker(page, url)
    # the cells may still be running, which draws the picker anew, perhaps out of sight: look for it again each time
    page.wait(f"({SHOW.rstrip()}) && !!document.querySelector('.el-picker tr.el-pinned')")
    assert page.eval("document.querySelector('.el-picker tr.el-pinned').dataset.key") == other
    page.shot("5-reloaded")
    assert subset()["picks"] == pinned["picks"] and subset()["origin"] == "person"
    assert [
        url for url in page.requests if not re.match(r"(https?|wss?)://127\.0\.0\.1|data:|blob:", url)
    ] == []


def test_export_opens_offline_and_a_click_opens_its_trace(page: Page, tmp_path: Path) -> None:
    failures = find_failures(import_traces(write_jsonl(tmp_path / "traces.jsonl")).trajectories)
    patterns = find_patterns(failures, embedder("tfidf"), stability=False)
    subset = pick_quarter(failures, patterns, band=20)
    path = export_html(failures, patterns, subset, tmp_path / "failures.html", Footer("test", "abc", 0))
    page.goto("about:blank")
    page.wait('location.href === "about:blank"')
    page.requests.clear()
    page.goto(path.as_uri())
    page.wait('document.querySelectorAll("#map .point").length === 24')
    assert page.wait('document.getElementById("reader").dataset.key')
    target = failures[7].key
    spot = POINT.replace(".el-picker .js-plotly-plot", "#map").format(key=json.dumps(target))
    page.click(*page.eval(spot))
    page.wait(f'document.getElementById("reader").dataset.key === {json.dumps(target)}')
    page.shot("6-export")
    assert page.eval("window.hacked") is None
    assert "<script>window.hacked" in page.eval('document.getElementById("reader").textContent')
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == []
