"""Names and quotes of patterns: class-based TF-IDF over what went wrong and the tools it went wrong in."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from ecdysis_lab.failures.transcript import shorten, steps
from ecdysis_lab.records import Failure

READS = 0.3  # weight of a tool that was only read from: it says where, not what went wrong
_CODED = re.compile(r"\S*\d\S*")
_BAD = {"refused": "refused", "unanswered": "cut off"}
_KINDS = {  # words of ``first_bad_what`` -> term; without the tool, so that one cause has one name
    "written without the user's yes": "write without a yes",
    "same call": "same call repeated",
    "claimed without the call": "claim without the call",
    "found nothing, and": "gave up on an empty result",
    "harness refusal": "refused by the harness",
    "harness fault": "fault of the harness",
}


def quote_of(failure: Failure) -> str:
    """One line of a card: the first bad thing where there is one, else what the agent last said at length."""
    if failure.first_bad_what:
        return failure.first_bad_what
    lines = failure.card.split("\n")
    said = [line for line in lines if re.match(r"\[\d+\] assistant:", line)]
    # The longest: the last one is mostly a goodbye.
    return shorten(re.sub(r"^\[\d+\] ", "", max(said, key=len) if said else lines[-1]), 160)


def terms(failure: Failure) -> dict[str, float]:
    """What a name may be made of, with weights: errors, writes, how it ended, failed checks, tools read."""
    found: dict[str, float] = {}
    for step in steps(failure.trajectory.messages):
        tool = step.call.name
        if step.outcome == "error":
            found[f"error: {gist(step.result)}"] = 1.0
            found[f"{tool} error"] = 0.9
        elif tool.startswith("transfer_to_human"):
            found["handed to a human"] = 1.0
        elif tool not in failure.writes:
            found[tool] = READS
    found |= {f"{tool} made": 0.8 for tool in failure.writes}
    if failure.dialogue and not failure.writes:
        found["no write made"] = 1.0
    for token in failure.path:
        tool, _, outcome = token.rpartition(":")
        if outcome in _BAD:
            found[f"{tool} {_BAD[outcome]}"] = 1.0
    found |= {kind: 1.2 for start, kind in _KINDS.items() if start in failure.first_bad_what}
    found |= {f"{check} check failed": 0.8 for check in failure.failed_checks}
    if failure.termination not in ("user_stop", "agent_stop", "transfer"):
        found[f"ended by {failure.termination}"] = 1.0
    return found


def gist(error: str) -> str:
    """The first words of an error message without codes and quoted names, e.g. ``payment amount does not add up``."""
    text = re.sub(
        r"^\W*((error|\d+ \(\w+\))\W+)+|\b\w+\.\w+\(\)", "", shorten(error, 200), flags=re.IGNORECASE
    )
    text = re.sub(r"(?<!\w)'[^']*'(?!\w)", "", text)
    words = _CODED.sub("", re.split(r"[,.;(]", text)[0]).split()
    return " ".join(words[:7])


def names_of(groups: Sequence[Sequence[dict[str, float]]], top: int = 3) -> list[str]:
    """Name of each group: its terms with the highest class-based TF-IDF (Grootendorst 2022).

    A term counts once per failure, so that one long failure does not name its pattern, and it must hold for
    at least half of the group. What nearly all failures share names none, and each tool is named once.
    """
    counts = [Counter(term for found in group for term in found) for group in groups]
    weight = {term: w for group in groups for found in group for term, w in found.items()}
    overall = Counter[str]()
    for count in counts:
        overall.update(count)
    mean = sum(overall.values()) / max(len(groups), 1)
    total = sum(map(len, groups))
    names = []
    for group, count in zip(groups, counts, strict=True):
        score = {t: weight[t] * c / len(group) * math.log(1 + mean / overall[t]) for t, c in count.items()}
        common = [t for t in score if 2 * count[t] >= len(group)]
        telling = [t for t in common if overall[t] < 0.8 * total] or common
        ranked = sorted(telling, key=lambda t: (-score[t], t))
        chosen: list[str] = []
        for term in sorted(ranked, key=lambda t: weight[t] <= READS):
            fresh = term.split()[0] not in {c.split()[0] for c in chosen}
            if fresh and len(chosen) < (top if weight[term] > READS else 2):
                chosen.append(term)
        names.append(" · ".join(chosen) or "mixed")
    return names
