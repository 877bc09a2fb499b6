"""A trajectory as HTML to read: what failed on top, the first bad step marked, calls joined with results.

Every text of a trajectory is escaped: it came from a model, a user or a tool, and may hold markup.
"""

from __future__ import annotations

import html
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ecdysis_lab.failures.cards import position_of, to_failure
from ecdysis_lab.failures.first_bad import first_bad
from ecdysis_lab.failures.transcript import Step, clean, shorten, steps
from ecdysis_lab.records import Failure, Intervention, Message, Trajectory

FOLD_CHARS = 700  # a longer result is folded behind its first line
SHOWN_CHARS = 20_000  # of one text; the rest is counted, not shown, so that the page stays usable


def escaped(text: object) -> str:
    """Text for an HTML body or attribute."""
    return html.escape(str(text), quote=True)


def trace_html(
    trajectory: Trajectory, failure: Failure | None = None, facts: Sequence[tuple[str, str]] = ()
) -> str:
    """A trajectory as an HTML fragment without scripts.

    Parameters
    ----------
    trajectory : any trajectory. failure : its failure, which fixes the disclosure; None derives it.
    facts : further (name, value) lines for the head, as plain text.

    Returns
    -------
    HTML with one ``<section class="el-trace">``. The block of the first bad step has the class ``el-bad``; what
    failed stands in ``el-head``; the system prompt is a closed ``<details>``.
    """
    failure = failure or to_failure(trajectory)
    bad = failure.first_bad if failure else getattr(first_bad(trajectory), "index", None)
    joined: dict[int, list[Step]] = defaultdict(list)
    for step in steps(trajectory.messages):
        joined[step.index].append(step)
    answers = {s.result_index for group in joined.values() for s in group if s.outcome != "unanswered"}
    acts: dict[int, list[Intervention]] = defaultdict(list)
    for act in trajectory.interventions:
        if act.action != "pass_through" and act.hook not in ("describe", "brief"):
            acts[position_of(trajectory, act.step)].append(act)
    body = []
    for i, message in enumerate(trajectory.messages):
        body += [_act(a) for a in acts[i]]
        if i not in answers:
            body += _blocks(i, message, joined[i], bad)
    return f'<section class="el-trace">{_head(trajectory, failure, facts)}{"".join(body)}</section>'


def _head(trajectory: Trajectory, failure: Failure | None, facts: Sequence[tuple[str, str]]) -> str:
    score = "not scored" if trajectory.score is None else f"score {trajectory.score:g}"
    checks = failure.failed_checks if failure else ()
    lines = [("ended by", trajectory.termination or "unknown"), *facts]
    if trajectory.error:
        lines.insert(1, ("because" if trajectory.status == "scored" else "error", trajectory.error))
    top = "".join(f'<span class="el-check">✗ {escaped(c)}</span>' for c in checks)
    if not checks and failure:
        top = '<span class="el-check">✗ failed (which check is not disclosed)</span>'
    wrong = failure.first_bad_what if failure else ""
    first = f'<div class="el-first">First thing wrong: {escaped(clean(wrong))}</div>' if wrong else ""
    told = " · ".join(f"{escaped(name)} <b>{escaped(shorten(value, 300))}</b>" for name, value in lines)
    title = f"task {escaped(trajectory.trial.task_id)} · {escaped(trajectory.trial.model)} · {score}"
    return f'<header class="el-head"><div>{top} <b>{title}</b></div>{first}<div class="el-facts">{told}</div></header>'


def _blocks(i: int, message: Message, called: Sequence[Step], bad: int | None) -> Iterator[str]:
    mark = " el-bad" if i == bad and not called else ""
    text = _text(message.content or "")
    if message.role == "system":
        size = len(message.content or "")
        yield (
            f'<details class="el-system"><summary>System prompt ({size:,} characters)</summary>'
            f"<pre>{text}</pre></details>"
        )
    elif message.content and message.content.strip():
        role = message.role if message.role in ("user", "assistant", "tool") else "other"
        yield (
            f'<div class="el-msg el-{role}{mark}" data-step="{i}"><b>{escaped(message.role)}</b>'
            f"<i>#{i}</i><pre>{text}</pre></div>"
        )
    for call in message.calls if message.role == "user" else ():
        made = _text(f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}")
        yield f'<div class="el-msg el-user" data-step="{i}"><b>user calls</b><i>#{i}</i><pre>{made}</pre></div>'
    last = called[-1] if called else None
    for step in called:
        # A bad step is known by its call or by its result; of several calls in one message, by the last.
        hit = step.result_index == bad or (step.index == bad and (bad != step.result_index) and step is last)
        yield _call(step, hit)


def _call(step: Step, bad: bool) -> str:
    arguments = escaped(json.dumps(step.call.arguments, ensure_ascii=False, indent=1)[:SHOWN_CHARS])
    result = clean_lines(_pretty(step.result))
    shown = _text(result) if step.outcome != "unanswered" else "<i>no result</i>"
    if len(result) > FOLD_CHARS and not bad:
        lead = escaped(shorten(step.result, 160))
        answer = f"<details><summary>{lead} <i>({len(result):,} characters)</i></summary><pre>{shown}</pre></details>"
    else:
        answer = f"<pre>{shown}</pre>"
    numbers = f"#{step.index}" + (f" → #{step.result_index}" if step.result_index != step.index else "")
    return (
        f'<div class="el-msg el-call el-{step.outcome}{" el-bad" if bad else ""}" data-step="{step.index}">'
        f"<b>{escaped(step.call.name)}</b><i>{numbers} {step.outcome}</i>"
        f'<pre class="el-arguments">{arguments}</pre>{answer}</div>'
    )


def _act(act: Intervention) -> str:
    what = f"harness {act.action} {act.tool or act.hook}" + (f" ({act.rule})" if act.rule else "")
    said = act.reason or f"{act.before} → {act.after}"
    return f'<div class="el-msg el-harness"><b>{escaped(what)}</b><pre>{_text(str(said))}</pre></div>'


def _pretty(result: str) -> str:
    """JSON results one field a line; any other text as it is."""
    if len(result) > SHOWN_CHARS or not result.lstrip().startswith(("{", "[")):
        return result
    try:
        return json.dumps(json.loads(result), ensure_ascii=False, indent=1)
    except ValueError:
        return result


def clean_lines(text: str) -> str:
    """Text without ANSI codes and control characters, its line breaks kept."""
    return "\n".join(clean(line) if "\x1b" in line else line for line in text.split("\n"))


def _text(text: str) -> str:
    shown = clean_lines(text[:SHOWN_CHARS])
    more = len(text) - SHOWN_CHARS
    return escaped(shown) + (f"\n<i>… {more:,} more characters</i>" if more > 0 else "")
