"""Procedural skills for tau2/retail: short procedures that fit the user's first message."""

from ecdysis_lab.hooks import anycase, fitting

ALWAYS = (
    "Before each change list its details and get a yes. Make every confirmed change before you say it is "
    "done. State every figure the user asked for. Never make the same call again: nothing new comes back."
)
PROCEDURES = (
    (
        anycase(r"exchang|return|refund|replac|swap|damaged|broken"),
        "Delivered order: one return or one exchange, never both; ask if all items are named. New items: "
        "same product, available. Pay with the method that the user named.",
    ),
    (
        anycase(r"modif|chang|switch|upgrad|address|deliver|ship"),
        "Pending order: address first, then payment, items last and once, since nothing works after. Leave "
        "the profile address alone unless asked.",
    ),
    (
        anycase(r"cancel"),
        "Cancel: whole pending orders only, and only if no longer needed or ordered by mistake.",
    ),
)


def brief(opening: str, policy: str) -> str:
    """The standing advice, then procedures whose words occur in the opening, as one paragraph each."""
    return "\n\n".join([ALWAYS, *fitting(opening, PROCEDURES)])
