"""Rules by which the simulated reviewer turns evidence into findings."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from ecdysis_lab.hooks import CLAIM, agrees, plain_expression
from ecdysis_lab.models.sim.evidence import Event, Evidence, Excerpt, Finding
from ecdysis_lab.models.sim.shapes import kind, leaves, pattern, placeholder, same_words, transforms

LOOP = 3
Sight = tuple[str, str, dict[str, Any], Excerpt, Event]
"""(cause, what, guard, excerpt, the event that shows it)."""


def find(evidence: Evidence) -> list[Finding]:
    """All findings, most widely seen first."""
    seen: dict[str, list[Sight]] = defaultdict(list)
    for excerpt in evidence.excerpts:
        for sight in _sights(excerpt, evidence):
            seen[json.dumps(sight[2], sort_keys=True)].append(sight)
    made = [_finding(sights, evidence) for sights in seen.values()]
    return sorted(made, key=lambda f: (-len(f.tasks), json.dumps(f.guard, sort_keys=True)))


def _finding(sights: list[Sight], evidence: Evidence) -> Finding:
    cause, what, guard, _, _ = sights[0]
    patterns = Counter(s[3].pattern for s in sights if s[3].pattern >= 0) or Counter([-1])
    tool = guard.get("tool") or next(iter(guard.get("tools", [])), "")
    return Finding(
        cause=cause,
        what=what,
        guard=guard,
        pattern=patterns.most_common(1)[0][0],
        tasks=tuple(sorted({s[3].task for s in sights})),
        evidence=tuple(dict.fromkeys(excerpt.cite(event) for *_, excerpt, event in _spread(sights))),
        allow=tuple(f"{tool} {json.dumps(a)}" for a in evidence.acts.get(tool, [])[:2]),
        breaks=_breaks(guard),
    )


def _spread(sights: list[Sight]) -> list[Sight]:
    """The first sight of every task before the others, so that the first few to be cited are of several tasks."""
    first = {s[3].task: n for n, s in reversed(list(enumerate(sights)))}
    return [s for _, s in sorted(enumerate(sights), key=lambda ns: first[ns[1][3].task] != ns[0])]


def _breaks(guard: dict[str, Any]) -> Callable[[Evidence], str]:
    """A check that no successful act would be changed by a canonical form."""

    def check(evidence: Evidence) -> str:
        if guard["kind"] != "canonical_argument" or guard["transform"][0] in ("list", "integer", "enum"):
            return ""
        for tool, acts in evidence.acts.items():
            for path, value in (leaf for act in acts for leaf in leaves(act)):
                if (
                    path == guard["argument"]
                    and isinstance(value, str)
                    and not re.fullmatch(guard["shape"], value)
                ):
                    after = next(
                        (out for steps, out in transforms(value) if steps == guard["transform"]), value
                    )
                    if after != value and re.fullmatch(guard["shape"], after):
                        return f"{tool} {path}={value}"
        return ""

    return check


def _sights(excerpt: Excerpt, evidence: Evidence) -> Iterator[Sight]:
    """What one failed trial shows: the first rule that explains it, else a hint from the policy."""
    told = (_claim, _no_yes) if evidence.talks else ()
    for rule in (_bad_form, _loop, *told, _early_transfer, _odd_write, _silent, _policy_hint):
        found = list(rule(excerpt, evidence))
        if found:
            yield from found
            return


def _bad_form(excerpt: Excerpt, evidence: Evidence) -> Iterator[Sight]:
    """A call that came back with an error, or empty, and whose arguments look unlike successful ones."""
    for call, result in excerpt.calls():
        if result is None or not (result.kind == "error" or result.text.strip() == "[]"):
            continue
        found = list(_names(excerpt, call, evidence)) or list(_forms(excerpt, call, evidence))
        yield from found
        if not found and result.kind == "error":
            yield _hint_from_policy(excerpt, call, evidence, f"{call.tool} fails with “{result.text[:90]}”.")
        return


def _names(excerpt: Excerpt, call: Event, evidence: Evidence) -> Iterator[Sight]:
    """A tool, or an argument, that the schema does not have."""
    if call.tool not in evidence.kinds:
        guard: dict[str, Any] = {"kind": "known_tools"}
        what = "Refuse a tool that does not exist and name those that do."
        yield "The agent calls a tool that this system does not have.", what, guard, excerpt, call
        return
    known, given = set(evidence.arguments.get(call.tool, ())), set(call.arguments)
    missing = sorted(known - given)
    for name in sorted(given - known):
        stem = name.partition("_")[0]
        right = next((m for m in missing if m.startswith(stem)), None)
        guard = {"kind": "argument_names", "names": {name: right}}
        what = (
            f"Send `{name}` under its own name, `{right}`."
            if right
            else f"Leave out `{name}`, which no schema has."
        )
        yield f"`{name}` is no argument of {call.tool}.", what, guard, excerpt, call


def _odd_write(excerpt: Excerpt, evidence: Evidence) -> Iterator[Sight]:
    """A write that went through although an argument is of another form than on passing trials."""
    for call, _ in excerpt.calls():
        if evidence.kinds.get(call.tool) == "write":
            yield from _forms(excerpt, call, evidence)


def _forms(excerpt: Excerpt, call: Event, evidence: Evidence) -> Iterator[Sight]:
    known: dict[str, list[Any]] = defaultdict(list)
    for acts in evidence.acts.values():
        for path, value in (leaf for act in acts for leaf in leaves(act)):
            known[path].append(value)
    for path, value in leaves(call.arguments):
        guard = canonical(path, value, known.get(path, []))
        if guard is not None:
            what = f"Bring `{path}` to its canonical form before the call: {', '.join(guard['transform'])}."
            yield f"`{path}` is sent in a form that the tools do not take.", what, guard, excerpt, call
            return
        hint = _form_hint(call.tool, path, value, known.get(path, []))
        if hint is not None:
            yield f"The schema does not say which form `{path}` has.", hint["text"], hint, excerpt, call
            return


def canonical(path: str, value: Any, known: list[Any]) -> dict[str, Any] | None:
    """A canonical-form guard that maps a value to the form of the known ones, or None."""
    kinds = {kind(v) for v in known}
    base = {"kind": "canonical_argument", "argument": path}
    if path == "expression" and isinstance(value, str):
        plain = plain_expression(value)
        shape = r"[0-9+*/(). -]+"
        return {**base, "transform": ["plain_expression"], "shape": shape} if plain != value else None
    if len(kinds) == 1 and kind(value) == "text" and kinds <= {"list", "integer"}:
        return {**base, "transform": [kinds.pop()]}
    if kinds != {"text"} or not isinstance(value, str):
        return None
    values = sorted({str(v) for v in known})
    if value in values:
        return None
    if any(same_words(value, v) for v in values) and all(" " in v for v in values):
        return {**base, "transform": ["enum"], "values": values}
    shapes = sorted({pattern(v) for v in values})
    if any(re.fullmatch(shape, value) for shape in shapes):
        return None
    for steps, after in transforms(value):
        fitting = next((s for s in shapes if after != value and re.fullmatch(s, after)), None)
        if fitting:
            return {**base, "transform": steps, "shape": fitting}
    return None


def _form_hint(tool: str, path: str, value: Any, known: list[Any]) -> dict[str, Any] | None:
    """Where no canonicalisation fits but every known value has one short form, say the form."""
    texts = [v for v in known if isinstance(v, str)]
    if len(set(texts)) < 1 or len(texts) != len(known) or not isinstance(value, str) or len(value) > 60:
        return None
    shapes = {pattern(v) for v in texts}
    forms = {placeholder(v) for v in texts}
    if len(forms) > 1 or re.fullmatch(shapes.pop(), value):
        return None
    form: str = (
        texts[0] if len(set(texts)) == 1 and texts[0].isupper() and len(texts[0]) <= 4 else forms.pop()
    )
    text = f"Argument `{path}` must have the exact form `{form}`."
    return {"kind": "contract_hint", "tool": tool, "text": text}


def _loop(excerpt: Excerpt, evidence: Evidence) -> Iterator[Sight]:
    run: list[Event] = []
    for call, _ in excerpt.calls():
        run = [*run, call] if run and (run[-1].tool, run[-1].text) == (call.tool, call.text) else [call]
        if len(run) == LOOP:
            guard = {"kind": "repeat_breaker", "limit": LOOP}
            what = "Tell the model when it makes the same call again and again."
            yield "The same call is repeated without new information.", what, guard, excerpt, call
            return


def _claim(excerpt: Excerpt, evidence: Evidence) -> Iterator[Sight]:
    """The agent says that a change is made after a yes, and no write followed that yes."""
    agreed: Event | None = None
    for event in excerpt.events:
        if event.kind == "user" and agrees(event.text):
            agreed = event
        elif event.kind == "call" and evidence.kinds.get(event.tool) == "write":
            agreed = None
        elif event.kind == "assistant" and agreed is not None and CLAIM.search(event.text):
            guard = {"kind": "unfinished_work", "tools": _writes(evidence)}
            what = "Stop a reply that claims a change which no call has made."
            yield "The agent claims work that it did not do.", what, guard, excerpt, event
            return


def _no_yes(excerpt: Excerpt, evidence: Evidence) -> Iterator[Sight]:
    said = ""
    for event in excerpt.events:
        if event.kind == "user":
            said = event.text
        elif event.kind == "call" and evidence.kinds.get(event.tool) == "write":
            if not agrees(said):
                guard = {"kind": "confirm_before_write", "tools": _writes(evidence)}
                what = "Refuse a write that the user has not agreed to."
                yield "A change is made before the user agreed to it.", what, guard, excerpt, event
            return


def _early_transfer(excerpt: Excerpt, evidence: Evidence) -> Iterator[Sight]:
    calls = [call for call, _ in excerpt.calls()]
    if (
        calls
        and calls[-1].tool.startswith("transfer_to_human")
        and not any(evidence.kinds.get(c.tool) == "write" for c in calls)
    ):
        yield _hint_from_policy(excerpt, calls[-1], evidence, "The agent hands over what it could do itself.")


def _silent(excerpt: Excerpt, evidence: Evidence) -> Iterator[Sight]:
    if "communicate" not in excerpt.checks or "db" in excerpt.checks:
        return
    last = next((e for e in reversed(excerpt.events) if e.kind == "assistant"), None)
    if last is not None:
        text = "Before you close, state every figure, number and fact that the user asked for."
        guard = {"kind": "procedure", "text": text, "when": ""}
        yield "The agent closes without telling what was asked.", text, guard, excerpt, last


def _policy_hint(excerpt: Excerpt, evidence: Evidence) -> Iterator[Sight]:
    """A write that went through and was wrong for reasons the transcript does not show: say the rule again."""
    writes = [
        c
        for c, r in excerpt.calls()
        if evidence.kinds.get(c.tool) == "write" and r is not None and r.kind == "ok"
    ]
    if writes and "db" in excerpt.checks:
        yield _hint_from_policy(
            excerpt, writes[-1], evidence, f"{writes[-1].tool} is used against the policy."
        )


def _hint_from_policy(excerpt: Excerpt, call: Event, evidence: Evidence, cause: str) -> Sight:
    """The policy lines that share most words with the tool's name and arguments, as a contract hint."""
    words = set(re.findall(r"[a-z]{4,}", f"{call.tool} {' '.join(call.arguments)}".replace("_", " ").lower()))
    stems = {w[:6] for w in words}
    scored = [
        (sum(w[:6] in stems for w in set(re.findall(r"[a-z]{4,}", line.lower()))), -n, line)
        for n, line in enumerate(evidence.policy)
    ]
    best = [line for score, _, line in sorted(scored, reverse=True)[:3] if score > 0]
    text = "Policy: " + " ".join(best) if best else "Check the policy before this call."
    guard = {"kind": "contract_hint", "tool": call.tool, "text": text}
    return cause, f"Repeat the policy where {call.tool} is described.", guard, excerpt, call


def _writes(evidence: Evidence) -> list[str]:
    return sorted(tool for tool, kind_ in evidence.kinds.items() if kind_ == "write")
