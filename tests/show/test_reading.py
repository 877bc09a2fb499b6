"""One round to read: review, diff, gates, labels; from real simulated trials and from hostile texts."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2")

from simlab import bench, trials
from widget_data import ATTACK, write_jsonl

from ecdysis_lab.evaluate import evolution
from ecdysis_lab.evaluate.accommodation import Judgement
from ecdysis_lab.evaluate.accommodation_facts import evidence_of, isolated, judgements_of
from ecdysis_lab.evaluate.agreement import DEFECT, QUIRK, UNSURE, Label, read_labels
from ecdysis_lab.failures.cards import find_failures
from ecdysis_lab.failures.embedding import embedder
from ecdysis_lab.failures.importing import import_traces
from ecdysis_lab.failures.patterns import find_patterns
from ecdysis_lab.failures.subset import all_failures
from ecdysis_lab.harness import copy_harness, load_harness
from ecdysis_lab.records import (
    Change,
    Edit,
    Failure,
    GateResult,
    Judged,
    LabError,
    Patterns,
    Review,
    RoundRecord,
    Spec,
    Usage,
)
from ecdysis_lab.review.context import build_context
from ecdysis_lab.review.debate import Reviewer
from ecdysis_lab.review.editors.rules import RulesEditor
from ecdysis_lab.show import rounds
from ecdysis_lab.show.widgets.annotator import EditAnnotator
from ecdysis_lab.show.widgets.debate import show_review
from ecdysis_lab.show.widgets.diff import diff_html
from ecdysis_lab.show.widgets.gates_view import decision_line, gates_table, round_diff
from ecdysis_lab.show.widgets.labels import EditLabels
from ecdysis_lab.store import Run, Store

ROOT = Path(__file__).resolve().parents[2]


def record(**other: Any) -> RoundRecord:
    base: dict[str, Any] = {
        "round": 1, "failures": 5, "patterns": 2, "recurring": 1, "subset": 2, "decision": "accepted",
        "gate": "improvement", "reason": "training score rises from 3 to 5 of 8", "score_before": 3.0,
        "score_after": 5.0, "gained": ("1#0", "2#0"), "lost": (), "editor_calls": 1, "harness": "", "candidate": "c",
        "seconds": {}, "usage": Usage(),
    }  # fmt: skip
    return RoundRecord(**(base | other))


def write_round(run: Run, failures: list[Failure], patterns: Patterns, review: Review, n: int = 1) -> None:
    """The files that a round leaves, as far as reading needs them."""
    round = run.round("ecdysis", n)
    round.failures, round.patterns, round.subset = failures, patterns, all_failures(failures)
    round.review = review
    round.save_debate({"context": "", "turns": review.turns, "usage": {}})


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Store, Review]:
    """A round of ``sim/small`` in the empty harness, and the trials of ``sim/medium`` on the same tasks."""
    root = tmp_path_factory.mktemp("real")
    store, run = Store(root), Run.open(root, "run", {"model": "sim/small"})
    mine = trials("retail", "sim/small", "empty", 12)
    for trajectory in (*mine, *trials("retail", "sim/medium", "empty", 12)):
        store.put(trajectory)
    failures = find_failures(mine, benchmark=bench("retail"))
    patterns = find_patterns(failures, embedder("tfidf"), stability=False)
    start = load_harness("empty")
    context = build_context(
        failures, patterns, all_failures(failures), [t for t in mine if t.success], start,
        bench("retail"), contract="",
    )  # fmt: skip
    review = Reviewer("sim/reviewer").review(context)
    assert review.spec is not None and review.spec.changes
    write_round(run, failures, patterns, review)
    copy_harness(start, run.harness_path(start.hash))
    round = run.round("ecdysis", 1)
    made = RulesEditor().edit(start.path, review.spec, round.candidate_path(0))
    gates = (
        GateResult("static", "passed", asks="imports"),
        GateResult("legal", "passed", "", {"replays": 7, "shown": ["a", "b"]}, "no act refused", 0.25),
        GateResult(
            "improvement", "passed", "training score rises", {"pairs": 8, "sign_test_p": 0.5}, "it rises"
        ),
    )
    round.record = record(
        parent=start.hash, candidate=made.hash, harness=made.hash, candidates=(Judged(made.hash, gates),)
    )
    return run, store, review


class Tags(HTMLParser):
    """Elements, ids and links of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.handlers: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.names.add(tag)
        self.ids += [str(found["id"])] if "id" in found else []
        self.links += [str(found["href"])] if "href" in found else []
        self.handlers += [(tag, name) for name in found if name.startswith("on")]


# -- the review -----------------------------------------------------------------------------------------------------


def test_the_debate_is_shown_turn_by_turn(real: Any) -> None:
    page = show_review(real[0], 1).html
    for text in (
        "Round 1 of the debate",
        "Round 2 of the debate",
        "Close",
        "<b>Analyst</b>",
        "<b>Moderator</b>",
    ):
        assert text in page
    assert page.count('<div class="el-turn el-') == 7
    assert page.index("<b>Analyst</b>") < page.index("<b>Critic</b>") < page.index("<b>Engineer</b>")
    assert f"Spec: {len(real[2].spec.changes)} changes" in page
    shown = show_review(str(real[0].folder), 1)._repr_html_()
    assert shown.endswith(page) and ".el-turn {" in shown.split("</style>")[0]


def test_every_reference_leads_to_its_step(real: Any) -> None:
    page = Tags(show_review(real[0], 1).html)
    cited = {e for c in real[2].spec.changes for e in c.evidence}
    assert cited
    targets = {link.removeprefix("#") for link in page.links}
    assert len(targets) >= len({e.split("#")[0] for e in cited})
    assert targets <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_without_the_trials_references_are_plain_text(real: Any, tmp_path: Path) -> None:
    run = Run(tmp_path / "runs/r")
    one, other = run.round("ecdysis", 1), real[0].round("ecdysis", 1)
    one.review, one.failures = other.review, other.failures
    page = show_review(run, 1).html
    assert Tags(page).links == []
    assert real[2].spec.changes[0].evidence[0] in page
    assert "keep a run beside its trials.sqlite" in page


@pytest.fixture
def hostile(tmp_path: Path) -> Run:
    """A round in which every text that a stranger wrote holds markup."""
    store, run = Store(tmp_path), Run.open(tmp_path, "run", {})
    trajectories = import_traces(write_jsonl(tmp_path / "t.jsonl")).trajectories
    for trajectory in trajectories:
        store.put(trajectory)
    failures = find_failures(trajectories)
    patterns = find_patterns(failures, embedder("tfidf"), stability=False)
    where = f"{failures[0].key[:8]}#3"
    change = Change("actions", "actions.py", ATTACK, ATTACK, (where,), (ATTACK,), {"kind": ATTACK}, 0)
    spec = Spec((ATTACK,), (change,), (ATTACK,), ATTACK, ((ATTACK, f"none of its evidence exists {ATTACK}"),))
    turns = (
        ("analyst", f"{ATTACK} {where} and ffffffff#1"),
        (ATTACK, ATTACK),
        ("moderator", json.dumps(ATTACK)),
    )
    write_round(run, failures, patterns, Review("spec", spec, turns, Usage()))
    return run


def test_markup_in_a_trajectory_or_an_answer_is_inert(hostile: Run) -> None:
    shown = show_review(hostile, 1).html
    page = Tags(shown)
    assert not page.names & {"script", "img", "iframe", "object", "svg"}
    assert {tag for tag, name in page.handlers} == {"a"}, "only our own links have a handler"
    assert "&lt;script&gt;window.hacked = 1&lt;/script&gt;" in shown
    assert "ffffffff#1" in shown and not any("ffffffff" in link for link in page.links)
    assert "dropped because" in shown and "none of its evidence exists" in shown


def test_an_unfinished_debate_and_no_spec_are_told(hostile: Run) -> None:
    round = hostile.round("ecdysis", 1)
    round.review = replace(round.review, spec=None, reason=f"no usable change: {ATTACK}")
    page = show_review(hostile, 1).html
    assert "No spec: no usable change: &lt;script&gt;" in page and "script" not in Tags(page).names
    (hostile.folder / round.place / "review.json").unlink()
    assert "The debate is not finished." in show_review(hostile, 1).html
    with pytest.raises(LabError, match=r"no review of round 7 of arm 'ecdysis'; it has ecdysis-1"):
        show_review(hostile, 7)


def test_the_arm_that_edits_failure_by_failure_is_shown_too(tmp_path: Path) -> None:
    run = Run(tmp_path / "r")
    round = run.round("self-evolution", 1)
    round.edits = (Edit("k", "7", "p", "p", "rejected", "static", f"import of os {ATTACK}"),)
    round.save_debate({"turns": [["moderator", ATTACK]]}, 1)
    page = show_review(run, 1, arm="self-evolution").html
    assert "1. task 7: rejected by static" in page and "import of os" in page
    assert not Tags(page).names & {"script", "img"}


# -- the diff -------------------------------------------------------------------------------------------------------


def test_both_sides_stand_beside_each_other_with_the_changed_words_marked() -> None:
    before = {"actions.py": "".join(f"line {n}\n" for n in range(40)) + "limit = 3\n", "same.py": "x\n"}
    after = {**before, "actions.py": before["actions.py"].replace("limit = 3", "limit = 5")}
    page = diff_html(before, after)
    assert "same.py" not in page
    assert "1 lines added, 1 taken out" in page
    assert '<td class="el-old">limit = <del>3</del></td>' in page
    assert '<td class="el-new">limit = <ins>5</ins></td>' in page
    assert "⋯ 36 lines the same" in page
    assert page.count('<td class="el-no">41</td>') == 2


def test_new_and_removed_files_and_markup() -> None:
    page = diff_html({"a.py": "gone\n"}, {"b.py": f"{ATTACK}\n"})
    assert "removed, 0 lines added, 1 taken out" in page and "new file, 1 lines added" in page
    assert not Tags(page).names & {"script", "img"}
    assert "No file differs." in diff_html({"a.py": "x"}, {"a.py": "x"})


def test_a_huge_file_is_cut_and_counted() -> None:
    page = diff_html({}, {"a.py": "x\n" * 5000})
    assert "… 3,500 more rows" in page and len(page) < 400_000


def test_the_edit_of_a_round(real: Any) -> None:
    page = round_diff(real[0], "ecdysis", 1).html
    assert "# guard: " in page and "new file" in page


# -- gates ----------------------------------------------------------------------------------------------------------


def test_the_gates_that_ran_stand_in_order_with_their_numbers(real: Any) -> None:
    table = gates_table(real[0], "ecdysis", 1)
    assert table["gate"].tolist() == ["static", "legal", "improvement"]
    assert table["outcome"].tolist() == ["passed"] * 3
    assert table["told"].tolist() == [
        "", "replays 7, shown 2", "training score rises; pairs 8, sign test p 0.5",
    ]  # fmt: skip
    assert (table["asks"].iloc[1], table["seconds"].iloc[1]) == ("no act refused", 0.25)


def test_a_reader_knows_no_order_of_gates(tmp_path: Path) -> None:
    """Whatever ran is shown as it ran, for each candidate: a gate twice, one after another, one never heard of."""
    run = Run(tmp_path / "r")
    first = (GateResult("odd", "rejected", "not odd", {"n": 2}, asks="odd"),)
    second = (
        GateResult("confirm", "passed"),
        GateResult("probe", "passed"),
        GateResult("probe", "rejected", "broke"),
    )
    run.round("ecdysis", 1).record = record(
        decision="rejected", gate="probe", candidates=(Judged("a", first), Judged("b", second))
    )
    table = gates_table(run, "ecdysis", 1)
    assert list(zip(table["candidate"], table["gate"], table["outcome"], strict=True)) == [
        (1, "odd", "rejected"), (2, "confirm", "passed"), (2, "probe", "passed"), (2, "probe", "rejected"),
    ]  # fmt: skip
    assert rounds.told(run)["rounds"][0]["lacked"] == " (probe): broke"
    run.round("ecdysis", 2).record = record(round=2, decision="no_spec", gate="", candidates=())
    assert len(gates_table(run, "ecdysis", 2)) == 0


def test_the_decision_in_one_sentence(real: Any) -> None:
    assert decision_line(real[0], "ecdysis", 1) == (
        "ACCEPTED, last gate improvement: training score rises from 3 to 5 of 8. Training score 3 → 5, gained 2; "
        "editor calls 1."
    )
    with pytest.raises(LabError, match="no round 9 of arm 'ecdysis'; it has ecdysis-1"):
        decision_line(real[0], "ecdysis", 9)


# -- decisions on a run ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def decisions(real: Any) -> list[Judgement]:
    return judgements_of(real[0], real[1], embedder=embedder("tfidf"))


def test_every_change_of_a_run_is_decided_with_reasons(real: Any, decisions: list[Judgement]) -> None:
    changes = real[2].spec.changes
    assert [d.id for d in decisions] == [f"ecdysis-1.{i + 1}" for i in range(len(changes))]
    for d, change in zip(decisions, changes, strict=True):
        assert (d.what, d.layer, d.outcome, d.model) == (change.what, change.layer, "accepted", "sim/small")
        assert set(d.seen) == {"sim/small", "sim/medium"}
        assert d.reasons
        assert bool(d.fired) == (change.layer in ("actions", "regulation"))
    assert decisions == judgements_of(real[0], real[1], embedder=embedder("tfidf"))


def test_a_trigger_fires_on_the_failures_that_show_it(real: Any, decisions: list[Judgement]) -> None:
    fired = [d.fired["sim/small"][0] for d in decisions if d.fired]
    assert fired and max(fired) >= 1
    quiet = judgements_of(real[0], real[1], embedder=embedder("tfidf"), replays=False)
    assert all(d.fired == {} for d in quiet)


def test_one_change_is_taken_alone(real: Any, tmp_path: Path) -> None:
    found = evidence_of(real[0].round("ecdysis", 1), real[1])
    assert found.parent is not None and found.candidate is not None
    guarded = [c for c in found.changes if c.layer == "actions"]
    alone = isolated(found.parent, found.candidate, guarded[0], tmp_path / "one")
    assert alone is not None
    assert alone.files["actions.py"].count("# guard: ") == 1
    by_file = isolated(found.parent, found.candidate, replace(guarded[0], guard=None), tmp_path / "file")
    assert by_file is not None and by_file.files["actions.py"] == found.candidate.files["actions.py"]
    untouched = Change("skills", "skills.py", "w", "", ())
    assert isolated(found.parent, found.candidate, untouched, tmp_path / "none") is None


def test_a_run_without_its_trials_is_told(real: Any, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="failures of round 1 of arm ecdysis are not in the store"):
        judgements_of(real[0], Store(tmp_path))
    with pytest.raises(LabError, match="there is no folder"):
        judgements_of(Run(tmp_path / "nothing"), Store(tmp_path))


# -- a person's labels ----------------------------------------------------------------------------------------------


def three() -> list[Judgement]:
    base = Judgement(
        "x-1.1", "x", 1, 1, "accepted", "actions", ATTACK, ATTACK, ATTACK, (), "a", True, (ATTACK,)
    )
    return [
        base,
        replace(base, id="x-1.2", model_specific=False),
        replace(base, id="x-1.3", model_specific=None),
    ]


def test_labels_are_saved_as_they_are_given_and_re_opened(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    state = EditLabels(three(), path)
    state.label(QUIRK)
    assert (state.current, read_labels(path)) == (1, {"x-1.1": Label(QUIRK)})
    state.note("see step 4")
    state.press("d")
    assert read_labels(path)["x-1.2"] == Label(DEFECT, "see step 4")
    assert state.summary() == "2 of 3 labelled; agreement with the automatic judgement: κ 1.00, n = 2"
    again = EditLabels(three(), path)
    assert (again.labels, again.current, again.message) == (state.labels, 2, "Re-opened: 2 of 3 labelled.")
    again.press("ArrowLeft")
    again.press("ArrowLeft")
    again.press("x")
    assert again.current == 0
    again.press("u")
    assert read_labels(path)["x-1.1"] == Label(UNSURE)
    assert again.current == 2, "on to the next one without a label"
    with pytest.raises(LabError, match="label: unknown 'perhaps'"):
        again.label("perhaps")


def test_labels_of_other_changes_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    EditLabels(three(), path).label(QUIRK)
    before = path.read_text()
    with pytest.raises(LabError, match=r"labels 1 changes that are not among these 1 \(e.g. x-1.1\)"):
        EditLabels(three()[1:2], path)
    assert path.read_text() == before


def test_a_disk_that_says_no_is_told() -> None:
    state = EditLabels(three(), "/proc/no-such-folder/labels.csv")
    state.label(DEFECT)
    assert state.message.startswith("NOT SAVED: cannot use /proc/no-such-folder")
    assert state.labels["x-1.1"] == Label(DEFECT)


def test_the_annotator_shows_the_state(tmp_path: Path) -> None:
    shown = EditAnnotator(three(), tmp_path / "l.csv", blind=True)
    assert "1 of 3 · x-1.1" in shown.head.value and "hidden until you have labelled it" in shown.head.value
    shown.buttons[QUIRK].click()
    assert "2 of 3 · x-1.2" in shown.head.value
    shown.note.value = "why not"
    shown.state.press("ArrowLeft")
    assert "Automatic: model quirk" in shown.head.value, "after the label it is shown"
    assert (shown.buttons[QUIRK].button_style, shown.buttons[DEFECT].button_style) == ("primary", "")
    assert read_labels(tmp_path / "l.csv")["x-1.2"] == Label("", "why not")
    for html in (shown.head.value, shown.body.value, shown.status.value):
        assert not Tags(html).names & {"script", "img"}
    assert EditAnnotator([]).box.value.startswith("<b>The run proposed no change")


def test_the_annotator_of_a_run_shows_evidence_and_edit(real: Any) -> None:
    shown = EditAnnotator.of_run(real[0], store=real[1], embedder=embedder("tfidf"), replays=False)
    first = real[2].spec.changes[0]
    assert first.evidence[0] in shown.body.value and "<pre>[" in shown.body.value
    assert 'class="el-diff"' in shown.body.value
    assert shown.reader.key.startswith(first.evidence[0].split("#")[0])
    shown.state.label(UNSURE)
    assert (
        (real[0].folder / "labels.csv")
        .read_text()
        .startswith("id,label,note,automatic,outcome,layer,what,reasons\n")
    )


# -- the notebook ---------------------------------------------------------------------------------------------------


def test_what_cannot_be_shown_is_told_before_anything_runs(tmp_path: Path) -> None:
    for arm, told in (("human", "'human' is not trained"), ("magic", "'magic' is unknown")):
        with pytest.raises(LabError, match=f"arm: {told}; choose one of .*ecdysis"):
            evolution.prepare_training({}, arm, tmp_path)
    with pytest.raises(LabError, match="is no run folder"):
        evolution.prepare_training({}, "ecdysis", tmp_path, show=str(tmp_path))
    with pytest.raises(LabError, match="benchmark: unknown 'sea'"):
        evolution.prepare_training({"benchmark": "sea"}, "ecdysis", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_read_as_it_is(real: Any) -> None:
    arm = evolution.prepare_training({}, "ecdysis", "", show=str(real[0].folder))
    arm.train()
    assert (arm.simulated, arm.choose(), arm.has_patterns(1), arm.has_review(1)) == (True, 1, True, True)
    assert arm.rounds()["score_after"].tolist() == [5]
    with pytest.raises(LabError, match="round: there is no round 4; choose from 1"):
        arm.choose(4)
    none = replace(arm, arm="ecdysis-no-fdcr")
    with pytest.raises(LabError, match="no finished round of arm 'ecdysis-no-fdcr'"):
        none.choose()


@pytest.mark.slow
def test_the_notebook_runs_by_plain_papermill(tmp_path: Path) -> None:
    """From the project's folder, as a stranger would call it."""
    out = tmp_path / "out.ipynb"
    command = [
        sys.executable,
        "-m",
        "papermill",
        "notebooks/evolve.ipynb",
        str(out),
        "--log-level",
        "ERROR",
    ]
    wanted = {
        "benchmark": "tau2/retail",
        "arm": "ecdysis",
        "smoke": True,
        "embedder": "tfidf",
        "data": str(tmp_path / "data"),
    }
    command += [part for name, value in wanted.items() for part in ("-p", name, str(value))]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    outputs = [o for c in json.loads(out.read_text())["cells"] for o in c.get("outputs", [])]
    html = "".join("".join(o.get("data", {}).get("text/html", "")) for o in outputs)
    said = "".join("".join(o.get("text", "")) for o in outputs)
    assert "SIMULATED" in said and "read below: round 1" in said
    for part in ("<h3>Debate</h3>", 'class="el-diff"', "no fact of a training task in the diff"):
        assert part in html
    (run,) = (tmp_path / "data/runs").iterdir()
    assert json.loads((run / "status.json").read_text())["state"] == "done"
