"""A grid file: which notebook runs with which parameters, validated before anything runs."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from ecdysis_lab.cli import notebooks
from ecdysis_lab.records import LabError
from ecdysis_lab.train.settings import Settings, configure

FIELDS = ("notebook", "name", "parameters", "grid", "cells", "exclude")
KINDS: dict[str, tuple[type, ...]] = {
    "str": (str, int, float),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}
WORDS = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}
Parameters = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One execution of the notebook.

    Parameters
    ----------
    number : place in the table, from 1. key : hash of notebook and parameters; what is done is known by it.
    parameters : all that the grid file sets, the fixed ones first.
    """

    number: int
    key: str
    parameters: Parameters


@dataclass(frozen=True)
class Grid:
    """A notebook and its cells.

    Parameters
    ----------
    name : of the results folder. notebook : file. cells : in the order of the grid file.
    known : parameters of the notebook. axes : parameters in which cells differ.
    """

    name: str
    notebook: Path
    cells: tuple[Cell, ...]
    known: tuple[str, ...]
    axes: tuple[str, ...]


def read(path: Path | str) -> Grid:
    """Read and validate a grid file.

    The YAML holds ``notebook`` (name of a project notebook, or a path relative to the file), ``parameters``
    (fixed), ``grid`` (lists, of which the product is taken), ``cells`` (further cells, each on top of
    ``parameters``), ``exclude`` (cells to leave out: those that agree in all named values) and ``name``.

    Raises
    ------
    LabError: no such file or notebook, malformed YAML, an unknown field or parameter, a value of the wrong type,
        no cell at all. The sentence names the field and the choices.
    """
    path = Path(path)
    data = _load(path)
    notebook = _notebook(path, data.get("notebook"))
    kinds = _kinds(notebook)
    fixed = _mapping(path, "parameters", data.get("parameters"))
    axes = _mapping(path, "grid", data.get("grid"))
    for name, values in axes.items():
        if not isinstance(values, list) or not values:
            raise LabError(f"{path.name}: grid.{name} must be a list of values, got {values!r}")
        if name in fixed:
            raise LabError(f"{path.name}: {name!r} stands in both parameters and grid; keep one")
    drawn = [dict(zip(axes, values)) for values in product(*axes.values())] if axes else []
    extra = [_mapping(path, f"cells[{i}]", c) for i, c in enumerate(_list(path, "cells", data.get("cells")))]
    if not drawn and not extra:
        drawn = [{}]
    where = [*["grid"] * len(drawn), *(f"cells[{i}]" for i in range(len(extra)))]
    found = [_typed(path, w, {**fixed, **own}, kinds, notebook) for w, own in zip(where, [*drawn, *extra])]
    kept = _without(path, found, _list(path, "exclude", data.get("exclude")), kinds, notebook)
    cells = _cells(notebook, kept)
    if not cells:
        raise LabError(f"{path.name}: no cell is left after exclude")
    _check_experiment(path, notebook, cells)
    return Grid(_name(path, data.get("name")), notebook, cells, tuple(kinds), _axes(cells))


def import_papermill() -> Any:
    """papermill, without an optional part of jsonschema that takes seconds to load and that notebooks never need."""
    slow = "rfc3987_syntax"
    absent = slow not in sys.modules
    if absent:
        sys.modules[slow] = None  # type: ignore[assignment]
    try:
        import papermill
    finally:
        if absent:
            del sys.modules[slow]
    return papermill


def _load(path: Path) -> dict[str, Any]:
    import yaml

    if not path.is_file():
        raise LabError(f"grid file {path} does not exist")
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise LabError(f"{path.name}{line}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(data, dict):
        raise LabError(f"{path.name}: expected the fields {', '.join(FIELDS)}")
    for name in data:
        if name not in FIELDS:
            raise LabError(f"{path.name}: unknown field {name!r}; choose from {', '.join(FIELDS)}")
    return data


def _notebook(path: Path, name: Any) -> Path:
    """The notebook's file; its choices are those of the project."""
    folder = notebooks.PROJECT / "notebooks"
    choices = ", ".join(sorted(p.stem for p in folder.glob("*.ipynb")))
    if not isinstance(name, str) or not name:
        raise LabError(f"{path.name}: notebook: name one of {choices}, or a path to an .ipynb file")
    tries = [folder / f"{name}.ipynb"] if re.fullmatch(r"[\w-]+", name) else [path.parent / name]
    for found in tries:
        if found.is_file() and found.suffix == ".ipynb":
            return found.resolve()
    raise LabError(
        f"{path.name}: notebook: no {name!r}; choose one of {choices}, or a path to an .ipynb file"
    )


def _kinds(notebook: Path) -> dict[str, tuple[str, bool]]:
    """Parameter -> (type name, whether None is its default)."""
    papermill = import_papermill()
    try:
        seen = papermill.inspect_notebook(str(notebook))
    except ValueError as error:  # nbformat's errors and a bad JSON are ValueErrors
        raise LabError(f"notebook: {notebook} cannot be read: {error}") from error
    return {n: (str(p["inferred_type_name"]), p["default"] in ("None", "")) for n, p in seen.items()}


def _mapping(path: Path, where: str, value: Any) -> Parameters:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(k, str) for k in value):
        raise LabError(f"{path.name}: {where} must map parameter names to values, got {value!r}")
    return value


def _list(path: Path, where: str, value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise LabError(f"{path.name}: {where} must be a list, got {value!r}")
    return value


def _typed(
    path: Path, where: str, values: Parameters, kinds: Mapping[str, tuple[str, bool]], notebook: Path
) -> Parameters:
    """Values in the types of the parameters cell; a list of texts becomes a comma-separated one."""
    made = {}
    for name, value in values.items():
        if name not in kinds:
            choices = ", ".join(kinds) or "none, as no cell is tagged 'parameters'"
            raise LabError(f"{path.name}: {where}: unknown parameter {name!r} of {notebook.name}; "
                           f"choose from {choices}")  # fmt: skip
        kind, optional = kinds[name]
        if isinstance(value, list) and kind == "str" and not any(isinstance(v, list | dict) for v in value):
            value = ",".join(str(v) for v in value)
        wanted = KINDS.get(kind)
        wrong = wanted is not None and (
            not isinstance(value, wanted) or (isinstance(value, bool) and kind != "bool")
        )
        if wrong and not (value is None and optional):
            raise LabError(f"{path.name}: {where}: {name} must be {WORDS[kind]}, got {value!r}")
        made[name] = str(value) if kind == "str" and value is not None else value
    return made


def _without(
    path: Path, cells: list[Parameters], exclude: list[Any], kinds: Mapping[str, tuple[str, bool]], nb: Path
) -> list[Parameters]:
    for i, entry in enumerate(exclude):
        where = f"exclude[{i}]"
        wanted = _typed(path, where, _mapping(path, where, entry), kinds, nb)
        if not wanted:
            raise LabError(f"{path.name}: {where} names no parameter")
        kept = [c for c in cells if any(c.get(k) != v for k, v in wanted.items())]
        if len(kept) == len(cells):
            raise LabError(f"{path.name}: {where} matches no cell: {wanted}")
        cells = kept
    return cells


def _cells(notebook: Path, parameters: Sequence[Parameters]) -> tuple[Cell, ...]:
    """Distinct cells, numbered."""
    source = source_hash(notebook)
    found: dict[str, Parameters] = {}
    for values in parameters:
        text = source + json.dumps(values, sort_keys=True, default=str)
        found.setdefault(hashlib.sha256(text.encode()).hexdigest()[:12], values)
    return tuple(Cell(n, key, values) for n, (key, values) in enumerate(found.items(), 1))


def source_hash(notebook: Path) -> str:
    """Hash of what a notebook runs: sources and tags of its code cells, no outputs and no prose."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = [["".join(c["source"]), c["metadata"].get("tags", [])] for c in cells if c["cell_type"] == "code"]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()


def _axes(cells: Sequence[Cell]) -> tuple[str, ...]:
    names = list(dict.fromkeys(name for cell in cells for name in cell.parameters))
    differ = [n for n in names if len({json.dumps(c.parameters.get(n), default=str) for c in cells}) > 1]
    return tuple(differ or names)


def _name(path: Path, name: Any) -> str:
    found = path.stem if name is None else str(name)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", found):
        raise LabError(f"{path.name}: name: use letters, digits, '.', '_' and '-', got {found!r}")
    return found


def _check_experiment(path: Path, notebook: Path, cells: Sequence[Cell]) -> None:
    """For the project's own notebooks: benchmark, arms, models and so on are checked as the notebook will."""
    if notebook.parent != (notebooks.PROJECT / "notebooks").resolve():
        return
    for cell in cells:
        try:
            configure(**{k: v for k, v in cell.parameters.items() if k in Settings.model_fields})
        except LabError as error:
            raise LabError(f"{path.name}: cell {cell.number}: {error}") from None
