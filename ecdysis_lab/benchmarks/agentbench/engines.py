"""Which database runs the statements: ``ECDYSIS_ENGINE`` says."""

from __future__ import annotations

import os

from ecdysis_lab.benchmarks.agentbench.engine import Engine
from ecdysis_lab.records import LabError

ENGINE = "ECDYSIS_ENGINE"
NAMES = ("sqlite", "mariadb")
SERVERS = ("mysql://", "mariadb://")
CHOICES = f"{', '.join(NAMES)} or mysql://user:password@host:port/"


def checked(name: str) -> str:
    """The name of an engine, as given.

    Raises
    ------
    LabError: it is none; the choices are listed.
    """
    if name not in NAMES and not name.startswith(SERVERS):
        shown = name.partition("://")[0]  # no password on a screen
        raise LabError(f"engine: unknown {shown!r}; choose one of {CHOICES}")
    return name


def chosen_engine() -> Engine:
    """The engine that ``ECDYSIS_ENGINE`` names; SQLite where it names none.

    Raises
    ------
    LabError: an unknown one, or MariaDB cannot be started or reached.
    """
    name = checked(os.environ.get(ENGINE) or "sqlite")
    if name == "sqlite":
        from ecdysis_lab.benchmarks.agentbench.sqlite import SqliteEngine

        return SqliteEngine()
    from ecdysis_lab.benchmarks.agentbench.mariadb import MariaEngine

    return MariaEngine.started() if name == "mariadb" else MariaEngine.at(name)
