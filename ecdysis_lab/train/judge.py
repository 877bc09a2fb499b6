"""Edit once, then the gates in order of cost; the reason of a cheap gate goes back to the editor once."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Candidate, Decision, Editor, Spec, Trajectory, Usage
from ecdysis_lab.train import gates
from ecdysis_lab.train.session import Session

PAID_GATES = ("improvement", "coverage", "confirm")  # these cost reruns, so they end the round


@dataclass(frozen=True)
class Judged:
    """What became of an edit.

    Parameters
    ----------
    candidate : the last one. decision : of the gate that decided. calls : of the editor.
    usage : of all calls. candidates : hashes of all candidates.
    """

    candidate: Candidate
    decision: Decision
    calls: int
    usage: Usage
    candidates: tuple[str, ...] = field(default_factory=tuple)


class Judge:
    """Edits and judges inside a session.

    Parameters
    ----------
    session : of the arm. editor : who edits.
    """

    def __init__(self, session: Session, editor: Editor) -> None:
        self.session, self.editor = session, editor

    def edit_and_judge(self, n: int, current: Harness, spec: Spec, before: Sequence[Trajectory]) -> Judged:
        """One edit; where a gate rejects it before any rerun, one more with that gate's reason.

        Parameters
        ----------
        n : round. current : harness in force. spec : what to change. before : the round's training trajectories.
        """
        first: tuple[Candidate, Decision] | None = None
        calls, usage = 0, Usage()
        hashes: list[str] = []
        while True:
            out = self.session.run.path(f"{self.session.folder(n)}/candidate-{calls}")
            with self.session.phase("edit"):
                candidate = self.edited(current, spec, out, first[1].reason if first else "")
            calls, usage = calls + 1, usage + candidate.usage
            if candidate.outcome != "edited" and first:
                # The round is told by what was rejected, or the next debate would not hear of it.
                told = f"{first[1].reason}; asked again, the editor changed nothing ({candidate.outcome})"
                decision = replace(first[1], reason=told)
                return Judged(first[0], decision, calls, usage, tuple(hashes))
            if candidate.outcome != "edited":
                return Judged(candidate, unchanged(candidate), calls, usage, tuple(hashes))
            hashes.append(candidate.hash)
            with self.session.phase("gates"):
                decision = self.judge(n, current, candidate, before)
            if decision.score_before is not None or decision.gate in PAID_GATES or calls > 1:
                return Judged(candidate, decision, calls, usage, tuple(hashes))
            first = candidate, decision

    def edited(self, current: Harness, spec: Spec, out: Path, feedback: str = "") -> Candidate:
        """The editor's candidate, or the one that it gave before this run was stopped: asked twice, it may differ."""
        name = f"{out.relative_to(self.session.run.folder.resolve())}.json"
        saved = self.session.run.read_json(name)
        if saved and saved["feedback"] == feedback and saved["parent"] == current.hash and intact(out, saved):
            made = {k: v for k, v in saved.items() if k != "feedback"}
            usage, notes = Usage(**made["usage"]), tuple(made["notes"])
            return Candidate(**{**made, "path": out, "usage": usage, "notes": notes})
        candidate = self.editor.edit(current.path, spec, emptied(out), feedback)
        self.session.run.write_json(name, {**asdict(candidate), "feedback": feedback})
        return candidate

    def judge(self, n: int, current: Harness, candidate: Candidate, before: Sequence[Trajectory]) -> Decision:
        """Decision of the first gate that rejects, or of the last one."""
        s, child = self.session, gates.loaded(candidate)
        rejected = gates.cheap_gates(candidate, child, before, s.bench)
        if rejected:
            return rejected
        replays = gates.replays_of(before, child, s.bench)
        rejected = gates.legal_gate([replays[t.key] for t in before if t.success])
        if rejected:
            return rejected
        silent = s.config.reuse
        # A trial in which a hook broke is run again, or its fault would stay with every later candidate.
        changed = {t.trial.task_id for t in before if t.faults or not (silent and replays[t.key].unchanged)}
        with s.phase("rerun"):
            after = s.rollout(child, f"round {n}: candidate", [t for t in s.tasks if t.id in changed])
        reused = [under(child, t) for t in before if t.trial.task_id not in changed]
        decision = gates.improvement_gate(before, [*after, *reused], len(reused))
        if decision.accepted and s.config.confirm:
            decision = self._confirmed(n, current, child, decision)
        for trajectory in reused if decision.accepted else ():
            s.store.put(trajectory)
        return decision

    def _confirmed(self, n: int, current: Harness, child: Harness, first: Decision) -> Decision:
        """The same comparison on seeds that no round has seen; the first decision stands only if these rise too."""
        s, before, after = self.session, [], []
        with s.phase("rerun"):
            for repeat in range(s.config.confirm):
                seeds = s.config.fresh_seeds((n - 1) * s.config.confirm + repeat)
                what = f"round {n}: confirmation {repeat + 1}"
                before += s.rollout(current, f"{what}, parent", seeds=seeds)
                after += s.rollout(child, f"{what}, candidate", seeds=seeds)
        again = gates.improvement_gate(before, after)
        told: dict[str, Any] = {"repeats": s.config.confirm, "before": again.score_before,
                                "after": again.score_after, **again.numbers}  # fmt: skip
        numbers = {**first.numbers, "confirm": told}
        if again.accepted:
            return replace(first, reason=f"{first.reason}; on fresh seeds {again.reason}", numbers=numbers)
        return replace(
            first,
            accepted=False,
            gate="confirm",
            reason=f"{first.reason}, but on fresh seeds {again.reason}",
            numbers=numbers,
        )


def intact(folder: Path, saved: dict[str, Any]) -> bool:
    """Whether a candidate folder is what it was when its record was written."""
    return folder.is_dir() and load_harness(folder).hash == saved["hash"]


def unchanged(candidate: Candidate) -> Decision:
    """Decision on an editor that changed nothing."""
    why = f": {candidate.notes[0][:200]}" if candidate.outcome == "failed" and candidate.notes else ""
    return Decision(False, "edit", f"the editor left the harness as it was ({candidate.outcome}{why})")


def under(child: Harness, trajectory: Trajectory) -> Trajectory:
    """A result taken over for another harness, under which every byte that the model sees is the same."""
    return replace(
        trajectory, trial=replace(trajectory.trial, harness=child.hash), reused_from=trajectory.key
    )


def emptied(folder: Path) -> Path:
    """A candidate folder left half-written by a kill is removed first."""
    if folder.exists():
        shutil.rmtree(folder)
    return folder
