"""How often each simulated model slips, listens and corrects itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """One simulated agent model; every number is a probability.

    Parameters
    ----------
    name : the part after ``sim/``.
    slip : that a susceptible task brings out its slip in a given trial.
    heed : that matching guidance suppresses a slip.
    recover : that a refusal (which names a valid option) is followed.
    recover_error : that a bare tool error, or an empty result, is followed by the right call.
    blunder : of a random wrong act that nothing prevents.
    quirks : slips that only this profile has.
    """

    name: str
    slip: float
    heed: float
    recover: float
    recover_error: float
    blunder: float
    quirks: tuple[str, ...] = ()


PROFILES: dict[str, Profile] = {
    p.name: p
    for p in (
        Profile(
            "small", 0.95, 0.80, 0.85, 0.10, 0.06,
            ("apology_certificate", "default_address_too", "joined_answers"),
        ),
        Profile("medium", 0.75, 0.85, 0.90, 0.25, 0.04, ("bag_padding", "answer_in_words")),
        Profile("large", 0.55, 0.92, 0.95, 0.40, 0.02, ("first_payment_method",)),
        Profile(
            "quirky", 0.70, 0.80, 0.85, 0.20, 0.04,
            ("apology_certificate", "bag_padding", "gift_card_refund", "default_address_too", "first_payment_method",
             "joined_answers", "answer_in_words"),
        ),
        Profile("flawless", 0.0, 1.0, 1.0, 1.0, 0.0),
    )
}  # fmt: skip
HEED_LOST_PER_1000_TOKENS = 0.04


def draw(*parts: object) -> float:
    """A number in [0, 1) that depends on nothing but its arguments."""
    digest = hashlib.sha256("|".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
