"""What OpenCode reports while it works, read line by line: tokens, cost, denials, errors, and when to stop it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ecdysis_lab.models.budget import Budget
from ecdysis_lab.models.errors import BudgetExceeded, redact
from ecdysis_lab.records import Usage
from ecdysis_lab.review.editors import staging
from ecdysis_lab.review.editors.watch import Line
from ecdysis_lab.store.foreign import ForeignText, clean, parse_json

ERRORS_IN_A_ROW = 4  # OpenCode itself repeats a failed request for as long as one lets it
STALE_STEPS = 5  # in a row that only repeat earlier ones or are empty; it would go on with them for hours
MESSAGES = 10  # denials named in the notes
MAX_EVENT_CHARS = 50_000_000  # of all events of an edit
MAX_TOKENS = 10**9  # of one step; what says more is no count


@dataclass
class Log:
    """The state of one edit.

    Parameters
    ----------
    secret : a key, which no text keeps. usd_per_token : price of a prompt and of a completion token.
    budget : charged and checked after every step.
    """

    secret: str | None = None
    usd_per_token: tuple[float, float] | None = None
    budget: Budget | None = None
    events: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    errors_in_a_row: int = 0
    denied: list[str] = field(default_factory=list)
    failure: str = ""
    refused_key: bool = False
    over: BudgetExceeded | None = None
    cut_off: int = 0
    unread: int = 0
    seconds: float = 0.0
    _chars: int = 0
    _last_words: str = ""
    _acts: list[str] = field(default_factory=list)
    _seen: set[tuple[str, ...]] = field(default_factory=set)
    _stale: list[str] = field(default_factory=list)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the candidate has to know: denials, truncated answers, lines that nobody can read."""
        cut = [f"opencode: answers cut off at the model's output limit: {self.cut_off}"]
        unread = [f"opencode: event lines that could not be read: {self.unread}"]
        return (*self.denied, *cut[: self.cut_off], *unread[: self.unread])

    def read(self, line: Line) -> None:
        """Take in one line of its output, or the way it ended.

        Raises
        ------
        BudgetExceeded: the budget is used up, and OpenCode would go on.
        """
        if line.source == "stdout":
            self._event(line.text)
        elif line.source == "stderr":
            self._logged(line.text)
        elif line.text and not self.failure:
            self.failure = f"opencode: {line.text}" + (
                f" ({said})" if (said := self._clean(self._last_words)) else ""
            )

    def _event(self, text: str) -> None:
        try:
            event = parse_json(text, max_chars=MAX_EVENT_CHARS)
            kind, part = event.get("type"), _table(event.get("part"))
            state = _table(part.get("state"))
            act = f"{part.get('tool')} {json.dumps(state.get('input'), sort_keys=True)}"
        except AttributeError:
            return  # JSON, and no event
        except ForeignText:
            self.unread += text.startswith("{")  # a banner does not
            return
        self._keep(text)
        if kind == "step_finish":
            self._step(part)
        elif kind == "tool_use":
            self._acts.append(act)
            if state.get("status") == "error":
                self._tool_error(str(part.get("tool")), state)
        elif kind == "error":
            error = event.get("error")
            data = _table(_table(error).get("data"))
            self.refused_key = data.get("statusCode") in (401, 403)
            self._fail(str(data.get("message") or _table(error).get("name") or error))

    def _keep(self, text: str) -> None:
        self.events.append(text)
        self._chars += len(text)
        if self._chars > MAX_EVENT_CHARS:
            self.failure = f"opencode: stopped after {MAX_EVENT_CHARS} characters of events"

    def _step(self, part: dict[str, Any]) -> None:
        """A step ended; the last one, which says ``stop``, is not held against the budget."""
        tokens = _table(part.get("tokens"))
        cache = _table(tokens.get("cache"))
        asked = _count(tokens.get("input")) + _count(cache.get("read")) + _count(cache.get("write"))
        said = _count(tokens.get("output")) + _count(tokens.get("reasoning"))
        price = self.usd_per_token
        cost = asked * price[0] + said * price[1] if price else None
        used = Usage(1, asked, said, cost, attempts=1)
        self.usage, self.errors_in_a_row = self.usage + used, 0
        self.cut_off += part.get("reason") == "length"
        if self.budget:
            self.budget.add(used)
        if part.get("reason") != "stop":
            self._compare()
            if self.budget and not self.failure:
                self.budget.check()

    def _compare(self) -> None:
        """End a loop: steps in a row of which each only repeats an earlier one, or does nothing."""
        acts, self._acts = tuple(self._acts), []
        if acts and acts not in self._seen:
            self._seen.add(acts)
            self._stale = []
            return
        self._stale.append(acts[0] if acts else "an empty step")
        if len(self._stale) >= STALE_STEPS:
            which = "; ".join(dict.fromkeys(act[:160] for act in self._stale))
            why = f"stopped in a loop: {STALE_STEPS} steps in a row brought nothing new ({which})"
            self.failure = f"opencode: {self._clean(why)}"

    def _tool_error(self, tool: str, state: dict[str, Any]) -> None:
        error, asked = str(state.get("error")), _table(state.get("input"))
        if "prevents you from using" not in error and "unavailable tool" not in error:
            return  # e.g. a text to replace that is not there: the model sees it and goes on
        what = str(next((asked[k] for k in ("filePath", "command", "path", "url") if k in asked), ""))[:120]
        if len(self.denied) < MESSAGES:
            self.denied.append(clean(staging.scrub(f"denied: {tool} {what}".rstrip(), self.secret)))

    def _logged(self, text: str) -> None:
        if 'message="stream error"' not in text:
            self._last_words = text.strip() or self._last_words
            return
        self.usage, self.errors_in_a_row = self.usage + Usage(attempts=1), self.errors_in_a_row + 1
        found = re.search(r'error\.error="((?:[^"\\]|\\.)*)"', text)
        if self.errors_in_a_row >= ERRORS_IN_A_ROW:
            self._fail(f"{found[1] if found else 'no answer'} ({self.errors_in_a_row} times in a row)")

    def _fail(self, why: str) -> None:
        self.failure = f"opencode: the model did not answer: {self._clean(why)}"

    def _clean(self, text: str) -> str:
        return redact(clean(staging.scrub(text, self.secret)))


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int:
    """A number of tokens; 0 for what is none."""
    sound = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS
    return int(value) if sound else 0
