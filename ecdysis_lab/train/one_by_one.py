"""How harnesses evolve without Ecdysis: every failure alone to the editor, each edit verified before the next.

The comparison arm ``self-evolution``. A failure is diagnosed by itself, without patterns, debate, or the acts that
passing trials rely on. An edit is kept when its own task scores higher than before; no other task is asked, which
is what makes such edits narrow. Static policy and probe are kept, since they protect the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ecdysis_lab.harness import SHIPPED, load_harness
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import (
    Candidate,
    Decision,
    Failure,
    Pattern,
    Patterns,
    Pick,
    Review,
    Subset,
    Trajectory,
    Usage,
)
from ecdysis_lab.review.context import Context, build_context
from ecdysis_lab.review.debate import Reviewer, prompt
from ecdysis_lab.train import gates
from ecdysis_lab.train.judge import Judge, unchanged
from ecdysis_lab.train.session import Session

MENDED = "mended"


class Alone(Reviewer):
    """A reviewer that reads one failure and writes the spec, in one turn and without the rules of FDCR."""

    def review(self, context: Context) -> Review:
        """As :meth:`Reviewer.review`, with the closing turn only."""
        answers, usage = self._resume(context, [])
        return self._close(context, [], answers, usage)

    def _prompt(self, role: str, context: Context, turns: Any) -> list[dict[str, Any]]:
        return [{"role": "system", "content": prompt("alone")}, {"role": "user", "content": context.text}]


@dataclass
class Edits:
    """What the failures of one round led to.

    Parameters
    ----------
    harness : in force after the last edit. done : one entry per failure, in order.
    """

    harness: Harness
    done: list[dict[str, Any]] = field(default_factory=list)

    @property
    def usage(self) -> Usage:
        """Of all reviews and editor calls."""
        return sum((Usage(**e["usage"]) for e in self.done), Usage())

    @property
    def calls(self) -> int:
        """Calls of the editor."""
        return sum(e["editor_calls"] for e in self.done)

    def hashes(self) -> tuple[str, ...]:
        """Candidates that were run."""
        return tuple(e["candidate"] for e in self.done if e["candidate"])

    def gained(self) -> tuple[str, ...]:
        """(task#seed) that the kept edits won."""
        return tuple(dict.fromkeys(p for e in self.done for p in e["gained"]))


class OneByOne:
    """Edits a harness failure by failure inside a session; goes on where it stopped.

    Parameters
    ----------
    session : of the arm. judge : holds the editor. find : failures among trajectories, as the round finds them.
    """

    def __init__(
        self, session: Session, judge: Judge, find: Callable[[list[Trajectory]], list[Failure]]
    ) -> None:
        self.session, self.judge, self.find = session, judge, find

    def run(
        self, n: int, current: Harness, failures: Sequence[Failure], before: Sequence[Trajectory]
    ) -> Edits:
        """Hand over each failure that no earlier edit has mended.

        Parameters
        ----------
        n : round. current : harness in force. failures : of the round. before : its training trajectories.
        """
        s, name = self.session, f"{self.session.folder(n)}/edits.json"
        known = s.run.read_json(name) or []
        edits, latest = Edits(current), {(t.trial.task_id, t.trial.seed): t for t in before}
        for i, failure in enumerate(failures, 1):
            if s.progress:
                s.progress(f"{s.config.arm} round {n}: failures handed to the editor", i - 1, len(failures))
            if i <= len(known):
                entry = known[i - 1]
                latest |= {(t.trial.task_id, t.trial.seed): t for t in self._after(n, entry)}
            else:
                entry = self._one(n, i, edits.harness, failure, latest)
            edits.harness = self._force(entry)
            edits.done.append(entry)
            s.run.write_json(name, edits.done)
            s.log({"round": n, "edit": i, **entry})
        if s.progress and failures:
            s.progress(
                f"{s.config.arm} round {n}: failures handed to the editor", len(failures), len(failures)
            )
        return edits

    def _force(self, entry: dict[str, Any]) -> Harness:
        """The harness in force after an edit."""
        return load_harness(self.session.run.path(f"harness/{entry['harness']}"))

    def _after(self, n: int, entry: dict[str, Any]) -> list[Trajectory]:
        """Trials of an accepted edit, from the store."""
        accepted = entry["decision"] == "accepted"
        return self._trials(n, self._force(entry), entry["task"]) if accepted else []

    def _up_to_date(
        self, n: int, failure: Failure, current: Harness, latest: dict[tuple[str, int], Trajectory]
    ) -> Failure | None:
        """The failure as it is in the harness in force, or None where an earlier edit has mended it."""
        task, seed = failure.task_id, failure.trajectory.trial.seed
        if latest[task, seed].trial.harness != current.hash:
            with self.session.phase("rollout"):
                again = self._trials(n, current, task)
            latest |= {(t.trial.task_id, t.trial.seed): t for t in again}
        now = latest[task, seed]
        if now.key == failure.key:
            return failure
        return next(iter(self.find([now])), None)

    def _one(
        self, n: int, i: int, current: Harness, failure: Failure, latest: dict[tuple[str, int], Trajectory]
    ) -> dict[str, Any]:
        """One failure: review, edit, verify; the entry of ``edits.json``."""
        entry: dict[str, Any] = {
            "failure": failure.key, "task": failure.task_id, "parent": current.hash, "candidate": "",
            "harness": self.session.keep(current).hash, "gained": [], "editor_calls": 0,
        }  # fmt: skip
        now = self._up_to_date(n, failure, current, latest)
        if now is None:
            why = "an earlier edit mended it"
            return {**entry, "decision": MENDED, "gate": "", "reason": why, "usage": asdict(Usage())}
        failure = now
        with self.session.phase("review"):
            review = self._reviewer(n, i).review(self._context(failure, current))
        if review.spec is None:
            usage = asdict(review.usage)
            return {**entry, "decision": "no_spec", "gate": "review", "reason": review.reason, "usage": usage}
        out = self.session.run.path(f"{self.session.folder(n)}/edit-{i}")
        with self.session.phase("edit"):
            candidate = self.judge.edited(current, review.spec, out)
        with self.session.phase("gates"):
            decision, after = self._verify(n, failure, candidate, latest)
        if decision.accepted:
            entry["harness"] = self.session.keep(gates.loaded(candidate)).hash
            latest |= {(t.trial.task_id, t.trial.seed): t for t in after}
        word = "accepted" if decision.accepted else "rejected"
        return {
            **entry,
            "decision": word if candidate.outcome == "edited" else candidate.outcome,
            "gate": decision.gate,
            "reason": decision.reason,
            "candidate": candidate.hash if candidate.outcome == "edited" else "",
            "gained": list(decision.gained) if decision.accepted else [],
            "editor_calls": 1,
            "usage": asdict(review.usage + candidate.usage),
        }

    def _verify(
        self, n: int, failure: Failure, candidate: Candidate, latest: dict[tuple[str, int], Trajectory]
    ) -> tuple[Decision, list[Trajectory]]:
        """Static policy, probe, then the failure's own task again: its score must rise."""
        s = self.session
        if candidate.outcome != "edited":
            return unchanged(candidate), []
        child = gates.loaded(candidate)
        rejected = gates.static_gate(child) or gates.probe_gate(child, s.bench, failure.task_id)
        if rejected:
            return rejected, []
        before = [t for (task, _), t in latest.items() if task == failure.task_id]
        if s.config.reuse and all(r.unchanged for r in gates.replays_of(before, child, s.bench).values()):
            return Decision(False, "improvement", "the model would see nothing new on this task"), []
        with s.phase("rerun"):
            after = self._trials(n, child, failure.task_id)
        decision = gates.improvement_gate(before, after)
        return replace(decision, reason=f"on its own task the {decision.reason}"), after

    def _trials(self, n: int, harness: Harness, task: str) -> list[Trajectory]:
        tasks = [t for t in self.session.tasks if t.id == task]
        return self.session.rollout(harness, f"round {n}: one task again", tasks)

    def _reviewer(self, n: int, i: int) -> Alone:
        s, name = self.session, f"{self.session.folder(n)}/debate-{i}.json"
        return Alone(
            s.config.review_model,
            s.config.review_params,
            0,
            s.budget,
            load=lambda: s.run.read_json(name),
            save=lambda state: (s.run.write_json(name, state), None)[1],
        )

    def _context(self, failure: Failure, current: Harness) -> Context:
        s, key = self.session, failure.key
        alone = Pattern(
            0, failure.first_bad_what[:80], failure.first_bad_what[:80], (key,), key, (failure.task_id,)
        )
        made = build_context(
            [failure],
            Patterns((alone,), {}, {}, "alone", "none", 1.0, None),
            Subset((Pick(key, 0.0, "every failure by itself"),), 1, 1, origin="all"),
            [],
            current,
            s.bench,
            contract=(SHIPPED / "README.md").read_text(encoding="utf-8"),
            max_tokens=s.config.context_tokens,
        )
        return replace(made, recurring=frozenset({0}))  # here one failure is enough
