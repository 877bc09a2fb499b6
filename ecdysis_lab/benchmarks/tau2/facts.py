"""What τ² messages show of their task: persons, ids, addresses, dates and amounts, by field name and by form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
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
    "user_id": "user id",
    "email": "e-mail",
    "zip": "zip code",
    "dob": "date of birth",
}
PHONE_FORMS: dict[str, re.Pattern[str]] = {
    "phone number": re.compile(r"\b\d{3}-\d{3}-\d{4}\b"),
    "customer id": re.compile(r"\bC\d{4}\b"),
    "line id": re.compile(r"\bL\d{4}\b"),
    "device id": re.compile(r"\bD\d{4}\b"),
    "bill id": re.compile(r"\bB(?:\d{4,8}|[0-9a-f]{8})\b"),
    "device number": re.compile(r"\b\d{15}\b"),
    "person": re.compile(r"\b(?:[Yy]ou are|I am|I'm|[Nn]ame is) ([A-Z][a-z]+ [A-Z][a-z]+)\b"),
    **{kind: FORMS[kind] for kind in ("e-mail", "date", "amount")},
}
PHONE_FIELDS: dict[str, str] = {
    "full_name": "person",
    **dict.fromkeys(("street", "address"), "address"),
    **dict.fromkeys(("total_due", "charge", "amount"), "amount"),
    "email": "e-mail",
    "zip_code": "zip code",
    "date_of_birth": "date of birth",
    "account_number_last_4": "payment id",
}
"""Telecom's own: the forms of its ids, and the fields that no form tells."""


def facts_of(
    messages: Iterable[Message],
    forms: Mapping[str, re.Pattern[str]] = FORMS,
    fields: Mapping[str, str] = FIELDS,
) -> dict[str, str]:
    """Facts in the JSON of calls and results by field name, and in texts by their form: text -> kind.

    Parameters
    ----------
    messages : what was said and done. forms : kind -> form of a domain. fields : field of its JSON -> kind.

    Returns
    -------
    A date is ISO. An amount has neither separators nor trailing zeros: ``"1286"``, ``"47.5"``.
    """
    found: dict[str, str] = {}
    for message in messages:
        text = message.content or ""
        found.update(_in_text(text, forms))
        found.update(_in_json(_parsed(text), fields))
        for call in message.calls:
            found.update(_in_json(call.arguments, fields))
            found.update(_in_text(json.dumps(call.arguments, ensure_ascii=False), forms))
    return found | dict(_persons(found))


def _in_text(text: str, forms: Mapping[str, re.Pattern[str]]) -> Iterator[tuple[str, str]]:
    for kind, form in forms.items():
        for found in form.findall(text):
            yield (plain_number(found) if kind == "amount" else found.lstrip("#")), kind
    yield from ((date, "date") for date in dates(text) if not date.startswith("*"))


def _parsed(text: str) -> Any:
    try:
        return parse_json(text) if text[:1] in ("[", "{") else None
    except ForeignText:
        return None


def _in_json(value: Any, fields: Mapping[str, str], field: str = "") -> Iterator[tuple[str, str]]:
    """Facts by field name; values below ``prices`` belong to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            below = key if key in fields or fields.get(field) != "amount" else field
            yield from _in_json(inner, fields, below)
    elif isinstance(value, list):
        for inner in value:
            yield from _in_json(inner, fields, field)
    elif field in fields and not isinstance(value, bool) and value is not None:
        kind, text = fields[field], str(value).strip().lstrip("#")
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
