"""How DBBench scores: the table's hash after a write, the committed answers of a question.

The rules are those that AgentBench publishes; the code is ours, and is proven on the hashes and labels that come with
AgentBench's tasks. Two of its habits matter to a reader: NULL, an empty text and ``none`` all count as ``0``, and a
percent sign or a thousands separator counts as nothing.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

Kind = Literal["SELECT", "INSERT", "UPDATE"]
TOLERANCE = 0.01
GROUP_CONCAT_LIMIT = 1024  # MySQL's default for the hashes of a table; what lies beyond is not hashed
_PARTS = re.compile(r"""(?:[^,'"]|['"][^'"]*(?:['"]|$))+""")  # a comma between quotes divides nothing
_ZERO = {"", "none", "null", "undefined", "nan", "inf", "infinity", "-inf", "-infinity"}


def kind_of(record: Mapping[str, Any]) -> Kind:
    """What a task asks for: a write, or else a question."""
    first = record["type"][0] if isinstance(record["type"], list) else record["type"]
    return first if first in ("INSERT", "UPDATE") else "SELECT"


def table_hash(rows: Sequence[Sequence[Any]]) -> str:
    """Hash of a table's rows, in any order of rows.

    Parameters
    ----------
    rows : the cells of each row in the order of the task's columns; NULL is None.

    Returns
    -------
    32 hex digits, or ``"None"`` for an empty table, as MySQL gives it.
    """
    if not rows:
        return "None"
    texts = (",".join(str(cell) for cell in row if cell is not None) for row in rows)
    hashes = sorted(hashlib.md5(text.encode("utf-8", "replace")).hexdigest()[:5] for text in texts)
    return hashlib.md5(",".join(hashes)[:GROUP_CONCAT_LIMIT].encode()).hexdigest()


def official_hash(record: Mapping[str, Any]) -> str:
    """The hash that a write has to leave, out of the result ``[('…',)]`` in which it is kept.

    Raises
    ------
    ValueError: there is none.
    """
    try:
        ((value,),) = ast.literal_eval(record["answer_md5"])
    except (KeyError, SyntaxError, TypeError, ValueError):
        raise ValueError(f"answer_md5 holds no hash: {str(record.get('answer_md5'))[:80]}") from None
    return str(value)


def values(answers: Any) -> list[str]:
    """The values of an answer or a label, normalised: a list, one value, or either as text."""
    if isinstance(answers, str):
        answers = _read(answers)
    if not isinstance(answers, list | tuple):
        answers = [answers]
    return [_normal(item[0] if isinstance(item, tuple) and len(item) == 1 else item) for item in answers]


def _read(text: str) -> Any:
    """A list that was written as text, or the text."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return text
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # not quoted: as it would be split by eye
        parts = (re.sub("['\"]", "", part) for part in _PARTS.findall(text[1:-1]))
        return [part for part in parts if part]


def _normal(value: Any) -> str:
    if value is None:
        return "0"
    text = str(value).strip().strip("'\"")
    if text.endswith("%"):
        return text[:-1].strip()
    if not (text.startswith("[") or text.endswith("]")):
        text = text.replace(",", "")
    return "0" if text.lower() in _ZERO else text


def same_answer(answers: Any, label: Any) -> bool:
    """Whether the committed answers are those of the label.

    Numbers on both sides agree within 0.01, each with another one; else the values agree as sets of texts, case and
    all, order and repetitions aside.

    Parameters
    ----------
    answers, label : lists of values, or one value, or a list written as text.
    """
    given, wanted = values(answers), values(label)
    numbers = [_floats(given), _floats(wanted)]
    if numbers[0] is None or numbers[1] is None:
        return set(given) == set(wanted)
    return _pair(numbers[0], numbers[1])


def _floats(texts: list[str]) -> list[float] | None:
    try:
        return [float(text) for text in texts]
    except ValueError:
        return None


def _pair(given: list[float], wanted: list[float]) -> bool:
    """Whether each given number takes one wanted number that no other took, in the order in which they were given."""
    left = list(wanted)
    for number in given:
        near = next((w for w in left if abs(number - w) <= TOLERANCE), None)
        if near is None:
            return False
        left.remove(near)
    return not left
