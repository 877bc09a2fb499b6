"""Action realization for tau2/retail: each rule serves one line of the retail policy.

Forms rewrite a call to canonical form. Rules refuse what the policy forbids and the environment would
accept; what the environment rejects by itself (status, availability, balance, refund route, reason) is left
to it. Two policy lines have no rule, because the benchmark's own solutions depart from them: orders are
changed without reading their status first, and an item is exchanged for the same one.
"""

import json
import re
from typing import Any

from ecdysis_lab.hooks import (
    Call,
    Row,
    Rules,
    Verdict,
    View,
    anycase,
    ask_first,
    confirmed_listing,
    early_transfer,
    ids,
    plain_expression,
    plain_words,
    said,
)

rules = Rules()
form, line = rules.form, rules.line

CANCEL, RETURN = "cancel_pending_order", "return_delivered_order_items"
EXCHANGE, ITEMS = "exchange_delivered_order_items", "modify_pending_order_items"
PAYMENT, ADDRESS = "modify_pending_order_payment", "modify_pending_order_address"
PROFILE, TRANSFER = "modify_user_address", "transfer_to_human_agents"
WRITES = (CANCEL, RETURN, EXCHANGE, ITEMS, PAYMENT, ADDRESS, PROFILE)
LOOKUPS = ("find_user_id_by_email", "find_user_id_by_name_zip")
PERSONAL = ("get_order_details", "get_user_details")

ABOUT = {
    CANCEL: anycase(r"cancel"),
    RETURN: anycase(r"return|refund"),
    EXCHANGE: anycase(r"exchang|replac|swap|switch|chang"),
    ITEMS: anycase(r"modif|chang|exchang|replac|swap|switch|updat|item"),
    PAYMENT: anycase(r"pay"),
    ADDRESS: anycase(r"address|ship|deliver"),
    PROFILE: anycase(r"address"),
}
REASONS = {
    "no longer needed": anycase(
        r"no longer|(do not|don't|didn't|not) (really )?(need|want)|changed? (my|your) mind"
    ),
    "ordered by mistake": anycase(r"mistake|accident|wrong|error|unintention"),
}
KINDS = {
    "gift": anycase(r"gift"),
    "credit": anycase(r"card|visa|mastercard|amex|original|same"),
    "paypal": anycase(r"pay ?pal|original|same"),
}
ANYTHING = re.compile(".")
ITEM = re.compile(r"\b\d{10}\b")
NAMED = (re.compile(r"#W\d{7}\b"), re.compile(r"\b(?:gift_card|credit_card|paypal)_\d{7}\b"), ITEM)
WHOLE_ORDER = anycase(r"contain|includ|keep|other item")
TEN_DIGITS = re.compile(r"\d{10}")
ORDER = anycase(r"#?\s*W\s*(\d{7})")
ID = re.compile(r"([a-z]+_)*\d+")
ZIP = re.compile(r"(\d{5})(-\d{4})?")
NO_LETTER = re.compile(r"[^a-z]")
STREET_NUMBER = re.compile(r"^\d+")


# -- canonical forms ---


@form("list_form", "item_ids", "new_item_ids")
def list_form(text: str) -> Any:
    """``"0000000001, 0000000002"`` -> the list of both."""
    return TEN_DIGITS.findall(text) or None


@form("order_id_form", "order_id")
def order_id_form(text: str) -> Any:
    """``"W0000000"``, ``"#w0000000"`` -> ``"#W0000000"``; a bare number may be something else."""
    found = ORDER.fullmatch(text)
    return f"#W{found[1]}" if found else None


@form("id_form", "user_id", "payment_method_id", "product_id")
def id_form(text: str) -> Any:
    """``"Mei_Davis_8935"``, ``6086499569`` -> lower case text."""
    word = text.strip("#'\" ").lower()
    return word if ID.fullmatch(word) else None


@form("zip_form", "zip")
def zip_form(text: str) -> Any:
    """``"00000-0000"`` -> ``"00000"``."""
    found = ZIP.fullmatch(text)
    return found[1] if found else None


@form("country_form", "country")
def country_form(text: str) -> Any:
    """``"United States"`` -> ``"USA"``."""
    word = NO_LETTER.sub("", text.lower())
    return "USA" if word in ("us", "usa", "unitedstates", "unitedstatesofamerica", "america") else None


@form("address2_form", "address2")
def address2_form(text: str) -> Any:
    """``"N/A"`` -> ``""``."""
    return "" if text.lower() in ("n/a", "na", "none", "null", "-") else None


@form("reason_form", "reason")
def reason_form(text: str) -> Any:
    """``"No longer needed."`` -> ``"no longer needed"``; other reasons stay, to be rejected."""
    word = plain_words(text)
    return word if word in REASONS else None


form("expression_form", "expression")(plain_expression)


# -- what the rules ask ---


def order(call: Call, view: View) -> Row:
    """The order a call is about, or an empty dict."""
    key = call.arguments.get("order_id")
    return view.read("get_order_details", order_id=str(key)) or {} if key else {}


def profile(user: str, view: View) -> Row:
    """A profile by user id, or an empty dict."""
    return view.read("get_user_details", user_id=user) or {} if user else {}


def user_of(call: Call, view: View) -> str:
    """The user id a call is about, or an empty string."""
    return str(call.arguments.get("user_id") or order(call, view).get("user_id") or "")


def owner(call: Call, view: View) -> Row:
    """The profile a call is about, or an empty dict."""
    return profile(user_of(call, view), view)


def located(view: View) -> list[str]:
    """User ids that lookups by email or by name and zip have found."""
    return [d.result.strip('" ') for d in view.done if d.call.name in LOOKUPS and not d.error]


def proven(user: Row, view: View) -> bool:
    """Whether the user's own words hold the email, or the name and zip, of a profile."""
    words = said(view, "user").lower()
    name = [user["name"]["first_name"], user["name"]["last_name"], user["address"]["zip"]]
    return user["email"].lower() in words or all(part.lower() in words for part in name)


# -- who is served ---


@line("authenticate_first", "first locate the user id by email, or by name and zip code", *PERSONAL, *WRITES)
def authenticate_first(call: Call, view: View) -> str | None:
    """Nothing personal before the user is known; a user id alone is not enough."""
    user = {} if located(view) else owner(call, view)
    unknown = user and not proven(user, view)
    return "Ask for the email, or name and zip code, and look the user id up." if unknown else None


@line(
    "one_user",
    "help only one user per conversation, and deny what concerns others",
    *PERSONAL,
    *WRITES,
    *LOOKUPS,
)
def one_user(call: Call, view: View) -> str | None:
    """Only the customer who was located is served; one person may have two profiles."""
    known = located(view)
    if not known:
        return None
    found = view.read(call.name, **call.arguments) if call.name in LOOKUPS else user_of(call, view)
    user = str(found or "").strip('"')
    if user in ("", *known) or profile(user, view).get("name") == profile(known[0], view).get("name"):
        return None
    return f"Serve {known[0]} only: take order ids from that profile, and deny the rest."


# -- orders, and the user's yes ---


@line("modified_order_final", "once its items are modified an order can be neither modified nor cancelled",
      CANCEL, ITEMS, PAYMENT, ADDRESS)  # fmt: skip
def modified_order_final(call: Call, view: View) -> str | None:
    """Address and payment come before the items."""
    final = "modified" in str(order(call, view).get("status"))
    return "Tell the user that this order can no longer be changed." if final else None


@line("items_listed", "the user confirms the list of items", RETURN, EXCHANGE, ITEMS)
def items_listed(call: Call, view: View) -> str | None:
    """A change of no items still closes the order to further changes."""
    return None if ids(call, "item_ids") else "Ask which items, and send all of them in item_ids."


def listing(call: Call, view: View) -> str:
    """The agent's message about this kind of action that a recent answer said yes to, with the answer."""
    return confirmed_listing(call, view, ABOUT[call.name], "order_id", NAMED)


@line("confirmed_first", "list the action details and obtain an explicit yes first", *WRITES)
def confirmed_first(call: Call, view: View) -> str | None:
    """The user agreed to this kind of action, on this order, with this payment method."""
    return None if listing(call, view) else ask_first(call)


@line("all_items_in_one_call", "collect all items to be changed into one call, since it works once per order",
      RETURN, EXCHANGE, ITEMS)  # fmt: skip
def all_items_in_one_call(call: Call, view: View) -> str | None:
    """No item of the confirmed listing is left out of the call."""
    text = listing(call, view)
    mine = [item["item_id"] for item in order(call, view).get("items", [])]
    listed = [i for i in dict.fromkeys(ITEM.findall(text)) if i in mine]
    missing = [i for i in listed if i not in ids(call, "item_ids")]
    new = [i for i in ITEM.findall(text) if i not in mine]
    # A listing may show the whole order: only one with a new item for each old one names them all for change.
    whole = len(new) >= len(listed) if call.name != RETURN else not WHOLE_ORDER.search(text)
    return f"Send {', '.join(listed)} together in item_ids." if missing and whole else None


@line("cancel_reason", "the user confirms the reason, no longer needed or ordered by mistake", CANCEL)
def cancel_reason(call: Call, view: View) -> str | None:
    """The reason of the call was spoken of (the environment rejects other reasons itself)."""
    pattern = REASONS.get(str(call.arguments.get("reason")))
    silent = pattern is not None and not pattern.search(said(view, "user", "assistant"))
    return "Ask why: no longer needed, or ordered by mistake? Cancel for no other reason." if silent else None


@line("payment_provided", "the user provides the payment method", RETURN, EXCHANGE, ITEMS, PAYMENT)
def payment_provided(call: Call, view: View) -> str | None:
    """The kind of payment method was spoken of."""
    kind = str(call.arguments.get("payment_method_id")).split("_")[0]
    if KINDS.get(kind, ANYTHING).search(said(view, "user", "assistant")):
        return None
    options = ", ".join(owner(call, view).get("payment_methods", {}))
    return f"Ask which to use: {options}." if options else None


@line("address_given", "do not make up information", ADDRESS, PROFILE)
def address_given(call: Call, view: View) -> str | None:
    """Street, city, state and zip are there, and street number and zip were given by someone."""
    parts = {
        k: str(call.arguments.get(k) or "").strip() for k in ("address1", "city", "state", "country", "zip")
    }
    known = (
        said(view, "user", "assistant")
        + json.dumps(owner(call, view))
        + " ".join(d.result for d in view.done)
    )
    digits = [*STREET_NUMBER.findall(parts["address1"]), parts["zip"]]
    if all(parts.values()) and all(d in known for d in digits):
        return None
    return "Ask for the full address: street, city, state, country and zip code."


line("transfer_out_of_scope", "transfer if and only if the request cannot be handled here", TRANSFER)(
    early_transfer
)


def check(call: Call, view: View) -> Verdict:
    """Bring a call to canonical form, then hold it against the policy."""
    return rules.check(call, view)
