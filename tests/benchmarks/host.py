"""What running a harness costs: start of a worker and one hook call, with the rules of a shipped harness.

``python tests/benchmarks/host.py [--harness NAME] [--json]``; targets: hook under 1 ms and start under 60 ms (median).
The exit code says whether they are met. A trial of a real model takes tens of seconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from ecdysis_lab.harness import Harness, load_harness
from ecdysis_lab.harness.host import Host
from ecdysis_lab.hooks import Call, Done

TARGET_HOOK_MS, TARGET_START_MS = 1.0, 60.0
TURNS = 15
FIELDS = {f"field_{i}": {"type": "string", "description": "What the field holds. " * 4} for i in range(5)}
TOOLS: list[dict[str, Any]] = [
    {
        "name": f"tool_{i}",
        "description": "What the tool does. " * 12,
        "parameters": {"type": "object", "properties": FIELDS, "required": ["field_0"]},
        "kind": ["read", "write"][i % 2],
    }
    for i in range(14)  # of the number and size of τ²'s
]
RESULT = '{"status": "pending"}' * 80


def timed(act: Callable[[], Any]) -> float:
    """Milliseconds that ``act`` took."""
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1e3


def trial(harness: Harness) -> tuple[float, list[float]]:
    """One trial's hook calls on a growing conversation: (start in ms, hooks in ms)."""
    with Host(harness, "Policy. " * 1500, TOOLS, lambda tool, arguments: {"status": "pending"}) as host:
        start = timed(host.start)
        hooks = [timed(lambda t=t: host.describe(t)) for t in TOOLS]
        hooks.append(timed(lambda: host.brief("My order is late.")))
        for turn in range(TURNS):
            host.add_message("user", "Please look at my order. " * 8)
            call = Call(f"tool_{turn % 14}", dict.fromkeys(FIELDS, "value"), f"call_{turn}")
            hooks.append(timed(lambda c=call: host.check(c, 30)))
            host.add_done(Done(call, RESULT))
            hooks.append(timed(lambda c=call: host.observe(c, RESULT, 29)))
            hooks.append(timed(lambda: host.on_reply("Your order is on its way. " * 5, 28)))
            host.add_message("assistant", "Your order is on its way. " * 5)
    return start, hooks


def measure(harness: Harness, trials: int) -> dict[str, Any]:
    """Medians over ``trials`` trials; the first one, which also starts the fork server, is reported apart."""
    first, _ = trial(harness)
    runs = [trial(harness) for _ in range(trials)]
    starts, hooks = [start for start, _ in runs], [ms for _, calls in runs for ms in calls]
    return {
        "hook_ms_median": round(statistics.median(hooks), 4),
        "hook_ms_p95": round(statistics.quantiles(hooks, n=20)[-1], 4),
        "start_ms_median": round(statistics.median(starts), 2),
        "first_start_ms": round(first, 2),
        "hook_calls": len(hooks),
        "trials": trials,
    }


def main() -> int:
    """Print the numbers; the exit code says whether the targets are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--harness", default="airline", help="name or folder")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    numbers = measure(load_harness(asked.harness), asked.trials)
    met = numbers["hook_ms_median"] < TARGET_HOOK_MS and numbers["start_ms_median"] < TARGET_START_MS
    if asked.json:
        print(json.dumps(numbers))
    else:
        print(*(f"{name:16s} {value}" for name, value in numbers.items()), sep="\n")
        print(f"hook < {TARGET_HOOK_MS:g} ms, start < {TARGET_START_MS:g} ms: {'met' if met else 'MISSED'}")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
