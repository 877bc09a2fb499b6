"""Two versions of a harness side by side, as HTML without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ecdysis_lab.benchmarks.hidden import findings, named
from ecdysis_lab.harness.differences import comparable, matcher
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.show.widgets.trace import escaped

CONTEXT_LINES = 4
MOST_ROWS = 1500  # of one file; the rest is counted, so that the page stays usable
WORD_PAIRS = 5000  # of two lines whose words are compared
TOO_MUCH = (
    "too many equal lines to compare: all between the first and the last difference is shown as changed"
)
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


def diff_html(before: Harness | Mapping[str, str], after: Harness | Mapping[str, str]) -> str:
    """Changed files side by side, the changed words marked, unchanged stretches folded.

    Parameters
    ----------
    before, after : harnesses, or name -> source.

    Returns
    -------
    An HTML fragment; every text is escaped.
    """
    old = before.files if isinstance(before, Harness) else before
    new = after.files if isinstance(after, Harness) else after
    names = [n for n in sorted({*old, *new}) if old.get(n) != new.get(n)]
    body = "".join(_file(n, old.get(n), new.get(n)) for n in names) or "<p>No file differs.</p>"
    return f'<div class="el-diff">{body}</div>'


def _file(name: str, old: str | None, new: str | None) -> str:
    left, right = (old or "").splitlines(), (new or "").splitlines()
    rows = list(_rows(left, right))
    shown = "".join(rows[:MOST_ROWS])
    if not comparable(left, right):
        shown = f'<tr class="el-skip"><td colspan="4">{TOO_MUCH}</td></tr>{shown}'
    if len(rows) > MOST_ROWS:
        shown += f'<tr class="el-skip"><td colspan="4">… {len(rows) - MOST_ROWS:,} more rows</td></tr>'
    added = sum('class="el-new"' in row for row in rows)
    gone = sum('class="el-old"' in row for row in rows)
    what = "new file, " if old is None else "removed, " if new is None else ""
    return (
        f"<h4>{escaped(name)} <span>{what}{added} lines added, {gone} taken out</span></h4>"
        '<table><colgroup><col class="el-n"><col><col class="el-n"><col></colgroup>'
        '<thead><tr><th colspan="2">before</th><th colspan="2">after</th></tr></thead>'
        f"<tbody>{shown}</tbody></table>"
    )


def _rows(left: Sequence[str], right: Sequence[str]) -> Iterator[str]:
    groups = matcher(left, right).get_grouped_opcodes(CONTEXT_LINES)
    at = 0
    for group in groups:
        if group[0][1] > at:
            yield _skipped(group[0][1] - at)
        for tag, a0, a1, b0, b1 in group:
            for n in range(max(a1 - a0, b1 - b0)):
                a, b = (a0 + n if a0 + n < a1 else None), (b0 + n if b0 + n < b1 else None)
                yield _row(tag, a, b, left, right)
        at = group[-1][2]
    if at < len(left):
        yield _skipped(len(left) - at)


def _skipped(n: int) -> str:
    return f'<tr class="el-skip"><td colspan="4">⋯ {n} line{"s" if n > 1 else ""} the same</td></tr>'


def _row(tag: str, a: int | None, b: int | None, left: Sequence[str], right: Sequence[str]) -> str:
    one, two = (left[a] if a is not None else ""), (right[b] if b is not None else "")
    texts = _shown(one), _shown(two)
    if tag == "replace" and a is not None and b is not None:
        texts = _marked(one, two)
    same = tag == "equal"
    return (
        "<tr>"
        + _cell(a, texts[0], "" if same else "el-old")
        + _cell(b, texts[1], "" if same else "el-new")
        + "</tr>"
    )


def _cell(number: int | None, text: str, look: str) -> str:
    if number is None:
        return '<td class="el-no"></td><td class="el-gap"></td>'
    kind = f' class="{look}"' if look else ""
    return f'<td class="el-no">{number + 1}</td><td{kind}>{text}</td>'


def _shown(text: str) -> str:
    """Escaped text with hidden characters by name, and look-alike letters marked."""
    parts, done = [], 0
    for at, what in findings(text):
        code, _, name = named(text[at]).partition(" ")
        char = escaped(text[at]) if what.startswith("look-alike") else ""
        parts.append(
            escaped(text[done:at]) + f'<mark title="{escaped(f"{code} {name}")}">{char}[{code}]</mark>'
        )
        done = at + 1
    return "".join(parts) + escaped(text[done:])


def _marked(one: str, two: str) -> tuple[str, str]:
    """Both lines with the words that differ marked."""
    a, b = _WORDS.findall(one), _WORDS.findall(two)
    out: tuple[list[str], list[str]] = ([], [])
    for tag, a0, a1, b0, b1 in matcher(a, b, WORD_PAIRS).get_opcodes():
        for side, words, mark in ((out[0], a[a0:a1], "del"), (out[1], b[b0:b1], "ins")):
            text = _shown("".join(words))
            side.append(text if tag == "equal" or not text else f"<{mark}>{text}</{mark}>")
    return "".join(out[0]), "".join(out[1])
