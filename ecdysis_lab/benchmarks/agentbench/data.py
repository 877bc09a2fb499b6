"""Tasks of DBBench in AgentBench's record format: of a clone of AgentBench, or of the set that ships.

A file holds one JSON record a line. What is read of it: ``description`` (the question), ``add_description`` and
``evidence`` (what is said of the table), ``table``, ``type``, ``label`` (values of the answer, or the gold statement of
a write), ``answer_md5`` (of a write) and ``sql.query`` (gold statement of a question). A cell that is null is NULL;
AgentBench has none.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ecdysis_lab.benchmarks.agentbench.engine import Table
from ecdysis_lab.benchmarks.agentbench.scoring import Kind, kind_of, official_hash
from ecdysis_lab.records import LabError

PLACE = "ECDYSIS_AGENTBENCH"
OWN = Path(__file__).parent / "own" / "dbbench.jsonl"
FOLDERS = ("data/dbbench", "dbbench")
FILES = {"train": ("dev.jsonl",), "test": ("standard.jsonl", "standard_200.jsonl")}
"""Files of a clone by split; of several names the first that is there."""
KINDS = ("SELECT", "INSERT", "UPDATE")


@dataclass(frozen=True)
class Item:
    """One task with its gold.

    Parameters
    ----------
    id : ``"own-01"``, ``"dev-07"``, ``"standard-120"``: file and line. split : train or test.
    kind : what is asked for. text : what the agent reads. table : the whole database.
    gold : gold statement, empty where a question has none. label : values of the answer, or the gold statement.
    record : as it stands in the file.
    """

    id: str
    split: str
    kind: Kind
    text: str
    table: Table
    gold: str
    label: tuple[str, ...]
    record: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Items:
    """All tasks of a place by id, in order; ``digest`` is the SHA-256 of the files' bytes."""

    by_id: dict[str, Item]
    digest: str

    def drawn(self, split: str, n: int | None, seed: int, name: str) -> list[Item]:
        """Tasks of a split; ``n`` of them by seed with every kind as often as the others, as far as it has tasks.

        Raises
        ------
        LabError: unknown split, or more tasks than there are, or none, asked for.
        """
        if split not in ("train", "test", "all"):
            raise LabError(f"split: unknown {split!r}; choose one of train, test, all")
        items = [item for item in self.by_id.values() if split in (item.split, "all")]
        if n is None:
            return items
        if not 1 <= n <= len(items):
            raise LabError(f"n: {name} {split} has {len(items)} tasks, {n} were asked for")

        def luck(what: str) -> bytes:
            return hashlib.sha256(f"{name}:{split}:{seed}:{what}".encode()).digest()

        of_kind = [
            sorted((i.id for i in items if i.kind == kind), key=luck) for kind in sorted(KINDS, key=luck)
        ]
        turns = (ids[at] for at in range(len(items)) for ids in of_kind if at < len(ids))
        chosen = {taken for taken, _ in zip(turns, range(n))}
        return [item for item in items if item.id in chosen]


def read_items() -> Items:
    """The tasks of the clone that ``ECDYSIS_AGENTBENCH`` names, or those that ship.

    The shipped ones are halved: every second task of a kind is a test task.

    Raises
    ------
    LabError: there is no such clone, or a record is damaged; file, line and field are named.
    """
    place = os.environ.get(PLACE, "")
    if place:
        paths = clone_files(Path(place).expanduser())
        found = [item for split, path in paths.items() for item in _read(path, split)]
        files = [*paths.values()]
    else:
        found, files, seen = [], [OWN], dict.fromkeys(KINDS, 0)
        for item in _read(OWN, ""):
            seen[item.kind] += 1
            found.append(Item(**{**vars(item), "split": "train" if seen[item.kind] % 2 else "test"}))
    digest = hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files))
    return Items({item.id: item for item in found}, digest.hexdigest())


def clone_files(place: Path) -> dict[str, Path]:
    """Split -> file of a clone.

    Raises
    ------
    LabError: they are not there.
    """
    for folder in (place / name for name in FOLDERS):
        found = {
            s: next((p for n in names if (p := folder / n).is_file()), None) for s, names in FILES.items()
        }
        if all(found.values()):
            return {split: path for split, path in found.items() if path}
    raise LabError(
        f"{PLACE}: no clone of AgentBench at {place}; {' or '.join(FOLDERS)} must hold dev.jsonl and standard.jsonl"
    )


def _read(path: Path, split: str) -> Iterator[Item]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as why:
        raise LabError(f"{path}: cannot be read: {why}") from None
    stem, width = path.stem.partition("_")[0], len(str(len(lines)))
    for n, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _item(json.loads(line), f"{'own' if path == OWN else stem}-{n:0{width}d}", split)
            except json.JSONDecodeError as why:
                raise LabError(f"{path}, line {n}: no JSON ({why})") from None
            except _Damaged as why:
                raise LabError(f"{path}, line {n}: {why}") from None


class _Damaged(Exception):
    """What is wrong with a record; the message names the field."""


def _item(record: Any, name: str, split: str) -> Item:
    if not isinstance(record, dict):
        raise _Damaged("a record must be an object")
    if not _texts(record, "type"):
        raise _Damaged("type: is empty")
    kind = kind_of(record)
    label = _texts(record, "label")
    if not label or not (kind == "SELECT" or label[0].strip()):
        raise _Damaged("label: is empty")
    if kind != "SELECT":
        try:
            official_hash(record)
        except ValueError as why:
            raise _Damaged(f"answer_md5: {why}") from None
    gold = label[0] if kind != "SELECT" else _text(record.get("sql") or {}, "query", "")
    said = [f"{_text(record, key, '')}" for key in ("evidence", "add_description")]
    text = "\n".join([_text(record, "description"), *(part for part in said if part.strip())])
    return Item(name, split, kind, text, _table(record), gold, label, record)


def _table(record: dict[str, Any]) -> Table:
    table = record.get("table")
    info = table.get("table_info") if isinstance(table, dict) else None
    if not isinstance(table, dict) or not isinstance(info, dict):
        raise _Damaged("table: must hold table_name and table_info")
    columns, rows = info.get("columns"), info.get("rows")
    if not isinstance(columns, list) or not all(isinstance(c, dict) for c in columns) or not columns:
        raise _Damaged("table.table_info.columns: must be a list of objects with a name")
    if not isinstance(rows, list):
        raise _Damaged("table.table_info.rows: must be a list of rows")
    for at, row in enumerate(rows, 1):
        if not isinstance(row, list) or len(row) != len(columns):
            raise _Damaged(f"table.table_info.rows: row {at} must have {len(columns)} cells")
    cells = tuple(tuple(None if cell is None else str(cell) for cell in row) for row in rows)
    # MySQL has no column without a name; one of AgentBench's tables does.
    names = tuple(_text(c, "name") or f"column {n}" for n, c in enumerate(columns, 1))
    return Table(_text(table, "table_name"), names, cells)


def _text(record: Any, key: str, otherwise: str | None = None) -> str:
    value = record.get(key, otherwise) if isinstance(record, dict) else None
    if not isinstance(value, str):
        raise _Damaged(f"{key}: {'is missing' if value is None else f'must be a text, got {value!r:.60}'}")
    return value


def _texts(record: dict[str, Any], key: str) -> tuple[str, ...]:
    value = record.get(key)
    if value is None or not isinstance(value, list):
        raise _Damaged(f"{key}: {'is missing' if value is None else 'must be a list'}")
    return tuple(str(entry) for entry in value)
