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
from ecdysis_lab.models.params import ModelParams
from ecdysis_lab.models.providers import MODEL_FORMS, check_model

__all__ = [
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
    "check_model",
    "complete",
    "open_budget",
    "to_openai",
]
