"""Procedural skills for tau2/airline: short procedures that fit the user's first message."""

from ecdysis_lab.hooks import anycase, fitting

ALWAYS = (
    "Before each change list its details and get a yes. Make every confirmed change before you say it is "
    "done. State every figure the user asked for. Never make the same call again: nothing new comes back."
)
PROCEDURES = (
    (
        anycase(r"cancel|refund"),
        "Cancel: ask the reason; read the reservation and its flight status. Allowed only within 24 hours of "
        "booking, if the airline cancelled, in business, or insured for health or weather. Otherwise deny.",
    ),
    (
        anycase(r"chang|modif|move|upgrad|downgrad|nonstop|push|earlier|later|cabin|economy|business"),
        "Change: origin, destination and trip type stay. Basic economy: upgrade the cabin first, in its own "
        "call. Pay with the one gift or credit card that the user named.",
    ),
    (
        anycase(r"\bbook|new flight|fly from"),
        "Book: collect trip type, cabin, passengers (at most 5), bags, insurance, payment from the profile.",
    ),
    (
        anycase(r"bag|luggage|suitcase"),
        "Free bags per passenger in basic economy/economy/business: regular 0/1/2, silver 1/2/3, gold 2/3/4. "
        "Add only bags the user needs.",
    ),
    (
        anycase(r"delay|compensat|complain|voucher|upset|frustrat"),
        "Compensation: verify membership, insurance, cabin, passengers and flight status yourself.",
    ),
)
MOST = 3


def brief(opening: str, policy: str) -> str:
    """The standing advice, then procedures whose words occur in the opening, as one paragraph each."""
    return "\n\n".join([ALWAYS, *fitting(opening, PROCEDURES)[:MOST]])
