"""Which harness may meet the test split: a shipped one, or what the ledger of a finished training accepted last."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import LabError
from ecdysis_lab.store import Run, Store, runs_of
from ecdysis_lab.train.arms import ARMS
from ecdysis_lab.train.rounds import training_block
from ecdysis_lab.train.settings import harness_of


@dataclass(frozen=True)
class Frozen:
    """A harness that may meet the test split.

    Parameters
    ----------
    arm : name of the arm. harness : source, loaded. run : the run that trained it, None for a shipped one.
    """

    arm: str
    harness: Harness
    run: Run | None = None

    @property
    def config(self) -> dict[str, Any]:
        """Configuration of the run that trained it; empty for a shipped harness."""
        return dict((self.run.config if self.run else None) or {})


def check_frozen(run: Run, arm: str, harness: Harness | None = None) -> Harness:
    """The frozen harness of an arm of a run.

    Parameters
    ----------
    run, arm : whose training. harness : what is to be tested; None takes what training accepted last.

    Raises
    ------
    LabError: the arm was not trained here, its training has not ended, the harness is not the last accepted one
        of the ledger, or its files were changed since.
    """
    lines = [entry for entry in run.ledger() if entry.get("arm") == arm and entry.get("harness")]
    if not lines:
        arms = sorted({str(e["arm"]) for e in run.ledger() if e.get("arm")}) or ["none"]
        raise LabError(f"harness: run {run.run_id} trained no arm {arm!r}; it trained {', '.join(arms)}")
    if run.frozen(arm) is None:
        raise LabError(
            f"harness: training of arm {arm!r} in run {run.run_id} has not ended ({len(lines)} rounds so far); "
            "finish it first, for a harness is tested when it no longer changes"
        )
    accepted = [entry["harness"] for entry in lines if entry.get("decision") == "accepted"]
    last = str(accepted[-1] if accepted else lines[-1]["harness"])  # nothing accepted: the start harness
    if harness is not None and harness.hash != last:
        earlier = harness.hash in {e.get(k) for e in lines for k in ("harness", "candidate")}
        what = "an earlier or rejected candidate" if earlier else "no harness of this training"
        raise LabError(
            f"harness: {harness.hash[:12]} is not frozen: it is {what}; the ledger of run {run.run_id} accepted "
            f"{last[:12]} last for arm {arm!r}"
        )
    kept = load_harness(run.harness_path(last))
    if kept.hash != last:
        raise LabError(
            f"harness: the files in {kept.path} have changed since training (hash {kept.hash[:12]}, "
            f"ledger {last[:12]}); a harness is tested as it was accepted"
        )
    return kept


def find_frozen(name: str, data: Path | str, benchmark: str) -> Frozen:
    """What a user means by a harness to evaluate.

    Parameters
    ----------
    name : ``direct`` or ``human`` (shipped), ``RUN:ARM`` of a finished training, or a harness folder inside a run.
    data : the data folder. benchmark : that it is to be tested on.

    Raises
    ------
    LabError: an unknown run, a run of another benchmark, or a harness that is not frozen; the reason is given.
    """
    shipped = [row.name for row in ARMS.values() if not row.trains]
    if name in shipped:
        return Frozen(name, harness_of(benchmark, ARMS[name].harness))
    runs = {run.run_id: run for run in runs_of(data)}
    run_id, _, arm = name.rpartition(":")
    if run_id in runs:
        run = runs[run_id]
        found = Frozen(arm, check_frozen(run, arm), run)
    elif Path(name).expanduser().is_dir():
        found = _of_folder(Path(name).expanduser().resolve())
    else:
        raise LabError(
            f"harness: {name!r} is no RUN:ARM, no folder, and neither of {', '.join(shipped)}; "
            f"runs: {', '.join(list(runs)[:8]) or 'none'}{' …' if len(runs) > 8 else ''}"
        )
    trained_on = found.config.get("benchmark", benchmark)
    if trained_on != benchmark:
        raise LabError(
            f"benchmark: {found.arm} of run {_id(found)} was trained on {trained_on}, not {benchmark}"
        )
    return found


def _id(found: Frozen) -> str:
    return found.run.run_id if found.run else ""


def _of_folder(folder: Path) -> Frozen:
    """A folder ``<run>/harness/<hash>``, under the arm that froze it."""
    run = Run(folder.parent.parent)
    loaded = load_harness(folder)
    kept = run.harness_path(folder.name) == folder
    arms = sorted({str(e["arm"]) for e in run.ledger() if e.get("arm")}) if kept else []
    if not arms:
        raise LabError(
            f"harness: {folder} is not frozen: it lies in no run, so no ledger says that training accepted it; "
            "train it first, or name RUN:ARM"
        )
    why: LabError | None = None
    for arm in arms:
        try:
            return Frozen(arm, check_frozen(run, arm, loaded), run)
        except LabError as error:
            why = error
    assert why is not None
    raise why


def training_of(frozen: Frozen) -> dict[str, Any]:
    """What the run that trained a harness says about it: its summary's block, or one made of its round records."""
    if frozen.run is None:
        return {}
    block = (frozen.run.summary or {}).get("training", {}).get(frozen.arm)
    return dict(block) if block else training_block(frozen.run, Store(frozen.run.root), frozen.arm)
