"""What the editors with a model share: the spec as text, the staging folder, and the candidate made of it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ecdysis_lab.harness import copy_harness, diff_harness, load_harness
from ecdysis_lab.harness.source import FILES, SHIPPED, Harness
from ecdysis_lab.records import Candidate, Change, Spec, Usage
from ecdysis_lab.review.debate import prompt
from ecdysis_lab.review.spec import printable
from ecdysis_lab.store.run import Run

SPEC_FILE, CONTRACT_FILE = "SPEC.md", "CONTRACT.md"
MAX_FILE_BYTES = 1_000_000
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
    spec : what to change; without changes the editor is asked to find them.
    feedback : a gate's reason against an earlier candidate, or an empty string.
    """
    parts = ["# Changes to make"] if spec.changes else [prompt("undebated")]
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
            f"{feedback}\n\nMake the changes so that this reason no longer holds."
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


def stage(parent: Harness, spec: Spec, feedback: str, folder: Path) -> None:
    """Fill a new folder with the harness's files, SPEC.md and CONTRACT.md, and nothing else."""
    folder.mkdir()
    for name, data in raw_files(parent).items():
        (folder / name).write_bytes(data)
    (folder / SPEC_FILE).write_text(render_spec(spec, feedback), encoding="utf-8")
    (folder / CONTRACT_FILE).write_text(contract(), encoding="utf-8")


def collect(folder: Path, spec: Spec, feedback: str) -> tuple[dict[str, bytes], list[str]]:
    """What an editor left in the staging folder.

    Returns
    -------
    The files that count, and a note for everything else that it wrote, which is dropped.
    """
    files: dict[str, bytes] = {}
    notes: list[str] = []
    given = {SPEC_FILE: render_spec(spec, feedback), CONTRACT_FILE: contract()}
    for path in sorted(folder.rglob("*")):
        name = printable(path.relative_to(folder).as_posix())
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
