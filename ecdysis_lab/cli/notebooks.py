"""Runs the project's notebooks through papermill, and checks the parameters a notebook got.

papermill only warns about unknown parameters and marks cells completed after a kernel died, so both are checked
here: parameters before anything runs, the end by the exception that papermill raises.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ecdysis_lab.records import LabError

PROJECT = Path(__file__).resolve().parents[2]
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
        if failed.ename == "LabError":
            raise LabError(failed.evalue) from None
        print(f"ecdysis-lab: {failed.ename}: {failed.evalue}\nsee {out}", file=sys.stderr)
        return 1
    return 0


def parameters(
    namespace: Mapping[str, Any], *places: str, fields: Sequence[str] | None = None
) -> dict[str, Any]:
    """The parameters that a notebook holds right after its parameters cell, in a second cell.

    Call it before anything else is defined, so that a parameter that papermill injected under an unknown name is
    found here and not ignored.

    Parameters
    ----------
    namespace : ``globals()`` of the notebook. places : parameters that are not fields of the experiment.
    fields : names that the notebook's own work takes; None takes the fields of
        :class:`ecdysis_lab.train.settings.ExperimentConfig`.

    Returns
    -------
    Those fields that the notebook sets.

    Raises
    ------
    LabError: an unknown parameter; the choices are listed.
    """
    known = list(fields) if fields is not None else _experiment_fields()
    found = {
        k: v
        for k, v in namespace.items()
        if not k.startswith("_")
        and k not in IPYTHON_NAMES
        and not isinstance(v, ModuleType)
        and not callable(v)
    }
    unknown = [k for k in found if k not in (*known, *places)]
    # Run again in a live kernel, the cell meets what later cells defined; papermill's kernel is always new.
    again = namespace.get(CHECKED, False)
    if unknown and not again:
        raise LabError(f"unknown parameter {unknown[0]!r}; choose from {', '.join((*known, *places))}")
    if isinstance(namespace, dict):
        namespace[CHECKED] = True
    return {k: v for k, v in found.items() if k in known}


def _experiment_fields() -> list[str]:
    from dataclasses import fields

    from ecdysis_lab.train.settings import ExperimentConfig

    return [f.name for f in fields(ExperimentConfig)]
