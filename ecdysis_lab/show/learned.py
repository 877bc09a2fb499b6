"""What was learned from recorded trials, for people: tables, the figure, text for a terminal, and pages of diffs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from ecdysis_lab.harness import load_harness
from ecdysis_lab.models.hand import HAND, played
from ecdysis_lab.records import LabError
from ecdysis_lab.show.figures.stopped import stopped_acts
from ecdysis_lab.show.figures.style import Footer
from ecdysis_lab.show.tables import DASH
from ecdysis_lab.show.widgets.assets import asset
from ecdysis_lab.show.widgets.diff import diff_html
from ecdysis_lab.show.widgets.gates_view import decision_line
from ecdysis_lab.show.widgets.trace import escaped
from ecdysis_lab.store import Run

if TYPE_CHECKING:
    import pandas as pd

Learned = Mapping[str, Any]
SHIPPED = {"empty": "direct", "human": "human"}  # row of the result -> arm that has this harness


def rows_of(learned: Learned) -> list[tuple[str, str, Mapping[str, Any]]]:
    """(name, arm whose colour it has, counts) of every harness: the shipped ones first."""
    shipped = [(name, arm, learned[name]) for name, arm in SHIPPED.items() if learned[name]]
    return shipped + [(arm, arm, counts) for arm, counts in learned["arms"].items()]


def stopped_frame(learned: Learned) -> pd.DataFrame:
    """One row per harness and group of trials.

    Returns
    -------
    DataFrame with columns harness, arm, start, decision, group (failing, passing), trials, tasks, touched, share,
    ci_low, ci_high, other_text, broken, reviewer, editor, simulated. Of a shipped harness start, decision, reviewer and
    editor are empty.
    """
    import pandas as pd

    rows = []
    for name, arm, counts in rows_of(learned):
        trained = name in learned["arms"]
        for group in ("failing", "passing"):
            found = counts[group]
            low, high = found["touched_ci95"] or (None, None)
            rows.append(
                {
                    "harness": name, "arm": arm, "start": counts.get("start", ""),
                    "decision": counts.get("decision", ""), "group": group, "trials": found["trials"],
                    "tasks": found["tasks"], "touched": found["touched"],
                    "share": found["touched"] / found["trials"] if found["trials"] else None,
                    "ci_low": low, "ci_high": high, "other_text": found["other_text"], "broken": found["broken"],
                    "reviewer": learned["review_model"] if trained else "",
                    "editor": learned["editor"] if trained else "",
                    "simulated": learned["simulated"],
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def stopped_table(learned: Learned) -> pd.DataFrame:
    """The result as a person reads it, one row a harness; numbers of trials of the tasks that no arm was trained on."""
    import pandas as pd

    rows = []
    for name, _, counts in rows_of(learned):
        failing, passing = counts["failing"], counts["passing"]
        rows.append(
            {
                "harness": name,
                "decision": counts.get("decision", DASH),
                "failing: act stopped or rewritten": _of(failing, "touched"),
                "95% (%)": _percent(failing["touched_ci95"]),
                "of them executed": failing["executed"],
                "passing: legal act refused": _of(passing, "refused_legal"),
                "altered": passing["altered"],
                "95% (%) of either": _percent(passing["touched_ci95"]),
                "other text read": failing["other_text"] + passing["other_text"],
                "a hook broke": failing["broken"] + passing["broken"],
            }
        )
    return pd.DataFrame(rows)


def rules_table(learned: Learned) -> pd.DataFrame:
    """By harness and rule: trials that it would have touched; columns harness, rule, failing, passing."""
    import pandas as pd

    rows = []
    for name, _, counts in rows_of(learned):
        failing, passing = (counts[group]["by_rule"] for group in ("failing", "passing"))
        rows += [
            (name, rule, failing.get(rule, 0), passing.get(rule, 0))
            for rule in dict.fromkeys((*failing, *passing))
        ]
    return pd.DataFrame(rows, columns=["harness", "rule", "failing", "passing"])


def _of(group: Mapping[str, Any], what: str) -> str:
    return f"{group[what]} of {group['trials']}"


def _percent(interval: Sequence[float] | None) -> str:
    return f"{100 * interval[0]:.0f}–{100 * interval[1]:.0f}" if interval else DASH


def title(learned: Learned) -> str:
    """What was recorded, who reviewed, and where the arms started, in one line."""
    split = learned["split"]
    mark = "SIMULATED: " if learned["simulated"] else ""
    trials = f"{learned['traces']['trials']} recorded trials of {', '.join(learned['models'])}"
    halves = f"learned from {split['training_tasks']} tasks, counted on {split['other_tasks']} others"
    people = f"review model {learned['review_model']}, editor {learned['editor']}"
    return f"{mark}{trials} on {learned['benchmark']}; {halves}; start {learned['start']}; {people}"


def text(learned: Learned) -> str:
    """The result for a terminal."""
    tables = [stopped_table(learned).T.to_string(header=False), rules_table(learned).to_string(index=False)]
    arms = [_arm_line(arm, found) for arm, found in learned["arms"].items()]
    return "\n\n".join([title(learned), *tables, "\n".join(arms), learned["says"]])


def _arm_line(arm: str, found: Mapping[str, Any]) -> str:
    parts = (found["decision"], found["reason"], found["says"], f"candidate: {found['candidate'] or 'none'}")
    return f"{arm}: {'; '.join(filter(None, parts))}"


def plots(learned: Learned) -> tuple[dict[str, Any], Footer]:
    """The figure with its table, and the footer."""
    frame = stopped_frame(learned)
    models = [*learned["models"], learned["review_model"]]
    footer = Footer(
        learned["run_id"],
        learned["commit"],
        learned["split"]["seed"],
        [model for model in dict.fromkeys(models) if model != HAND],
        simulated=learned["simulated"],
        by_hand=played(note for found in learned["arms"].values() for note in found["notes"]),
    )
    return {"stopped_acts": (stopped_acts(frame), frame)}, footer


def write_pages(run: Run) -> dict[str, Path]:
    """One page an arm in the run folder: its start beside what the round led to, or beside a rejected candidate.

    Raises
    ------
    LabError: the run has learned nothing from recorded trials, or its learning has not ended.
    """
    learned = run.learned
    if learned is None:
        raise LabError(f"run {run.run_id} has no result of recorded trials; finish `ecdysis-lab learn` first")
    made = {}
    for arm, found in learned["arms"].items():
        record = run.round(arm, 1).record
        before = load_harness(run.harness_path(record.parent)) if record else None
        if before is None:
            continue
        after = load_harness(found["candidate"]) if found["candidate"] else before
        what = "what it led to" if found["changed"] else "its last candidate"
        head = f"{arm}: the start, {learned['start']}, beside {what}"
        lines = (title(learned), decision_line(run, arm, 1), learned["says"])
        body = f"<h1>{escaped(head)}</h1>" + "".join(f"<p>{escaped(line)}</p>" for line in lines)
        page = {"title": escaped(head), "style": asset("style.css"), "body": body + diff_html(before, after)}
        made[arm] = run.write_text(f"diff-{arm}.html", Template(asset("page.html")).substitute(page))
    return made
