"""Runs the project's notebooks through papermill, and checks the parameters a notebook got.

papermill only warns about unknown parameters and marks cells completed after a kernel died, so both are checked
here: parameters before anything runs, the end by the exception that papermill raises.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ecdysis_lab.records import LabError
from ecdysis_lab.train.settings import Settings, help_of

PROJECT = Path(__file__).resolve().parents[2]
_SERVER = ("api_base", "temperature", "timeout_seconds", "max_usd", "max_tokens", "max_seconds", "workers")
OWN: dict[str, tuple[str, ...]] = {
    "quickstart": ("smoke", "run_id", "data", "figures"),
    "evolve": ("arm", "round", "smoke", "run_id", "show", "data"),
    "collect": ("split", "harness", "tasks", "smoke", "data", "name"),
    "evaluate": ("harness", "baselines", "models", "smoke", "run_id", "data", "figures"),
    "patterns": (
        "source", "threshold", "disclosure", "embedder", "weights", "budget", "seed", "smoke", "data", "out",
    ),
    "report": ("runs", "out", "images", "smoke", "data"),
    "logs": ("traces", "arms", "split", "alone", "model", "read", "smoke", "run_id", "data", "figures"),
}  # fmt: skip
"""Notebook of the project -> parameters of its own."""
_OF_TRIALS = (
    "model", "user_model", "test_models", "arms", "train_tasks", "test_tasks", "trials", "rounds", "reuse", "confirm",
    "noise_floor", "paired", "workers",
)  # fmt: skip
"""Settings that logs have no use for."""
SETTINGS: dict[str, tuple[str, ...]] = {
    "quickstart": tuple(Settings.model_fields),
    "evolve": tuple(
        name for name in Settings.model_fields if name not in ("arms", "test_models", "test_tasks")
    ),
    "collect": ("benchmark", "model", "trials", "seed", "user_model", *_SERVER),
    "evaluate": ("benchmark", "seed", "test_tasks", "trials", "user_model", *_SERVER),
    "logs": tuple(name for name in Settings.model_fields if name not in _OF_TRIALS),
}
"""Notebook of the project -> settings of an experiment that it takes."""
CHECKED = "_parameters_checked"  # set in a notebook's namespace after its first check
IPYTHON_NAMES = {"In", "Out", "exit", "quit", "get_ipython", "open"}


def path_of(name: str) -> Path:
    """File of a notebook of the project.

    Raises
    ------
    LabError: it is not there (the package was installed without the project's folder).
    """
    path = PROJECT / "notebooks" / f"{name}.ipynb"
    if not path.exists():
        raise LabError(f"notebook {name!r} is not at {path}; run this from a clone of the project")
    return path


def known_parameters(path: Path) -> list[str]:
    """Names in the cell tagged ``parameters``."""
    import papermill

    return list(papermill.inspect_notebook(str(path)))


def run(name: str, parameters: Mapping[str, Any], out: Path | None = None) -> int:
    """Execute a notebook with parameters; its output appears while it runs.

    Parameters
    ----------
    name : notebook of the project. parameters : for its parameters cell.
    out : where the executed notebook goes; by default ``data/notebooks/<name>.ipynb`` beside the runs.

    Returns
    -------
    0, or 1 when a cell failed (the executed notebook shows where); LabError in a cell gives 2.

    Raises
    ------
    LabError: an unknown parameter.
    """
    path = path_of(name)
    known = known_parameters(path)
    unknown = [p for p in parameters if p not in known]
    if unknown:
        raise LabError(f"unknown parameter {unknown[0]!r} of {path.name}; choose from {', '.join(known)}")
    data = Path(str(parameters.get("data") or PROJECT / "data"))
    out = out or data / "runs" / "notebooks" / f"{name}.ipynb"
    out.parent.mkdir(parents=True, exist_ok=True)
    return _execute(path, out, {k: _plain(v) for k, v in parameters.items()})


def _plain(value: Any) -> Any:
    return ",".join(value) if isinstance(value, tuple) else value


def _execute(path: Path, out: Path, parameters: dict[str, Any]) -> int:
    import papermill
    from papermill.exceptions import PapermillExecutionError

    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    try:
        papermill.execute_notebook(
            str(path),
            str(out),
            parameters=parameters,
            cwd=str(PROJECT),
            progress_bar=False,
            stdout_file=sys.stdout,
            stderr_file=sys.stderr,
            log_output=False,
            # The kernel logs the interrupt that begins its shutdown as an error; what a cell raises comes by itself.
            extra_arguments=["--log-level=CRITICAL"],
            kernel_name="python3",
        )
    except PapermillExecutionError as failed:
        if failed.ename in (
            "LabError",
            "PermanentError",
            "Waiting",
        ):  # a papermill error knows the name of the class only
            raise LabError(failed.evalue) from None
        print(f"ecdysis-lab: {failed.ename}: {failed.evalue}\nsee {out}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        logging.getLogger("asyncio").setLevel(
            logging.CRITICAL
        )  # the cell's own end is reported by nobody else
        raise
    print(*tables_of(out), sep="\n\n")
    return 0


def tables_of(notebook: Path) -> list[str]:
    """The tables that an executed notebook shows, as text for a terminal."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    shown = [o["data"] for cell in cells for o in cell.get("outputs", ()) if "text/html" in o.get("data", {})]
    return ["".join(data["text/plain"]) for data in shown if "<table" in "".join(data["text/html"])]


def parameters(namespace: Mapping[str, Any], notebook: str) -> dict[str, Any]:
    """The settings that a notebook holds right after its parameters cells, in the next one.

    Call it before anything else is defined, so that a parameter that papermill injected under an unknown name is
    found here and not ignored.

    Parameters
    ----------
    namespace : ``globals()`` of the notebook. notebook : its name; ``OWN`` and ``SETTINGS`` say what it takes.

    Returns
    -------
    The settings of an experiment among them.

    Raises
    ------
    LabError: an unknown parameter; the choices are listed.
    """
    settings, own = SETTINGS.get(notebook, ()), OWN[notebook]
    found = {
        k: v
        for k, v in namespace.items()
        if not k.startswith("_")
        and k not in IPYTHON_NAMES
        and not isinstance(v, ModuleType)
        and not callable(v)
    }
    unknown = [k for k in found if k not in (*settings, *own)]
    # Run again in a live kernel, the cell meets what later cells defined; papermill's kernel is always new.
    again = namespace.get(CHECKED, False)
    if unknown and not again:
        raise LabError(f"unknown parameter {unknown[0]!r}; choose from {', '.join((*settings, *own))}")
    if isinstance(namespace, dict):
        namespace[CHECKED] = True
    return {k: v for k, v in found.items() if k in settings}


def parameter_line(name: str) -> str:
    """How a setting stands in a parameters cell: typed, with its default and its help."""
    field = Settings.model_fields[name]
    kind, default = re.search(r"int|float|bool|str", str(field.annotation)), field.default
    shown = ",".join(default) if isinstance(default, tuple) else default
    text = f'"{shown}"' if isinstance(shown, str) else str(shown)
    return f"{name}: {kind.group() if kind else 'str'} = {text}  # {help_of(name)}"
