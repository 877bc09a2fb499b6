"""What τ² messages show of their task: persons, ids, addresses, dates and amounts, by field name and by form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ecdysis_lab.benchmarks.spelling import dates, plain_number
from ecdysis_lab.records import Message
from ecdysis_lab.store.foreign import ForeignText, parse_json

FORMS: dict[str, re.Pattern[str]] = {
    "order id": re.compile(r"#?\bW\d{7}\b"),
    "user id": re.compile(r"\b(?!credit_card|gift_card)[a-z]+_[a-z]+_\d{4}\b"),
    "payment id": re.compile(r"\b(?:credit_card|gift_card|certificate|paypal)_\d{4,}\b"),
    "item or product id": re.compile(r"\b\d{10}\b"),
    "tracking id": re.compile(r"\b\d{12}\b"),
    "customer, line or bill id": re.compile(r"\b[BCL]\d{4}\b"),
    "phone number": re.compile(r"\b\d{3}-\d{3}-\d{4}\b"),
    "e-mail": re.compile(r"(?<![\w.+-])[.+-]*+(\w[\w.+-]*+@[\w-]+\.[\w.]*\w)"),
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
    **dict.fromkeys(("customer_id", "line_id", "bill_id"), "customer, line or bill id"),
    "user_id": "user id",
    "full_name": "full name",
    "phone_number": "phone number",
    "date_of_birth": "date of birth",
    "email": "e-mail",
    "zip": "zip code",
    "dob": "date of birth",
}


def facts_of(messages: Iterable[Message]) -> dict[str, str]:
    """Facts in the JSON of calls and results by field name, and in texts by their form: text -> kind.

    A date is ISO. An amount has neither separators nor trailing zeros: ``"1286"``, ``"47.5"``.
    """
    found: dict[str, str] = {}
    for message in messages:
        text = message.content or ""
        found.update(_in_text(text))
        found.update(_in_json(_parsed(text)))
        for call in message.calls:
            found.update(_in_json(call.arguments))
            found.update(_in_text(json.dumps(call.arguments, ensure_ascii=False)))
    return found | dict(_persons(found))


def _in_text(text: str) -> Iterator[tuple[str, str]]:
    for kind, form in FORMS.items():
        for found in form.findall(text):
            yield (plain_number(found) if kind == "amount" else found.lstrip("#")), kind
    yield from ((date, "date") for date in dates(text) if not date.startswith("*"))


def _parsed(text: str) -> Any:
    try:
        return parse_json(text) if text[:1] in ("[", "{") else None
    except ForeignText:
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
        text = plain_number(text.lstrip("-")) if kind == "amount" else text
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
