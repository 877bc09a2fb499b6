"""LiteLLM and its providers: which model is whose, what a provider takes, and which key it wants."""

from __future__ import annotations

import functools
import importlib
import logging
import os
from typing import Any

from ecdysis_lab.models.errors import PermanentError
from ecdysis_lab.models.hand import HAND
from ecdysis_lab.models.params import ModelParams

SIM_MODELS = tuple(
    f"sim/{name}" for name in ("small", "medium", "large", "quirky", "flawless", "user", "reviewer")
)
MODEL_FORMS = (
    "openai/NAME (with api_base for vLLM or llama.cpp), anthropic/NAME, gemini/NAME, ollama_chat/NAME, "
    f"or without any key {', '.join(SIM_MODELS)}"
)
OPTIONAL = ("tools", "temperature", "max_tokens", "seed", "response_format")
# Providers that LiteLLM asks through its own HTTP client, which has to be given for each call; the others take the
# OpenAI client, and with it the session that is set for the process.
OWN_CLIENT = (
    "anthropic", "deepseek", "gemini", "groq", "hosted_vllm", "huggingface", "mistral", "ollama_chat", "openrouter",
    "together_ai", "xai",
)  # fmt: skip


@functools.cache
def litellm() -> Any:
    """LiteLLM, imported when first used, without its network look-up of prices and without its chatter."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ.setdefault("LITELLM_LOG", "ERROR")
    module: Any = importlib.import_module("litellm")
    module.suppress_debug_info = True
    module.telemetry = False
    module.client_session = importlib.import_module("ecdysis_lab.models.wire").client()
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return module


@functools.cache
def provider_of(model: str) -> str:
    """LiteLLM's provider of a model name; the first ``sim`` model registers that provider."""
    module = litellm()
    if model.startswith("sim/"):
        if model not in SIM_MODELS:
            raise PermanentError(f"unknown model {model!r}; choose one of {', '.join(SIM_MODELS)}")
        importlib.import_module("ecdysis_lab.models.sim").register()
        return "sim"
    try:
        return str(module.get_llm_provider(model)[1])
    except module.BadRequestError:
        unknown = PermanentError(f"unknown model {model!r}: no such provider; use {MODEL_FORMS}")
    raise unknown


@functools.cache
def own_client(provider: str) -> dict[str, Any]:
    """The argument that makes LiteLLM's own HTTP client ours, where a provider uses one."""
    if provider not in OWN_CLIENT:
        return {}
    handler = importlib.import_module("litellm.llms.custom_httpx.http_handler").HTTPHandler
    return {"client": handler(client=litellm().client_session)}


def check_form(model: str, provider: str) -> None:
    """Refuse what LiteLLM would turn into something else than a chat."""
    name = model.partition("/")[2] or model
    if provider == "ollama":
        raise PermanentError(
            f"{model}: LiteLLM turns a chat with provider ollama into one text and tools into a JSON format; "
            f"use ollama_chat/{name}"
        )
    if provider.startswith("text-completion"):
        raise PermanentError(
            f"{model}: provider {provider} completes text and knows no tools; use openai/{name}"
        )


@functools.cache
def check_sent(model: str, provider: str, names: tuple[str, ...]) -> None:
    """Refuse to ask without tools; say once what else LiteLLM leaves out of requests to a provider."""
    known = litellm().get_supported_openai_params(model=model) or names
    left_out = [name for name in names if name not in known]
    if "tools" in left_out:
        raise PermanentError(
            f"{model}: LiteLLM sends no tools to provider {provider}; if its server speaks OpenAI's protocol, use "
            f"openai/{model.partition('/')[2] or model} with api_base"
        )
    if left_out:
        logging.getLogger(__name__).warning("%s: LiteLLM does not send %s", model, " and ".join(left_out))


def takes_format(model: str) -> bool:
    """Whether LiteLLM sends ``response_format`` to a model's provider."""
    known = litellm().get_supported_openai_params(model=model)
    return provider_of(model) == "sim" or not known or "response_format" in known


def check_model(model: str, params: ModelParams | None = None) -> None:
    """Check a model name and its keys without a network call.

    Parameters
    ----------
    model : any LiteLLM name, or ``hand``.
    params : how it is asked; with an ``api_base`` no key is required.

    Raises
    ------
    LabError: unknown provider or ``sim`` profile (lists the forms), or a missing key (names its variable).
    """
    if model == HAND:
        return
    provider = provider_of(model)
    check_form(model, provider)
    # Credential chains of their own cannot be judged by variables; one's own server may need no key.
    if provider.startswith(("sim", "bedrock", "sagemaker", "vertex")) or (params and params.api_base):
        return
    missing = _missing_keys(model)
    if provider.startswith("ollama"):
        missing = [name for name in missing if not name.endswith("_BASE")]  # it has a default address
    if missing:
        raise PermanentError(f"{model} needs {' and '.join(missing)}; set it in the environment")


def _missing_keys(model: str) -> list[str]:
    return list(litellm().validate_environment(model).get("missing_keys") or [])


def key_names(model: str) -> str:
    """The variables that hold a model's key, whether set or not; values are never looked at."""
    wanted = provider_of(model).replace("_", "").upper() + "APIKEY"
    present = [name for name in os.environ if name.replace("_", "").upper() == wanted]
    return " and ".join(present or _missing_keys(model) or [provider_of(model).upper() + "_API_KEY"])
