"""``ecdysis-lab``: a thin command line. A user's mistake is one sentence and exit code 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ecdysis_lab import __version__
from ecdysis_lab.cli import commands
from ecdysis_lab.records import LabError

OPTIONS: dict[str, tuple[str, str]] = {
    "domain": ("domain", "tau2 domain: airline or retail"),
    "model": ("model", "LiteLLM name of the agent model to train on, e.g. sim/small or openai/NAME"),
    "test-models": ("test_models", "comma-separated models to test on"),
    "arm": ("arms", "comma-separated arms: direct, human, self-evolution, ecdysis-no-fdcr, ecdysis"),
    "seed": ("seed", "seed of draws, trials and picks"),
    "train-tasks": ("train_tasks", "training tasks"),
    "test-tasks": ("test_tasks", "test tasks"),
    "trials": ("trials", "trials per task"),
    "rounds": ("rounds", "most training rounds"),
    "start": ("start", "harness to start from: human, empty or a folder"),
    "subset": ("subset", "quarter, all, random-quarter, or a subset.json that was picked"),
    "debate": ("debate", "K: how often Analyst, Critic and Engineer speak"),
    "confirm": ("confirm", "repeats on fresh seeds in which an accepted candidate has to rise again"),
    "noise-floor": ("noise_floor", "A/A repeats of the start harness; the smallest gain that can be told"),
    "user-model": ("user_model", "LiteLLM name of the simulated user"),
    "review-model": ("review_model", "LiteLLM name for the four review roles"),
    "editor": ("editor", "editor: rules, litellm or opencode (the last two ask the review model)"),
    "embedder": ("embedder", "auto, minilm, tfidf or a sentence-transformers name"),
    "api-base": ("api_base", "URL of an OpenAI-compatible server"),
    "temperature": ("temperature", "sampling temperature of models that are not simulated"),
    "timeout-seconds": ("timeout_seconds", "wall clock of one model call (a model on a CPU may need more)"),
    "disclosure": ("disclosure", "transcript, checks or scenario"),
    "max-usd": ("max_usd", "budget in USD"),
    "max-tokens": ("max_tokens", "budget in tokens"),
    "max-seconds": ("max_seconds", "budget in seconds"),
    "workers": ("workers", "trials at a time; 0 for all cores"),
}


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
        return int(arguments.run(arguments) or 0)
    except LabError as mistake:
        print(f"ecdysis-lab: {mistake}", file=sys.stderr)
        return 2
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
        _experiment_options,
    )
    for name, run, words, options in (demo, *commands.COMMANDS):
        command = made.add_parser(name, help=words, description=words)
        command.set_defaults(run=run)
        if options:
            options(command)
    return parser


def _experiment_options(parser: argparse.ArgumentParser) -> None:
    for flag, (name, words) in OPTIONS.items():
        parser.add_argument(f"--{flag}", dest=name, help=words, default=argparse.SUPPRESS)
    parser.add_argument("-p", dest="extra", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
                        help="any other notebook parameter")  # fmt: skip
    parser.add_argument("--smoke", action="store_true", help="the same at its smallest")
    parser.add_argument("--run-id", default="", help="name of the run (by default from the configuration)")
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: data/ of the project)")
    parser.add_argument("--figures", type=Path, default=None, help="folder for figures (default: figures/)")


def _demo(arguments: argparse.Namespace) -> int:
    from ecdysis_lab.cli import notebooks
    from ecdysis_lab.evaluate.experiment import check_parts
    from ecdysis_lab.harness import SHIPPED
    from ecdysis_lab.train.settings import check_models, configure

    given = {name: getattr(arguments, name) for name, _ in OPTIONS.values() if hasattr(arguments, name)}
    given |= dict(arguments.extra)
    config = configure(**given)
    check_parts(config)
    if config.start != "human" and not (SHIPPED / config.start).is_dir():
        given["start"] = str(Path(config.start).resolve())  # the notebook runs in another folder
    if config.subset.endswith(".json"):
        given["subset"] = str(Path(config.subset).resolve())
    check_models(config)
    places = {k: str(v.resolve()) for k, v in (("data", arguments.data), ("figures", arguments.figures)) if v}
    return notebooks.run(
        "quickstart", {**given, **places, "smoke": arguments.smoke, "run_id": arguments.run_id}
    )
