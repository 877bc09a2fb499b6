"""SIGKILL at random moments of training runs, each started again: what is lost, repeated or different at the end.

    python tests/benchmarks/crash.py [--kills 30] [--seed 0] [--json]

A run (SIMULATED, all training arms at a small size) is killed with its workers after a random time and started again,
until it finishes; further runs follow until there were enough kills. After each kill every file must be whole: JSON
parses, ledger lines parse, SQLite's integrity check passes. At the end its summary must equal that of a run without
kills, times aside, and no trial that was in the store at a kill may have been run again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZE = {"train_tasks": 8, "test_tasks": 2, "trials": 2, "rounds": 2, "embedder": "tfidf", "workers": 2,
        "arms": "direct,self-evolution,ecdysis", "test_models": "sim/small"}  # fmt: skip
TIMES = ("seconds", "wall_seconds", "phase_seconds", "trial_seconds", "agent_seconds", "billed_usd")
PROGRAM = """
import json, sys
from ecdysis_lab.train.settings import configure
from ecdysis_lab.evaluate.experiment import Experiment
experiment = Experiment(configure(**json.loads(sys.argv[2])), sys.argv[1], "run")
print("ready", flush=True)
experiment.go()
"""


def start(root: Path, seed: int) -> subprocess.Popen[str]:
    """The run as a process group of its own, once it has begun."""
    command = [sys.executable, "-c", PROGRAM, str(root), json.dumps({**SIZE, "seed": seed})]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def finished(root: Path) -> set[str]:
    """Keys of the trials in the store that were run, not taken over."""
    from ecdysis_lab.store import Store

    return {t.key for t in Store(root).trajectories() if not t.reused_from}


def billed(root: Path) -> list[str]:
    """Trials in the order in which the run ran them."""
    path = root / "runs" / "run" / "billed.txt"
    return path.read_text().split() if path.exists() else []


def broken_files(root: Path) -> list[str]:
    """Files that are not whole."""
    bad = []
    for path in root.rglob("*.json"):
        try:
            json.loads(path.read_text())
        except ValueError:
            bad.append(str(path.relative_to(root)))
    for path in root.rglob("ledger.jsonl"):
        try:
            [json.loads(line) for line in path.read_text().splitlines()]
        except ValueError:
            bad.append(str(path.relative_to(root)))
    for path in root.rglob("*.sqlite"):
        with sqlite3.connect(path) as db:
            if db.execute("pragma integrity_check").fetchone() != ("ok",):
                bad.append(str(path.relative_to(root)))
    return bad


def summary(root: Path) -> Any:
    """The summary without times."""
    return plain(json.loads((root / "runs" / "run" / "summary.json").read_text()))


def plain(value: Any) -> Any:
    """A value without its times."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k not in TIMES}
    return [plain(v) for v in value] if isinstance(value, list) else value


def differing(a: Any, b: Any, path: str = "") -> list[str]:
    """Names of the fields in which two values differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        return [d for k in sorted({*a, *b}) for d in differing(a.get(k), b.get(k), f"{path}.{k}".strip("."))]
    return [] if a == b else [path]


def crash(kills: int, seed: int, folder: Path) -> dict[str, Any]:
    """Kill runs until there were enough kills; see the head of this file."""
    rng, done, runs = random.Random(seed), 0, 0
    repeated, different, bad, in_hand = 0, set[str](), set[str](), 0
    while done < kills:
        calm, stormy = folder / f"calm-{runs}", folder / f"stormy-{runs}"
        began = time.monotonic()
        assert start(calm, runs).wait() == 0
        took = time.monotonic() - began
        while True:
            have, paid = finished(stormy) if stormy.exists() else set(), len(billed(stormy))
            process = start(stormy, runs)
            try:
                code = process.wait(rng.uniform(0.0, took / 6) if done < kills else None)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code, done = -1, done + 1
            again = billed(stormy)[paid:]
            repeated += sum(key in have for key in again)
            in_hand += len(again) - len({*again} & finished(stormy))
            bad |= {*broken_files(stormy)}
            if code != -1:
                assert code == 0, code
                break
        different |= {*differing(summary(calm), summary(stormy))}
        runs += 1
    return {"kills": done, "runs": runs, "repeated_trials": repeated, "trials_in_hand_at_a_kill": in_hand,
            "differing_fields": sorted(different), "broken_files": sorted(bad), "simulated": True}  # fmt: skip


def main() -> None:
    """Print what was found; leave with 1 when anything was lost, repeated or different."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = crash(asked.kills, asked.seed, Path(folder))
    print(json.dumps(found) if asked.json else "\n".join(f"{k:26s} {v}" for k, v in found.items()))
    sys.exit(1 if found["repeated_trials"] or found["differing_fields"] or found["broken_files"] else 0)


if __name__ == "__main__":
    main()
