"""Trajectory regulation for tau2/airline: explain errors, break loops, stop claims of work not done."""

import json
import re
from collections.abc import Callable

from ecdysis_lab.hooks import Allow, Call, Refuse, Verdict, View, enabled

WRITES = {
    "cancel_reservation": r"cancel",
    "update_reservation_baggages": r"\bbag|luggage|suitcase",
    "update_reservation_passengers": r"passenger|\bname",
    "update_reservation_flights": r"flight|cabin|upgrad|downgrad|economy|business",
    "book_reservation": r"\bbook",
    "send_certificate": r"certificate|voucher",
}
CLAIM = (
    r"\b(has|have) (now )?(been )?(successfully )?(been )?(cancel|book|chang|updat|upgrad|downgrad|modif"
    r"|process|complet|added|issued|made|taken care)|\b(is|are) (now )?(confirmed|booked|cancel+ed|all set)\b"
    r"|\bI('ve| have) (now |successfully )*(cancel|book|chang|updat|upgrad|made|added)|successfully"
)
ASKS = r"confirm|proceed|go ahead|would you like|(shall|should) i|do you want|yes/no|\(yes"
YES = r"^\W*(yes|yeah|yep|sure|ok|okay|please|go ahead|confirm|correct|that'?s (right|correct)|sounds good)\b"
HOLD = "TRANSFERRED TO A HUMAN AGENT"
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


def claim_without_write(text: str, view: View) -> Verdict | None:
    """A claim of work that the user has just agreed to needs a call that did it."""
    turns = [m for m in view.messages if m["content"]]
    if len(turns) < 2 or turns[-1]["role"] != "user" or not re.search(CLAIM, text, re.I):
        return None
    asked, answer = turns[-2]["content"], turns[-1]["content"]
    if not (re.search(ASKS, asked, re.I) and re.search(YES, answer, re.I)):
        return None
    meant = [tool for tool, words in WRITES.items() if re.search(words, asked + text, re.I)]
    if meant == ["send_certificate"]:  # often refused for good reason after the user's yes
        return None
    listed = set(re.findall(r"\b(?!HAT\d)(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{6}\b", asked))
    made = [d.call for d in view.done if d.call.name in meant]  # a rejected call got its own note
    if not meant or any(
        not listed or call.arguments.get("reservation_id", "") in ("", *listed) for call in made
    ):
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


NOTES.update(repeated_read=repeated_read, error_hint=error_hint)
REPLIES.update(claim_without_write=claim_without_write, transfer_without_call=transfer_without_call)


def observe(call: Call, result: str, view: View) -> str | None:
    """The first note that fits a result."""
    notes = (note(call, result, view) for name, note in NOTES.items() if enabled(name))
    return next((note for note in notes if note), None)


def on_reply(text: str, view: View) -> Verdict:
    """Stop a reply that is not true."""
    verdicts = (rule(text, view) for name, rule in REPLIES.items() if enabled(name))
    return next((verdict for verdict in verdicts if verdict), Allow())
