"""Edit once, then the gates in order; the reason of a gate that needed no trials goes back to the editor once."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ecdysis_lab.harness import diff_harness, load_harness
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Candidate, Decision, Editor, GateResult, Judged, Spec, Trajectory, Usage
from ecdysis_lab.review.editors.staging import REJECTED_FILE
from ecdysis_lab.store import Round
from ecdysis_lab.train.arm_run import ArmRun
from ecdysis_lab.train.gates import PRUNE, ROLLBACK, Gate, run_gates
from ecdysis_lab.train.judging import Comparison, Judging
from ecdysis_lab.train.showing import is_auxiliary

PRUNED = 2  # number of the candidate without what adds nothing, after the two that an editor may make


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
        self,
        round: Round,
        current: Harness,
        spec: Spec,
        before: Sequence[Trajectory],
        evidence: Mapping[str, str] | None = None,
    ) -> Outcome:
        """One edit; where a gate rejects the code, one more with that gate's reason.

        Parameters
        ----------
        round : which. current : harness in force. spec : what to change. before : the round's training trajectories.
        evidence : what the editor may read, text by file name; the second edit reads the first one's diff as well.
        """
        first = self.edit(round, round.candidate_path(0), current, spec, before, evidence=evidence)
        if not first.retry:
            return first
        given = {**(evidence or {}), REJECTED_FILE: first.candidate.diff}
        second = self.edit(round, round.candidate_path(1), current, spec, before, first.reason, given)
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
        evidence: Mapping[str, str] | None = None,
    ) -> Outcome:
        """One candidate in the folder ``out``, judged by the arm's gates on the tasks of ``before``."""
        with self.arm_run.phase("edit"):
            candidate = self.edited(round, current, spec, out, feedback, evidence)
        if candidate.outcome != "edited":
            return unchanged(candidate)
        with self.arm_run.phase("gates"):
            return self.judge(round, current, candidate, before)

    def edited(
        self,
        round: Round,
        current: Harness,
        spec: Spec,
        out: Path,
        feedback: str = "",
        evidence: Mapping[str, str] | None = None,
    ) -> Candidate:
        """The editor's candidate, or the one that it gave before this run was stopped: asked twice, it may differ."""
        made, asked = round.made(out) or (None, "")
        if made and asked == feedback and made.parent == current.hash and _intact(made):
            return made
        if out.exists():  # left half-written by a kill
            shutil.rmtree(out)
        candidate = self.editor.edit(current.path, spec, out, feedback, evidence)
        round.keep_made(replace(candidate, path=out), feedback)
        return candidate

    def whole(self, round: Round, start: Harness, child: Harness, before: Sequence[Trajectory]) -> Outcome:
        """All edits of a round as one candidate, which stands or falls by the ``rollback`` gate.

        Parameters
        ----------
        round : which. start : harness that it began with. child : after all edits. before : its training trajectories.
        """
        diff = diff_harness(start, child)
        candidate = Candidate(child.path, child.hash, start.hash, diff, self.editor.name, "edited")
        with self.arm_run.phase("gates"):
            return self.judge(round, start, candidate, before, [ROLLBACK])

    def judge(
        self,
        round: Round,
        current: Harness,
        candidate: Candidate,
        before: Sequence[Trajectory],
        gates: Sequence[Gate] | None = None,
    ) -> Outcome:
        """The candidate before gates, by default those of the arm."""
        judging = self._judging(round, current, candidate, before)
        asked = self.arm_run.runnable(self.gates if gates is None else gates)
        whole = candidate.hash
        results, retry = run_gates(judging, asked)
        decision, gate, reason = decided(results)
        for trajectory in judging.reused if decision == "accepted" else ():
            self.arm_run.store.put(trajectory)
        candidate = judging.candidate
        return Outcome(
            candidate, decision, gate, reason, judged_of(results, whole, candidate.hash), judging.comparison,
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

        repeats = max(s.settings.repeats, int(is_auxiliary(round)))
        first = (round.n - 1) * s.settings.repeats_room
        fresh = [s.settings.fresh_seeds(first + repeat) for repeat in range(repeats)]
        return Judging(
            candidate, current, before, s.bench, trials, fresh_seeds=fresh, reuse=s.settings.reuse,
            pruned=round.candidate_path(PRUNED), by_replay=not s.settings.model.startswith("sim/"),
        )  # fmt: skip


def judged_of(results: Sequence[GateResult], whole: str, last: str) -> tuple[Judged, ...]:
    """Which gates met which candidate: from pruning on it is the pruned one, where something was left out.

    Parameters
    ----------
    results : of all gates that ran. whole, last : hashes of the candidate before the first gate and after the last one.
    """
    if whole == last:
        return (Judged(whole, tuple(results)),)
    at = [r.name for r in results].index(PRUNE)
    return Judged(whole, tuple(results[:at])), Judged(last, tuple(results[at:]))


def decided(results: Sequence[GateResult]) -> tuple[Decision, str, str]:
    """Decision, the gate that decided and why: the one that rejected, or else the last one that could have."""
    if results and results[-1].outcome == "rejected":
        return "rejected", results[-1].name, results[-1].reason
    through = [r for r in results if r.outcome == "passed"]
    told = "; ".join(r.reason for r in through if r.reason)
    by = [r.name for r in through if r.name != PRUNE]
    return (
        "accepted",
        by[-1] if by else "",
        told or f"every gate that ran passed ({len(through)} of {len(results)})",
    )


def unchanged(candidate: Candidate) -> Outcome:
    """The outcome where an editor changed nothing."""
    why = f": {candidate.notes[0][:200]}" if candidate.outcome == "failed" and candidate.notes else ""
    decision: Decision = "failed" if candidate.outcome == "failed" else "no_change"
    reason = f"the editor left the harness as it was ({candidate.outcome}{why})"
    return Outcome(candidate, decision, "", reason, usage=candidate.usage)


def _intact(made: Candidate) -> bool:
    """Whether a candidate folder is what it was when its record was written."""
    return made.path.is_dir() and load_harness(made.path).hash == made.hash
