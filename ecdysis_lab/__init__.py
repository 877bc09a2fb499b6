"""Train the runtime harness of an LLM agent from batches of its failures.

Nothing heavy loads here: torch, tau2 and litellm are imported by the function that first needs them.
"""

__version__ = "0.1.0"
