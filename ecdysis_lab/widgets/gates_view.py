"""The gates of one round in their order, with the numbers each of them gave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecdysis_lab.records import LabError
from ecdysis_lab.runs import RunFolder

if TYPE_CHECKING:
    import pandas as pd

GATES = {
    "static": "imports, builtins and files that a harness may use",
    "probe": "every hook called once",
    "leak": "no fact of a training task in the diff",
    "legal": "no act of a passing trial refused or changed",
    "coverage": "the same pairs scored on both sides",
    "improvement": "the summed training score rises strictly",
}


def round_record(run: RunFolder | Path | str, arm: str, n: int) -> dict[str, Any]:
    """Record of a round, with the numbers of the gate that decided (from the ledger) under ``numbers``.

    Raises
    ------
    LabError: the run has no such round; those it has are listed.
    """
    run = run if isinstance(run, RunFolder) else RunFolder(Path(run))
    record = run.read_json(f"rounds/{arm}-{n}/record.json")
    if record is None:
        have = sorted(p.parent.name for p in run.folder.glob("rounds/*/record.json"))
        raise LabError(
            f"run {run.run_id} has no round {n} of arm {arm!r}; it has {', '.join(have) or 'none'}"
        )
    entries = [e for e in run.ledger() if (e.get("arm"), e.get("round")) == (arm, n)]
    return {**record, "numbers": entries[-1].get("numbers", {}) if entries else {}}


def gates_table(run: RunFolder | Path | str, arm: str, n: int) -> pd.DataFrame:
    """One row per gate in the order of their cost: columns gate, asks, answer, told.

    ``answer`` is ``passed``, ``rejected``, ``accepted`` or ``not reached``; ``told`` holds the reason and numbers of
    the gate that decided.
    """
    import pandas as pd

    record = round_record(run, arm, n)
    names = list(GATES)
    at = names.index(record["gate"]) if record["gate"] in names else -1
    rows = []
    for i, name in enumerate(names):
        answer = "passed" if i < at else "not reached"
        told = ""
        if i == at:
            answer = "accepted" if record["verdict"] == "accepted" else "rejected"
            told = "; ".join([record["reason"], *_numbers(record)])
        rows.append((name, GATES[name], answer, told))
    return pd.DataFrame(rows, columns=["gate", "asks", "answer", "told"])


def _numbers(record: dict[str, Any]) -> list[str]:
    """The numbers of a verdict as short texts, long lists left to the ledger."""
    told = [f"gained {', '.join(record['gained'])}"] if record["gained"] else []
    told += [f"lost {', '.join(record['lost'])}"] if record["lost"] else []
    for name, value in record["numbers"].items():
        if isinstance(value, (int, float, str)):
            shown = f"{value:.3g}" if isinstance(value, float) else str(value)
            told.append(f"{name.replace('_', ' ')} {shown}")
    return told


def verdict_line(run: RunFolder | Path | str, arm: str, n: int) -> str:
    """The verdict in one sentence: gate, reason, scores, editor calls, notes."""
    record = round_record(run, arm, n)
    after = record["score_after"]
    score = f"{record['score_before']:g}" + ("" if after is None else f" → {after:g}")
    notes = f" Notes: {'; '.join(record['notes'])}." if record["notes"] else ""
    return (
        f"{record['verdict'].upper()} by {record['gate']}: {record['reason']}. Training score {score}; "
        f"editor calls {record['editor_calls']}.{notes}"
    )
