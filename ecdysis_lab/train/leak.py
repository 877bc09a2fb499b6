"""The leak gate: no fact of a training task may enter the harness.

Facts are what the benchmark says of a task (``Benchmark.facts``), without what stands in the policy or in the tool
descriptions. A diff is searched in any spelling that a model gives them: ids and names in any case, dates as ISO, US
or words, amounts with or without separators.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from ecdysis_lab.benchmarks.hidden import findings, plain
from ecdysis_lab.benchmarks.spelling import dates, plain_number
from ecdysis_lab.records import Benchmark, Trajectory
from ecdysis_lab.train.folding import folded
from ecdysis_lab.train.wildcards import spells

HIDING = ("hidden character", "look-alike letter", "constant expressions")
"""How findings begin that are no facts but hide what a change says."""
ISO_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
NUMBER = re.compile(r"(?<![\w.#-])(?:\d{1,3}(?:,\d{3})+|\d[\d_]*+)(?:\.\d++)?+(?![\w.]*\w)")
MONEY = re.compile(
    r"(?i)[$€£]|(?<![a-z])(usd|dollars?|amounts?|prices?|totals?|pay\w*|paid|refund\w*|fees?|fares?|costs?|charge[sd]?|balance)(?![a-z])"
)
_SEPARATORS = re.compile(r"[^\w\n]+|_")
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


def leaks(
    diff: str,
    known_facts: dict[str, str],
    before: Mapping[str, str] | None = None,
    after: Mapping[str, str] | None = None,
) -> list[str]:
    """Facts that a change says, each as ``"kind: text"``, and characters that hide what it says; empty when clean.

    Constants are folded first: what joins, slices, escapes, sums and patterns come to is looked through as well.

    Parameters
    ----------
    diff : unified diff. known_facts : what :func:`facts` found.
    before, after : sources of both sides by file name; without them the added lines are folded by themselves.
    """
    lines = {name: "\n".join(text) for name, text in _added(diff).items()}
    added = "\n".join(lines.values())
    texts, patterns, whole = _made_of(before or {}, lines if after is None else after)
    made = "\n".join(text for text in texts if text not in added)
    said = _Said("\n".join(dict.fromkeys([added, plain(added), made, plain(made)])))
    found = [
        (kind, fact)
        for fact, kind in known_facts.items()
        if said.holds(fact, kind, money_only=True)
        or said.spells(fact, kind)
        or any(spells(pattern, fact) for pattern in patterns if not kind.startswith(("date", "amount")))
    ]
    others = any(kind != "date" for kind, _ in found)  # a date alone may be an example of its form
    hidden = {what for _, what in findings(added)}
    hidden |= set() if whole else {"constant expressions that are too large to look through"}
    return sorted({f"{kind}: {fact}" for kind, fact in found if kind != "date" or others} | hidden)


def _added(diff: str) -> dict[str, list[str]]:
    """Added lines by file."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in diff.split("\n"):
        if line.startswith("+++ "):
            name = line[4:].removeprefix("b/")
        elif line.startswith("+"):
            found.setdefault(name, []).append(line[1:])
    return found


def _made_of(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[list[str], list[str], bool]:
    """What the constants of the new sources come to and the old ones did not: texts, patterns, whether that is all.

    A number stands behind the words of its line, so that it can be seen what it counts.
    """
    texts: list[str] = []
    patterns: list[str] = []
    whole = True
    for name, source in after.items():
        old, new = folded(before.get(name, "")), folded(textwrap.dedent(source))
        lines = textwrap.dedent(source).split("\n")
        known = {text for _, text in old.texts}
        for at, text in new.texts:
            if text not in known:
                words = " ".join(re.findall(r"[A-Za-z_]+", lines[at - 1])) if NUMBER.fullmatch(text) else ""
                texts.append(f"{words} {text}".lstrip() if text not in lines[at - 1] else text)
        patterns += [pattern for pattern in new.patterns if pattern not in old.patterns]
        whole = whole and (new.whole or not old.whole)
    return texts, patterns, whole


class _Said:
    """What a text says, ready to be asked for many facts."""

    def __init__(self, text: str) -> None:
        self.text, self.lower = text, text.lower()
        self.dates = set(ISO_DATE.findall(text)) | set(dates(text))
        self.numbers = set(_numbers(text))
        self.money = set(_numbers("\n".join(line for line in text.splitlines() if MONEY.search(line))))
        self.tasks = set(TASK.findall(text))
        self.compact = "\n".join(_SEPARATORS.sub("", line) for line in self.lower.split("\n"))

    def holds(self, fact: str, kind: str, money_only: bool = False) -> bool:
        """Whether the fact is said; with ``money_only`` a small or round number counts beside a word of money only."""
        if kind.startswith("date"):
            return fact in self.dates or f"*{fact[4:]}" in self.dates
        if kind == "amount":
            telling = "." in fact or (
                len(fact) > 3
                and not fact.endswith("00")
                and not (len(fact) == 4 and "1900" <= fact <= "2100")
            )
            return fact in (self.money if money_only and not telling else self.numbers)
        if kind == "task id" and fact.isdigit():
            return fact in self.tasks
        where, what = (self.text, fact) if kind == "person" else (self.lower, fact.lower())
        if what not in where:
            return False
        edge = "A-Za-z" if kind == "person" else r"\w"
        return re.search(rf"(?<![{edge}]){re.escape(what)}(?![{edge}])", where) is not None

    def spells(self, fact: str, kind: str) -> bool:
        """Whether an id is said with separators, backwards, or without the letter before its digits."""
        if kind.startswith(("date", "amount", "person")) or sum(map(str.isdigit, fact)) < 4 or len(fact) < 7:
            return False
        bare = _SEPARATORS.sub("", fact.lower())
        digits = re.fullmatch(r"[a-z]?(\d{6,})", bare)
        forms = {bare, digits[1] if digits else bare}
        edges = ((self.lower, "[a-z0-9]"), (self.compact, r"\d"))
        return any(
            re.search(rf"(?<!{edge}){re.escape(form)}(?!{edge})", where)
            for form in (*forms, *(form[::-1] for form in forms))
            for where, edge in edges
            if form in where
        )


def _numbers(text: str) -> Iterator[str]:
    """Numbers of a text; ``100,200`` may be one number or a list of two."""
    for found in NUMBER.findall(text):
        yield plain_number(found)
        yield from (map(plain_number, found.split(",")) if "," in found else ())
