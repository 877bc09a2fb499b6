"""``hand``: review roles and editor played by files, interrupted between any two answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simlab import spec_of
from test_spec import CONTEXT, answer, change
from trainlab import Lab, settings

from ecdysis_lab.evaluate.experiment import Experiment
from ecdysis_lab.harness import load_harness
from ecdysis_lab.models import Waiting, complete, hand
from ecdysis_lab.models.sim.reviewer import reply
from ecdysis_lab.records import LabError, Review
from ecdysis_lab.review import editors
from ecdysis_lab.review.debate import Reviewer
from ecdysis_lab.review.editors.rules import RulesEditor
from ecdysis_lab.show.figures.style import Footer
from ecdysis_lab.show.rounds import text, told
from ecdysis_lab.show.widgets import AnswerField, show_review
from ecdysis_lab.store import Run, Store
from ecdysis_lab.train.loop import Trainer

BY_HAND = {"review_model": "hand", "editor": "hand", "rounds": 1, "train_tasks": 8, "trials": 1}
ROUND = ["analyst", "critic", "engineer"]


class Person:
    """Answers one prompt at a time as the simulated reviewer would, and edits as the rules editor would."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.spec = folder, [], ""  # type: ignore[var-annotated]

    def __call__(self, waiting: Waiting) -> None:
        (path,) = waiting.answers
        prompt = path.with_name(path.name.replace(hand.ANSWER, hand.PROMPT))
        role = hand.role_of(prompt)
        self.asked.append(role)
        said = self.edit() if role == "editor" else self.review(prompt.read_text(encoding="utf-8"))
        path.write_text(said, encoding="utf-8")

    def review(self, prompt: str) -> str:
        system, _, user = prompt.partition(hand.BETWEEN)
        self.spec = reply([{"content": system}, {"content": user}])
        return self.spec

    def edit(self) -> str:
        spec = spec_of(*(c["guard"] for c in json.loads(self.spec)["changes"]))
        made = RulesEditor().edit(load_harness("empty").path, spec, self.folder / "played")
        files = load_harness(made.path).files
        blocks = [
            f"<<<<<<< SEARCH {name}\n=======\n{source}>>>>>>> REPLACE\n" for name, source in files.items()
        ]
        return f"Here are my blocks.\n\n{''.join(blocks)}"


def finish(work: Callable[[], Any], person: Callable[[Waiting], None]) -> Any:
    """Start again after each answer, as a person would run the same command again."""
    for _ in range(20):
        try:
            return work()
        except Waiting as waiting:
            person(waiting)
    raise AssertionError("it never ends")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, Person, Any]:
    """A whole round of the arm ecdysis, stopped before each of its eight answers."""
    root = tmp_path_factory.mktemp("by-hand")
    lab, person = Lab(root, **BY_HAND), Person(root)
    return lab, person, finish(lab.train, person)


def test_a_whole_round_is_played_by_files(played: Any) -> None:
    lab, person, trained = played
    assert person.asked == [*ROUND, *ROUND, "moderator", "editor"]
    (record,) = trained.rounds
    assert (record.decision, record.editor_calls) == ("accepted", 1), record.reason
    assert set(lab.ran.values()) == {1}, "no trial ran twice"
    folder = lab.run.folder / "hand/ecdysis"
    assert [p.name for p in sorted(folder.glob("*.prompt.md"))] == [
        f"{n:03d}-{role}.prompt.md" for n, role in enumerate(person.asked, 1)
    ]
    assert hand.prompts(lab.run.folder) == []


def test_tokens_are_counted_and_the_cost_is_unknown(played: Any) -> None:
    lab, _, trained = played
    usage = trained.rounds[0].usage
    answers = sorted((lab.run.folder / "hand/ecdysis").glob("*.answer.md"))
    assert usage.calls == len(answers) == 8
    assert usage.completion_tokens == sum(len(p.read_text(encoding="utf-8").strip()) // 4 for p in answers)
    assert usage.prompt_tokens > 8 * 1000
    assert usage.cost_usd is None


def test_records_and_pages_say_who_answered(played: Any) -> None:
    lab, _, trained = played
    (record,) = trained.rounds
    round = lab.run.round("ecdysis", 1)
    assert [n.partition(":")[0] for n in record.notes if "by hand" in n] == [
        "reviewed by hand",
        "edited by hand",
    ]
    assert round.debate()["model"] == "hand"
    assert round.made(round.candidate_path(0))[0].editor == "hand"
    assert "ecdysis, round 1 (reviewed by hand, edited by hand)" in text(told(lab.run))
    assert "<h3>Debate, answered by hand</h3>" in show_review(lab.run, 1).html
    summary = {"run_id": "r", "seed": 0, "commit": "c", "arms": {}, "simulated": True}
    block = {"rounds": [{"notes": list(record.notes)}]}
    assert (
        " · reviewed by hand, edited by hand · "
        in Footer.of({**summary, "training": {"ecdysis": block}}).text
    )
    assert "by hand" not in Footer.of({**summary, "training": {"ecdysis": {"rounds": [{"notes": []}]}}}).text


def test_the_editor_alone_reads_spec_contract_and_harness(played: Any) -> None:
    lab, _, _ = played
    (prompt,) = (lab.run.folder / "hand/ecdysis").glob("*-editor.prompt.md")
    shown = prompt.read_text(encoding="utf-8")
    assert "# SPEC.md\n# Changes to make" in shown and "# CONTRACT.md\n# Editing a harness" in shown
    assert "<<<<<<< SEARCH actions.py" in shown


def test_no_template_is_named_where_a_person_edits(played: Any) -> None:
    lab, _, _ = played
    prompts = [p.read_text(encoding="utf-8") for p in (lab.run.folder / "hand/ecdysis").glob("*.prompt.md")]
    assert not any("canonical_argument" in shown for shown in prompts)


def test_the_rules_editor_has_its_templates_named(tmp_path: Path) -> None:
    lab, person = Lab(tmp_path, **BY_HAND | {"editor": "rules", "debate": 0}), Person(tmp_path)
    trained = finish(lab.train, person)
    assert person.asked == ["single", "moderator"]
    single, moderator = (p.read_text() for p in sorted((lab.run.folder / "hand/ecdysis").glob("*.prompt.md")))
    assert "canonical_argument" in moderator and "canonical_argument" not in single
    assert [n for n in trained.rounds[0].notes if "edited by hand" in n] == []


def test_without_debate_the_editor_finds_the_changes_itself(tmp_path: Path) -> None:
    lab = Lab(tmp_path, arm="ecdysis-no-fdcr", **BY_HAND)
    with pytest.raises(Waiting, match=r"001-editor.answer.md"):
        lab.train()
    shown = (lab.run.folder / "hand/ecdysis-no-fdcr/001-editor.prompt.md").read_text(encoding="utf-8")
    assert "# Find the changes yourself" in shown and "# Changes to make" not in shown
    assert "- P0 recurring: " in shown


def test_all_arms_wait_at_once(tmp_path: Path) -> None:
    chosen = settings(**BY_HAND, arms="ecdysis,ecdysis-no-fdcr", test_tasks=2)
    experiment = Experiment(chosen, tmp_path, "both")
    with pytest.raises(Waiting) as stopped:
        experiment.go()
    awaited = "ecdysis/001-analyst.answer.md, ecdysis-no-fdcr/001-editor.answer.md"
    assert f"waiting for 2 answers in {experiment.run.folder / 'hand'}: {awaited} " in str(stopped.value)
    assert experiment.run.status["state"] == "interrupted"


def test_the_trainer_asks_the_reviewer_with_its_own_time_limit(tmp_path: Path) -> None:
    server = {"review_model": "openai/x", "api_base": "http://127.0.0.1:9/v1", "review_timeout_seconds": 33}
    lab = Lab(tmp_path, editor="rules", **server)
    run = Run.open(tmp_path, "run", lab.settings.model_dump())
    trainer = Trainer(lab.settings, "ecdysis", run, Store(tmp_path))
    made = trainer._reviewer(run.round("ecdysis", 1))
    assert (made.params.timeout_seconds, made.params.api_base, made.vocabulary) == (
        33.0,
        server["api_base"],
        True,
    )


# -- one debate ------------------------------------------------------------------------------------------------------


class Desk:
    """A debate of one round in a folder, whose Moderator's answer is what matters."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, None
        self.moderator = folder / "004-moderator.answer.md"

    def review(self) -> Review:
        def save(state: Any) -> None:
            self.state = json.loads(json.dumps(state))

        with hand.folder(self.folder):
            return Reviewer("hand", rounds=1, load=lambda: self.state, save=save).review(CONTEXT)

    def until_the_moderator(self) -> Desk:
        for n, role in enumerate(ROUND, 1):
            with pytest.raises(Waiting):
                self.review()
            (self.folder / f"{n:03d}-{role}.answer.md").write_text(f"{role} says", encoding="utf-8")
        with pytest.raises(Waiting, match=r"waiting for 1 answer in .*004-moderator.answer.md"):
            self.review()
        return self


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path).until_the_moderator()


@pytest.mark.parametrize(
    "wrong, field",
    [
        (answer(change(), change(layer="action")), "changes.1.layer: Input should be 'contract'"),
        (answer(change(what="")), "changes.0.what: String should have at least 3 characters"),
        (answer() | {"changes": "none"}, "changes: Input should be a valid list"),
        (answer(change(evidence=["ffffffff#1"])), "no usable change: none of its evidence exists"),
        ("I agree with all.", "no complete JSON object with `changes` in the answer"),
    ],
)
def test_a_wrong_answer_is_refused_with_the_field_named(desk: Desk, wrong: Any, field: str) -> None:
    said = wrong if isinstance(wrong, str) else json.dumps(wrong)
    desk.moderator.write_text(said, encoding="utf-8")
    for _ in range(2):
        with pytest.raises(LabError) as refused:
            desk.review()
        assert f"{desk.moderator}: {field}" in str(refused.value)
        assert str(refused.value).endswith("; mend this file, then run the same command again")
    assert desk.moderator.read_text(encoding="utf-8") == said, "nothing is lost"
    assert len(list(desk.folder.glob("*.prompt.md"))) == 4, "nobody is asked for a repair"
    desk.moderator.write_text(json.dumps(answer()), encoding="utf-8")
    review = desk.review()
    assert (review.outcome, review.usage.calls) == ("spec", 4)
    assert [role for role, _ in review.turns] == [*ROUND, "moderator"]


def test_no_change_is_an_answer(desk: Desk) -> None:
    desk.moderator.write_text(json.dumps(answer() | {"changes": []}), encoding="utf-8")
    review = desk.review()
    assert (review.outcome, review.spec, review.reason) == (
        "no_spec",
        None,
        "no usable change: it asks for no change",
    )


def test_blank_is_no_answer_and_a_byte_order_mark_does_no_harm(desk: Desk) -> None:
    desk.moderator.write_text(" \n", encoding="utf-8")
    with pytest.raises(Waiting):
        desk.review()
    desk.moderator.write_bytes(b"\xff\xfe{")
    with pytest.raises(
        LabError, match=r"004-moderator.answer.md: byte 0 is no UTF-8; save the file as UTF-8"
    ):
        desk.review()
    desk.moderator.write_bytes(b"\xef\xbb\xbf" + json.dumps(answer()).replace("{", "{\r\n").encode())
    assert desk.review().outcome == "spec"


def test_another_prompt_is_another_file(desk: Desk) -> None:
    with hand.folder(desk.folder):
        for n in (5, 6):
            with pytest.raises(Waiting, match=f"00{n}-editor.answer.md"):
                complete("editor", "hand", [{"role": "user", "content": f"the {n}th"}])
        with pytest.raises(Waiting, match=r"005-editor.answer.md"):
            complete("editor", "hand", [{"role": "user", "content": "the 5th"}])
    assert len(hand.prompts(desk.folder)) == 3


def test_blocks_that_do_not_apply_are_refused(tmp_path: Path) -> None:
    editor, spec, start = editors.load("hand"), spec_of(None), load_harness("empty").path
    block = "<<<<<<< SEARCH actions.py\n{}\n=======\nx = 1\n>>>>>>> REPLACE\n"
    with hand.folder(tmp_path / "hand"):
        with pytest.raises(Waiting):
            editor.edit(start, spec, tmp_path / "out")
        path = tmp_path / "hand/001-editor.answer.md"
        path.write_text(block.format("no such line"), encoding="utf-8")
        with pytest.raises(
            LabError, match=r"001-editor.answer.md: - block 1: its SEARCH text does not occur in actions.py"
        ):
            editor.edit(start, spec, tmp_path / "out")
        path.write_text(block.format(""), encoding="utf-8")
        made = editor.edit(start, spec, tmp_path / "out")
    assert (made.outcome, made.editor, made.usage.calls) == ("edited", "hand", 1)
    assert (made.path / "actions.py").read_text() == "x = 1\n"


# -- where it may not be ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field, value", [("model", "hand"), ("user_model", "hand"), ("test_models", "sim/small,hand")]
)
def test_nobody_plays_the_agent_or_the_user_by_hand(field: str, value: str) -> None:
    with pytest.raises(
        LabError, match=f"^{field}: 'hand' plays review roles and the editor only; name a model$"
    ):
        settings(**{field: value})


def test_other_misuse_is_one_sentence(tmp_path: Path) -> None:
    with (
        hand.folder(tmp_path),
        pytest.raises(LabError, match="model 'hand' plays review roles and the editor, not the agent"),
    ):
        complete("agent", "hand", [])
    with pytest.raises(LabError, match="model 'hand' needs a run"):
        complete("critic", "hand", [])
    for name in ("litellm", "opencode"):
        with pytest.raises(
            LabError,
            match=f"editor '{name}' needs a real review model, got 'hand'; or choose the editor hand",
        ):
            editors.for_run(name, "hand")


# -- the field in a notebook ------------------------------------------------------------------------------------------


def test_a_pasted_answer_is_checked_and_saved(tmp_path: Path) -> None:
    run = tmp_path / "runs/r"
    desk = Desk(run / "hand/ecdysis")
    field = AnswerField(run)
    assert "No prompt waits." in field.status.value
    desk.until_the_moderator()
    field.look()
    assert field.choice.label == "ecdysis/004-moderator.prompt.md"
    assert field.prompt.value.startswith("You review failed trials")
    for pasted, why in (
        ("", "the answer is empty"),
        (json.dumps(answer(change(layer="x"))), "changes.0.layer: "),
    ):
        field.answer.value = pasted
        assert not field.save() and f"NOT saved: {why}" in field.status.value
        assert field.answer.value == pasted and not desk.moderator.exists()
    field.answer.value = f"Here it is:\n{json.dumps(answer())}"
    assert field.save() and "Saved 004-moderator.answer.md" in field.status.value
    assert (field.waiting, field.answer.value, field.prompt.value) == ([], "", "")
    assert not field.save() and "no prompt is open" in field.status.value
    assert desk.review().outcome == "spec"


def test_a_prose_role_takes_any_text(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "runs/r/hand/ecdysis")
    with pytest.raises(Waiting):
        desk.review()
    field = AnswerField(tmp_path / "runs/r")
    field.answer.value = "Nothing to propose."
    assert field.save()
    with pytest.raises(Waiting, match="002-critic"):
        desk.review()
