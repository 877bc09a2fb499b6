"""Trajectory regulation for tau2/airline: explain errors, break loops, stop claims of work not done."""

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
    "cancel_reservation": anycase(r"cancel"),
    "update_reservation_baggages": anycase(r"\bbag|luggage|suitcase"),
    "update_reservation_passengers": anycase(r"passenger|\bname"),
    "update_reservation_flights": anycase(r"flight|cabin|upgrad|downgrad|economy|business"),
    "book_reservation": anycase(r"\bbook"),
    "send_certificate": anycase(r"certificate|voucher"),
}
ERRORS = (
    (
        r"does not add up",
        "Total = (fares + $30 if insured) x passengers + $50 x nonfree bags; split it again and confirm.",
    ),
    (
        r"not available on date",
        "Only flights with status available can be taken; a flown segment rules out a new cabin: deny.",
    ),
    (r"[Cc]ertificate cannot", "Changes are paid with one gift card or credit card of the profile."),
    (r"Number of passengers", "The number of passengers cannot change; not even a human agent can help."),
    (r"ot enough balance|balance is not enough", "Ask for another payment method of the profile."),
    (r"Payment method not found|method \S+ not found", "Take a payment id from get_user_details."),
    (r"Not enough seats", "Search for another flight or cabin."),
)
HINTS = [(re.compile(words), hint) for words, hint in ERRORS]
RESERVATION = re.compile(r"\b(?!HAT\d)(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{6}\b")

rules.note("repeated_read")(repeated_read)


@rules.note("error_hint")
def hint(call: Call, result: str, view: View) -> str | None:
    """What a rejected call needs, by the policy."""
    return error_hint(call, result, view, HINTS)


@rules.reply("claim_without_write")
def claim(text: str, view: View) -> tuple[str, str] | None:
    """A claim of work that the user has just agreed to needs a call that did it."""
    doubtful = ("send_certificate",)  # often refused for good reason after the user's yes
    return claim_without_write(text, view, WRITES, "reservation_id", RESERVATION, doubtful)


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
