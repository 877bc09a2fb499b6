"""A person's own labels on the changes of a run: harness defect, model quirk or unsure, saved to CSV at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import traitlets

from ecdysis_lab.accommodation import Decision
from ecdysis_lab.accommodation_run import decisions_of, load_round
from ecdysis_lab.agreement import DEFECT, LABELS, QUIRK, UNSURE, Label, agreement, read_labels, write_labels
from ecdysis_lab.failures import outline
from ecdysis_lab.harness import Harness
from ecdysis_lab.records import LAYER_FILES, Embedder, LabError, Trajectory
from ecdysis_lab.runs import RunFolder
from ecdysis_lab.store import Store, StoreError
from ecdysis_lab.widgets.debate import CSS as REVIEW_CSS
from ecdysis_lab.widgets.diff import diff_html
from ecdysis_lab.widgets.trace import escaped, trace_html

KEYS = {"d": DEFECT, "q": QUIRK, "u": UNSURE}
LINES_AFTER = 2  # of the outline, shown after a cited step
READER_PIXELS = 420


@dataclass(frozen=True)
class Material:
    """What a person judges a change by: its file before and after, and the cited trials by their short key."""

    before: Mapping[str, str]
    after: Mapping[str, str]
    traces: Mapping[str, Trajectory]


class EditLabels(traitlets.HasTraits):
    """Every decision of the annotator, without a frontend; each label is saved as it is given.

    Parameters
    ----------
    decisions : the changes with their automatic decisions. path : CSV file; one that exists is re-opened, None saves
        nowhere.

    Raises
    ------
    LabError: the file holds labels for changes that are not among these, or is no label file. It is left alone.
    """

    current = traitlets.Int(0)
    labels = traitlets.Dict()
    message = traitlets.Unicode("")

    def __init__(self, decisions: Sequence[Decision], path: Path | str | None = None) -> None:
        super().__init__()
        self.decisions, self.path = tuple(decisions), Path(path) if path else None
        if self.path is not None and self.path.exists():
            self.labels = self._reopened(self.path)

    def _reopened(self, path: Path) -> dict[str, Label]:
        found, known = read_labels(path), {d.id for d in self.decisions}
        strange = sorted(set(found) - known)
        if strange:
            raise LabError(
                f"{path} labels {len(strange)} changes that are not among these {len(known)} (e.g. {strange[0]}); "
                "choose another file, or move it away"
            )
        self.current = next((i for i, d in enumerate(self.decisions) if d.id not in found), 0)
        self.message = f"Re-opened: {len(found)} of {len(known)} labelled."
        return found

    @property
    def decision(self) -> Decision:
        """The open change."""
        return self.decisions[self.current]

    def label(self, word: str) -> None:
        """Label the open change and go on to the next one without a label.

        Raises
        ------
        LabError: the word is no label.
        """
        if word not in LABELS:
            raise LabError(f"label: unknown {word!r}; choose one of {', '.join(LABELS)}")
        note = self.labels.get(self.decision.id, Label("")).note
        self.labels = {**self.labels, self.decision.id: Label(word, note)}
        self.message = f"{self.decision.id}: {word}."
        self._save()
        after = [*range(self.current + 1, len(self.decisions)), *range(self.current)]
        self.current = next((i for i in after if self.decisions[i].id not in self.labels), self.current)

    def note(self, text: str) -> None:
        """Keep a note on the open change."""
        old = self.labels.get(self.decision.id, Label(""))
        if text != old.note:
            self.labels = {**self.labels, self.decision.id: Label(old.label, text)}
            self._save()

    def move(self, by: int) -> None:
        """Open another change, round the ends."""
        self.current = (self.current + by) % len(self.decisions)

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
            write_labels(self.path, self.decisions, self.labels)
        except StoreError as why:
            self.message = f"NOT SAVED: {why}"

    @property
    def done(self) -> int:
        """How many changes have a label."""
        return sum(bool(label.label) for label in self.labels.values())

    def summary(self) -> str:
        """Progress and agreement in one sentence."""
        found = agreement(self.decisions, self.labels)
        kappa = f"κ {found.kappa:.2f}" if found.kappa is not None else f"κ undefined ({found.reason})"
        return f"{self.done} of {len(self.decisions)} labelled; agreement with the automatic decision: {kappa}, n = {found.n}"


class EditAnnotator:
    """A live annotator; shows itself as the last value of a cell. Keys: ``d``, ``q``, ``u`` label, ← and → move.

    Parameters
    ----------
    decisions : the changes. path : CSV file of the labels. material : change id -> what to show of it.
    blind : whether the automatic decision stays hidden until a change has a label.

    Attributes
    ----------
    state : every decision; what the widgets do, a program can do through it. box : the ipywidgets container.
    """

    def __init__(
        self,
        decisions: Sequence[Decision],
        path: Path | str | None = None,
        material: Mapping[str, Material] | None = None,
        blind: bool = False,
    ) -> None:
        self.state, self.material, self.blind = EditLabels(decisions, path), material or {}, blind
        self._shown = -1
        self.box = self._build() if self.state.decisions else _nothing()
        if self.state.decisions:
            self.state.observe(lambda change: self.refresh(), ["current", "labels", "message"])
            self.refresh()

    @classmethod
    def of_run(
        cls,
        run: RunFolder | Path | str,
        path: Path | str | None = None,
        *,
        store: Store | None = None,
        arm: str | None = None,
        embedder: Embedder | None = None,
        replays: bool = True,
        blind: bool = False,
    ) -> EditAnnotator:
        """An annotator of all changes of a run; labels go to ``labels.csv`` in its folder by default.

        Parameters
        ----------
        run, store, arm, embedder, replays : see :func:`ecdysis_lab.accommodation_run.decisions_of`.
        path, blind : see the class.
        """
        run = run if isinstance(run, RunFolder) else RunFolder(Path(run))
        store = store or Store(run.folder.parent.parent)
        decisions = decisions_of(run, store, arm=arm, embedder=embedder, replays=replays)
        return cls(decisions, path or run.folder / "labels.csv", material_of(run, store, decisions), blind)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return self.box._repr_mimebundle_(**kwargs)

    def _build(self) -> Any:
        import ipywidgets as w

        from ecdysis_lab.widgets.keys import Keys
        from ecdysis_lab.widgets.parts import TraceReader

        self.head, self.body, self.status = w.HTML(), w.HTML(), w.HTML()
        self.note = w.Text(placeholder="a note", continuous_update=False, layout=w.Layout(width="320px"))
        self.note.observe(lambda change: self.state.note(change["new"]), "value")
        self.reader = TraceReader(height_pixels=READER_PIXELS)
        self.keys = Keys(keys=[*KEYS, "ArrowLeft", "ArrowRight"], around="el-annotator")
        self.keys.on_msg(lambda _, content, __: self.state.press(str(content.get("key", ""))))
        self.buttons = {
            word: w.Button(description=f"{word.capitalize()} ({key})", layout=w.Layout(width="150px"))
            for key, word in KEYS.items()
        }
        for word, button in self.buttons.items():
            button.on_click(lambda _, word=word: self.state.label(word))
        moves = [
            w.Button(description=text, layout=w.Layout(width="100px")) for text in ("← previous", "next →")
        ]
        for button, by in zip(moves, (-1, 1), strict=True):
            button.on_click(lambda _, by=by: self.state.move(by))
        bar = w.HBox(
            [moves[0], *self.buttons.values(), moves[1], self.note], layout=w.Layout(flex_flow="row wrap")
        )
        for part in (self.head, self.body, self.reader):
            part.layout.width = "100%"
        box = w.VBox([self.head, bar, self.status, self.body, self.reader, self.keys])
        box.layout.max_width = "1200px"
        box.add_class("el-annotator")
        return box

    def refresh(self) -> None:
        """Show the state as it is now."""
        state, d = self.state, self.state.decision
        mine = state.labels.get(d.id, Label(""))
        self.head.value = head_html(state, d, mine.label, self.blind)
        alarm = " el-alarm" if state.message.startswith("NOT ") else ""
        said = f'<span class="el-message{alarm}">{escaped(state.message)}</span>'
        self.status.value = f'<div class="el-note">{escaped(state.summary())}<br>{said}&nbsp;</div>'
        for word, button in self.buttons.items():
            button.button_style = "primary" if word == mine.label else ""
        if self._shown != state.current:
            self._shown = state.current
            found = self.material.get(d.id, Material({}, {}, {}))
            self.body.value = body_html(d, found)
            first = next(iter(found.traces.values()), None)
            self.reader.html = (
                trace_html(first) if first else "<p>No trace of the cited trials is at hand.</p>"
            )
            self.reader.key = first.key if first else ""
        self.note.value = mine.note


def head_html(state: EditLabels, d: Decision, mine: str, blind: bool) -> str:
    """Which change this is, what it does, and the automatic decision with its reasons."""
    reasons = "".join(f"<li>{escaped(r)}</li>" for r in d.reasons)
    automatic = f"<b>Automatic: {escaped(d.word)}</b><ul>{reasons}</ul>"
    if blind and not mine:
        automatic = "<b>Automatic: hidden until you have labelled it.</b>"
    return (
        f'<style>{REVIEW_CSS}</style><div class="el-review"><div class="el-change">'
        f"<b>{state.current + 1} of {len(state.decisions)} · {escaped(d.id)} · {escaped(LAYER_FILES[d.layer])} · "
        f"round {escaped(d.outcome)} · your label: {escaped(mine or 'none yet')}</b>"
        f"<dl><dt>what</dt><dd>{escaped(d.what)}</dd><dt>why</dt><dd>{escaped(d.why)}</dd>"
        f"<dt>pattern</dt><dd>{escaped(d.pattern or 'none')}</dd></dl>{automatic}</div></div>"
    )


def body_html(d: Decision, found: Material) -> str:
    """The evidence step by step, and the change's file side by side."""
    items = "".join(f"<li>{_cited(ref, found.traces)}</li>" for ref in d.evidence)
    return (
        f'<div class="el-review"><h4>Evidence</h4><ul>{items}</ul><h4>Edit of the candidate in that file</h4></div>'
        f"{diff_html(found.before, found.after)}"
    )


def _cited(reference: str, traces: Mapping[str, Trajectory]) -> str:
    key, _, step = reference.partition("#")
    if key not in traces:
        return escaped(reference)
    lines = outline(traces[key].messages)
    numbers = [int(line[1 : line.index("]")]) for line in lines]
    at = next((i for i, n in enumerate(numbers) if n >= int(step)), len(lines))
    return f"{escaped(reference)}<pre>{escaped(chr(10).join(lines[at : at + LINES_AFTER]))}</pre>"


def material_of(run: RunFolder, store: Store, decisions: Sequence[Decision]) -> dict[str, Material]:
    """What there is to show of each change: files of parent and candidate, and the cited trials."""
    rounds = {(d.arm, d.round) for d in decisions}
    loaded = {key: load_round(run, *key, store) for key in rounds}
    made = {}
    for d in decisions:
        found, name = loaded[d.arm, d.round], LAYER_FILES[d.layer]
        traces = {f.key[:8]: f.trajectory for f in found.failures}
        cited = dict.fromkeys(e.partition("#")[0] for e in d.evidence)
        made[d.id] = Material(
            _only(found.parent, name),
            _only(found.candidate, name),
            {k: traces[k] for k in cited if k in traces},
        )
    return made


def _only(harness: Harness | None, name: str) -> dict[str, str]:
    return {name: harness.files[name]} if harness is not None and name in harness.files else {}


def _nothing() -> Any:
    import ipywidgets as w

    return w.HTML("<b>The run proposed no change: there is nothing to label.</b>")
