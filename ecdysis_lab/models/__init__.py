"""The only caller of LiteLLM: one call for every role, typed errors, budgets, and the simulated models."""

from ecdysis_lab.models.answers import to_openai
from ecdysis_lab.models.budget import Budget, open_budget
from ecdysis_lab.models.calls import complete
from ecdysis_lab.models.errors import (
    BudgetExceeded,
    ContentError,
    EmptyAnswer,
    LLMError,
    PermanentError,
    TemplateError,
    TransientError,
)
from ecdysis_lab.models.hand import HAND, Waiting, refused
from ecdysis_lab.models.params import ModelParams
from ecdysis_lab.models.providers import MODEL_FORMS, check_model
from ecdysis_lab.models.structured import complete_json

__all__ = [
    "HAND",
    "MODEL_FORMS",
    "Budget",
    "BudgetExceeded",
    "ContentError",
    "EmptyAnswer",
    "LLMError",
    "ModelParams",
    "PermanentError",
    "TemplateError",
    "TransientError",
    "Waiting",
    "check_model",
    "complete",
    "complete_json",
    "open_budget",
    "refused",
    "to_openai",
]
