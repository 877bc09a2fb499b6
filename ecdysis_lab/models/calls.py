"""One call for every role: usage, cost, budget, retries, typed errors.

``complete(role, model, messages, tools)`` takes any LiteLLM model name and returns a ``records.Completion``.
Keys come from the environment only; no error text, parameter record or answer holds one.
"""

from __future__ import annotations

import functools
import os
import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ecdysis_lab.models import answers, errors, hand
from ecdysis_lab.models.answers import to_openai
from ecdysis_lab.models.budget import Budget
from ecdysis_lab.models.errors import BudgetExceeded, ContentError, LLMError, PermanentError, TransientError
from ecdysis_lab.models.params import ModelParams
from ecdysis_lab.models.providers import (
    OPTIONAL,
    check_form,
    check_sent,
    key_names,
    litellm,
    own_client,
    provider_of,
)
from ecdysis_lab.records import Completion, Usage
from ecdysis_lab.store.secrets import public_url

if TYPE_CHECKING:
    from ecdysis_lab.models.wire import Exchange

__all__ = [
    "Budget", "BudgetExceeded", "ContentError", "LLMError", "ModelParams", "PermanentError", "TransientError",
    "complete", "to_openai",
]  # fmt: skip

EMPTY_RETRIES = 2
SILENT_RETRIES = 2
LONGEST_WAIT_SECONDS = 120.0


def complete(  # noqa: PLR0913
    role: str,
    model: str,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None = None,
    *,
    params: ModelParams | None = None,
    seed: int | None = None,
    metadata: dict[str, Any] | None = None,
    budget: Budget | None = None,
    response_format: dict[str, Any] | None = None,
    max_attempts: int = 4,
    sleep: Callable[[float], None] = time.sleep,
) -> Completion:
    """Ask a model once, with retries.

    Parameters
    ----------
    role : who asks (``agent``, ``user``, a review role, ``editor``); ``sim`` gets it in its metadata.
    model : any LiteLLM name, or ``hand`` for an answer in a file (:mod:`ecdysis_lab.models.hand`).
    messages : OpenAI chat messages, sent as given.
    tools : schemas ``{"type": "function", "function": {...}}``, sent as given.
    params : sampling, server, time-out.
    seed : sampling seed; it changes when an empty answer is asked for again.
    metadata : for ``sim`` models only (it may hold gold); no other provider and no callback ever gets it.
    budget : checked before every attempt and charged after it, answer or not.
    response_format : for a JSON answer, in OpenAI's form.
    max_attempts : attempts before a transient error is raised.
    sleep : waits between attempts.

    Raises
    ------
    TransientError, PermanentError, ContentError, BudgetExceeded: see there; ``usage`` says what was consumed.
    ecdysis_lab.models.hand.Waiting: the answer by hand is not there yet.
    """
    if model == hand.HAND:
        return hand.answer(role, messages)
    params = params or ModelParams()
    request = _request(role, model, messages, tools, params, metadata)
    request |= {} if seed is None else {"seed": seed}
    request |= {} if response_format is None else {"response_format": response_format}
    if provider_of(model) != "sim":
        check_sent(model, provider_of(model), tuple(name for name in OPTIONAL if name in request))
    rng = random.Random(f"{role}|{model}|{seed}|{messages[-1:]}")
    return _persistent(request, params.timeout_seconds, budget, max_attempts, rng, sleep)


def _persistent(
    request: dict[str, Any],
    timeout_seconds: float,
    budget: Budget | None,
    max_attempts: int,
    rng: random.Random,
    sleep: Callable[[float], None],
) -> Completion:
    """The answer of the first attempt that gives one; what every attempt consumed is in its usage, or the error's."""
    spent, empty, failed, attempts = Usage(), 0, 0, max_attempts
    while True:
        _check(budget, spent)
        answer, usage = _attempt(request, timeout_seconds)
        spent += usage
        if budget:
            budget.add(usage)
        if isinstance(answer, Completion):
            return replace(answer, usage=spent)
        if isinstance(answer, errors.EmptyAnswer) and empty < EMPTY_RETRIES:
            empty += 1
            if "seed" in request:
                request = request | {"seed": request["seed"] + 1}  # the same seed would be silent again
            continue
        if isinstance(answer, errors.Unreachable):
            attempts = min(max_attempts, 1 + SILENT_RETRIES)
        wait = _wait_seconds(answer, failed, rng) if failed + 1 < attempts else None
        if wait is None:
            answer.usage = spent
            raise answer
        failed += 1
        _check(budget, spent, ahead_seconds=wait)
        sleep(wait)


def _request(
    role: str,
    model: str,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
    params: ModelParams,
    metadata: dict[str, Any] | None,
) -> dict[str, Any]:
    """LiteLLM's arguments, without those that are not set."""
    request: dict[str, Any] = {"model": model, "messages": messages, "temperature": params.temperature}
    optional = {"tools": tools or None, "api_base": params.api_base, "max_tokens": params.max_tokens}
    request |= {name: value for name, value in optional.items() if value is not None} | params.extra
    provider = provider_of(model)
    check_form(model, provider)
    if provider == "sim":
        request["metadata"] = {**(metadata or {}), "role": role}
    elif params.api_base and provider == "openai" and "OPENAI_API_KEY" not in os.environ:
        request["api_key"] = "none"  # the client insists on one; a local server does not care
    return request


def _check(budget: Budget | None, spent: Usage, ahead_seconds: float = 0.0) -> None:
    try:
        if budget:
            budget.check(ahead_seconds)
    except BudgetExceeded as exceeded:
        exceeded.usage = spent
        raise


def _wait_seconds(error: LLMError, failed: int, rng: random.Random) -> float | None:
    """Back-off with jitter, at least what the server asked for; None where a retry makes no sense."""
    if not isinstance(error, (TransientError, errors.Unreachable)):
        return None
    asked = getattr(error, "retry_after_seconds", None) or 0.0
    backoff = min(30.0, 2.0**failed) * rng.uniform(0.5, 1.0)
    return max(asked, backoff) if asked <= LONGEST_WAIT_SECONDS else None


def _attempt(request: dict[str, Any], timeout_seconds: float) -> tuple[Completion | LLMError, Usage]:
    """One call of LiteLLM: an answer or a typed error, and what it consumed."""
    model, simulated = request["model"], request["model"].startswith("sim/")
    exchange = _exchange(request)
    once = {"timeout": timeout_seconds, "num_retries": 0, "max_retries": 0, "drop_params": True}
    own = own_client(provider_of(model))
    ask = functools.partial(litellm().completion, **request, **once, **own)
    # τ² switches this on for the whole process when it is imported, and LiteLLM then sends a request that the server
    # rejected (422) once more with other parameters.
    litellm().drop_params = litellm().modify_params = False
    started = time.perf_counter()
    failure: Completion | LLMError | None = None
    try:
        response = (
            _unlogged(ask)
            if simulated
            else _within(timeout_seconds, functools.partial(_wired, exchange, ask))
        )
    except Exception as raised:  # LiteLLM lets its own, OpenAI's and httpx's classes through
        if simulated and not hasattr(raised.__context__ or raised, "status_code"):
            raise  # a bug of ours, which LiteLLM wraps as a connection error
        failure = _failure(raised, exchange, request)
    seconds = time.perf_counter() - started
    if failure is None and not getattr(response, "choices", None):
        failure = _failure(ValueError("the server's answer holds no choice"), exchange, request)
    if isinstance(failure, Completion):
        tokens = answers.prompt_estimate(request)
        usage = Usage(1, tokens, 0, 0.0, seconds, 1)  # no provider bills an error status
        return replace(failure, usage=usage), usage
    if failure is not None:  # returned, not raised, so that no chained exception carries the raw text along
        return failure, Usage(seconds=seconds, attempts=1)
    usage = answers.usage_of(response, request, seconds)
    try:
        return answers.read(response, request, usage), usage
    except ContentError as nothing:
        return nothing, replace(usage, calls=0)


def _exchange(request: dict[str, Any]) -> Exchange:
    from ecdysis_lab.models.wire import Exchange

    return Exchange([dict(message) for message in request["messages"]], list(request.get("tools") or ()))


def _wired(exchange: Exchange, work: Callable[[], Any]) -> Any:
    """Run ``work`` with an exchange that the wire fills in; it must have a thread of its own."""
    from ecdysis_lab.models.wire import current

    current.set(exchange)
    return work()


def _failure(raised: Exception, exchange: Exchange, request: dict[str, Any]) -> Completion | LLMError:
    """What a failed call was: an error, or a call that the model broke and the provider could not read."""
    model, api_base = request["model"], request.get("api_base")
    what = errors.failed(raised, exchange, api_base)
    if exchange.altered and "turns" in exchange.altered and not exchange.status:
        exchange.detail, exchange.status = exchange.altered, 400
        what = errors.failed(raised, exchange, api_base)
    elif exchange.altered and not exchange.status:
        return PermanentError(f"{model}: {exchange.altered} for provider {provider_of(model)}")
    if exchange.silent:
        where = public_url(api_base) or provider_of(model)
        return errors.Unreachable(
            f"{model}: no server answers at {where} ({what.detail}); start it, or check api_base and network"
        )
    broken = errors.broken_call(what) if request.get("tools") else None
    if broken is not None:
        written = answers.safe(exchange.generated or broken, request)
        return Completion(None, (), (("", written),), "malformed", Usage())
    return errors.typed(raised, what, model, key_names)


def _unlogged(work: Callable[[], Any]) -> Any:
    """Run ``work`` without LiteLLM's callbacks, since a simulated call's metadata may hold gold."""
    try:
        from litellm._internal_context import internal_sub_call as quiet
    except ImportError:  # other versions of LiteLLM
        return work()
    with quiet():
        return work()


def _within(seconds: float, work: Callable[[], Any]) -> Any:
    """Run ``work`` under a wall-clock limit: HTTP time-outs only count silence, and slow bytes never end.

    The thread is left behind on a breach; it ends with its connection.
    """
    box: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            box.put((work(), None))
        except Exception as raised:  # noqa: BLE001 - handed to the caller below
            box.put((None, raised))

    threading.Thread(target=run, daemon=True, name="llm-call").start()
    try:
        result, raised = box.get(
            timeout=seconds + 0.2
        )  # the client's own time-out comes first where it works
    except queue.Empty:
        raise TimeoutError(f"no complete answer within {seconds:g} s") from None
    if raised is not None:
        raise raised
    return result
