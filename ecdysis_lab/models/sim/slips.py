"""The catalogue of slips by domain."""

from __future__ import annotations

from collections.abc import Sequence

from ecdysis_lab.hooks import Call
from ecdysis_lab.models.sim.scene import Scene, Slip
from ecdysis_lab.models.sim.slips_airline import AIRLINE
from ecdysis_lab.models.sim.slips_common import COMMON, nothing
from ecdysis_lab.models.sim.slips_retail import RETAIL

BLUNDER = Slip("blunder", "deny", nothing, r"(?!)", quirk=True)
"""A random wrong act; nothing prevents it. Its chance is the profile's ``blunder``."""

CATALOGUE: dict[str, Sequence[Slip]] = {"airline": (*COMMON, *AIRLINE), "retail": (*COMMON, *RETAIL)}


def possible(slip: Slip, scene: Scene) -> bool:
    """Whether the slip can happen in this task."""
    calls: list[Call | None] = [*scene.plan] if slip.where in ("call", "loop", "unconfirmed") else [None]
    return any(slip.wrong(scene, call) is not None for call in calls)
