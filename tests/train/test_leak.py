"""Facts of training tasks are caught in any spelling; honest rules with policy constants pass."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

pytest.importorskip("tau2")

from simlab import bench, trials

from ecdysis_lab.harness import diff_harness, load_harness
from ecdysis_lab.records import Message, Trajectory, Trial
from ecdysis_lab.train.leak import facts, leaks

DOMAINS = ("airline", "retail")
N = 20


def training(domain: str) -> list[Trajectory]:
    """Failed and passed trials of 20 training tasks."""
    return [*trials(domain, "sim/flawless", "empty", N), *trials(domain, "sim/small", "empty", N)]


@cache
def known(domain: str) -> dict[str, str]:
    b = bench(domain)
    said = b.policy + "\n".join(f"{t['description']} {t['parameters']}" for t in b.tools)
    return facts(training(domain), said, b)


def added(text: str, file: str = "actions.py") -> str:
    """A diff that adds these lines."""
    lines = text.splitlines()
    return f"--- a/{file}\n+++ b/{file}\n@@ -1,1 +1,{len(lines) + 1} @@\n same = 1\n" + "\n".join(
        "+" + line for line in lines
    )


@cache
def records(domain: str) -> list[Any]:
    """Every JSON object that a tool returned in training."""
    texts = [m.content or "" for t in training(domain) for m in t.messages if m.role == "tool"]
    return [json.loads(text) for text in texts if text[:1] in ("[", "{")]


def values(domain: str, key: str) -> list[Any]:
    """All values of a field in training results, in order, without repeats."""
    found: dict[str, Any] = {}

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for k, v in value.items():
                if k == key and not isinstance(v, (dict, list)):
                    found[str(v)] = v
                walk(v)
        elif isinstance(value, list):
            for v in value:
                walk(v)

    walk(records(domain))
    return list(found.values())


def user(domain: str, n: int = 0) -> dict[str, Any]:
    return [r for r in records(domain) if isinstance(r, dict) and "email" in r][n]


def person(domain: str, n: int = 0) -> tuple[str, str]:
    name = [r["name"] for r in records(domain) if isinstance(r, dict) and "email" in r][n]
    return name["first_name"], name["last_name"]


def reservation(digits: bool) -> str:
    """A reservation id of training, with or without a digit in it."""
    return next(i for i in values("airline", "reservation_id") if any(c.isdigit() for c in i) == digits)


def leg() -> dict[str, Any]:
    flights = [f for r in records("airline") if isinstance(r, dict) for f in r.get("flights", [])]
    return next(f for f in flights if f["date"] not in bench("airline").policy)


def us(date: str) -> str:
    return f"{date[5:7]}/{date[8:]}/{date[:4]}"


def words(date: str) -> str:
    months = "January February March April May June July August September October November December".split()
    return f"{months[int(date[5:7]) - 1]} {int(date[8:])}"


def price(domain: str, decimals: bool) -> Any:
    """An amount of training that the policy does not name."""
    seen = [p for p in values(domain, "price") if (float(p) != int(p)) == decimals and float(p) > 100]
    return next(p for p in seen if str(p) not in bench(domain).policy)


def big() -> str:
    """A whole amount of at least 1000 that is not round, as an agent told it or a tool returned it."""
    return next(
        f
        for f, kind in known("airline").items()
        if kind == "amount" and f.isdigit() and len(f) == 4 and f[-2:] != "00"
    )


PLANTED: dict[str, tuple[str, Any]] = {
    "flight, date in words": ("airline", lambda: f"Take {leg()['flight_number']} of {words(leg()['date'])}."),
    "date of birth in US form": ("airline", lambda: f"born {us(user('airline')['dob'])}"),
    "first name": ("airline", lambda: f'if "{person("airline")[0]}" in text:\n    return Allow()'),
    "last name": ("airline", lambda: f"# customers like {person('airline')[1]} may change"),
    "name in lower case": ("airline", lambda: f'VIP = ["{person("airline")[0].lower()}"]'),
    "name inside an identifier": ("airline", lambda: f"def {person('airline')[0].lower()}_may_cancel(call):\n    pass"),
    "full name": ("airline", lambda: '"""Let {} {} through."""'.format(*person("airline", 1))),
    "retail name": ("retail", lambda: f"The customer {person('retail')[0]} is right."),
    "name of a passenger": ("airline", lambda: f'"{values("airline", "first_name")[-1]}"'),
    "e-mail": ("airline", lambda: f'EMAIL = "{user("airline")["email"]}"'),
    "e-mail in capitals": ("retail", lambda: f"# {user('retail')['email'].upper()}"),
    "user id": ("airline", lambda: f"if call.arguments['user_id'] == '{user('airline')['user_id']}':"),
    "user id in a text": ("retail", lambda: f"Profile {user('retail')['user_id'].title()} pays by card."),
    "reservation id": ("airline", lambda: f'if call.arguments["reservation_id"] == "{reservation(True)}":'),
    "reservation id without digits": ("airline", lambda: f'BOOKED = {{"{reservation(False)}"}}'),
    "reservation id in lower case": ("airline", lambda: f"# {reservation(True).lower()}: cancel it"),
    "order id": ("retail", lambda: f'"{values("retail", "order_id")[0]}"'),
    "order id without its sign": ("retail", lambda: f"order {values('retail', 'order_id')[1].lstrip('#')}"),
    "order id in lower case": ("retail", lambda: f"order {values('retail', 'order_id')[1].lower()}"),
    "payment id": ("airline", lambda: f"pay with {next(p for p in values('airline', 'payment_id') if 'card' in p)}"),
    "gift card": ("retail", lambda: f"'{next(p for p in values('retail', 'payment_method_id') if 'gift' in p)}'"),
    "item id": ("retail", lambda: f'NEW = ["{values("retail", "item_id")[0]}"]'),
    "product id": ("retail", lambda: f"product {values('retail', 'product_id')[0]}"),
    "street": ("retail", lambda: f"Ship it to {user('retail')['address']['address1']}."),
    "zip code": ("retail", lambda: f"zip = '{user('retail')['address']['zip']}'"),
    "date of birth": ("airline", lambda: f'dob == "{user("airline")["dob"]}"'),
    "flight": ("airline", lambda: f"return '{leg()['flight_number']}'"),
    "flight and date": ("airline", lambda: f'{{"flight_number": "{leg()["flight_number"]}", "date": "{leg()["date"]}"}}'),
    "flight in lower case, date in US form": ("airline", lambda: f"{leg()['flight_number'].lower()} on {us(leg()['date'])}"),
    "price": ("airline", lambda: f"total = {price('airline', False)} + bags"),
    "price in dollars": ("airline", lambda: f'"The fare is ${price("airline", False)}."'),
    "price with cents": ("retail", lambda: f"LIMIT = {price('retail', True)}"),
    "amount of four digits": ("airline", lambda: f"LIMIT = {big()}"),
    "amount with a separator": ("airline", lambda: f'"${int(big()):,}"'),
    "amount with zeros": ("airline", lambda: f"amount = {big()}.00"),
    "task id": ("airline", lambda: f"# fixes task {training('airline')[0].trial.task_id}"),
    "task id in an identifier": ("retail", lambda: f"TASK_ID = {training('retail')[0].trial.task_id}"),
}  # fmt: skip

HONEST: dict[str, tuple[str, str]] = {
    "24 hours": ("airline", 'HOURS = 24\n"""Cancel within 24 hours of booking."""'),
    "the current time": ("airline", 'NOW = "2024-05-15 15:00:00"'),
    "today in words": ("airline", "Today is May 15, 2024."),
    "bag fee": ("airline", "FEE = 50  # USD per extra bag"),
    "insurance": ("airline", "total += 30 * len(passengers)  # $30 insurance a passenger"),
    "certificate for a cancelled flight": ("airline", 'amount = 100 * n\n"Certificate of $100 times the passengers."'),
    "certificate for a delay": ("airline", '"A certificate of $50 times the number of passengers."'),
    "five passengers": ("airline", "if len(call.arguments['passengers']) > 5:\n    return Refuse(a, b)"),
    "free bags": ("airline", 'FREE = {"regular": (0, 1, 2), "silver": (1, 2, 3), "gold": (2, 3, 4)}'),
    "cabins": ("airline", 'CABINS = ("basic_economy", "economy", "business")'),
    "payment mix": ("airline", "at most one travel certificate, one credit card, and three gift cards"),
    "form of a reservation id": ("airline", r're.fullmatch(r"[A-Z0-9]{6}", text.strip("#").upper())'),
    "form of a flight number": ("airline", r'found = re.fullmatch(r"HAT\d{3}", text)'),
    "form of a date": ("airline", 'HINT = "Dates as YYYY-MM-DD."'),
    "an example of a date": ("airline", f'"{us("2024-05-24")} -> 2024-05-24"'),
    "form of a payment id": ("airline", 'pattern = r"(credit_card|gift_card|certificate)_\\d{7}"'),
    "airports": ("airline", 'CODES = {"SFO": "san francisco", "JFK": "new york", "ORD": "chicago"}'),
    "repeat limit": ("airline", "if same >= 3:\n    return 'You made this call 3 times.'"),
    "lengths": ("airline", "text = text[:400]\nlines = lines[-120:]\nwidth = 110"),
    "policy years": ("airline", "year = 2024"),
    "claims": ("airline", 'CLAIM = r"\\b(done|has been|successfully)\\b"'),
    "cancel reasons": ("airline", 'REASONS = ["change of plan", "airline cancelled flight", "other reasons"]'),
    "retail reasons": ("retail", 'REASONS = ("no longer needed", "ordered by mistake")'),
    "retail statuses": ("retail", 'STATUS = {"pending", "processed", "delivered", "cancelled"}'),
    "form of an order id": ("retail", r're.fullmatch(r"#W\d{7}", text)'),
    "gift card refund": ("retail", '"Gift cards are refunded at once, other methods in 5 to 7 business days."'),
    "refund days": ("retail", "refund_days = (5, 7)"),
    "one call": ("retail", '"Collect all items and make one call; it can only be made once."'),
    "50 product types": ("retail", '"There are 50 types of products."'),
    "zip form": ("retail", r'text.partition("-")[0] if re.fullmatch(r"\d{5}-\d{4}", text) else text'),
    "country": ("retail", 'COUNTRY = {"united states": "USA", "us": "USA"}'),
    "identify the user": ("retail", "Authenticate by e-mail, or by name and zip code, even when the user id is given."),
    "colours": ("retail", "brown, black, blue or red; 1000ml; size 10"),
    "ids by their length": ("retail", r'item = re.fullmatch(r"\d{10}", value)  # item ids have 10 digits'),
    "ordinary words": ("retail", "Let the user choose; a task may need 2 steps, task by task."),
    "error texts": ("retail", 'ERRORS = ("Order not found", "Non-pending order cannot be cancelled")'),
}  # fmt: skip


def test_there_are_thirty_of_each() -> None:
    assert len(PLANTED) >= 30
    assert len(HONEST) >= 30


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fact_is_caught(name: str) -> None:
    domain, make = PLANTED[name]
    found = leaks(added(make()), known(domain))
    assert found, f"not caught: {make()}"
    assert all(": " in f for f in found)


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_rule_passes(name: str) -> None:
    domain, text = HONEST[name]
    assert leaks(added(text), known(domain)) == []


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_policy_itself_passes(domain: str) -> None:
    assert leaks(added(bench(domain).policy), known(domain)) == []
    for tool in bench(domain).tools:
        assert leaks(added(tool["description"] + json.dumps(tool["parameters"])), known(domain)) == []


def test_the_human_harness_passes() -> None:
    """A thousand honest lines, examples in docstrings included."""
    whole = diff_harness(load_harness("empty"), load_harness("airline"))
    assert len(whole.splitlines()) > 300
    assert leaks(whole, known("airline")) == []


@pytest.mark.parametrize("domain", DOMAINS)
def test_facts_of_every_kind_are_known(domain: str) -> None:
    kinds = set(known(domain).values())
    own = {
        "airline": {"reservation id", "flight", "date"},
        "retail": {"order id", "item or product id", "zip code"},
    }
    shared = {"user id", "payment id", "e-mail", "person", "full name", "address", "amount", "task id"}
    assert shared | own[domain] <= kinds
    told = {fact for fact, kind in known(domain).items() if kind != "task id"}
    assert not told & {"50", "30", "2024-05-15", "credit_card"}
    assert ("brown" in told) == (domain == "airline"), "a colour of retail items"


def test_a_date_counts_beside_its_flight() -> None:
    flight, date = leg()["flight_number"], leg()["date"]
    assert leaks(added(f"{date} or {us(date)}"), known("airline")) == []
    assert leaks(added(f"{flight} on {us(date)}"), known("airline")) == [f"date: {date}", f"flight: {flight}"]


def test_only_added_lines_count() -> None:
    name = person("airline")[0]
    diff = f"--- a/{name}.py\n+++ b/{name}.py\n@@ -1 +1 @@\n {name}\n-{name}\n+nobody\n"
    assert leaks(diff, known("airline")) == []
    assert leaks(diff + f"+{name}\n", known("airline")) == [f"person: {name}"]


def test_a_part_of_a_longer_word_is_no_fact() -> None:
    ident, order = reservation(True), values("retail", "order_id")[0].lstrip("#")
    assert leaks(added(f"X{ident}Y {ident}7"), known("airline")) == []
    assert leaks(added(f"{order}9"), known("retail")) == []
    first = person("airline")[0]
    assert leaks(added(f"{first}xyz"), known("airline")) == []


def test_every_fact_is_caught_as_it_stands() -> None:
    """No fact that is collected escapes the search for it (amounts beside a word of money)."""
    for domain in DOMAINS:
        lost = [
            fact
            for fact, kind in known(domain).items()
            if kind != "date"
            and f"{kind}: {fact}"
            not in leaks(added(f"{'task' if kind == 'task id' else 'price'} {fact}"), known(domain))
        ]
        assert lost == []


def test_imported_task_ids_and_plain_text_users() -> None:
    """Task ids that are words, and facts that only the user said."""
    trial = Trial("x", "1", "mobile-data-issue", "train", "m", "u", "h", 0)
    said = "I am Ada Novak, ada_novak_1234, order #W7654321, and I paid $1,286.50 on June 3rd 2024."
    found = facts(
        [Trajectory(trial, "scored", 0.0, "", {}, (Message("user", said),))], "Pay in time.", bench()
    )
    assert found["mobile-data-issue"] == "task id"
    assert {"ada_novak_1234", "W7654321", "1286.5", "2024-06-03", "Ada", "novak"} <= set(found)
    assert leaks(added("# see mobile-data-issue"), found) == ["task id: mobile-data-issue"]
    assert leaks(added("total = 1_286.50"), found) == ["amount: 1286.5"]
