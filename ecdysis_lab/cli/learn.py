"""``ecdysis-lab learn``: recorded trials in, a candidate harness and a count of stopped acts out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ecdysis_lab.cli.commands import settings_given, settings_options

OWN = ("arms", "split", "alone", "model", "run_id")
"""Not settings of an experiment; without a value the library's default holds."""


def options(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    from ecdysis_lab.cli import notebooks

    left_out = argparse.SUPPRESS
    parser.add_argument("traces", help="file or folder of recorded trials, or the name of an import")
    settings_options(parser, *notebooks.SETTINGS["logs"])
    parser.add_argument(
        "--arms", "--arm", default=left_out, help="comma-separated arms that train (default: ecdysis)"
    )
    parser.add_argument(
        "--split", type=float, default=left_out, help="share of the tasks to learn from (default: 0.5)"
    )
    parser.add_argument(
        "--alone",
        type=int,
        default=left_out,
        help="most failures, drawn by seed, of an arm that hands over each alone (default: 15)",
    )
    parser.add_argument(
        "--model", default=left_out, help="name of the model that acted, where the traces do not tell"
    )
    parser.add_argument(
        "--run-id", default=left_out, help="name of the run (default: from all that decides it)"
    )
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: data/ of the project)")
    parser.add_argument("--figures", type=Path, default=None, help="folder for figures (default: figures/)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Learn, write the pages and the figure, and print the result."""
    from ecdysis_lab.cli import notebooks
    from ecdysis_lab.evaluate.experiment import printing_progress
    from ecdysis_lab.evaluate.learn import prepare_learning
    from ecdysis_lab.show import figures, learned

    given = {k: v for k, v in settings_given(arguments).items() if k not in OWN}
    learning = prepare_learning(
        given,
        arguments.traces,
        arguments.data or notebooks.PROJECT / "data",
        progress=None if arguments.json else printing_progress(),
        **{k: v for k, v in vars(arguments).items() if k in OWN},
    )
    if not arguments.json:
        print(learning.expected)
    found = learning.go()
    pages = learned.write_pages(learning.run)
    folder = (arguments.figures or notebooks.PROJECT / "figures") / learning.run.run_id
    plots, footer = learned.plots(found)
    saved = figures.save_all(plots, folder, footer)
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    print(learned.text(found))
    print(*(f"diff of {arm}: {page}" for arm, page in pages.items()), sep="\n")
    print(figures.told(saved, folder), f"run: {learning.run.folder}", sep="\n")
    return 0


COMMAND = ("learn", run, "from recorded trials to a candidate harness, without a call of the agent", options)
"""(name, what it calls, help, its options)."""
