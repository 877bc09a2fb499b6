"""The leak gate: no fact of a training task may enter the harness.

Facts are ids, persons, e-mail addresses, flights, dates and amounts that occur in training trajectories and neither
in the policy nor in the tool descriptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ecdysis_lab.records import Trajectory

FORMS: dict[str, re.Pattern[str]] = {
    "order id": re.compile(r"#?W\d{7}\b"),
    "user id": re.compile(r"\b[a-z]+_[a-z]+_\d{4}\b"),
    "payment id": re.compile(r"\b(?:credit_card|gift_card|certificate|paypal)_\d{4,}\b"),
    "item or product id": re.compile(r"\b\d{10}\b"),
    "e-mail": re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.]+\b"),
    "flight": re.compile(r"\bHAT\d{3}\b"),
    "reservation id": re.compile(r"\b(?=[A-Z0-9]*\d)(?=[A-Z0-9]*[A-Z])[A-Z0-9]{6}\b"),
    "date": re.compile(r"\b\d{4}-\d{2}-\d{2}\b"),
    "zip code": re.compile(r"\b\d{5}\b"),
    "amount": re.compile(r"\b\d+\.\d{2}\b|\b\d{3,4}\b"),
}
NAME = re.compile(r'"(?:first_name|last_name)": ?"([A-Z][a-z]{2,})"')
STREET = re.compile(r'"address1": ?"([^"]{6,})"')


def facts(trajectories: Iterable[Trajectory], known: str) -> dict[str, str]:
    """Facts of training tasks: text -> kind, without what ``known`` (policy and tool texts) says."""
    found: dict[str, str] = {}
    for trajectory in trajectories:
        found.update(dict(_facts(_text(trajectory))))
    return {fact: kind for fact, kind in found.items() if not _stands_in(fact, known)}


def _text(trajectory: Trajectory) -> str:
    parts = [trajectory.trial.task_id if len(trajectory.trial.task_id) > 5 else ""]
    for m in trajectory.messages:
        parts += [m.content or "", *(str(c.arguments) for c in m.calls)]
    return "\n".join(parts)


def _facts(text: str) -> Iterator[tuple[str, str]]:
    for kind, form in FORMS.items():
        yield from ((m, kind) for m in form.findall(text))
    for user in FORMS["user id"].findall(text):
        yield from ((part.capitalize(), "person") for part in user.split("_")[:2] if len(part) > 2)
    yield from ((m, "person") for m in NAME.findall(text))
    yield from ((m, "address") for m in STREET.findall(text))


def _stands_in(fact: str, text: str) -> bool:
    return re.search(rf"(?<![\w#]){re.escape(fact)}(?!\w)", text) is not None


def leaks(diff: str, known_facts: dict[str, str]) -> list[str]:
    """Facts in the added lines of a diff, each as ``"kind: text"``; empty when clean.

    Parameters
    ----------
    diff : unified diff. known_facts : what :func:`facts` found.
    """
    added = "\n".join(l[1:] for l in diff.splitlines() if l.startswith("+") and not l.startswith("+++"))
    words = set(re.findall(r"[#\w.@+-]+", added))
    candidates = [f for f in known_facts if f in words or " " in f or f in added]
    return sorted(f"{known_facts[f]}: {f}" for f in candidates if _stands_in(f, added))
