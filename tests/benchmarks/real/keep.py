"""Copy what the grid of the REAL experiment left into a folder that is kept with the project.

    python tests/benchmarks/real/keep.py DATA [TO]      TO: data/reference/real

Leaves ``results.csv`` (solved tasks, tokens and seconds by model, harness and split; a harness by its name or the arm
that froze it), and of every run ``<run>/settings.json``, its ``summary.json`` once it has ended, and
``<run>/<arm>-<n>/`` with the decision, the spec and the diff, prompts (gzip) and answers of ``hand``; and
``trajectories.jsonl.gz``, every trial of the store. A run that waits is kept as far as it has come.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from ecdysis_lab.evaluate.metrics import cluster_interval
from ecdysis_lab.harness import load_harness
from ecdysis_lab.records import Trajectory, to_json
from ecdysis_lab.store import Run, Store
from ecdysis_lab.store.run import runs_of
from ecdysis_lab.train.arms import ARMS

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


def results(trials: Iterable[Trajectory], names: Mapping[str, str]) -> pd.DataFrame:
    """One row a model, harness and split."""
    groups: dict[tuple[str, str, str], list[Trajectory]] = {}
    for t in trials:
        if t.status == "scored":
            name = names.get(t.trial.harness, t.trial.harness[:12])
            groups.setdefault((t.trial.model, t.trial.split, name), []).append(t)
    rows = []
    for about, found in sorted(groups.items()):
        scores, spent = [t.score or 0.0 for t in found], [t.usage["agent"] for t in found]
        low, high = cluster_interval(scores, [1] * len(found))
        rows.append(
            dict(zip(("model", "split", "harness"), about, strict=True))
            | {"tasks": len(found), "solved": sum(scores), "low": round(low, 3), "high": round(high, 3)}
            | {"calls": sum(u.calls for u in spent), "prompt_tokens": sum(u.prompt_tokens for u in spent)}
            | {"completion_tokens": sum(u.completion_tokens for u in spent)}
            | {"seconds": round(sum(t.seconds for t in found))}
        )
    return pd.DataFrame(rows)


def main() -> None:
    """Copy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("to", type=Path, nargs="?", default=Path("data/reference/real"))
    asked = parser.parse_args()
    store, runs = Store(asked.data), runs_of(asked.data)
    names = {load_harness(name).hash: name for name in ("empty", "dbbench")}
    for run in runs:
        to = asked.to / run.run_id
        keep_rounds(run, to)
        for name, record in (("settings", run.config), ("summary", run.summary)):
            if record is not None:
                to.mkdir(parents=True, exist_ok=True)
                (to / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
        for arm in ARMS:
            names.setdefault(run.frozen(arm) or "", f"{arm} of {run.run_id[-6:]}")
    trials = sorted(store.trajectories(), key=lambda t: (t.trial.model, t.trial.harness, t.trial.task_id))
    results(trials, names).to_csv(asked.to / "results.csv", index=False)
    packed(asked.to / "trajectories.jsonl.gz", "".join(f"{to_json(t)}\n" for t in trials))
    print(f"{len(runs)} runs, {len(trials)} trajectories in {asked.to}")


if __name__ == "__main__":
    main()
