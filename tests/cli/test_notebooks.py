"""Notebooks as committed: no outputs, no functions, one typed and commented parameters cell."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ecdysis_lab.cli import notebooks
from ecdysis_lab.models import Waiting
from ecdysis_lab.records import LabError

ROOT = Path(__file__).resolve().parents[2]


def tracked_notebooks() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.ipynb"], cwd=ROOT, capture_output=True, text=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).is_file()]


NOTEBOOKS = tracked_notebooks()
each_notebook = pytest.mark.parametrize("name", NOTEBOOKS)


def code_cells(name: str) -> list[dict[str, Any]]:
    cells = json.loads((ROOT / name).read_text())["cells"]
    return [{**cell, "text": "".join(cell["source"])} for cell in cells if cell["cell_type"] == "code"]


def parameter_cells(name: str) -> list[dict[str, Any]]:
    return [cell for cell in code_cells(name) if "parameters" in cell["metadata"].get("tags", [])]


def without_magics(text: str) -> str:
    return "\n".join("pass" if line.lstrip().startswith(("%", "!")) else line for line in text.splitlines())


def test_quickstart_is_committed() -> None:
    assert "notebooks/quickstart.ipynb" in NOTEBOOKS


@each_notebook
def test_no_outputs(name: str) -> None:
    cells = code_cells(name)
    assert [cell["text"] for cell in cells if cell["outputs"]] == []
    assert [cell["text"] for cell in cells if cell["execution_count"] is not None] == []


@each_notebook
def test_defines_no_functions_or_classes(name: str) -> None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    nodes = [node for cell in code_cells(name) for node in ast.walk(ast.parse(without_magics(cell["text"])))]
    assert [ast.unparse(node) for node in nodes if isinstance(node, kinds)] == []


@each_notebook
def test_parameters_are_typed_and_commented(name: str) -> None:
    from papermill import inspect_notebook

    (cell,) = parameter_cells(name)
    statements = ast.parse(cell["text"]).body
    assert [ast.unparse(s) for s in statements if not (isinstance(s, ast.AnnAssign) and s.value)] == []
    stem = Path(name).stem
    assert {s.target.id for s in statements} == {*notebooks.SETTINGS.get(stem, ()), *notebooks.OWN[stem]}
    seen = inspect_notebook(str(ROOT / name))
    assert list(seen) == [s.target.id for s in statements]  # papermill understands each line
    assert [
        p for p, found in seen.items() if found["inferred_type_name"] in ("None", "") or not found["help"]
    ] == []


@each_notebook
def test_settings_have_the_defaults_and_help_of_the_command_line(name: str) -> None:
    stem, lines = Path(name).stem, {}
    for cell in code_cells(name):
        if "parameters" in cell["metadata"].get("tags", []) or cell["id"] == "first-parameters":
            new = {line.partition(":")[0]: line for line in cell["text"].splitlines() if ": " in line}
            lines |= {k: v for k, v in new.items() if not v.endswith("# as above")}
    wanted = {name: notebooks.parameter_line(name) for name in notebooks.SETTINGS.get(stem, ())}
    assert {name: lines[name] for name in wanted} == wanted


def test_quickstart_shows_eight_parameters_and_folds_the_rest() -> None:
    first, rest = code_cells("notebooks/quickstart.ipynb")[:2]
    assert len(first["text"].splitlines()) == 8
    assert rest["metadata"]["jupyter"]["source_hidden"] is True


@each_notebook
def test_every_size_can_be_scaled_down(name: str) -> None:
    assert any("smoke: bool = False" in cell["text"] for cell in code_cells(name))


def test_what_a_kernel_logs_of_its_own_shutdown_is_not_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """jupyter_client interrupts a kernel before it ends it, which now and then is logged as an error."""
    nbformat = pytest.importorskip("nbformat")
    cell = "get_ipython().kernel.log.error('KeyboardInterrupt caught in kernel.')\nprint('shown')"
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "", "language": "python"}
    nbformat.write(made, tmp_path / "a.ipynb")
    assert notebooks._execute(tmp_path / "a.ipynb", tmp_path / "b.ipynb", {}) == 0
    out, err = capfd.readouterr()
    assert "shown" in out and "KeyboardInterrupt" not in err


def test_an_answer_by_hand_that_is_awaited_is_one_sentence_and_exit_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    papermill = pytest.importorskip("papermill")
    said = "waiting for 1 answer in /r/hand: ecdysis/001-critic.answer.md"

    def stopped(*_: object, **__: object) -> None:
        raise papermill.exceptions.PapermillExecutionError(1, 1, "x", Waiting.__name__, said, [])

    monkeypatch.setattr("papermill.execute_notebook", stopped)
    with pytest.raises(LabError, match=f"^{said}$"):
        notebooks._execute(tmp_path / "a.ipynb", tmp_path / "b.ipynb", {})
