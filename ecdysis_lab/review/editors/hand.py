"""The editor that is a person, or a chat window: the prompt of the ``litellm`` editor as a file."""

from __future__ import annotations

from ecdysis_lab.models import HAND
from ecdysis_lab.review.editors.litellm import LiteLLMEditor


class HandEditor(LiteLLMEditor):
    """Writes the prompt for an edit and reads the answer from a file (:mod:`ecdysis_lab.models.hand`)."""

    name = HAND

    def __init__(self) -> None:
        super().__init__(HAND)
