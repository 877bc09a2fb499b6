"""Facts for the accommodation ratio, from a run folder and the trial store."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.evaluate.accommodation import Facts, Judgement, decide, joint_patterns, seen_on
from ecdysis_lab.evaluate.results import round_evidence
from ecdysis_lab.failures.cards import find_failures
from ecdysis_lab.harness import copy_harness, load_harness
from ecdysis_lab.harness.replay import replay
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import (
    LAYER_FILES,
    Benchmark,
    Change,
    Embedder,
    Failure,
    LabError,
    Pattern,
    Patterns,
    Spec,
    Trajectory,
)
from ecdysis_lab.review.context import short
from ecdysis_lab.review.editors.rules import RulesEditor
from ecdysis_lab.review.editors.templates import mark
from ecdysis_lab.store import Run, Store

MOST_FAILURES = 60  # of one model at hand, in the joint patterns
MOST_REPLAYS = 20  # of one model, per change
SAID_FIRST = ("contract", "skills")
SHOWN_TO_ALL = "its text is shown before the first call, whichever model plays"


@dataclass
class Round:
    """One recorded round, ready to be judged.

    Parameters
    ----------
    arm, n : which. decision : of its record. changes : of its spec. failures, patterns : its evidence, the failures
        with their trajectories where the store has them. parent, candidate : harnesses, or None where not kept.
    """

    arm: str
    n: int
    decision: str
    changes: tuple[Change, ...]
    failures: Sequence[Failure]
    patterns: Patterns
    parent: Harness | None = None
    candidate: Harness | None = None
    model: str = ""
    acts: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False)


def judgements_of(
    run: Run | Path | str,
    store: Store | None = None,
    *,
    arm: str | None = None,
    embedder: Embedder | None = None,
    replays: bool = True,
    seed: int = 0,
) -> list[Judgement]:
    """The automatic judgement on every change that the rounds of a run proposed, with its reasons.

    Parameters
    ----------
    run : run folder. store : its trials; by default those beside it. Models at hand are all whose trajectories on
        the same benchmark it holds.
    arm : one arm only. embedder : for the joint patterns; None takes the default.
    replays : whether to replay failures through each change, to see on which models it acts. seed : of the patterns.

    Raises
    ------
    LabError: the folder is no run, or the store lacks the failures of a round.
    """
    run = run if isinstance(run, Run) else Run(Path(run))
    store = store or Store(run.folder.parent.parent)
    made: list[Judgement] = []
    at_hand: dict[str, tuple[dict[str, list[Failure]], frozenset[str]]] = {}
    for name, n in rounds_of(run, arm):
        found = load_round(run, name, n, store)
        if not found.changes:
            continue
        bench = found.failures[0].trajectory.trial.benchmark
        key = f"{bench} {found.model}"
        if key not in at_hand:
            at_hand[key] = others_of(store, bench, found.model), tasks_of(store, bench, found.model)
        others, ran = at_hand[key]
        made += judge_round(found, others, ran=ran, embedder=embedder, replays=replays, seed=seed)
    return made


def rounds_of(run: Run, arm: str | None = None) -> list[tuple[str, int]]:
    """(arm, number) of every recorded round, in order.

    Raises
    ------
    LabError: there is no such folder.
    """
    if not run.folder.is_dir():
        raise LabError(f"run: there is no folder {run.folder}")
    names = [p.parent.name.rpartition("-") for p in run.folder.glob("rounds/*/record.json")]
    return sorted((a, int(n)) for a, _, n in names if n.isdigit() and arm in (None, a))


def load_round(run: Run, arm: str, n: int, store: Store) -> Round:
    """One round from its files and the store.

    Raises
    ------
    LabError: the round has no evidence, or the store lacks its failures.
    """
    folder = f"rounds/{arm}-{n}"
    record, review = run.read_json(f"{folder}/record.json") or {}, run.read_json(f"{folder}/review.json")
    spec = (review or {}).get("spec") or {"changes": []}
    changes = tuple(
        Change(**{**c, "evidence": tuple(c["evidence"]), "must_still_allow": tuple(c["must_still_allow"])})
        for c in spec["changes"]
    )
    decision = str(record.get("decision", ""))
    if not changes:
        return Round(arm, n, decision, (), (), Patterns((), {}, {}, "", "", 0.0, None))
    failures, patterns, _ = round_evidence(run, arm, n)
    stored = {t.key: t for t in store.trajectories([f.key for f in failures])}
    missing = [f.key for f in failures if f.key not in stored]
    if missing:
        raise LabError(
            f"run {run.run_id}: {len(missing)} failures of round {n} of arm {arm} are not in the store "
            f"{store.path} (e.g. {missing[0]}); keep a run beside its trials.sqlite"
        )
    whole = [replace(f, trajectory=stored[f.key]) for f in failures]
    trial = whole[0].trajectory.trial
    return Round(
        arm, n, decision, changes, whole, patterns, _harness(run, f"harness/{trial.harness}"),
        _candidate(run, folder), trial.model,
    )  # fmt: skip


def _harness(run: Run, name: str) -> Harness | None:
    return load_harness(run.folder / name) if (run.folder / name).is_dir() else None


def _candidate(run: Run, folder: str) -> Harness | None:
    """The last candidate of a round."""
    kept = sorted(
        (p for p in (run.folder / folder).glob("candidate-*") if p.is_dir()),
        key=lambda p: int(p.name.rpartition("-")[2]),
    )
    return load_harness(kept[-1]) if kept else None


def others_of(store: Store, benchmark: str, model: str) -> dict[str, list[Failure]]:
    """Failures of the other models at hand on a benchmark, at most ``MOST_FAILURES`` each; own trials only."""
    bench = load_benchmark(benchmark)
    by_model: dict[str, list[Trajectory]] = {}
    for t in store.trajectories(benchmark=benchmark, status="scored"):
        if t.trial.model != model and not t.reused_from:
            by_model.setdefault(t.trial.model, []).append(t)
    found = {m: find_failures(ts, benchmark=bench) for m, ts in sorted(by_model.items())}
    return {m: _spread(failures) for m, failures in found.items()}


def tasks_of(store: Store, benchmark: str, model: str) -> frozenset[str]:
    """Tasks that another model was run on."""
    kept = store.trajectories(benchmark=benchmark, status="scored")
    return frozenset(t.trial.task_id for t in kept if t.trial.model != model)


def _spread(failures: Sequence[Failure]) -> list[Failure]:
    """At most ``MOST_FAILURES``, over as many tasks as there are; keys are hashes, so their order is by chance."""
    seen: Counter[str] = Counter()
    ranked = []
    for f in sorted(failures, key=lambda f: f.key):
        ranked.append((seen[f.task_id], f.key, f))
        seen[f.task_id] += 1
    return [f for _, _, f in sorted(ranked, key=lambda r: r[:2])[:MOST_FAILURES]]


def judge_round(
    found: Round,
    others: Mapping[str, Sequence[Failure]],
    *,
    ran: frozenset[str] | None = None,
    embedder: Embedder | None = None,
    replays: bool = True,
    seed: int = 0,
) -> list[Judgement]:
    """Judgements on the changes of one round.

    Parameters
    ----------
    found : the round. others : failures of the other models at hand. ran : tasks that these were run on, failed or
        not; None where that is not known. embedder, replays, seed : see :func:`judgements_of`.
    """
    joint = joint_patterns(found.failures, others, embedder, seed) if any(others.values()) else found.patterns
    keys = {short(f.key): f.key for f in found.failures}
    made = []
    for i, change in enumerate(found.changes, 1):
        cited = [keys[ref] for e in change.evidence if (ref := e.partition("#")[0]) in keys]
        name, pattern = _pattern(cited, found.patterns)
        members, tasks = (pattern.members, pattern.tasks) if pattern else ((), ())
        seen = seen_on(cited, members, joint, {found.model: found.failures, **others})
        fired, why = _fired(found, change, others) if replays else (None, Facts.unreplayed)
        shared = None if ran is None else len(ran & set(tasks))
        facts = Facts(found.model, name, len(tasks), seen, fired, why, shared)
        specific, reasons = decide(facts)
        made.append(
            Judgement(
                id=f"{found.arm}-{found.n}.{i}", arm=found.arm, round=found.n, change=i, outcome=found.decision,
                layer=change.layer, what=change.what, why=change.why, pattern=name,
                evidence=change.evidence, model=found.model, model_specific=specific, reasons=reasons,
                seen=dict(seen), fired=dict(fired or {}),
            )
        )  # fmt: skip
    return made


def _pattern(cited: Sequence[str], patterns: Patterns) -> tuple[str, Pattern | None]:
    """(Name, pattern) that most of the cited failures belong to; ``("", None)`` for noise."""
    labels = Counter(label for key in cited if (label := patterns.label(key)) >= 0)
    if not labels:
        return "", None
    found = next(p for p in patterns.patterns if p.id == labels.most_common(1)[0][0])
    return f"P{found.id} ({found.name})", found


def _fired(
    found: Round, change: Change, others: Mapping[str, Sequence[Failure]]
) -> tuple[dict[str, tuple[int, int]] | None, str]:
    """On how many failures of each model the change acts, or None and why that was not asked."""
    if change.layer in SAID_FIRST:
        return None, SHOWN_TO_ALL
    if found.parent is None or found.candidate is None:
        return None, "its candidate is not kept"
    bench = load_benchmark(found.failures[0].trajectory.trial.benchmark)
    with tempfile.TemporaryDirectory(prefix="ecdysis-change-") as folder:
        alone = isolated(found.parent, found.candidate, change, Path(folder) / "alone")
        if alone is None:
            return None, "the candidate leaves its file as it was"
        everyone = {found.model: found.failures, **others}
        return {
            model: (
                sum(_acts(found, f.trajectory, alone, bench) for f in failures[:MOST_REPLAYS]),
                len(failures[:MOST_REPLAYS]),
            )
            for model, failures in everyone.items()
        }, ""


def isolated(parent: Harness, candidate: Harness, change: Change, out: Path) -> Harness | None:
    """The parent with one change of the candidate: its guard alone where the rules editor wrote one, else its file.

    Returns
    -------
    The harness in ``out``, or None where the candidate leaves the change's file as it was.
    """
    name = LAYER_FILES[change.layer]
    if candidate.files.get(name) == parent.files.get(name):
        return None
    if change.guard and mark(change.guard) in candidate.files.get(name, ""):
        made = RulesEditor().edit(parent.path, Spec((), (change,)), out)
        return load_harness(out) if made.outcome == "edited" else None
    copy_harness(parent, out)
    if name in candidate.files:
        (out / name).write_text(candidate.files[name], encoding="utf-8")
    else:
        (out / name).unlink()
    return load_harness(out)


def _acts(found: Round, trajectory: Trajectory, alone: Harness, bench: Benchmark) -> bool:
    """Whether a trace makes the changed harness do anything that its parent does not."""
    assert found.parent is not None
    key = (trajectory.key, found.parent.hash)
    if key not in found.acts:
        found.acts[key] = replay(trajectory, found.parent, bench).acts
    after = replay(trajectory, alone, bench)
    return bool(after.acts != found.acts[key])
