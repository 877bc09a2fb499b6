"""The round loop: failures → patterns → quarter → review → one edit → gates, until nothing improves.

arXiv 2609.11677. The task model stays frozen; only the harness changes, and only when every gate lets the candidate
through. A finished round is read back from its record, so a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ecdysis_lab import benchmarks, editors, gates, llm
from ecdysis_lab import harness as harnesses
from ecdysis_lab.context import Context, build_context
from ecdysis_lab.embed import embedder
from ecdysis_lab.failures import find_failures
from ecdysis_lab.harness import Harness
from ecdysis_lab.patterns import find_patterns
from ecdysis_lab.records import (
    Candidate,
    Failure,
    Patterns,
    Progress,
    Review,
    Subset,
    Task,
    Trajectory,
    Usage,
    Verdict,
)
from ecdysis_lab.review import Reviewer
from ecdysis_lab.rollout import rollout, seat_of
from ecdysis_lab.rounds import RoundRecord, TrainConfig, Trained
from ecdysis_lab.store import RunFolder, Store
from ecdysis_lab.subset import all_failures, pick_quarter, random_quarter


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
    config : how. run : where records go. store : where trials go. budget : shared budget.
    progress : called with (what, done, total). on_new : called with every trajectory that had to be run.
    """

    def __init__(
        self,
        config: TrainConfig,
        run: RunFolder,
        store: Store,
        *,
        budget: llm.Budget | None = None,
        progress: Progress | None = None,
        on_new: Any = None,
    ) -> None:
        self.config, self.run, self.store = config, run, store
        self.budget, self.progress, self.on_new = budget, progress, on_new
        self.bench = benchmarks.load(config.setup.benchmark)
        self.seat = seat_of(self.bench, config.setup.max_steps)
        self.tasks: list[Task] = self.bench.tasks("train", config.n_tasks, config.seed)
        base = config.review_params.api_base
        self.editor = editors.for_run(config.editor, config.review_model, base, budget)
        self.seconds: dict[str, float] = {}

    def train(self) -> Trained:
        """Run all rounds; stops early when nothing fails or nothing can change."""
        current = self._keep(harnesses.load(self.config.start))
        records: list[RoundRecord] = []
        for n in range(1, self.config.rounds + 1):
            record = self._recorded(n) or self._round(n, current)
            records.append(record)
            if record.verdict in ("no_failures", "no_spec", "no_change"):
                break
            current = harnesses.load(self.run.path(f"harness/{record.harness}"))
        return Trained(current, tuple(records))

    # -- a round -----------------------------------------------------------------------------------------------

    def _round(self, n: int, current: Harness) -> RoundRecord:
        self.seconds = {}
        with self._phase("rollout"):
            before = self._rollout(current, f"{self.config.arm} round {n}: training trials")
        with self._phase("patterns"):
            found = self._evidence(before, n)
        if not found.failures:
            return self._record(
                n, current, found, before, Verdict(False, "failures", "nothing fails"), "no_failures"
            )
        with self._phase("review"):
            context = self._context(n, found, before, current)
            review = self._reviewer(n).review(context)
        self._save_round(n, found, context, review)
        if review.spec is None:
            verdict = Verdict(False, "review", f"no spec: {review.reason}")
            return self._record(n, current, found, before, verdict, "no_spec", review=review)
        candidate, verdict, calls = self._edit_and_judge(n, current, review, before)
        return self._record(n, current, found, before, verdict, "", review, candidate, calls)

    def _evidence(self, before: Sequence[Trajectory], n: int) -> _Evidence:
        writes = frozenset(t["name"] for t in self.bench.tools if t["kind"] == "write")
        scenarios = {t.id: t.scenario for t in self.tasks}
        failures = find_failures(
            before,
            self.config.threshold,
            self.config.disclosure,
            writes=writes,
            scenario=scenarios.get if self.config.disclosure == "scenario" else None,  # type: ignore[arg-type]
        )
        patterns = find_patterns(failures, embedder(self.config.embedder, self.store), seed=self.config.seed)
        return _Evidence(failures, patterns, self._subset(failures, patterns, n))

    def _subset(self, failures: list[Failure], patterns: Patterns, n: int) -> Subset:
        if self.config.subset == "all":
            return all_failures(failures)
        seed = self.config.seed * 100 + n
        if self.config.subset == "random-quarter":
            return random_quarter(failures, -(-len(failures) // 4), seed)
        return pick_quarter(failures, patterns, seed=seed)

    def _rejected(self, n: int) -> list[str]:
        """Proposals of earlier rounds that a gate rejected, so that the debate does not repeat them."""
        lines = []
        for m in range(1, n):
            record, review = (
                self._recorded(m),
                self.run.read_json(f"rounds/{self.config.arm}-{m}/review.json"),
            )
            if record and review and review["spec"] and record.verdict == "rejected":
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
            contract=(harnesses.SHIPPED / "README.md").read_text(encoding="utf-8"),
            policy=self.bench.policy,
            tools=self.bench.tools,
            rejected=self._rejected(n),
            max_tokens=self.config.context_tokens,
        )

    def _reviewer(self, n: int) -> Reviewer:
        name = f"rounds/{self.config.arm}-{n}/debate.json"
        return Reviewer(
            self.config.review_model,
            self.config.review_params,
            self.config.debate,
            self.budget,
            load=lambda: self.run.read_json(name),
            save=lambda state: self._save(name, state),
        )

    def _save(self, name: str, state: dict[str, Any]) -> None:
        self.run.write_json(name, state)

    def _edit_and_judge(
        self, n: int, current: Harness, review: Review, before: Sequence[Trajectory]
    ) -> tuple[Candidate, Verdict, int]:
        """Edit once; when the legal-action gate rejects, once more with its reason."""
        feedback, calls = "", 0
        while True:
            out = self.run.path(f"rounds/{self.config.arm}-{n}/candidate-{calls}")
            with self._phase("edit"):
                assert review.spec is not None
                candidate = self.editor.edit(current.path, review.spec, _emptied(out), feedback)
            calls += 1
            if candidate.outcome != "edited":
                return (
                    candidate,
                    Verdict(False, "edit", f"the editor left the harness as it was ({candidate.outcome})"),
                    calls,
                )
            with self._phase("gates"):
                verdict = self._judge(n, candidate, before)
            if verdict.gate != "legal" or calls > 1:
                return candidate, verdict, calls
            feedback = verdict.reason

    def _judge(self, n: int, candidate: Candidate, before: Sequence[Trajectory]) -> Verdict:
        child = gates.loaded(candidate)
        rejected = gates.cheap_gates(candidate, child, before, self.bench)
        if rejected:
            return rejected
        replays = gates.replays_of(before, child, self.bench, self.seat)
        rejected = gates.legal_gate([replays[t.key] for t in before if t.success])
        if rejected:
            return rejected
        changed = {t.trial.task_id for t in before if not replays[t.key].unchanged}
        with self._phase("rerun"):
            tasks = [t for t in self.tasks if t.id in changed]
            after = self._rollout(child, f"{self.config.arm} round {n}: candidate", tasks)
        reused = [_under(child, t) for t in before if t.trial.task_id not in changed]
        verdict = gates.improvement_gate(before, [*after, *reused], len(reused))
        for trajectory in reused if verdict.accepted else ():
            self.store.put(trajectory)
        return verdict

    # -- small things ------------------------------------------------------------------------------------------

    def _rollout(self, harness: Harness, what: str, tasks: Sequence[Task] | None = None) -> list[Trajectory]:
        return rollout(
            self.config.setup,
            self.tasks if tasks is None else tasks,
            harness,
            self.config.seeds,
            self.store,
            workers=self.config.workers,
            budget=self.budget,
            progress=self.progress,
            what=what,
            on_new=self.on_new,
        )

    def _keep(self, harness: Harness) -> Harness:
        """A copy of an accepted harness under its hash in the run folder."""
        folder = self.run.path(f"harness/{harness.hash}")
        if not folder.exists():
            harnesses.copy(harness, folder)
        return harnesses.load(folder)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            inner = self.seconds.pop("rerun", 0.0) if name == "gates" else 0.0
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began - inner
            if inner:
                self.seconds["rollout"] = self.seconds.get("rollout", 0.0) + inner

    def _recorded(self, n: int) -> RoundRecord | None:
        data = self.run.read_json(f"rounds/{self.config.arm}-{n}/record.json")
        if data is None:
            return None
        return RoundRecord(**{**data, **{k: tuple(data[k]) for k in ("gained", "lost", "notes")}})

    def _save_round(self, n: int, found: _Evidence, context: Context, review: Review) -> None:
        folder = f"rounds/{self.config.arm}-{n}"
        self.run.write_text(f"{folder}/context.md", context.text)
        self.run.write_json(f"{folder}/patterns.json", found.patterns)
        self.run.write_json(f"{folder}/subset.json", found.subset)
        self.run.write_json(f"{folder}/failures.json", [_without_trajectory(f) for f in found.failures])
        self.run.write_json(f"{folder}/review.json", review)

    def _record(
        self,
        n: int,
        current: Harness,
        found: _Evidence,
        before: Sequence[Trajectory],
        verdict: Verdict,
        word: str,
        review: Review | None = None,
        candidate: Candidate | None = None,
        calls: int = 0,
    ) -> RoundRecord:
        accepted = verdict.accepted and candidate is not None
        if accepted and candidate is not None:
            current = self._keep(gates.loaded(candidate))
        outcome = word or ("accepted" if accepted else "rejected")
        if candidate is not None and candidate.outcome != "edited":
            outcome = candidate.outcome
        usage = (review.usage if review else Usage()) + (candidate.usage if candidate else Usage())
        record = RoundRecord(
            round=n,
            failures=len(found.failures),
            patterns=len(found.patterns.patterns),
            recurring=len(found.patterns.recurring),
            subset=len(found.subset.picks),
            verdict=outcome,
            gate=verdict.gate,
            reason=verdict.reason,
            score_before=sum(t.score or 0.0 for t in before),
            score_after=verdict.score_after,
            gained=verdict.gained,
            lost=verdict.lost,
            editor_calls=calls,
            harness=current.hash,
            candidate=candidate.hash if candidate else "",
            seconds={k: round(v, 3) for k, v in self.seconds.items()},
            usage=asdict(usage),
            notes=(candidate.notes if candidate else ()) + (found.patterns.warnings),
        )
        self._write_record(record, verdict, candidate)
        return record

    def _write_record(self, record: RoundRecord, verdict: Verdict, candidate: Candidate | None) -> None:
        entry = {"arm": self.config.arm, **asdict(record), "numbers": verdict.numbers}
        entry["diff_lines"] = len(candidate.diff.splitlines()) if candidate else 0
        known = [(e["arm"], e["round"]) for e in self.run.ledger()]
        if (self.config.arm, record.round) not in known:
            self.run.append_ledger(entry)
        if candidate:
            self.run.write_text(f"rounds/{self.config.arm}-{record.round}/candidate.diff", candidate.diff)
        self.run.write_json(f"rounds/{self.config.arm}-{record.round}/record.json", record)


def _under(child: Harness, trajectory: Trajectory) -> Trajectory:
    """A result taken over for another harness, under which every byte that the model sees is the same."""
    return replace(
        trajectory, trial=replace(trajectory.trial, harness=child.hash), reused_from=trajectory.key
    )


def _without_trajectory(failure: Failure) -> dict[str, Any]:
    return {k: v for k, v in asdict(replace(failure, trajectory=None)).items() if k != "trajectory"}  # type: ignore[arg-type]


def _emptied(folder: Path) -> Path:
    """A candidate folder left half-written by a kill is removed first."""
    import shutil

    if folder.exists():
        shutil.rmtree(folder)
    return folder
