"""Whether two data folders hold the same results: every ``summary.json`` but for times and names.

    python tests/benchmarks/compare.py BEFORE AFTER [--renamed old=new ...]

A run is known by its settings (``config.json`` without what changes no result), so run ids may differ. ``--renamed``
maps keys of ``BEFORE`` to those of ``AFTER``. Exit code 1 when anything differs; harness hashes are listed apart, since
they change with the text of a harness file even where it does the same.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PASSING = re.compile(r"seconds|^commit$|^run_id$|^at$")
HASHES = re.compile(r"\.(harness|candidate|candidates|parent)(\.|\[|$)")


def plain(value: Any, renamed: dict[str, str]) -> Any:
    """A summary without what may differ from one start to the next, its keys by their new names."""
    if isinstance(value, dict):
        return {renamed.get(k, k): plain(v, renamed) for k, v in value.items() if not PASSING.search(k)}
    return [plain(v, renamed) for v in value] if isinstance(value, list) else value


def differences(old: Any, new: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(dotted name, old, new) of each leaf in which two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from differences(old.get(key, "(missing)"), new.get(key, "(missing)"), f"{name}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new)):
            yield from differences(a, b, f"{name}[{i}]")
    elif old != new:
        yield name, old, new


def summaries(folder: Path) -> dict[str, Any]:
    """Summary by what identifies its experiment."""
    found = {}
    for path in sorted(folder.rglob("summary.json")):
        made = json.loads(path.read_text())
        arms = ",".join(made["arms"])
        tasks = max(m["n_tasks"] for models in made["arms"].values() for m in models.values())
        found[f"{made['benchmark']} {arms} seed {made['seed']}, {tasks} test tasks"] = made
    return found


def main() -> int:
    """Print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--renamed", nargs="*", default=[], metavar="OLD=NEW")
    asked = parser.parse_args()
    renamed = dict(pair.split("=", 1) for pair in asked.renamed)
    before, after = summaries(asked.before), summaries(asked.after)
    wrong = 0
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            print(f"{name}: only {'before' if name in before else 'after'}")
            wrong += 1
            continue
        found = list(differences(plain(before[name], renamed), plain(after[name], {})))
        hashes = [d for d in found if HASHES.search(d[0])]
        rest = [d for d in found if d not in hashes]
        print(f"{name}: {len(rest)} differences, {len(hashes)} hashes of harnesses")
        print(
            *(f"  {where}: {str(a)[:70]} → {str(b)[:70]}" for where, a, b in rest),
            sep="\n",
            end="\n" if rest else "",
        )
        wrong += len(rest)
    return 1 if wrong or not before else 0


if __name__ == "__main__":
    sys.exit(main())
