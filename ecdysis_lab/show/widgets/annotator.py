"""A person's own labels on the changes of a run: harness defect, model quirk or unsure, saved to CSV at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecdysis_lab.evaluate.accommodation import Judgement
from ecdysis_lab.evaluate.accommodation_facts import evidences_of, judgements_of
from ecdysis_lab.evaluate.agreement import Label
from ecdysis_lab.failures.cards import outline
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import LAYER_FILES, Embedder, Trajectory
from ecdysis_lab.show.widgets.diff import diff_html
from ecdysis_lab.show.widgets.labels import KEYS, EditLabels
from ecdysis_lab.show.widgets.trace import escaped, trace_html
from ecdysis_lab.store import Run, Store

LINES_AFTER = 2  # of the outline, shown after a cited step
READER_PIXELS = 420


@dataclass(frozen=True)
class Material:
    """What a person judges a change by: its file before and after, and the cited trials by their short key."""

    before: Mapping[str, str]
    after: Mapping[str, str]
    traces: Mapping[str, Trajectory]


class EditAnnotator:
    """A live annotator; shows itself as the last value of a cell. Keys: ``d``, ``q``, ``u`` label, ← and → move.

    Parameters
    ----------
    judgements : the changes. path : CSV file of the labels. material : change id -> what to show of it.
    blind : whether the automatic judgement stays hidden until a change has a label.

    Attributes
    ----------
    state : every judgement; what the widgets do, a program can do through it. box : the ipywidgets container.
    """

    def __init__(
        self,
        judgements: Sequence[Judgement],
        path: Path | str | None = None,
        material: Mapping[str, Material] | None = None,
        blind: bool = False,
    ) -> None:
        self.state, self.material, self.blind = EditLabels(judgements, path), material or {}, blind
        self._shown = -1
        self.box = self._build() if self.state.judgements else _nothing()
        if self.state.judgements:
            self.state.observe(lambda change: self.refresh(), ["current", "labels", "message"])
            self.refresh()

    @classmethod
    def of_run(
        cls,
        run: Run | Path | str,
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
        run, store, arm, embedder, replays : see :func:`ecdysis_lab.evaluate.accommodation_facts.judgements_of`.
        path, blind : see the class.
        """
        run = Run.of(run)
        store = store or Store(run.root)
        judgements = judgements_of(run, store, arm=arm, embedder=embedder, replays=replays)
        return cls(judgements, path or run.labels_path, material_of(run, store, judgements), blind)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return self.box._repr_mimebundle_(**kwargs)

    def _build(self) -> Any:
        import ipywidgets as w

        from ecdysis_lab.show.widgets.parts import Keys, TraceReader

        self.head, self.body, self.status = w.HTML(), w.HTML(), w.HTML()
        self.note = w.Text(placeholder="a note", continuous_update=False, layout=w.Layout(width="320px"))
        self.note.observe(lambda change: self.state.note(change["new"]), "value")
        self.reader = TraceReader(height_pixels=READER_PIXELS)
        self.keys = Keys(heard=[*KEYS, "ArrowLeft", "ArrowRight"], around="el-annotator")
        self.keys.on_msg(lambda _, content, __: self.state.press(str(content.get("key", ""))))
        bar = w.HBox(self._controls(), layout=w.Layout(flex_flow="row wrap"))
        for part in (self.head, self.body, self.reader):
            part.layout.width = "100%"
        box = w.VBox([self.head, bar, self.status, self.body, self.reader, self.keys])
        box.layout.max_width = "1200px"
        box.add_class("el-annotator")
        return box

    def _controls(self) -> list[Any]:
        """The bar: previous, a button for each label, next, the note."""
        import ipywidgets as w

        self.buttons = {
            word: w.Button(description=f"{word.capitalize()} ({key})", layout=w.Layout(width="150px"))
            for key, word in KEYS.items()
        }
        for word, button in self.buttons.items():
            button.on_click(lambda _, word=word: self.state.label(word))
        back, on = (w.Button(description=d, layout=w.Layout(width="100px")) for d in ("← previous", "next →"))
        back.on_click(lambda _: self.state.move(-1))
        on.on_click(lambda _: self.state.move(1))
        return [back, *self.buttons.values(), on, self.note]

    def refresh(self) -> None:
        """Show the state as it is now."""
        state, d = self.state, self.state.judgement
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


def head_html(state: EditLabels, d: Judgement, mine: str, blind: bool) -> str:
    """Which change this is, what it does, and the automatic judgement with its reasons."""
    reasons = "".join(f"<li>{escaped(r)}</li>" for r in d.reasons)
    automatic = f"<b>Automatic: {escaped(d.word)}</b><ul>{reasons}</ul>"
    if blind and not mine:
        automatic = "<b>Automatic: hidden until you have labelled it.</b>"
    return (
        '<div class="el-review"><div class="el-change">'
        f"<b>{state.current + 1} of {len(state.judgements)} · {escaped(d.id)} · {escaped(LAYER_FILES[d.layer])} · "
        f"round {escaped(d.outcome)} · your label: {escaped(mine or 'none yet')}</b>"
        f"<dl><dt>what</dt><dd>{escaped(d.what)}</dd><dt>why</dt><dd>{escaped(d.why)}</dd>"
        f"<dt>pattern</dt><dd>{escaped(d.pattern or 'none')}</dd></dl>{automatic}</div></div>"
    )


def body_html(d: Judgement, found: Material) -> str:
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


def material_of(run: Run, store: Store, judgements: Sequence[Judgement]) -> dict[str, Material]:
    """What there is to show of each change: files of parent and candidate, and the cited trials."""
    rounds = {(d.arm, d.round) for d in judgements}
    loaded = {
        (*key, n): found
        for key in rounds
        for found in evidences_of(run.round(*key), store)
        for n in range(found.first, found.first + len(found.changes))
    }
    made = {}
    for d in judgements:
        found, name = loaded[d.arm, d.round, d.change], LAYER_FILES[d.layer]
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
