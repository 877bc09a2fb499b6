"""The round loop on real environments: records, ledger, acceptance, and going on after a stop at any point."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("tau2")

from openai_server import OpenAIServer, status
from simlab import bench
from trainlab import Lab, settings

from ecdysis_lab.harness import SHIPPED, copy_harness, diff_harness, load_harness
from ecdysis_lab.models import complete
from ecdysis_lab.records import Candidate, Edit, GateResult, LabError, RoundRecord, Spec
from ecdysis_lab.review.context import Context
from ecdysis_lab.review.debate import Reviewer
from ecdysis_lab.review.editors.rules import RulesEditor
from ecdysis_lab.store import Round, Run, Store
from ecdysis_lab.train import gates, judging, loop
from ecdysis_lab.train.arm_run import ArmRun
from ecdysis_lab.train.gates import GATES
from ecdysis_lab.train.judge import Judge
from ecdysis_lab.train.loop import Trainer
from ecdysis_lab.train.one_by_one import ALL_HANDED_OVER
from ecdysis_lab.train.pruning import Pruning
from ecdysis_lab.train.rounds import Trained, training_block
from ecdysis_lab.train.settings import Settings
from ecdysis_lab.train.showing import NOTHING_LEFT, choose, opened


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, Trained]:
    lab = Lab(tmp_path_factory.mktemp("done"))
    return lab, lab.train()


def timeless(value: Any) -> Any:
    """The same without seconds, at any depth."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k != "seconds"}
    return [timeless(v) for v in value] if isinstance(value, (list, tuple)) else value


def plain(record: RoundRecord) -> dict[str, Any]:
    """A record without times."""
    return {**timeless(asdict(record)), "phases": sorted(record.seconds)}


# -- a run ----------------------------------------------------------------------------------------------------------


def test_a_candidate_is_accepted_only_with_a_strict_rise(done: Any) -> None:
    lab, trained = done
    assert trained.rounds
    assert any(r.score_after is not None for r in trained.rounds), "some round reaches the rerun"
    for record in trained.rounds:
        rises = record.score_after is not None and record.score_after > record.score_before
        single = lab.run.round("ecdysis", record.round).subset.auxiliary
        passed = record.gate == ("confirm" if single else "improvement")
        assert (record.decision == "accepted") == (rises and passed)
        assert (record.harness == record.candidate) == (record.decision == "accepted")
        if record.score_after is not None:
            assert record.score_after - record.score_before == len(record.gained) - len(record.lost)


def test_the_chain_of_harnesses(done: Any) -> None:
    """Each round starts from what the one before left; the last one is frozen."""
    lab, trained = done
    now = load_harness("empty").hash
    for record in trained.rounds:
        now = record.candidate if record.decision == "accepted" else now
        assert record.harness == now
    assert trained.harness.hash == now
    kept = {p.name for p in lab.run.harness_path("").iterdir()}
    assert kept == {
        load_harness("empty").hash,
        *(r.candidate for r in trained.rounds if r.decision == "accepted"),
    }
    assert all(load_harness(lab.run.harness_path(h)).hash == h for h in kept)


def test_the_next_round_starts_at_the_accepted_score(done: Any) -> None:
    _, trained = done
    for one, two in zip(trained.rounds, trained.rounds[1:], strict=False):
        assert two.score_before == (one.score_after if one.decision == "accepted" else one.score_before)
        assert two.failures == 24 - two.score_before


def test_one_ledger_line_a_round(done: Any) -> None:
    lab, trained = done
    ledger = lab.run.ledger()
    assert [(e["arm"], e["round"]) for e in ledger] == [("ecdysis", r.round) for r in trained.rounds]
    for entry, record in zip(ledger, trained.rounds, strict=True):
        assert entry["decision"] == record.decision
        assert entry["reason"] == record.reason
        if record.gate == "improvement":
            last = gate(record, "improvement").numbers
            assert last["pairs"] == 24 and 0 <= last["sign_test_p"] <= 1
            assert (last["before"], last["after"]) == (record.score_before, record.score_after)
            assert entry["diff_lines"] > 3


def gate(record: RoundRecord, name: str) -> GateResult:
    """What a gate said last of a candidate of the round."""
    return [g for judged in record.candidates for g in judged.gates if g.name == name][-1]


def test_a_record_holds_every_gate_that_ran(done: Any) -> None:
    """In order, each with what it asks; what a reader sees of a round needs no other list."""
    lab, trained = done
    for record in trained.rounds:
        assert lab.run.round("ecdysis", record.round).record == record
        for made in record.candidates:
            order = iter(gates.GATES)
            assert all(any(g.name == name for g in order) for name in [r.name for r in made.gates])
            assert all(r.asks and r.seconds >= 0 for r in made.gates)
            assert all(r.outcome != "rejected" for r in made.gates[:-1])
        last = record.candidates[-1]
        assert last.candidate == record.candidate
        assert (last.gates[-1].outcome == "rejected") == (record.decision == "rejected")


def test_a_round_leaves_its_evidence(done: Any) -> None:
    lab, trained = done
    first = trained.rounds[0]
    files = {p.name for p in lab.run.path("rounds/ecdysis-1").iterdir()}
    wanted = {
        "context.md",
        "patterns.json",
        "subset.json",
        "failures.json",
        "review.json",
        "debate.json",
        "record.json",
        "shown.json",
    }
    assert wanted | {"candidate.diff", "candidate-0"} <= files
    round = lab.run.round("ecdysis", 1)
    review, subset, failures = round.review, round.subset, round.failures
    assert [role for role, _ in review.turns] == ["analyst", "critic", "engineer"] * 2 + ["moderator"]
    assert len(subset.picks) == first.subset == first.failures and set(subset.keys) == {
        f.key for f in failures
    }
    assert set(round.shown) == set(subset.keys), "all of them fit"
    cited = {e.split("#")[0] for c in review.spec.changes for e in c.evidence}
    assert cited and cited <= {f.key[:8] for f in failures}


def test_planted_causes_stay_out_of_the_run_folder(done: Any) -> None:
    lab, _ = done
    for path in lab.run.folder.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert not any(word in text for word in ('"truth": {"', '"fatal"', '"slips"')), path


def test_finished_trials_are_run_once(done: Any) -> None:
    lab, _ = done
    assert set(lab.ran.values()) == {1}
    assert len(lab.store.keys()) >= len(lab.ran)
    again = Lab(lab.root)
    repeated = again.train()
    assert again.ran == Counter()
    assert [plain(r) for r in repeated.rounds] == [plain(r) for r in done[1].rounds]
    assert len(again.run.ledger()) == len(repeated.rounds)


def test_an_unchanged_trial_is_taken_over(done: Any) -> None:
    """Of the rerun, only tasks whose replay differs are run; the ledger says how many were reused."""
    lab, trained = done
    for entry in (e for e in lab.run.ledger() if e["gate"] == "improvement"):
        record = trained.rounds[entry["round"] - 1]
        whole = next(j.candidate for j in record.candidates if any(g.name == "improvement" for g in j.gates))
        there = lab.store.trajectories(
            harness=whole, split="train"
        )  # confirmation's, where it is not pruned, too
        reran = [t for t in there if not t.reused_from and t.trial.seed in lab.settings.seeds]
        assert len(reran) + gate(record, "improvement").numbers["reused"] == 24
        held = lab.store.trajectories(harness=entry["candidate"], split="train")
        known = [t for t in held if t.trial.seed in lab.settings.seeds]
        assert len(known) == 24 or entry["decision"] != "accepted", "its trials are known, pruned or not"
    assert trained.rounds


# -- stops ------------------------------------------------------------------------------------------------------------


class Once:
    """Wraps a function so that one call of it is interrupted, before or after its work."""

    def __init__(self, real: Callable[..., Any], nth: int = 1, after: bool = False) -> None:
        self.real, self.left, self.after = real, nth, after

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return lambda *a, **k: self(owner, *a, **k)

    def __call__(self, *args: Any, **named: Any) -> Any:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise KeyboardInterrupt
        result = self.real(*args, **named)
        if self.left == 0:
            raise KeyboardInterrupt
        return result


STOPS: dict[str, tuple[Any, str, int, bool]] = {
    "editor, round 1": (RulesEditor, "edit", 1, False),
    "editor, round 1, edited": (RulesEditor, "edit", 1, True),
    "editor, round 2": (RulesEditor, "edit", 2, True),
    "twentieth trial": (Lab, "note", 20, True),
    "a trial of the rerun": (Lab, "note", 26, True),
    "third turn of the debate": (Round, "save_debate", 3, True),
    "the moderator": (Round, "save_debate", 7, True),
    "evidence": (Trainer, "_evidence", 1, True),
    "review": (Reviewer, "review", 1, True),
    "evidence of the round written": (Trainer, "_save_round", 1, True),
    "replays": (judging, "replay", 9, True),
    "comparison": (judging, "compare", 1, True),
    "trials of pruning": (Pruning, "_tried", 2, True),
    "judged": (Judge, "judge", 1, True),
    "kept": (ArmRun, "keep", 2, True),
    "in the ledger, not on record": (Run, "append_ledger", 1, True),
    "on record": (ArmRun, "write_record", 1, True),
    "round 2 begins": (loop, "find_failures", 2, False),
}


QUICK = (
    "twentieth trial",
    "the moderator",
    "editor, round 1, edited",
    "kept",
    "in the ledger, not on record",
)


@pytest.mark.parametrize(
    "where", [w if w in QUICK else pytest.param(w, marks=pytest.mark.slow) for w in STOPS]
)
def test_a_stop_anywhere_changes_nothing(
    where: str, done: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no trial is in hand the finished ones are lent, so that any trial that is run is one too many."""
    owner, name, nth, after = STOPS[where]
    wanted_lab, wanted = done
    rounds = 2 if "round 2" in where else 1
    lab = Lab(tmp_path, None if "trial" in where else wanted_lab, rounds=rounds)
    once = Once(getattr(owner, name), nth, after)
    monkeypatch.setattr(owner, name, once)
    with pytest.raises(KeyboardInterrupt):
        lab.train()
    found = lab.train()
    assert once.left <= 0
    assert [plain(r) for r in found.rounds] == [plain(r) for r in wanted.rounds[:rounds]]
    assert found.harness.hash == wanted.rounds[rounds - 1].harness
    assert [(e["round"], e["decision"]) for e in lab.run.ledger()] == [
        (r.round, r.decision) for r in wanted.rounds[:rounds]
    ]
    if "trial" in where:
        assert set(lab.ran) <= set(wanted_lab.ran)
        assert set(lab.ran) == {t.key for t in lab.store.trajectories() if not t.reused_from}
        assert sum(n > 1 for n in lab.ran.values()) <= 1, "at most the trial that was in hand"
    else:
        assert lab.ran == Counter()


def test_other_evidence_under_the_same_round_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    lab = Lab(tmp_path)
    monkeypatch.setattr(Round, "save_debate", Once(Round.save_debate, 2, True))
    with pytest.raises(KeyboardInterrupt):
        lab.train()
    monkeypatch.setattr(loop, "choose", lambda how, *given, **named: choose("quarter", *given, **named))
    with pytest.raises(LabError, match="another context"):
        lab.train()


# -- decisions that other editors earn ---------------------------------------------------------------------------------


class Scripted:
    """An editor that appends given sources; the class attribute tells what."""

    name = "scripted"
    sources: ClassVar[list[str]] = [""]
    feedback: ClassVar[list[str]] = []
    given: ClassVar[list[Any]] = []

    def edit(
        self, folder: Path, spec: Spec, out: Path, feedback: str = "", evidence: Any = None
    ) -> Candidate:
        parent = load_harness(folder)
        copy_harness(parent, out)
        source = Scripted.sources[min(len(Scripted.feedback), len(Scripted.sources) - 1)]
        Scripted.feedback, Scripted.given = [*Scripted.feedback, feedback], [*Scripted.given, evidence]
        if source:
            (out / "actions.py").write_text(source)
        child = load_harness(out)
        outcome = "edited" if child.hash != parent.hash else "no_change"
        return Candidate(out, child.hash, parent.hash, diff_harness(parent, child), "scripted", outcome)


Script = Callable[..., tuple[Lab, Trained]]


@pytest.fixture
def scripted(done: Any, tmp_path: Path) -> Script:
    """Trains with these edits; the trials of the start harness are there already."""

    def run(*sources: str, rounds: int = 1) -> tuple[Lab, Trained]:
        Scripted.sources, Scripted.feedback, Scripted.given = list(sources), [], []
        lab = Lab(tmp_path, done[0], rounds=rounds, editor=f"{__name__}:Scripted")
        return lab, lab.train()

    return run


HOOKS = "from ecdysis_lab.hooks import Allow, Refuse\n\n\n"
SILENT = HOOKS + "def check(call, view):\n    return Allow()\n"
DENY = HOOKS + "def check(call, view):\n    return Refuse('No.', 'Stop.', 'deny')\n"


def test_an_edit_that_changes_nothing_ends_the_round_and_what_is_left_is_shown_next(scripted: Script) -> None:
    """All failures were read in the first round; the second shows those of one task, then nothing is left."""
    lab, trained = scripted("", "", rounds=4)
    first, second = trained.rounds
    assert [(r.decision, r.ended) for r in (first, second)] == [
        ("no_change", ""),
        ("no_change", NOTHING_LEFT),
    ]
    recurring = {key for p in lab.run.round("ecdysis", 1).patterns.recurring for key in p.members}
    every = {f.key for f in lab.run.round("ecdysis", 1).failures}
    assert lab.run.round("ecdysis", 2).subset.auxiliary
    assert set(lab.run.round("ecdysis", 2).shown) == every - recurring != set()
    assert "may rest on evidence of a single task" in lab.run.round("ecdysis", 2).context
    assert training_block(lab.run, lab.store, "ecdysis")["left"] == {"rounds": 2}


def test_a_silent_edit_is_rejected_without_a_single_rerun(scripted: Script) -> None:
    """Every model-visible byte is the same, so every result is taken over, and equal is rejected."""
    lab, trained = scripted(SILENT)
    (record,) = trained.rounds
    assert (record.decision, record.gate, record.score_after) == (
        "rejected",
        "improvement",
        record.score_before,
    )
    assert gate(record, "coverage").numbers["reused"] == 24
    assert lab.ran == Counter()
    assert trained.harness.hash == load_harness("empty").hash


def test_without_reuse_every_training_trial_is_paid_for_again(done: Any, tmp_path: Path) -> None:
    Scripted.sources, Scripted.feedback = [SILENT], []
    lab = Lab(tmp_path, done[0], rounds=1, editor=f"{__name__}:Scripted", reuse=False)
    (record,) = lab.train().rounds
    assert (record.decision, record.score_after) == ("rejected", record.score_before)
    assert gate(record, "improvement").numbers["reused"] == 0
    assert sum(lab.ran.values()) == 24


def test_a_refused_legal_act_goes_back_to_the_editor_once(scripted: Script) -> None:
    lab, trained = scripted(DENY, DENY)
    (record,) = trained.rounds
    assert (record.decision, record.gate, record.editor_calls, record.score_after) == (
        "rejected",
        "legal",
        2,
        None,
    )
    assert Scripted.feedback[0] == ""
    assert Scripted.feedback[1].startswith("refused an act of passing trial ")
    assert "(rule deny: No. Stop.)" in Scripted.feedback[1]
    first, second = Scripted.given
    assert "REJECTED.diff" not in first and "EVIDENCE.md" in second, (
        "the second edit reads what the first one was"
    )
    assert "+    return Refuse('No.', 'Stop.', 'deny')" in second["REJECTED.diff"]
    assert lab.ran == Counter(), "no rerun was paid for"
    assert len(lab.run.ledger()) == 1


def test_the_legal_gate_names_each_rule_once(scripted: Script) -> None:
    """Else one more edit mends the first rule and is thrown away for the second."""
    two = DENY.replace(
        "    return",
        "    if call.name.startswith('get'):\n        return Refuse('No.', 'Stop.', rule='other')\n    return",
        1,
    )
    assert two != DENY
    _, trained = scripted(two, two)
    (record,) = trained.rounds
    assert record.gate == "legal"
    assert Scripted.feedback[1].count("(rule deny: ") == Scripted.feedback[1].count("(rule other: ") == 1


def test_the_second_edit_may_be_better(scripted: Script) -> None:
    _, trained = scripted(DENY, SILENT)
    (record,) = trained.rounds
    assert (record.gate, record.editor_calls) == ("improvement", 2)


def test_a_gates_reason_survives_an_editor_that_has_no_other_answer(scripted: Script) -> None:
    """Else the round would end as no_change, end the training, and the next debate would propose it again."""
    lab, trained = scripted(DENY, "", rounds=2)
    first, second = trained.rounds
    assert (first.decision, first.gate, first.editor_calls) == ("rejected", "legal", 2)
    assert first.reason.endswith("asked again, the editor changed nothing (no_change)")
    assert second.round == 2
    text = lab.run.round("ecdysis", 2).context
    assert "- round 1, rejected by gate legal: refused an act of passing trial" in text


@pytest.mark.parametrize(
    "source, gate, told",
    [
        ("import os\n", "static", "import of 'os'"),
        ("def check(call, view):\n    return 1 / 0\n", "probe", "ZeroDivisionError"),
        (SILENT + "\n\nNOTE = 'USER'\n", "leak", "user id"),
    ],
)
def test_cheap_gates_reject_before_any_rerun(source: str, gate: str, told: str, scripted: Script) -> None:
    if gate == "leak":
        calls = [c for oracle in map(bench().oracle, train_ids()) for c in oracle.calls]
        source = source.replace(
            "USER", next(c.arguments["user_id"] for c in calls if "user_id" in c.arguments)
        )
    lab, trained = scripted(source)
    (record,) = trained.rounds
    assert (record.decision, record.gate, record.editor_calls) == ("rejected", gate, 2)
    assert told in record.reason and Scripted.feedback == ["", record.reason]
    assert lab.ran == Counter()


def train_ids() -> list[str]:
    return [t.id for t in bench().tasks("train", 12, 2)]


def test_rejected_proposals_are_told_to_the_next_round(scripted: Script) -> None:
    lab, trained = scripted(SILENT, rounds=2)
    assert trained.rounds[0].decision == "rejected"
    text = lab.run.round("ecdysis", 2).context
    told = text.partition("# Proposals rejected in earlier rounds\n")[2].partition("\n#")[0]
    assert told.startswith("- round 1, rejected by gate improvement: training score stays from ")
    assert re.search(r"\(training score (\S+) → \1; 0 trials gained, 0 lost\)\n", told)
    assert '  - gate improvement rejected: {"after": ' in told
    assert re.search(r"^  - \w+\.py: .* \{\"", told, re.M), "each change with its guard"


def test_nothing_fails_ends_the_training(tmp_path: Path) -> None:
    lab = Lab(tmp_path, model="sim/flawless", train_tasks=3, trials=1)
    trained = lab.train()
    assert [(r.decision, r.gate, r.failures) for r in trained.rounds] == [("no_failures", "", 0)]
    assert lab.run.ledger()[0]["decision"] == "no_failures"


# -- confirmation, infrastructure, a person's pick ----------------------------------------------------------------


def test_an_accepted_edit_has_to_rise_again_on_fresh_seeds(
    done: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted = next(r for r in done[1].rounds if r.decision == "accepted")
    lab = Lab(tmp_path, done[0], rounds=accepted.round, confirm=1)
    record = lab.train().rounds[-1]
    fresh = {t.trial.seed for t in lab.store.trajectories(keys=list(lab.ran))}
    assert fresh == {2100, 2101}
    told = gate(record, "confirm").numbers
    assert told["repeats"] == 1 and told["pairs"] == 24
    assert (record.decision == "accepted") is (told["after"] > told["before"])
    assert record.gate == "confirm" and gate(record, "improvement").outcome == "passed"


def test_a_rise_that_does_not_repeat_is_rejected(
    done: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, done[0], rounds=1, confirm=1)
    monkeypatch.setattr(Settings, "fresh_seeds", lambda self, repeat: (2100, 2101))
    real = judging.compare

    def falls(before: Any, after: Any) -> Any:
        found = real(before, after)
        fresh = before[0].trial.seed >= 2100
        return replace(found, after=found.before - 1 if fresh else found.before + 1)

    monkeypatch.setattr(judging, "compare", falls)
    (record,) = lab.train().rounds
    assert (record.decision, record.gate) == ("rejected", "confirm")
    assert record.reason.startswith("on fresh seeds training score falls")
    assert record.harness == load_harness("empty").hash


def test_no_decision_without_every_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ecdysis_lab.harness.rollout.INFRA_RETRIES", 0)
    monkeypatch.setattr(complete, "__kwdefaults__", {**complete.__kwdefaults__, "max_attempts": 1})
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with OpenAIServer(default=status(503, "out of order")) as server:
        asked = {"api_base": server.url, "timeout_seconds": 5, "model": "openai/none"}
        lab = Lab(tmp_path, train_tasks=1, trials=1, **asked)
        said = r"1 of 1 training trials ended in infrastructure errors, first: .*out of order"
        with pytest.raises(LabError, match=said):
            lab.train()
    assert lab.run.ledger() == []


def test_a_persons_pick_is_what_the_review_reads(done: Any, tmp_path: Path) -> None:
    lab, _ = done
    known, subset = lab.run.round("ecdysis", 1).failures, lab.run.round("ecdysis", 1).subset
    assert subset.origin == "all"
    picked = (known[0].key, known[-1].key)
    path = tmp_path / "subset.json"
    picks = [{"key": k, "gain": 0.0, "reason": "mine"} for k in picked]
    path.write_text(json.dumps({**asdict(subset), "picks": picks, "origin": "person"}))
    mine = Lab(tmp_path / "mine", lab, rounds=1, subset=str(path), arm="ecdysis-quarter")
    (record,) = mine.train().rounds
    assert record.subset == 2
    saved = mine.run.round("ecdysis-quarter", 1).subset
    assert (saved.keys, saved.origin) == (picked, "person")


@pytest.mark.parametrize("recurs", [True, False])
@pytest.mark.parametrize("again", [True, False])
def test_a_round_of_single_tasks_says_why_and_what_an_edit_has_to_pass(
    done: Any, recurs: bool, again: bool
) -> None:
    patterns = done[0].run.round("ecdysis", 1).patterns
    assert patterns.recurring
    if not recurs:
        patterns = replace(patterns, patterns=())
    made = opened(Context("# Setting", {}, frozenset(), {}, {"a": "T1"}), patterns, again=again)
    note = made.text.partition("\n\n")[0]
    assert ("was shown before" in note) is recurs and ("No pattern recurs." in note) is not recurs
    assert ("fresh seeds" in note) is again and note.endswith(".")
    assert made.task_of == {}


def test_a_persons_pick_is_theirs_where_no_pattern_recurs(done: Any, tmp_path: Path) -> None:
    known = done[0].run.round("ecdysis", 1)
    path = tmp_path / "subset.json"
    trials = {t.key: t for t in done[0].store.trajectories(keys=[f.key for f in known.failures])}
    failures = [replace(f, trajectory=trials[f.key]) for f in known.failures]
    pick = known.failures[0].key
    path.write_text(
        json.dumps({**asdict(known.subset), "picks": [{"key": pick, "gain": 0.0, "reason": "mine"}]})
    )
    none = replace(known.patterns, patterns=())
    subset = choose(str(path), failures, none, [], n=1, seed=0)
    assert (subset.keys, subset.origin, subset.auxiliary) == ((pick,), "person", True)


def test_a_pick_of_other_failures_is_refused_in_the_first_round(done: Any, tmp_path: Path) -> None:
    path = tmp_path / "subset.json"
    subset = asdict(done[0].run.round("ecdysis", 1).subset)
    path.write_text(json.dumps({**subset, "picks": [{"key": "0" * 64, "gain": 0.0, "reason": "mine"}]}))
    with pytest.raises(LabError, match=r"subset\.json"):
        Lab(tmp_path / "mine", done[0], rounds=1, subset=str(path), arm="ecdysis-quarter").train()


# -- one by one -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verified(done: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, Trained]:
    lab = Lab(tmp_path_factory.mktemp("verified"), done[0], rounds=1, arm="self-evolution-verified")
    return lab, lab.train()


@pytest.fixture(scope="module")
def alone(done: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, Trained]:
    lab = Lab(tmp_path_factory.mktemp("alone"), done[0], rounds=1, arm="self-evolution")
    return lab, lab.train()


def edits_of(lab: Lab, n: int = 1) -> tuple[Edit, ...]:
    return lab.run.round(lab.arm, n).edits or ()


def test_every_failure_goes_to_the_editor_alone(verified: Any) -> None:
    lab, trained = verified
    (record,) = trained.rounds
    edits = edits_of(lab)
    assert len(edits) == record.failures > 4
    handed = [e for e in edits if e.decision not in ("mended", "no_spec")]
    assert record.editor_calls == len(handed) == sum(e.editor_calls for e in edits) > 2
    assert {e.decision for e in edits} >= {"accepted", "mended"}
    assert record.decision == "accepted" and trained.harness.hash == edits[-1].harness == record.harness
    assert record.gained and record.score_after is None and record.gate == ""


def test_edits_build_on_each_other_and_each_has_a_ledger_line(alone: Any, verified: Any) -> None:
    for lab, _ in (alone, verified):
        force = load_harness("empty").hash
        for edit in edits_of(lab):
            assert edit.parent == force
            force = edit.candidate if edit.decision == "accepted" else force
            assert edit.harness == force
        lines = [(e["edit"], e["decision"]) for e in lab.run.ledger()]
        assert lines == [*((i, e.decision) for i, e in enumerate(edits_of(lab), 1)), (0, "accepted")]


def test_an_edit_meets_the_gates_of_its_arm_on_its_own_task_only(verified: Any) -> None:
    """Besides, a task is brought up to date before its failure is handed over: that too runs this task only."""
    lab, trained = verified
    edits = edits_of(lab)
    ran = {(t.trial.harness, t.trial.task_id) for t in lab.store.trajectories(keys=list(lab.ran))}
    tried = {(e.candidate, e.task) for e in edits if e.candidate}
    current = {(e.parent, e.task) for e in edits}
    assert ran <= tried | current
    assert sum(lab.ran.values()) == 2 * len(ran), "two trials of one task each time"
    judged = [e for e in edits if e.candidate]
    assert [(j.candidate, j.gates) for j in trained.rounds[0].candidates] == [
        (e.candidate, e.gates) for e in judged
    ]
    for edit in judged:
        assert {g.name for g in edit.gates} <= {"static", "probe", "coverage", "improvement"}
        assert all(g.numbers["pairs"] == 2 for g in edit.gates if g.name == "improvement")


def test_published_edits_pile_up_without_a_trial_until_the_round_is_over(alone: Any) -> None:
    """Static policy and probe alone judge an edit; then every training task runs in the last harness, and no other."""
    lab, trained = alone
    (record,) = trained.rounds
    edits = edits_of(lab)
    assert not any(e.decision == "mended" for e in edits), "what an earlier edit mended is not known yet"
    assert {g.name for e in edits for g in e.gates} == {"static", "probe"}
    assert sum(e.decision == "accepted" for e in edits) > 1
    assert {t.trial.harness for t in lab.store.trajectories(keys=list(lab.ran))} == {edits[-1].harness}
    assert (record.decision, record.gate, record.harness) == ("accepted", "rollback", edits[-1].harness)
    (whole,) = record.candidates[-1].gates
    assert (whole.numbers["tasks"], whole.numbers["pairs"]) == (12, 24)
    assert record.score_after == whole.numbers["after"] and record.candidate == edits[-1].harness


def test_a_round_that_loses_too_much_is_rolled_back_with_all_its_edits(done: Any, tmp_path: Path) -> None:
    """Calls without their arguments solve few tasks; the next round then hands over what it has not, and ends."""
    spoil = "from ecdysis_lab.hooks import Rewrite\n\n\ndef check(call, view):\n    return Rewrite({}, rule='spoil')\n"
    Scripted.sources, Scripted.feedback = [spoil, *([""] * 40)], []
    lab = Lab(tmp_path, done[0], rounds=3, arm="self-evolution", editor=f"{__name__}:Scripted")
    first, second, third = lab.train().rounds
    empty = load_harness("empty").hash
    assert (first.decision, first.gate, first.harness) == ("rejected", "rollback", empty)
    assert first.score_after < first.score_before and "pass@k falls from 50.0 to" in first.reason
    # In the second round only the first failure meets the harness that it met before: it is not handed over again.
    assert [e.decision for e in edits_of(lab, 2)] == ["repeated", *["no_change"] * (second.failures - 1)]
    assert second.editor_calls == second.failures - 1 and second.ended == ""
    assert (third.editor_calls, third.ended) == (0, ALL_HANDED_OVER)


def test_nothing_is_handed_over_twice_with_the_same_harness(done: Any, tmp_path: Path) -> None:
    for arm in ("self-evolution", "self-evolution-verified"):
        Scripted.sources, Scripted.feedback = [""] * 40, []
        lab = Lab(tmp_path / arm, done[0], rounds=3, arm=arm, editor=f"{__name__}:Scripted")
        first, second = lab.train().rounds
        assert first.editor_calls == first.failures and second.editor_calls == 0
        assert {e.decision for e in edits_of(lab, 2)} == {"repeated"}
        assert (second.decision, second.ended) == ("no_change", ALL_HANDED_OVER)
        pairs = [(e.failure, e.parent) for n in (1, 2) for e in edits_of(lab, n) if e.decision != "repeated"]
        assert len(pairs) == len(set(pairs))


def test_an_editor_with_a_model_reads_the_failure_and_no_review(done: Any, tmp_path: Path) -> None:
    Scripted.sources, Scripted.feedback = [""] * 40, []
    lab = Lab(tmp_path, done[0], rounds=1, arm="self-evolution", editor=f"{__name__}:Scripted")
    (record,) = lab.train().rounds
    assert record.usage.calls == 0 and lab.run.round("self-evolution", 1).debate(1) is None
    assert all(e.changes == () for e in edits_of(lab))


@pytest.mark.parametrize("where", ["edit", "judge", "write_json"])
@pytest.mark.parametrize("arm", ["alone", "verified"])
def test_one_by_one_goes_on_after_a_stop(
    where: str, arm: str, request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name = {
        "edit": (RulesEditor, "edit"), "judge": (Judge, "judge"), "write_json": (Run, "write_json")
    }[where]  # fmt: skip
    like, trained = request.getfixturevalue(arm)
    lab = Lab(tmp_path, like, rounds=1, arm=like.arm)
    once = Once(getattr(owner, name), 3 if where != "write_json" else 8, True)
    monkeypatch.setattr(owner, name, once)
    with pytest.raises(KeyboardInterrupt):
        lab.train()
    found = lab.train()
    assert once.left <= 0 and lab.ran == Counter()
    assert [plain(r) for r in found.rounds] == [plain(r) for r in trained.rounds]
    assert [(e["edit"], e["decision"]) for e in lab.run.ledger()] == [
        (e["edit"], e["decision"]) for e in like.run.ledger()
    ]


def test_an_edit_that_does_nothing_earns_nothing_from_an_earlier_one(done: Any, tmp_path: Path) -> None:
    """Each failure is looked at in the harness in force, not in the one that the round began with."""
    human = (SHIPPED / "airline" / "actions.py").read_text()
    Scripted.sources, Scripted.feedback = [human, *(f"{human}\n# {i}\n" for i in range(40))], []
    lab = Lab(tmp_path, done[0], rounds=1, arm="self-evolution-verified",
              editor=f"{__name__}:Scripted")  # fmt: skip
    lab.train()
    words = [e.decision for e in edits_of(lab)]
    assert words.count("accepted") == 1 and "mended" in words, words


def test_an_editor_that_was_asked_is_not_asked_again(
    done: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, done[0], rounds=1)
    monkeypatch.setattr(judging, "replay", Once(judging.replay))
    with pytest.raises(KeyboardInterrupt):
        lab.train()

    def again(*args: Any, **named: Any) -> Any:
        raise AssertionError("asked again")

    monkeypatch.setattr(RulesEditor, "edit", again)
    (record,) = lab.train().rounds
    assert plain(record) == plain(done[1].rounds[0])


def test_a_harness_is_kept_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path)
    arm_run = ArmRun(lab.settings, "ecdysis", Run.open(tmp_path, "run", {}), Store(tmp_path))
    human, real = load_harness("airline"), copy_harness

    def half(source: Any, out: Path) -> Any:
        real(source, out)
        (out / "actions.py").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr("ecdysis_lab.train.arm_run.copy_harness", half)
    with pytest.raises(KeyboardInterrupt):
        arm_run.keep(human)
    monkeypatch.setattr("ecdysis_lab.train.arm_run.copy_harness", real)
    assert arm_run.keep(human).hash == human.hash


def test_each_round_confirms_on_seeds_of_its_own(tmp_path: Path) -> None:
    arm_run = ArmRun(
        settings(confirm=2, train_tasks=1), "ecdysis", Run.open(tmp_path, "run", {}), Store(tmp_path)
    )
    judge, empty = Judge(arm_run, RulesEditor(), GATES), load_harness("empty")
    candidate = Candidate(empty.path, empty.hash, "", "", "test", "edited")
    asked = [s for n in (1, 2) for s in judge._judging(arm_run.round(n), empty, candidate, []).fresh_seeds]
    assert asked == [(2100, 2101), (2102, 2103), (2104, 2105), (2106, 2107)]


def test_no_debate_means_one_voice_before_the_moderator(done: Any, tmp_path: Path) -> None:
    lab = Lab(tmp_path, done[0], rounds=1, arm="ecdysis-no-fdcr", debate=0)
    (record,) = lab.train().rounds
    assert [role for role, _ in lab.run.round("ecdysis-no-fdcr", 1).review.turns] == ["single", "moderator"]
    assert record.editor_calls in (1, 2) and record.usage.calls == 2


def test_no_rounds_leave_the_start(tmp_path: Path) -> None:
    trained = Lab(tmp_path, rounds=0).train()
    assert (trained.rounds, trained.harness.hash) == ((), load_harness("empty").hash)
