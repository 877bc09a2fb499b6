"""One round to read: its edit side by side, its gates in order with their numbers, and the decision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import LabError
from ecdysis_lab.show.widgets.debate import Page
from ecdysis_lab.show.widgets.diff import diff_html
from ecdysis_lab.store.run import Run

if TYPE_CHECKING:
    import pandas as pd

GATES = {
    "static": "imports, builtins and files that a harness may use",
    "probe": "every hook called once",
    "leak": "no fact of a training task in the diff",
    "legal": "no act of a passing trial refused or changed",
    "coverage": "the same pairs scored on both sides",
    "improvement": "the summed training score rises strictly",
    "confirm": "it rises again on seeds that no round has seen",
}
OPTIONAL = ("confirm",)


def round_record(run: Run | Path | str, arm: str, n: int) -> dict[str, Any]:
    """Record of a round, with the numbers of the gate that decided (from the ledger) under ``numbers``.

    Raises
    ------
    LabError: the run has no such round; those it has are listed.
    """
    run = run if isinstance(run, Run) else Run(Path(run))
    record = run.read_json(f"rounds/{arm}-{n}/record.json")
    if record is None:
        have = sorted(p.parent.name for p in run.folder.glob("rounds/*/record.json"))
        raise LabError(
            f"run {run.run_id} has no round {n} of arm {arm!r}; it has {', '.join(have) or 'none'}"
        )
    entries = [e for e in run.ledger() if (e.get("arm"), e.get("round")) == (arm, n)]
    return {**record, "numbers": entries[-1].get("numbers", {}) if entries else {}}


def gates_table(run: Run | Path | str, arm: str, n: int) -> pd.DataFrame:
    """One row per gate in the order of their cost: columns gate, asks, answer, told.

    ``answer`` is ``passed``, ``rejected``, ``accepted`` or ``not reached``; ``told`` holds the reason and numbers of
    the gate that decided. Where a stage outside the gates decided (review, edit), the table begins with it.
    """
    import pandas as pd

    record = round_record(run, arm, n)
    names = [g for g in GATES if g not in OPTIONAL or g == record["gate"] or g in record["numbers"]]
    at = names.index(record["gate"]) if record["gate"] in names else -1
    rows = []
    for i, name in enumerate(names):
        answer = "passed" if i < at else "not reached"
        told = ""
        if i == at:
            answer = "accepted" if record["decision"] == "accepted" else "rejected"
            told = "; ".join([record["reason"], *_numbers(record)])
        rows.append((name, GATES[name], answer, told))
    if at < 0:
        told = "; ".join([record["reason"], *_numbers(record)])
        rows = [(record["gate"], "decided before the gates", record["decision"], told), *rows]
    return pd.DataFrame(rows, columns=["gate", "asks", "answer", "told"])


def _numbers(record: dict[str, Any]) -> list[str]:
    """The numbers of a decision as short texts, long lists left to the ledger."""
    told = [f"gained {', '.join(record['gained'])}"] if record["gained"] else []
    told += [f"lost {', '.join(record['lost'])}"] if record["lost"] else []
    for name, value in record["numbers"].items():
        if isinstance(value, (int, float, str)):
            shown = f"{value:.3g}" if isinstance(value, float) else str(value)
            told.append(f"{name.replace('_', ' ')} {shown}")
    return told


def decision_line(run: Run | Path | str, arm: str, n: int) -> str:
    """The decision in one sentence: gate, reason, scores, editor calls, notes."""
    record = round_record(run, arm, n)
    after = record["score_after"]
    score = f"{record['score_before']:g}" + ("" if after is None else f" → {after:g}")
    notes = f" Notes: {'; '.join(n.rstrip('.') for n in record['notes'])}." if record["notes"] else ""
    return (
        f"{record['decision'].upper()} by {record['gate']}: {record['reason']}. Training score {score}; "
        f"editor calls {record['editor_calls']}.{notes}"
    )


def round_diff(run: Run | Path | str, arm: str, n: int) -> Page:
    """The harness before a round beside its last candidate, accepted or not.

    Raises
    ------
    LabError: the run has no such round.
    """
    run = run if isinstance(run, Run) else Run(Path(run))
    record = round_record(run, arm, n)
    kept = sorted(
        (p for p in run.folder.glob(f"rounds/{arm}-{n}/candidate-*") if p.is_dir()),
        key=lambda p: int(p.name.rpartition("-")[2]),
    )
    earlier = run.read_json(f"rounds/{arm}-{n - 1}/record.json") or {}
    before = _kept(run, record.get("parent") or earlier.get("harness", ""))
    after = load_harness(kept[-1]) if kept else _kept(run, record["harness"])
    if before is None or after is None:
        return Page("<p>The round's harnesses are not kept.</p>")
    return Page(diff_html(before, after))


def _kept(run: Run, digest: str) -> Harness | None:
    folder = run.folder / "harness" / digest
    return load_harness(folder) if digest and folder.is_dir() else None
