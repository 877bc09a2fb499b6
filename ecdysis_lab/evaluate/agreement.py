"""A person's labels on changes, in a CSV file, and how far they agree with the automatic judgement."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ecdysis_lab.evaluate.accommodation import Judgement
from ecdysis_lab.records import LabError
from ecdysis_lab.store import Run, told
from ecdysis_lab.store.spreadsheet import as_written, harmless

DEFECT, QUIRK, UNSURE = "harness defect", "model quirk", "unsure"
LABELS = (DEFECT, QUIRK, UNSURE)
COLUMNS = ("id", "label", "note", "automatic", "outcome", "layer", "what", "reasons")


@dataclass(frozen=True)
class Label:
    """What a person says of a change: one of ``LABELS``, and a note."""

    label: str
    note: str = ""


@dataclass(frozen=True)
class Agreement:
    """Cohen's κ between a person and the automatic judgement.

    Parameters
    ----------
    kappa : κ in [-1, 1], or None. reason : why it is None, else an empty string.
    n : changes that both decided. agreed : share of them with the same word, or None.
    left_out : changes that either side left undecided or that the person did not label.
    """

    kappa: float | None
    reason: str
    n: int
    agreed: float | None
    left_out: int


def write_labels(path: Path | str, judgements: Iterable[Judgement], labels: Mapping[str, Label]) -> Path:
    """Replace a CSV file: one row per change, with the person's label (empty where there is none) and note.

    Raises
    ------
    LabError: a label that is none, or a path that cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for d in judgements:
        mine = labels.get(d.id, Label(""))
        if mine.label and mine.label not in LABELS:
            raise LabError(f"label: unknown {mine.label!r}; choose one of {', '.join(LABELS)}")
        cells = (d.id, mine.label, mine.note, d.word, d.outcome, d.layer, d.what, "; ".join(d.reasons))
        writer.writerow(map(harmless, cells))
    path = Path(path)
    return Run(path.parent).write_text(path.name, text.getvalue())


def read_labels(path: Path | str) -> dict[str, Label]:
    """Labels by change id, from a CSV file with the columns id and label; rows without label and note are left out.

    Raises
    ------
    LabError: no such file, no such column, an unknown label, or two rows for one change; file and line are named.
    """
    path = Path(path)
    with told(path):
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))
    found: dict[str, Label] = {}
    for line, row in enumerate(rows, 2):
        lacking = [c for c in ("id", "label") if row.get(c) is None]
        if lacking:
            raise LabError(f"{path}, row {line}: column {lacking[0]!r} is missing")
        label, key = row["label"].strip().lower(), row["id"].strip()
        if label and label not in LABELS:
            raise LabError(f"{path}, row {line}: unknown label {label!r}; choose one of {', '.join(LABELS)}")
        if key in found:
            raise LabError(f"{path}, row {line}: a second row for change {key}")
        note = as_written(row.get("note") or "")
        if label or note:
            found[key] = Label(label, note)
    return found


def agreement(judgements: Sequence[Judgement], labels: Mapping[str, Label]) -> Agreement:
    """Cohen's κ over the changes that both the person and the automatic judgement call defect or quirk.

    Parameters
    ----------
    judgements : the automatic ones. labels : the person's, by id; ``unsure`` counts as undecided.
    """
    sure = (DEFECT, QUIRK)
    pairs = [(labels[d.id].label, d.word) for d in judgements if d.id in labels]
    pairs = [p for p in pairs if p[0] in sure and p[1] in sure]
    left_out = len(judgements) - len(pairs)
    kappa, reason = cohen([a == QUIRK for a, _ in pairs], [b == QUIRK for _, b in pairs])
    agreed = sum(a == b for a, b in pairs) / len(pairs) if pairs else None
    return Agreement(kappa, reason, len(pairs), agreed, left_out)


def cohen(first: Sequence[bool], second: Sequence[bool]) -> tuple[float | None, str]:
    """Cohen's κ of two raters over the same items (True: quirk), or None and the reason."""
    if not first:
        return None, "no change is decided by both"
    if len({*first, *second}) == 1:
        word = QUIRK if first[0] else DEFECT
        return None, f"both call every one of the {len(first)} changes a {word}, so chance explains all"
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(first, second)), ""
