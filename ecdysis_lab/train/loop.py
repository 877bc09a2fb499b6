"""The round loop: failures → patterns → quarter → review → one edit → gates, until nothing improves.

arXiv 2609.11677. The task model stays frozen; only the harness changes, and only when every gate lets the candidate
through. A finished round is read back from its record, so a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ecdysis_lab.failures.cards import find_failures
from ecdysis_lab.failures.embedding import embedder
from ecdysis_lab.failures.patterns import find_patterns
from ecdysis_lab.failures.subset import all_failures, from_file, pick_quarter, random_quarter
from ecdysis_lab.harness import SHIPPED, load_harness
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.models import hand
from ecdysis_lab.records import Decision, Failure, Patterns, Review, RoundRecord, Subset, Trajectory, Usage
from ecdysis_lab.review import editors
from ecdysis_lab.review.context import Context, build_context
from ecdysis_lab.review.debate import Reviewer
from ecdysis_lab.store import Round, Run, Store
from ecdysis_lab.train.arm_run import ArmRun
from ecdysis_lab.train.arms import arm_of
from ecdysis_lab.train.gates import gates_of, growth_notes
from ecdysis_lab.train.judge import Judge, Outcome
from ecdysis_lab.train.one_by_one import OneByOne
from ecdysis_lab.train.rounds import Trained
from ecdysis_lab.train.settings import Settings

LAST = ("no_failures", "no_spec", "no_change")  # nothing that a further round could change


@dataclass
class _Evidence:
    """What one round looks at."""

    failures: list[Failure]
    patterns: Patterns
    subset: Subset


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
        self.editor = editors.for_run(s.editor, s.review_model, base, self.arm_run.budget)
        self.judge = Judge(self.arm_run, self.editor, gates_of(self.arm))

    def train(self) -> Trained:
        """Run all rounds; stops early when nothing fails or nothing can change.

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
            if record.decision in LAST:
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
            found = self._evidence(before, round.n)
        if not found.failures:
            return self._record(round, current, found, before, "no_failures", "nothing fails")
        with self.arm_run.phase("review"):
            context = self._context(round, found, before, current)
            review = self._reviewer(round).review(context)
        self._save_round(round, found, context, review)
        if review.spec is None:
            why = f"no spec: {review.reason}"
            return self._record(round, current, found, before, "no_spec", why, review)
        outcome = self.judge.edit_and_judge(round, current, review.spec, before)
        return self._record(round, current, found, before, outcome.decision, outcome.reason, review, outcome)

    def _alone(self, round: Round, current: Harness, before: Sequence[Trajectory]) -> RoundRecord:
        """A round of the arm that hands every failure to the editor by itself."""
        failures = self._failures(before)
        edits = OneByOne(self.arm_run, self.judge, self._failures).run(round, current, failures, before)
        words = [e.decision for e in edits.done]
        ends: tuple[Decision, ...] = ("accepted", "rejected", "failed")
        word = next((w for w in ends if w in words), "no_change" if words else "no_failures")
        counts = ", ".join(f"{words.count(w)} {w}" for w in dict.fromkeys(words)) or "nothing fails"
        record = RoundRecord(
            round=round.n, failures=len(failures), patterns=0, recurring=0,
            subset=len([w for w in words if w != "mended"]), decision=word, gate="",
            reason=f"each failure alone: {counts}", score_before=_score(before), score_after=None,
            gained=edits.gained(), lost=(), editor_calls=edits.calls, harness=edits.harness.hash,
            candidate="", seconds=self.arm_run.phase_seconds, usage=edits.usage, notes=self._by_hand,
            parent=current.hash, candidates=edits.judged(),
        )  # fmt: skip
        self.arm_run.write_record(record, None)
        return record

    def _failures(self, before: Sequence[Trajectory]) -> list[Failure]:
        scenarios = {t.id: t.scenario for t in self.arm_run.tasks}
        return find_failures(
            before,
            self.settings.threshold,
            self.settings.disclosure,
            self.arm_run.bench,
            scenario=scenarios.get if self.settings.disclosure == "scenario" else None,  # type: ignore[arg-type]
        )

    def _evidence(self, before: Sequence[Trajectory], n: int) -> _Evidence:
        failures = self._failures(before)
        embed = embedder(self.settings.embedder, self.arm_run.store)
        patterns = find_patterns(failures, embed, seed=self.settings.seed)
        return _Evidence(failures, patterns, self._subset(failures, patterns, n))

    def _subset(self, failures: list[Failure], patterns: Patterns, n: int) -> Subset:
        if self.settings.subset == "all" or not failures:
            return all_failures(failures)
        seed = self.settings.seed * 100 + n
        if self.settings.subset == "random-quarter":
            return random_quarter(failures, -(-len(failures) // 4), seed)
        quarter = pick_quarter(failures, patterns, seed=seed)
        if self.settings.subset == "quarter":
            return quarter
        # The pick belongs to the first round's failures; where none of it fails later on, the quarter stands in.
        return from_file(self.settings.subset, failures, quarter if n > 1 else None)

    def _rejected(self, n: int) -> list[str]:
        """Proposals of earlier rounds that a gate rejected, so that the debate does not repeat them."""
        lines = []
        for round in map(self.arm_run.round, range(1, n)):
            record, review = round.record, round.review
            if record and review and review.spec and record.decision == "rejected":
                for change in review.spec.changes:
                    guard = json.dumps(change.guard, sort_keys=True) if change.guard else ""
                    lines.append(f"{change.what} {guard} → {record.gate}: {record.reason}")
        return lines

    def _context(
        self, round: Round, found: _Evidence, before: Sequence[Trajectory], current: Harness
    ) -> Context:
        return build_context(
            found.failures,
            found.patterns,
            found.subset,
            [t for t in before if t.success],
            current,
            self.arm_run.bench,
            contract=(SHIPPED / "README.md").read_text(encoding="utf-8"),
            rejected=self._rejected(round.n),
            max_tokens=self.settings.context_tokens,
        )

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
        asked = self.arm.edits == "failure" or self.settings.debate or self.editor.name == "rules"
        return hand.provenance(self.settings.review_model if asked else "", self.editor.name)

    def _save_round(self, round: Round, found: _Evidence, context: Context, review: Review) -> None:
        round.context = context.text
        round.patterns, round.subset = found.patterns, found.subset
        round.failures = found.failures
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
            gate=outcome.gate if outcome else "", reason=reason, score_before=_score(before),
            score_after=scores.after if scores else None, gained=scores.gained if scores else (),
            lost=scores.lost if scores else (), editor_calls=outcome.calls if outcome else 0,
            harness=force.hash, candidate=candidate.hash if candidate else "",
            seconds=self.arm_run.phase_seconds, usage=usage,
            notes=(candidate.notes if candidate else ()) + notes, parent=current.hash,
            candidates=outcome.judged if outcome else (),
        )  # fmt: skip
        self.arm_run.write_record(record, candidate)
        return record


def _score(trajectories: Sequence[Trajectory]) -> float:
    """Summed score of what was scored; a trial that the user spoiled has none."""
    return sum(t.score for t in trajectories if t.score is not None)
