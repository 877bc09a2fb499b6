"""``ecdysis-lab``: a thin command line. A user's mistake is one sentence and exit code 2."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ecdysis_lab import __version__
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
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    _add(
        commands,
        "demo",
        _demo,
        "run notebooks/quickstart.ipynb: train, freeze, test, figures",
        _experiment_options,
    )
    _add(commands, "run", _run, "run trials of a split and print their scores", _run_options)
    _add(
        commands,
        "check",
        _check,
        "what a harness does to legal acts, illegal ones and recorded traces",
        _check_options,
    )
    _add(commands, "import", _import, "put recorded trajectories into the trial store", _import_options)
    _add(
        commands, "grid", _grid, "run a notebook over a grid of parameters, one process a cell", _grid_options
    )
    _add(commands, "report", _report, "write one HTML report of runs or of a grid", _report_options)
    _add(commands, "ratio", _ratio, "accommodation ratio t: which edits serve one model only", _ratio_options)
    _add(
        commands, "doctor", _doctor, "say what is installed, which keys are set (names only), what is missing"
    )
    return parser


def _ratio_options(parser: Parser) -> None:
    parser.add_argument("run_id", metavar="RUN", help="run id or run folder")
    parser.add_argument("--arm", default=None, help="one arm only")
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: data/ of the project)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _ratio(arguments: argparse.Namespace) -> int:
    from ecdysis_lab import accommodation, notebooks
    from ecdysis_lab.accommodation_run import decisions_of

    folder = Path(arguments.run_id)
    if not folder.is_dir():
        folder = Path(arguments.data or notebooks.PROJECT / "data") / "runs" / arguments.run_id
    decisions = decisions_of(folder, arm=arguments.arm)
    t = {"proposed": accommodation.ratio(decisions), "accepted": accommodation.ratio(decisions, "accepted")}
    table = accommodation.decisions_table(decisions)
    if arguments.json:
        print(json.dumps({"t": t, "changes": table.to_dict("records")}, ensure_ascii=False))
        return 0
    print(table.to_string(index=False) if len(table) else "no changes were proposed")
    for name, value in t.items():
        print(f"t over {name} changes: {'cannot be told' if value is None else f'{100 * value:.1f} %'}")
    return 0


def _add(
    commands: Any,
    name: str,
    run: Callable[..., Any],
    words: str,
    options: Callable[[Parser], None] | None = None,
) -> None:
    made = commands.add_parser(name, help=words, description=words)
    made.set_defaults(run=run)
    if options:
        options(made)


def _experiment_options(parser: Parser) -> None:
    for flag, (name, words) in OPTIONS.items():
        parser.add_argument(f"--{flag}", dest=name, help=words, default=argparse.SUPPRESS)
    parser.add_argument("-p", dest="extra", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
                        help="any other notebook parameter")  # fmt: skip
    parser.add_argument("--smoke", action="store_true", help="the same at its smallest")
    parser.add_argument("--run-id", default="", help="name of the run (by default from the configuration)")
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: data/ of the project)")
    parser.add_argument("--figures", type=Path, default=None, help="folder for figures (default: figures/)")


def _demo(arguments: argparse.Namespace) -> int:
    from ecdysis_lab import harness, notebooks
    from ecdysis_lab.config import check_models, configure
    from ecdysis_lab.experiment import check_parts

    given = {name: getattr(arguments, name) for name, _ in OPTIONS.values() if hasattr(arguments, name)}
    given |= dict(arguments.extra)
    config = configure(**given)
    check_parts(config)
    if config.start != "human" and not (harness.SHIPPED / config.start).is_dir():
        given["start"] = str(Path(config.start).resolve())  # the notebook runs in another folder
    if config.subset.endswith(".json"):
        given["subset"] = str(Path(config.subset).resolve())
    check_models(config)
    places = {k: str(v.resolve()) for k, v in (("data", arguments.data), ("figures", arguments.figures)) if v}
    return notebooks.run(
        "quickstart", {**given, **places, "smoke": arguments.smoke, "run_id": arguments.run_id}
    )


def _run_options(parser: Parser) -> None:
    parser.add_argument("--benchmark", default="tau2/airline", help="registry name, e.g. tau2/airline")
    parser.add_argument("--model", default="sim/flawless", help="LiteLLM name of the agent model")
    parser.add_argument("--user-model", default="sim/user", help="LiteLLM name of the simulated user")
    parser.add_argument("--harness", default="empty", help="name or folder of a harness")
    parser.add_argument("--split", default="all", help="train, test or all")
    parser.add_argument(
        "--tasks", type=int, default=None, help="tasks, drawn by seed (default: the whole split)"
    )
    parser.add_argument("--trials", type=int, default=1, help="trials per task")
    parser.add_argument("--seed", type=int, default=0, help="seed of draw and trials")
    parser.add_argument(
        "--api-base", default="", help="URL of an OpenAI-compatible server for the agent model"
    )
    parser.add_argument("--timeout-seconds", type=float, default=120.0, help="wall clock of one model call")
    parser.add_argument("--workers", type=int, default=1, help="trials at a time")
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: data/ of the project)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def _run(arguments: argparse.Namespace) -> int:
    from ecdysis_lab import benchmarks, harness, llm, notebooks
    from ecdysis_lab.evaluate import summarise
    from ecdysis_lab.experiment import printing_progress
    from ecdysis_lab.rollout import Setup, rollout
    from ecdysis_lab.store import Store

    def params(model: str) -> llm.ModelParams:
        base = None if model.startswith("sim/") else arguments.api_base or None
        return llm.ModelParams(api_base=base, timeout_seconds=arguments.timeout_seconds)

    for model in (arguments.model, arguments.user_model):
        llm.check_model(model, params(model))
    bench = benchmarks.load(arguments.benchmark)
    tasks = bench.tasks(arguments.split, arguments.tasks, arguments.seed)
    setup = Setup(arguments.benchmark, arguments.model, arguments.user_model, params(arguments.model),
                  params(arguments.user_model))  # fmt: skip
    trajectories = rollout(
        setup,
        tasks,
        harness.sound(arguments.harness),
        [arguments.seed * 1000 + i for i in range(arguments.trials)],
        Store(arguments.data or notebooks.PROJECT / "data"),
        workers=arguments.workers,
        progress=None if arguments.json else printing_progress(),
    )
    summary = {"benchmark": arguments.benchmark, "model": arguments.model, "harness": arguments.harness,
               "simulated": setup.simulated, **summarise(trajectories)}  # fmt: skip
    if arguments.json:
        print(json.dumps(summary))
    else:
        lines = [f"{k}: {v}" for k, v in summary.items() if k != "outcomes"]
        print("SIMULATED" if setup.simulated else "", *lines, sep="\n")
        print(*(f"{t.trial.task_id} seed {t.trial.seed}: {t.score if t.score is not None else t.status}"
                for t in trajectories if not t.success), sep="\n")  # fmt: skip
    return 0


def _check_options(parser: Parser) -> None:
    parser.add_argument("harness", help="name or folder of a harness")
    parser.add_argument("--benchmark", default="tau2/airline", help="registry name, e.g. tau2/airline")
    parser.add_argument("--flawless", action="store_true", help="run the flawless agent over all tasks")
    parser.add_argument("--violations", type=Path, help="JSON file of illegal calls")
    parser.add_argument("--traces", type=Path, help="file or folder of recorded trajectories")
    parser.add_argument("--workers", type=int, default=1, help="trials at a time")
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: data/ of the project)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _check(arguments: argparse.Namespace) -> int:
    from ecdysis_lab import benchmarks, check, harness, importers, notebooks
    from ecdysis_lab.store import Store

    bench, loaded = benchmarks.load(arguments.benchmark), harness.load(arguments.harness)
    found: dict[str, Any] = {"harness": {"path": str(loaded.path), "hash": loaded.hash}}
    found["structure"] = check.structure(loaded, bench)
    sound = not found["structure"]["problems"] and found["structure"]["probe"] == "ok"
    if sound and arguments.flawless:
        store = Store(arguments.data or notebooks.PROJECT / "data")
        found["flawless"] = check.flawless(loaded, bench, store, arguments.workers)
    if sound and arguments.violations:
        found["violations"] = check.violations(loaded, bench, check.read_violations(arguments.violations))
    if sound and arguments.traces:
        found["traces"] = check.traces(loaded, bench, importers.load(arguments.traces).trajectories)
    print(json.dumps(found, ensure_ascii=False) if arguments.json else check.report(found))
    return 0 if sound else 1


def _import_options(parser: Parser) -> None:
    parser.add_argument("path", type=Path, help="file or folder of recorded trajectories")
    parser.add_argument("--format", help="tau-bench, tau2, jsonl or store (default: detected)")
    parser.add_argument("--benchmark", default="", help="benchmark of the traces, e.g. tau2/airline")
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: data/ of the project)")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")


def _import(arguments: argparse.Namespace) -> int:
    from ecdysis_lab import intake, notebooks

    data = arguments.data or notebooks.PROJECT / "data"
    found = intake.take_in(arguments.path, data, arguments.format, arguments.benchmark)
    print(json.dumps(found.as_json(), ensure_ascii=False) if arguments.json else intake.report(found))
    return 0


def _grid_options(parser: Parser) -> None:
    parser.add_argument("file", type=Path, help="YAML with notebook, parameters, grid, cells, exclude, name")
    parser.add_argument("--workers", type=int, default=0, help="cells at a time; 0 for all cores")
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: data/ of the project)")
    parser.add_argument("--json", action="store_true", help="print the final table as JSON")


def _grid(arguments: argparse.Namespace) -> int:
    import os

    from ecdysis_lab import grid, notebooks

    if arguments.workers < 0:
        raise LabError(f"workers: must be at least 0, got {arguments.workers}")
    found, data = grid.read(arguments.file), arguments.data or notebooks.PROJECT / "data"
    workers = arguments.workers or os.cpu_count() or 1
    rows = grid.run(found, data, workers, None if arguments.json else sys.stdout)
    folder = grid.folder_of(found, data)
    print(grid.as_json(rows, folder) if arguments.json else f"table: {folder / 'grid.csv'} and grid.html")
    return 0 if all(row["status"] == "done" for row in rows) else 1


def _report_options(parser: Parser) -> None:
    parser.add_argument("runs", nargs="+", help="run ids, run folders, or the folder of a grid")
    parser.add_argument(
        "--out", type=Path, default=None, help="HTML file (default: figures/report-NAME.html)"
    )
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: data/ of the project)")


def _report(arguments: argparse.Namespace) -> int:
    from ecdysis_lab import notebooks, report

    made = report.write(arguments.runs, arguments.data or notebooks.PROJECT / "data", arguments.out)
    print(f"report: {made}")
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from ecdysis_lab import doctor

    return doctor.report()


if __name__ == "__main__":
    sys.exit(main())
