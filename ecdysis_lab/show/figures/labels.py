"""Words on figures: lines and names that fit, labels that do not overlap, numbers with their noun."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# Widths of the printable ASCII characters of DejaVu Sans, the widest of the fonts that browsers take in Arial's
# place, in hundredths of the font size; any other character counts as a full one.
PLAIN = (
    "32 40 46 84 64 95 78 27 39 39 50 84 32 36 32 34 64 64 64 64 64 64 64 64 64 64 34 34 84 84 84 53 100 68 69 70 "
    "77 63 58 77 75 29 29 66 56 86 75 79 60 79 69 63 61 73 68 99 69 61 69 39 34 39 84 50 50 61 63 55 63 62 35 63 "
    "63 28 28 58 28 97 63 61 63 63 41 52 39 63 59 82 59 59 52 64 34 64 84"
)
BOLD = (
    "35 46 52 84 70 100 87 31 46 46 52 84 38 42 38 37 70 70 70 70 70 70 70 70 70 70 40 40 84 84 84 58 100 77 76 "
    "73 83 68 68 82 84 37 37 77 64 100 84 85 73 85 77 72 68 81 77 110 77 72 73 46 37 46 84 50 50 67 72 59 72 68 "
    "44 72 71 34 34 67 34 104 71 69 72 72 49 60 48 71 65 92 65 65 58 71 37 71 84"
)
EM = [{chr(32 + i): int(width) / 100 for i, width in enumerate(face.split())} for face in (PLAIN, BOLD)]
MONO = 0.602  # every character of a monospaced font


def text_width(text: str, size: float) -> float:
    """Pixels that one line of Plotly text takes at most: in DejaVu Sans or, where wider, in a monospaced font.

    Parameters
    ----------
    text : plain, or bold between ``<b>`` and ``</b>``; other tags take no room.
    size : of the font in pixels.
    """
    ems, letters = 0.0, 0
    for i, part in enumerate(re.split(r"</?b>", text)):
        shown = re.sub(r"<[^>]+>", "", part)
        ems += sum(EM[i % 2].get(letter, 1.0) for letter in shown)
        letters += len(shown)
    return size * max(ems, MONO * letters)


def wrap(
    text: str, room: float, size: float, bold: bool = False, gaps: Sequence[str] = ("   ", " ", "")
) -> list[str]:
    """Plain text in lines of at most ``room`` pixels at a font of ``size`` pixels; nothing but a gap is dropped.

    Lines end at the first of ``gaps`` that makes them fit: between the items of a key, else between words, else
    inside a word.
    """
    gap, *finer = gaps
    lines = [""]
    for piece in text.split(gap) if gap else text:
        longer = f"{lines[-1]}{gap}{piece}" if lines[-1] else piece
        if _fits(longer, room, size, bold):
            lines[-1] = longer
        elif finer and not _fits(piece, room, size, bold):
            lines += wrap(piece, room, size, bold, finer)
        else:
            lines.append(piece)
    return lines if lines[0] or len(lines) == 1 else lines[1:]


def _fits(text: str, room: float, size: float, bold: bool) -> bool:
    return text_width(f"<b>{text}</b>" if bold else text, size) <= room


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


def fitting_names(models: Sequence[str], room: float, size: float) -> list[str]:
    """``model_names``, cut only as far as the widest needs: bold at ``size`` pixels it fits ``room`` pixels."""
    names = model_names(models, 96)
    for chars in range(95, 8, -1):
        if all(_fits(name, room, size, bold=True) for name in names):
            break
        names = model_names(models, chars)
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
