"""The only reader and writer of ``data/``: the trials of all runs, and the folder of each run."""

from ecdysis_lab.store.files import StoreError, told
from ecdysis_lab.store.round import Round
from ecdysis_lab.store.run import CHANGEABLE, Run, commit_hash, find_run, runs_of
from ecdysis_lab.store.trials import Store

__all__ = ["CHANGEABLE", "Round", "Run", "Store", "StoreError", "commit_hash", "find_run", "runs_of", "told"]
