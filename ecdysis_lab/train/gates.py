"""The gates: an ordered list, from the cheapest on. A candidate is accepted when none of them rejects it.

A new gate is a function from :class:`ecdysis_lab.train.judging.Judging` to a result, and a row in ``GATES``; the order
stands nowhere else. What ran is recorded with its numbers, and readers go by that record.

Pruning comes before confirmation: each of its steps picks by the trials that it
looks at, so the harness that goes into force has to be the one that rises again on fresh seeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ecdysis_lab.harness.probe import probe
from ecdysis_lab.harness.source import Harness, static_problems
from ecdysis_lab.records import GateResult
from ecdysis_lab.train.arms import Arm
from ecdysis_lab.train.judging import Comparison, Judging, Rerun
from ecdysis_lab.train.leak import HIDING, facts, leaks
from ecdysis_lab.train.pruning import Pruning

PRUNE = "prune"
SHOWN = 3  # examples named in a reason
TOLD = 5  # rules that the legal gate names, each with its first act
FALL_POINTS = 5  # of pass@k, by which a round may fall and still stay
GROWTH = 0.30  # more than this against the parent is worth a warning


@dataclass(frozen=True)
class Gate:
    """One check of a candidate.

    Parameters
    ----------
    name : as records and arms call it. asks : what has to hold, as one phrase.
    check : looks at the candidate and its replays and trials; answers with :func:`passed`, :func:`rejected` or
        :func:`skipped`.
    paid : whether it needs trials to be run; its rejection then ends the round. The reason of any other gate judges
        the code alone, and goes back to the editor once.
    """

    name: str
    asks: str
    check: Callable[[Judging], GateResult]
    paid: bool = False

    def run(self, judging: Judging) -> GateResult:
        """The result under the gate's name, with its seconds; trials that were run for it count as rollout."""
        began, trials = time.perf_counter(), judging.trial_seconds
        found = self.check(judging)
        seconds = time.perf_counter() - began - (judging.trial_seconds - trials)
        name, asks = found.name or self.name, found.asks or self.asks
        return replace(found, name=name, asks=asks, seconds=round(seconds, 3))


def passed(reason: str = "", **numbers: Any) -> GateResult:
    """The candidate may go on."""
    return GateResult("", "passed", reason, numbers)


def rejected(reason: str, **numbers: Any) -> GateResult:
    """The candidate goes."""
    return GateResult("", "rejected", reason, numbers)


def skipped(reason: str) -> GateResult:
    """The run did not ask for this gate."""
    return GateResult("", "skipped", reason)


def broken(where: str, reason: str, **numbers: Any) -> GateResult:
    """Rejection since a hook broke: told as the probe's finding, whichever gate comes across it."""
    return GateResult("probe", "rejected", reason, numbers, asks=f"no hook breaks {where}")


def static(judging: Judging) -> GateResult:
    """The static policy."""
    problems = static_problems(judging.child)
    if not problems:
        return passed()
    first = "; ".join(f"{p.file}:{p.line} {p.what}" for p in problems[:SHOWN])
    return rejected(f"static policy: {first}", problems=len(problems))


def plain_calls(judging: Judging) -> GateResult:
    """One plain call of every hook."""
    fault = probe(judging.child, judging.bench, judging.before[0].trial.task_id)
    return rejected(f"a hook breaks on a plain call: {fault}", kind=fault.kind) if fault else passed()


def leak(judging: Judging) -> GateResult:
    """No fact of a training task in the diff."""
    bench = judging.bench
    known = bench.policy + "\n".join(f"{t['description']} {t['parameters']}" for t in bench.tools)
    told = facts(judging.before, known, bench)
    found = leaks(judging.candidate.diff, told, judging.parent.files, judging.child.files)
    if not found:
        return passed()
    hidden = all(what.startswith(HIDING) for what in found)
    about = "text that hides from a reader" if hidden else "facts of training tasks"
    return rejected(f"{about} in the diff: {', '.join(found[:SHOWN])}", facts=found)


def legal(judging: Judging) -> GateResult:
    """No call of a passing trial newly refused or changed, by replay."""
    replays = [judging.replays[t.key] for t in judging.before if t.success]
    faulty = [(r.key, r.faults[0]) for r in replays if r.faults]
    if faulty:
        key, fault = faulty[0]
        first = f"first {fault.hook} in passing trial {key[:8]}: {fault.reason[:160]}"
        return broken(
            "in a replay",
            f"a hook breaks in {len(faulty)} replays, {first}",
            replays=len(replays),
            faults=len(faulty),
        )
    bad = [(r.key, d) for r in replays for d in r.differences]
    calls = sum(r.calls for r in replays)
    if not bad:
        return passed(replays=len(replays), calls=calls)
    by_rule = {
        d.rule: (key, d) for key, d in reversed(bad)
    }  # the first of each rule, so that one more edit mends all
    told = [
        f"{d.what} an act of passing trial {key[:8]}: {d.act[:160]} (rule {rule}: {d.reason[:400]})"
        for rule, (key, d) in list(reversed(by_rule.items()))[:TOLD]
    ]
    reason = "; ".join(told)
    shown = [{"trial": k, "step": d.step, "what": d.what, "act": d.act, "rule": d.rule} for k, d in bad[:20]]
    return rejected(reason, replays=len(replays), calls=calls, differences=len(bad), shown=shown)


def coverage(judging: Judging) -> GateResult:
    """The same pairs of task and seed have a score on both sides."""
    return covered(judging.rerun)


def live(judging: Judging) -> GateResult:
    """No hook broke in a trial of the rerun."""
    return unbroken(judging.rerun)


def improvement(judging: Judging) -> GateResult:
    """The summed training score rises strictly."""
    return rises(judging.rerun)


def confirm(judging: Judging) -> GateResult:
    """The same three questions on seeds that no round has seen."""
    if not judging.fresh_seeds:
        return skipped("no confirmation on fresh seeds was asked for")
    again = judging.confirmation()
    results = (covered(again), unbroken(again), rises(again))
    found = next((r for r in results if r.outcome == "rejected"), results[-1])
    numbers = {"repeats": len(judging.fresh_seeds)} | found.numbers
    return GateResult("", found.outcome, f"on fresh seeds {found.reason}", numbers)


def prune(judging: Judging) -> GateResult:
    """Never a rejection: each change is left out in turn, and what adds nothing goes."""
    if judging.pruned is None:
        return skipped("nothing is to be left out")
    pruning = Pruning(judging, judging.pruned.with_name(f".{judging.pruned.name}-without"))
    if len(pruning.changes) < 2:
        return passed(changes=pruning.told())
    pruning.run()
    gone, n = len(pruning.left_out), len(pruning.changes)
    whole = judging.candidate.hash
    if not gone:
        return passed(changes=pruning.told())
    pruning.settle(judging.pruned)
    now = f"{gone} of {n} changes add nothing and went, which leaves the score at {judging.rerun.comparison.after:g}"
    return passed(now, changes=pruning.told(), pruned_from=whole)


def covered(rerun: Rerun) -> GateResult:
    """Rejection where a user fault could hide a loss, or where no pair is left."""
    found = rerun.comparison
    numbers: dict[str, Any] = {"pairs": found.pairs, "reused": rerun.reused, "user_faults": found.user_faults}
    if found.whole:
        return passed(**numbers)
    faults = found.hidden or found.user_faults
    return rejected(
        f"the user failed in {faults} pairs that were scored before, so a loss could hide", **numbers
    )


def unbroken(rerun: Rerun) -> GateResult:
    """Rejection where a hook broke in a trial of the candidate."""
    bad = [t for t in rerun.after if t.faults]
    if not bad:
        return passed(trials=len(rerun.after))
    reason = f"a hook broke in {len(bad)} trials: {bad[0].faults[0].reason[:160]}"
    return broken("in a trial", reason, trials=len(rerun.after), faults=len(bad))


def rises(rerun: Rerun) -> GateResult:
    """Rejection unless the summed score is strictly higher than before."""
    found = rerun.comparison
    answer = passed if found.after > found.before else rejected
    return answer(_told(found), **_figures(rerun))


def rollback(judging: Judging) -> GateResult:
    """Rejection where pass@k of the training tasks falls by more than five points, whatever the sum of scores does."""
    rerun = judging.rerun
    tasks, old, new = rerun.comparison.tasks, rerun.solved(rerun.before), rerun.solved(rerun.after)
    fallen = 100 * (len(old) - len(new))  # in points times tasks, which are whole numbers
    if not tasks:
        return rejected("no task was scored on both sides", **_figures(rerun))
    then, now = (100 * len(solved) / tasks for solved in (old, new))
    word = "falls" if now < then else "stays" if now == then else "rises"
    reason = f"pass@k {word} from {then:.1f} to {now:.1f} points"
    answer = rejected if fallen > FALL_POINTS * tasks else passed
    return answer(reason, tasks=tasks, pass_k_before=then, pass_k_after=now, **_figures(rerun))


def _figures(rerun: Rerun) -> dict[str, Any]:
    """Sums, flips of trials, and the sign test over the tasks whose score rose and fell: what decides comes first."""
    found = rerun.comparison
    return {
        "before": found.before, "after": found.after, "gained": len(found.gained), "lost": len(found.lost),
        "tasks_up": found.tasks_up, "tasks_down": found.tasks_down,
        "sign_test_p": sign_test_p(found.tasks_up, found.tasks_down),
        "pairs": found.pairs, "reused": rerun.reused,
    }  # fmt: skip


def _told(found: Comparison) -> str:
    word = "rises" if found.after > found.before else "stays" if found.after == found.before else "falls"
    return f"training score {word} from {found.before:g} to {found.after:g} of {found.pairs}"


GATES: list[Gate] = [
    Gate("static", "imports, builtins and files that a harness may use", static),
    Gate("probe", "no hook breaks on a plain call", plain_calls),
    Gate("leak", "no fact of a training task in the diff", leak),
    Gate("legal", "no act of a passing trial refused or changed", legal),
    Gate("coverage", "the same pairs scored on both sides", coverage, paid=True),
    Gate("probe", "no hook breaks in a trial", live, paid=True),
    Gate("improvement", "the summed training score rises strictly", improvement, paid=True),
    Gate(PRUNE, "each of its changes adds something", prune, paid=True),
    Gate("confirm", "it rises again on seeds that no round has seen", confirm, paid=True),
]
"""In the order in which they run."""

ROLLBACK = Gate("rollback", "pass@k of the training tasks falls by at most five points", rollback, paid=True)
"""What a round as a whole has to pass, in the arm whose edits stand or fall together."""


def gates_of(arm: Arm) -> list[Gate]:
    """The gates that an edit of an arm has to pass, in order; none that runs trials where the round is judged whole."""
    named = [gate for gate in GATES if arm.gates is None or gate.name in arm.gates]
    return [gate for gate in named if not (arm.rollback and gate.paid)]


def run_gates(judging: Judging, gates: Sequence[Gate]) -> tuple[tuple[GateResult, ...], bool]:
    """Run gates until one rejects.

    Returns
    -------
    What ran, in order, and whether the editor may try again: a gate rejected that needed no trials.
    """
    results: list[GateResult] = []
    for gate in gates:
        results.append(gate.run(judging))
        if results[-1].outcome == "rejected":
            return tuple(results), not gate.paid
    return tuple(results), False


def sign_test_p(gained: int, lost: int) -> float:
    """Two-sided exact sign test over the tasks that rose and fell; 1.0 when none did."""
    from scipy.stats import binomtest

    return float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0


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
