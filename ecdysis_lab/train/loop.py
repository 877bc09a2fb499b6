"""The round loop: failures → patterns → quarter → review → one edit → gates, until nothing improves.

arXiv 2609.11677. The task model stays frozen; only the harness changes, and only when every gate lets the candidate
through. A finished round is read back from its record, so a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ecdysis_lab.failures.cards import find_failures
from ecdysis_lab.failures.embedding import embedder
from ecdysis_lab.failures.patterns import find_patterns
from ecdysis_lab.failures.subset import all_failures, from_file, pick_quarter, random_quarter
from ecdysis_lab.harness import SHIPPED, load_harness
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Decision, Failure, Patterns, Review, Subset, Trajectory, Usage
from ecdysis_lab.review import editors
from ecdysis_lab.review.context import Context, build_context
from ecdysis_lab.review.debate import Reviewer
from ecdysis_lab.store import Run, Store
from ecdysis_lab.train import gates
from ecdysis_lab.train.judge import Judge, Judged
from ecdysis_lab.train.one_by_one import OneByOne
from ecdysis_lab.train.rounds import RoundRecord, TrainConfig, Trained
from ecdysis_lab.train.session import Session

LAST = ("no_failures", "no_spec", "no_change")  # nothing that a further round could change


@dataclass
class _Evidence:
    """What one round looks at."""

    failures: list[Failure]
    patterns: Patterns
    subset: Subset


@dataclass
class _Outcome:
    """What a round led to: the decision, a word for it, and what was consumed on the way."""

    decision: Decision
    word: str = ""
    review: Review | None = None
    judged: Judged | None = None


class Trainer:
    """Trains one arm inside a run folder.

    Parameters
    ----------
    config : how. run : where records go. store : where trials go. shared : budget, progress and on_new, as for
        :class:`ecdysis_lab.train.session.Session`.
    """

    def __init__(self, config: TrainConfig, run: Run, store: Store, **shared: Any) -> None:
        self.session = Session(config, run, store, **shared)
        self.config, self.run = config, run
        base = config.review_params.api_base
        self.editor = editors.for_run(config.editor, config.review_model, base, self.session.budget)
        self.judge = Judge(self.session, self.editor)

    def train(self) -> Trained:
        """Run all rounds; stops early when nothing fails or nothing can change.

        Raises
        ------
        LabError: training trials that cannot be scored for reasons of infrastructure, however often they are tried.
        """
        current = self.session.keep(load_harness(self.config.start))
        records: list[RoundRecord] = []
        for n in range(1, self.config.rounds + 1):
            record = self.session.recorded(n) or self._round(n, current)
            records.append(record)
            if record.decision in LAST:
                break
            current = load_harness(self.run.path(f"harness/{record.harness}"))
        return Trained(current, tuple(records))

    # -- a round -----------------------------------------------------------------------------------------------

    def _round(self, n: int, current: Harness) -> RoundRecord:
        self.session.seconds = {}
        with self.session.phase("rollout"):
            before = self.session.rollout(current, f"round {n}: training trials")
        if self.config.method == "one-by-one":
            return self._alone(n, current, before)
        with self.session.phase("patterns"):
            found = self._evidence(before, n)
        if not found.failures:
            outcome = _Outcome(Decision(False, "failures", "nothing fails"), "no_failures")
            return self._record(n, current, found, before, outcome)
        with self.session.phase("review"):
            context = self._context(n, found, before, current)
            review = self._reviewer(n).review(context)
        self._save_round(n, found, context, review)
        if review.spec is None:
            decision = Decision(False, "review", f"no spec: {review.reason}")
            return self._record(n, current, found, before, _Outcome(decision, "no_spec", review))
        judged = self.judge.edit_and_judge(n, current, review.spec, before)
        return self._record(n, current, found, before, _Outcome(judged.decision, "", review, judged))

    def _alone(self, n: int, current: Harness, before: Sequence[Trajectory]) -> RoundRecord:
        """A round of the arm that hands every failure to the editor by itself."""
        failures = self._failures(before)
        edits = OneByOne(self.session, self.judge, self._failures).run(n, current, failures, before)
        words = [e["decision"] for e in edits.done]
        word = next(
            (w for w in ("accepted", "rejected", "failed") if w in words),
            "no_change" if words else "no_failures",
        )
        counts = ", ".join(f"{words.count(w)} {w}" for w in dict.fromkeys(words)) or "nothing fails"
        record = RoundRecord(
            round=n, failures=len(failures), patterns=0, recurring=0,
            subset=len([w for w in words if w != "mended"]), decision=word, gate="own task",
            reason=f"each failure alone: {counts}", score_before=_score(before), score_after=None,
            gained=edits.gained(), lost=(), editor_calls=edits.calls, harness=edits.harness.hash,
            candidate="", seconds={k: round(v, 3) for k, v in self.session.seconds.items()},
            usage=asdict(edits.usage), parent=current.hash, candidates=edits.hashes(),
        )  # fmt: skip
        self.session.write_record(record, {"decisions": counts}, None)
        return record

    def _failures(self, before: Sequence[Trajectory]) -> list[Failure]:
        scenarios = {t.id: t.scenario for t in self.session.tasks}
        return find_failures(
            before,
            self.config.threshold,
            self.config.disclosure,
            self.session.bench,
            scenario=scenarios.get if self.config.disclosure == "scenario" else None,  # type: ignore[arg-type]
        )

    def _evidence(self, before: Sequence[Trajectory], n: int) -> _Evidence:
        failures = self._failures(before)
        embed = embedder(self.config.embedder, self.session.store)
        patterns = find_patterns(failures, embed, seed=self.config.seed)
        return _Evidence(failures, patterns, self._subset(failures, patterns, n))

    def _subset(self, failures: list[Failure], patterns: Patterns, n: int) -> Subset:
        if self.config.subset == "all" or not failures:
            return all_failures(failures)
        seed = self.config.seed * 100 + n
        if self.config.subset == "random-quarter":
            return random_quarter(failures, -(-len(failures) // 4), seed)
        quarter = pick_quarter(failures, patterns, seed=seed)
        if self.config.subset == "quarter":
            return quarter
        # The pick belongs to the first round's failures; where none of it fails later on, the quarter stands in.
        return from_file(self.config.subset, failures, quarter if n > 1 else None)

    def _rejected(self, n: int) -> list[str]:
        """Proposals of earlier rounds that a gate rejected, so that the debate does not repeat them."""
        lines = []
        for m in range(1, n):
            record, review = (
                self.session.recorded(m),
                self.run.read_json(f"rounds/{self.config.arm}-{m}/review.json"),
            )
            if record and review and review["spec"] and record.decision == "rejected":
                for change in review["spec"]["changes"]:
                    guard = json.dumps(change["guard"], sort_keys=True) if change["guard"] else ""
                    lines.append(f"{change['what']} {guard} → {record.gate}: {record.reason}")
        return lines

    def _context(self, n: int, found: _Evidence, before: Sequence[Trajectory], current: Harness) -> Context:
        return build_context(
            found.failures,
            found.patterns,
            found.subset,
            [t for t in before if t.success],
            current,
            self.session.bench,
            contract=(SHIPPED / "README.md").read_text(encoding="utf-8"),
            rejected=self._rejected(n),
            max_tokens=self.config.context_tokens,
        )

    def _reviewer(self, n: int) -> Reviewer:
        name = f"rounds/{self.config.arm}-{n}/debate.json"
        return Reviewer(
            self.config.review_model,
            self.config.review_params,
            self.config.debate,
            self.session.budget,
            load=lambda: self.run.read_json(name),
            save=lambda state: self._save(name, state),
        )

    def _save(self, name: str, state: dict[str, Any]) -> None:
        self.run.write_json(name, state)

    def _save_round(self, n: int, found: _Evidence, context: Context, review: Review) -> None:
        folder = f"rounds/{self.config.arm}-{n}"
        self.run.write_text(f"{folder}/context.md", context.text)
        self.run.write_json(f"{folder}/patterns.json", found.patterns)
        self.run.write_json(f"{folder}/subset.json", found.subset)
        self.run.write_json(f"{folder}/failures.json", [_without_trajectory(f) for f in found.failures])
        self.run.write_json(f"{folder}/review.json", review)

    def _record(
        self, n: int, current: Harness, found: _Evidence, before: Sequence[Trajectory], outcome: _Outcome
    ) -> RoundRecord:
        decision, judged = outcome.decision, outcome.judged
        candidate = judged.candidate if judged else None
        force = self.session.kept_if(decision, candidate, current)
        word = outcome.word or ("accepted" if decision.accepted else "rejected")
        notes = found.patterns.warnings
        if candidate is not None and candidate.outcome != "edited":
            word, notes = candidate.outcome, candidate.notes + notes
        elif candidate is not None:
            notes = candidate.notes + gates.growth_notes(current, gates.loaded(candidate)) + notes
        usage = (outcome.review.usage if outcome.review else Usage()) + (judged.usage if judged else Usage())
        record = RoundRecord(
            round=n, failures=len(found.failures), patterns=len(found.patterns.patterns),
            recurring=len(found.patterns.recurring), subset=len(found.subset.picks), decision=word,
            gate=decision.gate, reason=decision.reason, score_before=_score(before),
            score_after=decision.score_after, gained=decision.gained, lost=decision.lost,
            editor_calls=judged.calls if judged else 0, harness=force.hash,
            candidate=candidate.hash if candidate else "",
            seconds={k: round(v, 3) for k, v in self.session.seconds.items()}, usage=asdict(usage), notes=notes,
            parent=current.hash, candidates=judged.candidates if judged else (),
        )  # fmt: skip
        self.session.write_record(record, decision.numbers, candidate)
        return record


def _score(trajectories: Sequence[Trajectory]) -> float:
    """Summed score of what was scored; a trial that the user spoiled has none."""
    return sum(t.score for t in trajectories if t.score is not None)


def _without_trajectory(failure: Failure) -> dict[str, Any]:
    return {k: v for k, v in asdict(replace(failure, trajectory=None)).items() if k != "trajectory"}  # type: ignore[arg-type]
