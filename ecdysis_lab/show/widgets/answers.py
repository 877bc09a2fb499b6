"""A field for answers by hand: shows the prompts that wait in a run, takes a pasted answer, checks and saves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ecdysis_lab.models import hand
from ecdysis_lab.records import LabError
from ecdysis_lab.review.editors.litellm import parse
from ecdysis_lab.review.spec import check_form
from ecdysis_lab.show.widgets.trace import escaped
from ecdysis_lab.store import Run
from ecdysis_lab.store.files import Folder

CHECKS = {"moderator": check_form, "editor": parse}
"""Role -> what raises a ValueError for an answer that cannot be one; what needs the evidence is checked by the run."""


class AnswerField:
    """A live field; shows itself as the last value of a cell.

    Parameters
    ----------
    run : run, or its folder, whose prompts may wait.

    Attributes
    ----------
    waiting : prompt files without an answer. box : the ipywidgets container.
    """

    def __init__(self, run: Run | Path | str) -> None:
        self.folder = Run.of(run).folder / hand.PLACE
        self.waiting: list[Path] = []
        self.box = self._build()
        self.look()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return self.box._repr_mimebundle_(**kwargs)

    def _build(self) -> Any:
        import ipywidgets as w

        self.choice = w.Dropdown(description="prompt", layout=w.Layout(width="420px"))
        self.prompt = w.Textarea(disabled=True, layout=w.Layout(height="320px", width="100%"))
        self.answer = w.Textarea(
            placeholder="paste the answer here", layout=w.Layout(height="200px", width="100%")
        )
        self.status = w.HTML()
        again, save = (w.Button(description=words) for words in ("look again", "save answer"))
        again.on_click(lambda _: self.look())
        save.on_click(lambda _: self.save())
        self.choice.observe(lambda _: self._show(), "value")
        return w.VBox([w.HBox([self.choice, again, save]), self.status, self.prompt, self.answer])

    def look(self) -> None:
        """See which prompts wait now."""
        self.waiting = hand.prompts(self.folder)
        before = self.choice.value
        self.choice.options = [(str(path.relative_to(self.folder)), path) for path in self.waiting]
        self.choice.value = before if before in self.waiting else next(iter(self.waiting), None)
        self._show()
        n = len(self.waiting)
        self._say(f"{n} prompt{'s' if n > 1 else ''} in {self.folder}" if n else "No prompt waits.")

    def save(self) -> bool:
        """Save the pasted answer beside the open prompt; whether it was taken. What is wrong with it is shown."""
        prompt, text = self.choice.value, self.answer.value.strip()
        try:
            if prompt is None:
                raise ValueError("no prompt is open")
            if not text:
                raise ValueError("the answer is empty")
            CHECKS.get(hand.role_of(prompt), str)(text)
            path = hand.answer_path(prompt)
            Folder(path.parent).write_text(path.name, f"{text}\n")
        except (ValueError, LabError) as why:
            self._say(f"NOT saved: {why}")
            return False
        self.answer.value = ""
        self.look()
        self._say(f"Saved {path.name}; run the training cell again, it goes on from here.")
        return True

    def _show(self) -> None:
        path = self.choice.value
        self.prompt.value = path.read_text(encoding="utf-8") if path else ""

    def _say(self, text: str) -> None:
        self.status.value = f'<span class="el-message">{escaped(text)}</span>'
