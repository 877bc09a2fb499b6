"""Tables for people: percentages, units in the heading, a dash for what is unknown."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ecdysis_lab.evaluate.accommodation import Judgement, ratio
from ecdysis_lab.evaluate.accommodation import judgements_table as judgements_table
from ecdysis_lab.records import Trajectory
from ecdysis_lab.show.figures.frames import PUBLISHED, training_tokens
from ecdysis_lab.show.figures.style import by_hand

if TYPE_CHECKING:
    import pandas as pd
    from pandas.io.formats.style import Styler

Summary = Mapping[str, Any]
DASH = "–"


def readable(frame: pd.DataFrame, caption: str = "", **formats: str) -> Styler:
    """A table as HTML: escaped, no index, columns of numbers flush right, others to the left.

    Parameters
    ----------
    frame : the table. caption : above it. formats : column -> format, e.g. ``coverage="{:.0%}"``.
    """
    shown = frame.style.hide(axis="index").set_caption(html.escape(caption))
    shown.format(formats or None, escape="html", na_rep=DASH).format_index(escape="html", axis="columns")
    shown.set_table_styles([{"selector": "th, td", "props": "text-align: left; vertical-align: top"}])
    right = [{"selector": "th, td", "props": "text-align: right"}]
    numbers = {name: right for name, column in frame.items() if column.map(_numeric).all()}
    return shown.set_table_styles(numbers, overwrite=False)


class Table:
    """A table as a notebook shows it: HTML in a browser, text in a terminal.

    Parameters
    ----------
    frame, caption, formats : as for :func:`readable`.
    """

    def __init__(self, frame: pd.DataFrame, caption: str = "", **formats: str) -> None:
        self.frame, self.caption, self.formats = frame, caption, formats

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {
            "text/html": readable(self.frame, self.caption, **self.formats).to_html(),
            "text/plain": "\n".join(filter(None, (self.caption, self.frame.to_string(index=False)))),
        }


def reasons_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Scored trials that the model itself ended, by arm, model and reason; no row where there is none."""
    ended = scores[scores["reason"] != ""]
    counted = ended.groupby(["arm", "model", "reason"], sort=False).size()
    return counted.rename("trials").reset_index()


def ratio_line(judgements: Sequence[Judgement]) -> str:
    """The accommodation ratio t of some changes as a sentence."""
    t = ratio(judgements)
    told = "undefined, since no change is decided" if t is None else f"{t:.2f}"
    return f"t = {told} ({len(judgements)} changes)"


def _numeric(value: Any) -> bool:
    text = str(value).replace(",", "").replace("–", "").replace("+", "").strip("-")
    return text in ("", "nan") or text.replace(".", "", 1).isdigit()


def number(value: Any, form: str, scale: float = 1.0) -> str:
    """A number as text, or a dash."""
    return DASH if value is None or value != value else format(scale * value, form)


def title(summary: Summary) -> str:
    """Heading of a table: SIMULATED where it is, benchmark, training model, seed, what was done by hand."""
    mark, told = "SIMULATED · " if summary["simulated"] else "", by_hand([summary])
    said = f"{mark}{summary['benchmark']} · trained on {summary['train_model']} · seed {summary['seed']}"
    return f"{said} · {told}" if told else said


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


def arms_table(by_arm: pd.DataFrame) -> pd.DataFrame:
    """Accuracy, interval, Pass@3 and Pass^3 by arm and model, with the range over seeds where there are several.

    Parameters
    ----------
    by_arm : as :func:`ecdysis_lab.evaluate.summaries.summarise` makes it.
    """
    import pandas as pd

    rows = []
    for m in by_arm.to_dict("records"):
        row = {
            "arm": m["arm"],
            "model": m["model"],
            "accuracy (%)": number(m["accuracy"], ".1f", 100),
            "95% interval": _span(m["ci_low"], m["ci_high"]),
            "Pass@3 (%)": number(m["pass@3"], ".1f", 100),
            "Pass^3 (%)": number(m["pass^3"], ".1f", 100),
            "tasks": m["n_tasks"],
            "trials": m["n_trials"],
            "infra errors": m["infra_errors"],
            "user faults": m["user_faults"],
        }
        if by_arm["n_seeds"].max() > 1:
            row |= {"seeds": m["n_seeds"], "range over seeds (%)": _span(m["seed_low"], m["seed_high"])}
        rows.append(row)
    return pd.DataFrame(rows)


def _span(low: Any, high: Any) -> str:
    return f"{number(low, '.0f', 100)}–{number(high, '.0f', 100)}"


def rounds_table(rounds: pd.DataFrame) -> pd.DataFrame:
    """One row per training round: what was found, what was decided, and by which gate.

    Parameters
    ----------
    rounds : as :func:`ecdysis_lab.evaluate.results.rounds_frame` makes it.
    """
    import pandas as pd

    rows = [
        {
            "arm": r["arm"],
            "round": r["round"],
            "failures": r["failures"],
            "patterns": f"{r['patterns']} ({r['recurring']} recurring)",
            "read": r["subset"],
            "decision": r["decision"],
            "gate": r["gate"],
            "score": f"{r['score_before']:g}"
            + ("" if pd.isna(r["score_after"]) else f" → {r['score_after']:g}"),
            "gained": r["gained"],
            "lost": r["lost"],
            "editor calls": r["editor_calls"],
        }
        for r in rounds.to_dict("records")
    ]
    return pd.DataFrame(rows)


def differences_table(differences: pd.DataFrame) -> pd.DataFrame:
    """Paired differences between arms, one row per model and pair.

    Parameters
    ----------
    differences : as :func:`ecdysis_lab.evaluate.comparisons.differences` makes it.
    """
    import pandas as pd

    rows = [
        {
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
        for r in differences.to_dict("records")
    ]
    return pd.DataFrame(rows)


def inference_table(by_arm: pd.DataFrame) -> pd.DataFrame:
    """Tokens, cost and latency of a trial by arm and model."""
    import pandas as pd

    rows = []
    for m in by_arm.to_dict("records"):
        n = m["n_trials"] or 1
        rows.append(
            {
                "arm": m["arm"],
                "model": m["model"],
                "prompt tokens a trial": number(m["prompt_tokens"], ",.0f", 1 / n),
                "completion tokens a trial": number(m["completion_tokens"], ",.0f", 1 / n),
                "cost a trial (USD)": number(m["cost_usd"], ".4f", 1 / n),
                "agent latency a trial (s)": number(m["agent_seconds"], ".2f"),
                "wall clock a trial (s)": number(m["trial_seconds"], ".2f"),
                "trials": m["n_trials"],
            }
        )
    return pd.DataFrame(rows)


def training_table(training: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """What training took by arm; ratios to ``self-evolution`` where that arm was trained.

    Parameters
    ----------
    training : arm -> block, as :func:`ecdysis_lab.evaluate.results.pooled` averages them.
    """
    import pandas as pd

    norm = training_tokens(training.get("self-evolution") or {})
    rows = []
    for arm, t in training.items():
        tokens = training_tokens(t)
        row = {
            "arm": arm,
            "rounds": number(t["n_rounds"], ".3g"),
            "accepted": number(t["n_accepted"], ".3g"),
            "editor calls": number(t["editor_calls"], ".3g"),
            "wall clock (s)": number(t.get("wall_seconds"), ",.1f"),
            "tokens": number(tokens, ",.0f"),
            "cost (USD)": number(t.get("cost_usd"), ",.3f"),
        }
        if norm:
            # Not of the clocks: arms share trials, so the later one waits for fewer.
            row["tokens / self-evolution"] = number(tokens, ".2f", 1 / norm)
        rows.append(row)
    return pd.DataFrame(rows)


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
        if "repeats" in (f := s.get("noise_floor") or {})
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


def what_it_can_show(by_arm: pd.DataFrame) -> str:
    """A sentence on the width of the intervals."""
    half = (by_arm["ci_high"] - by_arm["ci_low"]).max() / 2
    if half != half:
        return "No trial was scored."
    text = f"With {by_arm['n_tasks'].max()} tasks an accuracy is known to ±{100 * half:.0f} points at worst"
    gain = (by_arm["gain_high"] - by_arm["gain_low"]).max() / 2
    if gain == gain:
        text += f", a paired difference to ±{100 * gain:.0f}"
    return text + "; smaller differences are noise to this experiment."


def tasks_table(trajectories: Sequence[Trajectory]) -> pd.DataFrame:
    """One row per task, the worst first.

    Returns
    -------
    DataFrame with columns task, trials (scored), successes, not scored, mean seconds, ended by.
    """
    import pandas as pd

    tasks: dict[str, list[Trajectory]] = {}
    for t in trajectories:
        tasks.setdefault(t.trial.task_id, []).append(t)
    rows = []
    for task, group in tasks.items():
        scored = [t for t in group if t.status == "scored"]
        rows.append(
            {
                "task": task,
                "trials": len(scored),
                "successes": sum(t.success for t in scored),
                "not scored": len(group) - len(scored),
                "mean seconds": round(sum(t.seconds for t in group) / len(group), 2),
                "ended by": ", ".join(sorted({t.termination for t in group})),
            }
        )
    frame = pd.DataFrame(rows)
    return frame.sort_values(["successes", "task"], kind="stable").reset_index(drop=True)
