"""``hand``: a model whose answers are files, so that any chat window, or a person, can play a review role or edit.

A prompt is written as ``<n>-<role>.prompt.md`` into the folder that is set; its answer is awaited beside it as
``<n>-<role>.answer.md``. A prompt is known again by its text, so the same command finds every answer that was given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from ecdysis_lab.models.answers import CHARACTERS_PER_TOKEN, prompt_estimate
from ecdysis_lab.records import Completion, LabError, Stopped, Usage
from ecdysis_lab.store.files import Folder, told, utf8
from ecdysis_lab.store.foreign import MAX_CHARS, clean

T = TypeVar("T")
HAND = "hand"
"""The model name."""
PLACE = "hand"
"""Folder of a run under which its prompts are written."""
REVIEWED, EDITED = "reviewed by hand", "edited by hand"
PROMPT, ANSWER = ".prompt.md", ".answer.md"
BETWEEN = "\n\n---\n\n"  # messages of one prompt
TALKERS = ("agent", "user")  # whose answers nobody could write by hand: dozens a trial
_folder: ContextVar[Path | None] = ContextVar("hand", default=None)


class Waiting(LabError, Stopped):
    """Answers by hand are awaited; the same command goes on once they are there.

    Parameters
    ----------
    answers : the files that are awaited, at least one.
    """

    def __init__(self, answers: Sequence[Path]) -> None:
        self.answers = tuple(answers)
        folder = Path(os.path.commonpath([path.parent for path in answers]))
        names = ", ".join(str(path.relative_to(folder)) for path in answers)
        super().__init__(
            f"waiting for {len(answers)} answer{'' if len(answers) == 1 else 's'} in {folder}: {names} (each prompt "
            f"lies beside it as *{PROMPT}); write the answer there, then run the same command again"
        )


@contextmanager
def folder(path: Path) -> Iterator[None]:
    """Prompts of this block go into a folder, and answers are looked for there."""
    before = _folder.set(path)
    try:
        yield
    finally:
        _folder.reset(before)


def in_turn(names: Iterable[str], work: Callable[[str], T]) -> dict[str, T]:
    """What ``work`` makes of each name; where one waits for an answer, the others go as far as they can before it ends.

    Raises
    ------
    Waiting: of all that wait.
    """
    done: dict[str, T] = {}
    waiting: list[Path] = []
    for name in names:
        try:
            done[name] = work(name)
        except Waiting as why:
            waiting += why.answers
    if waiting:
        raise Waiting(waiting)
    return done


def answer(role: str, messages: Sequence[dict[str, Any]]) -> Completion:
    """The answer that was written for a prompt. Tokens are estimated, the cost is unknown, and no budget is charged.

    Parameters
    ----------
    role : who is asked. messages : OpenAI chat messages with text.

    Raises
    ------
    Waiting: there is none yet; the prompt is in its file.
    LabError: no folder is set, an answer that is no UTF-8, or a role that is not played by hand.
    """
    if role in TALKERS:
        raise LabError(f"model {HAND!r} plays review roles and the editor, not the {role}")
    path = _awaited(role, messages)
    text = read_answer(path)
    if not text:
        raise Waiting([path])
    tokens = prompt_estimate({"messages": list(messages)}), len(text) // CHARACTERS_PER_TOKEN
    return Completion(text, (), (), HAND, Usage(1, *tokens, None, 0.0, 1))


def refused(role: str, messages: Sequence[dict[str, Any]], why: str) -> LabError:
    """The error that tells a person what is wrong with an answer; the file stays as it is."""
    return LabError(f"{_awaited(role, messages)}: {why}; mend this file, then run the same command again")


def provenance(reviewer: str, editor: str) -> tuple[str, ...]:
    """What a round's record says of a reviewer and an editor, by name: a note for each that was played by hand."""
    played = {REVIEWED: reviewer, EDITED: editor}
    return tuple(
        f"{note}: tokens are estimated, cost is unknown" for note, name in played.items() if name == HAND
    )


def played(notes: Iterable[str]) -> str:
    """The words for readers in the notes of records: ``"reviewed by hand, edited by hand"``, one of both, or none."""
    said = tuple(notes)
    return ", ".join(word for word in (REVIEWED, EDITED) if any(note.startswith(word) for note in said))


def read_answer(path: Path) -> str:
    """Text of an answer; empty where there is none, or nothing but white space in it.

    Raises
    ------
    LabError: it is no UTF-8.
    """
    with told(path):
        content = path.read_bytes() if path.is_file() else b""
    try:
        return clean(content.decode("utf-8-sig"), MAX_CHARS).strip()
    except UnicodeDecodeError as why:
        raise LabError(f"{path}: byte {why.start} is no UTF-8; save the file as UTF-8") from None


def prompts(path: Path) -> list[Path]:
    """Prompt files below a folder that have no answer yet, by name."""
    return [p for p in sorted(path.rglob(f"*{PROMPT}")) if not read_answer(answer_path(p))]


def answer_path(prompt: Path) -> Path:
    """Where the answer to a prompt file is awaited."""
    return prompt.with_name(prompt.name.removesuffix(PROMPT) + ANSWER)


def role_of(prompt: Path) -> str:
    """The role that a prompt file asks."""
    return prompt.name.removesuffix(PROMPT).partition("-")[2]


def _awaited(role: str, messages: Sequence[dict[str, Any]]) -> Path:
    """Where the answer is awaited; the prompt is written down where it is new."""
    where = _folder.get()
    if where is None:
        raise LabError(f"model {HAND!r} needs a run, in whose folder its prompts are written")
    text = BETWEEN.join(str(message["content"]) for message in messages)
    known = sorted(where.glob(f"[0-9]*-*{PROMPT}"))
    for path in known:
        if role_of(path) == role and path.read_bytes() == utf8(text):
            return answer_path(path)
    n = max((int(path.name.partition("-")[0]) for path in known), default=0) + 1
    return answer_path(Folder(where).write_text(f"{n:03d}-{role}{PROMPT}", text))
