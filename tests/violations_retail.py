"""Illegal retail calls on real database rows, each beside its nearest legal neighbour.

Every case breaks one line of the retail policy while the environment accepts the call. Rows are found by
what they are (status, items, payment); nothing here repeats a task of the benchmark.
``PYTHONPATH=. python tests/violations_retail.py`` prints the file that ``ecdysis-lab check --violations`` reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from ecdysis_lab.benchmarks.tau2.env import fresh_environment
from ecdysis_lab.hooks import Call

Talk = tuple[tuple[str, str], ...]
Row = dict[str, Any]
CANCEL, RETURN = "cancel_pending_order", "return_delivered_order_items"
EXCHANGE, ITEMS = "exchange_delivered_order_items", "modify_pending_order_items"
PAYMENT, ADDRESS = "modify_pending_order_payment", "modify_pending_order_address"
PROFILE, TRANSFER = "modify_user_address", "transfer_to_human_agents"
WRITES = (CANCEL, RETURN, EXCHANGE, ITEMS, PAYMENT, ADDRESS, PROFILE)
HOME = {
    "address1": "12 Larch Lane",
    "address2": "",
    "city": "Austin",
    "state": "TX",
    "country": "USA",
    "zip": "78701",
}


@dataclass(frozen=True)
class Case:
    """One violation and its neighbour.

    Parameters
    ----------
    rule : the rule that has to refuse ``bad``.
    what : the case in words; together with ``rule`` its name.
    bad, good : the illegal call and the nearest legal one.
    talk : conversation before ``bad``; ``good_talk`` before ``good``, the same where None.
    before : calls executed first, in both.
    """

    rule: str
    what: str
    bad: Call
    good: Call
    talk: Talk
    good_talk: Talk | None = None
    before: tuple[Call, ...] = ()


@cache
def db() -> Any:
    """The domain's database as plain data."""
    return fresh_environment("retail").tools.db.model_dump()


def ask(call: Call) -> str:
    """The agent's listing of an action."""
    details = ", ".join(f"{k}: {v}" for k, v in call.arguments.items())
    return f"To confirm: {call.name.replace('_', ' ')} with {details}. Shall I proceed?"


def me(user: Row) -> str:
    """How a customer says who they are."""
    return (
        f"I am {user['name']['first_name']} {user['name']['last_name']}, zip code {user['address']['zip']}."
    )


def lookup(user: Row) -> Call:
    """The call that locates a customer."""
    return Call("find_user_id_by_email", {"email": user["email"]})


def talk(
    call: Call, user: Row, answer: str = "Yes, please proceed.", wish: str = "I need help with an order."
) -> Talk:
    """Greeting, wish, listing, answer."""
    return (
        ("assistant", "Hi! How can I help you today?"),
        ("user", f"{wish} {me(user)}"),
        ("assistant", ask(call)),
        ("user", answer),
    )


def changed(call: Call, **arguments: Any) -> Call:
    """The call with some arguments replaced."""
    return Call(call.name, {**call.arguments, **arguments})


# -- rows ---


def orders(status: str, test: Callable[[Row], bool] = lambda o: True) -> Iterator[Row]:
    """Orders of a status that pass a test."""
    return (o for o in db()["orders"].values() if o["status"] == status and test(o))


def owner(order: Row) -> Row:
    """Who placed an order."""
    found: Row = db()["users"][order["user_id"]]
    return found


def another(item: Row) -> str | None:
    """An available variant of the same product, no dearer, with other options."""
    for key, variant in db()["products"][item["product_id"]]["variants"].items():
        if variant["available"] and key != item["item_id"] and variant["price"] <= item["price"]:
            return str(key)
    return None


def swappable(order: Row) -> bool:
    """At least two different items, each with an alternative."""
    ids = {i["item_id"] for i in order["items"]}
    return len(ids) == len(order["items"]) >= 2 and all(another(i) for i in order["items"][:2])


def second_method(order: Row) -> str | None:
    """A payment method of another kind than the order's, with balance enough."""
    paid = order["payment_history"][0]
    for key, method in owner(order)["payment_methods"].items():
        enough = method.get("balance", paid["amount"]) >= paid["amount"]
        if method["source"] not in paid["payment_method_id"] and enough:
            return str(key)
    return None


def paid_by(order: Row) -> str:
    """The order's payment method."""
    return str(order["payment_history"][0]["payment_method_id"])


def holds(order: Row) -> bool:
    """Whether the order's payment method is still in the profile."""
    return paid_by(order) in owner(order)["payment_methods"]


def swap(name: str, order: Row, n: int = 2) -> Call:
    """An exchange or modification of the first items of an order."""
    items = order["items"][:n]
    ids = {"item_ids": [i["item_id"] for i in items], "new_item_ids": [another(i) for i in items]}
    return Call(name, {"order_id": order["order_id"], **ids, "payment_method_id": paid_by(order)})


def give_back(order: Row, n: int = 2) -> Call:
    """A return of the first items of an order."""
    ids = [i["item_id"] for i in order["items"][:n]]
    return Call(RETURN, {"order_id": order["order_id"], "item_ids": ids, "payment_method_id": paid_by(order)})


@cache
def plans(rank: int = 0) -> dict[str, tuple[Call, Row]]:
    """One legal write of each kind with its customer; another rank gives other orders."""
    pending = [o for o in orders("pending", swappable) if holds(o) and second_method(o)]
    delivered = [o for o in orders("delivered", swappable) if holds(o) and second_method(o)]
    p, d = pending[rank], delivered[rank]
    key = {"order_id": p["order_id"]}
    return {
        CANCEL: (Call(CANCEL, {**key, "reason": "no longer needed"}), owner(p)),
        RETURN: (give_back(d), owner(d)),
        EXCHANGE: (swap(EXCHANGE, d), owner(d)),
        ITEMS: (swap(ITEMS, p), owner(p)),
        PAYMENT: (Call(PAYMENT, {**key, "payment_method_id": second_method(p)}), owner(p)),
        ADDRESS: (Call(ADDRESS, {**key, **HOME}), owner(p)),
        PROFILE: (Call(PROFILE, {"user_id": p["user_id"], **HOME}), owner(p)),
    }


# -- who is served ---


def identity_cases() -> Iterator[Case]:
    """Before the customer is located, and for somebody else."""
    for name, (call, user) in plans().items():
        fine = talk(call, user)
        hidden = (fine[0], ("user", f"I need help. My user id is {user['user_id']}."), *fine[2:])
        yield Case("authenticate_first", f"{name}: user id only", call, call, hidden, fine)
        other = stranger(user)
        yield Case(
            "one_user",
            f"{name}: of another customer",
            call,
            lookup(other),
            talk(call, other),
            before=(lookup(other),),
        )
    order = next(orders("delivered"))
    user, other = owner(order), stranger(owner(order))
    for read in (
        Call("get_order_details", {"order_id": order["order_id"]}),
        Call("get_user_details", {"user_id": order["user_id"]}),
    ):
        anonymous = (("user", "Where is my order?"),)
        known = (("user", f"Where is my order? {me(user)}"),)
        yield Case("authenticate_first", f"{read.name} for nobody", read, read, anonymous, known)
    yield Case(
        "one_user",
        "a second customer by email",
        lookup(user),
        lookup(other),
        (("user", f"I also ask for a friend. {me(other)}"),),
        before=(lookup(other),),
    )
    place = user["address"]["zip"]
    names = Call("find_user_id_by_name_zip", {**user["name"], "zip": place})
    yield Case(
        "one_user",
        "a second customer by name",
        names,
        lookup(other),
        (("user", f"I also ask for a friend. {me(other)}"),),
        before=(lookup(other),),
    )


def stranger(user: Row) -> Row:
    """Somebody else."""
    found: Row = next(u for u in db()["users"].values() if u["user_id"] != user["user_id"])
    return found


# -- consent ---


def consent_cases() -> Iterator[Case]:
    """Changes that the customer did not agree to."""
    for name, (call, user) in plans(1).items():
        fine = talk(call, user)
        yield Case("confirmed_first", f"{name}: never listed", call, call, fine[:2], fine)
        for answer in ("No, wait, let me think.", "How much would I get back?", "Please don't do that."):
            yield Case(
                "confirmed_first", f"{name}: {answer}", call, call, (*fine[:3], ("user", answer)), fine
            )
    for name in (RETURN, EXCHANGE, ITEMS):
        call, user = plans(2)[name]
        order = db()["orders"][call.arguments["order_id"]]
        card = (
            next((m for m in user["payment_methods"] if m.startswith("gift_card")), None)
            if name == RETURN
            else second_method(order)
        )
        if card:
            yield Case(
                "confirmed_first",
                f"{name}: another payment method than confirmed",
                changed(call, payment_method_id=card),
                call,
                talk(call, user),
            )
    elsewhere = {k: plans(n)[CANCEL][0] for n, k in enumerate(("a", "b"))}
    for one, two in (("a", "b"), ("b", "a")):
        user = owner(db()["orders"][elsewhere[one].arguments["order_id"]])
        yield Case(
            "confirmed_first",
            f"another order than confirmed: {two}",
            elsewhere[one],
            elsewhere[one],
            (("user", me(user)), ("assistant", ask(elsewhere[two])), ("user", "Yes.")),
            talk(elsewhere[one], user),
        )


def detail_cases() -> Iterator[Case]:
    """Changes with a part that the customer did not give."""
    reasons = {"no longer needed": "I no longer need it.", "ordered by mistake": "I ordered it by mistake."}
    for n, (reason, words) in enumerate(reasons.items()):
        call, user = plans(n)[CANCEL]
        call = changed(call, reason=reason)
        vague = (
            ("user", f"I want to cancel my order, I found it cheaper. {me(user)}"),
            ("assistant", f"I can cancel order {call.arguments['order_id']}. Do you confirm?"),
            ("user", "Yes."),
        )
        yield Case(
            "cancel_reason",
            f"reason {reason} nobody gave",
            call,
            call,
            vague,
            (*vague, ("assistant", "And why do you cancel? Do you confirm?"), ("user", f"Yes. {words}")),
        )
    for name, word in (
        (RETURN, "return"),
        (EXCHANGE, "exchange"),
        (ITEMS, "modify"),
        (PAYMENT, "change the settlement of"),
    ):
        call, user = plans(3)[name]
        silent = (
            ("user", f"I need help. {me(user)}"),
            ("assistant", f"I will {word} the two items. Do you confirm?"),
            ("user", "Yes."),
        )
        if name == PAYMENT:
            silent = (silent[0], ("assistant", "I will change how you pay. Do you confirm?"), silent[2])
        told = (
            *silent[:2],
            ("user", f"Yes, use {call.arguments['payment_method_id'].replace('_', ' ')}, my card or PayPal."),
        )
        yield Case("payment_provided", f"{name}: no payment method given", call, call, silent, told)
    for name in (ADDRESS, PROFILE):
        call, user = plans(4)[name]
        for key in ("address1", "city", "state", "country", "zip"):
            bad = changed(call, **{key: ""})
            yield Case("address_given", f"{name}: no {key}", bad, call, talk(bad, user), talk(call, user))
        vague = (
            ("user", f"I moved. {me(user)}"),
            ("assistant", "Shall I update the address and ship it there?"),
            ("user", "Yes."),
        )
        yield Case("address_given", f"{name}: made up", call, call, vague, talk(call, user))


# -- items ---


def item_cases() -> Iterator[Case]:
    """Lists of items that are empty or leave something out, and orders that are final."""
    for name in (RETURN, EXCHANGE, ITEMS):
        for rank in range(2):
            call, user = plans(rank)[name]
            empty = changed(call, item_ids=[], **({} if name == RETURN else {"new_item_ids": []}))
            yield Case(
                "items_listed",
                f"{name}: none, order {rank}",
                empty,
                call,
                talk(empty, user),
                talk(call, user),
            )
            keys = ("item_ids",) if name == RETURN else ("item_ids", "new_item_ids")
            first = changed(call, **{k: call.arguments[k][:1] for k in keys})
            yield Case(
                "all_items_in_one_call", f"{name}: first of two, order {rank}", first, call, talk(call, user)
            )
    for rank in range(3):
        items, user = plans(rank)[ITEMS]
        move, other = plans(rank)[ADDRESS][0], plans(rank + 3)[ADDRESS]
        yield Case(
            "modified_order_final",
            f"address after items, order {rank}",
            move,
            other[0],
            talk(move, user),
            talk(other[0], other[1]),
            (items,),
        )


def transfer_cases() -> Iterator[Case]:
    """Handing on what could be handled."""
    unsure = Call(TRANSFER, {"summary": "The customer wants to change an order."})
    idle = Call(TRANSFER, {"summary": "The customer wants a refund."})
    reason = Call(
        TRANSFER, {"summary": "The customer wants a refund to another card, which is not possible."}
    )
    asked = (("user", "I want to change my order."), ("assistant", "Which one?"), ("user", "The last one."))
    yield Case(
        "transfer_out_of_scope",
        "nothing tried, nobody asked",
        unsure,
        unsure,
        asked,
        (*asked, ("user", "I want to talk to a human.")),
    )
    yield Case("transfer_out_of_scope", "no reason given", idle, reason, asked)


def cases() -> list[Case]:
    """All of them."""
    parts = (identity_cases, consent_cases, detail_cases, item_cases, transfer_cases)
    return [case for part in parts for case in part()]


def record(case: Case) -> dict[str, Any]:
    """A case as ``ecdysis-lab check --violations`` reads it."""
    calls = [{"name": c.name, "arguments": c.arguments} for c in (case.bad, *case.before)]
    messages = [{"role": role, "content": text} for role, text in case.talk]
    return {"rule": f"{case.rule}: {case.what}", "call": calls[0], "messages": messages, "done": calls[1:]}


if __name__ == "__main__":
    print(json.dumps([record(case) for case in cases()], indent=1))
