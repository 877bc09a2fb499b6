"""Reads a run back: its tables for people, and the evidence of a round for figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ecdysis_lab.records import Failure, Patterns, Subset

if TYPE_CHECKING:
    import pandas as pd

    from ecdysis_lab.store import Run


def arms_table(summary: Mapping[str, Any]) -> pd.DataFrame:
    """One row per arm and model: accuracy with its 95% interval, Pass@3, Pass^3, counts.

    Parameters
    ----------
    summary : content of ``summary.json``.
    """
    import pandas as pd

    rows = []
    for arm, models in summary["arms"].items():
        for model, m in models.items():
            ends = m["accuracy_ci95"]
            rows.append(
                {
                    "arm": arm,
                    "model": model,
                    "accuracy %": _percent(m["accuracy"]),
                    "95% interval": f"{100 * ends[0]:.0f}–{100 * ends[1]:.0f}"
                    if ends and ends[0] is not None
                    else "–",
                    "Pass@3 %": _percent(m["pass@3"]),
                    "Pass^3 %": _percent(m["pass^3"]),
                    "tasks": m["n_tasks"],
                    "trials": m["n_trials"],
                    "infra errors": m["infra_errors"],
                    "user faults": m.get("user_faults", 0),
                }
            )
    return pd.DataFrame(rows)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def rounds_table(summary: Mapping[str, Any]) -> pd.DataFrame:
    """One row per training round: what was found, what was decided, and by which gate."""
    import pandas as pd

    rows = [
        {
            "arm": arm,
            "round": r["round"],
            "failures": r["failures"],
            "patterns": f"{r['patterns']} ({r['recurring']} recurring)",
            "quarter": r["subset"],
            "decision": r["decision"],
            "gate": r["gate"],
            "score": f"{r['score_before']:g}" + ("" if after is None else f" → {after:g}"),
            "gained": len(r["gained"]),
            "lost": len(r["lost"]),
        }
        for arm, training in summary["training"].items()
        for r, after in zip(training["rounds"], scores_after(training["rounds"]))
    ]
    return pd.DataFrame(rows)


def scores_after(rounds: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """Training score after each round, None where no rerun was reached.

    Where edits are accepted one by one, each on its own task, no sum is taken at the time; it is then the score that
    the next round starts from, or else follows from the flips.
    """
    found: list[float | None] = []
    for n, r in enumerate(rounds):
        after = r.get("score_after")
        if after is None and r["decision"] == "accepted":
            flips = [
                len(r[side]) if isinstance(r[side], list | tuple) else r[side] for side in ("gained", "lost")
            ]
            known = n + 1 < len(rounds)
            after = float(rounds[n + 1]["score_before"] if known else r["score_before"] + flips[0] - flips[1])
        found.append(after)
    return found


def differences_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Paired differences for people, from :func:`.comparisons.differences`: one row per model and pair of arms."""
    import pandas as pd

    made = [
        {
            "benchmark": r["benchmark"],
            "model": r["model"],
            "arm": r["arm"],
            "against": r["against"],
            "points": f"{100 * r['difference']:+.1f}",
            "95% interval": f"{100 * r['ci_low']:+.0f} to {100 * r['ci_high']:+.0f}",
            "tasks up": r["gained"],
            "tasks down": r["lost"],
            "sign test p": f"{r['sign_test_p']:.3f}",
            "tasks": r["n_tasks"],
            "pairs": r["n_pairs"],
            "without pair": r["dropped"],
        }
        for r in frame.to_dict("records")
    ]
    return pd.DataFrame(made)


def title(summary: Mapping[str, Any]) -> str:
    """Heading of a table: SIMULATED where it is, benchmark, training model, seed."""
    mark = "SIMULATED · " if summary["simulated"] else ""
    return f"{mark}{summary['benchmark']} · trained on {summary['train_model']} · seed {summary['seed']}"


def arm_with_patterns(run: Run, summary: Mapping[str, Any]) -> str | None:
    """The first arm whose first round grouped failures; ``self-evolution`` groups none."""
    for arm, training in summary["training"].items():
        if any(r["failures"] for r in training["rounds"][:1]) and run.round(arm, 1).patterns:
            return str(arm)
    return None


def round_evidence(run: Run, arm: str, n: int = 1) -> tuple[tuple[Failure, ...], Patterns, Subset]:
    """Failures (without trajectories), patterns and subset of a training round.

    Raises
    ------
    LabError: the run has no such round.
    """
    return run.round(arm, n).evidence()
