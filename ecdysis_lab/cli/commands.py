"""The sub-commands of ``ecdysis-lab`` besides ``demo``: their options, and what each calls."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ecdysis_lab.records import LabError, Trajectory


def _shared(parser: argparse.ArgumentParser, json_help: str) -> None:
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: data/ of the project)")
    parser.add_argument("--json", action="store_true", help=json_help)


def settings_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Options for settings of an experiment, by default all; what is not given is not set.

    Parameters
    ----------
    parser : gets the options. names : of :class:`ecdysis_lab.train.settings.Settings`.
    """
    from ecdysis_lab.train.settings import Settings, help_of

    for name in names or Settings.model_fields:
        flags = [f"--{name.replace('_', '-')}", *(["--arm"] if name == "arms" else [])]
        field, words = Settings.model_fields[name], help_of(name)
        if field.annotation is bool:
            parser.add_argument(
                *flags, help=words, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS
            )
        else:
            shown = name.rpartition("_")[2].upper()
            parser.add_argument(*flags, dest=name, help=words, metavar=shown, default=argparse.SUPPRESS)


def settings_given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that stand in parsed arguments."""
    from ecdysis_lab.train.settings import Settings

    return {name: value for name, value in vars(arguments).items() if name in Settings.model_fields}


RUN_SETTINGS = (
    "benchmark", "model", "user_model", "trials", "seed", "api_base", "temperature", "timeout_seconds", "workers",
)  # fmt: skip


def _run_options(parser: argparse.ArgumentParser) -> None:
    settings_options(parser, *RUN_SETTINGS)
    parser.set_defaults(model="sim/flawless", trials=1, workers=1)
    parser.add_argument("--harness", default="empty", help="name or folder of a harness")
    parser.add_argument("--split", default="all", help="train, test or all")
    parser.add_argument("--tasks", type=int, help="tasks, drawn by seed (default: the whole split)")
    _shared(parser, "print the summary as JSON")


def _run(arguments: argparse.Namespace) -> int:
    from ecdysis_lab.benchmarks import load_benchmark
    from ecdysis_lab.cli import notebooks
    from ecdysis_lab.evaluate.experiment import printing_progress
    from ecdysis_lab.evaluate.scores import scores
    from ecdysis_lab.evaluate.summaries import metrics, unclean_tasks
    from ecdysis_lab.harness.rollout import rollout
    from ecdysis_lab.models import check_model
    from ecdysis_lab.store import Store
    from ecdysis_lab.train.settings import configure

    c = configure(**settings_given(arguments))
    for model in (c.model, c.user_model):
        check_model(model, c.params(model))
    setup = c.setup(c.model)
    trajectories = rollout(
        setup,
        load_benchmark(c.benchmark).tasks(arguments.split, arguments.tasks, c.seed),
        c.harness(arguments.harness),
        [c.seed * 1000 + i for i in range(c.trials)],
        Store(arguments.data or notebooks.PROJECT / "data"),
        workers=c.at_a_time,
        progress=None if arguments.json else printing_progress(),
    )
    table = scores(trajectories)
    summary = {"benchmark": c.benchmark, "model": c.model, "harness": arguments.harness,
               "simulated": setup.simulated, **metrics(table)}  # fmt: skip
    if unclean := unclean_tasks(table, load_benchmark(c.benchmark)):
        clean = metrics(table[~table["task"].isin(unclean)])
        summary |= {
            "accuracy_clean": clean["accuracy"],
            "n_tasks_clean": clean["n_tasks"],
            "unclean_tasks": unclean,
        }
    if arguments.json:
        print(json.dumps(summary))
    else:
        lines = [f"{k}: {v}" for k, v in summary.items()]
        print("SIMULATED" if setup.simulated else "", *lines, sep="\n")
        print(*(_left(t) for t in trajectories if not t.success), sep="\n")
    if all(t.score is None for t in trajectories):
        why = Counter(_reason(t) or t.status for t in trajectories).most_common(3)
        told = "; ".join(f"{n} x {reason}" for reason, n in why)
        print(f"ecdysis-lab: no trial could be scored: {told}", file=sys.stderr)
        return 1
    return 0


def _left(trajectory: Trajectory) -> str:
    """A line of the list of trials without success: how it ended, and why where that is known."""
    t, reason = trajectory, _reason(trajectory)
    score = f"{t.score}" if t.score is not None else t.status
    ended = f" ({t.termination})" if reason and t.termination not in (t.status, "") else ""
    return f"{t.trial.task_id} seed {t.trial.seed}: {score}{ended}{f': {reason}' if reason else ''}"


def _reason(trajectory: Trajectory) -> str:
    from ecdysis_lab.failures.transcript import shorten

    return shorten(trajectory.error, 300)


def _check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("harness", help="name or folder of a harness")
    parser.add_argument("--benchmark", default="tau2/airline", help="registry name, or module:factory")
    parser.add_argument("--flawless", action="store_true", help="run the flawless agent over all tasks")
    parser.add_argument("--violations", type=Path, help="JSON file of illegal calls")
    parser.add_argument("--traces", type=Path, help="file or folder of recorded trajectories")
    parser.add_argument("--workers", type=int, default=1, help="trials at a time")
    _shared(parser, "print JSON")


def _check(arguments: argparse.Namespace) -> int:
    from ecdysis_lab.benchmarks import load_benchmark
    from ecdysis_lab.cli import notebooks
    from ecdysis_lab.failures.importing import import_traces
    from ecdysis_lab.harness import check, load_harness
    from ecdysis_lab.store import Store

    bench, loaded = load_benchmark(arguments.benchmark), load_harness(arguments.harness)
    found: dict[str, Any] = {"harness": {"path": str(loaded.path), "hash": loaded.hash}}
    found["structure"] = check.structure(loaded, bench)
    sound = not found["structure"]["problems"] and found["structure"]["probe"] == "ok"
    if sound and arguments.flawless:
        store = Store(arguments.data or notebooks.PROJECT / "data")
        found["flawless"] = check.flawless(loaded, bench, store, arguments.workers)
    if sound and arguments.violations:
        found["violations"] = check.violations(loaded, bench, check.read_violations(arguments.violations))
    if sound and arguments.traces:
        found["traces"] = check.traces(loaded, bench, import_traces(arguments.traces).trajectories)
    print(json.dumps(found, ensure_ascii=False) if arguments.json else check.report(found))
    return 0 if sound else 1


def _import_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, help="file or folder of recorded trajectories")
    parser.add_argument("--format", help="tau-bench, tau2, jsonl or store (default: detected)")
    parser.add_argument("--benchmark", default="", help="benchmark of the traces, e.g. tau2/airline")
    _shared(parser, "print the counts as JSON")


def _import(arguments: argparse.Namespace) -> int:
    from ecdysis_lab.cli import notebooks
    from ecdysis_lab.failures import collection

    data = arguments.data or notebooks.PROJECT / "data"
    found = collection.take_in(arguments.path, data, arguments.format, arguments.benchmark)
    print(json.dumps(found.as_json(), ensure_ascii=False) if arguments.json else collection.report(found))
    return 0


def _grid_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="YAML with notebook, parameters, grid, cells, exclude, name")
    parser.add_argument("--workers", type=int, default=0, help="cells at a time; 0 for all cores")
    _shared(parser, "print the final table as JSON")


def _grid(arguments: argparse.Namespace) -> int:
    import os

    from ecdysis_lab.cli import grid, notebooks

    if arguments.workers < 0:
        raise LabError(f"workers: must be at least 0, got {arguments.workers}")
    found, data = grid.read(arguments.file), arguments.data or notebooks.PROJECT / "data"
    workers = arguments.workers or os.cpu_count() or 1
    rows = grid.run(found, data, workers, None if arguments.json else sys.stdout)
    folder = grid.folder_of(found, data)
    print(grid.as_json(rows, folder) if arguments.json else f"table: {folder / 'grid.csv'} and grid.html")
    return 0 if all(row["status"] == "done" for row in rows) else 1


def _report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", help="run ids, run folders, or the folder of a grid")
    parser.add_argument(
        "--out", type=Path, default=None, help="HTML file (default: figures/report-NAME.html)"
    )
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: data/ of the project)")


def _report(arguments: argparse.Namespace) -> int:
    from ecdysis_lab.cli import notebooks
    from ecdysis_lab.show import report

    made = report.write(arguments.runs, arguments.data or notebooks.PROJECT / "data", arguments.out)
    print(f"report: {made}")
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from ecdysis_lab.cli import doctor

    return doctor.report()


def _plan_options(parser: argparse.ArgumentParser) -> None:
    settings_options(parser)
    _shared(parser, "print JSON")


def _plan(arguments: argparse.Namespace) -> int:
    from ecdysis_lab.cli import notebooks
    from ecdysis_lab.store import Store
    from ecdysis_lab.train import plan
    from ecdysis_lab.train.settings import configure, fitted

    settings, notes = fitted(configure(**settings_given(arguments)))
    settings.harness(settings.start)
    found = plan.plan(settings, Store(arguments.data or notebooks.PROJECT / "data"))
    print(json.dumps(found) if arguments.json else "\n".join([*notes, *plan.lines(found)]))
    return 0


def _ratio_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", help="run id or run folder")
    parser.add_argument("--arm", default=None, help="one arm only")
    _shared(parser, "print JSON")


def _ratio(arguments: argparse.Namespace) -> int:
    from ecdysis_lab.cli import notebooks
    from ecdysis_lab.evaluate import accommodation
    from ecdysis_lab.evaluate.accommodation_facts import judgements_of
    from ecdysis_lab.store import find_run

    run = find_run(arguments.run_id, arguments.data or notebooks.PROJECT / "data")
    decisions = judgements_of(run, arm=arguments.arm)
    t = {"proposed": accommodation.ratio(decisions), "accepted": accommodation.ratio(decisions, "accepted")}
    table = accommodation.judgements_table(decisions)
    if arguments.json:
        print(json.dumps({"t": t, "changes": table.to_dict("records")}, ensure_ascii=False))
        return 0
    print(table.to_string(index=False) if len(table) else "no changes were proposed")
    for name, value in t.items():
        print(f"t over {name} changes: {'cannot be told' if value is None else f'{100 * value:.1f} %'}")
    return 0


def _show_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="RUN", nargs="?", default="", help="run id or run folder (default: list all)"
    )
    parser.add_argument("--round", type=int, default=None, help="one round only")
    parser.add_argument("--arm", default=None, help="one arm only")
    _shared(parser, "print JSON")


def _show(arguments: argparse.Namespace) -> int:
    from ecdysis_lab.cli import notebooks
    from ecdysis_lab.show import learned, rounds
    from ecdysis_lab.store import find_run

    data = arguments.data or notebooks.PROJECT / "data"
    if not arguments.name:
        listed = rounds.runs(data)
        print(json.dumps(listed, ensure_ascii=False) if arguments.json else rounds.runs_text(listed))
        return 0
    found = rounds.told(find_run(arguments.name, data), arguments.arm, arguments.round)
    print(json.dumps(found, ensure_ascii=False) if arguments.json else rounds.text(found))
    if found["learned"] and not arguments.json:
        print(learned.text(found["learned"]))
    return 0


Command = tuple[
    str, Callable[[argparse.Namespace], int], str, Callable[[argparse.ArgumentParser], None] | None
]
COMMANDS: tuple[Command, ...] = (
    ("run", _run, "run trials of a split and print their scores", _run_options),
    ("check", _check, "what a harness does to legal acts, illegal ones and recorded traces", _check_options),
    ("import", _import, "put recorded trajectories into the trial store", _import_options),
    ("grid", _grid, "run a notebook over a grid of parameters, one process a cell", _grid_options),
    ("report", _report, "write one HTML report of runs or of a grid", _report_options),
    (
        "show",
        _show,
        "what each round of a run saw, proposed and decided; without RUN, all runs",
        _show_options,
    ),
    ("plan", _plan, "what demo with these settings can show and will take, before any call", _plan_options),
    ("ratio", _ratio, "accommodation ratio t: which edits serve one model only", _ratio_options),
    ("doctor", _doctor, "say what is installed, which keys are set (names only), what is missing", None),
)
"""(name, what it calls, help, its options)."""
