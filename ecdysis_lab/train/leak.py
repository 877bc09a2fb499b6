"""The leak gate: no fact of a training task may enter the harness.

Facts are what the benchmark says of a task (``Benchmark.facts``), without what stands in the policy or in the tool
descriptions. A diff is searched in any spelling that a model gives them: ids and names in any case, dates as ISO, US
or words, amounts with or without separators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ecdysis_lab.benchmarks.spelling import dates, plain_number
from ecdysis_lab.records import Benchmark, Trajectory

ISO_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
NUMBER = re.compile(r"(?<![\w.#-])(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d+)?(?![\w.]*\w)")
MONEY = re.compile(
    r"(?i)[$€£]|(?<![a-z])(usd|dollars?|amounts?|prices?|totals?|pay\w*|paid|refund\w*|fees?|fares?|costs?|charge[sd]?|balance)(?![a-z])"
)
TASK = re.compile(r"(?i)\btask(?:[\s_-]*id)?s?\W{0,4}(\d+)\b")


def facts(trajectories: Iterable[Trajectory], known: str, benchmark: Benchmark) -> dict[str, str]:
    """Facts of training tasks: text -> kind, without what ``known`` (policy and tool texts) says.

    Parameters
    ----------
    trajectories : training trajectories, failed and passed. known : what a harness may say.
    benchmark : says which facts a task has.
    """
    found: dict[str, str] = {}
    plain: list[str] = []
    for trajectory in trajectories:
        task = trajectory.trial.task_id
        if task.isdigit() or len(task) > 3:
            found[task] = "task id"
        found.update(benchmark.facts(task, trajectory.messages))
        plain += [m.content or "" for m in trajectory.messages]
    ordinary = set(re.findall(r"(?<![\w.@])[a-z]{3,}(?!\w|@|\.\w)", "\n".join([known, *plain])))
    said = _Said(known)
    return {fact: kind for fact, kind in found.items() if fact not in ordinary and not said.holds(fact, kind)}


def leaks(diff: str, known_facts: dict[str, str]) -> list[str]:
    """Facts in the added lines of a diff, each as ``"kind: text"``; empty when clean.

    Parameters
    ----------
    diff : unified diff. known_facts : what :func:`facts` found.
    """
    added = "\n".join(
        line[1:] for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++")
    )
    said = _Said(added)
    found = [(kind, fact) for fact, kind in known_facts.items() if said.holds(fact, kind, money_only=True)]
    others = any(kind != "date" for kind, _ in found)  # a date alone may be an example of its form
    return sorted(f"{kind}: {fact}" for kind, fact in found if kind != "date" or others)


class _Said:
    """What a text says, ready to be asked for many facts."""

    def __init__(self, text: str) -> None:
        self.text, self.lower = text, text.lower()
        self.dates = set(ISO_DATE.findall(text)) | set(dates(text))
        self.numbers = set(_numbers(text))
        self.money = set(_numbers("\n".join(line for line in text.splitlines() if MONEY.search(line))))
        self.tasks = set(TASK.findall(text))

    def holds(self, fact: str, kind: str, money_only: bool = False) -> bool:
        """Whether the fact is said; with ``money_only`` a small or round number counts beside a word of money only."""
        if kind.startswith("date"):
            return fact in self.dates or f"*{fact[4:]}" in self.dates
        if kind == "amount":
            telling = "." in fact or (
                len(fact) > 3 and not fact.endswith("00") and not 1900 <= int(fact) <= 2100
            )
            return fact in (self.money if money_only and not telling else self.numbers)
        if kind == "task id" and fact.isdigit():
            return fact in self.tasks
        where, what = (self.text, fact) if kind == "person" else (self.lower, fact.lower())
        if what not in where:
            return False
        edge = "A-Za-z" if kind == "person" else r"\w"
        return re.search(rf"(?<![{edge}]){re.escape(what)}(?![{edge}])", where) is not None


def _numbers(text: str) -> Iterator[str]:
    """Numbers of a text; ``100,200`` may be one number or a list of two."""
    for found in NUMBER.findall(text):
        yield plain_number(found)
        yield from (map(plain_number, found.split(",")) if "," in found else ())
