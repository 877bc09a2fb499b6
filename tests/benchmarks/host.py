"""What running a harness costs: start of a worker and one hook call, with the rules of a shipped harness.

``python tests/benchmarks/host.py [--harness NAME] [--json]``; targets: hook under 0.5 ms, start under 60 ms
(median), and a whole sim trial at most 15% dearer with the human harness than with the empty one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ecdysis_lab.harness import Harness, load_harness
from ecdysis_lab.harness.host import Host
from ecdysis_lab.hooks import Call, Done

TARGET_HOOK_MS, TARGET_START_MS, TARGET_OVERHEAD = 0.5, 60.0, 0.15
TURNS = 15

# As dear as a real rule set: every hook looks at the whole view.
SAMPLE = {
    "contract.py": "def describe(tool):\n    return {**tool, 'description': tool['description'] + ' Ids start with #W.'}\n",
    "skills.py": "def brief(opening, policy):\n    return 'Look the order up first.' if 'order' in opening else ''\n",
    "actions.py": (
        "import re\nfrom ecdysis_lab.hooks import Allow, Refuse\n\n"
        "def check(call, view):\n"
        "    seen = [d.call.name for d in view.done if not d.error]\n"
        "    said = ' '.join(m['content'] for m in view.messages if m['role'] == 'user')\n"
        "    if view.kind(call.name) == 'write' and not re.search('yes', said) and 'get' not in seen:\n"
        "        return Refuse('Ask first.', 'Ask the user.', 'confirm')\n"
        "    return Allow()\n"
    ),
    "regulation.py": (
        "from ecdysis_lab.hooks import Allow\n\n"
        "def observe(call, result, view):\n"
        "    same = [d for d in view.done if d.call == call]\n"
        "    return 'You did this before.' if len(same) > 2 else None\n\n"
        "def on_reply(text, view):\n    return Allow()\n"
    ),
}
IDLE = {
    "contract.py": "def describe(tool):\n    return tool\n",
    "skills.py": "def brief(opening, policy):\n    return ''\n",
    "actions.py": ("from ecdysis_lab.hooks import Allow\n\n\ndef check(call, view):\n    return Allow()\n"),
    "regulation.py": (
        "from ecdysis_lab.hooks import Allow\n\n\ndef observe(call, result, view):\n    return None\n\n\n"
        "def on_reply(text, view):\n    return Allow()\n"
    ),
}


def tools() -> list[dict[str, Any]]:
    """Fourteen schemas of the size of τ²'s."""
    properties = {
        f"field_{i}": {"type": "string", "description": "What the field holds. " * 4} for i in range(5)
    }
    schema = {"type": "object", "properties": properties, "required": ["field_0"]}
    kinds = ["read", "write"]
    return [
        {
            "name": f"tool_{i}",
            "description": "What the tool does. " * 12,
            "parameters": schema,
            "kind": kinds[i % 2],
        }
        for i in range(14)
    ]


def written(folder: Path, files: dict[str, str]) -> Harness:
    """A harness of these files, written to ``folder``."""
    folder.mkdir()
    for name, source in files.items():
        (folder / name).write_text(source)
    return load_harness(folder)


def timed(act: Callable[[], Any]) -> float:
    """Milliseconds that ``act`` took."""
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1e3


def trial(harness: Harness) -> tuple[float, list[float]]:
    """One trial's hook calls on a growing conversation: (start in ms, hooks in ms)."""
    hooks: list[float] = []
    with Host(harness, "Policy. " * 1500, tools(), lambda tool, arguments: {"status": "pending"}) as host:
        start = timed(host.start)
        hooks += [timed(lambda t=t: host.describe(t)) for t in tools()]
        hooks.append(timed(lambda: host.brief("My order is late.")))
        for turn in range(TURNS):
            host.add_message("user", "Please look at my order. " * 8)
            call = Call(f"tool_{turn % 14}", {f"field_{i}": "value" for i in range(5)}, f"call_{turn}")
            hooks.append(timed(lambda c=call: host.check(c, 30)))
            host.add_done(Done(call, '{"status": "pending"}' * 80))
            hooks.append(timed(lambda c=call: host.observe(c, '{"status": "pending"}' * 80, False, 29)))
            hooks.append(timed(lambda: host.on_reply("Your order is on its way. " * 5, 28)))
            host.add_message("assistant", "Your order is on its way. " * 5)
    return start, hooks


def measure(harness: Harness, idle: Harness, trials: int) -> dict[str, Any]:
    """Medians over ``trials`` trials; the first one, which also starts the fork server, is reported apart.

    ``idle`` is a harness whose hooks do nothing: what it costs is the floor for all others.
    """
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
        **overheads(load_harness("airline").path, idle.path),
    }


def overheads(path: Path, idle: Path) -> dict[str, Any]:
    """What whole trials cost, as shares of those in the empty harness; ``_range`` is from the 20th to the 80th percentile."""
    found: dict[str, Any] = {}
    for name, (middle, *low_high) in (
        ("trial_overhead", trial_overhead(path)),
        ("overhead_in_a_row", overhead_in_a_row(path)),
        ("idle_hooks_overhead", trial_overhead(idle)),
    ):
        found |= {name: middle, f"{name}_range": low_high}
    return found


def sides(path: Path, tasks: int = 15) -> list[list[Callable[[], Any]]]:
    """Whole sim trials in the empty harness and in the one at ``path``: the flawless agent, τ² airline tasks.

    Both sides take the same steps. The first trial of each only warms up: sources compiled, fork server started.
    """
    from ecdysis_lab.benchmarks import load_benchmark
    from ecdysis_lab.harness.rollout import Setup, run_trial

    bench, setup = load_benchmark("tau2/airline"), Setup("tau2/airline", "sim/flawless")
    chosen = bench.tasks("train", tasks)
    made = [
        [partial(run_trial, setup, task, folder, 0) for task in chosen]
        for folder in (load_harness("empty").path, path)
    ]
    for trials in made:
        for run in trials:
            run()
    return made


def trial_overhead(path: Path, repeats: int = 9) -> list[float]:
    """Extra time of trials over those in the empty harness, as a share of the latter: median, 20th and 80th percentile.

    One number a repeat, of all tasks: each in both harnesses, one right after the other, so that both meet the same
    machine. Workers for later trials are made between the timed ones.
    """
    from ecdysis_lab.harness.sandbox import spares

    pairs, shares = list(zip(*sides(path), strict=True)), []
    for repeat in range(repeats):
        taken = [0.0, 0.0]
        for pair in pairs:
            for side in (0, 1) if repeat % 2 else (1, 0):
                spares.current().settle()
                taken[side] += timed(pair[side])
        shares.append(taken[1] / taken[0] - 1)
    return spread(shares)


def overhead_in_a_row(path: Path, repeats: int = 9) -> list[float]:
    """As :func:`trial_overhead`, for trials of one harness after another: workers are made beside them."""
    from ecdysis_lab.harness.sandbox import spares

    both, shares = sides(path), []
    for repeat in range(repeats):
        taken = [0.0, 0.0]
        for side in (0, 1) if repeat % 2 else (1, 0):
            spares.current().settle()
            both[side][0]()  # from the second trial in a row on, workers are made ahead
            both[side][0]()
            taken[side] = timed(lambda trials=both[side]: [run() for run in trials])
        shares.append(taken[1] / taken[0] - 1)
    return spread(shares)


def spread(shares: list[float]) -> list[float]:
    """Median, 20th and 80th percentile."""
    fifths = statistics.quantiles(shares, n=5)
    return [round(value, 4) for value in (statistics.median(shares), fifths[0], fifths[-1])]


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--harness", help="name or folder (default: a sample that uses all hooks)")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sample, idle = (written(Path(folder, name), f) for name, f in (("sample", SAMPLE), ("idle", IDLE)))
        numbers = measure(load_harness(asked.harness) if asked.harness else sample, idle, asked.trials)
    if asked.json:
        print(json.dumps(numbers))
        return
    for name, value in numbers.items():
        print(f"{name:26s} {value}")
    met = numbers["hook_ms_median"] < TARGET_HOOK_MS and numbers["start_ms_median"] < TARGET_START_MS
    met = met and numbers["trial_overhead"] <= TARGET_OVERHEAD
    limits = f"hook < {TARGET_HOOK_MS} ms, start < {TARGET_START_MS} ms, trial <= +{TARGET_OVERHEAD:.0%}"
    print(f"targets {'met' if met else 'MISSED'}: {limits}")


if __name__ == "__main__":
    main()
