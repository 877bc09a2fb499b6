"""One plain call of every hook: whether a harness breaks before it meets a task."""

from __future__ import annotations

from typing import Any

from ecdysis_lab.harness.host import HarnessFault, Host
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.hooks import Call, Done
from ecdysis_lab.records import Benchmark

STEPS_LEFT = 50


def probe(harness: Harness, benchmark: Benchmark, task_id: str) -> HarnessFault | None:
    """Call every hook once, as in a trial; the first fault, or None.

    Parameters
    ----------
    harness : what is probed. benchmark, task_id : whose tools and live environment the hooks see.
    """
    environment = benchmark.environment(task_id)
    with Host(harness, benchmark.policy, benchmark.tools, environment.read) as host:
        try:
            _call_every_hook(host, benchmark)
        except HarnessFault as fault:
            return fault
    return None


def _call_every_hook(host: Host, benchmark: Benchmark) -> None:
    for tool in benchmark.tools:
        host.describe(dict(tool))
    host.brief("Hello, I need help with this.")
    host.add_message("user", "Hello, I need help with this.")
    for tool in benchmark.tools:
        call = Call(tool["name"], sample_arguments(tool), "probe")
        host.check(call, STEPS_LEFT)
        for result, error in (("{}", False), ("Error: not found", True)):
            host.add_done(Done(call, result, error))  # as in a trial: observe sees the call in the view
            host.observe(call, result, STEPS_LEFT)
    host.on_reply("That is done.", STEPS_LEFT)


def sample_arguments(tool: dict[str, Any]) -> dict[str, Any]:
    """Plausible arguments from a schema."""
    kinds: dict[str, Any] = {
        "string": "x",
        "integer": 1,
        "number": 1.0,
        "array": [],
        "boolean": True,
        "object": {},
    }
    properties = tool["parameters"].get("properties", {})
    return {name: kinds.get(p.get("type", "string"), "x") for name, p in properties.items()}
