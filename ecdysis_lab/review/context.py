"""The FDCR context: what the four roles read, within a token budget.

Sections: setting, contract, patterns (recurring first), evidence of the picked trials, proposals that failed, the
current harness, tools, policy, acts that succeeded. Trials are shown whole while there is room, the recurring patterns'
first. What had to be left out is said in the text itself and in ``Context.left_out``. Texts of models and environments
are indented, fenced or put on one line, so that none of them opens a section.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Benchmark, Failure, Patterns, Subset, Trajectory
from ecdysis_lab.review.evidence import by_worth, exhibit, fit, short, tokens
from ecdysis_lab.review.sections import (
    NOTE_TOKENS,
    acts_of,
    background,
    pattern_table,
    sources,
    tools_section,
)

EVIDENCE_FILE, POLICY_FILE, TOOLS_FILE = "EVIDENCE.md", "POLICY.md", "TOOLS.md"
USERS = {
    "model": "It talks with a user.",
    "scripted": "Who answers it follows a script: nobody can be asked for more, or for consent.",
    "none": "Nobody answers it: it gets the task, acts, and ends with its answer.",
}
LEGEND = (
    "Each trial is told step by step, `[step]` as in `trial#step`. Further lines of a text are indented; "
    "`(… n lines …)` and `[… n more characters …]` stand for what an excerpt leaves out."
)
ELSEWHERE = (
    " These trials ran without the current harness: nothing in them was stopped, changed or said by it."
)


@dataclass(frozen=True)
class Context:
    """The text the roles read.

    Parameters
    ----------
    text : markdown.
    references : valid evidence references, short trial key -> number of steps.
    recurring : ids of the recurring patterns.
    pattern_of : short trial key -> pattern id (-1 for noise).
    task_of : short key of a trial that is shown -> label of its task; empty where one task is evidence enough.
    left_out : sentences about what did not fit.
    files : the same evidence for editors, ``EVIDENCE.md``, ``POLICY.md`` and ``TOOLS.md``.
    """

    text: str
    references: dict[str, int]
    recurring: frozenset[int]
    pattern_of: dict[str, int]
    task_of: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


def build_context(
    failures: Sequence[Failure],
    patterns: Patterns,
    subset: Subset,
    passing: Iterable[Trajectory],
    harness: Harness,
    benchmark: Benchmark,
    *,
    contract: str,
    rejected: Sequence[str] = (),
    max_tokens: int = 80_000,
) -> Context:
    """Write the context.

    Parameters
    ----------
    failures, patterns, subset : the round's failures, their patterns and those to read.
    passing : passing trajectories of the same round; only their acts are used.
    harness : the current harness. benchmark : whose policy and tools they are. contract : text of the harness contract.
    rejected : proposals of earlier rounds that were not kept; see :func:`ecdysis_lab.review.sections.proposals`.
    max_tokens : budget. A third of it is kept for the trials where they need it; acts, then the policy, make room.
    """
    by_key = {f.key: f for f in failures}
    picked = by_worth([by_key[k] for k in subset.keys if k in by_key], patterns)
    labels = _task_labels(failures)
    exhibits = [exhibit(f, patterns.label(f.key), labels[f.task_id]) for f in picked]
    setting = f"# Setting\nThe agent is for {benchmark.about}. {USERS[benchmark.user]}"
    rules = "# Harness contract\n" + contract
    table = pattern_table(patterns, failures, subset)
    tried = "# Proposals rejected in earlier rounds\n" + ("\n".join(f"- {r}" for r in rejected) or "(none)")
    current = "# Current harness\n" + sources(harness)
    tools, too_long = tools_section(benchmark.tools, max_tokens)
    room = max_tokens - sum(map(tokens, (setting, rules, table, ELSEWHERE, tried, current, tools)))
    wanted = min(sum(tokens(e.whole) for e in exhibits), max_tokens // 3)
    (policy, acts), shortened = background(acts_of(passing), benchmark.policy, room - wanted)
    shown, cut = fit(exhibits, room - tokens(policy) - tokens(acts) - NOTE_TOKENS)
    left_out = [*cut, *shortened, *too_long]
    note = "".join(f"\n(left out: {line})" for line in left_out)
    order = sorted((f for f in picked if f.key in shown), key=lambda f: _rank(patterns, f.key))
    elsewhere = ELSEWHERE if any(f.trajectory.trial.harness != harness.hash for f in order) else ""
    evidence = f"# Evidence\n{LEGEND}{elsewhere}{note}\n" + "\n\n".join(shown[f.key] for f in order)
    return Context(
        text="\n\n".join([setting, rules, table, evidence, tried, current, tools, policy, acts]),
        references={short(f.key): len(f.trajectory.messages) for f in order},
        recurring=frozenset(p.id for p in patterns.recurring),
        pattern_of={short(f.key): patterns.label(f.key) for f in failures},
        task_of={short(f.key): labels[f.task_id] for f in order},
        left_out=tuple(left_out),
        files={
            EVIDENCE_FILE: "\n\n".join([table, tried, acts, evidence]) + "\n",
            POLICY_FILE: policy + "\n",
            TOOLS_FILE: tools + "\n",
        },
    )


def _rank(patterns: Patterns, key: str) -> tuple[int, int]:
    """Recurring patterns first, then by size; noise last."""
    label = patterns.label(key)
    recurring = any(p.id == label and p.recurring for p in patterns.patterns)
    return (0 if recurring else 1 if label >= 0 else 2, label)


def _task_labels(failures: Sequence[Failure]) -> dict[str, str]:
    """Task ids replaced by T1, T2, …: a reviewer needs to see what recurs, not which task it was."""
    return {task: f"T{n}" for n, task in enumerate(dict.fromkeys(f.task_id for f in failures), 1)}
