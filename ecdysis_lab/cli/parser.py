"""``ecdysis-lab``: a thin command line. A user's mistake is one sentence and exit code 2."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ecdysis_lab import __version__
from ecdysis_lab.cli import commands, learn, places
from ecdysis_lab.records import LabError, Terminated
from ecdysis_lab.store.billing import terminable


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        """Print the sentence and leave with 2."""
        self.exit(2, f"ecdysis-lab: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    arguments = _parser().parse_args(argv)
    if arguments.command is None:
        _parser().print_help()
        return 0
    try:
        places.choose(arguments)
        with terminable():
            return int(arguments.run(arguments) or 0)
    except LabError as mistake:
        print(f"ecdysis-lab: {mistake}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has seen enough, as in `ecdysis-lab show RUN | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Terminated as why:
        print(f"ecdysis-lab: {why}", file=sys.stderr)
        return 143
    except KeyboardInterrupt:
        print("ecdysis-lab: interrupted; the same command continues where it stopped", file=sys.stderr)
        return 130


def _parser() -> Parser:
    parser = Parser(
        prog="ecdysis-lab", description="Train the runtime harness of an LLM agent from its failures."
    )
    parser.add_argument("--version", action="version", version=__version__)
    made = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    demo = (
        "demo",
        _demo,
        "run notebooks/quickstart.ipynb: train, freeze, test, figures",
        _demo_options,
    )
    for name, run, words, options in (demo, *commands.COMMANDS, learn.COMMAND):
        command = made.add_parser(name, help=words, description=words)
        command.set_defaults(run=run)
        if options:
            options(command)
            places.options(command)
    return parser


def _demo_options(parser: argparse.ArgumentParser) -> None:
    commands.settings_options(parser)
    parser.add_argument("--smoke", action="store_true", help="the same at its smallest")
    parser.add_argument("--run-id", default="", help="name of the run (by default from the settings)")
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: data/ of the project)")
    parser.add_argument("--figures", type=Path, default=None, help="folder for figures (default: figures/)")


def _demo(arguments: argparse.Namespace) -> int:
    from ecdysis_lab.cli import notebooks
    from ecdysis_lab.harness import SHIPPED
    from ecdysis_lab.train.settings import check_models, check_parts, configure, fitted

    given = commands.settings_given(arguments)
    settings, _ = fitted(configure(**given))
    check_parts(settings)
    if settings.start != "human" and not (SHIPPED / settings.start).is_dir():
        given["start"] = str(Path(settings.start).resolve())  # the notebook runs in another folder
    if settings.subset.endswith(".json"):
        given["subset"] = str(Path(settings.subset).resolve())
    check_models(settings)
    places = {k: str(v.resolve()) for k, v in (("data", arguments.data), ("figures", arguments.figures)) if v}
    return notebooks.run(
        "quickstart", {**given, **places, "smoke": arguments.smoke, "run_id": arguments.run_id}
    )
