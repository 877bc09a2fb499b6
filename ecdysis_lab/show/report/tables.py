"""Tables of a report for people: percentages, units in the heading, a dash for what is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ecdysis_lab.show.figures.published import PUBLISHED

if TYPE_CHECKING:
    import pandas as pd

Summary = Mapping[str, Any]
DASH = "–"


def number(value: Any, form: str, scale: float = 1.0) -> str:
    """A number as text, or a dash."""
    return DASH if value is None or value != value else format(scale * value, form)


def runs_table(summaries: Sequence[Summary]) -> pd.DataFrame:
    """One row per run."""
    import pandas as pd

    rows = [
        {
            "run": s["run_id"],
            "benchmark": s["benchmark"],
            "trained on": s["train_model"],
            "seed": s["seed"],
            "commit": s["commit"],
            "simulated": "SIMULATED" if s["simulated"] else "no",
            "wall clock (s)": number(s.get("wall_seconds"), ",.0f"),
            "cost (USD)": number(s.get("cost_usd"), ",.2f"),
            "billed (USD)": number(s.get("billed_usd"), ",.2f"),
        }
        for s in summaries
    ]
    return pd.DataFrame(rows)


def _cells(group: Summary) -> list[tuple[str, str, Mapping[str, Any]]]:
    return [(arm, model, m) for arm, models in group["arms"].items() for model, m in models.items()]


def arms_table(group: Summary) -> pd.DataFrame:
    """Accuracy, interval, Pass@3 and Pass^3 by arm and model, with the range over seeds where there are several."""
    import pandas as pd

    rows = []
    for arm, model, m in _cells(group):
        low, high = m["accuracy_ci95"] or (None, None)
        known = [a for a in m["seed_accuracies"] if a is not None]
        row = {
            "arm": arm,
            "model": model,
            "accuracy (%)": number(m["accuracy"], ".1f", 100),
            "95% interval": f"{number(low, '.0f', 100)}–{number(high, '.0f', 100)}",
            "Pass@3 (%)": number(m["pass@3"], ".1f", 100),
            "Pass^3 (%)": number(m["pass^3"], ".1f", 100),
            "tasks": m["n_tasks"],
            "trials": m["n_trials"],
            "not scored": m["infra_errors"] + m["user_faults"],
        }
        if m["n_seeds"] > 1 and known:
            row["seeds"] = m["n_seeds"]
            row["range over seeds (%)"] = f"{100 * min(known):.0f}–{100 * max(known):.0f}"
        rows.append(row)
    return pd.DataFrame(rows).fillna(DASH)


def inference_table(group: Summary) -> pd.DataFrame:
    """Tokens, cost and latency of a trial by arm and model."""
    import pandas as pd

    rows = []
    for arm, model, m in _cells(group):
        n = m["n_trials"] or 1
        each = {
            k: None if m.get(k) is None else m[k] / n
            for k in ("prompt_tokens", "completion_tokens", "cost_usd")
        }
        rows.append(
            {
                "arm": arm,
                "model": model,
                "prompt tokens a trial": number(each["prompt_tokens"], ",.0f"),
                "completion tokens a trial": number(each["completion_tokens"], ",.0f"),
                "cost a trial (USD)": number(each["cost_usd"], ".4f"),
                "agent latency a trial (s)": number(m.get("agent_seconds"), ".2f"),
                "wall clock a trial (s)": number(m.get("trial_seconds"), ".2f"),
                "trials": m["n_trials"],
            }
        )
    return pd.DataFrame(rows)


def training_table(group: Summary) -> pd.DataFrame:
    """What training took by arm; ratios to ``self-evolution`` where that arm was trained."""
    import pandas as pd

    norm = _tokens(group["training"].get("self-evolution") or {})
    rows = []
    for arm, t in group["training"].items():
        tokens = [t.get("prompt_tokens"), t.get("completion_tokens")]
        row = {
            "arm": arm,
            "rounds": number(t["n_rounds"], ".3g"),
            "accepted": number(t["n_accepted"], ".3g"),
            "editor calls": number(t["editor_calls"], ".3g"),
            "wall clock (s)": number(t.get("wall_seconds"), ",.1f"),
            "tokens": number(None if None in tokens else sum(tokens), ",.0f"),
            "cost (USD)": number(t.get("cost_usd"), ",.3f"),
        }
        if norm:
            # Not of the clocks: arms share trials, so the later one waits for fewer.
            row["tokens / self-evolution"] = number(_tokens(t) / norm, ".2f")
        rows.append(row)
    return pd.DataFrame(rows)


def _tokens(training: Mapping[str, Any]) -> int:
    return (training.get("prompt_tokens") or 0) + (training.get("completion_tokens") or 0)


def noise_table(summaries: Sequence[Summary]) -> pd.DataFrame:
    """A/A results of the runs that measured them."""
    import pandas as pd

    rows = [
        {
            "seed": s["seed"],
            "evaluations": f["repeats"],
            "tasks": f["n_tasks"],
            "trials a task": f["trials"],
            "smallest gain (successes)": f["smallest_gain"],
            "null edit accepted (%)": number(f["null_accept_rate"], ".0f", 100),
            "sd of a null gain": number(f["sd"], ".2f"),
        }
        for s in summaries
        if (f := s.get("noise_floor"))
    ]
    return pd.DataFrame(rows)


def reference_tables() -> list[tuple[str, pd.DataFrame]]:
    """(heading, published table) of ``data/reference`` but for the arms, which have a figure."""
    import pandas as pd

    names = {"models": "Single models", "costs": "Cost and time of training", "changes": "Before and after"}
    found = []
    for name, heading in names.items():
        frame = pd.read_csv(PUBLISHED / f"{name}.csv", dtype=str).fillna(DASH)
        found.append(
            (heading, frame.rename(columns=lambda c: c.replace("_percent", " (%)").replace("_", " ")))
        )
    return found


def what_it_can_show(group: Summary) -> str:
    """A sentence on the width of the intervals."""
    cells = [m for _, _, m in _cells(group) if m["accuracy_ci95"]]
    if not cells:
        return "No trial was scored."
    half = max(100 * (m["accuracy_ci95"][1] - m["accuracy_ci95"][0]) / 2 for m in cells)
    gains = [m["difference_ci95"] for m in cells if m.get("difference_ci95")]
    text = (
        f"With {max(m['n_tasks'] for m in cells)} tasks an accuracy is known to ±{half:.0f} points at worst"
    )
    if gains:
        text += f", a paired difference to ±{max(50 * (high - low) for low, high in gains):.0f}"
    return text + "; smaller differences are noise to this experiment."
