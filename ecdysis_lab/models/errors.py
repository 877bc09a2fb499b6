"""Errors of model calls, by what the caller has to do about them, and how a provider's error becomes one.

Providers tell the same event in many words and under many statuses, so the text decides before the status does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ecdysis_lab.records import LabError, Stopped, Usage
from ecdysis_lab.store.secrets import hide_forms

Reason = Literal["context_full", "refusal", "empty", "reasoning_only", "malformed"]


class LLMError(Exception):
    """A model call without a usable answer; ``usage`` holds what it consumed all the same."""

    usage: Usage = Usage()


class TransientError(LLMError):
    """Infrastructure (429, time-out, 5xx, connection), raised when retries are used up; never a failure."""

    retry_after_seconds: float | None = None


class PermanentError(LLMError, LabError):
    """Authentication, unknown model or rejected request: the run stops; names the variable to set."""


class TemplateError(PermanentError):
    """The server's chat template cannot take the conversation in this form; another form may do."""


class Unreachable(PermanentError):
    """Nothing answers at the server's address, and nothing has since this process began; tried again briefly."""


class ContentError(LLMError):
    """The trial's own outcome.

    Attributes
    ----------
    reason : the conversation does not fit (``context_full``), ``refusal``, only empty answers (``empty``), only
        thoughts (``reasoning_only``), or no valid call in several attempts (``malformed``).
    """

    def __init__(self, message: str, reason: Reason = "refusal") -> None:
        super().__init__(message)
        self.reason: Reason = reason


class EmptyAnswer(ContentError):
    """An answer without text and calls, worth another try."""


class BudgetExceeded(LLMError, Stopped):
    """A budget is used up; the message holds the limit's name and the figures."""


@dataclass(frozen=True)
class Failed:
    """What is known of a failed call.

    Parameters
    ----------
    status : HTTP status, 0 for none.
    detail : the server's message, or the exception's, without keys.
    known : all the words that may tell the kind: code, class, message.
    """

    status: int
    detail: str
    known: str


_CONTEXT = re.compile(
    r"context[ _-]?(length|window|size|limit)|maximum context|prompt is too long|prompt exceeds max length"
    r"|too many (input )?tokens|too many tokens: total|ContextWindowExceeded"
    r"|maximum (model|prompt|input) length|max(imum)? model len|decoder prompt|input is too long"
    r"|range of input length|must have less than \d+ tokens|inputs?`? tokens \+ `?max_new_tokens"
    r"|input token count|token limit: ?\d+|exceeded model token limit|reduce the length of (the|your) (messages|prompt)"
    r"|requested token count exceeds|input (length|tokens?) .{0,40}exceeds?|trying to keep the first \d+ tokens"
    r"|prompt contains \d+ tokens|exceed_context_size"
    r"|(prompt|input|conversation)( tokens?| length)?( is| are)? (too long|too large|longer than|exceed)",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"content[ _](filter|policy|management)|safety system|ContentPolicy|ResponsibleAI|data_inspection_failed"
    r"|inappropriate content|content exists risk|flagged (as|by|for)|output blocked"
    r"|safety_check|usage guidelines|moderation",
    re.IGNORECASE,
)
_BROKEN_CALL = re.compile(
    r"tool_use_failed|failed to call a function|error parsing tool call|failed to parse tool call"
    r"|failed to parse input at pos|tool call validation failed|invalid tool call arguments",
    re.IGNORECASE,
)
_RAW_CALL = re.compile(r"raw='(.*?)', err=|at pos \d+: (.*)", re.S)
_TEMPLATE = re.compile(
    r"roles (must|should) (be )?alternat|should be alternating|last message must have role|must be alternating"
    r"|(must|should) (always )?start with .{0,12}user|first message must (be|use|have) .{0,20}user"
    r"|successive (user|assistant) messages?|system role not supported|only user and assistant roles are supported"
    r"|expected last role|invalid first message|blank turns",
    re.IGNORECASE,
)
_UNPAID = re.compile(r"insufficient_quota|exceeded your current quota|credit balance|billing", re.IGNORECASE)
_TOO_BIG_FOR_TIER = re.compile(r"tokens per (minute|day)|\bTPM\b")
_PREFIX = re.compile(r"^(\s*(litellm\.)?(\w*(Error|Exception|Timeout)|Timeout Error)( -|:)\s*)+")
_RETRIED_4XX = (408, 409, 425, 429)
LONGEST_MESSAGE = 300


def failed(raised: Exception, exchange: Any = None, api_base: str | None = None) -> Failed:
    """What is known of a failed call.

    Parameters
    ----------
    raised : what LiteLLM, the OpenAI client or httpx raised.
    exchange : what the wire saw (:class:`ecdysis_lab.models.wire.Exchange`); its word goes before LiteLLM's.
    api_base : the server's address; what logs in there is hidden.
    """
    status = getattr(exchange, "status", 0) or _number(getattr(raised, "status_code", None))
    told = getattr(exchange, "detail", "")
    detail = redact(told or str(raised), api_base)
    codes = f"{getattr(exchange, 'code', '')} {getattr(raised, 'code', '')} {type(raised).__name__}"
    return Failed(status, detail, f"{codes} {detail} {told}")


def broken_call(what: Failed) -> str | None:
    """What the model wrote where the provider could not read its call; None for any other failure."""
    if not _BROKEN_CALL.search(what.known) or what.status in (0, 401, 403, 429):
        return None
    found = _RAW_CALL.search(what.known)
    return (found.group(1) or found.group(2) or "") if found else what.detail


def typed(raised: Exception, what: Failed, model: str, key_names: Callable[[str], str]) -> LLMError:
    """Our error for a provider's.

    Parameters
    ----------
    raised, what : the exception, and what is known of it.
    model : for the message.
    key_names : gives the names of the variables that hold a model's key.
    """
    outcome = _outcome(what, model)
    if outcome is not None:
        return outcome
    status, detail = what.status, what.detail
    if status in (401, 403):
        key = key_names(model)
        return PermanentError(f"{model}: the server refused the key ({status}: {detail}); set {key}")
    if status == 402 or _UNPAID.search(what.known):
        return PermanentError(f"{model}: no credit left on the key in {key_names(model)} ({detail})")
    if status == 404:
        return PermanentError(
            f"{model}: the server does not know this model; check name and api_base ({detail})"
        )
    if _TEMPLATE.search(what.known) and status != 429:
        return TemplateError(
            f"{model}: the server's chat template cannot take this conversation ({detail}); serve the model with a "
            "template that knows tools and an opening by the assistant"
        )
    if 400 <= status < 500 and status not in _RETRIED_4XX and detail:
        return PermanentError(f"{model}: the server rejected the request ({status}: {detail})")
    late = isinstance(raised, TimeoutError) or "timeout" in type(raised).__name__.lower()
    hint = (
        "; a slow server needs a larger timeout_seconds (review roles: review_timeout_seconds)"
        if late
        else ""
    )
    error = TransientError(f"{model}: {detail or type(raised).__name__} (status {status or 'none'}){hint}")
    error.retry_after_seconds = _retry_after(raised)
    return error


def _outcome(what: Failed, model: str) -> LLMError | None:
    """The trial's own outcome, whatever the status; a limit per minute is none, and nor is a broken network."""
    if what.status in (0, 401, 402, 404, 429):
        return None
    if what.status < 500 and _REFUSED.search(what.known):
        return ContentError(f"{model}: the provider refused the content ({what.detail})", "refusal")
    if what.status == 403:
        return None
    if what.status == 413 and _TOO_BIG_FOR_TIER.search(what.known):
        return PermanentError(
            f"{model}: the key's tier does not allow a request of this size ({what.detail})"
        )
    if what.status == 413 or _CONTEXT.search(what.known):
        fits = "the conversation does not fit the model's context window"
        return ContentError(f"{model}: {fits} ({what.detail})", "context_full")
    return None


def _number(status: Any) -> int:
    try:
        return int(status or 0)
    except (TypeError, ValueError):
        return 0  # some providers put a word there


def _retry_after(raised: Exception) -> float | None:
    headers = getattr(getattr(raised, "response", None), "headers", None) or {}
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None  # absent, or an HTTP date: the back-off stands
    return max(0.0, seconds) if math.isfinite(seconds) else None


def redact(text: str, api_base: str | None = None) -> str:
    """The first line of an error, without LiteLLM's prefixes and without anything that may be a key."""
    first = hide_forms(text, api_base).strip().split("\n")[0]
    return _PREFIX.sub("", first).strip()[:LONGEST_MESSAGE]
