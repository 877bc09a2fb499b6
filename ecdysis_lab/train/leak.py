"""The leak gate: no fact of a training task may enter the harness.

Facts are ids, persons, e-mail and street addresses, birth dates, flights with their dates, and amounts that occur in
training trajectories and neither in the policy nor in the tool descriptions. They are read from the JSON of calls and
results by field name, and from texts by their form. A diff is searched in any spelling that a model gives them: ids
and names in any case, dates as ISO, US or words, amounts with or without separators.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ecdysis_lab.records import Trajectory

FORMS: dict[str, re.Pattern[str]] = {
    "order id": re.compile(r"#?\bW\d{7}\b"),
    "user id": re.compile(r"\b(?!credit_card|gift_card)[a-z]+_[a-z]+_\d{4}\b"),
    "payment id": re.compile(r"\b(?:credit_card|gift_card|certificate|paypal)_\d{4,}\b"),
    "item or product id": re.compile(r"\b\d{10}\b"),
    "tracking id": re.compile(r"\b\d{12}\b"),
    "e-mail": re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.]*\w"),
    "flight": re.compile(r"\bHAT\d{3}\b"),
    "reservation id": re.compile(r"\b(?!HAT\d{3}\b)(?=[A-Z0-9]*\d)(?=[A-Z0-9]*[A-Z])[A-Z0-9]{6}\b"),
    "date": re.compile(r"\b\d{4}-\d{2}-\d{2}\b"),
    "amount": re.compile(r"[$€£] ?(\d[\d,]*(?:\.\d+)?)"),
}
FIELDS: dict[str, str] = {
    **dict.fromkeys(("reservation_id", "reservations"), "reservation id"),
    **dict.fromkeys(("order_id", "orders"), "order id"),
    **dict.fromkeys(("payment_id", "payment_method_id"), "payment id"),
    **dict.fromkeys(("first_name", "last_name"), "person"),
    **dict.fromkeys(("address1", "address2"), "address"),
    **dict.fromkeys(("price", "prices", "amount", "balance", "total"), "amount"),
    "user_id": "user id",
    "email": "e-mail",
    "zip": "zip code",
    "dob": "date of birth",
}
CASELESS = (
    "order id",
    "user id",
    "payment id",
    "e-mail",
    "flight",
    "reservation id",
    "address",
    "full name",
    "task id",
)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
SPOKEN_DATE = re.compile(
    rf"(?i)\b({'|'.join(MONTHS)})[a-z]*\.? (\d{{1,2}})(?:st|nd|rd|th)?(?:,? (\d{{4}}))?(?![\w:])"
)
US_DATE = re.compile(r"\b(\d{1,2})/(\d{1,2})/(\d{4})\b")
NUMBER = re.compile(r"(?<![\w.#-])(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d+)?(?![\w.]*\w)")
MONEY = re.compile(
    r"(?i)[$€£]|(?<![a-z])(usd|dollars?|amounts?|prices?|totals?|pay\w*|paid|refund\w*|fees?|fares?|costs?|charge[sd]?|balance)(?![a-z])"
)
TASK = re.compile(r"(?i)\btask(?:[\s_-]*id)?s?\W{0,4}(\d+)\b")


def facts(trajectories: Iterable[Trajectory], known: str) -> dict[str, str]:
    """Facts of training tasks: text -> kind, without what ``known`` (policy and tool texts) says.

    Parameters
    ----------
    trajectories : training trajectories, failed and passed. known : what a harness may say.
    """
    found: dict[str, str] = {}
    plain: list[str] = []
    for trajectory in trajectories:
        if trajectory.trial.task_id.isdigit() or len(trajectory.trial.task_id) > 3:
            found[trajectory.trial.task_id] = "task id"
        for message in trajectory.messages:
            plain.append(message.content or "")
            found.update(_in_text(plain[-1]))
            found.update(_in_json(_parsed(plain[-1])))
            for call in message.calls:
                found.update(_in_json(call.arguments))
                found.update(_in_text(json.dumps(call.arguments, ensure_ascii=False)))
    found.update(dict(_persons(found)))
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
    flights = any(kind == "flight" for kind, _ in found)  # a date alone may be an example of its form
    return sorted(f"{kind}: {fact}" for kind, fact in found if kind != "date" or flights)


class _Said:
    """What a text says, ready to be asked for many facts."""

    def __init__(self, text: str) -> None:
        self.text, self.lower = text, text.lower()
        self.dates = set(FORMS["date"].findall(text)) | set(_dates(text))
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
        where, what = (self.lower, fact.lower()) if kind in CASELESS else (self.text, fact)
        if what not in where:
            return False
        edge = "A-Za-z" if kind == "person" else r"\w"
        return re.search(rf"(?<![{edge}]){re.escape(what)}(?![{edge}])", where) is not None


def _plain_number(text: str) -> str:
    """``"1,286.00"`` as ``"1286"``, ``"47.50"`` as ``"47.5"``."""
    whole, _, cents = text.replace(",", "").replace("_", "").partition(".")
    cents = cents.rstrip("0")
    return f"{whole}.{cents}" if cents else whole


def _numbers(text: str) -> Iterator[str]:
    """Numbers of a text; ``100,200`` may be one number or a list of two."""
    for found in NUMBER.findall(text):
        yield _plain_number(found)
        yield from (map(_plain_number, found.split(",")) if "," in found else ())


def _dates(text: str) -> Iterator[str]:
    """Dates written as 05/20/2024 or May 20th, as ISO; ``*-05-20`` where the year is left out."""
    for month, day, year in US_DATE.findall(text):
        yield f"{year}-{int(month):02d}-{int(day):02d}"
    for month, day, year in SPOKEN_DATE.findall(text):
        yield f"{year or '*'}-{MONTHS.index(month[:3].lower()) + 1:02d}-{int(day):02d}"


def _in_text(text: str) -> Iterator[tuple[str, str]]:
    for kind, form in FORMS.items():
        for found in form.findall(text):
            yield (_plain_number(found) if kind == "amount" else found.lstrip("#")), kind
    yield from ((date, "date") for date in _dates(text) if not date.startswith("*"))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text) if text[:1] in "[{" else None
    except ValueError:
        return None


def _in_json(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """Facts by field name; values below ``prices`` belong to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _in_json(inner, key if key in FIELDS or FIELDS.get(field) != "amount" else field)
    elif isinstance(value, list):
        for inner in value:
            yield from _in_json(inner, field)
    elif field in FIELDS and not isinstance(value, bool) and value is not None:
        kind, text = FIELDS[field], str(value).strip().lstrip("#")
        text = _plain_number(text.lstrip("-")) if kind == "amount" else text
        if len(text) > 1 and (kind != "amount" or re.fullmatch(r"[\d.]+", text)):
            yield text, kind


def _persons(found: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Names out of user ids, in both cases; a name of two letters counts only beside the other one."""
    names = {fact for fact, kind in found.items() if kind == "person"}
    for user in (fact for fact, kind in found.items() if kind == "user id"):
        parts = user.lower().split("_")[:2]
        names |= {part.capitalize() for part in parts}
        yield " ".join(parts), "full name"
    for name in names:
        if len(name) > 2:
            yield from ((name, "person"), (name.lower(), "person"))
