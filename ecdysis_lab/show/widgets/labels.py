"""The state of the edit annotator: which change is open, and what a person said of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import traitlets

from ecdysis_lab.evaluate.accommodation import Judgement
from ecdysis_lab.evaluate.agreement import (
    DEFECT,
    LABELS,
    QUIRK,
    UNSURE,
    Label,
    agreement,
    read_labels,
    write_labels,
)
from ecdysis_lab.records import LabError
from ecdysis_lab.store import StoreError

KEYS = {"d": DEFECT, "q": QUIRK, "u": UNSURE}


class EditLabels(traitlets.HasTraits):
    """Every judgement of the annotator, without a frontend; each label is saved as it is given.

    Parameters
    ----------
    judgements : the changes with their automatic judgements. path : CSV file; one that exists is re-opened, None saves
        nowhere.

    Raises
    ------
    LabError: the file holds labels for changes that are not among these, or is no label file. It is left alone.
    """

    current = traitlets.Int(0)
    labels = traitlets.Dict()
    message = traitlets.Unicode("")

    def __init__(self, judgements: Sequence[Judgement], path: Path | str | None = None) -> None:
        super().__init__()
        self.judgements, self.path = tuple(judgements), Path(path) if path else None
        if self.path is not None and self.path.exists():
            self.labels = self._reopened(self.path)

    def _reopened(self, path: Path) -> dict[str, Label]:
        found, known = read_labels(path), {d.id for d in self.judgements}
        strange = sorted(set(found) - known)
        if strange:
            raise LabError(
                f"{path} labels {len(strange)} changes that are not among these {len(known)} (e.g. {strange[0]}); "
                "choose another file, or move it away"
            )
        self.current = next((i for i, d in enumerate(self.judgements) if not _given(found, d)), 0)
        self.message = f"Re-opened: {sum(bool(x.label) for x in found.values())} of {len(known)} labelled."
        return found

    @property
    def judgement(self) -> Judgement:
        """The open change."""
        return self.judgements[self.current]

    def label(self, word: str) -> None:
        """Label the open change and go on to the next one without a label.

        Raises
        ------
        LabError: the word is no label.
        """
        if word not in LABELS:
            raise LabError(f"label: unknown {word!r}; choose one of {', '.join(LABELS)}")
        note = self.labels.get(self.judgement.id, Label("")).note
        self.labels = {**self.labels, self.judgement.id: Label(word, note)}
        self.message = f"{self.judgement.id}: {word}."
        self._save()
        after = [*range(self.current + 1, len(self.judgements)), *range(self.current)]
        self.current = next((i for i in after if not _given(self.labels, self.judgements[i])), self.current)

    def note(self, text: str) -> None:
        """Keep a note on the open change."""
        old = self.labels.get(self.judgement.id, Label(""))
        if text != old.note:
            self.labels = {**self.labels, self.judgement.id: Label(old.label, text)}
            self._save()

    def move(self, by: int) -> None:
        """Open another change, round the ends."""
        self.current = (self.current + by) % len(self.judgements)

    def press(self, key: str) -> None:
        """Act on a key: d, q, u, ← or →; others do nothing."""
        if key in KEYS:
            self.label(KEYS[key])
        elif key in ("ArrowLeft", "ArrowRight"):
            self.move(1 if key == "ArrowRight" else -1)

    def _save(self) -> None:
        if self.path is None:
            return
        try:
            write_labels(self.path, self.judgements, self.labels)
        except StoreError as why:
            self.message = f"NOT SAVED: {why}"

    @property
    def done(self) -> int:
        """How many changes have a label."""
        return sum(bool(label.label) for label in self.labels.values())

    def summary(self) -> str:
        """Progress and agreement in one sentence."""
        found = agreement(self.judgements, self.labels)
        kappa = f"κ {found.kappa:.2f}" if found.kappa is not None else f"κ undefined ({found.reason})"
        done = f"{self.done} of {len(self.judgements)} labelled"
        return f"{done}; agreement with the automatic judgement: {kappa}, n = {found.n}"


def _given(labels: Mapping[str, Label], judgement: Judgement) -> bool:
    """Whether a change has a label; a note alone is none."""
    return bool(labels.get(judgement.id, Label("")).label)
