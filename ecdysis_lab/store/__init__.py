"""The only reader and writer of ``data/``: the trials of all runs, and the folder of each run."""

from ecdysis_lab.store.run import CHANGEABLE, Run, StoreError, commit_hash, told
from ecdysis_lab.store.trials import Store

__all__ = ["CHANGEABLE", "Run", "Store", "StoreError", "commit_hash", "told"]
