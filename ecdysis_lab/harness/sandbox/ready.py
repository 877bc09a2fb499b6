"""From a harness to a worker that is shut in and has loaded it: everything that happens before the first hook."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from ecdysis_lab.harness.sandbox.pipe import HarnessFault, HostLimits, Worker
from ecdysis_lab.harness.source import Harness, static_problems
from ecdysis_lab.harness.static import HOOKS
from ecdysis_lab.records import LAYER_FILES

_report: dict[str, str] = {}
_report_lock = threading.Lock()


def ready_worker(
    harness: Harness, policy: str, tools: list[dict[str, Any]], limits: HostLimits, without: Collection[str]
) -> Worker:
    """A fresh worker behind all its lines (but those in ``without``), with the hooks loaded.

    Raises
    ------
    HarnessFault: the harness breaks the static policy or does not load.
    HostError: the sandbox cannot run.
    """
    if "static" not in without:
        _check_static(harness)
    request = {
        "do": "load",
        "policy": policy,
        "tools": tools,
        "disabled": harness.disabled,
        "sources": {
            layer: harness.files[name] for layer, name in LAYER_FILES.items() if harness.active(layer)
        },
        "hooks": {name: layer for name, (layer, _) in HOOKS.items()},
        "builtins": "builtins" not in without,
    }
    worker = Worker(limits)
    try:
        lines = _confine(worker, without)
        if not without:
            _warn(lines)
        worker.ask("load", request, _no_read)
    except HarnessFault:
        worker.close()  # half a harness is none
        raise
    return worker


def sandbox_report() -> dict[str, str]:
    """Lines of the sandbox on this machine: name -> why it is missing, or an empty string where it holds."""
    with _report_lock:
        if not _report:
            worker = Worker(HostLimits())
            try:
                _report.update(_confine(worker))
            finally:
                worker.close()
        return dict(_report)


def _confine(worker: Worker, without: Collection[str] = ()) -> dict[str, str]:
    request = {"do": "confine", "limits": asdict(worker.limits), "without": list(without)}
    lines: dict[str, str] = worker.ask("load", request, _no_read)
    return lines


def _check_static(harness: Harness) -> None:
    problems = static_problems(harness)
    if problems:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise HarnessFault("static", "load", first.file, first.line, first.what + more)


def _warn(lines: dict[str, str]) -> None:
    """Say once per process what does not hold. The lines were drawn before any harness code was loaded."""
    with _report_lock:
        if _report:
            return
        _report.update(lines)
    missing = [f"{name} ({why})" for name, why in sorted(lines.items()) if why]
    if missing:
        warnings.warn(
            f"the harness sandbox is weaker on this machine; missing: {', '.join(missing)}", stacklevel=6
        )


def _no_read(_tool: Any, _arguments: Any) -> dict[str, Any]:
    return {"error": "no live environment while loading"}
