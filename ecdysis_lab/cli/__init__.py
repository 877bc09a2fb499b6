"""The command line, notebooks by papermill, and grids of them."""

from ecdysis_lab.cli.parser import main

__all__ = ["main"]
