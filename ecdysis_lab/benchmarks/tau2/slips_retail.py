"""Slips of tau2/retail."""

from __future__ import annotations

from typing import Any

from ecdysis_lab.benchmarks.tau2.dialogue import asked_for
from ecdysis_lab.benchmarks.tau2.slips_common import COMMON, customer, first_method, transferred
from ecdysis_lab.hooks import Call
from ecdysis_lab.models.sim.scene import Act, Scene, Slip, changed, on


def _no_hash(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    value = str(call.arguments.get("order_id", ""))
    return changed(call, order_id=value.lstrip("#")) if value.startswith("#") else None


def _zip_plus(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    return changed(call, zip=f"{call.arguments['zip']}-0000")


def _joined(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    return changed(call, item_ids=", ".join(call.arguments["item_ids"]))


def _item_for_product(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    product = scene.read("get_product_details", call.arguments) or {}
    item = next(iter(sorted(product.get("variants", {}))), None)
    return changed(call, product_id=item) if item else None


def _own_words(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    words = {"no longer needed": "No longer needed.", "ordered by mistake": "Ordered by mistake."}
    return changed(call, reason=words[call.arguments["reason"]])


def _one_by_one(scene: Scene, call: Call | None) -> list[Act] | None:
    """One call per item: the first changes the order's status, so the second is rejected."""
    assert call is not None
    if len(call.arguments["item_ids"]) < 2:
        return None
    keys = [k for k in ("item_ids", "new_item_ids") if k in call.arguments]
    single: list[dict[str, Any]] = [{k: [call.arguments[k][i]] for k in keys} for i in range(2)]
    return [Call(call.name, {**call.arguments, **s}) for s in single]


def _country(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    return changed(call, country="United States") if call.arguments.get("country") == "USA" else None


def _gift_card(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    cards = [m for m in sorted(customer(scene).get("payment_methods", {})) if m.startswith("gift_card")]
    used = call.arguments.get("payment_method_id")
    return changed(call, payment_method_id=cards[0]) if cards and cards[0] != used else None


def _profile_too(scene: Scene, call: Call | None) -> list[Act] | None:
    moved = next((c for c in scene.writes if c.name == "modify_pending_order_address"), None)
    user = customer(scene).get("user_id")
    if (
        moved is None
        or not user
        or transferred(scene)
        or any(c.name == "modify_user_address" for c in scene.writes)
    ):
        return None
    address = {k: v for k, v in moved.arguments.items() if k != "order_id"}
    return asked_for(Call("modify_user_address", {"user_id": user, **address}))


_ITEMS = ("exchange_delivered_order_items", "modify_pending_order_items", "return_delivered_order_items")
_MOVES = ("modify_pending_order_address", "modify_user_address")
RETAIL = (
    *COMMON,
    Slip(
        "order_id_form",
        "call",
        on("get_order_details", "cancel_pending_order", *_ITEMS)(_no_hash),
        r"order.?id.{0,160}(#|form|look|exact)",
        form=True,
        share=0.08,
    ),
    Slip(
        "zip_form",
        "call",
        on("find_user_id_by_name_zip")(_zip_plus),
        r"zip.{0,160}(five|5|form|look|digits)",
        form=True,
        share=0.12,
    ),
    Slip(
        "list_as_text", "call", on(*_ITEMS)(_joined), r"item_ids.{0,160}(array|list)", form=True, share=0.12
    ),
    Slip(
        "item_for_product",
        "call",
        on("get_product_details")(_item_for_product),
        r"product.?id.{0,160}(item|confus|different)",
        form=True,
        share=0.1,
    ),
    Slip(
        "reason_form",
        "call",
        on("cancel_pending_order")(_own_words),
        r"reason.{0,160}(exact|no longer needed|either)",
        form=True,
        share=0.25,
    ),
    Slip(
        "split_items",
        "call",
        on(*_ITEMS)(_one_by_one),
        r"(all|every).{0,60}item.{0,100}(one|single|once)|once.{0,100}item",
        share=0.15,
    ),
    Slip("country_form", "call", on(*_MOVES)(_country), r"country.{0,160}(USA|form|look)", share=0.25),
    Slip(
        "gift_card_refund",
        "call",
        on("return_delivered_order_items")(_gift_card),
        r"refund.{0,120}(original|user)",
        quirk=True,
        share=1.0,
    ),
    Slip(
        "default_address_too",
        "after",
        _profile_too,
        r"(default|profile|user).{0,40}address.{0,120}(only|not)",
        quirk=True,
        share=0.5,
    ),
    Slip(
        "first_payment_method",
        "unconfirmed",
        first_method,
        r"payment.{0,120}(user|named|chose)",
        quirk=True,
        share=0.35,
    ),
)
