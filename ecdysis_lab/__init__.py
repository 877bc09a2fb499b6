"""Train the runtime harness of an LLM agent from batches of its failures.

What a notebook needs stands below; each name is imported when it is first used, so that nothing heavy loads here.
``ecdysis_lab.show`` holds what people look at: figures, tables, widgets, report.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_FACE = {
    "parameters": "cli.notebooks",
    "PROJECT": "cli.notebooks",
    "printing_progress": "evaluate.experiment",
    "prepare_experiment": "evaluate.experiment",
    "prepare_evaluation": "evaluate.evaluation",
    "Evaluation": "evaluate.evaluation",
    "prepare_training": "evaluate.evolution",
    "prepare_collection": "evaluate.collecting",
    "prepare_learning": "evaluate.learn",
    "pooled": "evaluate.results",
    "differences": "evaluate.comparisons",
    "embedder": "failures.embedding",
    "find_patterns": "failures.patterns",
    "load_benchmark": "benchmarks",
    "load_harness": "harness",
    "LabError": "records",
}
"""Name -> room and module that it lives in."""

__all__ = ["__version__", *_FACE]


def __getattr__(name: str) -> Any:
    if name not in _FACE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FACE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
