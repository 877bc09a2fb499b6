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
STOPPED = {
    "failing": "executed",
    "passing": "touched",
}  # group -> trials with an act that ran, or a reply, stopped
SHIPPED = {"empty": "direct", "human": "human"}  # row of the result -> arm that has this harness


def rows_of(learned: Learned) -> list[tuple[str, str, Mapping[str, Any]]]:
    """(name, arm whose colour it has, counts) of every harness: the shipped ones first."""
    shipped = [(name, arm, learned[name]) for name, arm in SHIPPED.items() if learned[name]]
    return shipped + [(arm, arm, counts) for arm, counts in learned["arms"].items()]


def remark(counts: Mapping[str, Any]) -> str:
    """What a reader has to know of an arm's row where it is not what the arm led to; else empty."""
    if not counts.get("decision") or counts["changed"]:
        return ""
    if counts["counted"] == "candidate":
        return "(rejected)"
    return f"({'rejected and not run' if counts['candidate'] else 'no edit'}: the start harness)"


def stopped_frame(learned: Learned) -> pd.DataFrame:
    """One row per harness and group of trials.

    Returns
    -------
    DataFrame with columns harness, arm, remark, start, decision, counted, group (failing, passing), trials, tasks,
    stopped (trials with an act that ran, or a reply, stopped or rewritten), share (of stopped), ci_low, ci_high, acts,
    replies, touched, other_text, broken, failures (learned from), reviewer, editor, simulated. Of a shipped harness
    what tells of learning is empty.
    """
    import pandas as pd

    rows = []
    for name, arm, counts in rows_of(learned):
        trained = name in learned["arms"]
        for group in ("failing", "passing"):
            found = counts[group]
            low, high = found[f"{STOPPED[group]}_ci95"] or (None, None)
            n = found[STOPPED[group]]
            rows.append(
                {
                    "harness": name, "arm": arm, "remark": remark(counts), "start": counts.get("start", ""),
                    "decision": counts.get("decision", ""), "counted": counts.get("counted", ""), "group": group,
                    "trials": found["trials"], "tasks": found["tasks"], "stopped": n,
                    "share": n / found["trials"] if found["trials"] else None, "ci_low": low, "ci_high": high,
                    "acts": found["acts"], "replies": found["replies"], "touched": found["touched"],
                    "other_text": found["other_text"], "broken": found["broken"],
                    "failures": counts.get("failures", ""), "reviewer": counts.get("reviewer", ""),
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
                "harness": f"{name} {remark(counts)}".strip(),
                "decision": counts.get("decision", DASH),
                "learned from failures": counts.get("failures", DASH),
                "reviewed by": counts.get("reviewer", DASH) or "nobody",
                "failing: act that ran, or reply, stopped": _of(failing, "executed"),
                "failing: 95% (%)": _percent(failing["executed_ci95"]),
                "failing: acts, replies": _split(failing),
                "failing: with acts that the environment rejected": _of(failing, "touched"),
                "passing: act or reply of a passing trial stopped": _of(passing, "touched"),
                "passing: 95% (%)": _percent(passing["touched_ci95"]),
                "passing: acts, replies": _split(passing),
                "passing: refused, rewritten": f"{passing['refused_legal']}, {passing['altered']}",
                "other text read": failing["other_text"] + passing["other_text"],
                "a hook broke": failing["broken"] + passing["broken"],
            }
        )
    return pd.DataFrame(rows)


def rules_table(learned: Learned) -> pd.DataFrame:
    """Trials by rule: where it would have stopped or rewritten an act that ran, or a reply; a trial may meet several.

    Returns
    -------
    DataFrame with columns harness, rule, failing trials, passing trials.
    """
    import pandas as pd

    rows = []
    for name, _, counts in rows_of(learned):
        failing, passing = (counts[group]["by_rule"] for group in ("failing", "passing"))
        rows += [
            (f"{name} {remark(counts)}".strip(), rule, failing.get(rule, 0), passing.get(rule, 0))
            for rule in dict.fromkeys((*failing, *passing))
        ]
    return pd.DataFrame(rows, columns=["harness", "rule", "failing trials", "passing trials"])


def _of(group: Mapping[str, Any], what: str) -> str:
    return f"{group[what]} of {group['trials']}"


def _split(group: Mapping[str, Any]) -> str:
    return f"{group['acts']}, {group['replies']}"


def _percent(interval: Sequence[float] | None) -> str:
    return f"{100 * interval[0]:.0f}–{100 * interval[1]:.0f}" if interval else DASH


def title(learned: Learned) -> str:
    """What was recorded, who reviewed, and where the arms started, in one line."""
    split = learned["split"]
    mark = "SIMULATED: " if learned["simulated"] else ""
    trials = f"{learned['traces']['trials']} recorded trials of {', '.join(learned['models'])}"
    halves = f"learned from {split['training_tasks']} tasks, counted on {split['other_tasks']} others"
    reviewers = dict.fromkeys(found["reviewer"] for found in learned["arms"].values() if found["reviewer"])
    people = f"review model {', '.join(reviewers) or 'none'}, editor {learned['editor']}"
    return f"{mark}{trials} on {learned['benchmark']}; {halves}; start {learned['start']}; {people}"


def text(learned: Learned) -> str:
    """The result for a terminal."""
    tables = [stopped_table(learned).T.to_string(header=False), _rules_text(learned)]
    arms = [_arm_line(arm, found) for arm, found in learned["arms"].items()]
    return "\n\n".join([title(learned), *tables, "\n".join(arms), learned["says"]])


def _rules_text(learned: Learned) -> str:
    rules = rules_table(learned)
    return "trials by rule:\n" + (rules.to_string(index=False) if len(rules) else "none")


def _arm_line(arm: str, found: Mapping[str, Any]) -> str:
    row = f"its row counts the {found['counted']}{' harness' if found['counted'] == 'start' else ''}"
    kept = f"candidate in the run's folder: {found['candidate'] or 'none'}"
    parts = (found["decision"], found["reason"], found["says"], row, kept)
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
        after = load_harness(run.folder / found["candidate"]) if found["candidate"] else before
        what = "what it led to" if found["changed"] else f"its last candidate {remark(found)}"
        head = f"{arm}: the start, {learned['start']}, beside {what}"
        lines = (title(learned), decision_line(run, arm, 1), learned["says"])
        body = f"<h1>{escaped(head)}</h1>" + "".join(f"<p>{escaped(line)}</p>" for line in lines)
        page = {"title": escaped(head), "style": asset("style.css"), "body": body + diff_html(before, after)}
        made[arm] = run.write_text(f"diff-{arm}.html", Template(asset("page.html")).substitute(page))
    return made
