"""The gates, in order of cost: static policy and probe, leak, legal actions, coverage, strict improvement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecdysis_lab.harness.probe import probe
from ecdysis_lab.harness.replay import Replay, replay
from ecdysis_lab.harness.source import Harness, static_problems
from ecdysis_lab.records import Benchmark, Candidate, Decision, LabError, Trajectory
from ecdysis_lab.train.leak import facts, leaks

SHOWN = 3  # examples named in a decision
GROWTH = 0.30  # more than this against the parent is worth a warning
BACK_TO_EDITOR = ("static", "probe", "leak", "legal")
"""Gates whose reason an editor can act on: they judge the code, not the score."""


@dataclass(frozen=True)
class Scores:
    """Training trajectories of one harness, paired with those of another by (task, seed)."""

    trajectories: tuple[Trajectory, ...]

    def by_pair(self) -> dict[tuple[str, int], float]:
        """Score by (task id, seed); unscored trials are absent."""
        return {(t.trial.task_id, t.trial.seed): t.score for t in self.trajectories if t.score is not None}


def static_gate(candidate: Harness) -> Decision | None:
    """Rejection by the static policy, or None."""
    problems = static_problems(candidate)
    if not problems:
        return None
    first = "; ".join(f"{p.file}:{p.line} {p.what}" for p in problems[:SHOWN])
    return Decision(False, "static", f"static policy: {first}", numbers={"problems": len(problems)})


def probe_gate(candidate: Harness, benchmark: Benchmark, task_id: str) -> Decision | None:
    """Rejection when a hook faults on a plain call, or None."""
    fault = probe(candidate, benchmark, task_id)
    if fault is None:
        return None
    return Decision(False, "probe", f"a hook breaks on a plain call: {fault}", numbers={"kind": fault.kind})


def leak_gate(candidate: Candidate, training: Sequence[Trajectory], benchmark: Benchmark) -> Decision | None:
    """Rejection when the diff holds a fact of a training task, or None."""
    known = benchmark.policy + "\n".join(f"{t['description']} {t['parameters']}" for t in benchmark.tools)
    found = leaks(candidate.diff, facts(training, known, benchmark))
    if not found:
        return None
    return Decision(
        False,
        "leak",
        f"facts of training tasks in the diff: {', '.join(found[:SHOWN])}",
        numbers={"facts": found},
    )


def legal_gate(replays: Sequence[Replay]) -> Decision | None:
    """Rejection when a call of a passing trajectory is newly refused or changed, or a hook breaks on it, or None."""
    broken = [(r.key, r.faults[0]) for r in replays if r.faults]
    if broken:
        key, fault = broken[0]
        where = f"{fault.hook} in passing trial {key[:8]}"
        why = f"a hook breaks in {len(broken)} replays, first {where}: {fault.reason[:160]}"
        return Decision(False, "probe", why, numbers={"faults": len(broken)})
    bad = [(r.key, d) for r in replays for d in r.differences]
    if not bad:
        return None
    key, first = bad[0]
    why = f"(rule {first.rule}: {first.reason[:160]})"
    reason = f"{first.what} an act of passing trial {key[:8]}: {first.act[:160]} {why}"
    shown = [{"trial": k, "step": d.step, "what": d.what, "act": d.act, "rule": d.rule} for k, d in bad[:20]]
    return Decision(False, "legal", reason, numbers={"differences": len(bad), "shown": shown})


def replays_of(
    trajectories: Sequence[Trajectory], candidate: Harness, benchmark: Benchmark
) -> dict[str, Replay]:
    """Replays by trial key."""
    return {t.key: replay(t, candidate, benchmark) for t in trajectories}


def sign_test_p(gained: int, lost: int) -> float:
    """Two-sided exact sign test over what flipped up and down; 1.0 when nothing flipped."""
    from scipy.stats import binomtest

    return float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0


def improvement_gate(before: Sequence[Trajectory], after: Sequence[Trajectory], reused: int = 0) -> Decision:
    """Accept only a strictly higher summed score over the same (task, seed) pairs.

    Parameters
    ----------
    before, after : training trajectories of parent and candidate; both must cover the same pairs. Pairs in which
        the user failed on either side are left out and counted; where that hides a success, the coverage is too thin.
    reused : how many results of ``after`` were taken over because nothing the model sees has changed.

    Raises
    ------
    LabError: a pair is missing on either side; it is named. An unscored trial never counts as a zero.
    """
    old, new = Scores(tuple(before)).by_pair(), Scores(tuple(after)).by_pair()
    blurred = {_pair(t) for t in (*before, *after) if t.status == "user_fault"}
    wanted = {_pair(t) for t in (*before, *after)} - blurred
    missing = sorted(p for p in wanted if p not in old or p not in new)
    if missing:
        (task, seed), n = missing[0], len(missing)
        raise LabError(f"coverage: no score on both sides for task {task}, seed {seed} ({n} in all)")
    hidden = sorted(p for p in blurred if old.get(p, 0.0) > 0.0)
    numbers: dict[str, Any] = {"pairs": len(wanted), "reused": reused, "user_faults": len(blurred)}
    if hidden or not wanted:
        why = (
            f"the user failed in {len(hidden or blurred)} pairs that were scored before, so a loss could hide"
        )
        return Decision(False, "coverage", why, numbers=numbers)
    gained = tuple(sorted(f"{t}#{s}" for t, s in wanted if new[t, s] > old[t, s]))
    lost = tuple(sorted(f"{t}#{s}" for t, s in wanted if new[t, s] < old[t, s]))
    sums = sum(old[p] for p in wanted), sum(new[p] for p in wanted)
    numbers |= {"sign_test_p": sign_test_p(len(gained), len(lost))}
    broken = [t for t in after if t.faults]
    if broken:
        why = f"a hook broke in {len(broken)} trials: {broken[0].faults[0].reason[:160]}"
        return Decision(False, "probe", why, *sums, gained, lost, {**numbers, "faults": len(broken)})
    accepted = sums[1] > sums[0]
    word = "rises" if accepted else "stays" if sums[1] == sums[0] else "falls"
    reason = f"training score {word} from {sums[0]:g} to {sums[1]:g} of {len(wanted)}"
    return Decision(accepted, "improvement", reason, *sums, gained, lost, numbers)


def _pair(trajectory: Trajectory) -> tuple[str, int]:
    return trajectory.trial.task_id, trajectory.trial.seed


def cheap_gates(
    candidate: Candidate, loaded: Harness, training: Sequence[Trajectory], benchmark: Benchmark
) -> Decision | None:
    """Static, probe and leak gates; the first rejection, or None."""
    return (
        static_gate(loaded)
        or probe_gate(loaded, benchmark, training[0].trial.task_id)
        or leak_gate(candidate, training, benchmark)
    )


def growth_notes(parent: Harness, candidate: Harness) -> tuple[str, ...]:
    """A warning where a candidate has over 30% more tokens or lines than its parent; an empty parent has no measure.

    Growth rejects nothing: text costs the task model attention, and the score decides whether it is worth it.
    """
    sizes = {"tokens": (parent.tokens(), candidate.tokens()), "lines": (_lines(parent), _lines(candidate))}
    grown = [
        f"{new - old} more {unit} than its parent ({old} to {new}, +{new / old - 1:.0%})"
        for unit, (old, new) in sizes.items()
        if old and new > old * (1 + GROWTH)
    ]
    return (f"growth: the candidate has {' and '.join(grown)}",) if grown else ()


def _lines(harness: Harness) -> int:
    """Lines of the hook files."""
    return sum(len(text.splitlines()) for name, text in harness.files.items() if name.endswith(".py"))


def loaded(candidate: Candidate) -> Harness:
    """The candidate's harness."""
    from ecdysis_lab.harness import load_harness

    return load_harness(Path(candidate.path))
