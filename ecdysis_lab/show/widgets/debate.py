"""One review to read: the debate turn by turn, the spec, what was dropped, and the evidence behind each claim.

Everything a model or a trajectory wrote is escaped. References ``trial#step`` are links to that step of the trace
further down the same page, so they work in a live notebook and in an exported HTML file alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ecdysis_lab.failures.transcript import steps
from ecdysis_lab.models import HAND
from ecdysis_lab.records import Change, Edit, LabError, Review, Trajectory
from ecdysis_lab.show.widgets.assets import Page
from ecdysis_lab.show.widgets.trace import escaped, trace_html
from ecdysis_lab.store import Round, Run, Store

REFERENCE = re.compile(r"\b([0-9a-f]{8})[0-9a-f]*\s*#\s*(\d{1,6})\b")
MOST_TRACES = 40
TURN_CHARS = 20_000  # of one turn on the page; the rest is counted
ROLES = ("analyst", "critic", "engineer", "moderator", "single")  # each with a colour in style.css


@dataclass
class _Links:
    """Which traces are on the page, and the names of their steps; ``mark`` keeps several pages apart."""

    mark: str
    traces: Mapping[str, Trajectory]

    def step(self, key: str, step: int) -> str:
        return f"{self.mark}-{key}-{step}"

    def trace(self, key: str) -> str:
        return f"{self.mark}-{key}"

    def linked(self, text: str) -> str:
        """Escaped text whose references to traces on the page are links."""
        out, at = [], 0
        for found in REFERENCE.finditer(text):
            key, step = found[1], int(found[2])
            out.append(escaped(text[at : found.start()]))
            out.append(self._link(key, step, found[0]) if key in self.traces else escaped(found[0]))
            at = found.end()
        return "".join([*out, escaped(text[at:])])

    def _link(self, key: str, step: int, text: str) -> str:
        block = _block_of(self.traces[key], step)
        opened = f"var d=document.getElementById('{self.trace(key)}');if(d)d.open=true"
        return f'<a href="#{self.step(key, block)}" onclick="{opened}">{escaped(text)}</a>'


def show_review(
    run: Run | Path | str, round: int, *, arm: str = "ecdysis", store: Store | None = None
) -> Page:
    """The review of one round as a page: transcript, spec, dropped changes with reasons, and the cited traces.

    Parameters
    ----------
    run : run folder. round : from 1. arm : which arm of the run.
    store : where the trials are; by default ``trials.sqlite`` beside the runs. Without it references are plain text.

    Returns
    -------
    An object that shows itself in a notebook; ``html`` holds the page fragment.

    Raises
    ------
    LabError: the run has no such review; those it has are listed.
    """
    found = Run.of(run).round(arm, round)
    review, debate, edits = found.review, found.debate(), found.edits
    if review is None and debate is None and edits is not None:
        return Page(f'<div class="el-review">{_one_by_one(found, edits)}</div>')
    if review is None and debate is None:
        have = [r.name for r in found.run.rounds() if r.debate()]
        raise LabError(
            f"run {found.run.run_id} has no review of round {round} of arm {arm!r}; "
            f"it has {', '.join(have) or 'none'}"
        )
    turns = review.turns if review else tuple((str(r), str(t)) for r, t in (debate or {})["turns"])
    traces = _traces(found, review, turns, store)
    links = _Links(re.sub(r"\W", "-", f"el-{arm}-{round}"), traces)
    whose = ", answered by hand" if (debate or {}).get("model") == HAND else ""
    parts = [f"<h3>Debate{whose}</h3>{_debate(turns, links)}", _outcome(review, links), _evidence(links)]
    return Page(f'<div class="el-review">{"".join(parts)}</div>')


def _one_by_one(round: Round, edits: Sequence[Edit]) -> str:
    """The arm that hands every failure to the editor by itself: what became of each, and what was said of it."""
    links, out = _Links("", {}), [f"<h3>{len(edits)} failures, each by itself</h3>"]
    for n, edit in enumerate(edits, 1):
        turns = (round.debate(n) or {"turns": []})["turns"]
        head = f"{n}. task {edit.task}: {edit.decision}" + (f" by {edit.gate}" if edit.gate else "")
        said = "".join(_said(str(role), str(text), links) for role, text in turns)
        out.append(f'<div class="el-change"><b>{escaped(head)}</b><p>{escaped(edit.reason)}</p>{said}</div>')
    return "".join(out)


def _traces(
    round: Round, review: Review | None, turns: Sequence[tuple[str, str]], store: Store | None
) -> dict[str, Trajectory]:
    """Short key -> trajectory of the cited trials, the spec's first."""
    keys = {f.key[:8]: f.key for f in round.failures or ()}
    changes = review.spec.changes if review and review.spec else ()
    texts = [e for c in changes for e in c.evidence] + [t for _, t in turns]
    cited = list(dict.fromkeys(m[1] for text in texts for m in REFERENCE.finditer(text) if m[1] in keys))
    root = round.run.root
    if store is None and not (root / "trials.sqlite").is_file():
        return {}
    found = (store or Store(root)).trajectories([keys[k] for k in cited[:MOST_TRACES]])
    return {t.key[:8]: t for t in found}


def _debate(turns: Sequence[tuple[str, str]], links: _Links) -> str:
    out, rounds, closed = [], 0, False
    for role, text in turns:
        heading = ""
        if role == "analyst":
            rounds += 1
            heading = f"Round {rounds} of the debate"
        elif role == "moderator":
            heading, closed = "Close, asked again" if closed else "Close", True
        out.append(f"<h4>{heading}</h4>" if heading else "")
        name = "Reviewer" if role == "single" else role.capitalize()
        look = f"el-turn el-{role}" if role in ROLES else "el-turn"
        said = _said(role, text, links)
        out.append(f'<div class="{look}"><b>{escaped(name)}</b>{said}</div>')
    return "".join(out)


def _said(role: str, text: str, links: _Links) -> str:
    shown = links.linked(text[:TURN_CHARS])
    if len(text) > TURN_CHARS:
        shown += f"\n… {len(text) - TURN_CHARS:,} more characters"
    if role == "moderator":  # the spec below says the same, readably
        return f'<details><summary>the answer as it was given</summary><pre class="el-json">{shown}</pre></details>'
    return f"<pre>{shown or '(nothing)'}</pre>"


def _outcome(review: Review | None, links: _Links) -> str:
    if review is None:
        return "<h3>Spec</h3><p>The debate is not finished.</p>"
    spec = review.spec
    if spec is None:
        return f"<h3>Spec</h3><p>No spec: {links.linked(review.reason)}</p>"
    changes = "".join(_change(n, c, links) for n, c in enumerate(spec.changes, 1))
    dropped = "".join(_dropped(what, why, links) for what, why in spec.dropped)
    lists = _list("Considered and rejected", spec.rejected, links) + _list("Patterns", spec.patterns, links)
    notes = _list("Notes", [spec.notes] if spec.notes else [], links)
    parts = [f"<h3>Spec: {len(spec.changes)} changes</h3>", changes]
    parts += ["<h3>Dropped in validation</h3>", dropped or "<p>Nothing.</p>", lists, notes]
    return "".join(parts)


def _change(n: int, change: Change, links: _Links) -> str:
    rows = [
        _row("why", change.why, links),
        _row("pattern", "" if change.pattern is None else f"P{change.pattern}", links),
        _row("evidence", ", ".join(change.evidence), links),
        _row("must still allow", "; ".join(change.must_still_allow), links),
        _row("guard", json.dumps(change.guard, ensure_ascii=False) if change.guard else "", links),
    ]
    head = f"{n}. {escaped(change.file)}: {links.linked(change.what)}"
    return f'<div class="el-change"><b>{head}</b><dl>{"".join(rows)}</dl></div>'


def _dropped(what: str, why: str, links: _Links) -> str:
    reason = _row("dropped because", why, links)
    return f'<div class="el-change el-dropped"><b>{links.linked(what)}</b><dl>{reason}</dl></div>'


def _row(name: str, text: str, links: _Links) -> str:
    return f"<dt>{name}</dt><dd>{links.linked(text)}</dd>" if text else ""


def _list(title: str, lines: Sequence[str], links: _Links) -> str:
    items = "".join(f"<li>{links.linked(line)}</li>" for line in lines)
    return f"<h3>{title}</h3><ul>{items}</ul>" if items else ""


def _evidence(links: _Links) -> str:
    if not links.traces:
        return "<h3>Evidence</h3><p>No trace of the cited trials is at hand; keep a run beside its trials.sqlite.</p>"
    blocks = []
    for key, trajectory in links.traces.items():
        head = f"trial {key} · task {trajectory.trial.task_id} · {trajectory.trial.model}"
        box = f'<div class="el-box">{_with_names(trace_html(trajectory), key, links)}</div>'
        blocks.append(f'<details id="{links.trace(key)}"><summary>{escaped(head)}</summary>{box}</details>')
    return f'<h3>Evidence: the cited traces</h3><div class="el-traces">{"".join(blocks)}</div>'


def _with_names(trace: str, key: str, links: _Links) -> str:
    """The trace with an id on the first block of each step; texts are escaped, so only our own markup matches."""
    named: set[str] = set()

    def name(found: re.Match[str]) -> str:
        first = found[1] not in named
        named.add(found[1])
        return f'{found[0]} id="{links.step(key, int(found[1]))}"' if first else found[0]

    return re.sub(r'data-step="(\d+)"', name, trace)


def _block_of(trajectory: Trajectory, step: int) -> int:
    """The step whose block shows a message: a result stands in the block of its call."""
    return next((s.index for s in steps(trajectory.messages) if s.result_index == step), step)
