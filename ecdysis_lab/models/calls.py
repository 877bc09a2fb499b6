"""The only caller of LiteLLM: usage, cost, budget, retries, typed errors.

``complete(role, model, messages, tools)`` takes any LiteLLM model name and returns a ``records.Completion``.
Keys come from the environment only; no error text, parameter record or answer holds one.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ecdysis_lab.models import answers, errors
from ecdysis_lab.models.answers import to_openai
from ecdysis_lab.models.budget import Budget
from ecdysis_lab.models.errors import BudgetExceeded, ContentError, LLMError, PermanentError, TransientError
from ecdysis_lab.models.params import ModelParams
from ecdysis_lab.records import Completion, Usage

__all__ = [
    "Budget", "BudgetExceeded", "ContentError", "LLMError", "ModelParams", "PermanentError", "TransientError",
    "check_model", "complete", "to_openai",
]  # fmt: skip

SIM_MODELS = tuple(
    f"sim/{name}" for name in ("small", "medium", "large", "quirky", "flawless", "user", "reviewer")
)
MODEL_FORMS = (
    "openai/NAME (with api_base for vLLM or llama.cpp), anthropic/NAME, gemini/NAME, ollama/NAME, "
    f"or without any key {', '.join(SIM_MODELS)}"
)
EMPTY_RETRIES = 2
LONGEST_WAIT_SECONDS = 120.0


@functools.cache
def _litellm() -> Any:
    """LiteLLM, imported when first used, without its network look-up of prices and without its chatter."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ.setdefault("LITELLM_LOG", "ERROR")
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


@functools.cache
def _provider(model: str) -> str:
    """LiteLLM's provider of a model name; the first ``sim`` model registers that provider."""
    litellm = _litellm()
    if model.startswith("sim/"):
        if model not in SIM_MODELS:
            raise PermanentError(f"unknown model {model!r}; choose one of {', '.join(SIM_MODELS)}")
        importlib.import_module("ecdysis_lab.models.sim").register()
        return "sim"
    try:
        return str(litellm.get_llm_provider(model)[1])
    except litellm.BadRequestError:
        unknown = PermanentError(f"unknown model {model!r}: no such provider; use {MODEL_FORMS}")
    raise unknown


def check_model(model: str, params: ModelParams | None = None) -> None:
    """Check a model name and its keys without a network call.

    Parameters
    ----------
    model : any LiteLLM name.
    params : how it is asked; with an ``api_base`` no key is required.

    Raises
    ------
    LabError: unknown provider or ``sim`` profile (lists the forms), or a missing key (names its variable).
    """
    provider = _provider(model)
    # Credential chains of their own cannot be judged by variables; one's own server may need no key.
    if provider.startswith(("sim", "bedrock", "sagemaker", "vertex")) or (params and params.api_base):
        return
    missing = _missing_keys(model)
    if provider.startswith("ollama"):
        missing = [name for name in missing if not name.endswith("_BASE")]  # it has a default address
    if missing:
        raise PermanentError(f"{model} needs {' and '.join(missing)}; set it in the environment")


def _missing_keys(model: str) -> list[str]:
    return list(_litellm().validate_environment(model).get("missing_keys") or [])


def _key_names(model: str) -> str:
    """The variables that hold a model's key, whether set or not; values are never looked at."""
    wanted = _provider(model).replace("_", "").upper() + "APIKEY"
    present = [name for name in os.environ if name.replace("_", "").upper() == wanted]
    return " and ".join(present or _missing_keys(model) or [_provider(model).upper() + "_API_KEY"])


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
    model : any LiteLLM name.
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
    """
    params = params or ModelParams()
    request = _request(role, model, messages, tools, params, metadata)
    request |= {} if seed is None else {"seed": seed}
    request |= {} if response_format is None else {"response_format": response_format}
    spent, empty, failed = Usage(), 0, 0
    rng = random.Random(f"{role}|{model}|{seed}|{messages[-1:]}")
    while True:
        _check(budget, spent)
        answer, usage = _attempt(request, params.timeout_seconds)
        spent += usage
        if budget:
            budget.add(usage)
        if isinstance(answer, Completion):
            return replace(answer, usage=spent)
        if isinstance(answer, errors.EmptyAnswer) and empty < EMPTY_RETRIES:
            empty += 1
            request |= {} if seed is None else {"seed": seed + empty}  # the same seed would be silent again
            continue
        wait = _wait_seconds(answer, failed, rng) if failed + 1 < max_attempts else None
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
    if _provider(model) == "sim":
        request["metadata"] = {**(metadata or {}), "role": role}
    elif params.api_base and _provider(model) == "openai" and "OPENAI_API_KEY" not in os.environ:
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
    if not isinstance(error, TransientError):
        return None
    asked = error.retry_after_seconds or 0.0
    backoff = min(30.0, 2.0**failed) * rng.uniform(0.5, 1.0)
    return max(asked, backoff) if asked <= LONGEST_WAIT_SECONDS else None


def _attempt(request: dict[str, Any], timeout_seconds: float) -> tuple[Completion | LLMError, Usage]:
    """One call of LiteLLM: an answer or a typed error, and what it consumed."""
    model, simulated = request["model"], request["model"].startswith("sim/")
    once = {"timeout": timeout_seconds, "num_retries": 0, "max_retries": 0, "drop_params": True}
    ask = functools.partial(_litellm().completion, **request, **once)
    # τ² switches this on for the whole process when it is imported, and LiteLLM then sends a request that the server
    # rejected (422) once more with other parameters.
    _litellm().drop_params = False
    started = time.perf_counter()
    failure: LLMError | None = None
    try:
        response = _unlogged(ask) if simulated else _within(timeout_seconds, ask)
    except Exception as raised:  # LiteLLM lets its own, OpenAI's and httpx's classes through
        if simulated and not hasattr(raised.__context__ or raised, "status_code"):
            raise  # a bug of ours, which LiteLLM wraps as a connection error
        failure = errors.typed(raised, model, _key_names)
    seconds = time.perf_counter() - started
    if failure is None and not response.choices:
        failure = TransientError(f"{model}: the server's answer holds no choice")
    if failure is not None:  # returned, not raised, so that no chained exception carries the raw text along
        return failure, Usage(seconds=seconds, attempts=1)
    usage = answers.usage_of(response, request, seconds)
    try:
        return answers.read(response, request, usage), usage
    except ContentError as nothing:
        return nothing, replace(usage, calls=0)


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
