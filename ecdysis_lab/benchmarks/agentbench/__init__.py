"""AgentBench: DBBench on an embedded database or on MariaDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ecdysis_lab.benchmarks.agentbench.dbbench import DBBench


def dbbench() -> DBBench:
    """DBBench on the data and the engine that the environment variables choose."""
    from ecdysis_lab.benchmarks.agentbench.dbbench import DBBench

    return DBBench()
