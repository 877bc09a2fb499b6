"""Sets of tasks with an official scorer, found by name."""

from ecdysis_lab.benchmarks.registry import REGISTRY, load_benchmark

__all__ = ["REGISTRY", "load_benchmark"]
