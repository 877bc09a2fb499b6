"""How far the two engines of DBBench agree, with AgentBench and with each other; not a test, prints a table.

    python tests/benchmarks/dbbench.py --agentbench PATH [--json] [--seed 0] [--per-table 5] [--show 20]

``hashes``: gold writes on SQLite against AgentBench's own hashes. ``gold_reads``: gold questions on both engines,
and how many of their answers are the label. ``engine_agreement``: statements as agents write them
(``dbbench_queries``) on both engines; two answers agree when the agent would see the same rows (in order where
ORDER BY decides it) or the same text of an error. ``seconds_per_trial``: opening, three statements, scoring, closing.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import dbbench_queries

from ecdysis_lab.benchmarks.agentbench.engine import Answer, Engine, Table
from ecdysis_lab.benchmarks.agentbench.mariadb import MariaEngine
from ecdysis_lab.benchmarks.agentbench.scoring import kind_of, official_hash, same_answer, table_hash
from ecdysis_lab.benchmarks.agentbench.sqlite import SqliteEngine

_NAMES = re.compile(r"ecdysis_[0-9a-f]{16}|dbbench")
_ACCOUNTS = re.compile(r"'[^']*'@'[^']*'")
Record = dict[str, Any]


def records(folder: Path) -> Iterator[Record]:
    """The tasks of a clone's DBBench, and those that ship."""
    shipped = Path(__file__).parents[2] / "ecdysis_lab/benchmarks/agentbench/own/dbbench.jsonl"
    for path in (folder / "dev.jsonl", folder / "standard_200.jsonl", shipped):
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                yield {**json.loads(line), "file": path.stem}


def table_of(record: Record) -> Table:
    """The table of a task."""
    info = record["table"]["table_info"]
    rows = tuple(tuple(None if cell is None else str(cell) for cell in row) for row in info["rows"])
    return Table(record["table"]["table_name"], tuple(column["name"] for column in info["columns"]), rows)


def usable(table: Table) -> bool:
    """Whether MySQL can hold the table: every column has a name of its own, without a blank at its end."""
    names = [column.lower() for column in table.columns]
    return all(name == name.rstrip() != "" for name in names) and len(set(names)) == len(names)


def gold_of(record: Record) -> str:
    """The gold statement of a task."""
    if kind_of(record) == "SELECT":
        return str(record["sql"]["query"] if isinstance(record["sql"], dict) else record["sql"])
    label = record["label"]
    return str(label[0] if isinstance(label, list) else label)


def seen(answer: Answer, ordered: bool) -> Any:
    """What of an answer counts: the error, or the rows as the agent reads them."""
    if answer.error:
        return _ACCOUNTS.sub("ACCOUNT", _NAMES.sub("DATABASE", answer.error))
    rows = [tuple(_NAMES.sub("DATABASE", _cell(value)) for value in row) for row in answer.rows]
    return rows if ordered else sorted(rows)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def hashes(tasks: list[Record], engine: Engine) -> dict[str, Any]:
    """Gold writes against the official hashes."""
    writes = [task for task in tasks if kind_of(task) != "SELECT" and "answer_md5" in task]
    unequal = []
    for task in writes:
        database = engine.open(table_of(task))
        database.execute(gold_of(task))
        if table_hash(database.rows(table_of(task).name) or ()) != official_hash(task):
            unequal.append(f"{task['file']}: {gold_of(task)[:100]}")
        database.close()
    return {"tasks": len(writes), "equal": len(writes) - len(unequal), "unequal": unequal}


def gold_reads(tasks: list[Record], engines: dict[str, Engine]) -> dict[str, Any]:
    """Gold questions on the engines."""
    counts: collections.Counter[str] = collections.Counter()
    reads = [task for task in tasks if kind_of(task) == "SELECT"]
    for task in reads:
        answers = {}
        for name, engine in engines.items():
            database = engine.open(table_of(task))
            answers[name] = database.execute(gold_of(task))
            database.close()
            values = [cell for row in answers[name].rows for cell in row]
            counts[f"label_reached_{name}"] += not answers[name].error and same_answer(values, task["label"])
        counts["same"] += len({repr(seen(answer, False)) for answer in answers.values()}) == 1
    return {"tasks": len(reads), **counts}


def agreement(tasks: list[Record], engines: dict[str, Engine], seed: int, per_table: int) -> dict[str, Any]:
    """Statements as agents write them on both engines; a statement after a disagreement still counts."""
    kinds: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    different: list[dict[str, str]] = []
    tables = [table_of(task) for task in tasks]
    for kind, table, statements in dbbench_queries.conversations(tables, seed, per_table):
        databases = {name: engine.open(table) for name, engine in engines.items()}
        for sql in statements:
            ordered = bool(re.search(r"\bORDER\s+BY\b", sql, re.IGNORECASE)) and "LIMIT" not in sql
            answers = {name: database.execute(sql) for name, database in databases.items()}
            first, second = (seen(answer, ordered and " UNION " not in sql) for answer in answers.values())
            kinds[kind][0] += 1
            kinds[kind][1] += first == second
            if first != second:
                different.append(
                    {"kind": kind, "sql": sql, **{n: str(seen(a, ordered))[:300] for n, a in answers.items()}}
                )
        for database in databases.values():
            database.close()
    queries, agreed = (sum(count[place] for count in kinds.values()) for place in (0, 1))
    by_kind = {kind: {"queries": count[0], "agreed": count[1]} for kind, count in kinds.items()}
    return {
        "queries": queries,
        "agreed": agreed,
        "share": agreed / max(queries, 1),
        "kinds": by_kind,
        "different": different,
    }


def seconds(tasks: list[Record], engine: Engine) -> float:
    """Median over trials of what is outside the model: open, describe, gold, read, score, close."""
    times = []
    for task in tasks:
        table, began = table_of(task), time.perf_counter()
        database = engine.open(table)
        for sql in (f"DESCRIBE `{table.name}`", gold_of(task), f"SELECT * FROM `{table.name}` LIMIT 5"):
            database.execute(sql)
        table_hash(database.rows(table.name) or ())
        database.close()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--agentbench", default=os.environ.get("ECDYSIS_AGENTBENCH", ""), help="a clone of AgentBench"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--per-table", type=int, default=5)
    parser.add_argument("--show", type=int, default=0, help="how many disagreements to print")
    options = parser.parse_args()
    clone = Path(options.agentbench)
    folder = next((path for path in (clone / "dbbench", clone / "data/dbbench") if path.exists()), clone)
    every = list(records(folder))
    tasks = [task for task in every if usable(table_of(task))]
    engines: dict[str, Engine] = {"sqlite": SqliteEngine(), "mariadb": MariaEngine.started()}
    result: dict[str, Any] = {
        "tables": {"usable": len(tasks), "unusable": len(every) - len(tasks)},
        "hashes": hashes(tasks, engines["sqlite"]),
        "gold_reads": gold_reads(tasks, engines),
        "engine_agreement": agreement(tasks, engines, options.seed, options.per_table),
        "seconds_per_trial": {name: seconds(tasks[::3], engine) for name, engine in engines.items()},
    }
    different = result["engine_agreement"].pop("different")
    for item in different[: options.show]:
        print(*(f"{key}: {value}" for key, value in item.items()), "", sep="\n", file=sys.stderr)
    print(json.dumps(result, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
