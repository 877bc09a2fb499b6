"""Errors of model calls, by what the caller has to do about them, and how a provider's error becomes one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from ecdysis_lab.records import LabError, Stopped, Usage


class LLMError(Exception):
    """A model call without a usable answer; ``usage`` holds what it consumed all the same."""

    usage: Usage = Usage()


class TransientError(LLMError):
    """Infrastructure (429, time-out, 5xx, connection), raised when retries are used up; never a failure."""

    retry_after_seconds: float | None = None


class PermanentError(LLMError, LabError):
    """Authentication, unknown model or rejected request: the run stops; names the variable to set."""


class ContentError(LLMError):
    """Context window, refusal or nothing but empty answers: the trial's own outcome."""


class EmptyAnswer(ContentError):
    """An answer without text and calls, worth another try."""


class BudgetExceeded(LLMError, Stopped):
    """A budget is used up; the message holds the limit's name and the figures."""


_CONTEXT = re.compile(
    r"context[ _](length|window|size)|maximum context|prompt is too long|too many (input )?tokens"
    r"|ContextWindowExceeded",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"content[ _](filter|policy)|content management policy|safety system|ContentPolicy", re.IGNORECASE
)
_UNPAID = re.compile(r"insufficient_quota|exceeded your current quota|credit balance|billing", re.IGNORECASE)
_PREFIX = re.compile(r"^(\s*(litellm\.)?(\w*(Error|Exception|Timeout)|Timeout Error)( -|:)\s*)+")
_KEY = re.compile(r"\b(sk|pk|gsk|xai|hf|AIza)[-_][\w*-]{6,}|Bearer \S+")
_RETRIED_4XX = (408, 409, 425, 429)


def typed(raised: Exception, model: str, key_names: Callable[[str], str]) -> LLMError:
    """Our error for a provider's, by HTTP status and text, since the classes differ between providers.

    Parameters
    ----------
    raised : what LiteLLM, the OpenAI client or httpx raised.
    model : for the message.
    key_names : gives the names of the variables that hold a model's key.
    """
    status = int(getattr(raised, "status_code", None) or 0)
    detail = redact(str(raised))
    known = f"{getattr(raised, 'code', '')} {type(raised).__name__} {detail}"
    rejected = 400 <= status < 500
    if status == 413 or (rejected and _CONTEXT.search(known)):
        return ContentError(f"{model}: the conversation does not fit the model's context window ({detail})")
    if rejected and _REFUSED.search(known):
        return ContentError(f"{model}: the provider refused the content ({detail})")
    if status in (401, 403):
        key = key_names(model)
        return PermanentError(f"{model}: the server refused the key ({status}: {detail}); set {key}")
    if status == 402 or _UNPAID.search(known):
        return PermanentError(f"{model}: no credit left on the key in {key_names(model)} ({detail})")
    if status == 404:
        return PermanentError(
            f"{model}: the server does not know this model; check name and api_base ({detail})"
        )
    if rejected and status not in _RETRIED_4XX and detail:
        return PermanentError(f"{model}: the server rejected the request ({status}: {detail})")
    late = isinstance(raised, TimeoutError) or "timeout" in type(raised).__name__.lower()
    hint = "; a slow server needs a larger timeout_seconds" if late else ""
    error = TransientError(f"{model}: {detail or type(raised).__name__} (status {status or 'none'}){hint}")
    error.retry_after_seconds = _retry_after(raised)
    return error


def _retry_after(raised: Exception) -> float | None:
    headers = getattr(getattr(raised, "response", None), "headers", None) or {}
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None  # absent, or an HTTP date: the back-off stands


def redact(text: str) -> str:
    """The first line of an error, without LiteLLM's prefixes and without anything that may be a key."""
    for name, value in os.environ.items():
        if len(value) >= 8 and name.upper().endswith(("KEY", "TOKEN", "SECRET", "PASSWORD")):
            text = text.replace(value, "[key]")
    first = _KEY.sub("[key]", text).strip().split("\n")[0]
    return _PREFIX.sub("", first).strip()[:300]
