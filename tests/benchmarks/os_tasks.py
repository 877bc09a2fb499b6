"""Which tasks of OS interaction can be done on this machine: ``python tests/benchmarks/os_tasks.py [--json]``.

Needs a clone of AgentBench (``ECDYSIS_AGENTBENCH``) and bubblewrap. A task can be done where the scripts that make its
world succeed, and its gold script, run as an agent runs it, passes the task's own check.
"""

from __future__ import annotations

import json
import sys
import time

from ecdysis_lab.benchmarks.agentbench.os_interaction import OSInteraction


def main() -> None:
    """Print the counts by split, and every task that cannot be done with the reason."""
    bench, began = OSInteraction(), time.perf_counter()
    why = {task.id: bench.why_unusable(task.id) for task in bench.tasks("all")}
    counts = {
        split: {"tasks": len(tasks), "usable": sum(not why[task.id] for task in tasks)}
        for split in ("train", "test")
        if (tasks := bench.tasks(split))
    }
    unusable = {task: reason for task, reason in why.items() if reason}
    seconds = round((time.perf_counter() - began) / len(why), 2)
    told = {"machine": bench.system, **counts, "unusable": unusable, "seconds_per_task": seconds}
    if "--json" in sys.argv:
        print(json.dumps(told, indent=2, ensure_ascii=False))
        return
    for split, numbers in counts.items():
        print(f"{split}: {numbers['usable']} of {numbers['tasks']} tasks can be done on {bench.system}")
    print("\n".join(f"  {task}: {reason}" for task, reason in unusable.items()))


if __name__ == "__main__":
    main()
