"""The editor that is one model call: search/replace blocks, applied by exact match, with one repair turn."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.source import FILES, Harness
from ecdysis_lab.models import (
    HAND,
    MODEL_FORMS,
    Budget,
    ContentError,
    ModelParams,
    check_model,
    complete,
    refused,
)
from ecdysis_lab.records import Candidate, LabError, Spec, Usage
from ecdysis_lab.review.debate import prompt
from ecdysis_lab.review.editors import staging
from ecdysis_lab.review.spec import printable

REPAIR = "Your blocks could not be applied, and none was:\n{why}\n\nAnswer again with all blocks, corrected."
REPAIR_CHARS = 40_000  # of the unusable answer that the model gets to see again
MAX_ANSWER_CHARS = 400_000
CUT_OFF = "the answer was cut off at the model's output limit"
OPENING = re.compile(r"<{5,9} SEARCH(?:[ \t]+(\S+))?[ \t]*")
DIVIDER, CLOSING = re.compile(r"={5,9}[ \t]*"), re.compile(r">{5,9} REPLACE\b.*")
NOTHING = re.compile(r"NO CHANGE\.?", re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    """One edit: whole lines of a file and what replaces them; no ``search`` lines create or append."""

    file: str
    search: tuple[str, ...]
    replacement: tuple[str, ...]


class LiteLLMEditor:
    """Asks any LiteLLM model once for edit blocks, and once more when they do not apply.

    Parameters
    ----------
    model : LiteLLM name.
    api_base : URL of one's own server; overrides that of ``params``.
    params : sampling parameters (temperature 0 and 600 s by default).
    budget : shared budget of the run.

    Raises
    ------
    LabError: no model, an unknown one, or its key is not set.
    """

    name = "litellm"

    def __init__(
        self,
        model: str = "",
        api_base: str | None = None,
        params: ModelParams | None = None,
        budget: Budget | None = None,
    ) -> None:
        if not model:
            raise LabError(f"editor litellm: model is not set; give {MODEL_FORMS}")
        params = params or ModelParams(timeout_seconds=600.0)
        self.params = replace(params, api_base=api_base) if api_base else params
        self.model, self.budget = model, budget
        check_model(model, self.params)

    def edit(self, harness: Path, spec: Spec, out: Path, feedback: str = "") -> Candidate:
        """Edit a copy of the harness once; the conversation is kept beside ``out`` as ``<out>.editor.jsonl``.

        Parameters
        ----------
        harness : folder of the current harness. spec : what to change. out : folder to create.
        feedback : a gate's reason against an earlier candidate.

        Raises
        ------
        ecdysis_lab.models.calls.PermanentError, TransientError, BudgetExceeded: the model cannot be asked.
        LabError: ``out`` already holds something, or an answer by hand that cannot be applied.
        """
        parent = load_harness(harness)
        messages, edit = self._ask(parent, _messages(parent, spec, feedback))
        staging.keep_transcript(out, [json.dumps(m) for m in messages])
        return staging.candidate(parent, edit, out, self.name)

    def _ask(
        self, parent: Harness, messages: list[dict[str, Any]]
    ) -> tuple[list[dict[str, Any]], staging.Edit]:
        """The conversation and the edit; of two unusable answers the second gives the reason."""
        files, usage, why = dict(parent.files), Usage(), ""
        for _ in range(2):
            try:
                answer = complete("editor", self.model, messages, params=self.params, budget=self.budget)
            except ContentError as error:
                return messages, staging.Edit(
                    {}, usage + error.usage, (), f"the model did not answer: {error}"
                )
            usage += answer.usage
            text = printable(answer.text or "")
            messages = [*messages, {"role": "assistant", "content": text}]
            try:
                edited = apply(_whole(text, answer.finish), files)
            except ValueError as error:
                why = str(error)
                if self.model == HAND:
                    raise refused("editor", messages[:-1], why) from None
            else:
                return messages, staging.Edit(_raw(parent, edited), usage)
            shown = {"role": "assistant", "content": text[:REPAIR_CHARS] or "(empty)"}
            messages = [*messages[:-1], shown, {"role": "user", "content": REPAIR.format(why=why)}]
        return messages[:-1], staging.Edit({}, usage, (), f"the blocks cannot be applied: {why}"[:2000])


def _messages(parent: Harness, spec: Spec, feedback: str) -> list[dict[str, Any]]:
    sources = [f"# File {name}\n```\n{text}```" for name, text in parent.files.items()]
    empty = [f"# Files that do not exist yet\n{', '.join(n for n in FILES if n not in parent.files)}"]
    parts = [f"# {staging.CONTRACT_FILE}\n{staging.contract()}", *sources, *empty]
    parts.append(f"# {staging.SPEC_FILE}\n{staging.render_spec(spec, feedback)}")
    return [
        {"role": "system", "content": f"{prompt('editor')}\n\n{prompt('editor_blocks')}"},
        {"role": "user", "content": "\n\n".join(parts)},
    ]


def _raw(parent: Harness, edited: dict[str, str]) -> dict[str, bytes]:
    """Bytes of the edited files; those that no block touched keep theirs."""
    before = staging.raw_files(parent)
    return {
        name: before[name] if parent.files.get(name) == text else text.encode()
        for name, text in edited.items()
    }


def _whole(text: str, finish: str) -> list[Block]:
    """The blocks of an answer that came to its end.

    Raises
    ------
    ValueError: it was cut off, or as in :func:`parse`.
    """
    if finish == "length":
        raise ValueError(f"{CUT_OFF}; of {len(text)} characters nothing was applied")
    return parse(text)


def parse(answer: str) -> list[Block]:
    """The blocks of an answer in order; text around them (fences, prose) is skipped. ``NO CHANGE`` gives none.

    Raises
    ------
    ValueError: no block, one without a file name, or one that does not end.
    """
    if len(answer) > MAX_ANSWER_CHARS:
        raise ValueError(f"the answer has {len(answer)} characters, more than {MAX_ANSWER_CHARS}")
    blocks: list[Block] = []
    lines = iter(_lines(answer.replace("\r\n", "\n")))
    for line in lines:
        opened = OPENING.fullmatch(line)
        if opened is None:
            continue
        if opened[1] not in FILES:
            raise ValueError(f"a block names {opened[1]!r}; the files are {', '.join(FILES)}")
        search = _until(lines, DIVIDER, opened[1], "=======")
        blocks.append(Block(opened[1], search, _until(lines, CLOSING, opened[1], ">>>>>>> REPLACE")))
    if not blocks and not NOTHING.fullmatch(answer.strip()):
        raise ValueError("there is no block in the answer; each starts with `<<<<<<< SEARCH file`")
    return blocks


def _until(lines: Any, end: re.Pattern[str], file: str, name: str) -> tuple[str, ...]:
    taken: list[str] = []
    for line in lines:
        if end.fullmatch(line):
            return tuple(taken)
        if OPENING.fullmatch(line):
            break
        taken.append(line)
    raise ValueError(f"a block of {file} has no line `{name}`")


def apply(blocks: list[Block], files: dict[str, str]) -> dict[str, str]:
    """The files after all blocks; ``files`` stays as it is.

    Raises
    ------
    ValueError: a SEARCH text does not occur, or more than once, or a changed file is no Python; all are named.
    """
    after, wrong = dict(files), []
    for n, block in enumerate(blocks, 1):
        lines = _lines(after.get(block.file, ""))
        size, search = len(block.search), list(block.search)
        if not any(line.strip() for line in search):
            gap = ["", ""] if lines and block.file.endswith(".py") else []
            after[block.file] = _text([*lines, *gap, *block.replacement])
            continue
        places = [i for i in range(len(lines) - size + 1) if lines[i : i + size] == search]
        if len(places) != 1:
            found = f"occurs {len(places)} times" if places else "does not occur"
            wrong.append(
                f"- block {n}: its SEARCH text {found} in {block.file}: {search[0].strip()[:100]!r} …"
            )
            continue
        at = places[0]
        after[block.file] = _text([*lines[:at], *block.replacement, *lines[at + size :]])
    for name in [] if wrong else [n for n in after if n.endswith(".py") and after[n] != files.get(n)]:
        try:
            ast.parse(after[name])
        except (SyntaxError, ValueError, RecursionError, MemoryError) as why:
            wrong.append(f"- {name} would not be Python any more: {why}")
    if wrong:
        raise ValueError("\n".join(wrong))
    return after


def _lines(text: str) -> list[str]:
    """Lines by line feeds alone; ``splitlines`` would also cut at form feeds and the like."""
    return text.removesuffix("\n").split("\n") if text else []


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n" if lines else ""
