"""How patterns and the quarter grow with the number of failures. SIMULATED failures, repeated with other paths.

``python tests/benchmarks/scale_patterns.py [--json] [--sizes 1000 3000 10000 50000] [--data FOLDER]``

Vectors count as cached: they are those of the simulated failures plus a little noise. Targets: patterns of 10,000
in under 120 s and 6 GB, a quarter of 10,000 in under 10 s, and a plain sampled mode at 50,000.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import testbed

from ecdysis_lab.failures.embedding import embedder
from ecdysis_lab.failures.patterns import find_patterns
from ecdysis_lab.failures.subset import pick_quarter
from ecdysis_lab.records import Embedder, Failure
from ecdysis_lab.store import Store

READS = ("get_user_details:ok", "get_order_details:ok", "get_product_details:ok", "calculate:ok", "think:ok")


class Cached:
    """The vectors of known texts with a little noise, so that no two failures are the same."""

    name = "cached"

    def __init__(self, embed: Embedder) -> None:
        self.embed = embed

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, float]:
        """See ``records.Embedder``."""
        known = sorted(set(texts))
        vectors, share = self.embed.encode(known)
        at = {text: i for i, text in enumerate(known)}
        noisy = vectors[[at[t] for t in texts]]
        noisy = noisy + np.random.default_rng(1).normal(0, 0.03, noisy.shape).astype(np.float32)
        return noisy / np.linalg.norm(noisy, axis=1, keepdims=True), share


def many(base: Sequence[Failure], n: int) -> list[Failure]:
    """n failures: draws of the given ones, each with up to three more reads in its path and another task."""
    rng = np.random.default_rng(0)
    out = []
    for i in range(n):
        failure = base[int(rng.integers(len(base)))]
        path = list(failure.path)
        for _ in range(int(rng.integers(0, 4))):
            path.insert(int(rng.integers(0, len(path) + 1)), READS[int(rng.integers(len(READS)))])
        out.append(replace(failure, key=f"{i:08d}", path=tuple(path), task_id=f"{failure.task_id}-{i % 7}"))
    return out


def measure(base: Sequence[Failure], embed: Embedder, n: int) -> dict[str, object]:
    """Seconds (wall and CPU) and peak memory for n failures."""
    failures = many(base, n)
    started, used = time.perf_counter(), time.process_time()
    found = find_patterns(failures, embed)
    middle, spent = time.perf_counter(), time.process_time()
    subset = pick_quarter(failures, found)
    return {
        "n": n,
        "patterns_seconds": round(middle - started, 1),
        "patterns_cpu_seconds": round(spent - used, 1),
        "quarter_seconds": round(time.perf_counter() - middle, 1),
        "quarter_cpu_seconds": round(time.process_time() - spent, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "patterns": len(found.patterns),
        "picks": len(subset.picks),
        "sampled": any(w.startswith("Sampled mode") for w in found.warnings),
    }


def main() -> None:
    """Print one line per size, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 3000, 10_000, 50_000])
    parser.add_argument("--data", type=Path, default=testbed.DATA)
    asked = parser.parse_args()
    store = Store(asked.data)
    base = [f for pool in testbed.pools(store) for f in pool]
    embed = Cached(embedder("auto", store))
    find_patterns(base, embed)  # imports, and vectors into the cache: not what is measured
    rows = [measure(base, embed, n) for n in asked.sizes]
    print(json.dumps(rows) if asked.json else "\n".join(map(str, rows)))


if __name__ == "__main__":
    main()
