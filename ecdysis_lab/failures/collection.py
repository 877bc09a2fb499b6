"""Where trajectories come in: files, folders, runs; and foreign ones into the trial store for good.

An import leaves ``imports/<name>/import.json`` in the data folder: the keys of its trials, and what was left out.
The trials themselves lie in the one trial store, so a run and an import are read alike.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ecdysis_lab.failures.importing import Damaged, FreeSeeds, Imported, import_traces, reseeded
from ecdysis_lab.records import LabError, Trajectory, Trial, to_json
from ecdysis_lab.store import Run, Store, runs_of
from ecdysis_lab.store.foreign import clean

RECORD = "import.json"
SHOWN_DAMAGED = 20


@dataclass(frozen=True)
class Intake:
    """What an import into the store did.

    Parameters
    ----------
    name, folder : of the import; both open it again as a source.
    format : the format read. benchmark : registry name, or what the format says.
    trajectories, failures, infra_errors, user_faults : counts; a failure is a score below 1.
    new : trajectories that the store did not hold before.
    damaged : records left out, and why.
    unknown_tasks : tasks that the benchmark named by ``benchmark`` does not have.
    """

    name: str
    folder: Path
    format: str
    benchmark: str
    trajectories: int
    failures: int
    infra_errors: int
    user_faults: int
    new: int
    damaged: tuple[Damaged, ...]
    unknown_tasks: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The same as JSON types."""
        return {**asdict(self), "folder": str(self.folder)}


def take_in(path: Path | str, data: Path | str, format: str | None = None, benchmark: str = "") -> Intake:
    """Read foreign trajectories and keep them in the trial store.

    Parameters
    ----------
    path : file or folder. data : the data folder. format : see ``importers.load``.
    benchmark : registry name that the trials get, where a format does not tell, e.g. ``"tau2/airline"``.

    Raises
    ------
    LabError: a missing path, an unknown format or benchmark (the choices are listed), or nothing imported.
    """
    tasks = _tasks_of(benchmark) if benchmark else None
    got = import_traces(path, format)
    if not got.trajectories:
        first = f"; {_line(got.damaged[0])}" if got.damaged else ""
        raise LabError(f"nothing imported from {clean(str(path))}: {len(got.damaged)} damaged records{first}")
    found = [_under(t, benchmark) if benchmark else t for t in got.trajectories]
    kept, new = _kept(found, Store(data))
    name, folder = _folder(Path(path), Path(data), {t.key for t in kept})
    counts = {
        "trajectories": len(kept),
        "failures": sum(t.score is not None and t.score < 1.0 for t in kept),
        "infra_errors": got.infra,
        "user_faults": sum(t.status == "user_fault" for t in kept),
    }
    record = {"source": clean(Path(path).name), "format": got.format, "keys": [t.key for t in kept], **counts,
              "damaged": got.damaged}  # fmt: skip
    Run(folder).write_json(RECORD, record)
    names = ", ".join(sorted({t.trial.benchmark for t in kept}))
    strange = () if tasks is None else tuple(sorted({t.trial.task_id for t in kept} - tasks))
    return Intake(
        name, folder, got.format, names, new=new, damaged=got.damaged, unknown_tasks=strange, **counts
    )


def _tasks_of(benchmark: str) -> set[str]:
    from ecdysis_lab.benchmarks import load_benchmark

    return {task.id for task in load_benchmark(benchmark).tasks("all")}


def _under(trajectory: Trajectory, benchmark: str) -> Trajectory:
    return replace(trajectory, trial=replace(trajectory.trial, benchmark=benchmark))


def _kept(found: Sequence[Trajectory], store: Store) -> tuple[list[Trajectory], int]:
    """Trajectories under the keys they have in the store, and how many of them are new there.

    Foreign files rarely name their model or number their trials, so two files may claim one identity: another
    conversation gets the next free seed, the same one is known already.
    """
    places: dict[tuple[Trial, bool], _Places] = {}
    kept, new, taken = [], 0, set[str]()
    for trajectory in found:
        lost = trajectory.status == "infra_error"
        place = places.setdefault((replace(trajectory.trial, seed=0), lost), _Places(store, taken))
        trajectory, known = place.find(trajectory)
        if not known:
            store.put(trajectory)
            new += 1
        taken.add(trajectory.key)
        kept.append(trajectory)
    return kept, new


class _Places:
    """Seeds of one trial identity: what the store holds under each is looked up once.

    Parameters
    ----------
    store : the trial store. taken : keys that trajectories of this import have got.
    """

    def __init__(self, store: Store, taken: set[str]) -> None:
        self.store, self.taken = store, taken
        self.seeds = FreeSeeds()
        self.of_body: dict[str, list[int]] = {}

    def find(self, trajectory: Trajectory) -> tuple[Trajectory, bool]:
        """The trajectory under the seed where the store has it, or under the next free one; and whether it has it."""
        own = trajectory.trial.seed
        free = self._first_free(trajectory, own)
        alike = self.of_body.get(_body(trajectory), []) if self.of_body else []
        for seed in [s for s in alike if own <= s < free]:
            alike.remove(seed)
            if (here := reseeded(trajectory, seed)).key not in self.taken:
                return here, True
        self.seeds.take(free)
        return reseeded(trajectory, free), False

    def _first_free(self, trajectory: Trajectory, seed: int) -> int:
        while True:
            seed = self.seeds.free(seed)
            here = reseeded(trajectory, seed)
            old = _stored(self.store, here)
            if not old and here.key not in self.taken:
                return seed
            self.seeds.take(seed)
            for body in {_body(o) for o in old}:
                self.of_body.setdefault(body, []).append(seed)


def _stored(store: Store, trajectory: Trajectory) -> list[Trajectory]:
    """What the store holds under the same key; a scored trial may follow infrastructure errors of its own."""
    finished = store.get(trajectory.key)
    lost = store.infra_errors(trajectory.key) if trajectory.status == "infra_error" else []
    return lost if finished is None else [finished, *lost]


def _body(trajectory: Trajectory) -> str:
    """What a trajectory says, whatever its seed."""
    text = to_json(replace(reseeded(trajectory, 0), truth={}))
    return hashlib.sha256(text.encode()).hexdigest()


def _folder(path: Path, data: Path, keys: set[str]) -> tuple[str, Path]:
    """Name and folder of an import; another import of that name is not written over."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().stem).strip("-.") or "traces"
    old = Run(data / "imports" / name).read_object(RECORD)
    if old is not None and not set(map(str, old.get("keys", ["?"]))) <= keys:
        name += "-" + hashlib.sha256(" ".join(sorted(keys)).encode()).hexdigest()[:6]
    return name, data / "imports" / name


def report(intake: Intake) -> str:
    """Counts, damaged records by file, record and field, and how to go on, as lines for a person."""
    known = intake.trajectories - intake.new
    lines = [
        f"{intake.trajectories} trajectories imported ({intake.format}, {intake.benchmark})"
        + (f", {known} of them known already" if known else ""),
        f"{intake.failures} failures, {intake.infra_errors} infrastructure errors, "
        f"{intake.user_faults} user faults, {len(intake.damaged)} damaged records",
        *(_line(d) for d in intake.damaged[:SHOWN_DAMAGED]),
    ]
    if len(intake.damaged) > SHOWN_DAMAGED:
        lines.append(f"… {len(intake.damaged) - SHOWN_DAMAGED} more in {intake.folder / RECORD}")
    if intake.unknown_tasks:
        some = ", ".join(intake.unknown_tasks[:5])
        lines.append(f"{len(intake.unknown_tasks)} tasks are not in {intake.benchmark}, e.g. {some}")
    return "\n".join([*lines, f'open them in notebooks/patterns.ipynb with source = "{intake.folder}"'])


def _line(damaged: Damaged) -> str:
    return f"{damaged.file}, record {damaged.record}, {damaged.field}: {damaged.what}"


# -- reading -------------------------------------------------------------------------------------------------------


def read(
    source: Path | str, data: Path | str | None = None, format: str | None = None
) -> tuple[Path, Imported, str]:
    """Trajectories of a source.

    Parameters
    ----------
    source : file or folder of traces, run folder (of which the failures of round 1 of the first trained arm are
        read), folder of an import, or the name of a run or an import in ``data``; empty for the newest of those.
    data : the data folder. format : see ``importers.load``.

    Returns
    -------
    Path of the source, what was read, and one line on it.

    Raises
    ------
    LabError: nothing there, or a run without training failures.
    """
    path = _path(str(source), Path(data) if data else None)
    if (path / RECORD).is_file():
        record = Run(path).read_object(RECORD) or {}
        with Run(path).told_damage(RECORD):
            damaged = tuple(Damaged(**d) for d in record["damaged"])
            keys, infra, kind = list(map(str, record["keys"])), record["infra_errors"], record["format"]
        got = Imported(tuple(_from_store(path, keys, skip_infra=True)), damaged, infra, kind)
        return path, got, got.counts()
    if Run(path).exists and not (path / "trials.sqlite").exists():
        found = _of_run(path)
        return path, Imported(tuple(found), (), 0, "run"), f"{len(found)} failures of run {path.name}"
    got = import_traces(path, format)
    return path, got, got.counts()


def _path(source: str, data: Path | None) -> Path:
    if not source:
        return _newest(data)
    path = Path(source).expanduser()
    named = [data / kind / source for kind in ("runs", "imports")] if data else []
    return next((p for p in (path, *named) if p.exists()), path)


def _newest(data: Path | None) -> Path:
    """The import, or the run with training failures, that was written last."""
    evidence = [] if data is None else list(data.glob(f"imports/*/{RECORD}"))
    runs = [] if data is None else runs_of(data)
    first = [r.failures_path for run in runs for r in run.rounds() if r.n == 1]
    evidence += [path for path in first if path.is_file()]
    if not evidence:
        raise LabError(
            f"source: no run with failures in {(data or Path()) / 'runs'} and no import; name a file or folder of "
            "traces, or a run"
        )
    newest = max(evidence, key=lambda f: (f.stat().st_mtime, str(f)))
    return newest.parent if newest.name == RECORD else newest.parents[2]


def _of_run(folder: Path) -> list[Trajectory]:
    """Trajectories of the failures of the first round, from the store that the run shares."""
    first = [r.failures for r in Run(folder).rounds() if r.n == 1]
    keys = next(([f.key for f in failures] for failures in first if failures), None)
    if not keys:
        raise LabError(f"source: run {folder.name} has no training failures in {folder / 'rounds'}")
    return _from_store(folder, keys)


def _from_store(folder: Path, keys: Sequence[str], skip_infra: bool = False) -> list[Trajectory]:
    """Trials of a run or import, from the store two folders up."""
    root = folder.resolve().parent.parent
    store = Store(root) if (root / "trials.sqlite").exists() else None
    stored = {t.key: t for t in store.trajectories(keys)} if store else {}
    lost = {t.key for t in store.infra_errors()} if store and skip_infra else set()
    missing = [k for k in keys if k not in stored and k not in lost]
    if missing:
        raise LabError(
            f"source: {len(missing)} of {len(keys)} trials of {folder.name} are not in the store {root} "
            f"(e.g. {missing[0]}); keep runs and imports beside their trials.sqlite"
        )
    return [stored[k] for k in keys if k in stored]
