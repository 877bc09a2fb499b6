"""Options that choose AgentBench's data and engine for everything that a command starts: workers, notebooks, cells."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ecdysis_lab.benchmarks.agentbench.data import PLACE, clone_files
from ecdysis_lab.benchmarks.agentbench.engines import CHOICES, ENGINE, checked


def options(parser: argparse.ArgumentParser) -> None:
    """The two options; without them the environment variables hold."""
    group = parser.add_argument_group("AgentBench")
    group.add_argument(
        "--agentbench",
        type=Path,
        metavar="PATH",
        help=f"clone of AgentBench (default: {PLACE}, else own tasks)",
    )
    group.add_argument(
        "--engine", metavar="NAME", help=f"database: {CHOICES} (default: {ENGINE}, else sqlite)"
    )


def choose(arguments: argparse.Namespace) -> None:
    """Set the environment variables that were given as options.

    Raises
    ------
    LabError: no clone there, or an unknown engine.
    """
    place, engine = getattr(arguments, "agentbench", None), getattr(arguments, "engine", None)
    if place is not None:
        clone_files(place.expanduser())
        os.environ[PLACE] = str(place.expanduser().resolve())
    if engine is not None:
        os.environ[ENGINE] = checked(engine)
