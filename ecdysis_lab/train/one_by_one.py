"""How harnesses evolve without Ecdysis: every failure alone to the editor, each edit on top of the one before.

The comparison arms. A failure is read by itself, without patterns, debate, or the acts that passing trials rely on,
and never twice with the same harness. ``self-evolution`` keeps every edit that passes static policy and probe, which
protect the machine, and runs nothing until the round is over: then the round stays or falls as a whole, as in the
published code. ``self-evolution-verified`` keeps an edit when its own task scores higher; no other task is asked, which
is what makes such edits narrow.

A model that edits reads the failure itself. The ``rules`` editor needs a guard, which one turn of the review model
writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import (
    Decision,
    Edit,
    Failure,
    Judged,
    Pattern,
    Patterns,
    Pick,
    Review,
    RoundRecord,
    Spec,
    Subset,
    Trajectory,
    Usage,
)
from ecdysis_lab.review.context import Context, build_context
from ecdysis_lab.review.debate import Reviewer
from ecdysis_lab.review.editors.staging import contract
from ecdysis_lab.store import Round
from ecdysis_lab.train.arm_run import ArmRun
from ecdysis_lab.train.judge import Judge, Outcome
from ecdysis_lab.train.rounds import summed

NO_FAILURES = "nothing fails"
ALL_HANDED_OVER = "every failure was handed over before with this harness"
NOT_HANDED = ("mended", "repeated")
Latest = dict[tuple[str, int], Trajectory]
"""The last trajectory of every (task, seed)."""


class Alone(Reviewer):
    """A reviewer that reads one failure and writes the spec, in one turn and without the rules of FDCR."""

    def review(self, context: Context) -> Review:
        """As :meth:`Reviewer.review`, with the closing turn only; no turn at all where the editor reads for itself."""
        if not self.vocabulary:
            return Review("spec", Spec((), ()), (), Usage())
        answers, usage = self._resume(context, [])
        return self._close(context, [], answers, usage)

    def _prompt(self, role: str, context: Context, turns: Any) -> list[dict[str, Any]]:
        return [
            {"role": "system", "content": self.instructions("alone")},
            {"role": "user", "content": context.text},
        ]


@dataclass
class Edits:
    """What the failures of one round led to.

    Parameters
    ----------
    harness : in force after the last edit. done : one per failure, in order.
    """

    harness: Harness
    done: list[Edit] = field(default_factory=list)

    def record(
        self,
        round: Round,
        start: Harness,
        whole: Outcome | None,
        before: Sequence[Trajectory],
        seconds: dict[str, float],
        notes: tuple[str, ...] = (),
    ) -> RoundRecord:
        """What the round's record says.

        Parameters
        ----------
        round : which. start : harness that it began with. whole : what became of all edits together, where they are
            judged so. before : the round's training trajectories. seconds : wall clock by phase.
        notes : for the reader.
        """
        words = [e.decision for e in self.done]
        handed = [w for w in words if w not in NOT_HANDED]
        counts = ", ".join(f"{words.count(w)} {w}" for w in dict.fromkeys(words)) or NO_FAILURES
        scores = whole.comparison if whole else None
        judged = tuple(Judged(e.candidate, e.gates) for e in self.done if e.candidate)
        kept = self.harness if whole is None or whole.accepted else start
        return RoundRecord(
            round=round.n, failures=len(self.done), patterns=0, recurring=0, subset=len(handed),
            decision=whole.decision if whole else _word(words), gate=whole.gate if whole else "",
            reason=f"each failure alone: {counts}" + (f"; {whole.reason}" if whole else ""),
            score_before=summed(before), score_after=scores.after if scores else None,
            gained=scores.gained if scores else tuple(dict.fromkeys(p for e in self.done for p in e.gained)),
            lost=scores.lost if scores else (), editor_calls=sum(e.editor_calls for e in self.done),
            harness=kept.hash, candidate=whole.candidate.hash if whole else "", seconds=seconds,
            usage=sum((e.usage for e in self.done), Usage()), parent=start.hash, notes=notes,
            candidates=judged + (whole.judged if whole else ()),
            ended=NO_FAILURES if not words else "" if handed else ALL_HANDED_OVER,
        )  # fmt: skip


class OneByOne:
    """Edits a harness failure by failure; goes on where it stopped.

    Parameters
    ----------
    arm_run : the arm inside its run. judge : edits and judges. find : failures among trajectories, as the round
        finds them. verify : whether a task runs again before its failure is handed over and after it was edited; else
        a failure is handed over as it was when the round began.
    """

    def __init__(
        self,
        arm_run: ArmRun,
        judge: Judge,
        find: Callable[[list[Trajectory]], list[Failure]],
        *,
        verify: bool,
    ) -> None:
        self.arm_run, self.judge, self.find, self.verify = arm_run, judge, find, verify

    def run(
        self,
        round: Round,
        current: Harness,
        failures: Sequence[Failure],
        before: Sequence[Trajectory],
        handed: Iterable[Edit],
    ) -> Edits:
        """Hand over each failure that no earlier edit has mended, and that was not handed over with this harness.

        Parameters
        ----------
        round : which. current : harness in force. failures : of the round. before : its training trajectories.
        handed : edits of earlier rounds.
        """
        s, known = self.arm_run, round.edits or ()
        edits, latest = Edits(current), _by_pair(before)
        self.handed = {(e.failure, e.parent) for e in (*handed, *known) if e.decision not in NOT_HANDED}
        what = f"{s.name} round {round.n}: failures handed to the editor"
        for i, failure in enumerate(failures, 1):
            if s.progress:
                s.progress(what, i - 1, len(failures))
            if i <= len(known):
                edit = known[i - 1]
                if edit.decision == "accepted" and self.verify:
                    latest |= _by_pair(self._trials(round, s.kept(edit.harness), edit.task))
            else:
                edit = self._one(round, i, edits.harness, failure, latest)
            edits.harness = s.kept(edit.harness)
            edits.done.append(edit)
            round.edits = tuple(edits.done)
            s.log({"round": round.n, "edit": i, **asdict(edit)})
        if s.progress and failures:
            s.progress(what, len(failures), len(failures))
        return edits

    def _up_to_date(self, round: Round, failure: Failure, current: Harness, latest: Latest) -> Failure | None:
        """The failure as it is in the harness in force, or None where an earlier edit has mended it."""
        pair = failure.task_id, failure.trajectory.trial.seed
        if self.verify and latest[pair].trial.harness != current.hash:
            with self.arm_run.phase("rollout"):
                latest |= _by_pair(self._trials(round, current, failure.task_id))
        now = latest[pair]
        return failure if now.key == failure.key else next(iter(self.find([now])), None)

    def _one(self, round: Round, i: int, current: Harness, failure: Failure, latest: Latest) -> Edit:
        """One failure: review, edit, gates on its own task."""
        s, force = self.arm_run, self.arm_run.keep(current).hash
        start = Edit(failure.key, failure.task_id, current.hash, force, "mended")
        now = self._up_to_date(round, failure, current, latest)
        if now is None:
            return replace(start, reason="an earlier edit mended it")
        if (now.key, current.hash) in self.handed:
            return replace(
                start, failure=now.key, decision="repeated", reason="handed over before with this harness"
            )
        context = self._context(now, current)
        with s.phase("review"):
            review = self._reviewer(round, i).review(context)
        start = replace(start, failure=now.key, usage=review.usage)
        if review.spec is None:
            return replace(start, decision="no_spec", reason=review.reason)
        before = [t for (task, _), t in latest.items() if task == failure.task_id]
        made = self.judge.edit(
            round, round.edit_path(i), current, review.spec, before, evidence=context.files
        )
        if made.accepted:
            force = s.keep(load_harness(made.candidate.path)).hash
            latest |= _by_pair(made.trials)
        return replace(
            start,
            harness=force,
            decision=made.decision,
            gate=made.gate,
            reason=made.reason,
            candidate=made.candidate.hash if made.judged else "",
            gates=made.judged[0].gates if made.judged else (),
            gained=made.comparison.gained if made.accepted and made.comparison else (),
            editor_calls=made.calls,
            usage=review.usage + made.usage,
            changes=review.spec.changes,
        )

    def _trials(self, round: Round, harness: Harness, task: str) -> list[Trajectory]:
        tasks = [t for t in self.arm_run.tasks if t.id == task]
        return self.arm_run.rollout(harness, f"round {round.n}: one task again", tasks)

    def _reviewer(self, round: Round, i: int) -> Alone:
        s = self.arm_run
        return Alone(
            s.settings.review_model,
            s.settings.review_params,
            0,
            s.budget,
            load=lambda: round.debate(i),
            save=lambda state: round.save_debate(state, i),
            vocabulary=self.judge.editor.name == "rules",
        )

    def _context(self, failure: Failure, current: Harness) -> Context:
        s, key = self.arm_run, failure.key
        what = failure.first_bad_what[:80] or "cause not found by rule"
        alone = Pattern(0, what, what, (key,), key, (failure.task_id,))
        made = build_context(
            [failure],
            Patterns((alone,), {}, {}, "alone", "none", 1.0, None),
            Subset((Pick(key, 0.0, "every failure by itself"),), 1, 1, origin="all"),
            [],
            current,
            s.bench,
            contract=contract(),
            max_tokens=s.settings.context_tokens,
        )
        return replace(made, recurring=frozenset({0}), task_of={})  # here one failure is enough


def _by_pair(trajectories: Iterable[Trajectory]) -> Latest:
    return {(t.trial.task_id, t.trial.seed): t for t in trajectories}


def _word(words: Sequence[Decision]) -> Decision:
    """How a round of edits that are kept one by one ended."""
    ends: tuple[Decision, ...] = ("accepted", "rejected", "failed")
    return next((w for w in ends if w in words), "no_change" if words else "no_failures")
