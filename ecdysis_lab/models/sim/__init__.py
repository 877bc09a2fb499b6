"""Simulated models with planted defects, served to LiteLLM as the provider ``sim``.

A planted-defect testbed, not a result: the agent knows the gold plan and makes *slips* on it, each a concrete wrong
act in the real environment. It reacts only to text it is shown. Same inputs, same outputs, on any number of workers.
Everything that comes from it has to be labelled SIMULATED.
"""

from ecdysis_lab.models.sim.profiles import PROFILES
from ecdysis_lab.models.sim.provider import introduce, register, truth

__all__ = ["PROFILES", "introduce", "register", "truth"]
