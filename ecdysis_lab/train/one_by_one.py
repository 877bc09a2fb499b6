"""How harnesses evolve without Ecdysis: every failure alone to the editor, each edit verified before the next.

The comparison arm ``self-evolution``. A failure is diagnosed by itself, without patterns, debate, or the acts that
passing trials rely on. An edit is kept when its own task scores higher than before; no other task is asked, which
is what makes such edits narrow. Static policy and probe are kept, since they protect the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ecdysis_lab.harness import SHIPPED, load_harness
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import (
    Edit,
    Failure,
    Judged,
    Pattern,
    Patterns,
    Pick,
    Review,
    Subset,
    Trajectory,
    Usage,
)
from ecdysis_lab.review.context import Context, build_context
from ecdysis_lab.review.debate import Reviewer
from ecdysis_lab.store import Round
from ecdysis_lab.train.arm_run import ArmRun
from ecdysis_lab.train.judge import Judge

Latest = dict[tuple[str, int], Trajectory]
"""The last trajectory of every (task, seed)."""


class Alone(Reviewer):
    """A reviewer that reads one failure and writes the spec, in one turn and without the rules of FDCR."""

    def review(self, context: Context) -> Review:
        """As :meth:`Reviewer.review`, with the closing turn only."""
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

    @property
    def usage(self) -> Usage:
        """Of all reviews and editor calls."""
        return sum((e.usage for e in self.done), Usage())

    @property
    def calls(self) -> int:
        """Calls of the editor."""
        return sum(e.editor_calls for e in self.done)

    def judged(self) -> tuple[Judged, ...]:
        """Candidates and what the gates said of them."""
        return tuple(Judged(e.candidate, e.gates) for e in self.done if e.candidate)

    def gained(self) -> tuple[str, ...]:
        """(task#seed) that the kept edits won."""
        return tuple(dict.fromkeys(p for e in self.done for p in e.gained))


class OneByOne:
    """Edits a harness failure by failure; goes on where it stopped.

    Parameters
    ----------
    arm_run : the arm inside its run. judge : edits and judges. find : failures among trajectories, as the round
        finds them.
    """

    def __init__(
        self, arm_run: ArmRun, judge: Judge, find: Callable[[list[Trajectory]], list[Failure]]
    ) -> None:
        self.arm_run, self.judge, self.find = arm_run, judge, find

    def run(
        self, round: Round, current: Harness, failures: Sequence[Failure], before: Sequence[Trajectory]
    ) -> Edits:
        """Hand over each failure that no earlier edit has mended.

        Parameters
        ----------
        round : which. current : harness in force. failures : of the round. before : its training trajectories.
        """
        s, known = self.arm_run, round.edits or ()
        edits, latest = Edits(current), _by_pair(before)
        what = f"{s.name} round {round.n}: failures handed to the editor"
        for i, failure in enumerate(failures, 1):
            if s.progress:
                s.progress(what, i - 1, len(failures))
            if i <= len(known):
                edit = known[i - 1]
                if edit.decision == "accepted":
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
        if latest[pair].trial.harness != current.hash:
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
        with s.phase("review"):
            review = self._reviewer(round, i).review(self._context(now, current))
        if review.spec is None:
            return replace(start, decision="no_spec", reason=review.reason, usage=review.usage)
        before = [t for (task, _), t in latest.items() if task == failure.task_id]
        made = self.judge.edit(round, round.edit_path(i), current, review.spec, before)
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
            max_tokens=s.settings.context_tokens,
        )
        return replace(made, recurring=frozenset({0}))  # here one failure is enough


def _by_pair(trajectories: Iterable[Trajectory]) -> Latest:
    return {(t.trial.task_id, t.trial.seed): t for t in trajectories}
