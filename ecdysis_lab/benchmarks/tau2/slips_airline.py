"""Slips of tau2/airline."""

from __future__ import annotations

import re

from ecdysis_lab.benchmarks.tau2.dialogue import asked_for
from ecdysis_lab.benchmarks.tau2.slips_common import COMMON, customer, first_method, transferred
from ecdysis_lab.hooks import Call
from ecdysis_lab.models.sim.scene import Act, Scene, Slip, changed, on


def _lower_id(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    value = str(call.arguments.get("reservation_id", ""))
    return changed(call, reservation_id=f"#{value.lower()}") if value else None


def _us_date(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    flights = [{**f, "date": _to_us(f["date"])} for f in call.arguments.get("flights", [])]
    return changed(call, flights=flights) if flights else None


def _to_us(date: str) -> str:
    year, month, day = date.split("-")
    return f"{month}/{day}/{year}"


CITIES = {
    "JFK": "New York",
    "LGA": "New York",
    "SFO": "San Francisco",
    "LAX": "Los Angeles",
    "ORD": "Chicago",
}


def _city_name(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    origin = call.arguments["origin"]
    return changed(call, origin=CITIES.get(origin, origin.title() + " Airport"))


def _number_text(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    return changed(call, total_baggages=str(call.arguments["total_baggages"]))


def _only_changed_leg(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    flights = call.arguments.get("flights", [])
    return changed(call, flights=flights[:1]) if len(flights) > 1 else None


def _forbidden_cancel(scene: Scene, call: Call | None) -> list[Act] | None:
    """Cancelling because the user insists; only where the gold plan leaves every booking alone."""
    if scene.writes or transferred(scene) or "cancel" not in scene.scenario.lower():
        return None
    named = [i for i in re.findall(r"\b[A-Z0-9]{6}\b", scene.scenario) if re.search(r"\d", i)]
    ids = named or list(customer(scene).get("reservations", []))
    found = next((i for i in ids if scene.read("get_reservation_details", {"reservation_id": i})), None)
    return asked_for(Call("cancel_reservation", {"reservation_id": found})) if found else None


def _apology(scene: Scene, call: Call | None) -> list[Act] | None:
    sent = any(c.name == "send_certificate" for c in scene.plan)
    user = customer(scene).get("user_id")
    if sent or not user or transferred(scene):
        return None
    return asked_for(Call("send_certificate", {"user_id": user, "amount": 50}))


def _one_bag_more(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    more = {k: call.arguments[k] + 1 for k in ("total_baggages", "nonfree_baggages")}
    return changed(call, **more) if call.name == "update_reservation_baggages" else None


_IDS = ("get_reservation_details", "cancel_reservation", "update_reservation_flights")
_BAGS = ("update_reservation_baggages", "book_reservation")
AIRLINE = (
    *COMMON,
    Slip(
        "reservation_id_form",
        "call",
        on(*_IDS)(_lower_id),
        r"reservation.?id.{0,160}(form|look|upper|exact)",
        form=True,
        share=0.1,
    ),
    Slip(
        "date_form",
        "call",
        on("update_reservation_flights", "book_reservation")(_us_date),
        r"date.{0,160}(YYYY|form|look)",
        form=True,
        share=0.12,
    ),
    Slip(
        "airport_form",
        "call",
        on("search_direct_flight", "search_onestop_flight")(_city_name),
        r"(origin|destination|airport).{0,160}(IATA|three|code|look|form)",
        form=True,
        share=0.25,
    ),
    Slip(
        "number_as_text",
        "call",
        on(*_BAGS)(_number_text),
        r"total_baggages.{0,160}(integer|number)",
        share=0.3,
    ),
    Slip(
        "partial_flights",
        "call",
        on("update_reservation_flights")(_only_changed_leg),
        r"(every|all|entire|complete).{0,80}(segment|flight|leg)",
        share=0.15,
    ),
    Slip("forbidden_cancel", "after", _forbidden_cancel, r"cancel.{0,200}(24|business|insurance)", share=0.4),
    Slip(
        "apology_certificate",
        "after",
        _apology,
        r"(certificate|compensat).{0,160}(only|explicit|never|not)",
        quirk=True,
        share=0.08,
    ),
    Slip(
        "bag_padding",
        "call",
        on("update_reservation_baggages")(_one_bag_more),
        r"bag.{0,120}(not need|only)",
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
