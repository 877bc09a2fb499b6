"""What training costs by arm: editor calls, model calls, tokens, wall clock, with reuse of unchanged results on and off.

    python tests/benchmarks/arms.py [--domains airline,retail] [--seeds 3] [--data DIR] [--json]

SIMULATED. All arms start from the same harness with the same model, tasks, seeds and rounds; each arm's figures count
every trial it rests on, also those that another arm had run already. Wall clock is what a real model would need: every
token costs the same fixed time for every arm, one call at a time (``SECONDS_PER_TOKEN``); the clock of this machine
stands beside it. Ratios are to ``self-evolution``: below 1 is cheaper.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from ecdysis_lab.evaluate.experiment import Experiment
from ecdysis_lab.train.settings import configure

ARMS = ("self-evolution", "ecdysis-no-fdcr", "ecdysis")
SECONDS_PER_TOKEN = {"prompt": 0.0005, "completion": 0.02}
MEASURES = ("editor_calls", "model_calls", "tokens", "simulated_seconds", "machine_seconds")


def measured(training: dict[str, Any]) -> dict[str, float]:
    """The figures of one arm's training."""
    prompt, completion = training["prompt_tokens"], training["completion_tokens"]
    return {
        "editor_calls": training["editor_calls"],
        "model_calls": training["model_calls"],
        "tokens": prompt + completion,
        "simulated_seconds": prompt * SECONDS_PER_TOKEN["prompt"]
        + completion * SECONDS_PER_TOKEN["completion"],
        "machine_seconds": training["wall_seconds"],
    }


def run(domain: str, seed: int, reuse: bool, data: Path) -> dict[str, dict[str, float]]:
    """Train all arms once; arm -> figures, and the accuracy on the test split."""
    config = configure(
        benchmark=f"tau2/{domain}",
        seed=seed,
        reuse=reuse,
        arms=ARMS,
        test_models="sim/small",
        model="sim/small",
    )
    summary = Experiment(config, data).go()
    return {
        arm: {**measured(summary["training"][arm]), "accuracy": summary["arms"][arm]["sim/small"]["accuracy"]}
        for arm in ARMS
    }


def table(domains: list[str], seeds: int, data: Path) -> dict[str, Any]:
    """reuse -> arm -> sums over domains and seeds, and ratios to self-evolution."""
    found: dict[str, Any] = {"simulated": True, "seconds_per_token": SECONDS_PER_TOKEN, "seeds": seeds,
                             "domains": domains}  # fmt: skip
    for reuse in (True, False):
        sums: dict[str, dict[str, float]] = {arm: defaultdict(float) for arm in ARMS}
        for domain in domains:
            for seed in range(seeds):
                for arm, figures in run(domain, seed, reuse, data / f"reuse-{reuse}").items():
                    for name, value in figures.items():
                        sums[arm][name] += value
        for arm in ARMS:
            sums[arm]["accuracy"] = round(sums[arm]["accuracy"] / (seeds * len(domains)), 4)
        base = sums["self-evolution"]
        found["reuse_on" if reuse else "reuse_off"] = {
            arm: {**{m: round(sums[arm][m], 1) for m in MEASURES}, "accuracy": sums[arm]["accuracy"],
                  "ratio": {m: round(sums[arm][m] / base[m], 3) if base[m] else None for m in MEASURES}}
            for arm in ARMS
        }  # fmt: skip
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domains", default="airline,retail")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = table(asked.domains.split(","), asked.seeds, asked.data or Path(folder))
    if asked.json:
        print(json.dumps(found))
        return
    print(
        f"SIMULATED · {asked.domains} · {asked.seeds} seeds · trained on sim/small · sums, and ratio to self-evolution"
    )
    for reuse in ("reuse_on", "reuse_off"):
        print(f"\n{reuse}")
        print(f"{'arm':18s}" + "".join(f"{m:>26s}" for m in MEASURES) + f"{'test accuracy':>16s}")
        for arm in ARMS:
            row = found[reuse][arm]
            cells = "".join(f"{row[m]:>16,.0f} ({row['ratio'][m]:.2f}x)".rjust(26) for m in MEASURES)
            print(f"{arm:18s}{cells}{100 * row['accuracy']:>15.1f}%")


if __name__ == "__main__":
    main()
