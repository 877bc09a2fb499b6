"""Words on figures: names that fit, labels that do not overlap, numbers with their noun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def short(text: str, chars: int) -> str:
    """Text cut in the middle to at most ``chars`` characters: ends tell model names and sizes apart."""
    if len(text) <= chars:
        return text
    head = (chars - 1) * 2 // 5
    return f"{text[:head]}…{text[len(text) - (chars - 1 - head) :]}"


def model_names(models: Sequence[str], chars: int) -> list[str]:
    """Model names for labels: whole where they fit, else without their provider, kept distinct."""
    names: list[str] = []
    for model in models:
        name = model if len(model) <= chars else short(model.rpartition("/")[2], chars)
        names.append(name if name not in names else f"{short(name, chars - 4)} ({names.count(name) + 1})")
    return names


def spread(values: Sequence[float], gap: float) -> list[float]:
    """Positions at least ``gap`` apart and close to ``values``, in their order; for labels beside points."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    groups: list[list[float]] = []  # [sum of targets, members] of labels that touch
    for i in order:
        groups.append([values[i], 1])
        while (
            len(groups) > 1
            and _middle(groups[-1]) - _middle(groups[-2]) < gap * (groups[-1][1] + groups[-2][1]) / 2
        ):
            total, members = groups.pop()
            groups[-1] = [groups[-1][0] + total, groups[-1][1] + members]
    placed = [
        _middle(group) + gap * (j - (group[1] - 1) / 2) for group in groups for j in range(int(group[1]))
    ]
    out = [0.0] * len(values)
    for i, position in zip(order, placed):
        out[i] = position
    return out


def _middle(group: Sequence[float]) -> float:
    return group[0] / group[1]


def count(n: int, noun: str) -> str:
    """Number and noun: ``"1 model"``, ``"4 models"``."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def trials_text(frame: pd.DataFrame) -> str:
    """Tasks and trials behind rows, ``"20 tasks × 3 trials"``: ranges where they differ, seeds where several."""
    tasks, trials = frame["n_tasks"].astype(int), frame["n_trials"].astype(int)
    if "n_seeds" in frame.columns and frame["n_seeds"].max() > 1:
        return (
            f"{_span(tasks)} tasks, {_span(trials)} trials over {_span(frame['n_seeds'].astype(int))} seeds"
        )
    if (trials % tasks.clip(lower=1) == 0).all() and (trials // tasks.clip(lower=1)).nunique() == 1:
        each = int((trials // tasks.clip(lower=1)).iloc[0])
        return f"{_span(tasks)} tasks × {count(each, 'trial')}"
    return f"{_span(tasks)} tasks, {_span(trials)} trials"


def _span(values: pd.Series) -> str:
    low, high = int(values.min()), int(values.max())
    return str(low) if low == high else f"{low}–{high}"
