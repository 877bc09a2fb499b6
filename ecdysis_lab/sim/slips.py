"""The slips: concrete wrong acts, each with its cause and the guidance that would prevent it.

A *defect* is a gap of the interface that any model falls into; a *quirk* belongs to one profile. ``wrong`` builds
the wrong act from the plan and from facts of the environment, or returns None where the slip cannot happen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ecdysis_lab.hooks import Call

Where = Literal["call", "before_write", "skip_last_write", "loop", "instead_of_write", "unconfirmed", "after", "info", "deny"]


@dataclass
class Scene:
    """What a slip may use: the plan, who the user is, and reads of the environment.

    Parameters
    ----------
    plan : gold calls in order. kinds : tool name -> kind. scenario : the user's instructions.
    communicate : strings the user needs to hear. read : read-only access to the environment.
    """

    domain: str
    task_id: str
    plan: list[Call]
    kinds: dict[str, str]
    scenario: str
    communicate: list[str]
    read: Callable[[str, dict[str, Any]], Any]
    _user: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def writes(self) -> list[Call]:
        """Gold calls that change the database."""
        return [c for c in self.plan if self.kinds.get(c.name) == "write"]

    @property
    def user(self) -> dict[str, Any]:
        """The customer's profile, or an empty dict when the scenario does not identify one."""
        if self._user is None:
            self._user = self._find_user() or {}
        return self._user

    def _find_user(self) -> Any:
        ids = [c.arguments.get("user_id") for c in self.plan] + re.findall(r"\b[a-z]+_[a-z]+_\d{4}\b", self.scenario)
        known = next((i for i in ids if i), None)
        if known is None and self.domain == "retail":
            finder = next((c for c in self.plan if c.name.startswith("find_user")), None)
            known = self.read(finder.name, finder.arguments) if finder else None
        return self.read("get_user_details", {"user_id": known}) if known else None


Wrong = Callable[[Scene, Call | None], "list[Call] | None"]


@dataclass(frozen=True)
class Slip:
    """One way to go wrong.

    Parameters
    ----------
    name : identifier, also the planted cause.
    where : how it enters the plan.
    wrong : builds the wrong calls; None where it does not apply.
    hint : regular expression; harness text that matches it counts as matching guidance.
    form : True when the environment would reject the wrong call, so a call that went through was put right.
    quirk : True when it belongs to the profiles that list it.
    share : share of the tasks where it can happen that are susceptible to it.
    """

    name: str
    where: Where
    wrong: Wrong
    hint: str
    form: bool = False
    quirk: bool = False
    share: float = 0.3

    @property
    def cause(self) -> str:
        """``"defect"`` or ``"quirk"``."""
        return "quirk" if self.quirk else "defect"


def changed(call: Call, **arguments: Any) -> list[Call]:
    """The call with some arguments replaced."""
    return [Call(call.name, {**call.arguments, **arguments})]


def on(*tools: str) -> Callable[[Wrong], Wrong]:
    """Limit a ``wrong`` function to calls of these tools."""

    def limit(build: Wrong) -> Wrong:
        return lambda scene, call: build(scene, call) if call is not None and call.name in tools else None

    return limit


# -- both domains ------------------------------------------------------------------------------------------------


def _nothing(scene: Scene, call: Call | None) -> list[Call] | None:
    return [] if scene.writes else None


def _repeat_read(scene: Scene, call: Call | None) -> list[Call] | None:
    kinds = ("get_reservation_details", "get_order_details", "get_user_details")
    return [call] * 9 if call is not None and call.name in kinds and scene.writes else None


def _transfer(scene: Scene, call: Call | None) -> list[Call] | None:
    if not scene.writes or any(c.name == "transfer_to_human_agents" for c in scene.plan):
        return None
    return [Call("transfer_to_human_agents", {"summary": "The customer asks for a change that I am not sure about."})]


def _other_payment(scene: Scene, call: Call | None) -> list[Call] | None:
    """The first write with another of the user's payment methods, before the user agreed to anything."""
    if call is None or call != next(iter(scene.writes), None):
        return None
    key = next((k for k in ("payment_id", "payment_method_id") if k in call.arguments), None)
    if key is not None:
        others = [m for m in sorted(scene.user.get("payment_methods", {})) if m != call.arguments[key]]
        others = [m for m in others if not m.startswith("certificate")]
        return changed(call, **{key: others[0]}) if others else None
    if call.name == "cancel_pending_order":
        other = {"no longer needed": "ordered by mistake", "ordered by mistake": "no longer needed"}
        return changed(call, reason=other[call.arguments["reason"]])
    return None


def _expression(scene: Scene, call: Call | None) -> list[Call] | None:
    return [Call("calculate", {"expression": "$120.50 + $49.99"})] if scene.writes else None


def _silence(scene: Scene, call: Call | None) -> list[Call] | None:
    return [] if scene.communicate else None


def _unknown_tool(scene: Scene, call: Call | None) -> list[Call] | None:
    """A tool that other systems have and this one does not."""
    if not scene.writes:
        return None
    name, key = {"airline": ("get_booking", "reservation_id"), "retail": ("get_order_status", "order_id")}[scene.domain]
    value = next((c.arguments[key] for c in scene.plan if key in c.arguments), None)
    return [Call(name, {key: value})] if value else None


def _other_argument_name(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    for right, wrong in (("reservation_id", "reservation_number"), ("order_id", "order_number")):
        if right in call.arguments:
            rest = {k: v for k, v in call.arguments.items() if k != right}
            return [Call(call.name, {wrong: call.arguments[right], **rest})]
    return None


def _extra_argument(scene: Scene, call: Call | None) -> list[Call] | None:
    return changed(call, note="requested by the customer") if call is not None and call in scene.writes else None


def _spoken_payment(scene: Scene, call: Call | None) -> list[Call] | None:
    """``credit_card_1`` as a person would write it: ``Credit Card 1``."""
    if call is None or call not in scene.writes:
        return None
    key = next((k for k in ("payment_id", "payment_method_id") if k in call.arguments), None)
    return changed(call, **{key: str(call.arguments[key]).replace("_", " ").title()}) if key else None


_BY_ID = ("get_reservation_details", "get_order_details", "cancel_reservation", "cancel_pending_order")
COMMON = (
    Slip("unknown_tool", "before_write", _unknown_tool, r"(only|no other).{0,60}tool.{0,80}(exist|listed|given)", share=0.16),
    Slip("argument_name", "call", on(*_BY_ID)(_other_argument_name), r"argument.{0,80}(called|named)", form=True, share=0.16),
    Slip("extra_argument", "call", _extra_argument, r"(no other|no further|only these|only the) argument", form=True, share=0.14),
    Slip("payment_id_form", "call", _spoken_payment, r"payment.{0,20}id.{0,160}(form|look|exact)", form=True, share=0.22),
    Slip("stop_early", "skip_last_write", _nothing, r"(before|until).{0,80}(done|complete|finish)", share=0.1),
    Slip("loop", "loop", _repeat_read, r"(same|identical).{0,40}(call|read).{0,60}(again|twice|repeat)", share=0.08),
    Slip("transfer_early", "instead_of_write", _transfer, r"transfer.{0,120}(only|cannot|never)", share=0.06),
    Slip("unconfirmed_write", "unconfirmed", _other_payment, r"(confirm|yes).{0,80}before|before.{0,80}(confirm|yes)", share=0.15),
    Slip("expression_form", "before_write", _expression, r"expression.{0,160}(digits|currency|\$|plain)", form=True, share=0.08),
    Slip("omit_info", "info", _silence, r"(state|tell|answer).{0,80}(figure|number|amount|asked)", share=0.5),
)

# -- airline -----------------------------------------------------------------------------------------------------


def _lower_id(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    value = str(call.arguments.get("reservation_id", ""))
    return changed(call, reservation_id=f"#{value.lower()}") if value else None


def _us_date(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    flights = [{**f, "date": _to_us(f["date"])} for f in call.arguments.get("flights", [])]
    return changed(call, flights=flights) if flights else None


def _to_us(date: str) -> str:
    year, month, day = date.split("-")
    return f"{month}/{day}/{year}"


CITIES = {"JFK": "New York", "LGA": "New York", "SFO": "San Francisco", "LAX": "Los Angeles", "ORD": "Chicago"}


def _city_name(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    origin = call.arguments["origin"]
    return changed(call, origin=CITIES.get(origin, origin.title() + " Airport"))


def _number_text(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    return changed(call, total_baggages=str(call.arguments["total_baggages"]))


def _only_changed_leg(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    flights = call.arguments.get("flights", [])
    return changed(call, flights=flights[:1]) if len(flights) > 1 else None


def _fee_missing(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    payments = call.arguments["payment_methods"]
    if call.arguments.get("insurance") != "yes" and not call.arguments.get("nonfree_baggages"):
        return None
    short = 50 * call.arguments["nonfree_baggages"] or 30 * len(call.arguments["passengers"])
    return changed(call, payment_methods=[{**payments[0], "amount": payments[0]["amount"] - short}, *payments[1:]])


def _forbidden_cancel(scene: Scene, call: Call | None) -> list[Call] | None:
    """Cancelling because the user insists; only where the gold plan leaves every booking alone."""
    if scene.writes or "cancel" not in scene.scenario.lower():
        return None
    named = [i for i in re.findall(r"\b[A-Z0-9]{6}\b", scene.scenario) if re.search(r"\d", i)]
    ids = named or [i for i in scene.user.get("reservations", [])]
    found = next((i for i in ids if scene.read("get_reservation_details", {"reservation_id": i})), None)
    return [Call("cancel_reservation", {"reservation_id": found})] if found else None


def _apology(scene: Scene, call: Call | None) -> list[Call] | None:
    sent = any(c.name == "send_certificate" for c in scene.plan)
    user = scene.user.get("user_id")
    return None if sent or not user else [Call("send_certificate", {"user_id": user, "amount": 50})]


def _one_bag_more(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    more = {k: call.arguments[k] + 1 for k in ("total_baggages", "nonfree_baggages")}
    return changed(call, **more) if call.name == "update_reservation_baggages" else None


def _first_method(scene: Scene, call: Call | None) -> list[Call] | None:
    return _other_payment(scene, call) if call is not None and scene.kinds.get(call.name) == "write" else None


_IDS = ("get_reservation_details", "cancel_reservation", "update_reservation_flights")
_BAGS = ("update_reservation_baggages", "book_reservation")
AIRLINE = (
    Slip("reservation_id_form", "call", on(*_IDS)(_lower_id), r"reservation.?id.{0,160}(form|look|upper|exact)", form=True, share=0.1),
    Slip("date_form", "call", on("update_reservation_flights", "book_reservation")(_us_date), r"date.{0,160}(YYYY|form|look)", form=True, share=0.12),
    Slip("airport_form", "call", on("search_direct_flight", "search_onestop_flight")(_city_name), r"(origin|destination|airport).{0,160}(IATA|three|code|look|form)", form=True, share=0.25),
    Slip("number_as_text", "call", on(*_BAGS)(_number_text), r"total_baggages.{0,160}(integer|number)", share=0.3),
    Slip("partial_flights", "call", on("update_reservation_flights")(_only_changed_leg), r"(every|all|entire|complete).{0,80}(segment|flight|leg)", share=0.15),
    Slip("fee_omitted", "call", on("book_reservation")(_fee_missing), r"(total|pay).{0,160}(bag|insurance)", form=True, share=0.3),
    Slip("forbidden_cancel", "after", _forbidden_cancel, r"cancel.{0,200}(24|business|insurance)", share=0.4),
    Slip("apology_certificate", "after", _apology, r"(certificate|compensat).{0,160}(only|explicit|never|not)", quirk=True, share=0.08),
    Slip("bag_padding", "call", on("update_reservation_baggages")(_one_bag_more), r"bag.{0,120}(not need|only)", quirk=True, share=0.5),
    Slip("first_payment_method", "unconfirmed", _first_method, r"payment.{0,120}(user|named|chose)", quirk=True, share=0.15),
)

# -- retail ------------------------------------------------------------------------------------------------------


def _no_hash(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    value = str(call.arguments.get("order_id", ""))
    return changed(call, order_id=value.lstrip("#")) if value.startswith("#") else None


def _zip_plus(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    return changed(call, zip=f"{call.arguments['zip']}-0000")


def _joined(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    return changed(call, item_ids=", ".join(call.arguments["item_ids"]))


def _item_for_product(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    product = scene.read("get_product_details", call.arguments) or {}
    item = next(iter(sorted(product.get("variants", {}))), None)
    return changed(call, product_id=item) if item else None


def _own_words(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    words = {"no longer needed": "No longer needed.", "ordered by mistake": "Ordered by mistake."}
    return changed(call, reason=words[call.arguments["reason"]])


def _one_by_one(scene: Scene, call: Call | None) -> list[Call] | None:
    """One call per item: the first changes the order's status, so the second is rejected."""
    assert call is not None
    if len(call.arguments["item_ids"]) < 2:
        return None
    keys = [k for k in ("item_ids", "new_item_ids") if k in call.arguments]
    single = [{k: [call.arguments[k][i]] for k in keys} for i in range(2)]
    return [Call(call.name, {**call.arguments, **s}) for s in single]


def _country(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    return changed(call, country="United States") if call.arguments.get("country") == "USA" else None


def _gift_card(scene: Scene, call: Call | None) -> list[Call] | None:
    assert call is not None
    cards = [m for m in sorted(scene.user.get("payment_methods", {})) if m.startswith("gift_card")]
    used = call.arguments.get("payment_method_id")
    return changed(call, payment_method_id=cards[0]) if cards and cards[0] != used else None


def _profile_too(scene: Scene, call: Call | None) -> list[Call] | None:
    moved = next((c for c in scene.writes if c.name == "modify_pending_order_address"), None)
    user = scene.user.get("user_id")
    if moved is None or not user or any(c.name == "modify_user_address" for c in scene.writes):
        return None
    address = {k: v for k, v in moved.arguments.items() if k != "order_id"}
    return [Call("modify_user_address", {"user_id": user, **address})]


_ITEMS = ("exchange_delivered_order_items", "modify_pending_order_items", "return_delivered_order_items")
_MOVES = ("modify_pending_order_address", "modify_user_address")
RETAIL = (
    Slip("order_id_form", "call", on("get_order_details", "cancel_pending_order", *_ITEMS)(_no_hash), r"order.?id.{0,160}(#|form|look|exact)", form=True, share=0.08),
    Slip("zip_form", "call", on("find_user_id_by_name_zip")(_zip_plus), r"zip.{0,160}(five|5|form|look|digits)", form=True, share=0.12),
    Slip("list_as_text", "call", on(*_ITEMS)(_joined), r"item_ids.{0,160}(array|list)", form=True, share=0.12),
    Slip("item_for_product", "call", on("get_product_details")(_item_for_product), r"product.?id.{0,160}(item|confus|different)", form=True, share=0.1),
    Slip("reason_form", "call", on("cancel_pending_order")(_own_words), r"reason.{0,160}(exact|no longer needed|either)", form=True, share=0.25),
    Slip("split_items", "call", on(*_ITEMS)(_one_by_one), r"(all|every).{0,60}item.{0,100}(one|single|once)|once.{0,100}item", share=0.15),
    Slip("country_form", "call", on(*_MOVES)(_country), r"country.{0,160}(USA|form|look)", share=0.25),
    Slip("gift_card_refund", "call", on("return_delivered_order_items")(_gift_card), r"refund.{0,120}(original|user)", quirk=True, share=0.4),
    Slip("default_address_too", "after", _profile_too, r"(default|profile|user).{0,40}address.{0,120}(only|not)", quirk=True, share=0.5),
    Slip("first_payment_method", "unconfirmed", _first_method, r"payment.{0,120}(user|named|chose)", quirk=True, share=0.15),
)  # fmt: skip

BLUNDER = Slip("blunder", "deny", _nothing, r"(?!)", quirk=True)
"""A random wrong act; nothing prevents it. Its chance is the profile's ``blunder``."""

CATALOGUE: dict[str, Sequence[Slip]] = {"airline": (*COMMON, *AIRLINE), "retail": (*COMMON, *RETAIL)}


def possible(slip: Slip, scene: Scene) -> bool:
    """Whether the slip can happen in this task."""
    calls: list[Call | None] = [*scene.plan] if slip.where in ("call", "loop", "unconfirmed") else [None]
    return any(slip.wrong(scene, call) is not None for call in calls)
