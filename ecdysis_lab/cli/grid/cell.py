"""One cell of a grid in a process of its own, and what it leaves in its folder.

The parent holds the child's standard input open. When it closes, because the grid was stopped or the parent died,
the child interrupts its notebook; so no cell outlives its grid. A folder ``cells/<key>/`` holds ``status.json``,
``log.txt`` and either ``notebook.ipynb`` or ``error.ipynb``.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ecdysis_lab.cli.grid.spec import Parameters, import_papermill
from ecdysis_lab.store.run import Run

DONE, ERROR, LOG, OUTCOME = "notebook.ipynb", "error.ipynb", "log.txt", "outcome.json"
STOP = "stop"  # a file in the grid's folder: running cells end, waiting ones do not start
GRACE_SECONDS = 30.0
POLL_SECONDS = 0.1
Status = dict[str, Any]


def run_cell(folder: str, notebook: str, parameters: Parameters, cwd: str) -> str:
    """Run one cell; returns its state. Called through joblib, so it may be on another machine.

    Parameters
    ----------
    folder : of the cell; the stop file lies two levels above. notebook : source.
    parameters : for its parameters cell. cwd : where the kernel works.
    """
    home = Path(folder)
    stop = home.parent.parent / STOP
    if stop.exists():
        return "missing"
    home.mkdir(parents=True, exist_ok=True)
    for name in (DONE, ERROR, OUTCOME):
        (home / name).unlink(missing_ok=True)
    began = time.time()
    Run(home).write_json("status.json", {"state": "running", "started_at": began})
    code = _child(home, {"notebook": notebook, "parameters": parameters, "cwd": cwd, "folder": folder}, stop)
    status = _outcome(home, code) if not stop.exists() or code == 0 else {"state": "interrupted", "error": ""}
    status |= {"started_at": began, "seconds": round(time.time() - began, 1)}
    status["by"] = f"{platform.node()}:{os.getpid()}"  # which worker, on a cluster
    kept = _keep_notebook(home, Path(notebook), status)
    status |= {"notebook": kept, "run": _run_folder(home, kept)}
    Run(home).write_json("status.json", status)
    return str(status["state"])


def _child(home: Path, job: Mapping[str, Any], stop: Path) -> int:
    """Exit code of the cell's process; negative for a signal."""
    command = [
        sys.executable,
        "-c",
        "import sys; from ecdysis_lab.cli.grid.cell import main; sys.exit(main())",
    ]
    environment = {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    root = str(Path(__file__).resolve().parents[3])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH"))))
    with (home / LOG).open("wb") as log:
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
        )
        try:
            assert child.stdin is not None
            child.stdin.write(json.dumps(job).encode() + b"\n")
            child.stdin.flush()
            while child.poll() is None and not stop.exists():
                time.sleep(POLL_SECONDS)
        except BrokenPipeError:
            pass  # it died at its start; its exit code says how
        finally:
            _end(child)
    return int(child.returncode)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Let a running child end by itself, then make it."""
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it is dead already
        child.stdin.close()
    try:
        child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _outcome(home: Path, code: int) -> Status:
    """State and reason from what the child wrote, or else from how it ended."""
    try:
        told = json.loads((home / OUTCOME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        told = {}
    (home / OUTCOME).unlink(missing_ok=True)
    if code == 0 and told.get("error") == "":
        return {"state": "done", "error": ""}
    if told.get("error"):
        return {"state": "failed", "error": str(told["error"])}
    if code < 0:
        return {"state": "failed", "error": f"the cell's process was killed by {_signal(-code)}"}
    lines = (home / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return {"state": "failed", "error": f"the cell's process ended with {code}: {lines[-1] if lines else ''}"}


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _keep_notebook(home: Path, source: Path, status: Status) -> str:
    """Name of the notebook that is kept; a failed one says why at its top."""
    if status["state"] == "done":
        return DONE
    if status["state"] != "failed":
        return DONE if (home / DONE).exists() else ""
    import nbformat

    text = f"# This cell of the grid failed\n\n{status['error']}\n\nLog: `{LOG}`"
    for path in (home / DONE, source):
        try:
            notebook = nbformat.read(path, as_version=4)
            break
        except (OSError, ValueError):  # never begun, or torn by the kill
            continue
    else:
        notebook = nbformat.v4.new_notebook()
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell(text))
    nbformat.write(notebook, home / ERROR)
    (home / DONE).unlink(missing_ok=True)
    return ERROR


def _run_folder(home: Path, name: str) -> str:
    """The run that a notebook names in a line ``run: FOLDER`` of its output, relative to the grid's folder, or ""."""
    import nbformat

    found = ""
    for cell in nbformat.read(home / name, as_version=4).cells if name else []:
        for output in cell.get("outputs", []):
            for line in re.findall(r"^run: (.+)$", output.get("text", ""), re.MULTILINE):
                found = line.strip()
    return os.path.relpath(found, home.parent.parent) if found and Path(found).is_dir() else ""


# -- in the child ----------------------------------------------------------------------------------------------


def main() -> int:
    """Run the job that stands on standard input."""
    job = json.loads(sys.stdin.readline())
    done = threading.Event()
    threading.Thread(target=_watch, args=(done,), daemon=True).start()
    outcome = Path(job["folder"]) / OUTCOME
    try:
        error = execute(job["notebook"], str(Path(job["folder"]) / DONE), job["parameters"], job["cwd"])
    finally:
        done.set()
    outcome.write_text(json.dumps({"error": error}), encoding="utf-8")
    return 1 if error else 0


def _watch(done: threading.Event) -> None:
    """Interrupt this process when its parent lets go of it."""
    sys.stdin.read()
    if not done.is_set():
        os.kill(os.getpid(), signal.SIGINT)


def execute(notebook: str, out: str, parameters: Parameters, cwd: str) -> str:
    """Run a notebook by papermill; returns why it failed, or an empty string."""
    papermill = import_papermill()
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    try:
        papermill.execute_notebook(
            notebook, out, parameters=parameters, cwd=cwd, progress_bar=False, kernel_name="python3",
            log_output=False, stdout_file=sys.stdout, stderr_file=sys.stderr,
            extra_arguments=["--log-level=ERROR"],
        )  # fmt: skip
    except PapermillExecutionError as failed:
        return f"{failed.ename}: {failed.evalue}"[:2000]
    except (DeadKernelError, CellTimeoutError) as dead:
        return f"the kernel died (killed, or out of memory): {dead}"[:2000]
    return ""
