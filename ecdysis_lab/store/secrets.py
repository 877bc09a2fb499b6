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
_LOGIN = re.compile(r"(?<=://)[^\s/@\"\\]+@")
_IN_QUERY = re.compile(r"([?&][\w-]*(?:key|token|secret|password|sig)[\w-]*=)[^&\s\"#]+", re.IGNORECASE)
_SHORTEST = 8


def hide(text: str, api_base: str | None = None) -> str:
    """The text with every key of the environment, and what logs in to ``api_base``, replaced by ``[key]``.

    Values that are a word stay: an answer that says "password" is a result, and no one's secret.
    """
    return _replaced(text, [value for value in _known(api_base) if not value.isalpha()])


def hide_forms(text: str, api_base: str | None = None) -> str:
    """As :func:`hide`, words too, and whatever looks like a key or a login: for errors, which are no result."""
    return hide_logins(_FORM.sub("[key]", _replaced(text, _known(api_base))))


def _replaced(text: str, values: list[str]) -> str:
    for value in values:
        text = text.replace(value, "[key]")
    return text


def hide_logins(text: str) -> str:
    """The text with what logs in taken out of every address in it; it may be JSON."""
    return _IN_QUERY.sub(r"\1[key]", _LOGIN.sub("", text))


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
    found = [value for name, value in os.environ.items() if name.upper().endswith(_NAMES)]
    if api_base:
        parts = urlsplit(api_base)
        login = parts.netloc.rpartition("@")[0].partition(":")[2]
        found += [login, unquote(login), *(v for name, v in _query(parts.query) if _PARAMETER.search(name))]
    return [value for value in found if len(value) >= _SHORTEST]
