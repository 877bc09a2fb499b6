"""A report of many runs: one file that draws itself offline, with every number pooled by the honest unit."""

from __future__ import annotations

import base64
import io
import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import figure_data as data
import pandas as pd
import pytest

from ecdysis_lab.cli import notebooks, parser
from ecdysis_lab.evaluate.scores import read_scores, write_scores
from ecdysis_lab.records import LabError
from ecdysis_lab.show import report
from ecdysis_lab.show.tables import noise_table, readable
from ecdysis_lab.store import Run


def leave(root: Path, **other) -> Run:
    """A run as an experiment leaves it, with made-up numbers."""
    name = f"{other.get('benchmark', 'airline').rpartition('/')[2]}-s{other.get('seed', 0)}"
    made = data.made(data.ARMS5, data.MODELS4, run=name, **other)
    run = Run.open(root, name, {"seed": made.summary["seed"]})
    costs = {"wall_seconds": 800.0, "cost_usd": 1.25, "billed_usd": 1.0}
    run.summary = made.summary | costs
    write_scores(run, made.scores)
    return run


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Two domains, three seeds; one run measured its noise floor. And the report on all of them."""
    root = tmp_path_factory.mktemp("lab")
    for benchmark in ("tau2/retail", "tau2/airline"):
        for seed in (2, 0, 1):
            leave(root, seed=seed, benchmark=benchmark)
    run = Run(root / "runs/airline-s1")
    floor = {
        "repeats": 3,
        "n_tasks": 20,
        "trials": 3,
        "smallest_gain": 7,
        "null_accept_rate": 0.413,
        "sd": 3.6,
    }
    run.summary = {**run.summary, "noise_floor": floor}
    names = [f"{d}-s{s}" for d in ("airline", "retail") for s in (1, 0, 2)]
    path = report.write(names, root, root / "report.html", n_boot=200)
    return root, path, path.read_text()


def tables(page: str) -> list[pd.DataFrame]:
    """The HTML tables of a page; by_arm become numbers where they are."""
    found = []
    for text in re.findall(r"<table.*?</table>", page, re.DOTALL):
        head, *rows = [[c.text or "" for c in row] for row in ElementTree.fromstring(text).iter("tr")]
        found.append(pd.read_csv(io.StringIO(pd.DataFrame(rows, columns=head).to_csv(index=False))))
    return found


def headings(page: str) -> list[str]:
    return re.findall(r'<h[23] id="s\d+">(.*?)</h', page)


def test_a_table_is_escaped_and_its_numbers_stand_flush_right():
    frame = pd.DataFrame({"a<b": ["<script>", "x"], "n (%)": ["1,000.5", "–"], "share": [0.5, None]})
    page = readable(frame, "<i>", share="{:.0%}").set_uuid("t").to_html()
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert ">a&lt;b</th>" in page and "<caption>&lt;i&gt;</caption>" in page
    assert ">50%</td>" in page and page.count(">–</td>") == 2
    assert re.findall(r"td\.col(\d) \{\s+text-align: right", page) == ["1", "2"]


def test_a_noise_floor_that_could_not_be_measured_has_no_row():
    assert noise_table([{"seed": 0, "noise_floor": {"left_out": ["1"], "reason": "the user failed"}}]).empty


def test_the_report_has_every_section_once_per_domain(lab):
    found = headings(lab[2])
    assert found[:2] == ["Runs", "tau2/airline, trained on sim/small"]
    assert found[-2:] == ["Measured beside published", "Further published numbers"]
    for title in ("Accuracy by arm", "Gain by model", "Paired differences between arms", "Training rounds, seed 0",
                  "Training rounds, seed 2", "What training took", "Inference on the test split"):  # fmt: skip
        assert found.count(title) == 2, title
    assert found.count("Noise floor (A/A)") == 1
    assert len(re.findall(r'href="#s(\d+)"', lab[2])) == len(found)


def test_nothing_leaves_the_page_and_plotly_stands_in_it_once(lab):
    page = lab[2]
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", markup)
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)
    assert [len(s) > 1e6 for s in scripts].count(True) == 1 and len(page) < 8e6


def test_tables_hold_the_pooled_numbers(lab):
    frames = tables(lab[2])
    runs = frames[0]
    assert runs["run"].tolist() == [f"{d}-s{s}" for d in ("airline", "retail") for s in (0, 1, 2)]
    arms = frames[1].set_index(["arm", "model"])
    runs_of = [data.made(data.ARMS5, data.MODELS4, seed=s).summary for s in range(3)]
    each = [s["arms"]["ecdysis"]["sim/large"] for s in runs_of]
    row = arms.loc[("ecdysis", "sim/large")]
    assert row["accuracy (%)"] == pytest.approx(100 * sum(m["accuracy"] for m in each) / 3, abs=0.05)
    assert row["Pass^3 (%)"] == pytest.approx(100 * sum(m["pass^3"] for m in each) / 3, abs=0.05)
    assert (row["tasks"], row["trials"], row["seeds"]) == (20, 180, 3)
    low, high = (100 * f(m["accuracy"] for m in each) for f in (min, max))
    assert row["range over seeds (%)"] == f"{low:.0f}–{high:.0f}"
    assert len(arms) == 20
    pairs = next(f for f in frames if "against" in f)
    assert len(pairs) == 4 * 10
    floor = next(f for f in frames if "null edit accepted (%)" in f)
    assert floor["null edit accepted (%)"].tolist() == [41]


def test_each_figure_carries_its_table_and_footer(lab):
    links = re.findall(r'download="([\w.-]+)\.csv" href="data:text/csv;base64,([A-Za-z0-9+/=]+)"', lab[2])
    names = [re.sub(r"^s\d+-", "", name) for name, _ in links]
    shown = "gains-1 gains-2 transfer-1 cost_accuracy-2 phases-1 rounds-seed2-2 reference"
    for name in shown.split():
        assert name in names
    table = pd.read_csv(io.BytesIO(base64.b64decode(dict(zip(names, (c for _, c in links)))["gains-1"])))
    assert len(table) == 20 and table["n_seeds"].eq(3).all() and table["simulated"].all()
    footer = "run airline-s0, airline-s1, airline-s2 · commit c27b1459d0e4 · seeds 0, 1, 2"
    assert lab[2].count(json.dumps(footer)[1:-1]) >= 4
    foot = re.search(r"<footer>(.*?)</footer>", lab[2], re.DOTALL)[1]
    assert (
        "run airline-s0 and 5 more" in foot
        and "SIMULATED" in foot
        and "wall clock of its runs 4,800 s" in foot
    )


def test_published_numbers_stand_apart(lab):
    section = re.search(r'<section class="published">(.*?)</section>', lab[2], re.DOTALL)[1]
    assert "none of it was measured here" in section and "8120.6" in section and "159.60" in section
    assert lab[2].count("8120.6") == 1


def test_the_page_draws_every_figure_with_no_network(lab, needs, tmp_path):
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]
    options += [f"--user-data-dir={tmp_path}", "--virtual-time-budget=60000", "--dump-dom"]
    command = [needs("chromium"), *options, lab[1].as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout
    drawn = len(re.findall(r'<div class="[^"]*svg-container', dom))
    assert drawn == len(re.findall(r'id="fig-s\d+-', dom)) == 2 * 4 + 6 + 1
    assert ">SIMULATED</" in dom


def test_a_single_real_run_is_not_called_simulated_nor_pooled(tmp_path):
    leave(tmp_path, simulated=False)
    page = report.write([], tmp_path, tmp_path / "r.html", n_boot=200).read_text()
    assert "SIMULATED" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "Training rounds" in headings(page) and "range over seeds" not in page


def test_wrong_runs_are_refused(lab, tmp_path, capsys):
    root = lab[0]
    assert parser.main(["report", "airline-s9", "--data", str(root), "--out", str(tmp_path / "x.html")]) == 2
    assert "runs: 'airline-s9' is no run and no grid" in capsys.readouterr().err
    Run.open(tmp_path, "begun", {}).write_status("interrupted")
    with pytest.raises(LabError, match=r"begun has no summary.json yet \(state: interrupted\)"):
        report.find_runs(["begun"], tmp_path)
    with pytest.raises(LabError, match="no evaluated run in"):
        report.find_runs([], tmp_path)
    with pytest.raises(LabError, match=r"out: must end in \.html, got x\.txt"):
        report.write(["airline-s0"], root, tmp_path / "x.txt")


def test_a_grid_stands_for_the_runs_of_its_finished_cells(lab, tmp_path):
    for n, (name, state) in enumerate(
        (("airline-s0", "done"), ("airline-s1", "failed"), ("airline-s2", "done"))
    ):
        cell = lab[0] / f"grids/paper/cells/{n}"
        cell.mkdir(parents=True)
        (cell / "status.json").write_text(json.dumps({"state": state, "run": f"../../runs/{name}"}))
    for name in ("paper", str(lab[0] / "grids/paper"), str(lab[0] / "grids/paper/grid.csv")):
        assert [r.run_id for r in report.find_runs([name], lab[0])] == ["airline-s0", "airline-s2"]


@pytest.mark.slow
def test_the_notebook_writes_the_same_report(lab, tmp_path, capfd):
    given = {
        "runs": "airline-s0,airline-s1",
        "data": str(lab[0]),
        "out": str(tmp_path / "r.html"),
        "smoke": True,
    }
    assert notebooks.run("report", given, tmp_path / "out.ipynb") == 0
    assert f"report: {tmp_path / 'r.html'}" in capfd.readouterr().out
    assert "2 runs, seeds 0, 1." in (tmp_path / "r.html").read_text()


def test_why_the_model_itself_ended_trials_is_counted(tmp_path):
    run = leave(tmp_path)
    table = read_scores(run)
    assert "itself ended" not in report.build([run], 200).save(tmp_path / "none.html").read_text()
    chosen = (table["arm"] == "direct") & (table["model"] == data.MODELS4[0]) & (table["status"] == "scored")
    table.loc[chosen[chosen].index[:3], "reason"] = "context_full"
    write_scores(run, table)
    page = report.build([run], 200).save(tmp_path / "some.html").read_text()
    found = [t for t in tables(page) if list(t.columns) == ["arm", "model", "reason", "trials"]]
    assert [t.values.tolist() for t in found] == [[["direct", data.MODELS4[0], "context_full", 3]]]
