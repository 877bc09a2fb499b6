"""Guard templates of the ``rules`` editor: from ``{"kind": …}`` to a registered rule (``ecdysis_lab.hooks.Rules``)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from ecdysis_lab.review.editors.parameters import Guard, UnknownGuard, check_parameters

STEPS = {
    "strip": "text.strip()",
    "upper": "text.upper()",
    "lower": "text.lower()",
    "iso_date": "iso_date(text) or text",
    "snake": "snake_case(text)",
    "zip5": 'text.partition("-")[0]',
    "plain_expression": "plain_expression(text)",
}
WIDTH = 88  # of a line in a long text


@dataclass(frozen=True)
class Template:
    """A kind of guard: its file, the hook that runs it, the name of its rule, and what writes the code.

    ``write`` takes the guard, the name of the register, and that of the rule.
    """

    file: str
    hook: str
    name: Callable[[Guard], str]
    write: Callable[[Guard, str, str], str]


def template(guard: Guard) -> Template:
    """The template of a guard.

    Raises
    ------
    UnknownGuard: there is none of that kind, or a parameter is missing or of a wrong form.
    """
    found = KINDS.get(str(guard.get("kind")))
    if found is None:
        raise UnknownGuard(f"guard kind {guard.get('kind')!r}; choose one of {', '.join(KINDS)}")
    check_parameters(guard)
    code(guard, "rules", "rule")
    return found


def code(guard: Guard, rules: str, name: str) -> str:
    """The rule as source, under the comment that shows the guard.

    Parameters
    ----------
    guard : a guard that :func:`template` knows. rules : name of the register. name : of the rule.
    """
    try:
        made = KINDS[guard["kind"]].write({k: v for k, v in guard.items() if v is not None}, rules, name)
    except KeyError as missing:
        raise UnknownGuard(f"guard {guard['kind']} lacks {missing}") from missing
    return f"{mark(guard)}\n{made}"


def mark(guard: Guard) -> str:
    """The comment by which a guard is known again."""
    return f"# guard: {json.dumps(guard, sort_keys=True)}"


def quoted(text: str) -> str:
    """A text as a literal, in double quotes where it has none."""
    found = repr(text)
    return f'"{found[1:-1]}"' if found[0] == "'" and '"' not in text else found


def _pattern(text: str) -> str:
    raw = text.isprintable() and not re.search(r'"|\\$', text)
    return f'r"{text}"' if raw else quoted(text)


def _call(function: str, *arguments: str, text: str, last: tuple[str, ...] = ()) -> str:
    """A statement; a long text stands on lines of its own."""
    line = f"{function}({', '.join((*arguments, quoted(text), *last))})\n"
    if len(line) <= WIDTH + 12:
        return line
    parts = re.findall(rf"(?s).{{1,{WIDTH}}}(?:\s|\Z)|.{{1,{WIDTH}}}", text)
    rows = [
        *(f"{a}," for a in arguments),
        *map(quoted, parts[:-1]),
        f"{quoted(parts[-1])},",
        *(f"{a}," for a in last),
    ]
    return "\n".join([f"{function}(", *(f"    {row}" for row in rows), ")", ""])


def _canonical_argument(guard: Guard, rules: str, name: str) -> str:
    steps, arguments = guard["transform"], [quoted(name), quoted(guard["argument"])]
    arguments += [f'tools=["{guard["tool"]}"]'] if guard.get("tool") else []
    if steps == ["list"]:
        body = ['return [part.strip() for part in text.split(",") if part.strip()]']
    elif steps == ["integer"]:
        body = ["return whole_number(text)"]
    elif steps == ["enum"]:
        values = ", ".join(map(quoted, guard["values"]))
        body = [
            f"values = [{values}]",
            "return next((v for v in values if plain_words(v) == plain_words(text)), None)",
        ]
    else:
        body = [*(f"text = {_step(step)}" for step in steps[:-1]), f"return {_step(steps[-1])}"]
        arguments += [f"shape={_pattern(guard['shape'])}"] if guard.get("shape") else []
    lines = [
        f"@{rules}.form({', '.join(arguments)})",
        f"def {name}(text):",
        f'    """`{guard["argument"]}` in its canonical form."""',
        *(f"    {line}" for line in body),
    ]
    return "\n".join(lines) + "\n"


def _step(name: str) -> str:
    kind, _, what = name.partition(":")
    if kind == "prefix":
        return f"text if text.startswith({quoted(what)}) else {quoted(what)} + text"
    if kind == "unprefix":
        return f"text.removeprefix({quoted(what)})"
    if name not in STEPS:
        raise UnknownGuard(
            f"transform {name!r}; choose from {', '.join(STEPS)}, prefix:X, unprefix:X, list, integer, enum"
        )
    return STEPS[name]


def _argument_names(guard: Guard, rules: str, name: str) -> str:
    names = ", ".join(f'"{k}": {quoted(v) if v else None}' for k, v in sorted(guard["names"].items()))
    return f'{rules}.names("{name}", {{{names}}})\n'


def _known_tools(guard: Guard, rules: str, name: str) -> str:
    return f'''@{rules}.line("{name}", "only the tools that are listed exist")
def {name}(call, view):
    """Only tools that exist."""
    names = [tool["name"] for tool in view.tools]
    return None if call.name in names else f"Use one of {{', '.join(names)}}."
'''


def _confirm(guard: Guard, rules: str, name: str) -> str:
    tools = "".join(f',\n    "{tool}"' for tool in sorted(guard["tools"]))
    return f'''@{rules}.line(
    "{name}",
    "the user's explicit yes comes before any change"{tools},
)
def {name}(call, view):
    """No change before the user's yes."""
    return None if agrees(view.last_user()) else ask_first(call)
'''


def _read_first(guard: Guard, rules: str, name: str) -> str:
    return f'''@{rules}.line("{name}", "the record is read before it is changed", "{guard["tool"]}")
def {name}(call, view):
    """The record is read before it is changed."""
    read = any(done.call.name == "{guard["read"]}" and not done.error for done in view.done)
    return None if read else "Call {guard["read"]} first, then decide."
'''


def _contract_hint(guard: Guard, rules: str, name: str) -> str:
    return _call(f"{rules}.hint", quoted(name), quoted(guard["tool"]), text=guard["text"])


def _procedure(guard: Guard, rules: str, name: str) -> str:
    when = (f"anycase({_pattern(guard['when'])})",) if guard.get("when") else ()
    return _call(f"{rules}.procedure", quoted(name), text=guard["text"], last=when)


def _repeat_breaker(guard: Guard, rules: str, name: str) -> str:
    return f'''@{rules}.note("{name}")
def {name}(call, result, view):
    """Tells the model when it repeats itself."""
    return repeated_call(call, view, {guard["limit"]})
'''


def _unfinished(guard: Guard, rules: str, name: str) -> str:
    return f'''@{rules}.reply("{name}")
def {name}(text, view):
    """Stops a claim of work that was agreed but not done."""
    return agreed_not_done(text, view, [{", ".join(map(quoted, sorted(guard["tools"])))}])
'''


def _kind(guard: Guard) -> str:
    return str(guard["kind"])


def _of_argument(guard: Guard) -> str:
    return "canonical_" + re.sub(r"[^a-z0-9]+", "_", guard["argument"].lower())


KINDS: dict[str, Template] = {
    "canonical_argument": Template("actions.py", "check", _of_argument, _canonical_argument),
    "argument_names": Template("actions.py", "check", _kind, _argument_names),
    "known_tools": Template("actions.py", "check", _kind, _known_tools),
    "confirm_before_write": Template("actions.py", "check", _kind, _confirm),
    "read_before_write": Template("actions.py", "check", _kind, _read_first),
    "contract_hint": Template("contract.py", "describe", _kind, _contract_hint),
    "procedure": Template("skills.py", "brief", _kind, _procedure),
    "repeat_breaker": Template("regulation.py", "observe", _kind, _repeat_breaker),
    "unfinished_work": Template("regulation.py", "on_reply", _kind, _unfinished),
}
