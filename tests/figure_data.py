"""Made-up but plausible tables for the figure tests; no number here is a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ecdysis_lab.evaluate.scores import TYPES
from ecdysis_lab.evaluate.summaries import arms_block, summarise
from ecdysis_lab.records import Failure, Pattern, Patterns, Pick, Subset, Trajectory, Trial
from ecdysis_lab.show import figures as f
from ecdysis_lab.train.arms import ARMS

ARMS5 = ("direct", "human", "self-evolution", "ecdysis-no-fdcr", "ecdysis")
ARMS3 = ("direct", "human", "ecdysis")
LIFT = {"direct": 0.0, "human": 0.14, "self-evolution": 0.08, "ecdysis-no-fdcr": 0.17}
MODELS4 = ("sim/small", "sim/medium", "sim/large", "sim/quirky")
REAL4 = (
    "openrouter/qwen/qwen3-8b-instruct-2507",
    "openrouter/qwen/qwen3-32b-instruct-2507",
    "hosted_vllm/meta-llama/Llama-3.1-8B-Instruct",
    "minimax/MiniMax-M2.7",
)


class Made(NamedTuple):
    """A run: content of its summary.json, its long table of scores, and metrics by arm and model."""

    summary: dict[str, Any]
    scores: pd.DataFrame
    by_arm: pd.DataFrame


def made(
    arms=ARMS3,
    models=MODELS4[:3],
    simulated=True,
    seed=0,
    benchmark="tau2/airline",
    run="2026-11-29-airline-s0",
) -> Made:
    """A run of 20 tasks with three trials each."""
    rng, rows = np.random.default_rng(seed), []
    about = {"run": run, "benchmark": benchmark, "train_model": models[0], "simulated": simulated}
    for arm in arms:
        for i, model in enumerate(models):
            difficulty = rng.beta(1.2, 1.2, 20)
            rate = np.clip(difficulty * 0.5 + 0.12 * i + LIFT.get(arm, 0.22), 0, 1)
            won = rng.binomial(3, rate)
            row = about | {
                "arm": arm,
                "model": model,
                "status": "scored",
                "reason": "",
                "completion_tokens": 410,
            }
            row |= {"prompt_tokens": 5200 + 300 * i, "cost_usd": 0.001 * (i + 1)}
            row |= {"seconds": 1.5 + i, "agent_seconds": 1.1 + i}
            for task, c in enumerate(won):
                trials = [{"task": str(task), "seed": 1000 * seed + k, "success": k < c} for k in range(3)]
                rows += [row | t | {"score": float(t["success"])} for t in trials]
            if arm == "human" and i == 1:
                rows.append(
                    {
                        **rows[-1],
                        "seed": 1000 * seed + 3,
                        "status": "infra_error",
                        "score": None,
                        "success": None,
                    }
                )
    table = pd.DataFrame(rows, columns=list(TYPES)).astype(TYPES)
    summary = {
        "run_id": run,
        "commit": "c27b1459d0e4a1f5",
        "seed": seed,
        "simulated": simulated,
        "benchmark": benchmark,
        "train_model": models[0],
        "arms": arms_block(table, seed, 200),
        "training": {a: training(a, rng) for a in arms if a not in ("direct", "human")},
    }
    return Made(summary, table, summarise(table, seed, 200))


WAYS = [
    ("accepted", "improvement"),
    ("rejected", "legal"),
    ("rejected", "improvement"),
    ("accepted", "improvement"),
]
SECONDS = {
    "rollout": 31.0,
    "patterns": 6.2,
    "subset": 0.4,
    "review": 18.0,
    "edit": 9.1,
    "gates": 14.0,
    "rerun": 22.0,
}


def training(arm: str, rng: np.random.Generator) -> dict[str, Any]:
    """Training block of an arm in a summary."""
    held, rounds = 7.0, []
    for number, (decision, gate) in enumerate(WAYS[: 4 if arm == "self-evolution" else 3], 1):
        gained, lost = int(rng.integers(2, 6)), int(rng.integers(0, 2))
        if decision == "rejected":
            gained, lost = (0, 0) if gate == "legal" else (1, 3)
        after = None if gate == "legal" else held + gained - lost
        rounds.append(
            {"round": number, "failures": 13, "patterns": 4, "recurring": 3, "subset": 4, "editor_calls": 1,
             "decision": decision, "gate": gate, "score_before": held, "score_after": after,
             "gained": [str(i) for i in range(gained)], "lost": [str(i) for i in range(lost)]}
        )  # fmt: skip
        held = after if decision == "accepted" and after is not None else held
    factor = {"self-evolution": 1.84, "ecdysis-no-fdcr": 0.6}.get(arm, 1.0)
    phases = {k: factor * v for k, v in SECONDS.items() if k != "review" or arm != "ecdysis-no-fdcr"}
    return {
        "rounds": rounds,
        "n_tasks": 20,
        "n_trials": 20,
        "wall_seconds": factor * 105,
        "phase_seconds": phases,
        "cost_usd": factor * 0.42,
        "billed_usd": factor * 0.31,
        "prompt_tokens": int(factor * 410_000),
        "completion_tokens": int(factor * 38_000),
    }


def failure(key: str, task: str, termination: str = "user_stop") -> Failure:
    trial = Trial("tau2/airline", "1", task, "train", "sim/small", "sim/user", "h0", 0)
    done = Trajectory(trial, "scored", 0.0, termination, {"db": False}, ())
    bad = "update_reservation_baggages: Error: payment amount does not add up"
    return Failure(key, task, "sim/small", 0.0, termination, ("db",), 5, bad, ("a:ok",), "card", done)


NAMES = (
    "payment, amount, update_reservation_baggages",
    "cancel_reservation, policy, refused",
    "get_order_details:error, order_id form",
    "exchange twice, modify_pending_order",
    "stopped before last write",
    "loop, get_user_details",
    "no confirmation, book_reservation",
)


def patterns(n: int = 48, groups: int = 5, seed: int = 0) -> tuple[Patterns, list[Failure]]:
    """A map with ``groups`` blobs and a tenth of noise."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-8, 8, (groups, 2))
    share = rng.dirichlet(np.full(groups, 4.0))
    of = np.sort(rng.choice(groups, n, p=share))
    failures, layout, members, noise = [], {}, {}, {}
    for i, group in enumerate(of):
        key = f"{i:024x}"
        failures.append(failure(key, str(rng.integers(20))))
        if i % 10 == 7:
            layout[key] = tuple(rng.uniform(-9, 9, 2))
            noise[key] = (int(group), 0.41)
        else:
            layout[key] = tuple(centres[group] + rng.normal(0, 0.7, 2))
            members.setdefault(int(group), []).append(key)
    ranked = sorted(members.values(), key=len, reverse=True)
    tasks = {f.key: f.task_id for f in failures}
    made = tuple(
        Pattern(
            i,
            NAMES[i % len(NAMES)],
            "quote",
            tuple(m),
            middle(m, layout),
            tuple(sorted({tasks[k] for k in m})),
        )
        for i, m in enumerate(ranked)
    )
    return Patterns(made, noise, layout, "hdbscan", "all-MiniLM-L6-v2", 0.97, 0.82), failures


def middle(keys: list[str], layout: dict[str, Any]) -> str:
    spots = np.array([layout[k] for k in keys])
    return keys[int(np.argmin(((spots - spots.mean(axis=0)) ** 2).sum(axis=1)))]


def subset(n: int = 12, of: int = 48) -> Subset:
    cover = [1 - 0.82 ** (i + 1) for i in range(n)]
    band = [(c * 0.55, c * 0.72, min(1, c * 0.72 + 0.12)) for c in cover]
    picks = tuple(Pick(f"{i:024x}", 1.0 / (i + 1), f"adds 3 new paths, pattern P{i % 4}") for i in range(n))
    return Subset(picks, n, of, tuple(cover), tuple(band))


def stopped_acts() -> pd.DataFrame:
    """What every arm would have stopped in recorded trials, one of them rejected, one without an edit."""
    remarks = {"ecdysis": "(rejected)", "ecdysis-random-quarter": "(rejected and not run: the start harness)"}
    rows = [
        {"arm": arm, "remark": remarks.get(arm, ""), "start": "" if shipped else "human", "group": group,
         "trials": 23 + 4 * (group == "passing"), "tasks": 16, "stopped": n, "share": n / 27, "ci_low": n / 40,
         "ci_high": n / 20, "failures": "" if shipped else 34, "reviewer": "" if shipped else REAL4[0]}
        for n, (arm, shipped) in enumerate((a, bool(row.harness)) for a, row in ARMS.items())
        for group in ("failing", "passing")
    ]  # fmt: skip
    return pd.DataFrame(rows)


def frames(run: Made) -> dict[str, pd.DataFrame]:
    """The table behind every figure but the published one, by its name."""
    simulated, trained = run.summary["simulated"], run.summary["training"]
    found, failures = patterns()
    spots = f.patterns_frame(found, failures, simulated)
    return {
        "gains": run.by_arm,
        "transfer": f.transfer_frame(run.by_arm),
        "rounds": f.rounds_frame(trained, simulated),
        "cost_accuracy": f.cost_frame(run.by_arm, trained),
        "phases": f.phases_frame(trained, simulated),
        "pattern_map": spots.assign(picked=spots.index % 4 == 0),
        "coverage": f.coverage_frame(subset(), simulated),
        "reference": f.measured_frame(run.by_arm, f"run {run.summary['run_id']}"),
    }


def figures(run: Made) -> dict[str, tuple[go.Figure, pd.DataFrame]]:
    """Every figure of a run, with the table behind it."""
    found = frames(run)
    drawn = {name: getattr(f, name)(frame) for name, frame in found.items() if name != "reference"}
    drawn["reference"] = f.reference(found["reference"], f.published_frame())
    return {name: (figure, found[name]) for name, figure in drawn.items()}


def draw(folder: Path, arms=ARMS5, models=MODELS4, simulated: bool = True) -> dict[str, Any]:
    """Every figure on made-up data, written to a folder; for looking at them."""
    run = made(arms, models, simulated)
    return f.save_all(figures(run), folder, f.Footer.of(run.summary, "all-MiniLM-L6-v2", 0.97))
