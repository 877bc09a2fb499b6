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
from ecdysis_lab.store import Round, Run, Store

MOST_FAILURES = 60  # of one model at hand, in the joint patterns
MOST_REPLAYS = 20  # of one model, per change
SAID_FIRST = ("contract", "skills")
SHOWN_TO_ALL = "its text is shown before the first call, whichever model plays"

NO_PATTERNS = Patterns((), {}, {}, "", "", 0.0, None)


@dataclass
class Evidence:
    """One recorded round, or one edit of it where each failure goes alone, ready to be judged.

    Parameters
    ----------
    arm, n : which. decision : of its record. changes : of its spec. failures, patterns : its evidence, the failures
        with their trajectories. parent, candidate : harnesses, or None where not kept. model : that it trained on.
    first : number of its first change in the round.
    """

    arm: str
    n: int
    decision: str
    changes: tuple[Change, ...]
    failures: Sequence[Failure] = ()
    patterns: Patterns = NO_PATTERNS
    parent: Harness | None = None
    candidate: Harness | None = None
    model: str = ""
    first: int = 1
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
    run = Run.of(run)
    store = store or Store(run.root)
    made: list[Judgement] = []
    at_hand: dict[str, tuple[dict[str, list[Failure]], frozenset[str]]] = {}
    for round in run.rounds(arm):
        for found in evidences_of(round, store, embedder, seed):
            if not found.changes:
                continue
            bench = found.failures[0].trajectory.trial.benchmark
            key = f"{bench} {found.model}"
            if key not in at_hand:
                at_hand[key] = others_of(store, bench, found.model), tasks_of(store, bench, found.model)
            others, ran = at_hand[key]
            made += judge_round(found, others, ran=ran, embedder=embedder, replays=replays, seed=seed)
    return made


def evidences_of(
    round: Round, store: Store, embedder: Embedder | None = None, seed: int = 0
) -> list[Evidence]:
    """A round as one piece of evidence, or one for each edit where every failure goes to the editor alone.

    Parameters
    ----------
    round, store : as for :func:`evidence_of`. embedder, seed : of the patterns, which an arm without them never had.
    """
    edits = round.edits
    if not edits:
        return [evidence_of(round, store)]
    from ecdysis_lab.failures.patterns import find_patterns

    whole = _stored(round, store, [e.failure for e in edits])
    bench = load_benchmark(whole[edits[0].failure].trial.benchmark)
    threshold = (round.run.config or {}).get("threshold", 1.0)
    failures = find_failures(list(whole.values()), threshold, benchmark=bench)
    patterns = find_patterns(failures, embedder, seed=seed, stability=False)
    record, first, made = round.record, 1, []
    fell = record is not None and record.decision == "rejected" and record.gate == "rollback"
    for i, edit in enumerate(edits, 1):
        parent, candidate = _kept(round.run.harness_path(edit.parent)), _kept(round.edit_path(i))
        changes = edit.changes or _changed_files(parent, candidate, [edit.failure])
        decision = "rejected" if fell and edit.decision == "accepted" else edit.decision
        model = whole[edit.failure].trial.model
        made.append(
            Evidence(
                round.arm, round.n, decision, changes, failures, patterns, parent, candidate, model, first
            )
        )
        first += len(changes)
    return made


def _stored(round: Round, store: Store, keys: Sequence[str]) -> dict[str, Trajectory]:
    """Trajectories by key.

    Raises
    ------
    LabError: the store lacks one.
    """
    found = {t.key: t for t in store.trajectories(list(dict.fromkeys(keys)))}
    missing = [key for key in keys if key not in found]
    if missing:
        raise LabError(
            f"run {round.run.run_id}: {len(missing)} failures of round {round.n} of arm {round.arm} are not in the "
            f"store {store.path} (e.g. {missing[0]}); keep a run beside its trials.sqlite"
        )
    return found


def _kept(folder: Path | None) -> Harness | None:
    return load_harness(folder) if folder is not None and folder.is_dir() else None


def _changed_files(
    parent: Harness | None, candidate: Harness | None, keys: Sequence[str]
) -> tuple[Change, ...]:
    """A change for each file of an edit without a spec; its evidence are the failures that the editor read."""
    if parent is None or candidate is None:
        return ()
    why, evidence = "the editor read the failures itself", tuple(f"{short(key)}#0" for key in keys)
    return tuple(
        Change(layer, file, f"the edit of {file}", why, evidence)
        for layer, file in LAYER_FILES.items()
        if parent.files.get(file) != candidate.files.get(file)
    )


def evidence_of(round: Round, store: Store) -> Evidence:
    """One round from its files and the store.

    Raises
    ------
    LabError: the round proposed changes but has no evidence, or the store lacks its failures.
    """
    record, review = round.record, round.review
    spec = review.spec if record and review else None
    found = Evidence(round.arm, round.n, record.decision if record else "", ())
    if spec is None:
        return found
    failures, patterns, _ = round.evidence()
    stored = _stored(round, store, [f.key for f in failures])
    whole = [replace(f, trajectory=stored[f.key]) for f in failures]
    trial = whole[0].trajectory.trial
    parent, candidate = _kept(round.run.harness_path(trial.harness)), _kept(round.last_candidate())
    return replace(
        found,
        changes=spec.changes or _changed_files(parent, candidate, round.shown or ()),
        failures=whole,
        patterns=patterns,
        parent=parent,
        candidate=candidate,
        model=trial.model,
    )


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
    found: Evidence,
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
    for i, change in enumerate(found.changes, found.first):
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
    found: Evidence, change: Change, others: Mapping[str, Sequence[Failure]]
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


def _acts(found: Evidence, trajectory: Trajectory, alone: Harness, bench: Benchmark) -> bool:
    """Whether a trace makes the changed harness do anything that its parent does not."""
    assert found.parent is not None
    key = (trajectory.key, found.parent.hash)
    if key not in found.acts:
        found.acts[key] = replay(trajectory, found.parent, bench).acts
    after = replay(trajectory, alone, bench)
    return bool(after.acts != found.acts[key])
