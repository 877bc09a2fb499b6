"""What the editors with a model share: the spec as text, the staging folder, and the candidate made of it."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ecdysis_lab.harness import copy_harness, diff_harness, load_harness
from ecdysis_lab.harness.source import FILES, SHIPPED, Harness
from ecdysis_lab.records import Candidate, Change, Spec, Usage
from ecdysis_lab.review.context import EVIDENCE_FILE
from ecdysis_lab.review.debate import prompt
from ecdysis_lab.review.evidence import CHARS_PER_TOKEN, tokens
from ecdysis_lab.store.foreign import clean
from ecdysis_lab.store.run import Run

SPEC_FILE, CONTRACT_FILE, REJECTED_FILE = "SPEC.md", "CONTRACT.md", "REJECTED.diff"
MAX_FILE_BYTES = 1_000_000
NOTE_TOKENS = 30  # for the sentence about a cut
NOTES = 20  # dropped paths that are named


@dataclass(frozen=True)
class Edit:
    """What an editor did to a harness, before it becomes a candidate.

    Parameters
    ----------
    files : name -> bytes of the hook files and harness.toml afterwards.
    usage : consumption. notes : what was dropped or denied.
    failure : why the edit is unusable, or an empty string; then the candidate is a copy of the parent.
    """

    files: Mapping[str, bytes]
    usage: Usage
    notes: tuple[str, ...] = ()
    failure: str = ""


def contract() -> str:
    """The harness contract that an editor reads."""
    return (SHIPPED / "README.md").read_text(encoding="utf-8")


def render_spec(spec: Spec, feedback: str = "") -> str:
    """The spec as Markdown.

    Parameters
    ----------
    spec : what to change; without changes the editor is asked to find them, behind its patterns or, where it names
        none, behind one failure.
    feedback : a gate's reason against an earlier candidate, or an empty string.
    """
    unreviewed = "undebated" if spec.patterns else "undebated_alone"
    parts = ["# Changes to make"] if spec.changes else [prompt(unreviewed)]
    parts += [_change(n, change) for n, change in enumerate(spec.changes, 1)]
    sections = {
        "Patterns behind them": spec.patterns,
        "Considered and rejected; do not make these": spec.rejected,
        "Notes": (spec.notes,) if spec.notes else (),
    }
    parts += [f"# {title}\n" + _bullets(lines) for title, lines in sections.items() if lines]
    if feedback:
        parts.append(
            "# A gate rejected the last candidate\n"
            f"{feedback}\n\n{REJECTED_FILE} is what it changed; the harness here is without it. "
            "Make the changes so that this reason no longer holds."
        )
    return "\n\n".join(parts) + "\n"


def _change(n: int, change: Change) -> str:
    lines = [f"## {n}. {change.file} ({change.layer})", "", f"What: {change.what}"]
    lines += [f"Why: {change.why}"] if change.why else []
    lines += [f"Evidence: {', '.join(change.evidence)}"] if change.evidence else []
    lines += [f"Rule in short: `{json.dumps(change.guard, sort_keys=True)}`"] if change.guard else []
    lines += ["Must still allow:", _bullets(change.must_still_allow)] if change.must_still_allow else []
    return "\n".join(lines)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def raw_files(harness: Harness) -> dict[str, bytes]:
    """The bytes of a harness's files, as its hash was taken."""
    return {name: (harness.path / name).read_bytes() for name in harness.files}


def reading(spec: Spec, feedback: str = "", evidence: Mapping[str, str] | None = None) -> dict[str, str]:
    """The files that an editor gets beside the harness, text by name: the spec, the contract, the evidence."""
    return {SPEC_FILE: render_spec(spec, feedback), CONTRACT_FILE: contract(), **(evidence or {})}


def within(evidence: Mapping[str, str], spec: Spec, room_tokens: int) -> dict[str, str]:
    """The evidence cut to a size, every cut said in its file: trials go first, cited ones last; then the files' ends.

    Parameters
    ----------
    evidence : text by file name. spec : whose evidence is kept longest. room_tokens : for all files.
    """
    kept = dict(evidence)
    if EVIDENCE_FILE in kept and _excess(kept, room_tokens):
        head, *trials = re.split(r"^(?=## trial )", kept[EVIDENCE_FILE], flags=re.MULTILINE)
        room = (
            room_tokens
            - sum(map(tokens, [head, *(kept[n] for n in kept if n != EVIDENCE_FILE)]))
            - NOTE_TOKENS
        )
        cited = tuple(f"## trial {e.partition('#')[0]}" for c in spec.changes for e in c.evidence)
        fit: set[int] = set()
        for n in sorted(range(len(trials)), key=lambda n: not trials[n].startswith(cited)):
            if tokens(trials[n]) <= room:
                room -= tokens(trials[n])
                fit.add(n)
        left_out = f"(left out: {len(trials) - len(fit)} of {len(trials)} trials, for lack of room)\n"
        kept[EVIDENCE_FILE] = "".join([left_out, head, *(trials[n] for n in sorted(fit))])
    for name, text in kept.items():
        if excess := _excess(kept, room_tokens):
            most = max(len(text) - (excess + NOTE_TOKENS) * CHARS_PER_TOKEN, 0)
            kept[name] = (
                f"(left out: the last {len(text) - most} characters, for lack of room)\n{text[:most]}"
            )
    return kept


def _excess(texts: Mapping[str, str], room_tokens: int) -> int:
    return max(sum(map(tokens, texts.values())) - room_tokens, 0)


def stage(parent: Harness, given: Mapping[str, str], folder: Path) -> None:
    """Fill a new folder with the harness's files and those that an editor reads, and nothing else."""
    folder.mkdir()
    for name, data in raw_files(parent).items():
        (folder / name).write_bytes(data)
    for name, text in given.items():
        (folder / name).write_bytes(text.encode())


def collect(folder: Path, given: Mapping[str, str]) -> tuple[dict[str, bytes], list[str]]:
    """What an editor left in the staging folder.

    Parameters
    ----------
    folder : the staging folder. given : what was put there to be read.

    Returns
    -------
    The files that count, and a note for everything else that it wrote, which is dropped.
    """
    files: dict[str, bytes] = {}
    notes: list[str] = []
    for path in sorted(folder.rglob("*")):
        name = clean(path.relative_to(folder).as_posix())
        if path.is_dir() and not path.is_symlink():
            continue
        found = _plain(path)
        if isinstance(found, str):
            notes.append(f"dropped {name}: {found}")
        elif name in FILES:
            files[name] = found
        elif name not in given:
            notes.append(f"dropped {name}: a harness has only {', '.join(FILES)}")
        elif found != given[name].encode():
            notes.append(f"dropped the change to {name}: the editor may not edit it")
    more = [f"dropped {len(notes) - NOTES} more paths"] if len(notes) > NOTES else []
    return files, notes[:NOTES] + more


def _plain(path: Path) -> bytes | str:
    """The bytes of a plain file of its own, or what it is instead; nothing else is opened, since that may block."""
    try:
        entry = os.lstat(path)
        if stat.S_ISLNK(entry.st_mode):
            return "a link"
        if not stat.S_ISREG(entry.st_mode):
            return "not a plain file"
        if entry.st_nlink > 1:
            return "a hard link"
        if entry.st_size > MAX_FILE_BYTES:
            return f"{entry.st_size} bytes; at most {MAX_FILE_BYTES} are read"
        return path.read_bytes()
    except OSError as why:
        return f"cannot be read ({why.strerror})"


def candidate(parent: Harness, edit: Edit, out: Path, editor: str) -> Candidate:
    """The candidate in ``out`` (new or empty); after a failure nothing of the edit is kept.

    Raises
    ------
    LabError: ``out`` already holds something.
    """
    copy_harness(parent, out)
    if not edit.failure:
        for name in parent.files.keys() - edit.files.keys():
            (out / name).unlink()
        for name, data in edit.files.items():
            (out / name).write_bytes(data)
    child = load_harness(out)
    changed = child.files != parent.files
    removed = [f"removed {name}" for name in sorted(parent.files.keys() - child.files.keys())]
    return Candidate(
        path=out,
        hash=child.hash,
        parent=parent.hash,
        diff=diff_harness(parent, child),
        editor=editor,
        outcome="failed" if edit.failure else "edited" if changed else "no_change",
        usage=edit.usage,
        notes=(*([edit.failure] if edit.failure else []), *removed, *edit.notes),
    )


def keep_transcript(out: Path, lines: Sequence[str], secret: str | None = None) -> Path:
    """Write the editor's transcript beside the candidate's folder, as ``<candidate>.editor.jsonl``.

    Parameters
    ----------
    out : the candidate's folder. lines : JSON texts. secret : a key; a server may echo it, the file never does.
    """
    text = scrub("".join(f"{line}\n" for line in lines), secret)
    return Run(out.parent).write_text(f"{out.name}.editor.jsonl", text)


def scrub(text: str, secret: str | None) -> str:
    """The text without a key."""
    return text.replace(secret, "[key]") if secret else text
