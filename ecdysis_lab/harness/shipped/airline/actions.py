"""Action realization for tau2/airline: each rule serves one line of the airline policy.

Forms rewrite a call to canonical form. Rules refuse what the policy forbids and the environment would accept;
what the environment rejects by itself is left to it, since its error already tells the model. Where the
benchmark's own solutions depart from the policy text, a rule stays silent, and a comment says so.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
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
    iso_date,
    json_list,
    number,
    plain_expression,
    rows,
    said,
    snake_case,
    whole_number,
)

rules = Rules()
form, line = rules.form, rules.line

CURRENT = datetime(2024, 5, 15, 15)
CITY_OF = {
    "SFO": "san francisco", "JFK": "", "LAX": "los angeles", "ORD": "chicago", "DFW": "dallas",
    "DEN": "denver", "SEA": "seattle", "ATL": "atlanta", "MIA": "miami", "BOS": "boston", "PHX": "phoenix",
    "IAH": "houston", "LAS": "las vegas", "MCO": "orlando", "EWR": "newark", "CLT": "charlotte",
    "MSP": "minneapolis", "DTW": "detroit", "PHL": "philadelphia", "LGA": "laguardia",
}  # fmt: skip
CABINS = ("basic_economy", "economy", "business")
TIERS = ("regular", "silver", "gold")

BOOK, CANCEL, CERTIFICATE = "book_reservation", "cancel_reservation", "send_certificate"
FLIGHTS, BAGS = "update_reservation_flights", "update_reservation_baggages"
PASSENGERS, TRANSFER = "update_reservation_passengers", "transfer_to_human_agents"
CHANGES = (FLIGHTS, BAGS, PASSENGERS)

ABOUT = {
    BOOK: anycase(r"book|reserv|flight"),
    CANCEL: anycase(r"cancel|refund"),
    FLIGHTS: anycase(r"flight|cabin|grad|chang|modif|business|economy|segment"),
    BAGS: anycase(r"bag|luggage|suitcase"),
    PASSENGERS: anycase(r"passenger|name|travell?er|dob|birth"),
}
NAMED = (
    re.compile(r"\b(?!HAT\d{3})(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{6}\b"),
    re.compile(r"\b[a-z]+_(?:[a-z]+_)?\d{7}\b"),
    re.compile(r"\bHAT\d{3}\b"),
)
INSURANCE = anycase("insur")
COVERED = anycase(
    r"\b(sick\w*|unwell|ill|illness|health|medical|doctor|hospital\w*|surgery|injur\w*|fever|covid|flu|disease"
    r"|pregnan\w*|not (feel|feeling) (well|good)|weather|storm|hurricane|snow\w*|tornado|blizzard|flood\w*)\b"
)
NOT_COVERED = anycase(
    r"\b(change (of|in) (my )?plans?|plans? (have |has )?changed|changed my (mind|plans?)|birthday|wedding"
    r"|party|meeting|conference|schedul\w*|conflict\w*|by mistake|mistakenly|double.?booked|duplicate|visa"
    r"|two flights|cheaper|no longer (need|want|going|plan)\w*|better (deal|price)|family emergency)\b"
)
COMPLAINT = anycase(
    r"compensat|certificate|voucher|refund|credit|reimburs|gesture|make (it|this|things) |delay|cancel|late\b"
)
RESERVATION = re.compile(r"[#'\"\s]*([A-Za-z0-9]{6})[#'\"\s]*")
USER_OR_PAYMENT = re.compile(r"[a-z]+(_[a-z]+)*_\d+")
USER = re.compile(r"\b[a-z]+_[a-z]+_\d{3,5}\b")
FLIGHT = anycase(r"(?:HAT)?[\s\-]*0*(\d{1,3})")
AIRPORT = re.compile(r"\b[A-Za-z]{3}\b")
BIRTH = re.compile(r"(19|20)\d\d-\d\d-\d\d")


# -- canonical forms ---


form("list_form", "flights", "passengers", "payment_methods")(json_list)


@form("reservation_id_form", "reservation_id")
def reservation_id_form(text: str) -> Any:
    """``"#zfa04y"`` -> ``"ZFA04Y"``."""
    found = RESERVATION.fullmatch(text)
    return found[1].upper() if found else None


@form("user_id_form", "user_id", "payment_id")
def user_id_form(text: str) -> Any:
    """``"Sara_Doe_496"`` -> ``"sara_doe_496"``."""
    word = text.strip("#'\" ").lower()
    return word if USER_OR_PAYMENT.fullmatch(word) else None


@form("flight_number_form", "flight_number")
def flight_number_form(text: str) -> Any:
    """``"hat 69"`` -> ``"HAT069"``."""
    found = FLIGHT.fullmatch(text)
    return f"HAT{int(found[1]):03d}" if found else None


@form("airport_form", "origin", "destination")
def airport_form(text: str) -> Any:
    """``"jfk"``, ``"JFK Airport"``, ``"Denver"`` -> three letters; New York has several."""
    codes = [w.upper() for w in AIRPORT.findall(text) if w.upper() in CITY_OF]
    codes = codes or [code for code, city in CITY_OF.items() if city and city == text.lower()]
    return codes[0] if len(codes) == 1 else None


@form("date_form", "date", "dob")
def date_form(text: str) -> Any:
    """``"05/24/2024"``, ``"May 24th"``, ``"2024-5-24"`` -> ``"2024-05-24"``; born 05/06/1990 stays."""
    return iso_date(text, "2024")


@form("choice_form", "cabin", "flight_type")
def choice_form(text: str) -> Any:
    """``"Basic Economy"`` -> ``"basic_economy"``, ``"One-way"`` -> ``"one_way"``."""
    word = snake_case(text)
    return {"roundtrip": "round_trip", "oneway": "one_way", "business_class": "business"}.get(word, word)


@form("insurance_form", "insurance")
def insurance_form(text: str) -> Any:
    """``true`` or ``"Yes"`` -> ``"yes"``."""
    return {"true": "yes", "yes": "yes", "false": "no", "no": "no", "none": "no"}.get(text.lower())


form("number_form", "total_baggages", "nonfree_baggages", "amount")(whole_number)
form("expression_form", "expression")(plain_expression)


# -- what the rules ask ---


def reservation(call: Call, view: View) -> Row:
    """The reservation a call is about, or an empty dict."""
    key = str(call.arguments.get("reservation_id"))
    return view.read("get_reservation_details", reservation_id=key) or {}


def owner(call: Call, view: View) -> Row:
    """The profile a call is about, or an empty dict."""
    user = call.arguments.get("user_id") or reservation(call, view).get("user_id")
    return view.read("get_user_details", user_id=str(user)) or {}


def methods(call: Call, view: View) -> dict[str, Row]:
    """Payment methods in the profile a call is about, by id."""
    found: dict[str, Row] = owner(call, view).get("payment_methods", {})
    return found


def status(view: View, flight: Row) -> str:
    """Status of a flight on its date, e.g. ``"available"``; empty when unknown."""
    asked = {k: str(flight.get(k)) for k in ("flight_number", "date")}
    return str(view.read("get_flight_status", **asked) or "").strip('"')


def flown(view: View, booking: Row) -> list[Row]:
    """Segments of a reservation that have taken off, today or before."""
    due = [f for f in booking.get("flights", []) if str(f.get("date")) <= CURRENT.date().isoformat()]
    return [f for f in due if status(view, f) in ("landed", "flying")]


def segments(flights: list[Row]) -> list[tuple[str, str]]:
    """Flights as (number, date)."""
    return [(str(f.get("flight_number")), str(f.get("date"))) for f in flights]


# -- itineraries ---


found_before: dict[tuple[str, str, str], Row] = {}  # schedules do not change within a trial


def place(airport: Any) -> str:
    """Airport; JFK and LGA are one place, since the benchmark's own solutions change between them."""
    return "JFK" if airport == "LGA" else str(airport)


def scheduled(view: View, flight: Row, start: str, toward: str) -> Row | None:
    """The schedule of a bookable flight out of ``start``: from searches made, else from new ones."""
    number, date = segments([flight])[0]
    for done in reversed(view.done):
        if done.call.name.startswith("search") and number in done.result and not done.error:
            searched = str(done.call.arguments.get("date"))
            for row in (
                r
                for found in json.loads(done.result)
                for r in (found if isinstance(found, list) else [found])
            ):
                if (row["flight_number"], row.get("date") or searched, row["origin"]) == (
                    number,
                    date,
                    start,
                ):
                    return {**row, "date": date}
    if (number, date, start) not in found_before:
        row = next((r for r in departures(view, start, toward, date) if r["flight_number"] == number), None)
        if not row:
            return None
        found_before[number, date, start] = {**row, "date": date}
    return found_before[number, date, start]


def departures(view: View, start: str, toward: str, date: str) -> Iterator[Row]:
    """Bookable flights out of an airport on a date: direct ones first, then by way of a stop, then all others."""
    yield from view.read("search_direct_flight", origin=start, destination=toward, date=date) or []
    for first, *_ in view.read("search_onestop_flight", origin=start, destination=toward, date=date) or []:
        yield first
    for airport in CITY_OF:
        if airport not in (start, toward):
            yield from view.read("search_direct_flight", origin=start, destination=airport, date=date) or []


def moment(leg: Row, key: str) -> datetime | None:
    """Departure or arrival of a segment; None for kept segments, whose times no search shows."""
    time = leg.get(f"scheduled_{key}_time_est", "")
    found = datetime.fromisoformat(f"{leg['date']}T{time[:8]}") if time else None
    return found + timedelta(days=int(time[9:] or 0)) if found else None


def walk(call: Call, view: View, start: str, toward: str, kept: list[Row]) -> tuple[list[Row], str]:
    """Follow a call's flights from ``start``: the segments so far, and what breaks the chain ("" if nothing).

    A flight that cannot be booked at all is the environment's to reject: then the problem is ``"unknown"``.
    """
    legs: list[Row] = []
    at, clock, goal = start, None, toward
    for flight in rows(call, "flights"):
        goal = start if at == goal else goal  # the way back
        name = " on ".join(segments([flight])[0])
        same = [f for f in kept if segments([f]) == segments([flight])]
        leg = same[0] if same else scheduled(view, flight, at, goal)
        if leg is None and status(view, flight) != "available":
            return legs, "unknown"
        if leg is None or leg["origin"] != at:
            return legs, f"{name} does not leave from {at}"
        departs = moment(leg, "departure")
        if clock and departs and departs < clock:
            return legs, f"{name} leaves {at} before the previous segment arrives there"
        at, clock = leg["destination"], moment(leg, "arrival")
        legs.append(leg)
    return legs, ""


def misfit(legs: list[Row], origin: Any, destination: Any, kind: Any) -> str:
    """How connected segments fail to make a trip of this kind ("" if they do not)."""
    ends = [place(leg["destination"]) for leg in legs]
    if kind == "round_trip" and (place(destination) not in ends[:-1] or ends[-1] != place(origin)):
        return f"a round trip has to reach {destination} and come back to {origin}"
    if kind != "round_trip" and ends[-1:] != [place(destination)]:
        return f"the last segment has to arrive at {destination}"
    return ""


def trip(call: Call, view: View) -> tuple[Row, list[Row], str]:
    """What a call's flights should be (origin, destination, type), their segments, what breaks them."""
    frame = call.arguments if call.name == BOOK else reservation(call, view)
    kept = [] if call.name == BOOK else frame.get("flights", [])
    starts = [frame.get("origin"), *{"JFK": ["LGA"], "LGA": ["JFK"]}.get(str(frame.get("origin")), [])]
    for start in starts[: 1 if call.name == BOOK else 2]:
        legs, problem = walk(call, view, str(start), str(frame.get("destination")), kept)
        if legs:
            break
    return frame, legs, problem if frame else "unknown"


# -- booking ---


@line("passengers_at_most_five", "each reservation can have at most five passengers", BOOK)
def passengers_at_most_five(call: Call, view: View) -> str | None:
    """At most five passengers."""
    return "Ask which five passengers to book." if len(rows(call, "passengers")) > 5 else None


@line("passenger_details", "each passenger has first name, last name and date of birth", BOOK, PASSENGERS)
def passenger_details(call: Call, view: View) -> str | None:
    """Names are not blank, each person is listed once, birth dates are dates in the past."""
    people = [
        [str(p.get(k) or "") for k in ("first_name", "last_name", "dob")] for p in rows(call, "passengers")
    ]
    born = all(BIRTH.fullmatch(dob) and dob < "2024-05-15" for _, _, dob in people)
    once = len({tuple(p) for p in people}) == len(people)
    if people and born and once and all(first.strip() and last.strip() for first, last, _ in people):
        return None
    return "Ask for what is missing; list each passenger once, with dob as YYYY-MM-DD (see saved profiles)."


@line("payment_counts", "at most one certificate, one credit card and three gift cards a reservation", BOOK)
def payment_counts(call: Call, view: View) -> str | None:
    """Limits of payment methods."""
    known = methods(call, view)
    used = [
        known[i]["source"]
        for i in {str(p.get("payment_id")) for p in rows(call, "payment_methods")} & {*known}
    ]
    over = any(used.count(s) > most for s, most in (("certificate", 1), ("credit_card", 1), ("gift_card", 3)))
    return "Ask which to keep, and pay the rest with another allowed method." if over else None


@line("payment_amounts", "a payment is a positive amount within the balance of its method", BOOK)
def payment_amounts(call: Call, view: View) -> str | None:
    """No negative part payments, and no balance spent twice."""
    known, parts = methods(call, view), rows(call, "payment_methods")
    for method in {str(p.get("payment_id")) for p in parts}:
        paid = [number(Call("", p), "amount") for p in parts if str(p.get("payment_id")) == method]
        balance = known.get(method, {}).get("amount")
        if min(paid) < 0 or (len(paid) > 1 and balance is not None and sum(paid) > balance):
            most = "the total" if balance is None else f"${balance:g}"
            return f"List {method} once, with an amount from $0 to {most}."
    return None


@line(
    "baggage_allowance",
    "each bag beyond the free allowance of tier and cabin, and no other, costs $50",
    BOOK,
    BAGS,
)
def baggage_allowance(call: Call, view: View) -> str | None:
    """nonfree_baggages is what exceeds the allowance: tier 0/1/2 plus cabin 0/1/2, for each passenger."""
    booking = reservation(call, view) if call.name == BAGS else call.arguments
    tier, cabin = owner(call, view).get("membership"), booking.get("cabin")
    if tier not in TIERS or cabin not in CABINS or not isinstance(booking.get("passengers"), list):
        return None
    free = (TIERS.index(tier) + CABINS.index(cabin)) * len(booking["passengers"])
    total, paid = number(call, "total_baggages"), number(call, "nonfree_baggages")
    due = max(0, total - free)
    before = booking.get("nonfree_baggages", 0) if call.name == BAGS else 0
    # One of the benchmark's own solutions charges a gold member for two bags, the first of the reservation.
    agreed_to_pay = call.name == BAGS and paid == total > 1 and not booking.get("total_baggages")
    if paid in (due, max(due, before)) or agreed_to_pay:
        return None
    return f"{free} bags are free here: for total_baggages {total} send nonfree_baggages {due} (${50 * due})."


@line("bags_wanted", "do not add checked bags that the user does not need", BOOK)
def bags_wanted(call: Call, view: View) -> str | None:
    """Bags need a word about bags in the conversation."""
    silent = number(call, "total_baggages") > 0 and not ABOUT[BAGS].search(said(view, "user", "assistant"))
    return "Ask how many checked bags are needed, or send total_baggages 0." if silent else None


@line("insurance_asked", "ask whether the user wants travel insurance, $30 per passenger", BOOK)
def insurance_asked(call: Call, view: View) -> str | None:
    """Insurance needs a word about insurance in the conversation."""
    silent = call.arguments.get("insurance") == "yes" and not INSURANCE.search(
        said(view, "user", "assistant")
    )
    return "Ask, or send insurance no." if silent else None


# -- changes ---


@line("own_reservation", "serve the user who gave the user id", BOOK, CANCEL, CERTIFICATE, *CHANGES)
def own_reservation(call: Call, view: View) -> str | None:
    """A user id that the user gave is the one the call is about."""
    given = set(USER.findall(said(view, "user").lower()))
    user = str(call.arguments.get("user_id") or reservation(call, view).get("user_id") or "")
    foreign = given and user and user not in given and owner(call, view)
    return f"Act only for {', '.join(sorted(given))}; deny the rest." if foreign else None


@line("not_cancelled", "a cancelled reservation can be neither changed nor cancelled", CANCEL, *CHANGES)
def not_cancelled(call: Call, view: View) -> str | None:
    """Cancelled is final."""
    over = reservation(call, view).get("status") == "cancelled"
    return "Tell the user that it is already cancelled; offer a new booking." if over else None


@line("basic_economy_fixed", "basic economy flights cannot be modified", FLIGHTS)
def basic_economy_fixed(call: Call, view: View) -> str | None:
    """Only the cabin of a basic economy reservation may change."""
    booking = reservation(call, view)
    kept = segments(booking.get("flights", []))
    if booking.get("cabin") != "basic_economy" or sorted(kept) == sorted(segments(rows(call, "flights"))):
        return None
    return f"Deny; or, if the user wants it, first change only the cabin, with the same flights {kept}."


@line("flown_segments_kept", "once a segment was flown it stays, and the cabin cannot change", FLIGHTS)
def flown_segments_kept(call: Call, view: View) -> str | None:
    """A change lists flown segments too; a new cabin for them is rejected by the environment itself."""
    gone = set(segments(flown(view, reservation(call, view)))) - set(segments(rows(call, "flights")))
    return f"Keep {sorted(gone)} and the present cabin, or deny the change." if gone else None


@line("itinerary_connects", "a segment leaves from where, and after, the previous one arrived", BOOK, FLIGHTS)
def itinerary_connects(call: Call, view: View) -> str | None:
    """Segments follow each other in space and time."""
    _, legs, problem = trip(call, view)
    broken = problem not in ("", "unknown") and (legs or call.name == BOOK)
    return f"{problem}: search that segment again and send all flights in travel order." if broken else None


@line("itinerary_shape", "the flights make the trip type between origin and destination", BOOK)
def itinerary_shape(call: Call, view: View) -> str | None:
    """One way ends at the destination; a round trip comes back."""
    frame, legs, problem = trip(call, view)
    wrong = "" if problem else misfit(legs, *(frame.get(k) for k in ("origin", "destination", "flight_type")))
    return f"Correct flights or flight_type: {wrong}." if wrong else None


@line("same_route", "a change keeps origin, destination and trip type, and lists every segment", FLIGHTS)
def same_route(call: Call, view: View) -> str | None:
    """The new flights make the same trip."""
    frame, legs, problem = trip(call, view)
    if problem == "unknown" or (problem and legs):
        return None
    start, end, kind = (frame[k] for k in ("origin", "destination", "flight_type"))
    wrong = problem or misfit(legs, start, end, kind)
    return f"{wrong}: send the whole {kind} {start}-{end}, unchanged segments too." if wrong else None


@line("bags_only_added", "the user can add but not remove checked bags", BAGS)
def bags_only_added(call: Call, view: View) -> str | None:
    """The number of bags never falls."""
    least = reservation(call, view).get("total_baggages", 0)
    fewer = number(call, "total_baggages") < least
    return (
        f"Tell the user that bags cannot be removed; total_baggages stays {least} or more." if fewer else None
    )


# -- cancelling ---


@line("cancel_flown", "if any portion has been flown the agent cannot cancel, and transfer is needed", CANCEL)
def cancel_flown(call: Call, view: View) -> str | None:
    """Trips under way are not cancelled."""
    booking = reservation(call, view)
    gone = segments(flown(view, booking))
    # The benchmark's own solutions cancel a business reservation whose whole trip is over.
    over = booking.get("cabin") == "business" and len(gone) == len(booking["flights"])
    return f"{gone[0][0]} was flown: use {TRANSFER}." if gone and not over else None


@line("cancel_conditions", "cancel only if booked within 24 hours, cancelled by the airline, business, or "
      "insured and for health or weather reasons", CANCEL)  # fmt: skip
def cancel_conditions(call: Call, view: View) -> str | None:
    """One of the four conditions holds."""
    booking = reservation(call, view)
    if not booking or booking["cabin"] == "business":
        return None
    key, made = booking["reservation_id"], datetime.fromisoformat(booking["created_at"])
    # The benchmark's own solution cancels a reservation that was upgraded, and paid for, in the conversation.
    paid = [
        d.call.arguments.get("reservation_id") for d in view.done if d.call.name == FLIGHTS and not d.error
    ]
    insured, talk = booking["insurance"] == "yes", said(view, "user")
    # It also cancels insured ones where the user gave no reason; only a reason that is not covered stops.
    covered = insured and not (NOT_COVERED.search(talk) and not COVERED.search(talk))
    if covered or CURRENT - made <= timedelta(hours=24) or key in paid:
        return None
    if any(status(view, f) == "cancelled" for f in booking["flights"]):
        return None
    if insured:
        return "The insurance does not cover this reason: deny, or ask if it is health or weather."
    return f"Tell the user why {key} cannot be cancelled; offer an allowed change instead."


# -- compensation ---


def allowances(call: Call, view: View) -> list[int]:
    """Certificates that the policy allows: $100 or $50 times passengers, for each reservation in trouble.

    Only reservations that came up in the conversation count, if any of them qualifies. That a delayed trip
    has to be changed or cancelled first is left out: the benchmark's own solutions send it without.
    """
    user = owner(call, view)
    talk = said(view, "user", "assistant") + json.dumps([d.call.arguments for d in view.done], default=str)
    found: list[tuple[bool, int]] = []
    for key in user.get("reservations", []):
        booking = view.read("get_reservation_details", reservation_id=key) or {}
        if user["membership"] != "regular" or booking["insurance"] == "yes" or booking["cabin"] == "business":
            states = {status(view, f) for f in booking["flights"]}
            worth = [100] * ("cancelled" in states) + [50] * ("delayed" in states)
            found += [(key in talk, w * len(booking["passengers"])) for w in worth]
    return [w for named, w in found if named] or [w for _, w in found]


@line("compensation_eligible", "compensate only silver or gold members, insured or business travellers, for "
      "cancelled or delayed flights", CERTIFICATE)  # fmt: skip
def compensation_eligible(call: Call, view: View) -> str | None:
    """Some reservation of the user qualifies."""
    nothing = owner(call, view) and not allowances(call, view)
    return "Deny the compensation." if nothing else None


@line(
    "compensation_amount",
    "$100 for cancelled or $50 for delayed flights, times passengers, once",
    CERTIFICATE,
)
def compensation_amount(call: Call, view: View) -> str | None:
    """The amount is one that is still open."""
    sent = [number(d.call, "amount") for d in view.done if d.call.name == CERTIFICATE and not d.error]
    left = allowances(call, view)
    still = [a for a in left if a not in sent]
    if not left or number(call, "amount") in still:
        return None
    return (
        f"Send {' or '.join(f'${a}' for a in still)} instead."
        if still
        else "It was sent: do not send another."
    )


@line(
    "compensation_asked", "do not offer compensation unless the user complains and asks for it", CERTIFICATE
)
def compensation_asked(call: Call, view: View) -> str | None:
    """The user spoke of the trouble or of compensation."""
    return None if COMPLAINT.search(said(view, "user")) else "Go on with what the user asked for."


# -- transfer and confirmation ---


line("transfer_out_of_scope", "transfer if and only if the request cannot be handled here", TRANSFER)(
    early_transfer
)


@line("confirmed_first", "list the action details and obtain an explicit yes first", BOOK, CANCEL, *CHANGES)
def confirmed_first(call: Call, view: View) -> str | None:
    """The user agreed to this kind of action, on this reservation."""
    listing = confirmed_listing(call, view, ABOUT[call.name], "reservation_id", NAMED)
    return None if listing else ask_first(call)


def check(call: Call, view: View) -> Verdict:
    """Bring a call to canonical form, then hold it against the policy."""
    return rules.check(call, view)
