"""Characters that a reader does not see, or takes for others: found by place, shown by name, and made plain."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_LOOKALIKES = dict(zip(
    "АВЕКМНОРСТУХаеорсухіјѕԁԛԝһӏΑΒΕΖΗΙΚΜΝΟΡΤΥΧονρ",
    "ABEKMHOPCTYXaeopcyxijsdqwhlABEZHIKMNOPTYXovp",
    strict=True,
))  # fmt: skip
_PLAIN = str.maketrans(_LOOKALIKES)
_BLANKS = "\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5"  # drawn as nothing, though letters or marks
_JOINERS = "\u200c\u200d"  # needed within Persian, Indic scripts and emoji
_EMOJI_STYLE = "\ufe0f"
_ODD = re.compile(r"[^\t\n\r\f -~]")
_WORD = re.compile(r"[^\W\d_]+")


def hides(text: str, at: int) -> bool:
    """Whether the character at a place is one that nobody sees: zero-width, bidi, tag, variation selector, control."""
    char = text[at]
    if char in _JOINERS:  # fine between two characters beyond ASCII
        around = (text[at - 1 : at] or " ", text[at + 1 : at + 2] or " ")
        return any(c.isascii() for c in around)
    if char == _EMOJI_STYLE:
        before = text[at - 1 : at]
        return not before or before.isalnum() or before.isspace()
    if char in _BLANKS or 0xFE00 <= ord(char) <= 0xFE0E or 0xE0100 <= ord(char) <= 0xE01EF:
        return True
    kind = unicodedata.category(char)
    return kind in ("Cf", "Cs", "Co") or (kind == "Cc" and char not in "\t\n\r\f")


def _disguised(char: str) -> bool:
    """Whether a character is drawn like an ASCII letter or digit without being one."""
    if char in _LOOKALIKES:
        return True
    if ord(char) < 0x100 or unicodedata.category(char) not in ("Lu", "Ll", "Nd"):
        return False
    plain = unicodedata.normalize("NFKC", char)
    return plain.isascii() and plain.isalnum()


def findings(text: str) -> Iterator[tuple[int, str]]:
    """Hidden characters, and letters that look like others: (place, what it is), in order.

    A letter of another script counts where it stands in one word with Latin letters; a word that is written in its
    own script is text like any other.
    """
    odd = [found.start() for found in _ODD.finditer(text)]
    if not odd:
        return
    yield from ((at, f"hidden character {named(text[at])}") for at in odd if hides(text, at))
    for word in _WORD.finditer(text):
        if word[0].isascii() or not any(map(_disguised, word[0])):
            continue
        mixed = any(c.isascii() or (c not in _LOOKALIKES and _disguised(c)) for c in word[0])
        if mixed:
            at = next(i for i, c in enumerate(word[0]) if _disguised(c))
            yield word.start() + at, f"look-alike letter {named(word[0][at])}"


def named(char: str) -> str:
    """``U+200B ZERO WIDTH SPACE``."""
    return f"U+{ord(char):04X} {unicodedata.name(char, 'without a name')}"


def plain(text: str) -> str:
    """The text as a reader takes it: no hidden characters, look-alikes as the letters they look like."""
    if not _ODD.search(text):
        return text
    shown = _ODD.sub(lambda found: "" if hides(found[0], 0) else found[0], text)
    return unicodedata.normalize("NFKC", shown).translate(_PLAIN)
