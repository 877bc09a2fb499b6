"""Illegal airline calls on real database rows, each beside its nearest legal neighbour.

Every case breaks one line of the airline policy while the environment accepts the call. Rows are found by
what they are (tier, cabin, insurance, status); nothing here repeats a task of the benchmark.
``PYTHONPATH=. python tests/violations_airline.py`` prints the file that ``ecdysis-lab check --violations`` reads.
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
DATE = "2024-05-20"
TIERS = ("regular", "silver", "gold")
CABINS = ("basic_economy", "economy", "business")
BOOK, CANCEL, CERTIFICATE = "book_reservation", "cancel_reservation", "send_certificate"
FLIGHTS, BAGS = "update_reservation_flights", "update_reservation_baggages"
PASSENGERS, TRANSFER = "update_reservation_passengers", "transfer_to_human_agents"


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
    return fresh_environment("airline").tools.db.model_dump()


def ask(call: Call) -> str:
    """The agent's listing of an action."""
    details = ", ".join(f"{k}: {v}" for k, v in call.arguments.items())
    return f"To confirm: {call.name.replace('_', ' ')} with {details}. Shall I proceed?"


def talk(call: Call, wish: str, user: str, answer: str = "Yes, please proceed.") -> Talk:
    """Wish, listing, answer."""
    opening = f"{wish} My user id is {user}."
    return (
        ("assistant", "Hi! How can I help you today?"),
        ("user", opening),
        ("assistant", ask(call)),
        ("user", answer),
    )


def confirmed(rule: str, what: str, bad: Call, good: Call, user: str, wish: str, **more: Any) -> Case:
    """A case in which the user said yes to exactly the call that is made."""
    return Case(rule, what, bad, good, talk(bad, wish, user), talk(good, wish, user), **more)


def changed(call: Call, **arguments: Any) -> Call:
    """The call with some arguments replaced."""
    return Call(call.name, {**call.arguments, **arguments})


# -- rows ---


def users(tier: str, *sources: str) -> Iterator[dict[str, Any]]:
    """Profiles of a tier that hold at least these payment sources (with repetition)."""
    for user in db()["users"].values():
        held = [m["source"] for m in user["payment_methods"].values()]
        if user["membership"] == tier and all(held.count(s) >= sources.count(s) for s in sources):
            yield user


def method(user: dict[str, Any], source: str, rank: int = 0) -> dict[str, Any]:
    """A payment method of a profile."""
    found: dict[str, Any] = [m for m in user["payment_methods"].values() if m["source"] == source][rank]
    return found


def open_flights(date: str, seats: int = 7) -> list[dict[str, Any]]:
    """Flights with so many seats in every cabin on a date."""
    found = []
    for flight in db()["flights"].values():
        day = flight["dates"].get(date, {})
        if day.get("status") == "available" and min(day["available_seats"].values()) >= seats:
            found.append(flight)
    return found


def route(start: str, end: str, date: str, seats: int = 2) -> dict[str, Any] | None:
    """A bookable flight between two airports."""
    return next(
        (f for f in open_flights(date, seats) if (f["origin"], f["destination"]) == (start, end)), None
    )


@cache
def there_and_back() -> tuple[dict[str, Any], dict[str, Any]]:
    """A flight on DATE and one back a day later, both with many seats."""
    for out in open_flights(DATE):
        back = route(out["destination"], out["origin"], "2024-05-22", 7)
        if back and "+1" not in out["scheduled_arrival_time_est"]:
            return out, back
    raise LookupError("no such pair")


def one_stop() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Two flights that connect on DATE, and a second one that leaves before the first arrives."""
    flights = open_flights(DATE, 2)
    for first in flights:
        lands = first["scheduled_arrival_time_est"]
        onward = [
            f for f in flights if f["origin"] == first["destination"] and f["destination"] != first["origin"]
        ]
        for late in onward if "+1" not in lands else []:
            for early in onward:
                same = early["destination"] == late["destination"]
                if (
                    same
                    and early["scheduled_departure_time_est"] < lands <= late["scheduled_departure_time_est"]
                ):
                    return first, late, early
    raise LookupError("no such connection")


def leg(flight: dict[str, Any], date: str = DATE) -> dict[str, str]:
    """A flight as an argument."""
    return {"flight_number": flight["flight_number"], "date": date}


def person(n: int = 0) -> dict[str, str]:
    """A made-up passenger."""
    first = ("Ada", "Bo", "Cy", "Di", "Ed", "Flo")[n]
    return {"first_name": first, "last_name": "Quill", "dob": f"199{n}-02-03"}


def price(
    flights: list[dict[str, str]], cabin: str, people: int, paid_bags: int = 0, insurance: str = "no"
) -> int:
    """What the environment charges."""
    fare = sum(db()["flights"][f["flight_number"]]["dates"][f["date"]]["prices"][cabin] for f in flights)
    return int(people * (fare + 30 * (insurance == "yes")) + 50 * paid_bags)


def booking(user: dict[str, Any], flights: list[dict[str, str]], **more: Any) -> Call:
    """A legal booking of these flights, paid in full by credit card, with some arguments replaced."""
    numbers = [db()["flights"][f["flight_number"]] for f in flights]
    arguments: dict[str, Any] = {
        "user_id": user["user_id"],
        "origin": numbers[0]["origin"],
        "destination": numbers[-1]["destination"],
        "flight_type": "one_way",
        "cabin": "economy",
        "flights": flights,
        "passengers": [person()],
        "payment_methods": [],
        "total_baggages": 0,
        "nonfree_baggages": 0,
        "insurance": "no",
        **more,
    }
    due = price(
        flights,
        arguments["cabin"],
        len(arguments["passengers"]),
        arguments["nonfree_baggages"],
        arguments["insurance"],
    )
    card = method(user, "credit_card")["id"]
    return Call(
        BOOK,
        {
            **arguments,
            "payment_methods": more.get("payment_methods") or [{"payment_id": card, "amount": due}],
        },
    )


def split(call: Call, *parts: tuple[str, int]) -> Call:
    """A booking paid by these methods, and the rest by the card it was paid with."""
    rest = call.arguments["payment_methods"][0]
    paid = [{"payment_id": i, "amount": a} for i, a in parts]
    last = {**rest, "amount": rest["amount"] - sum(a for _, a in parts)}
    return changed(call, payment_methods=[*paid, last])


Test = Callable[[dict[str, Any]], bool]


def reservations(test: Test, **columns: str) -> Iterator[dict[str, Any]]:
    """Reservations with these values that pass a test; ``tier`` is the owner's membership."""
    for r in db()["reservations"].values():
        if all((tier(r) if key == "tier" else r[key]) == value for key, value in columns.items()) and test(r):
            yield r


def states(r: dict[str, Any]) -> set[str]:
    """Statuses of the flights of a reservation."""
    return {db()["flights"][f["flight_number"]]["dates"][f["date"]]["status"] for f in r["flights"]}


def ahead(r: dict[str, Any]) -> bool:
    """Nothing of it has been flown, cancelled or delayed."""
    return states(r) == {"available"}


def old(r: dict[str, Any]) -> bool:
    """Booked more than 24 hours ago."""
    return bool(r["created_at"] < "2024-05-14T15:00:00")


def kept(r: dict[str, Any]) -> list[dict[str, str]]:
    """The flights of a reservation as an argument."""
    return [{"flight_number": f["flight_number"], "date": f["date"]} for f in r["flights"]]


def tier(r: dict[str, Any]) -> str:
    """Membership of the owner."""
    return str(db()["users"][r["user_id"]]["membership"])


def payable(r: dict[str, Any]) -> bool:
    """Whether the owner holds a credit card."""
    return any(m["source"] == "credit_card" for m in db()["users"][r["user_id"]]["payment_methods"].values())


def card_of(r: dict[str, Any]) -> str:
    """The owner's credit card."""
    return str(method(db()["users"][r["user_id"]], "credit_card")["id"])


def seats(r: dict[str, Any], cabin: str) -> bool:
    """Whether every flight of a reservation has room for its passengers in a cabin."""
    days = [db()["flights"][f["flight_number"]]["dates"][f["date"]] for f in r["flights"]]
    return all(d.get("available_seats", {}).get(cabin, 0) >= len(r["passengers"]) for d in days)


# -- bookings ---


def booking_cases() -> Iterator[Case]:
    """Everything that can be wrong with a booking."""
    wish = "I want to book a flight, with bags and insurance if they fit."
    out, back = there_and_back()
    user = next(users("silver", "credit_card"))
    me = user["user_id"]

    def case(rule: str, what: str, bad: Call, good: Call) -> Case:
        return confirmed(rule, what, bad, good, str(bad.arguments["user_id"]), wish)

    one = booking(user, [leg(out)])
    both = booking(
        user, [leg(out), leg(back, "2024-05-22")], destination=out["destination"], flight_type="round_trip"
    )
    six = [person(n) for n in range(6)]
    yield case(
        "passengers_at_most_five",
        "six passengers",
        booking(user, [leg(out)], passengers=six),
        booking(user, [leg(out)], passengers=six[:5]),
    )
    yield case(
        "passengers_at_most_five",
        "six passengers in business",
        booking(user, [leg(out)], passengers=six, cabin="business"),
        booking(user, [leg(out)], passengers=six[1:], cabin="business"),
    )
    yield case(
        "itinerary_shape", "round trip without the way back", changed(one, flight_type="round_trip"), one
    )
    yield case("itinerary_shape", "one way that comes back", changed(both, flight_type="one_way"), both)
    yield case("itinerary_shape", "ends elsewhere", changed(one, destination=other(out)), one)
    yield case("itinerary_connects", "starts elsewhere", changed(one, origin=other(out)), one)
    yield case(
        "itinerary_shape",
        "no flights at all",
        changed(one, flights=[], payment_methods=[{**one.arguments["payment_methods"][0], "amount": 0}]),
        one,
    )
    first, late, early = one_stop()
    legal = booking(user, [leg(first), leg(late)])
    yield case("itinerary_connects", "misses the connection", booking(user, [leg(first), leg(early)]), legal)
    yield case(
        "itinerary_connects",
        "wrong order",
        booking(user, [leg(late), leg(first)], origin=first["origin"], destination=late["destination"]),
        legal,
    )
    jump = next(
        f
        for f in open_flights(DATE, 2)
        if f["origin"] not in (first["destination"], first["origin"])
        and f["destination"] == late["destination"]
    )
    yield case(
        "itinerary_connects", "jumps to another airport", booking(user, [leg(first), leg(jump)]), legal
    )
    yield case(
        "itinerary_connects",
        "return before arrival",
        booking(
            user,
            [leg(out, "2024-05-23"), leg(back, "2024-05-22")],
            destination=out["destination"],
            flight_type="round_trip",
        ),
        both,
    )
    for field, value in (("dob", ""), ("dob", "unknown"), ("dob", "2031-01-01"), ("last_name", " ")):
        yield case(
            "passenger_details",
            f"{field} {value!r}",
            changed(one, passengers=[{**person(), field: value}]),
            one,
        )
    yield case(
        "passenger_details",
        "one passenger twice",
        booking(user, [leg(out)], passengers=[person(), person()]),
        booking(user, [leg(out)], passengers=[person(), person(1)]),
    )
    asked = booking(user, [leg(out)], insurance="yes")
    plain = talk(one, "I want to book a flight.", me)[:2]
    short = (
        ("assistant", f"I can book {out['flight_number']} in economy for you. Do you confirm?"),
        ("user", "Yes."),
    )
    yield Case("insurance_asked", "insurance nobody spoke of", asked, one, plain + short)
    bags = booking(user, [leg(out)], total_baggages=2)
    yield Case("bags_wanted", "bags nobody spoke of", bags, one, plain + short)


def other(flight: dict[str, Any]) -> str:
    """An airport that a flight does not touch."""
    return next(a for a in ("MIA", "SEA", "BOS") if a not in (flight["origin"], flight["destination"]))


def payment_cases() -> Iterator[Case]:
    """Everything that can be wrong with how a booking is paid."""
    wish = "I want to book a flight."
    out, _ = there_and_back()

    def case(rule: str, what: str, bad: Call, good: Call) -> Case:
        return confirmed(rule, what, bad, good, str(bad.arguments["user_id"]), wish)

    for source, most in (("certificate", 1), ("credit_card", 1), ("gift_card", 3)):
        sources = (
            "credit_card",
            *[source] * (most + (source != "credit_card")),
            *["credit_card"] * (source == "credit_card"),
        )
        for n, user in enumerate([u for t in TIERS for u in users(t, *sources)][:2]):
            call = booking(user, [leg(out)], cabin="business")
            first = 1 if source == "credit_card" else 0  # the first card pays the rest
            ids = [method(user, source, first + k)["id"] for k in range(most + (source != "credit_card"))]
            fewer = ids[:-1] if source != "credit_card" else []
            yield case(
                "payment_counts",
                f"{len(ids) + first} {source}s, user {n}",
                split(call, *[(i, 10) for i in ids]),
                split(call, *[(i, 10) for i in fewer]),
            )
    for source in ("gift_card", "certificate"):
        user = next(
            u
            for t in TIERS
            for u in users(t, source, "credit_card")
            if 20 < method(u, source)["amount"] < 150
        )
        call, held = booking(user, [leg(out)], cabin="business"), method(user, source)
        most = int(held["amount"])
        if source == "gift_card":  # the environment itself stumbles over a certificate listed twice
            yield case(
                "payment_amounts",
                "gift card balance spent twice",
                split(call, (held["id"], most), (held["id"], most)),
                split(call, (held["id"], most)),
            )
        yield case(
            "payment_amounts",
            f"negative {source} part",
            split(call, (held["id"], -20)),
            split(call, (held["id"], 20)),
        )


def baggage_cases() -> Iterator[Case]:
    """The free allowance, for every tier and cabin, booking and changing."""
    out, _ = there_and_back()
    for row, level in enumerate(TIERS):
        user = next(users(level, "credit_card"))
        for column, cabin in enumerate(CABINS):
            free = row + column
            good = booking(user, [leg(out)], cabin=cabin, total_baggages=free + 1, nonfree_baggages=1)
            cheap = booking(user, [leg(out)], cabin=cabin, total_baggages=free + 1)
            yield confirmed(
                "baggage_allowance",
                f"{level} {cabin}: a paid bag for free",
                cheap,
                good,
                user["user_id"],
                "I want to book a flight with checked bags.",
            )
            if free:
                yield confirmed(
                    "baggage_allowance",
                    f"{level} {cabin}: a free bag for $50",
                    booking(user, [leg(out)], cabin=cabin, total_baggages=free, nonfree_baggages=1),
                    booking(user, [leg(out)], cabin=cabin, total_baggages=free),
                    user["user_id"],
                    "I want to book a flight with checked bags.",
                )
            yield from bag_change_cases(level, cabin, free)


def bag_change_cases(level: str, cabin: str, per_person: int) -> Iterator[Case]:
    """Adding to and removing from a reservation of a tier and cabin."""
    wish = "I want to change my checked bags."
    mine = list(reservations(lambda r: ahead(r) and payable(r), tier=level, cabin=cabin))
    r = next(r for r in mine if r["nonfree_baggages"] == 0)
    free = per_person * len(r["passengers"])
    arguments = {"reservation_id": r["reservation_id"], "total_baggages": free + 2, "payment_id": card_of(r)}
    yield confirmed(
        "baggage_allowance",
        f"{level} {cabin}: extra bags added for free",
        Call(BAGS, {**arguments, "nonfree_baggages": 0}),
        Call(BAGS, {**arguments, "nonfree_baggages": 2}),
        r["user_id"],
        wish,
    )
    loaded = next((r for r in mine if r["total_baggages"] >= 1), None)
    if loaded:
        now = {
            "reservation_id": loaded["reservation_id"],
            "payment_id": card_of(loaded),
            "nonfree_baggages": loaded["nonfree_baggages"],
            "total_baggages": loaded["total_baggages"],
        }
        least = now["total_baggages"] - 1
        paid = max(0, least - per_person * len(loaded["passengers"]))
        yield confirmed(
            "bags_only_added",
            f"{level} {cabin}: a bag removed",
            Call(BAGS, {**now, "total_baggages": least, "nonfree_baggages": paid}),
            Call(BAGS, now),
            loaded["user_id"],
            wish,
        )


# -- changes ---


def change(r: dict[str, Any], flights: list[dict[str, str]], cabin: str | None = None) -> Call:
    """A change of flights or cabin, paid by the owner's credit card."""
    return Call(
        FLIGHTS,
        {
            "reservation_id": r["reservation_id"],
            "cabin": cabin or r["cabin"],
            "flights": flights,
            "payment_id": card_of(r),
        },
    )


def change_cases() -> Iterator[Case]:
    """Everything that can be wrong with a change of flights."""
    wish = "I want to change my flights."

    def case(rule: str, what: str, r: dict[str, Any], bad: Call, good: Call, **more: Any) -> Case:
        return confirmed(rule, what, bad, good, r["user_id"], wish, **more)

    def find(test: Test, **columns: str) -> dict[str, Any]:
        return next(reservations(lambda r: payable(r) and test(r), **columns))

    def moved(r: dict[str, Any], start: str, end: str, date: str = "2024-05-25") -> list[dict[str, str]]:
        flight = route(start, end, date, len(r["passengers"]))
        return [leg(flight, date)] if flight else []

    def straight(r: dict[str, Any]) -> bool:
        return bool(r["flight_type"] == "one_way" and ahead(r) and moved(r, r["origin"], r["destination"]))

    for cabin in ("basic_economy", "economy"):
        basic = find(lambda r: straight(r) and seats(r, "economy"), cabin="basic_economy")
        yield case(
            "basic_economy_fixed",
            f"new date, {cabin}",
            basic,
            change(basic, moved(basic, basic["origin"], basic["destination"]), cabin),
            change(basic, kept(basic), "economy"),
        )

    def elsewhere(r: dict[str, Any], leave: bool) -> list[dict[str, str]]:
        fixed = r["origin"] if leave else r["destination"]
        for airport in sorted(
            {f["origin"] for f in db()["flights"].values()}
            - {
                "JFK",
                "LGA",
                r["origin"],
                r["destination"],
            }
        ):
            flights = moved(r, fixed, airport) if leave else moved(r, airport, fixed)
            if flights:
                return flights
        return []

    way = find(
        lambda r: (
            r["cabin"] == "economy" and straight(r) and bool(elsewhere(r, True)) and bool(elsewhere(r, False))
        )
    )
    legal = change(way, moved(way, way["origin"], way["destination"]))
    yield case("same_route", "another destination", way, change(way, elsewhere(way, True)), legal)
    yield case("same_route", "another origin", way, change(way, elsewhere(way, False)), legal)
    there = find(
        lambda r: (
            r["cabin"] == "economy"
            and straight(r)
            and bool(moved(r, r["destination"], r["origin"], "2024-05-27"))
        )
    )
    single = moved(there, there["origin"], there["destination"])
    yield case(
        "same_route",
        "one way made a round trip",
        there,
        change(there, [*single, *moved(there, there["destination"], there["origin"], "2024-05-27")]),
        change(there, single),
    )
    for cabin in ("economy", "business"):
        tour = find(lambda r: ahead(r) and len(r["flights"]) == 2, flight_type="round_trip", cabin=cabin)
        yield case(
            "same_route",
            f"{cabin}: the way back left out",
            tour,
            change(tour, kept(tour)[:1]),
            change(tour, kept(tour)),
        )
        yield case(
            "same_route",
            f"{cabin}: the way out left out",
            tour,
            change(tour, kept(tour)[1:]),
            change(tour, kept(tour)),
        )
    yield case("same_route", "no flights", tour, change(tour, []), change(tour, kept(tour)))
    hop = find(
        lambda r: (
            r["cabin"] != "basic_economy"
            and r["flight_type"] == "one_way"
            and ahead(r)
            and len(r["flights"]) == 2
        )
    )
    yield case("same_route", "segments swapped", hop, change(hop, kept(hop)[::-1]), change(hop, kept(hop)))
    yield case(
        "same_route", "second segment dropped", hop, change(hop, kept(hop)[:1]), change(hop, kept(hop))
    )
    yield from flown_change_cases(case, find)


def flown_change_cases(case: Callable[..., Case], find: Callable[[Test], dict[str, Any]]) -> Iterator[Case]:
    """Trips under way, and reservations that are cancelled already."""
    for cabin in ("economy", "business"):
        flying = find(lambda r: {"landed", "available"} <= states(r) and len(r["flights"]) > 1, cabin=cabin)
        todo = [
            f
            for f in kept(flying)
            if db()["flights"][f["flight_number"]]["dates"][f["date"]]["status"] == "available"
        ]
        yield case(
            "flown_segments_kept",
            f"{cabin}: flown segments dropped",
            flying,
            change(flying, todo),
            change(flying, kept(flying)),
        )
        if cabin == "economy":
            up = change(flying, todo, "business")
            yield case(
                "flown_segments_kept", "new cabin after departure", flying, up, change(flying, kept(flying))
            )
    gone = find(lambda r: r["cabin"] == "business" and ahead(r))
    fresh = find(
        lambda r: r["cabin"] == "business" and ahead(r) and r["reservation_id"] != gone["reservation_id"]
    )
    same = {"reservation_id": gone["reservation_id"]}
    others = [fresh, gone]
    for what, make in (
        ("cancelled twice", cancel),
        ("flights changed", lambda r: change(r, kept(r))),
        (
            "bag added",
            lambda r: Call(
                BAGS,
                {
                    "reservation_id": r["reservation_id"],
                    "total_baggages": r["total_baggages"],
                    "nonfree_baggages": r["nonfree_baggages"],
                    "payment_id": card_of(r),
                },
            ),
        ),
        (
            "passenger changed",
            lambda r: Call(
                PASSENGERS,
                {
                    "reservation_id": r["reservation_id"],
                    "passengers": [person(n) for n in range(len(r["passengers"]))],
                },
            ),
        ),
    ):
        bad, good = make(others[1]), make(others[0])
        yield Case(
            "not_cancelled",
            what,
            bad,
            good,
            talk(bad, "Change it.", gone["user_id"]),
            talk(good, "Change it.", fresh["user_id"]),
            (Call(CANCEL, same),),
        )
    two = find(lambda r: ahead(r) and len(r["passengers"]) == 2)
    names = {"reservation_id": two["reservation_id"]}
    yield case(
        "passenger_details",
        "a passenger listed twice",
        two,
        Call(PASSENGERS, {**names, "passengers": [person(), person()]}),
        Call(PASSENGERS, {**names, "passengers": [person(), person(1)]}),
    )


# -- cancelling, compensation, conduct ---


def cancel(r: dict[str, Any]) -> Call:
    """A cancellation."""
    return Call(CANCEL, {"reservation_id": r["reservation_id"]})


def cancel_cases() -> Iterator[Case]:
    """Reservations that the policy does not let go."""

    def pick(test: Test, **columns: str) -> dict[str, Any]:
        return next(reservations(test, **columns))

    business = pick(lambda r: r["cabin"] == "business" and ahead(r) and old(r))
    plans = "I want to cancel my trip because of a change of plans."
    for level in TIERS:
        for cabin in CABINS[:2]:
            bare = pick(lambda r: ahead(r) and old(r), tier=level, cabin=cabin, insurance="no")
            recent = reservations(lambda r: ahead(r) and not old(r), cabin=cabin, insurance="no")
            new = next(recent, business)
            yield Case(
                "cancel_conditions",
                f"{level} {cabin}, not insured, booked days ago",
                cancel(bare),
                cancel(new),
                talk(cancel(bare), plans, bare["user_id"]),
                talk(cancel(new), plans, new["user_id"]),
            )
    ill = "I want to cancel my trip because I am sick."
    for cabin in CABINS[:2]:
        safe = pick(lambda r: ahead(r) and old(r), cabin=cabin, insurance="yes")
        for why in ("a change of plans", "my best friend's birthday", "a scheduling conflict"):
            wish = f"I want to cancel my trip because of {why}."
            yield Case(
                "cancel_conditions",
                f"{cabin}, insured, {why}",
                cancel(safe),
                cancel(safe),
                talk(cancel(safe), wish, safe["user_id"]),
                talk(cancel(safe), ill, safe["user_id"]),
            )
        bare = pick(lambda r: ahead(r) and old(r), cabin=cabin, insurance="no")
        yield Case(
            "cancel_conditions",
            f"{cabin}, sick but not insured",
            cancel(bare),
            cancel(safe),
            talk(cancel(bare), ill, bare["user_id"]),
            talk(cancel(safe), ill, safe["user_id"]),
        )
    for cabin in CABINS:
        under_way = pick(lambda r: {"landed", "available"} <= states(r), cabin=cabin)
        yield Case(
            "cancel_flown",
            f"{cabin}, first segment flown",
            cancel(under_way),
            cancel(business),
            talk(cancel(under_way), ill, under_way["user_id"]),
            talk(cancel(business), ill, business["user_id"]),
        )
    over = pick(lambda r: r["cabin"] == "economy" and states(r) == {"landed"} and r["insurance"] == "yes")
    yield Case(
        "cancel_flown",
        "economy, insured, all flown",
        cancel(over),
        cancel(business),
        talk(cancel(over), ill, over["user_id"]),
        talk(cancel(business), ill, business["user_id"]),
    )


def compensation_cases() -> Iterator[Case]:
    """Certificates that the policy does not allow."""

    def send(user: str, amount: int) -> Call:
        return Call(CERTIFICATE, {"user_id": user, "amount": amount})

    def said(user: str, words: str) -> Talk:
        return (("user", f"{words} My user id is {user}."),)

    mine = {u: [db()["reservations"][k] for k in row["reservations"]] for u, row in db()["users"].items()}
    upset = "My flight was delayed or cancelled and I want compensation."
    for state, rate in (("cancelled", 100), ("delayed", 50)):
        user, r = next(
            (u, r)
            for u, rs in mine.items()
            for r in rs
            if db()["users"][u]["membership"] != "regular"
            and state in states(r)
            and sum(bool({"cancelled", "delayed"} & states(x)) for x in rs) == 1
            and len(r["passengers"]) > 1
            and len({"cancelled", "delayed"} & states(r)) == 1
        )
        due = rate * len(r["passengers"])
        for wrong in (rate, due + 50, 150 * len(r["passengers"])):
            yield Case(
                "compensation_amount",
                f"{state}: ${wrong} for ${due}",
                send(user, wrong),
                send(user, due),
                said(user, upset),
            )
        yield Case(
            "compensation_asked",
            f"{state}: nobody asked",
            send(user, due),
            send(user, due),
            said(user, "I have a question about my trip."),
            said(user, upset),
        )
        first = send(user, due)
        yield Case(
            "compensation_amount",
            f"{state}: sent twice",
            first,
            Call("get_user_details", {"user_id": user}),
            said(user, upset),
            before=(first,),
        )
        plain = next(
            u
            for u, rs in mine.items()
            if db()["users"][u]["membership"] == "regular"
            and any(state in states(r) for r in rs)
            and not any(
                {"cancelled", "delayed"} & states(r) and (r["insurance"] == "yes" or r["cabin"] == "business")
                for r in rs
            )
        )
        yield Case(
            "compensation_eligible",
            f"{state}: regular, uninsured, economy",
            send(plain, rate),
            first,
            said(plain, upset),
            said(user, upset),
        )
        calm = next(
            u
            for u, rs in mine.items()
            if db()["users"][u]["membership"] == "gold"
            and rs
            and not any({"cancelled", "delayed"} & states(r) for r in rs)
        )
        yield Case(
            "compensation_eligible",
            f"nothing {state} for a gold member",
            send(calm, rate),
            first,
            said(calm, upset),
            said(user, upset),
        )


def conduct_cases() -> Iterator[Case]:
    """Acts without the user's yes, for somebody else, or handed on too early."""
    out, _ = there_and_back()
    trip = next(
        reservations(
            lambda r: r["cabin"] == "business" and ahead(r) and payable(r) and r["nonfree_baggages"] == 0
        )
    )
    owner = trip["user_id"]
    more = trip["total_baggages"] + (trip["total_baggages"] < 2)
    people = [person(n) for n in range(len(trip["passengers"]))]
    calls = (
        booking(next(u for u in users(tier(trip), "credit_card") if u["user_id"] == owner), [leg(out)]),
        cancel(trip),
        change(trip, kept(trip)),
        Call(
            BAGS,
            {
                "reservation_id": trip["reservation_id"],
                "total_baggages": more,
                "nonfree_baggages": 0,
                "payment_id": card_of(trip),
            },
        ),
        Call(PASSENGERS, {"reservation_id": trip["reservation_id"], "passengers": people}),
    )
    stranger = next(u for u in db()["users"] if u != owner)
    for call in calls:
        fine = talk(call, "Please help me with my trip and bags.", owner)
        yield Case("confirmed_first", f"{call.name}: never listed", call, call, fine[:2], fine)
        for answer in (
            "No, wait. Let me think about it.",
            "How much would that cost?",
            "Please don't do that yet.",
        ):
            yield Case(
                "confirmed_first", f"{call.name}: {answer}", call, call, (*fine[:3], ("user", answer)), fine
            )
        foreign = talk(call, "Please help me with my trip and bags.", stranger)
        yield Case("own_reservation", f"{call.name} for another user", call, call, foreign, fine)
    unsure = Call(TRANSFER, {"summary": "The user wants to change a flight."})
    idle = Call(TRANSFER, {"summary": "The user wants to remove a bag."})
    asked = (
        ("user", "I want to change my flight."),
        ("assistant", "Which one?"),
        ("user", "The one to Denver."),
    )
    wants = (*asked, ("user", "Let me speak to a human please."))
    yield Case("transfer_out_of_scope", "nothing tried, nobody asked", unsure, unsure, asked, wants)
    reason = Call(TRANSFER, {"summary": "The user wants to remove a bag, which the policy does not allow."})
    yield Case("transfer_out_of_scope", "no reason given", idle, reason, asked)


def cases() -> list[Case]:
    """All of them."""
    parts = (
        booking_cases,
        payment_cases,
        baggage_cases,
        change_cases,
        cancel_cases,
        compensation_cases,
        conduct_cases,
    )
    return [case for part in parts for case in part()]


def record(case: Case) -> dict[str, Any]:
    """A case as ``ecdysis-lab check --violations`` reads it."""
    calls = [{"name": c.name, "arguments": c.arguments} for c in (case.bad, *case.before)]
    messages = [{"role": role, "content": text} for role, text in case.talk]
    return {"rule": f"{case.rule}: {case.what}", "call": calls[0], "messages": messages, "done": calls[1:]}


if __name__ == "__main__":
    print(json.dumps([record(case) for case in cases()], indent=1))
