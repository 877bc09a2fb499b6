"""Slips on DBBench.

``bare_names``, ``underscored_names``, ``more_columns`` and ``wrong_column`` are what a real 1.5B model did there
once it called at all (tests/benchmarks/real/README.md has the counts; its commonest failure, no call, is no slip here);
the others are expected of small models and were not seen yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ecdysis_lab.benchmarks.agentbench.desk import COMMIT, SQL
from ecdysis_lab.hooks import Call
from ecdysis_lab.models.sim.scene import Act, Scene, Slip, Wrong, changed, on

NAME = re.compile(r"`([^`]*)`")
BY_NUMBER = re.compile(
    r"CAST\((?:REPLACE\()?(`[^`]+`)(?:, ',', ''\))? AS \w+(?:\([\d,]+\))?\)|REPLACE\((`[^`]+`), ',', ''\) \+ 0"
)
NOT_TOTAL = re.compile(r"`[^`]+` <> 'Total' AND |WHERE `[^`]+` <> 'Total' (?!AND)")
CONDITION = re.compile(r"WHERE `([^`]+)` = ('(?:[^']|'')*')$")
THOUSANDS = re.compile(r"(?<=')(\d{1,3})((?:,\d{3})+)(?=')")
COLUMNS = re.compile(r"SELECT (`[^`]+`) FROM ")


def query_of(scene: Scene) -> str:
    """The gold statement."""
    return str(next((c.arguments["query"] for c in scene.plan if c.name == SQL), ""))


def rewritten(pattern: re.Pattern[str], new: str | Callable[[re.Match[str]], str]) -> Wrong:
    """The statement with every place of a pattern changed."""

    @on(SQL)
    def build(scene: Scene, call: Call | None) -> list[Act] | None:
        assert call is not None
        query = pattern.sub(new, call.arguments["query"])
        return changed(call, query=query) if query != call.arguments["query"] else None

    return build


def answered_from(pattern: re.Pattern[str], new: str | Callable[[re.Match[str]], str]) -> Wrong:
    """The statement changed so, and its values committed where they are others than the right ones."""

    @on(COMMIT)
    def build(scene: Scene, call: Call | None) -> list[Act] | None:
        assert call is not None
        query = pattern.sub(new, query_of(scene))
        rows = scene.read(SQL, {"query": query}) if query != query_of(scene) else None
        values = [str(value) for row in rows or [] for value in row]
        if not values or values == call.arguments["answers"]:
            return None
        return [Call(SQL, {"query": query}), *changed(call, answers=values)]

    return build


def _bare(name: re.Match[str]) -> str:
    return name[1] if re.search(r"\W", name[1]) else name[0]


def _underscored(name: re.Match[str]) -> str:
    return re.sub(r"\W+", "_", name[1]).strip("_") if re.search(r"\W", name[1]) else name[0]


@on(COMMIT)
def _more_columns(scene: Scene, call: Call | None) -> list[Act] | None:
    """The whole row where one of its values was asked for."""
    assert call is not None
    query = COLUMNS.sub("SELECT * FROM ", query_of(scene))
    rows = scene.read(SQL, {"query": query}) if query != query_of(scene) else None
    values = [str(value) for row in rows or [] for value in row]
    return [Call(SQL, {"query": query}), *changed(call, answers=values)] if values else None


@on(SQL)
def _wrong_column(scene: Scene, call: Call | None) -> list[Act] | None:
    """The value is looked for in another column, where it is not."""
    assert call is not None
    query = call.arguments["query"]
    found = CONDITION.search(query)
    if not found or not query.startswith("SELECT `"):
        return None
    other = next((name for name in re.findall(r"`([^`]+)`", query) if name != found[1]), found[1])
    tried = f"{query[: found.start()]}WHERE `{other}` = {found[2]}"
    return (
        changed(call, query=tried) if other != found[1] and scene.read(SQL, {"query": tried}) == [] else None
    )


def _nothing(scene: Scene, call: Call | None) -> list[Act] | None:
    """A commit of what the task says, before the change."""
    return [Call(COMMIT, {"answers": ["done"]})] if scene.writes else None


@on(COMMIT)
def _joined(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    answers = call.arguments["answers"]
    return changed(call, answers=[", ".join(answers)]) if len(answers) > 1 else None


@on(COMMIT)
def _sentence(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    answers = call.arguments["answers"]
    return changed(call, answers=[f"The answer is {', '.join(answers)}."]) if answers else None


SLIPS = (
    Slip("bare_names", "call", rewritten(NAME, _bare), r"backtick", form=True, share=0.5),
    Slip("underscored_names", "call", rewritten(NAME, _underscored), r"backtick", form=True, share=0.4),
    Slip("wrong_column", "call", _wrong_column, r"(which|what) column|DISTINCT", form=True, share=0.4),
    Slip("text_order", "call", answered_from(BY_NUMBER, lambda m: m[1] or m[2]),
         r"number.{0,60}text|text.{0,60}number", share=0.8),
    Slip("total_counted", "call", answered_from(NOT_TOTAL, ""),
         r"row of totals|total row", share=0.6),
    Slip("more_columns", "call", _more_columns, r"only the (values|column)", share=0.5),
    Slip("plain_numbers", "call", rewritten(THOUSANDS, lambda m: m[0].replace(",", "")),
         r"as the task writes|thousands", share=0.7),
    Slip("commit_first", "before_write", _nothing, r"(then|before|after).{0,40}commit|commit.{0,40}after", share=0.2),
    Slip("joined_answers", "call", _joined, r"one entry each.{0,80}never joined", quirk=True, share=0.6),
    Slip("answer_in_words", "call", _sentence, r"no words around", quirk=True, share=0.3),
)  # fmt: skip
