"""Names and quotes of patterns: class-based TF-IDF over what went wrong and the tools it went wrong in."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from ecdysis_lab.failures import shorten
from ecdysis_lab.records import Failure

_WORD = re.compile(r"[^\W\d_]{3,}(?:_[^\W\d_]+)*")
_STOP = frozenset(
    {
        "the",
        "and",
        "for",
        "you",
        "your",
        "with",
        "that",
        "this",
        "have",
        "has",
        "was",
        "are",
        "not",
        "but",
        "can",
    }
    | {
        "could",
        "would",
        "will",
        "from",
        "into",
        "been",
        "were",
        "any",
        "please",
        "error",
        "call",
        "tool",
        "result",
    }
    | {"more", "than", "its", "they", "there", "which", "what", "who", "how", "does", "did"}
)


def quote_of(failure: Failure) -> str:
    """One line of a card: the first bad thing where there is one, else the last thing the agent said or did."""
    if failure.first_bad_what:
        return failure.first_bad_what
    lines = failure.card.split("\n")
    acts = [line for line in lines if re.match(r"\[\d+\] (assistant:|call )", line)]
    return shorten(re.sub(r"^\[\d+\] ", "", acts[-1] if acts else lines[0]), 160)


def terms(failure: Failure) -> frozenset[str]:
    """What a name may be made of: outcomes of tools, words of errors, how it ended, what was checked."""
    found = {token.replace(":", " ") for token in failure.path if not token.endswith(":ok")}
    found |= {token.split(":")[0] for token in failure.path}
    words = [w for w in _WORD.findall(failure.first_bad_what.lower().partition(":")[2]) if w not in _STOP]
    found |= set(words) | {f"{a} {b}" for a, b in pairwise(words)}
    found |= {f"{check} check" for check in failure.failed_checks}
    if failure.termination != "user_stop":
        found.add(f"ended by {failure.termination}")
    return frozenset(found)


def names_of(groups: Sequence[Sequence[frozenset[str]]], top: int = 3) -> list[str]:
    """Name of each group: its terms with the highest class-based TF-IDF (Grootendorst 2022).

    A term counts once per failure, so that one long failure does not name its pattern.
    """
    counts = [Counter(term for found in group for term in found) for group in groups]
    overall = Counter[str]()
    for count in counts:
        overall.update(count)
    mean = sum(overall.values()) / max(len(groups), 1)
    names = []
    for group, count in zip(groups, counts, strict=True):
        score = {t: c / len(group) * math.log(1 + mean / overall[t]) for t, c in count.items()}
        ranked = sorted((t for t in score if 2 * count[t] >= len(group)), key=lambda t: (-score[t], t))
        chosen: list[str] = []
        for term in ranked:
            if len(chosen) < top and not any(set(term.split()) & set(c.split()) for c in chosen):
                chosen.append(term)
        names.append(" · ".join(chosen) or "mixed")
    return names
