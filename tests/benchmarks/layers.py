"""Accuracy of a simulated model with each layer of the human harness switched off in turn. SIMULATED.

``python tests/benchmarks/layers.py [--model sim/small] [--trials 1] [--workers 2] [--json]``
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.evaluate.scores import scores
from ecdysis_lab.evaluate.summaries import metrics
from ecdysis_lab.harness import load_harness, switch_harness
from ecdysis_lab.harness.rollout import Setup, rollout
from ecdysis_lab.records import LAYER_FILES
from ecdysis_lab.store import Store

DOMAINS = ("airline", "retail")
VARIANTS: dict[str, tuple[str, ...]] = {
    "all layers on": (),
    **{f"without {layer}": (layer,) for layer in LAYER_FILES},
    "all layers off": tuple(LAYER_FILES),
}


def measure(domain: str, model: str, trials: int, workers: int, folder: Path) -> dict[str, dict[str, object]]:
    """Variant -> summary over all tasks of a domain."""
    bench, human = load_benchmark(f"tau2/{domain}"), load_harness(domain)
    store, out = Store(folder / "data"), {}
    for variant, off in VARIANTS.items():
        switched = switch_harness(
            human, folder / domain / variant.replace(" ", "-"), dict.fromkeys(off, False)
        )
        setup = Setup(bench.name, model)
        left = rollout(setup, bench.tasks("all"), switched, range(trials), store, workers=workers)
        refusals = sum(i.action == "refuse" for t in left for i in t.interventions)
        out[variant] = {**metrics(scores(left)), "refusals": refusals, "tokens": left[0].harness_tokens}
    return out


def main() -> None:
    """Print the table, or with ``--json`` domain -> variant -> summary."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="sim/small")
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {
            d: measure(d, arguments.model, arguments.trials, arguments.workers, Path(folder)) for d in DOMAINS
        }
    if arguments.json:
        print(json.dumps(found))
        return
    print(f"SIMULATED: {arguments.model}, all tasks, {arguments.trials} trial(s) per task\n")
    print("| layers of the human harness | " + " | ".join(f"{d} accuracy % [95%]" for d in DOMAINS) + " |")
    print("|---|" + "---|" * len(DOMAINS))
    for variant in VARIANTS:
        cells = []
        for domain in DOMAINS:
            m = found[domain][variant]
            low, high = m["accuracy_ci95"]  # type: ignore[misc]
            cells.append(f"{100 * m['accuracy']:.1f} [{100 * low:.0f}–{100 * high:.0f}]")  # type: ignore[operator]
        print(f"| {variant} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
