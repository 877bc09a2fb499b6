"""What must never be written: keys from the environment and credentials inside a server's address."""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_PARAMETER = re.compile(
    r"key|token|secret|password|passwd|credential|sig(nature)?$|auth|^code$", re.IGNORECASE
)
_FORM = re.compile(r"\b(sk|pk|gsk|xai|hf|AIza)[-_][\w*-]{6,}|Bearer \S+")
_LOGIN = re.compile(r"(?<=://)[^\s/@]+@")
_SHORTEST = 8
_SHORTEST_PASSWORD = 6


def hide(text: str, api_base: str | None = None) -> str:
    """The text with every key of the environment, and what logs in to ``api_base``, replaced by ``[key]``."""
    for value in _known(api_base):
        text = text.replace(value, "[key]")
    return text


def hide_forms(text: str, api_base: str | None = None) -> str:
    """As :func:`hide`, and whatever looks like a key or a login besides: for errors, whose words are no result."""
    return _LOGIN.sub("", _FORM.sub("[key]", hide(text, api_base)))


def public_url(url: str | None) -> str | None:
    """A server's address without user, password and the values of parameters that hold a key."""
    if url is None:
        return None
    parts = urlsplit(url)
    query = [(name, "[key]" if _PARAMETER.search(name) else value) for name, value in _query(parts.query)]
    return urlunsplit(
        parts._replace(netloc=parts.netloc.rpartition("@")[2], query=urlencode(query, safe="[]"), fragment="")
    )


def _query(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True)


def _known(api_base: str | None) -> list[str]:
    found = [
        value
        for name, value in os.environ.items()
        if len(value) >= _SHORTEST and name.upper().endswith(_NAMES)
    ]
    if api_base:
        parts = urlsplit(api_base)
        login = parts.netloc.rpartition("@")[0].partition(":")[2]
        inside = [login, unquote(login), *(v for name, v in _query(parts.query) if _PARAMETER.search(name))]
        found += [value for value in dict.fromkeys(inside) if len(value) >= _SHORTEST_PASSWORD]
    return found
