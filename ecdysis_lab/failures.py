"""Failures and their evidence cards: what went wrong first, and what a reviewer needs to see of it.

A card holds no system prompt, no task or trial id and no gold value, whatever the disclosure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Disclosure, Failure, Intervention, LabError, Message, Trajectory

DISCLOSURES = ("transcript", "checks", "scenario")
WRITE_PREFIXES = ("book", "cancel", "update", "modify", "exchange", "return", "send")
LOOP = 3  # identical calls in a row that count as a loop
LAST_MESSAGES = 6
LINE_CHARS = 240
CALL_CHARS = 400
PATH_TOKENS = 40

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_YES = re.compile(
    r"\b(yes|yeah|yep|yup|confirm\w*|proceed|go ahead|sure|ok|okay|agree\w*|please do|sounds good|that works|"
    r"correct|sí|oui|ja|sim|да|igen|tak|evet)\b|是|好的|确认|はい|예|네",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Bad:
    """The first thing that went wrong: message index, kind, tool (or empty), and one line about it."""

    index: int
    kind: str
    tool: str
    what: str


def clean(text: str) -> str:
    """Text on one line: no ANSI codes, no control characters, single spaces. HTML stays as it is."""
    return " ".join(_CONTROL.sub(" ", _ANSI.sub("", text)).split())


def shorten(text: str, limit_chars: int) -> str:
    """Cleaned text of at most ``limit_chars`` characters, the cut marked with an ellipsis."""
    # Cut before cleaning too: a 200k-token result must not be scanned whole for one line of it.
    flat = clean(text[: 4 * limit_chars + 200])
    return flat if len(flat) <= limit_chars else flat[: max(limit_chars - 1, 0)] + "…"


def outline(messages: Sequence[Message], limit_chars: int = LINE_CHARS) -> list[str]:
    """One parseable line per message, several where a message makes several calls.

    ``[3] user: text``, ``[4] assistant: text``, ``[5] call tool {json}``, ``[6] ok tool: result``,
    ``[7] error tool: message``. The number is the index into ``messages``; system messages are left out.

    Parameters
    ----------
    messages : a transcript, oldest first.
    limit_chars : most characters of a text or result; the JSON of a call is never cut.

    Returns
    -------
    Lines in order, each without a line break.
    """
    names = _names(messages)
    return [line for i, m in enumerate(messages) for line in _lines(i, m, names, limit_chars)]


def _lines(i: int, message: Message, names: dict[str, str], limit_chars: int) -> Iterator[str]:
    if message.role == "tool":
        tool = message.name or names.get(message.call_id, "tool")
        yield f"[{i}] {'error' if message.error else 'ok'} {tool}: {shorten(message.content or '', limit_chars)}"
    elif message.role != "system":
        if message.content and message.content.strip():
            yield f"[{i}] {message.role}: {shorten(message.content, limit_chars)}"
        for call in message.calls:
            yield f"[{i}] call {call.name} {json.dumps(call.arguments, ensure_ascii=False, sort_keys=True)}"


def _names(messages: Sequence[Message]) -> dict[str, str]:
    """Tool name by call id, for tool messages that carry no name."""
    return {c.id: c.name for m in messages for c in m.calls if c.id}


def is_write(tool: str, writes: frozenset[str] | None = None) -> bool:
    """Whether a tool changes state: by the given names, else by the verb its name starts with."""
    return tool in writes if writes is not None else tool.startswith(WRITE_PREFIXES)


@dataclass(frozen=True)
class Step:
    """A call with its outcome (``ok``, ``error`` or ``unanswered``) and the message indices of both."""

    index: int
    call: Call
    outcome: str
    result_index: int
    result: str


def steps(messages: Sequence[Message]) -> list[Step]:
    """Calls of a transcript in order, each joined with its result (by call id, else by position)."""
    out: list[Step] = []
    open_: list[int] = []  # positions in `out` that still wait for a result
    for i, message in enumerate(messages):
        if message.role == "tool":
            found = next((k for k in open_ if message.call_id and out[k].call.id == message.call_id), None)
            k = found if found is not None else (open_[0] if open_ else None)
            if k is not None:
                open_.remove(k)
                outcome = "error" if message.error else "ok"
                out[k] = replace(out[k], outcome=outcome, result_index=i, result=message.content or "")
            continue
        if message.calls:
            open_ = list(range(len(out), len(out) + len(message.calls)))
            out += [Step(i, call, "unanswered", i, "") for call in message.calls]
    return out


def path_of(trajectory: Trajectory) -> tuple[str, ...]:
    """Tool-outcome tokens in order, e.g. ``("get_user:ok", "cancel:refused", "cancel:error")``."""
    tokens = [(s.index, f"{s.call.name}:{s.outcome}") for s in steps(trajectory.messages)]
    tokens += [
        (_message_index(trajectory, i.step), f"{i.tool}:refused")
        for i in trajectory.interventions
        if i.action == "refuse" and i.tool
    ]
    return tuple(token for _, token in sorted(tokens, key=lambda t: t[0]))


def _message_index(trajectory: Trajectory, step: int) -> int:
    """Index into ``messages`` that stands where ``context[step]`` does; the context holds refusals besides."""
    messages, at = trajectory.messages, 0
    for seen in trajectory.context[:step]:
        for j in range(at, len(messages)):
            if messages[j].role == "system":
                continue
            same_call = bool(seen.call_id) and messages[j].call_id == seen.call_id
            if same_call or (messages[j].role, messages[j].content) == (seen.role, seen.content):
                at = j + 1
            break
    return max(min(at, len(messages) - 1), 0)


def first_bad(trajectory: Trajectory, writes: frozenset[str] | None = None) -> Bad | None:
    """The first thing that went wrong, by how sure the transcript is of it.

    First tool error; else first refusal or fault of the harness; else a loop (three identical calls in a
    row); else the first write without the user's yes right before it; else None.
    """
    done = steps(trajectory.messages)
    for step in done:
        if step.outcome == "error":
            return Bad(
                step.result_index, "error", step.call.name, f"{step.call.name}: {shorten(step.result, 160)}"
            )
    harness = next((i for i in trajectory.interventions if i.action in ("refuse", "fault")), None)
    if harness is not None:
        return _harness_bad(trajectory, harness)
    return _loop(done) or _unconfirmed(trajectory.messages, done, writes)


def _harness_bad(trajectory: Trajectory, act: Intervention) -> Bad:
    kind = "refusal" if act.action == "refuse" else "fault"
    what = f"harness {kind} of {act.tool or act.hook} ({act.rule}): {shorten(str(act.reason), 160)}"
    return Bad(_message_index(trajectory, act.step), kind, act.tool, what)


def _loop(done: Sequence[Step]) -> Bad | None:
    for _, group in groupby(done, key=lambda s: (s.call.name, json.dumps(s.call.arguments, sort_keys=True))):
        same = list(group)
        if len(same) >= LOOP:
            third = same[LOOP - 1]
            return Bad(
                third.index,
                "loop",
                third.call.name,
                f"{third.call.name}: same call {len(same)} times in a row",
            )
    return None


def _unconfirmed(
    messages: Sequence[Message], done: Sequence[Step], writes: frozenset[str] | None
) -> Bad | None:
    for step in done:
        if step.outcome == "ok" and is_write(step.call.name, writes):
            said = next((m.content or "" for m in reversed(messages[: step.index]) if m.role == "user"), "")
            if not _YES.search(said):
                return Bad(
                    step.index,
                    "unconfirmed",
                    step.call.name,
                    f"{step.call.name}: written without the user's yes",
                )
    return None


def _collapsed(path: Sequence[str]) -> str:
    """Path as text, runs joined (``search:ok x3``), the middle of a very long one left out."""
    runs = [(token, len(list(group))) for token, group in groupby(path)]
    texts = [token if n == 1 else f"{token} x{n}" for token, n in runs]
    if len(texts) > PATH_TOKENS:
        half = PATH_TOKENS // 2
        texts = [*texts[:half], f"({len(texts) - PATH_TOKENS} more)", *texts[-half:]]
    return " → ".join(texts) or "no tool call"


def card(
    trajectory: Trajectory, checks: Sequence[str], bad: Bad | None, path: Sequence[str], scenario: str = ""
) -> str:
    """The evidence card as text: termination, checks, first bad thing, path, last exchanges, scenario."""
    lines = [f"Ended: {trajectory.termination or 'unknown'}"]
    if checks:
        lines.append(f"Failed checks: {', '.join(checks)}")
    lines.append(
        f"First thing wrong: {f'[{bad.index}] {bad.what}' if bad else 'nothing visible in the tool calls'}"
    )
    lines.append(f"Calls: {_collapsed(path)}")
    lines.append("Last exchanges:")
    start = max(len(trajectory.messages) - LAST_MESSAGES, 0)
    last = [s for s in outline(trajectory.messages) if int(s[1 : s.index("]")]) >= start]
    lines += [s if len(s) <= CALL_CHARS else s[: CALL_CHARS - 1] + "…" for s in last]
    if scenario:
        lines.append(f"Scenario: {shorten(scenario, 2000)}")
    return "\n".join(lines)


def to_failure(
    trajectory: Trajectory,
    disclosure: Disclosure = "checks",
    *,
    threshold: float = 1.0,
    writes: frozenset[str] | None = None,
    scenario: Callable[[str], str] | None = None,
) -> Failure | None:
    """The failure that a trajectory is, or None.

    Parameters
    ----------
    trajectory : any trajectory; infrastructure errors and user faults are never failures.
    disclosure : ``transcript``, ``checks`` or ``scenario``: how much a card tells beyond the transcript.
    threshold : ``failure_threshold`` (λ): a score below it is a failure.
    writes : names of the tools that change state; None goes by the verb in the name.
    scenario : task id -> the user's hidden instructions; asked at disclosure ``scenario`` only.

    Raises
    ------
    LabError: an unknown disclosure.
    """
    if disclosure not in DISCLOSURES:
        raise LabError(f"unknown disclosure {disclosure!r}; choose one of {', '.join(DISCLOSURES)}")
    if trajectory.status != "scored" or trajectory.score is None or trajectory.score >= threshold:
        return None
    checks: tuple[str, ...] = ()
    if disclosure != "transcript":
        checks = tuple(sorted(name for name, passed in trajectory.checks.items() if not passed))
    hidden = scenario(trajectory.trial.task_id) if disclosure == "scenario" and scenario else ""
    bad, path = first_bad(trajectory, writes), path_of(trajectory)
    return Failure(
        key=trajectory.key,
        task_id=trajectory.trial.task_id,
        model=trajectory.trial.model,
        score=trajectory.score,
        termination=trajectory.termination,
        failed_checks=checks,
        first_bad=bad.index if bad else None,
        first_bad_what=bad.what if bad else "",
        path=path,
        card=card(trajectory, checks, bad, path, hidden),
        trajectory=trajectory,
    )


def find_failures(
    trajectories: Iterable[Trajectory],
    threshold: float = 1.0,
    disclosure: Disclosure = "checks",
    *,
    writes: frozenset[str] | None = None,
    scenario: Callable[[str], str] | None = None,
) -> list[Failure]:
    """Failures among trajectories, in their order; arguments as in ``to_failure``.

    Raises
    ------
    LabError: a threshold outside (0, 1], or an unknown disclosure.
    """
    if not 0.0 < threshold <= 1.0:
        raise LabError(f"failure_threshold must lie in (0, 1], got {threshold}")
    made = (
        to_failure(t, disclosure, threshold=threshold, writes=writes, scenario=scenario) for t in trajectories
    )
    return [failure for failure in made if failure is not None]
