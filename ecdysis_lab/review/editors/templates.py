"""Guard templates of the ``rules`` editor: from ``{"kind": …}`` to a block of harness code.

Each block wraps the hook that the file already has, so guards add up and none has to understand the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from ecdysis_lab.review.editors.parameters import Guard, UnknownGuard, check_parameters

STEPS = {
    "strip": "text = text.strip()",
    "upper": "text = text.upper()",
    "lower": "text = text.lower()",
    "iso_date": 'text = re.sub(r"(\\d{1,2})/(\\d{1,2})/(\\d{4})", '
    'lambda m: f"{m[3]}-{int(m[1]):02d}-{int(m[2]):02d}", text)',
    "snake": 'text = re.sub(r"[\\s-]+", "_", text.strip().lower())',
    "zip5": 'text = text.partition("-")[0]',
    "plain_expression": 'text = re.sub(r"[$€£,]", "", text)',
}
YES = r"\b(yes|yeah|yep|sure|ok|okay|confirm\w*|proceed|go ahead|correct|agree\w*|please do|sounds good)\b"
CLAIM = r"\b(done|completed?|taken care of|made (that|the|your) change|has been|have been|successfully)\b"


def block(guard: Guard, n: int, has_hook: bool) -> tuple[str, str]:
    """Code of one guard.

    Parameters
    ----------
    guard : ``{"kind": …, **parameters}``. n : number of the guard in its file, for unique names.
    has_hook : whether the file already defines the hook that the guard wraps.

    Returns
    -------
    (file name, source block)

    Raises
    ------
    UnknownGuard: no such kind, or a parameter is missing.
    """
    made = KINDS.get(str(guard.get("kind")))
    if made is None:
        raise UnknownGuard(f"guard kind {guard.get('kind')!r}; choose one of {', '.join(KINDS)}")
    file, hook, default, write = made
    check_parameters(guard)
    try:
        body = write({k: v for k, v in guard.items() if v is not None}, n)
    except KeyError as missing:
        raise UnknownGuard(f"guard {guard['kind']} lacks {missing}") from missing
    head = f"# guard: {json.dumps(guard, sort_keys=True)}\n"
    before = f"_{hook}_{n} = {hook}\n" if has_hook else default.format(n=n)
    return file, f"{head}{before}\n\n{body}"


def hook_of(guard: Guard) -> tuple[str, str]:
    """(file, hook name) that a guard goes into; ``("", "")`` for an unknown kind."""
    made = KINDS.get(str(guard.get("kind")))
    return (made[0], made[1]) if made else ("", "")


def _transform(guard: Guard, n: int) -> str:
    steps, shape = guard["transform"], guard.get("shape", ".*")
    if steps == ["list"]:
        body = 'return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value'
    elif steps == ["integer"]:
        body = (
            'return int(value) if isinstance(value, str) and re.fullmatch(r"\\s*\\d+\\s*", value) else value'
        )
    elif steps == ["enum"]:
        values = {re.sub(r"[^a-z0-9]+", " ", v.lower()).strip(): v for v in guard["values"]}
        body = f'return {values!r}.get(re.sub(r"[^a-z0-9]+", " ", str(value).lower()).strip(), value)'
    else:
        lines = ["if not isinstance(value, str):", "    return value", "text = value", *map(_step, steps)]
        body = "\n    ".join([*lines, f"return text if re.fullmatch({shape!r}, text) else value"])
    return f"def _canonical_{n}(value):\n    {body}\n"


def _step(name: str) -> str:
    kind, _, what = name.partition(":")
    if kind == "prefix":
        return f"text = text if text.startswith({what!r}) else {what!r} + text"
    if kind == "unprefix":
        return f"text = text.removeprefix({what!r})"
    if name not in STEPS:
        raise UnknownGuard(
            f"transform {name!r}; choose from {', '.join(STEPS)}, prefix:X, unprefix:X, list, integer, enum"
        )
    return STEPS[name]


def _canonical_argument(guard: Guard, n: int) -> str:
    outer, _, inner = guard["argument"].partition("[].")
    if inner:
        put = (
            f"rows = call.arguments.get({outer!r})\n"
            f"    if not isinstance(rows, list):\n        return call.arguments\n"
            f"    rows = [{{**r, {inner!r}: _canonical_{n}(r[{inner!r}])}} "
            f"if isinstance(r, dict) and {inner!r} in r else r for r in rows]\n"
            f"    return {{**call.arguments, {outer!r}: rows}}"
        )
    else:
        put = (
            f"if {outer!r} not in call.arguments:\n        return call.arguments\n"
            f"    return {{**call.arguments, {outer!r}: _canonical_{n}(call.arguments[{outer!r}])}}"
        )
    rule = "canonical_" + re.sub(r"[^a-z0-9]+", "_", guard["argument"].lower())
    only = f"call.name == {guard['tool']!r}" if guard.get("tool") else "True"
    return f"""{_transform(guard, n)}

def _arguments_{n}(call):
    {put}


def check(call, view):
    \"\"\"`{guard["argument"]}` in canonical form before any other rule looks at it.\"\"\"
    arguments = _arguments_{n}(call) if {only} else call.arguments
    if arguments == call.arguments:
        return _check_{n}(call, view)
    verdict = _check_{n}(Call(call.name, arguments, call.id), view)
    return Rewrite(arguments=arguments, rule="{rule}") if isinstance(verdict, Allow) else verdict
"""


def _argument_names(guard: Guard, n: int) -> str:
    names = {str(k): v for k, v in sorted(guard["names"].items())}
    return f"""def _arguments_{n}(call):
    names = {names!r}
    known = next((t["parameters"].get("properties", {{}}) for t in _tools_{n} if t["name"] == call.name), {{}})
    out = {{}}
    for name, value in call.arguments.items():
        right = names[name] if name in names and name not in known else name
        if right is not None and (right == name or right in known):
            out[right] = value
    return out


_tools_{n} = []


def check(call, view):
    \"\"\"Arguments under the names that the schema gives them.\"\"\"
    _tools_{n}[:] = view.tools
    arguments = _arguments_{n}(call)
    if arguments == call.arguments:
        return _check_{n}(call, view)
    verdict = _check_{n}(Call(call.name, arguments, call.id), view)
    return Rewrite(arguments=arguments, rule="argument_names") if isinstance(verdict, Allow) else verdict
"""


def _known_tools(guard: Guard, n: int) -> str:
    return f"""def check(call, view):
    \"\"\"Only tools that exist.\"\"\"
    names = [tool["name"] for tool in view.tools]
    if call.name not in names:
        return Refuse(
            f"There is no tool {{call.name}}.",
            "Use one of the tools that exist: " + ", ".join(names) + ".",
            rule="known_tools",
        )
    return _check_{n}(call, view)
"""


def _contract_hint(guard: Guard, n: int) -> str:
    return f"""def describe(tool):
    \"\"\"Says in the schema of {guard["tool"]} what it leaves out.\"\"\"
    tool = _describe_{n}(tool)
    if tool["name"] != {guard["tool"]!r}:
        return tool
    return {{**tool, "description": tool["description"] + "\\n\\n" + {guard["text"]!r}}}
"""


def _procedure(guard: Guard, n: int) -> str:
    when = guard.get("when") or ""
    condition = f"re.search({when!r}, opening, re.I)" if when else "True"
    return f"""def brief(opening, policy):
    \"\"\"One more short procedure.\"\"\"
    text = _brief_{n}(opening, policy)
    return (text + "\\n\\n" + {guard["text"]!r}).strip() if {condition} else text
"""


def _confirm(guard: Guard, n: int) -> str:
    return f"""def check(call, view):
    \"\"\"No write before the user's yes.\"\"\"
    if call.name in {sorted(guard["tools"])!r} and not re.search({YES!r}, view.last_user(), re.I):
        return Refuse(
            "The policy asks for the user's explicit yes before any change.",
            "List the details of the action, ask for a yes, and make this call after it.",
            rule="confirm_before_write",
        )
    return _check_{n}(call, view)
"""


def _read_first(guard: Guard, n: int) -> str:
    return f"""def check(call, view):
    \"\"\"The record is read before it is changed.\"\"\"
    read = any(d.call.name == {guard["read"]!r} and not d.error for d in view.done)
    if call.name == {guard["tool"]!r} and not read:
        return Refuse(
            "The record has not been read in this conversation.",
            "Call {guard["read"]} first, then decide.",
            rule="read_before_write",
        )
    return _check_{n}(call, view)
"""


def _repeat_breaker(guard: Guard, n: int) -> str:
    return f"""def observe(call, result, view):
    \"\"\"Tells the model when it repeats itself.\"\"\"
    note = _observe_{n}(call, result, view)
    same = 0
    for done in reversed(view.done):
        if done.call.name != call.name or done.call.arguments != call.arguments:
            break
        same += 1
    if note is None and same >= {int(guard["limit"])}:
        return (
            f"This is call number {{same}} in a row with the same arguments and the same result. "
            "Use the result that you have and take the next step."
        )
    return note
"""


def _unfinished(guard: Guard, n: int) -> str:
    return f"""def on_reply(text, view):
    \"\"\"Stops a claim of work that was agreed but not done.\"\"\"
    agreed = sum(m["role"] == "user" and bool(re.search({YES!r}, m["content"], re.I)) for m in view.messages)
    written = sum(d.call.name in {sorted(guard["tools"])!r} and not d.error for d in view.done)
    if re.search({CLAIM!r}, text, re.I) and re.search({YES!r}, view.last_user(), re.I) and agreed > written:
        return Refuse(
            "The user agreed to a change and no call has made it.",
            "Make the agreed call now, then tell the user.",
            rule="unfinished_work",
        )
    return _on_reply_{n}(text, view)
"""


_ALLOW_CALL = "def _check_{n}(call, view):\n    return Allow()\n"
_ALLOW_REPLY = "def _on_reply_{n}(text, view):\n    return Allow()\n"
_NO_NOTE = "def _observe_{n}(call, result, view):\n    return None\n"
_SAME_TOOL = "def _describe_{n}(tool):\n    return tool\n"
_NO_BRIEF = 'def _brief_{n}(opening, policy):\n    return ""\n'

KINDS: dict[str, tuple[str, str, str, Callable[[Guard, int], str]]] = {
    "canonical_argument": ("actions.py", "check", _ALLOW_CALL, _canonical_argument),
    "argument_names": ("actions.py", "check", _ALLOW_CALL, _argument_names),
    "known_tools": ("actions.py", "check", _ALLOW_CALL, _known_tools),
    "confirm_before_write": ("actions.py", "check", _ALLOW_CALL, _confirm),
    "read_before_write": ("actions.py", "check", _ALLOW_CALL, _read_first),
    "contract_hint": ("contract.py", "describe", _SAME_TOOL, _contract_hint),
    "procedure": ("skills.py", "brief", _NO_BRIEF, _procedure),
    "repeat_breaker": ("regulation.py", "observe", _NO_NOTE, _repeat_breaker),
    "unfinished_work": ("regulation.py", "on_reply", _ALLOW_REPLY, _unfinished),
}
