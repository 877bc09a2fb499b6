"""One round to read: its edit side by side, the gates that ran with their numbers, and the decision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import LabError, RoundRecord
from ecdysis_lab.show import rounds
from ecdysis_lab.show.widgets.debate import Page
from ecdysis_lab.show.widgets.diff import diff_html
from ecdysis_lab.store import Round, Run

if TYPE_CHECKING:
    import pandas as pd


def _finished(run: Run | Path | str, arm: str, n: int) -> tuple[Round, RoundRecord]:
    """A finished round and its record.

    Raises
    ------
    LabError: the run has no such round; those it has are listed.
    """
    run = Run.of(run)
    round = run.round(arm, n)
    if (record := round.record) is None:
        have = [r.name for r in run.rounds() if r.record]
        raise LabError(
            f"run {run.run_id} has no round {n} of arm {arm!r}; it has {', '.join(have) or 'none'}"
        )
    return round, record


def gates_table(run: Run | Path | str, arm: str, n: int) -> pd.DataFrame:
    """One row per gate that ran, by candidate and in order: columns candidate, gate, asks, outcome, told, seconds.

    ``candidate`` counts from 1; ``told`` holds the reason and the numbers. A round that met no gate has no row.
    """
    import pandas as pd

    _, record = _finished(run, arm, n)
    rows = [
        (i, g.name, g.asks, g.outcome, "; ".join(filter(None, (g.reason, rounds.numbers(g)))), g.seconds)
        for i, judged in enumerate(record.candidates, 1)
        for g in judged.gates
    ]
    return pd.DataFrame(rows, columns=["candidate", "gate", "asks", "outcome", "told", "seconds"])


def decision_line(run: Run | Path | str, arm: str, n: int) -> str:
    """The decision in one sentence, and what was noted."""
    _, record = _finished(run, arm, n)
    notes = f" Notes: {'; '.join(n.rstrip('.') for n in record.notes)}." if record.notes else ""
    return f"{rounds.sentence(record)}{notes}"


def round_diff(run: Run | Path | str, arm: str, n: int) -> Page:
    """The harness before a round beside its last candidate, accepted or not.

    Raises
    ------
    LabError: the run has no such round.
    """
    round, record = _finished(run, arm, n)
    before, last = _kept(round.run, record.parent), round.last_candidate()
    after = load_harness(last) if last else _kept(round.run, record.harness)
    if before is None or after is None:
        return Page("<p>The round's harnesses are not kept.</p>")
    return Page(diff_html(before, after))


def _kept(run: Run, digest: str) -> Harness | None:
    folder = run.harness_path(digest)
    return load_harness(folder) if digest and folder.is_dir() else None
