"""From a harness to a worker that is shut in and has loaded it: everything that happens before the first hook."""

from __future__ import annotations

import functools
import json
import marshal
import threading
import warnings
from dataclasses import asdict, dataclass
from typing import Any

from ecdysis_lab.harness.sandbox import validate
from ecdysis_lab.harness.sandbox.pipe import NO_SHARING, HarnessFault, HostLimits, Worker
from ecdysis_lab.harness.source import Harness, static_problems
from ecdysis_lab.harness.static import HOOKS
from ecdysis_lab.records import LAYER_FILES

REGEXES_KEPT = REQUESTS_KEPT = 32
_regexes: dict[str, list[Any]] = {}
_requests: dict[tuple[Any, ...], bytes] = {}
_kept_lock = threading.Lock()
_report: dict[str, str] = {}
_report_lock = threading.Lock()


@dataclass(frozen=True)
class Recipe:
    """What a ready worker is made from; nothing in it belongs to one trial.

    Parameters
    ----------
    harness : what ``harness.load`` returned. policy : the benchmark's policy text.
    tools : tool schemas. limits : of the worker. without : lines to leave out, for tests only.
    """

    harness: Harness
    policy: str
    tools: list[dict[str, Any]]
    limits: HostLimits
    without: tuple[str, ...] = ()

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for recipes whose workers are interchangeable."""
        return (
            self.harness.hash,
            self.policy,
            _bytes(self.tools),
            self.limits,
            self.without,
        )

    def make(self) -> Worker:
        """A worker behind all its lines, with the hooks loaded.

        Raises
        ------
        HarnessFault: the harness breaks the static policy or does not load.
        HostError: the sandbox cannot run.
        """
        if "static" not in self.without:
            _check_static(self.harness)
        load = {"do": "load", "request": self._request()}
        worker = Worker(self.limits)
        try:
            lines = worker.ask(
                "load", {"do": "confine", "limits": asdict(self.limits), "without": self.without}, _no_read
            )
            if not self.without:
                _warn(lines)
            self._learn(worker, worker.ask("load", load, _no_read))
        except HarnessFault:
            worker.close()  # half a harness is none
            raise
        return worker

    def _learn(self, worker: Worker, told: Any) -> None:
        """Keep what the next worker of this harness need not compile, and when its hooks are to be asked.

        It is data to us: the expressions are only sent back, and the cases are compared with texts of ours.
        """
        told = told if isinstance(told, dict) else {}
        made, worker.cases = told.get("regexes"), validate.cases(told.get("cases"))
        if made and isinstance(made, list):
            with _kept_lock:
                while len(_regexes) >= REGEXES_KEPT:
                    _regexes.pop(next(iter(_regexes)))
                _regexes.setdefault(self.harness.hash, made)

    def _request(self) -> bytes:
        """What ``do_load`` takes, as marshal data; kept, since all workers of a recipe take the same."""
        regexes = _regexes.get(self.harness.hash, [])
        key = (self.key, bool(regexes))
        with _kept_lock:
            if key not in _requests:
                while len(_requests) >= REQUESTS_KEPT:
                    _requests.pop(next(iter(_requests)))
                _requests[key] = self._packed(regexes)
            return _requests[key]

    def _packed(self, regexes: list[Any]) -> bytes:
        layers = {layer: name for layer, name in LAYER_FILES.items() if self.harness.active(layer)}
        request = {
            "policy": self.policy,
            "tools": json.loads(json.dumps(self.tools, default=str)),  # plain data, beside the code's bytes
            "disabled": self.harness.disabled,
            "code": {layer: _compiled(name, self.harness.files[name]) for layer, name in layers.items()},
            "regexes": regexes,
            "hooks": {name: layer for name, (layer, _) in HOOKS.items()},
            "builtins": "builtins" not in self.without,
        }
        return marshal.dumps(request, NO_SHARING)


def sandbox_report() -> dict[str, str]:
    """Lines of the sandbox on this machine: name -> why it is missing, or an empty string where it holds."""
    with _report_lock:
        if not _report:
            worker = Worker(HostLimits())
            try:
                limits = asdict(worker.limits)
                _report.update(
                    worker.ask("load", {"do": "confine", "limits": limits, "without": ()}, _no_read)
                )
            finally:
                worker.close()
        return dict(_report)


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


@functools.lru_cache(maxsize=256)
def _compiled(name: str, source: str) -> bytes:
    """Code object of a hook file as marshal data; compiled here, since a trial has no time for it."""
    try:
        code = compile(source, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise HarnessFault("static", "load", name, getattr(error, "lineno", 0) or 0, str(error)) from None
    return marshal.dumps(code)


def _bytes(tools: list[dict[str, Any]]) -> bytes:
    try:
        return marshal.dumps(tools, NO_SHARING)  # else equal tools may differ in bytes
    except ValueError:  # something that is not plain data
        return json.dumps(tools, default=str).encode()


def _no_read(_tool: Any, _arguments: Any) -> dict[str, Any]:
    return {"error": "no live environment while loading"}
