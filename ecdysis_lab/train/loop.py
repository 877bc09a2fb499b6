"""The round loop: failures → patterns → subset → review → one edit → gates, until nothing is left to show.

arXiv 2609.11677. The task model stays frozen; only the harness changes, and only when every gate lets the candidate
through. A finished round is read back from its record, so a run that was killed goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ecdysis_lab.failures.cards import find_failures
from ecdysis_lab.failures.embedding import embedder
from ecdysis_lab.failures.patterns import find_patterns
from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.models import hand
from ecdysis_lab.records import (
    Decision,
    Failure,
    Patterns,
    Review,
    RoundRecord,
    Subset,
    Trajectory,
    Usage,
)
from ecdysis_lab.review import editors
from ecdysis_lab.review.context import Context, build_context
from ecdysis_lab.review.debate import Reviewer
from ecdysis_lab.review.editors.staging import contract
from ecdysis_lab.review.evidence import short
from ecdysis_lab.review.sections import proposals
from ecdysis_lab.store import Round, Run, Store
from ecdysis_lab.train.arm_run import ArmRun
from ecdysis_lab.train.arms import arm_of
from ecdysis_lab.train.gates import gates_of, growth_notes
from ecdysis_lab.train.judge import Judge, Outcome
from ecdysis_lab.train.one_by_one import NO_FAILURES, OneByOne
from ecdysis_lab.train.rounds import Trained, summed
from ecdysis_lab.train.settings import Settings, editor_of
from ecdysis_lab.train.showing import (
    NOTHING_LEFT,
    WITHOUT_EDIT,
    Shown,
    choose,
    left_to_show,
    opened,
    shown_before,
)


@dataclass
class _Evidence:
    """What one round looks at."""

    failures: list[Failure]
    patterns: Patterns
    subset: Subset
    shown: list[Shown]

    @property
    def auxiliary(self) -> bool:
        """Whether it is all seen on one task only."""
        return self.subset.auxiliary


class Trainer:
    """Trains one arm inside a run folder.

    Parameters
    ----------
    settings : how. arm : name of its row in the table. run : where records go. store : where trials go.
    arm_run : makes what all its rounds share.
    shared : budget, progress and on_new, as for :class:`ecdysis_lab.train.arm_run.ArmRun`.
    """

    def __init__(
        self,
        settings: Settings,
        arm: str,
        run: Run,
        store: Store,
        arm_run: Callable[..., ArmRun] = ArmRun,
        **shared: Any,
    ) -> None:
        self.arm = arm_of(arm, trains=True)
        self.settings = s = settings.of_arm(self.arm)
        self.arm_run = arm_run(s, arm, run, store, **shared)
        base = s.params(s.review_model).api_base
        name = editor_of(s, run.config)
        self.editor = editors.for_run(
            name, s.review_model, base, self.arm_run.budget, s.context_tokens, s.review_params
        )
        self.judge = Judge(self.arm_run, self.editor, gates_of(self.arm))

    def train(self) -> Trained:
        """Run all rounds; ends before the last one when nothing fails, or when nothing is left to show.

        Raises
        ------
        LabError: training trials that cannot be scored for reasons of infrastructure, however often they are tried;
            an answer by hand that is awaited or refused.
        """
        with hand.folder(self.arm_run.run.folder.resolve() / hand.PLACE / self.arm.name):
            return self._train()

    def _train(self) -> Trained:
        current = self.arm_run.keep(self.settings.harness(self.settings.start))
        records: list[RoundRecord] = []
        for n in range(1, self.settings.rounds + 1):
            round = self.arm_run.round(n)
            record = round.record or self._round(round, current)
            records.append(record)
            if record.ended:
                break
            current = self.arm_run.kept(record.harness)
        return Trained(current, tuple(records))

    # -- a round -----------------------------------------------------------------------------------------------

    def _round(self, round: Round, current: Harness) -> RoundRecord:
        self.arm_run.seconds = {}
        with self.arm_run.phase("rollout"):
            before = self.arm_run.rollout(current, f"round {round.n}: training trials")
        if self.arm.edits == "failure":
            return self._alone(round, current, before)
        with self.arm_run.phase("patterns"):
            found = self._evidence(before, round, current)
        if not found.failures:
            return self._record(round, current, found, before, "no_failures", NO_FAILURES)
        with self.arm_run.phase("review"):
            context = self._context(round, found, before, current)
            review = self._reviewer(round).review(context)
        self._save_round(round, found, context, review)
        if review.spec is None:
            why = f"no spec: {review.reason}"
            return self._record(round, current, found, before, "no_spec", why, review)
        outcome = self.judge.edit_and_judge(round, current, review.spec, before, context.files)
        return self._record(round, current, found, before, outcome.decision, outcome.reason, review, outcome)

    def _alone(self, round: Round, current: Harness, before: Sequence[Trajectory]) -> RoundRecord:
        """A round of an arm that hands every failure to the editor by itself."""
        failures = self._failures(before)
        handed = [edit for r in self._earlier(round) for edit in r.edits or ()]
        one_by_one = OneByOne(self.arm_run, self.judge, self._failures, verify=not self.arm.rollback)
        edits = one_by_one.run(round, current, failures, before, handed)
        changed = edits.harness.hash != current.hash
        whole = (
            self.judge.whole(round, current, edits.harness, before) if self.arm.rollback and changed else None
        )
        record = edits.record(round, current, whole, before, self.arm_run.phase_seconds, self._by_hand)
        self.arm_run.write_record(record, whole.candidate if whole else None)
        return record

    def _earlier(self, round: Round) -> list[Round]:
        return [self.arm_run.round(n) for n in range(1, round.n)]

    def _failures(self, before: Sequence[Trajectory]) -> list[Failure]:
        scenarios = {t.id: t.scenario for t in self.arm_run.tasks}
        return find_failures(
            before,
            self.settings.threshold,
            self.settings.disclosure,
            self.arm_run.bench,
            scenario=scenarios.get if self.settings.disclosure == "scenario" else None,  # type: ignore[arg-type]
        )

    def _evidence(self, before: Sequence[Trajectory], round: Round, current: Harness) -> _Evidence:
        failures, s = self._failures(before), self.settings
        patterns = find_patterns(failures, embedder(s.embedder, self.arm_run.store), seed=s.seed)
        shown = shown_before(self._earlier(round), current.hash)
        how, seed = self.arm.subset or s.subset, s.seed * 100 + round.n
        return _Evidence(
            failures, patterns, choose(how, failures, patterns, shown, n=round.n, seed=seed), shown
        )

    def _rejected(self, round: Round) -> list[str]:
        """What earlier rounds proposed and did not keep, so that the debate does not repeat it."""
        tried = []
        for earlier in self._earlier(round):
            record, review = earlier.record, earlier.review
            if record and review and review.spec and record.decision != "accepted":
                tried.append((record, review.spec, earlier.diff))
        return proposals(tried)

    def _context(
        self, round: Round, found: _Evidence, before: Sequence[Trajectory], current: Harness
    ) -> Context:
        made = build_context(
            found.failures,
            found.patterns,
            found.subset,
            [t for t in before if t.success],
            current,
            self.arm_run.bench,
            contract=contract(),
            rejected=self._rejected(round),
            max_tokens=self.settings.context_tokens,
        )
        if not found.auxiliary:
            return made
        return opened(made, found.patterns, again=self.arm_run.reruns)

    def _reviewer(self, round: Round) -> Reviewer:
        return Reviewer(
            self.settings.review_model,
            self.settings.review_params,
            self.settings.debate,
            self.arm_run.budget,
            load=round.debate,
            save=round.save_debate,
            vocabulary=self.editor.name == "rules",
        )

    @property
    def _by_hand(self) -> tuple[str, ...]:
        debated = self.arm.edits == "round" and self.settings.debate
        asked = debated or self.editor.name == "rules"
        return hand.provenance(self.settings.review_model if asked else "", self.editor.name)

    def _save_round(self, round: Round, found: _Evidence, context: Context, review: Review) -> None:
        round.context = context.text
        round.patterns, round.subset = found.patterns, found.subset
        round.failures = found.failures
        round.shown = tuple(f.key for f in found.failures if short(f.key) in context.references)
        round.review = review

    def _record(
        self,
        round: Round,
        current: Harness,
        found: _Evidence,
        before: Sequence[Trajectory],
        decision: Decision,
        reason: str,
        review: Review | None = None,
        outcome: Outcome | None = None,
    ) -> RoundRecord:
        candidate = outcome.candidate if outcome else None
        force, notes = current, found.patterns.warnings + (self._by_hand if review else ())
        if outcome and outcome.judged:
            child = load_harness(outcome.candidate.path)
            force = self.arm_run.keep(child) if outcome.accepted else current
            notes = growth_notes(current, child) + notes
        scores = outcome.comparison if outcome else None
        usage = (review.usage if review else Usage()) + (outcome.usage if outcome else Usage())
        record = RoundRecord(
            round=round.n, failures=len(found.failures), patterns=len(found.patterns.patterns),
            recurring=len(found.patterns.recurring), subset=len(found.subset.picks), decision=decision,
            gate=outcome.gate if outcome else "", reason=reason, score_before=summed(before),
            score_after=scores.after if scores else None, gained=scores.gained if scores else (),
            lost=scores.lost if scores else (), editor_calls=outcome.calls if outcome else 0,
            harness=force.hash, candidate=candidate.hash if candidate else "",
            seconds=self.arm_run.phase_seconds, usage=usage,
            notes=(candidate.notes if candidate else ()) + notes, parent=current.hash,
            candidates=outcome.judged if outcome else (), ended=self._ended(round, found, decision),
        )  # fmt: skip
        self.arm_run.write_record(record, candidate)
        return record

    def _ended(self, round: Round, found: _Evidence, decision: Decision) -> str:
        """Why no round follows this one, or an empty string."""
        if decision == "no_failures":
            return NO_FAILURES
        if decision not in WITHOUT_EDIT:
            return ""
        shown = [*found.shown, Shown(frozenset(round.shown or ()), found.auxiliary)]
        return "" if left_to_show(found.failures, found.patterns, shown)[0] else NOTHING_LEFT
