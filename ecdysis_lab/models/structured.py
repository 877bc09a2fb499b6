"""A JSON answer from whatever a server can do: ``json_schema``, else ``json_object``, else plain text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ecdysis_lab.models.budget import Budget
from ecdysis_lab.models.calls import complete
from ecdysis_lab.models.errors import LLMError, PermanentError, TransientError
from ecdysis_lab.models.hand import HAND
from ecdysis_lab.models.params import ModelParams
from ecdysis_lab.models.providers import takes_format
from ecdysis_lab.records import Completion, Usage

FORMS = ("json_schema", "json_object", "text")
_ABOUT_FORM = re.compile(
    r"response_?format|response_?(json_?)?schema|json_?schema|json_?object|json mode|structured.?output|grammar",
    re.IGNORECASE,
)
_first: dict[tuple[str, str], int] = {}  # (model, server) -> the first of FORMS that it has not refused


def complete_json(
    role: str,
    model: str,
    messages: list[dict[str, Any]],
    name: str,
    schema: dict[str, Any],
    *,
    params: ModelParams | None = None,
    budget: Budget | None = None,
) -> Completion:
    """Ask once for JSON, in the best form that the server takes; what it refused is not asked for again.

    Parameters
    ----------
    role, model, messages, params, budget : as for :func:`ecdysis_lab.models.complete`; the messages say that JSON is
        wanted, since a server that takes no form is told by them alone.
    name, schema : of the object.

    Returns
    -------
    The answer; its text need not be valid. Usage holds that of refused attempts.

    Raises
    ------
    LLMError: as :func:`ecdysis_lab.models.complete`, for any reason but the form.
    """
    server, spent = (model, (params.api_base if params else None) or ""), Usage()
    if server not in _first:
        _first[server] = 0 if model == HAND or takes_format(model) else len(FORMS) - 1
    while True:
        form = FORMS[_first[server]]
        wanted = _format(form, name, schema)
        try:
            answer = complete(role, model, messages, params=params, budget=budget, response_format=wanted)
        except LLMError as why:
            spent += why.usage
            told = isinstance(why, PermanentError | TransientError) and _ABOUT_FORM.search(str(why))
            if form == "text" or not told:
                why.usage = spent
                raise
            _first[server] += 1
        else:
            return replace(answer, usage=spent + answer.usage)


def _format(form: str, name: str, schema: dict[str, Any]) -> dict[str, Any] | None:
    if form == "text":
        return None
    return {"type": form} | (
        {"json_schema": {"name": name, "schema": schema}} if form == "json_schema" else {}
    )
