"""Tasks of AgentBench's OS interaction, read from a clone of AgentBench.

A clone has them in ``data/os_interaction`` (or ``os_interaction``): ``data/dev.json`` to train on, ``data/1`` to
``data/7`` to test on, and the scripts of each beside them in ``scripts``. A file holds one record or a list of them.
What is read of a record: ``description``, ``create.init`` (scripts that make the world), ``start`` (a script that the
agent's shell has run), ``evaluation.match`` (the answer) or ``evaluation.check`` (scripts, null for the gold script),
and the gold script ``example``. Ids are AgentBench's own: ``std-004-N11-00000``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecdysis_lab.benchmarks.agentbench.data import PLACE
from ecdysis_lab.records import LabError

FOLDERS = ("data/os_interaction", "os_interaction")
LANGUAGES = ("bash", "python")
GROUPS = {"dev": ("data/dev.json", "dev-001"), **{n: (f"data/{n}/*.json", f"std-00{n}") for n in "1234567"}}
"""Folder of scripts -> files of tasks, and what their ids begin with."""


@dataclass(frozen=True)
class Script:
    """A program of a task: ``language`` is one of ``LANGUAGES``."""

    language: str
    code: str

    def argv(self, *arguments: str) -> list[str]:
        """How it is started, with its arguments from ``$1`` on."""
        return ["python3", "-c", self.code, *arguments] if self.language == "python" else [
            "bash", "-c", self.code, "--", *arguments
        ]  # fmt: skip


@dataclass(frozen=True)
class Item:
    """One task with its gold.

    Parameters
    ----------
    id, split, text : as a task has them. init : run before it. start : run in the agent's shell, or empty.
    match : ``{"answer": text}`` or ``{"regex": pattern}``; empty where scripts check.
    check : scripts in order, None for the gold script. gold : how it is done; None where that is not told.
    """

    id: str
    split: str
    text: str
    init: tuple[Script, ...]
    start: str
    match: dict[str, Any]
    check: tuple[Script | None, ...]
    gold: Script | None


def read_items() -> tuple[dict[str, Item], str]:
    """Tasks by id of the clone that ``ECDYSIS_AGENTBENCH`` names, and the SHA-256 of all that was read.

    Raises
    ------
    LabError: there is none, or a record is damaged; file, number and field are named.
    """
    folder = _folder()
    items = {item.id: item for group in GROUPS for item in _group(folder, group)}
    return items, hashlib.sha256(repr(list(items.values())).encode()).hexdigest()


def _folder() -> Path:
    place = os.environ.get(PLACE, "")
    if not place:
        raise LabError(
            f"agentbench/os: needs a clone of AgentBench; name its folder by --agentbench or {PLACE}"
        )
    for name in FOLDERS:
        found = Path(place).expanduser() / name
        if (found / "data" / "dev.json").is_file() and (found / "scripts").is_dir():
            return found
    raise LabError(
        f"{PLACE}: no OS tasks of AgentBench at {place}; {' or '.join(FOLDERS)} must hold data/dev.json and scripts"
    )


def _group(folder: Path, group: str) -> Iterator[Item]:
    files, prefix = GROUPS[group]
    for path in sorted(folder.glob(files)):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as why:
            raise LabError(f"{path}: cannot be read: {why}") from None
        for n, record in enumerate(found if isinstance(found, list) else [found]):
            try:
                name = f"{prefix}-{path.stem}-{n:05d}"
                yield _item(record, name, "train" if group == "dev" else "test", folder / "scripts" / group)
            except _Damaged as why:
                raise LabError(f"{path}, record {n + 1}: {why}") from None


class _Damaged(Exception):
    """What is wrong with a record; the message names the field."""


def _item(record: Any, name: str, split: str, scripts: Path) -> Item:
    if not isinstance(record, dict) or not isinstance(record.get("description"), str):
        raise _Damaged("description: must be a text")
    rules = record.get("evaluation")
    if not isinstance(rules, dict) or not ("match" in rules or rules.get("check")):
        raise _Damaged("evaluation: must hold match or check")
    create = record.get("create")  # one of AgentBench's is a list, which it reads as nothing to do
    init = create.get("init", []) if isinstance(create, dict) else []
    gold = rules.get("example", record.get("example"))
    match = rules.get("match", {})
    match = _match(match) if "match" in rules else {}
    checks = () if "match" in rules else _several(rules["check"])
    start = _script(record["start"], scripts, "start").code if "start" in record else ""
    item = Item(
        name,
        split,
        record["description"],
        tuple(_script(part, scripts, "create.init") for part in _several(init)),
        start,
        match,
        tuple(part and _script(part, scripts, "evaluation.check") for part in checks),
        _script(gold, scripts, "example") if gold else None,
    )
    if None in item.check and item.gold is None:
        raise _Damaged("evaluation.example: is missing, and evaluation.check asks for it")
    return item


def _match(match: Any) -> dict[str, Any]:
    match = {"answer": match} if isinstance(match, str) else match
    if not isinstance(match, dict) or not any(isinstance(match.get(key), str) for key in ("answer", "regex")):
        raise _Damaged("evaluation.match: must hold answer or regex, a text")
    if "answer" not in match:
        try:
            re.compile(match["regex"])
        except re.error as why:
            raise _Damaged(f"evaluation.match.regex: {why}") from None
    elif not isinstance(match["answer"], str):
        raise _Damaged("evaluation.match.answer: must be a text")
    return match


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


def _script(value: Any, folder: Path, field: str) -> Script:
    if isinstance(value, str):
        return Script("bash", value)
    if not isinstance(value, dict) or not {"code", "file"} & set(value):
        raise _Damaged(f"{field}: must be a text, or hold code or file")
    language = value.get("language", "bash")
    if language not in LANGUAGES:
        raise _Damaged(f"{field}.language: unknown {language!r}; choose one of {', '.join(LANGUAGES)}")
    if "file" not in value:
        if not isinstance(value["code"], str):
            raise _Damaged(f"{field}.code: must be a text")
        return Script(language, value["code"])
    path = folder / str(value["file"])
    if not path.resolve().is_relative_to(folder.resolve()):
        raise _Damaged(f"{field}.file: {value['file']} lies outside of {folder}")
    try:
        return Script(language, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as why:
        raise _Damaged(f"{field}.file: {why}") from None
