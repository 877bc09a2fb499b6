"""A harness as a folder of source, and the static policy."""

from pathlib import Path

import pytest

from ecdysis_lab.harness import (
    Harness,
    copy_harness,
    diff_harness,
    identity,
    load_harness,
    sound_harness,
    static_problems,
    switch_harness,
)
from ecdysis_lab.records import LabError

CHECK = "from ecdysis_lab.hooks import Allow\n\ndef check(call, view):\n    return Allow()\n"


def write(folder: Path, **files: str) -> Harness:
    """A harness folder; ``actions="..."`` becomes actions.py, ``toml`` harness.toml."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / ("harness.toml" if name == "toml" else f"{name}.py")).write_text(text)
    return load_harness(folder)


def problems(tmp_path: Path, source: str) -> list[str]:
    """Problems of a regulation.py with this source, as text."""
    return [str(p) for p in static_problems(write(tmp_path, regulation=source))]


def test_load_reads_the_hook_files_only(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("words")
    (tmp_path / "__pycache__").mkdir()
    harness = write(tmp_path, actions=CHECK)
    assert harness.files == {"actions.py": CHECK}
    assert not harness.empty
    assert harness.defines("check") and not harness.defines("describe")
    assert harness.tokens() == len(CHECK) // 4
    assert static_problems(harness) == []


def test_identity_ignores_what_is_never_loaded_and_sees_every_byte_that_is(tmp_path: Path) -> None:
    before = write(tmp_path, actions=CHECK).hash
    (tmp_path / "README.md").write_text("words")
    assert load_harness(tmp_path).hash == before
    assert write(tmp_path, actions=CHECK + "\n").hash != before


def test_identity_keeps_names_and_contents_apart() -> None:
    assert identity({"a": b"bc"}) != identity({"ab": b"c"})
    assert identity({"a": b"1", "b": b"2"}) == identity({"b": b"2", "a": b"1"})


def test_the_shipped_empty_harness_is_empty_and_unknown_names_list_the_choices() -> None:
    empty = load_harness("empty")
    assert empty.empty and empty.tokens() == 0 and static_problems(empty) == []
    with pytest.raises(LabError, match=r"'airlines' is neither a folder nor one of: .*empty"):
        load_harness("airlines")


def test_switches_turn_layers_and_rules_off(tmp_path: Path) -> None:
    toml = "[layers]\nactions = false\n[rules]\nbags = false\nids = true\n"
    harness = write(tmp_path, actions=CHECK, toml=toml)
    assert harness.empty and not harness.defines("check")
    assert harness.disabled == ("bags",)
    again = switch_harness(harness, tmp_path / "on", layers={"actions": True}, rules={"ids": False})
    assert load_harness(tmp_path / "on") == again
    assert again.defines("check") and again.disabled == ("bags", "ids")
    assert again.hash != harness.hash
    with pytest.raises(LabError, match="'action' is not one of: contract, skills, actions, regulation"):
        switch_harness(harness, tmp_path / "x", layers={"action": False})


@pytest.mark.parametrize(
    ("toml", "what"),
    [
        ("[layers", "not valid TOML"),
        ("[layers]\nacts = false", "'acts' is not one of"),
        ("[rules]\nbags = 0", "rules.bags must be true or false, not 0"),
        ("rules = 3", "rules must be a table"),
        ("[rule]\nbags = false", "unknown entry 'rule'; choices: [layers], [rules]"),
    ],
)
def test_a_wrong_switch_file_is_a_static_problem_and_switches_nothing_off(
    tmp_path: Path, toml: str, what: str
) -> None:
    harness = write(tmp_path, actions=CHECK, toml=toml)
    assert harness.defines("check") and harness.disabled == ()
    assert any(what in str(p) for p in static_problems(harness))


def test_copy_takes_the_harness_and_leaves_strays(tmp_path: Path) -> None:
    source = write(tmp_path / "a", actions=CHECK)
    (tmp_path / "a" / "helper.py").write_text("x = 1")
    copied = copy_harness(source, tmp_path / "b")
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == ["actions.py"]
    assert copied.hash == source.hash
    with pytest.raises(LabError, match="is not an empty folder"):
        copy_harness(source, tmp_path / "b")


def test_diff_is_unified_over_all_files(tmp_path: Path) -> None:
    a = write(tmp_path / "a", actions=CHECK)
    b = write(tmp_path / "b", actions=CHECK.replace("Allow()", "Allow('x')"), skills="X = 1\n")
    assert diff_harness(a, a) == ""
    lines = diff_harness(a, b).splitlines()
    assert lines[:3] == ["--- /dev/null", "+++ b/skills.py", "@@ -0,0 +1 @@"]
    assert "-    return Allow()" in lines and "+    return Allow('x')" in lines


def test_strays_and_links_are_problems_and_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("gold")
    harness = write(tmp_path / "h", skills="")
    (harness.path / "actions.py").symlink_to(secret)
    (harness.path / "helper.py").write_text("x = 1")
    harness = load_harness(harness.path)
    assert "actions.py" not in harness.files
    found = [str(p) for p in static_problems(harness)]
    assert found[0].startswith("actions.py:0: must be a plain file")
    assert found[1].startswith("helper.py:0: is never loaded")


ORDINARY = '''
"""Rules with the word __init__ in a docstring."""
from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from ecdysis_lab import hooks as authoring
from ecdysis_lab import hooks
from ecdysis_lab.hooks import Rules, anycase
from ecdysis_lab.hooks import Allow, Refuse, enabled

rules = Rules()
YES = anycase("yes")
TEMPLATE = "Order {order} is {status}."
ID = re.compile(r"^#W\\d{7}$")


@dataclass
class Rule:
    name: str
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.id = self.name


def _age(day: str) -> int:
    return (dt.date(2024, 5, 15) - dt.date.fromisoformat(day)).days


def observe(call, result, view):
    id = call.arguments.get("order_id", "")
    data = json.loads(result)
    match data:
        case {"status": str(status)}:
            return TEMPLATE.format(order=id, status=status)
        case int() | [str(), *_]:
            return ", ".join(f"{id}" for id in data) + str(type(data))
    if isinstance(getattr(call, "name", None), str) and ID.match(id):
        return "{} of {}".format(id, Counter(m["role"] for m in view.messages))
    return None


def on_reply(text, view):
    try:
        return hooks.Refuse("r", "o", "x") if enabled("x") and authoring.YES.search(text) else Allow()
    except (ValueError, KeyError) as error:
        return Refuse(str(error), "o")
'''


def test_ordinary_rules_pass(tmp_path: Path) -> None:
    assert problems(tmp_path, ORDINARY) == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import os", "import of 'os'"),
        ("import collections.abc, sys", "import of 'sys'"),
        ("from os import path", "import from 'os'"),
        ("from . import actions", "import from '.'"),
        ("from ecdysis_lab import store", "import from 'ecdysis_lab'"),
        ("from json import *", "import of '*' from json"),
        ("from json import decoder", "json.decoder is another module"),
        ("from typing import get_type_hints", "typing.get_type_hints is not available"),
        ("from ecdysis_lab.hooks import _DISABLED", "import of '_DISABLED'"),
        ("from ecdysis_lab.hooks import _iso", "import of '_iso'"),
        ("from ecdysis_lab.hooks import talk", "ecdysis_lab.hooks.talk is another module"),
        ("from ecdysis_lab.hooks.talk import said", "import from 'ecdysis_lab.hooks.talk'"),
        ("import ecdysis_lab.hooks.talk", "import of 'ecdysis_lab.hooks.talk'"),
        (
            "from ecdysis_lab import hooks\nx = hooks.talk",
            "ecdysis_lab.hooks.talk is another module",
        ),
        ("from ecdysis_lab import hooks\nx = hooks", "module 'hooks' used as a value"),
        ("from ecdysis_lab.hooks import Rules\nRules.check = None", "change of Rules.check"),
        ("import statistics\nx = statistics.random.random()", "statistics.random is another module"),
        ("import re\nm = re", "module 're' used as a value"),
        ("import re\nre.compile = None", "change of re.compile"),
        ("from ecdysis_lab import hooks\nhooks.Allow = 1", "change of hooks.Allow"),
        ("x = ().__class__", "private attribute '__class__'"),
        ("def f(view):\n    return view._read", "private attribute '_read'"),
        ("x = open('f')", "use of 'open'"),
        ("def check(call, view):\n    return Allow()", "'Allow' is defined nowhere"),
        ("def f(x):\n    if x:\n        return [helper(y) for y in x]", "'helper' is defined nowhere"),
        ("f = eval", "use of 'eval'"),
        ("x = __import__('os')", "use of '__import__'"),
        ("x = __builtins__", "use of '__builtins__'"),
        ("x = vars()", "use of 'vars'"),
        ("x = getattr(1, '__class__')", "getattr without a public constant"),
        ("n = 'real'\nx = getattr(1, n)", "getattr without a public constant"),
        ("g = getattr", "getattr without a public constant"),
        ("setattr(1, 'a', 2)", "use of 'setattr'"),
        ("x = '{0.__class__}'.format(1)", "a string that names a private attribute"),
        ("x = '{0._secret}'.format(1)", "a string that names a private attribute"),
        ("x = ('{0._' + 'x}').format(1)", "format() on a computed string"),
        ("def f(t):\n    return t.format(1)", "format() on a computed string"),
        ("x = '{a}'.format_map({})", "access to 'format_map'"),
        ("import string\nx = string.Formatter()", "access to 'Formatter'"),
        ("def f():\n    yield\nx = f().gi_frame", "access to 'gi_frame'"),
        ("match 1:\n    case object(__class__=c):\n        pass", "match on the class object"),
        ("match 1:\n    case int(real=r):\n        pass", "match on attributes of int"),
        ("str = object\nmatch 1:\n    case str(x):\n        pass", "match on the class str"),
        (
            "import datetime\nmatch datetime.datetime:\n    case datetime.date(now=n):\n        pass",
            "match on the class datetime.date",
        ),
        (
            "class A:\n    x: int\ndef f(a):\n    match a:\n        case A(x):\n            pass",
            "match on the class A",
        ),
        ("T = type('T', (), {})", "type other than type(x)"),
        ("T = type(*('T', (), {}))", "type other than type(x)"),
        ("t = type", "type other than type(x)"),
        ("class M(type):\n    pass", "type other than type(x)"),
        ("T = type(str)('T', (), {})", "a call of type(x)"),
        ("def m(*a):\n    return 1\nclass T(metaclass=m):\n    pass", "class T with keywords"),
        ("x = hash(object())", "use of 'hash'"),
        ("h = hash", "use of 'hash'"),
        ("class A:\n    def f(self):\n        return hash(self)", "use of 'hash'"),
        ("x = id(3)\nid = 1", "use of 'id'"),
        ("def g(id):\n    return id\ndef f(x):\n    return id(x)", "use of 'id'"),
        ("def f(x):\n    global id\n    y = id(x)\n    id = 1", "use of 'id'"),
        ("class A:\n    id = id", "use of 'id'"),
        ("x = [dir(n) for n in (1, 2)]\ndef f(dir):\n    return dir", "use of 'dir'"),
        ("f = lambda x: input(x)\ninput = 3", "use of 'input'"),
        ("T = 'x'\ndef f(T):\n    return T.format(1)", "format() on a computed string"),
        ("import json\ndef f(json):\n    return json.format(1)", "format() on a computed string"),
        ("import datetime\nx = datetime.datetime.now()", "there is no clock here"),
        ("async def f():\n    pass", "async code"),
        ("class A:\n    def __reduce__(self):\n        return 1", "definition of '__reduce__'"),
        ("def check(call, view):\n    return None", "check is a hook of actions.py; it never runs here"),
        (
            "if True:\n    def observe(call, result, view):\n        return None",
            "observe stands inside a block",
        ),
        ("def observe(call, result):\n    return None", "observe takes 3 positional argument(s)"),
        ("def observe(:", "syntax error"),
        ("x = '\0'", "not plain UTF-8 text"),
        ("x = " + "-" * 100_000 + "1", "cannot be parsed: MemoryError"),
        ("a" + ".b" * 50_000, "cannot be parsed: RecursionError"),
        ("#" * 300_000, "longer than 262144 characters"),
    ],
)
def test_static_policy_names_the_breach(tmp_path: Path, source: str, what: str) -> None:
    found = problems(tmp_path, source)
    assert any(what in problem for problem in found), found


def test_problems_carry_file_and_line(tmp_path: Path) -> None:
    found = static_problems(write(tmp_path, actions=CHECK + "\nx = 1\ny = open('f')\n"))
    assert [(p.file, p.line) for p in found] == [("actions.py", 7)]


def test_a_folder_of_other_things_is_no_harness(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(LabError, match=r"holds none of .*actions.py.*, but notes.txt"):
        load_harness(tmp_path)


def test_a_harness_that_would_never_run_is_refused_before_it_is_used(tmp_path: Path) -> None:
    write(tmp_path, actions="import os\n" + CHECK)
    with pytest.raises(LabError, match=r"actions.py:1: import of 'os'"):
        sound_harness(tmp_path)
    assert sound_harness("airline").files
