"""Copy what the grid of the REAL experiment left into a folder that is kept with the project.

    python tests/benchmarks/real/keep.py DATA [TO]      TO: data/reference/real

Leaves, of every run of the grid: ``scores.csv`` (all test trials, one table), ``<run>/summary.json``,
``<run>/<arm>-<n>/`` with the decision, the spec and the diff, prompts (gzip) and answers of ``hand``; and
``trajectories.jsonl.gz``, every trial that a run rests on. Numbers of machines and paths stay behind.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
from pathlib import Path

import pandas as pd

from ecdysis_lab.evaluate.scores import read_scores
from ecdysis_lab.records import LabError, to_json
from ecdysis_lab.store import Run, Store
from ecdysis_lab.store.run import runs_of

ROUND = ("record.json", "review.json", "candidate.diff", "patterns.json", "edits.json")


def packed(path: Path, text: str) -> None:
    """A gzip file that is the same each time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, gzip.GzipFile(path.stem, "wb", 9, raw, mtime=0) as file:
        file.write(text.encode())


def keep_rounds(run: Run, to: Path) -> None:
    """What was decided and why, and who answered what."""
    for one in run.rounds():
        for found in (run.folder / one.place / name for name in ROUND):
            if found.is_file():
                (to / one.name).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(found, to / one.name / found.name)
    for answer in sorted(run.folder.glob("hand/*/*.answer.md")):
        kept = to / "hand" / answer.parent.name
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(answer, kept / answer.name)
        prompt = answer.with_name(answer.name.replace(".answer.", ".prompt."))
        packed(kept / f"{prompt.name}.gz", prompt.read_text(encoding="utf-8"))


def main() -> None:
    """Copy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("to", type=Path, nargs="?", default=Path("data/reference/real"))
    asked = parser.parse_args()
    store, runs = Store(asked.data), [run for run in runs_of(asked.data) if run.summary is not None]
    if not runs:
        raise LabError(f"{asked.data}: no run has ended here")
    for run in runs:
        keep_rounds(run, asked.to / run.run_id)
        (asked.to / run.run_id / "summary.json").write_text(json.dumps(run.summary, indent=1) + "\n")
    tables = pd.concat([read_scores(run) for run in runs], ignore_index=True)
    tables.to_csv(asked.to / "scores.csv", index=False)
    trials = sorted(store.trajectories(), key=lambda t: (t.trial.model, t.trial.harness, t.trial.task_id))
    packed(asked.to / "trajectories.jsonl.gz", "".join(f"{to_json(t)}\n" for t in trials))
    print(f"{len(runs)} runs, {len(tables)} rows, {len(trials)} trajectories in {asked.to}")


if __name__ == "__main__":
    main()
