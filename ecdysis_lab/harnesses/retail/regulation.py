"""Trajectory regulation for tau2/retail: explain errors, break loops, stop claims of work not done."""

import json
import re
from collections.abc import Callable

from ecdysis_lab.hooks import Allow, Call, Refuse, Verdict, View, enabled

WRITES = {
    "cancel_pending_order": r"cancel",
    "return_delivered_order_items": r"\breturn|refund",
    "exchange_delivered_order_items": r"exchang|replac|swap",
    "modify_pending_order_items": r"modif|chang|switch|swap|\bitem",
    "modify_pending_order_payment": r"payment",
    "modify_pending_order_address": r"address|ship",
    "modify_user_address": r"address",
}
CLAIM = (
    r"\b(has|have) (now )?(been )?(successfully )?(been )?(cancel|return|exchang|chang|updat|modif|process"
    r"|complet|added|issued|made|taken care|request)|\b(is|are) (now )?(confirmed|cancel+ed|all set)\b"
    r"|\bI('ve| have) (now |successfully )*(cancel|return|exchang|chang|updat|modif|made|process)"
    r"|successfully"
)
ASKS = r"confirm|proceed|go ahead|would you like|(shall|should) i|do you want|yes/no|\(yes"
YES = r"^\W*(yes|yeah|yep|sure|ok|okay|please|go ahead|confirm|correct|that'?s (right|correct)|sounds good)\b"
HOLD = "TRANSFERRED TO A HUMAN AGENT"
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
NOTES: dict[str, Callable[[Call, str, View], str | None]] = {}
REPLIES: dict[str, Callable[[str, View], Verdict | None]] = {}


def key(call: Call) -> str:
    """A call as comparable text."""
    return call.name + json.dumps(call.arguments, sort_keys=True, default=str)


def repeated_read(call: Call, result: str, view: View) -> str | None:
    """The third same read since the last change learns nothing new."""
    count = 0
    for done in reversed(view.done):
        if view.kind(done.call.name) == "write" and not done.error:
            break
        count += key(done.call) == key(call)
    if view.kind(call.name) != "read" or count < 3:
        return None
    return "You made this same call before and nothing has changed since: use what you have, or ask the user."


def error_hint(call: Call, result: str, view: View) -> str | None:
    """What a rejected call needs, by the policy."""
    failed = view.done and view.done[-1].error and key(view.done[-1].call) == key(call)
    hints = [hint for pattern, hint in ERRORS if re.search(pattern, result)]
    return hints[0] if failed and hints else None


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


def claim_without_write(text: str, view: View) -> Verdict | None:
    """A claim of work that the user has just agreed to needs a call that did it."""
    turns = [m for m in view.messages if m["content"]]
    if len(turns) < 2 or turns[-1]["role"] != "user" or not re.search(CLAIM, text, re.I):
        return None
    asked, answer = turns[-2]["content"], turns[-1]["content"]
    if not (re.search(ASKS, asked, re.I) and re.search(YES, answer, re.I)):
        return None
    meant = [tool for tool, words in WRITES.items() if re.search(words, asked + text, re.I)]
    listed = set(re.findall(r"#W\d{7}\b", asked))
    made = [d.call for d in view.done if d.call.name in meant]  # a rejected call got its own note
    if not meant or any(not listed or call.arguments.get("order_id", "") in ("", *listed) for call in made):
        return None
    return Refuse(
        "You say it is done, but no call did what the user has just confirmed.",
        f"Call {' or '.join(meant)} now, or tell the user what is still open.",
        "claim_without_write",
    )


def transfer_without_call(text: str, view: View) -> Verdict | None:
    """The transfer message follows the transfer call."""
    called = any(d.call.name == "transfer_to_human_agents" for d in view.done)
    if HOLD not in text.upper() or called:
        return None
    return Refuse(
        "Policy: to transfer, first make the tool call, then send that message.",
        "Call transfer_to_human_agents if the request cannot be handled, else go on.",
        "transfer_without_call",
    )


NOTES.update(repeated_read=repeated_read, item_for_product=item_for_product, error_hint=error_hint)
REPLIES.update(claim_without_write=claim_without_write, transfer_without_call=transfer_without_call)


def observe(call: Call, result: str, view: View) -> str | None:
    """The first note that fits a result."""
    notes = (note(call, result, view) for name, note in NOTES.items() if enabled(name))
    return next((note for note in notes if note), None)


def on_reply(text: str, view: View) -> Verdict:
    """Stop a reply that is not true."""
    verdicts = (rule(text, view) for name, rule in REPLIES.items() if enabled(name))
    return next((verdict for verdict in verdicts if verdict), Allow())
