"""Trajectory regulation for tau2/retail: explain errors, break loops, stop claims of work not done."""

import json
import re

from ecdysis_lab.hooks import (
    Call,
    Rules,
    Verdict,
    View,
    anycase,
    claim_without_write,
    error_hint,
    repeated_read,
    transfer_without_call,
)

rules = Rules()
WRITES = {
    "cancel_pending_order": anycase(r"cancel"),
    "return_delivered_order_items": anycase(r"\breturn|refund"),
    "exchange_delivered_order_items": anycase(r"exchang|replac|swap"),
    "modify_pending_order_items": anycase(r"modif|chang|switch|swap|\bitem"),
    "modify_pending_order_payment": anycase(r"payment"),
    "modify_pending_order_address": anycase(r"address|ship"),
    "modify_user_address": anycase(r"address"),
}
ERRORS = (
    (
        r"Non-pending order",
        "Only pending orders can be changed or cancelled, and none after its items changed.",
    ),
    (r"Non-delivered order", "Only delivered orders can be returned or exchanged, once: not both."),
    (r"Order not found", "Order ids look like #W1234567; get_user_details lists the user's orders."),
    (r"Variant not found|New item", "Take an available item of the same product from get_product_details."),
    (r"Payment method not found", "Take a payment id from get_user_details."),
    (
        r"should be the original payment",
        "Refund to the original payment method or to a gift card of the user.",
    ),
    (r"[Ii]nsufficient gift card", "The gift card does not cover it: ask for another payment method."),
    (r"should be different", "The new one must differ from the present one."),
    (r"Invalid reason", "Valid: no longer needed, ordered by mistake. Deny other reasons."),
    (r"User not found", "Ask for another email, or for first name, last name and zip code."),
)
HINTS = [(re.compile(words), hint) for words, hint in ERRORS]
ORDER = re.compile(r"#W\d{7}\b")

rules.note("repeated_read")(repeated_read)


@rules.note("item_for_product")
def item_for_product(call: Call, result: str, view: View) -> str | None:
    """The product of an item id that was sent as a product id."""
    given = call.arguments.get("product_id")
    if call.name != "get_product_details" or "Product not found" not in result:
        return None
    listed = view.read("list_all_product_types") or {}
    for name, product in (json.loads(listed) if isinstance(listed, str) else listed).items():
        details = view.read("get_product_details", product_id=product) or {}
        if given in details.get("variants", {}):
            return f"{given} is an item id; its product is {name}, product_id {product}."
    return "list_all_product_types gives the product ids."


@rules.note("error_hint")
def hint(call: Call, result: str, view: View) -> str | None:
    """What a rejected call needs, by the policy."""
    return error_hint(call, result, view, HINTS)


@rules.reply("claim_without_write")
def claim(text: str, view: View) -> tuple[str, str] | None:
    """A claim of work that the user has just agreed to needs a call that did it."""
    return claim_without_write(text, view, WRITES, "order_id", ORDER)


@rules.reply("transfer_without_call")
def transfer(text: str, view: View) -> tuple[str, str] | None:
    """The transfer message follows the transfer call."""
    return transfer_without_call(text, view, "transfer_to_human_agents", "TRANSFERRED TO A HUMAN AGENT")


def observe(call: Call, result: str, view: View) -> str | None:
    """The first note that fits a result."""
    return rules.observe(call, result, view)


def on_reply(text: str, view: View) -> Verdict:
    """Stop a reply that is not true."""
    return rules.on_reply(text, view)
