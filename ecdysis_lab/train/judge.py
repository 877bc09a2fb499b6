"""Edit once, then the gates in order; the reason of a gate that needed no trials goes back to the editor once."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Candidate, Decision, Editor, GateResult, Judged, Spec, Trajectory, Usage
from ecdysis_lab.store import Round
from ecdysis_lab.train.arm_run import ArmRun
from ecdysis_lab.train.gates import Gate, run_gates
from ecdysis_lab.train.judging import Comparison, Judging


@dataclass(frozen=True)
class Outcome:
    """What became of an edit.

    Parameters
    ----------
    candidate : the last one. decision : on it. gate : that decided, empty where none ran. reason : one sentence.
    judged : every candidate that met the gates, in order. comparison : of the scores, where there was a rerun.
    calls : of the editor. usage : of all its calls. retry : whether the editor may try again.
    trials : of the candidate in the rerun.
    """

    candidate: Candidate
    decision: Decision
    gate: str
    reason: str
    judged: tuple[Judged, ...] = ()
    comparison: Comparison | None = None
    calls: int = 1
    usage: Usage = field(default_factory=Usage)
    retry: bool = False
    trials: tuple[Trajectory, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether the candidate is the harness in force from now on."""
        return self.decision == "accepted"


class Judge:
    """Edits and judges for one arm.

    Parameters
    ----------
    arm_run : the arm inside its run. editor : who edits. gates : that an edit has to pass, in order.
    """

    def __init__(self, arm_run: ArmRun, editor: Editor, gates: Sequence[Gate]) -> None:
        self.arm_run, self.editor, self.gates = arm_run, editor, gates

    def edit_and_judge(
        self, round: Round, current: Harness, spec: Spec, before: Sequence[Trajectory]
    ) -> Outcome:
        """One edit; where a gate rejects the code, one more with that gate's reason.

        Parameters
        ----------
        round : which. current : harness in force. spec : what to change. before : the round's training trajectories.
        """
        first = self.edit(round, round.candidate_path(0), current, spec, before)
        if not first.retry:
            return first
        second = self.edit(round, round.candidate_path(1), current, spec, before, first.reason)
        calls, usage = first.calls + second.calls, first.usage + second.usage
        if second.judged:
            return replace(second, judged=first.judged + second.judged, calls=calls, usage=usage)
        # The round is told by what was rejected, or the next debate would not hear of it.
        told = f"{first.reason}; asked again, the editor changed nothing ({second.candidate.outcome})"
        return replace(first, reason=told, calls=calls, usage=usage)

    def edit(
        self,
        round: Round,
        out: Path,
        current: Harness,
        spec: Spec,
        before: Sequence[Trajectory],
        feedback: str = "",
    ) -> Outcome:
        """One candidate in the folder ``out``, judged by the arm's gates on the tasks of ``before``."""
        with self.arm_run.phase("edit"):
            candidate = self.edited(round, current, spec, out, feedback)
        if candidate.outcome != "edited":
            return unchanged(candidate)
        with self.arm_run.phase("gates"):
            return self.judge(round, current, candidate, before)

    def edited(self, round: Round, current: Harness, spec: Spec, out: Path, feedback: str = "") -> Candidate:
        """The editor's candidate, or the one that it gave before this run was stopped: asked twice, it may differ."""
        made, asked = round.made(out) or (None, "")
        if made and asked == feedback and made.parent == current.hash and _intact(made):
            return made
        if out.exists():  # left half-written by a kill
            shutil.rmtree(out)
        candidate = self.editor.edit(current.path, spec, out, feedback)
        round.keep_made(replace(candidate, path=out), feedback)
        return candidate

    def judge(
        self, round: Round, current: Harness, candidate: Candidate, before: Sequence[Trajectory]
    ) -> Outcome:
        """The candidate before the arm's gates."""
        judging = self._judging(round, current, candidate, before)
        results, retry = run_gates(judging, self.arm_run.runnable(self.gates))
        decision, gate, reason = decided(results)
        for trajectory in judging.reused if decision == "accepted" else ():
            self.arm_run.store.put(trajectory)
        return Outcome(
            candidate, decision, gate, reason, (Judged(candidate.hash, results),), judging.comparison,
            usage=candidate.usage, retry=retry, trials=judging.after,
        )  # fmt: skip

    def _judging(
        self, round: Round, current: Harness, candidate: Candidate, before: Sequence[Trajectory]
    ) -> Judging:
        s = self.arm_run

        def trials(
            harness: Harness, what: str, ids: set[str], seeds: Sequence[int] | None
        ) -> list[Trajectory]:
            with s.phase("rerun"):
                return s.rollout(
                    harness, f"round {round.n}: {what}", [t for t in s.tasks if t.id in ids], seeds
                )

        first = (round.n - 1) * s.settings.confirm
        fresh = [s.settings.fresh_seeds(first + repeat) for repeat in range(s.settings.confirm)]
        return Judging(candidate, current, before, s.bench, trials, fresh_seeds=fresh, reuse=s.settings.reuse)


def decided(results: Sequence[GateResult]) -> tuple[Decision, str, str]:
    """Decision, the gate that decided and why: the one that rejected, or else the last one that was passed."""
    if results and results[-1].outcome == "rejected":
        return "rejected", results[-1].name, results[-1].reason
    through = [r for r in results if r.outcome == "passed"]
    told = "; ".join(r.reason for r in through if r.reason)
    return "accepted", through[-1].name if through else "", told or "every gate was passed"


def unchanged(candidate: Candidate) -> Outcome:
    """The outcome where an editor changed nothing."""
    why = f": {candidate.notes[0][:200]}" if candidate.outcome == "failed" and candidate.notes else ""
    decision: Decision = "failed" if candidate.outcome == "failed" else "no_change"
    reason = f"the editor left the harness as it was ({candidate.outcome}{why})"
    return Outcome(candidate, decision, "", reason, usage=candidate.usage)


def _intact(made: Candidate) -> bool:
    """Whether a candidate folder is what it was when its record was written."""
    return made.path.is_dir() and load_harness(made.path).hash == made.hash
