"""Leaving changes out: which parts of a candidate's diff add nothing, and what each of the others gains and costs.

A change is a run of changed lines; a run that only adds is split where a paragraph begins at the left margin, so that
one rule, one function or one import is one change. A harness without it that breaks the static policy or the probe,
or that refuses or changes an act of a passing trial, shows that the change cannot be left out alone.

Where trials are noisy, the best of several reruns is the luckiest one. There a change goes only when no byte that the
model is shown depends on it, which a replay tells without a trial.
"""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from ecdysis_lab.harness import diff_harness, load_harness
from ecdysis_lab.harness.probe import probe
from ecdysis_lab.harness.replay import replay
from ecdysis_lab.harness.source import Harness, static_problems
from ecdysis_lab.train.judging import Judging, Rerun

TITLE_CHARS = 100


@dataclass(frozen=True)
class Piece:
    """Lines of a file in the parent and in the candidate; a change where they differ."""

    file: str
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether the candidate does something else here: comments and docstrings of a module are no change."""
        words = self.file.endswith(".py") and _words_only(self.old) and _words_only(self.new)
        return self.old != self.new and not words

    @property
    def title(self) -> str:
        """The first line that says something, for a reader."""
        lines = [line.strip() for line in (*self.new, *self.old)]
        said = [line for line in lines if line and not line.startswith(("#", "@", '"""'))]
        return ([*said, *filter(None, lines), ""][0])[:TITLE_CHARS]


def _words_only(lines: Sequence[str]) -> bool:
    try:
        body = ast.parse("".join(lines)).body
    except SyntaxError:
        return False
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)


def pieces_of(parent: Mapping[str, str], child: Mapping[str, str]) -> list[Piece]:
    """All files of two harnesses, in order, cut into what is common and what is changed.

    Parameters
    ----------
    parent, child : name -> text.
    """
    made: list[Piece] = []
    for file in sorted(parent.keys() | child.keys()):
        old, new = (files.get(file, "").splitlines(keepends=True) for files in (parent, child))
        for _, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if a == b:
                made += (Piece(file, (), block) for block in _paragraphs(new[c:d]))
            else:
                made.append(Piece(file, tuple(old[a:b]), tuple(new[c:d])))
    return made


def _paragraphs(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Added lines in blocks that begin at the left margin after an empty line."""
    block: list[str] = []
    for line in lines:
        if block and not block[-1].strip() and re.match(r"\S", line) and any(text.strip() for text in block):
            yield tuple(block)
            block = []
        block.append(line)
    if block:
        yield tuple(block)


def without(pieces: Sequence[Piece], left_out: set[int], empty: Container[str] = ()) -> dict[str, str]:
    """The files without some changes.

    Parameters
    ----------
    pieces : of all files. left_out : positions of the changes that go. empty : files that are there without a line,
        too; any other is not.
    """
    files: dict[str, str] = {}
    for i, piece in enumerate(pieces):
        lines = piece.old if i in left_out else piece.new
        files[piece.file] = files.get(piece.file, "") + "".join(lines)
    return {name: text for name, text in files.items() if text or name in empty}


class Pruning:
    """Leaves each change of a candidate out in turn.

    Parameters
    ----------
    judging : of a candidate that every other gate let through. folder : for harnesses that are tried; removed again.
    """

    def __init__(self, judging: Judging, folder: Path) -> None:
        self.judging, self.folder = judging, folder
        self.pieces = pieces_of(judging.parent.files, judging.child.files)
        self.both = judging.parent.files.keys() & judging.child.files.keys()
        self.harness, self.trials = judging.child, list(judging.rerun.after)
        self.left_out: set[int] = set()
        self.kept: dict[int, dict[str, Any]] = {}

    @property
    def changes(self) -> list[int]:
        """Positions of the changes among the pieces."""
        return [i for i, piece in enumerate(self.pieces) if piece.changed]

    def run(self) -> None:
        """Leave out what adds nothing; what could not be left out alone is tried again while others go."""
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            waiting = self.changes
            while waiting:
                gone = len(self.left_out)
                waiting = [i for i in waiting if not self._tried(i)]
                if len(self.left_out) == gone:
                    break
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _tried(self, i: int) -> bool:
        """Whether a change could be left out to see; then it went, or its numbers are known."""
        harness = self._variant({*self.left_out, i})
        if harness is None:
            return False
        step = Judging(
            replace(self.judging.candidate, path=harness.path, hash=harness.hash),
            self.harness,
            self.trials,
            self.judging.bench,
            lambda *asked: self.judging.run(*asked),
            reuse=self.judging.reuse or self.judging.by_replay,
        )
        if self.judging.by_replay and step.changed:
            self.kept[i] = {"tasks": len(step.changed)}
            return True
        found = step.rerun.comparison
        if found.whole and found.after >= found.before and not any(t.faults for t in step.rerun.after):
            self.left_out.add(i)
            self.harness, self.trials = harness, list(step.rerun.after)
        else:
            self.kept[i] = self._numbers(step.rerun)
        return True

    def _numbers(self, rerun: Rerun) -> dict[str, Any]:
        """What a change does, from trials with it (before) and without it (after); ``faults`` are of the latter."""
        found = rerun.comparison
        shown = [
            sum(t.harness_tokens for t in trials) / max(len(trials), 1)
            for trials in (rerun.before, rerun.after)
        ]
        passing = [t for t in rerun.after if t.success and not t.reused_from]
        acts = [d for t in passing for d in replay(t, self.harness, self.judging.bench).differences]
        return {
            "gain": found.before - found.after,
            "lost": len(found.gained),
            "refused_legal": len(acts),
            "faults": sum(bool(t.faults) for t in rerun.after),
            "tokens": round(shown[0] - shown[1]),
        }

    def _variant(self, left_out: set[int]) -> Harness | None:
        """The harness without these changes, or None where it is none."""
        folder = self.folder / "-".join(map(str, sorted(left_out)))
        shutil.rmtree(folder, ignore_errors=True)  # tried before
        write(without(self.pieces, left_out, self.both), folder)
        harness = load_harness(folder)
        task = self.judging.before[0].trial.task_id
        sound = not static_problems(harness) and probe(harness, self.judging.bench, task) is None
        return harness if sound and self._lawful(harness) else None

    def _lawful(self, harness: Harness) -> bool:
        """Whether no hook breaks in a replay of a passing trial, and none of its acts is refused or changed."""
        replays = (replay(t, harness, self.judging.bench) for t in self.judging.before if t.success)
        return not any(r.differences or r.faults for r in replays)

    def settle(self, out: Path) -> None:
        """Judge the pruned candidate from now on, in the folder ``out``."""
        judging = self.judging
        shutil.rmtree(out, ignore_errors=True)
        write(without(self.pieces, self.left_out, self.both), out)
        harness = load_harness(out)
        candidate = replace(
            judging.candidate, path=out, hash=harness.hash, diff=diff_harness(judging.parent, harness)
        )
        reused = [t for t in self.trials if t.reused_from]
        judging.settle(candidate, Rerun(judging.before, self.trials, len(reused)), reused)

    def told(self) -> list[dict[str, Any]]:
        """Every change with what became of it, in the order of the files."""
        return [
            {
                "file": self.pieces[i].file,
                "change": self.pieces[i].title,
                "outcome": "left out"
                if i in self.left_out
                else "kept"
                if i in self.kept
                else "not separable",
                **self.kept.get(i, {}),
            }
            for i in self.changes
        ]


def write(files: Mapping[str, str], folder: Path) -> None:
    """Write the files of a harness into a new folder."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
