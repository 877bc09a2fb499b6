"""Grids of notebooks: validated first, one process a cell, failures kept, the rest done, resumed by what is missing."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from ecdysis_lab.cli import grid, parser
from ecdysis_lab.cli.grid.cell import STOP
from ecdysis_lab.cli.grid.table import Display, counts
from ecdysis_lab.records import LabError
from ecdysis_lab.store.run import read_status

ROOT = Path(__file__).resolve().parents[2]
PARAMETERS = """a: int = 1  # number
mode: str = ""  # how it ends
rate: float = 0.5  # a share
data: str = ""  # data folder
workers: int = 0  # cores"""
WORK = """import json, os, signal, time
from pathlib import Path
run = Path(data) / "runs" / f"a{a}{mode}"
run.mkdir(parents=True, exist_ok=True)
with (run / "starts").open("a") as file:
    file.write(f"{os.getpid()}\\n")
cured = (Path(data) / "cured").exists()
if mode == "raise" and not cured:
    raise ValueError(f"made to fail: {a}")
if mode == "killed" and not cured:
    os.kill(os.getppid(), signal.SIGKILL)
if mode in ("killed", "slow") and not cured:
    time.sleep(300)
metrics = {"accuracy": a / 10, "pass^3": a / 20}
(run / "summary.json").write_text(json.dumps({"arms": {"direct": {"sim/small": metrics}}, "wall_seconds": workers}))
print("run:", run)"""


def notebook(path: Path) -> Path:
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    made = nbformat.v4.new_notebook(metadata=kernel)
    made.cells = [nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})]
    made.cells.append(nbformat.v4.new_code_cell(WORK))
    nbformat.write(made, path)
    return path


def grid_file(folder: Path, text: str, name: str = "tiny") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "tiny.ipynb").exists():
        notebook(folder / "tiny.ipynb")
    path = folder / f"{name}.yaml"
    path.write_text("notebook: tiny.ipynb\n" + text)
    return path


def starts(data: Path) -> dict[str, int]:
    return {p.parent.name: len(p.read_text().split()) for p in data.glob("runs/*/starts")}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except OSError:
        return False


# ---- the file


def test_cells_are_the_product_plus_extra_ones_less_the_excluded(tmp_path):
    found = grid.read(grid_file(tmp_path, """
parameters: {rate: 1}
grid: {a: [1, 2, 3], mode: [x, y]}
exclude: [{a: 2, mode: y}]
cells: [{a: 9}, {a: 1, mode: x}]
"""))  # fmt: skip
    assert [(c.parameters["a"], c.parameters.get("mode"), c.parameters["rate"]) for c in found.cells] == [
        (1, "x", 1), (1, "y", 1), (2, "x", 1), (3, "x", 1), (3, "y", 1), (9, None, 1),
    ]  # fmt: skip
    assert [c.number for c in found.cells] == [1, 2, 3, 4, 5, 6]
    assert found.axes == ("a", "mode") and found.name == "tiny"


def test_a_cell_is_known_by_code_and_parameters_and_not_by_place_or_outputs(tmp_path):
    def keys(text):
        return [c.key for c in grid.read(grid_file(tmp_path, text)).cells]

    one, two = keys("grid: {a: [1, 2]}")
    assert keys("grid: {a: [2, 5]}")[0] == two and one != two
    saved = nbformat.read(tmp_path / "tiny.ipynb", 4)
    saved.cells.insert(0, nbformat.v4.new_markdown_cell("prose"))
    saved.cells[-1].outputs = [nbformat.v4.new_output("stream", text="hi")]
    nbformat.write(saved, tmp_path / "tiny.ipynb")
    assert keys("grid: {a: [1]}") == [one]
    saved.cells[-1].source += "\n1"
    nbformat.write(saved, tmp_path / "tiny.ipynb")
    assert keys("grid: {a: [1]}") != [one]


REFUSED = {
    "grid: {b: [1]}": r"tiny.yaml: grid: unknown parameter 'b' of tiny.ipynb; choose from a, mode, rate, data",
    "cells: [{a: 1}, {mod: x}]": r"cells\[1\]: unknown parameter 'mod'",
    "grid: {a: [1, two]}": r"grid: a must be a whole number, got 'two'",
    "parameters: {rate: high}": r"rate must be a number, got 'high'",
    "parameters: {a: true}": r"a must be a whole number, got True",
    "parameters: {a: 1}\ngrid: {a: [1]}": r"'a' stands in both parameters and grid",
    "grid: {a: 1}": r"grid.a: must be a list, got 1",
    "grid: {a: []}": r"grid.a: must not be empty",
    "gird: {a: [1]}": r"unknown field 'gird'; choose from notebook, name, parameters, grid, cells, exclude",
    "grid: {a: [1]}\nexclude: [{a: 7}]": r"exclude\[0\] matches no cell: \{'a': 7\}",
    "grid: {a: [1]}\nexclude: [{a: 1}]": r"no cell is left",
    "grid: [a: 1": r"tiny.yaml: line \d: not YAML",
    "name: a/b": r"name: use letters, digits",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_wrong_grid_file_is_refused_by_field_with_the_choices(tmp_path, text, capsys):
    path = grid_file(tmp_path, text)
    with pytest.raises(LabError, match=REFUSED[text]):
        grid.read(path)
    assert parser.main(["grid", str(path), "--data", str(tmp_path / "data")]) == 2
    assert re.search(REFUSED[text], capsys.readouterr().err) and not (tmp_path / "data").exists()


def test_unknown_notebooks_and_values_of_the_project_s_own_are_refused(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("notebook: quickstrat\n")
    with pytest.raises(LabError, match=r"notebook: no 'quickstrat'; choose one of .*patterns, .*quickstart"):
        grid.read(path)
    path.write_text("notebook: quickstart\ngrid: {benchmark: [tau2/airline, mars]}\n")
    with pytest.raises(
        LabError, match=r"cell 2: benchmark: unknown 'mars'; choose one of tau2/airline, tau2/retail"
    ):
        grid.read(path)
    path.write_text("notebook: quickstart\nparameters: {arms: [direct, human]}\ngrid: {seed: [0, 1]}\n")
    assert grid.read(path).cells[1].parameters == {"arms": "direct,human", "seed": 1}
    with pytest.raises(LabError, match="does not exist"):
        grid.read(tmp_path / "none.yaml")


# ---- the run


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Twelve cells, two made to fail and one whose process is killed; then the same again, with the causes gone."""
    folder = tmp_path_factory.mktemp("grid")
    path, data, screen = grid_file(folder, """
grid: {a: [1, 2, 3, 4, 5, 6, 7, 8, 9]}
cells: [{a: 1, mode: raise}, {a: 2, mode: raise}, {a: 3, mode: killed}]
"""), folder / "data", io.StringIO()  # fmt: skip
    first = grid.run(grid.read(path), data, 2, screen)
    page = (grid.folder_of(grid.read(path), data) / "grid.html").read_text()
    held = {r["cell"]: r["notebook"] for r in first if r["status"] == "failed"}
    errors = {n: nbformat.read(data / "grids/tiny" / name, 4) for n, name in held.items()}
    before = starts(data)
    (data / "cured").touch()
    second = grid.run(grid.read(path), data, 2)
    return {"first": first, "screen": screen.getvalue(), "page": page, "errors": errors, "before": before,
            "second": second, "after": starts(data), "data": data}  # fmt: skip


@pytest.mark.slow
def test_nine_of_twelve_finish_when_two_fail_and_one_is_killed(ran):
    status = [row["status"] for row in ran["first"]]
    assert status == ["done"] * 9 + ["failed"] * 3
    assert [r["error"] for r in ran["first"][9:]] == [
        "ValueError: made to fail: 1",
        "ValueError: made to fail: 2",
        "the cell's process was killed by SIGKILL",
    ]
    assert counts(ran["first"]) == "9 of 12 done, 3 failed"
    assert ran["screen"].count("✓") == 9 and ran["screen"].count("✗") == 3
    assert ran["before"] == {**{f"a{n}": 1 for n in range(1, 10)}, "a1raise": 1, "a2raise": 1, "a3killed": 1}


@pytest.mark.slow
def test_each_failed_cell_keeps_its_error_notebook_and_the_table_links_it(ran):
    links = re.findall(r'<a href="(cells/\w+/error\.ipynb)">error\.ipynb</a>', ran["page"])
    assert links == [row["notebook"] for row in ran["first"][9:]] and len(set(links)) == 3
    assert ran["page"].count('.ipynb">notebook.ipynb</a>') == 9
    for n, error in ran["errors"].items():
        row = ran["first"][n - 1]
        assert row["error"] in error.cells[0].source
        assert any("made to fail" in c.source for c in error.cells)
    outputs = [o for c in ran["errors"][10].cells for o in c.get("outputs", [])]
    assert [o.ename for o in outputs if o.output_type == "error"] == ["ValueError"]


@pytest.mark.slow
def test_the_second_run_does_only_what_is_missing(ran):
    assert [row["status"] for row in ran["second"]] == ["done"] * 12
    assert ran["after"] == {**ran["before"], "a1raise": 2, "a2raise": 2, "a3killed": 2}
    assert not list(ran["data"].glob("grids/tiny/cells/*/error.ipynb"))
    assert len(list(ran["data"].glob("grids/tiny/cells/*/notebook.ipynb"))) == 12


@pytest.mark.slow
def test_grid_csv_has_parameters_run_and_main_numbers(ran):
    with (ran["data"] / "grids/tiny/grid.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [row["run_id"] for row in table] == [
        *(f"a{n}" for n in range(1, 10)),
        "a1raise",
        "a2raise",
        "a3killed",
    ]
    assert [float(row["accuracy direct sim/small"]) for row in table[:3]] == [0.1, 0.2, 0.3]
    assert [float(row["pass^3 direct sim/small"]) for row in table[:2]] == [0.05, 0.1]
    assert [row["a"] for row in table[9:]] == ["1", "2", "3"] and table[11]["mode"] == "killed"
    assert all((ran["data"] / "grids/tiny" / row["notebook"]).is_file() for row in table)
    assert all(float(row["seconds"]) > 0 for row in table)
    # Each of two cells at a time gets half of the cores, which is no part of what a cell is known by.
    assert {float(row["wall_seconds"]) for row in table} == {max(1, (os.cpu_count() or 1) // 2)}


@pytest.mark.slow
def test_the_kernel_of_a_killed_cell_does_not_live_on(ran):
    pid, deadline = int((ran["data"] / "runs/a3killed/starts").read_text().split()[0]), time.monotonic() + 60
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not alive(pid)


def wait_for(what, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_grid_leaves_no_process_and_continues(tmp_path, how):
    path, data = grid_file(tmp_path, "grid: {a: [1, 2]}\nparameters: {mode: slow}"), tmp_path / "data"
    command = [
        sys.executable,
        "-m",
        "ecdysis_lab.cli",
        "grid",
        str(path),
        "--workers",
        "1",
        "--data",
        str(data),
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: starts(data) == {"a1slow": 1})
    if how is signal.SIGINT:
        with pytest.raises(LabError, match="another process works on grid tiny"):
            grid.run(grid.read(path), data, 1)
    process.send_signal(how)
    _, err = process.communicate(timeout=120)
    kernel = int((data / "runs/a1slow/starts").read_text())
    wait_for(lambda: not alive(kernel))
    if how is signal.SIGINT:
        assert process.returncode == 130 and "the same command continues" in err
        with (data / "grids/tiny/grid.csv").open() as file:
            assert [row["status"] for row in csv.DictReader(file)] == ["interrupted", "missing"]
        assert (data / "grids/tiny" / STOP).exists()
    (data / "cured").touch()
    done = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, timeout=240)
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["counts"] == {"done": 2}
    assert starts(data) == {"a1slow": 2, "a2slow": 1}


@pytest.mark.slow
def test_the_cells_run_on_a_dask_cluster(tmp_path):
    distributed = pytest.importorskip("distributed")
    import joblib

    path, data = grid_file(tmp_path, "grid: {a: [1, 2]}\ncells: [{a: 3, mode: raise}]"), tmp_path / "data"
    found = grid.read(path)
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        parents = set(client.run(os.getpid).values())
        assert len(parents) == 2
        with joblib.parallel_config("dask"):
            rows = grid.run(found, data)
    assert [r["status"] for r in rows] == ["done", "done", "failed"]
    assert rows[2]["error"] == "ValueError: made to fail: 3" and rows[0]["run_id"] == "a1"
    by = [read_status(data / "grids/tiny/cells" / c.key)["by"] for c in found.cells]
    assert {int(name.rpartition(":")[2]) for name in by} <= parents


# ---- the terminal


def test_the_live_table_is_redrawn_in_place_and_fits_the_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "10")
    found = grid.read(grid_file(tmp_path, f"grid: {{a: {list(range(30))}}}"))
    folder, screen = grid.folder_of(found, tmp_path / "data"), io.StringIO()
    for cell, state in zip(found.cells, ["done"] * 20 + ["failed", "running"]):
        home = folder / "cells" / cell.key
        home.mkdir(parents=True)
        status = {
            "state": state,
            "error": "ValueError: " + "x" * 90 if state == "failed" else "",
            "seconds": 2.0,
        }
        (home / "status.json").write_text(json.dumps({**status, "started_at": time.time() - 7}))
    display = Display(found, folder, screen, live=True)
    display.show()
    first = screen.getvalue().splitlines()
    assert len(first) == 8 and max(map(len, first)) <= 59
    assert [line[0] for line in first[:6]] == list("✓✓✓✓✗▸") and "7.0 s" in first[5]
    assert first[6:] == ["  … 24 more", "tiny: 20 of 30 done, 1 running, 1 failed, 8 to do"]
    display.show()
    assert "\x1b[8F\x1b[J" in screen.getvalue()


def test_the_paper_s_grid_is_valid():
    """Five arms, two domains, three seeds, four test models, 20 + 20 tasks, three trials."""
    found = grid.read(ROOT / "notebooks" / "paper.yaml")
    assert (
        len(found.cells) == 6 and found.axes == ("benchmark", "seed") and found.notebook.stem == "quickstart"
    )
    fixed = found.cells[0].parameters
    assert fixed["arms"] == "direct,human,self-evolution,ecdysis-no-fdcr,ecdysis"
    assert fixed["test_models"] == "sim/small,sim/medium,sim/large,sim/quirky"
    assert (fixed["train_tasks"], fixed["test_tasks"], fixed["trials"]) == (20, 20, 3)
