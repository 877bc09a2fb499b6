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
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ecdysis_lab.cli import notebooks
from ecdysis_lab.records import LabError
from ecdysis_lab.train.settings import Settings, configure, sentence

Parameters = dict[str, Any]
KINDS: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}
SLUG = r"[A-Za-z0-9][A-Za-z0-9._-]*"


class GridFile(BaseModel):
    """What stands in a grid file.

    Parameters
    ----------
    notebook : name of a project notebook, or a path relative to the file. name : of the results; empty: the file's.
    parameters : fixed. grid : lists, of which the product is taken. cells : further cells, on top of ``parameters``.
    exclude : cells to leave out, those that agree in all named values.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    notebook: str = Field(min_length=1)
    name: str = Field("", pattern=rf"^({SLUG})?$")
    parameters: Parameters = {}
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    cells: list[Parameters] = []
    exclude: list[Annotated[Parameters, Field(min_length=1)]] = []


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
    """Read and validate a grid file, see :class:`GridFile`.

    Raises
    ------
    LabError: no such file or notebook, malformed YAML, an unknown field or parameter, a value of the wrong type,
        no cell at all. The sentence names the field and the choices.
    """
    path = Path(path)
    try:
        return _grid(path)
    except LabError as error:
        raise LabError(f"{path.name}: {error}") from None


def _grid(path: Path) -> Grid:
    try:
        asked = GridFile(**_load(path))
    except ValidationError as wrong:
        raise LabError(sentence(wrong.errors()[0], GridFile)) from None
    notebook = _notebook(path, asked.notebook)
    kinds = _kinds(notebook)
    both = [name for name in asked.grid if name in asked.parameters]
    if both:
        raise LabError(f"{both[0]!r} stands in both parameters and grid; keep one")
    drawn = [dict(zip(asked.grid, values)) for values in product(*asked.grid.values())] if asked.grid else []
    listed = [("grid", own) for own in drawn] + [(f"cells[{i}]", own) for i, own in enumerate(asked.cells)]
    found = [
        _typed(where, {**asked.parameters, **own}, kinds, notebook) for where, own in listed or [("grid", {})]
    ]
    for i, entry in enumerate(asked.exclude):
        wanted = _typed(f"exclude[{i}]", entry, kinds, notebook)
        kept = [c for c in found if any(c.get(k) != v for k, v in wanted.items())]
        if len(kept) == len(found):
            raise LabError(f"exclude[{i}] matches no cell: {wanted}")
        found = kept
    if not found:
        raise LabError("no cell is left after exclude")
    cells = _cells(notebook, found)
    _check_settings(notebook, cells)
    return Grid(asked.name or path.stem, notebook, cells, tuple(kinds), _axes(cells))


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
        line = f"line {mark.line + 1}: " if mark else ""
        raise LabError(f"{line}not YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
        raise LabError(f"expected the fields {', '.join(GridFile.model_fields)}")
    return {name: value for name, value in data.items() if value is not None}


def _notebook(path: Path, name: str) -> Path:
    """The notebook's file; its choices are those of the project."""
    folder = notebooks.PROJECT / "notebooks"
    found = folder / f"{name}.ipynb" if re.fullmatch(r"[\w-]+", name) else path.parent / name
    if found.is_file() and found.suffix == ".ipynb":
        return found.resolve()
    choices = ", ".join(sorted(p.stem for p in folder.glob("*.ipynb")))
    raise LabError(f"notebook: no {name!r}; choose one of {choices}, or a path to an .ipynb file")


def _kinds(notebook: Path) -> dict[str, str]:
    """Parameter -> type name as papermill reads it."""
    try:
        seen = import_papermill().inspect_notebook(str(notebook))
    except ValueError as error:  # nbformat's errors and a bad JSON are ValueErrors
        raise LabError(f"notebook: {notebook} cannot be read: {error}") from error
    return {name: str(found["inferred_type_name"]) for name, found in seen.items()}


def _typed(where: str, values: Parameters, kinds: Mapping[str, str], notebook: Path) -> Parameters:
    """Values in the types of the parameters cell; a list of texts becomes a comma-separated one."""
    made = {}
    for name, value in values.items():
        if name not in kinds:
            choices = ", ".join(kinds) or "none, as no cell is tagged 'parameters'"
            raise LabError(f"{where}: unknown parameter {name!r} of {notebook.name}; choose from {choices}")
        kind = kinds[name]
        if kind == "str" and isinstance(value, list) and not any(isinstance(v, list | dict) for v in value):
            value = ",".join(str(v) for v in value)
        elif kind == "str" and isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if kind in KINDS and value is not None:
            try:
                value = TypeAdapter(KINDS[kind]).validate_python(value, strict=True)
            except ValidationError as wrong:
                raise LabError(f"{where}: {name}{sentence(wrong.errors()[0], GridFile)}") from None
        made[name] = value
    return made


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


def _check_settings(notebook: Path, cells: Sequence[Cell]) -> None:
    """For the project's own notebooks: benchmark, arms, models and so on are checked as the notebook will."""
    if notebook.parent != (notebooks.PROJECT / "notebooks").resolve():
        return
    for cell in cells:
        try:
            configure(**{k: v for k, v in cell.parameters.items() if k in Settings.model_fields})
        except LabError as error:
            raise LabError(f"cell {cell.number}: {error}") from None
