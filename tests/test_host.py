"""The host: hooks out of process, their view of a trial, validation, and the life of workers."""

import json
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ecdysis_lab.harness import SHIPPED, Harness, load_harness
from ecdysis_lab.harness.host import HarnessFault, Host, HostError, HostLimits, sandbox_report
from ecdysis_lab.harness.sandbox import client, ready, spares
from ecdysis_lab.hooks import Allow, Call, Done, Refuse, Rewrite

TOOLS: list[dict[str, Any]] = [
    {
        "name": "get_order",
        "description": "Order by id.",
        "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}},
        "kind": "read",
    },
    {
        "name": "cancel_order",
        "description": "Cancel.",
        "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}},
        "kind": "write",
    },
]
HEAD = "from ecdysis_lab.hooks import Allow, Refuse, Rewrite, enabled\n"

Make = Callable[..., Host]


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """A host of a harness given as ``file="source"``, closed at the end."""
    opened: list[Host] = []

    def build(read: Any = None, limits: HostLimits | None = None, **files: str) -> Host:
        folder = tmp_path / str(len(opened))
        folder.mkdir()
        for name, source in files.items():
            (folder / ("harness.toml" if name == "toml" else f"{name}.py")).write_text(source)
        opened.append(Host(load_harness(folder), "Be kind.", TOOLS, read, limits or HostLimits()))
        return opened[-1]

    yield build
    for host in opened:
        host.close()


def check(body: str) -> str:
    """An actions.py whose check has this body."""
    return HEAD + "def check(call, view):\n" + "".join(f"    {line}\n" for line in body.splitlines())


def fault_of(act: Callable[[], Any]) -> HarnessFault:
    """The fault that ``act`` raises."""
    with pytest.raises(HarnessFault) as caught:
        act()
    return caught.value


CALL = Call("cancel_order", {"order_id": "#W1"}, "c1")


def test_each_hook_runs_and_answers(make: Make) -> None:
    host = make(
        contract="def describe(tool):\n    return {**tool, 'description': tool['description'] + ' #W1.'}\n",
        skills="def brief(opening, policy):\n    return f'{policy} {opening}'\n",
        actions=check(
            "return Rewrite(arguments={'order_id': call.arguments['order_id'].upper()}, rule='form')"
        ),
        regulation=HEAD
        + "def observe(call, result, view):\n"
        + "    return f'{call.id} {result} {view.steps_left}' if result else None\n"
        + "def on_reply(text, view):\n"
        + "    return Refuse('Nothing was cancelled.', 'Call cancel_order.', 'claim')\n",
    )
    assert host.describe(TOOLS[0]) == {**TOOLS[0], "description": "Order by id. #W1."}
    assert host.brief("Hi!") == "Be kind. Hi!"
    assert host.check(Call("cancel_order", {"order_id": "#w1"}), 9) == Rewrite(
        {"order_id": "#W1"}, None, "form"
    )
    assert host.observe(CALL, "ok", False, 7) == "c1 ok 7"
    assert host.observe(CALL, "", False, 7) is None
    assert host.on_reply("Done.", 7) == Refuse("Nothing was cancelled.", "Call cancel_order.", "claim")


def test_the_view_holds_what_was_added_before_the_call(make: Make) -> None:
    shown = "[view.messages, [[d.call.name, d.call.arguments, d.result, d.error] for d in view.done], "
    shown += "view.policy, [t['name'] for t in view.tools], view.kind('get_order'), view.kind('x'), "
    shown += "view.last_user()]"
    host = make(actions="import json\n" + check(f"return Refuse(json.dumps({shown}), 'x')"))
    host.add_message("user", "Cancel #W1, größer")
    host.check(CALL, 5)
    host.add_message("assistant", "Sure.")
    host.add_done(Done(CALL, "Error: no", True))
    verdict = host.check(CALL, 4)
    assert isinstance(verdict, Refuse)
    messages, done, policy, names, read, other, last = json.loads(verdict.reason)
    assert messages == [
        {"role": "user", "content": "Cancel #W1, größer"},
        {"role": "assistant", "content": "Sure."},
    ]
    assert done == [["cancel_order", {"order_id": "#W1"}, "Error: no", True]]
    assert (policy, names, read, other) == ("Be kind.", ["get_order", "cancel_order"], "read", "other")
    assert last == "Cancel #W1, größer"


def test_changing_the_view_changes_nothing_outside_the_hook(make: Make) -> None:
    spoil = """
view.messages[0]['content'] = 'spoilt'
view.messages.clear()
view.done[0].call.arguments['order_id'] = 'spoilt'
view.tools[0]['name'] = 'spoilt'
view.policy = 'spoilt'
call.arguments['order_id'] = 'spoilt'
return Allow()
"""
    body = "if call.id == 'spoil':\n" + "".join(f"    {line}\n" for line in spoil.strip().splitlines())
    body += "left = [view.messages, view.done[0].call.arguments, view.tools[0]['name'], view.policy]\n"
    body += "return Refuse(str(left), 'x')"
    host = make(actions=check(body))
    host.add_message("user", "Hi")
    host.add_done(Done(CALL, "ok"))
    mine = {"order_id": "#W1"}
    assert host.check(Call("cancel_order", mine, "spoil"), 5) == Allow()
    assert mine == {"order_id": "#W1"}
    verdict = host.check(CALL, 5)
    assert isinstance(verdict, Refuse)
    assert (
        verdict.reason
        == "[[{'role': 'user', 'content': 'Hi'}], {'order_id': '#W1'}, 'get_order', 'Be kind.']"
    )


def test_view_read_asks_the_live_environment_for_read_tools_only(make: Make) -> None:
    asked: list[Any] = []

    def read(tool: str, arguments: dict[str, Any]) -> Any:
        asked.append((tool, arguments))
        if arguments["order_id"] == "bad":
            raise KeyError("no such order")
        return {"status": "pending"}

    body = "tool = call.arguments.get('tool', 'get_order')\n"
    body += "return Refuse(str(view.read(tool, order_id=call.arguments['id'])), 'x')"
    host = make(read, actions=check(body))
    assert host.check(Call("c", {"id": "#W1"}), 5) == Refuse("{'status': 'pending'}", "x")
    assert host.check(Call("c", {"id": "bad"}), 5) == Refuse("None", "x")
    fault = fault_of(lambda: host.check(Call("c", {"id": "#W1", "tool": "cancel_order"}), 5))
    assert (fault.kind, fault.file, fault.line) == ("denied", "actions.py", 4)
    assert "'cancel_order' is write" in fault.message
    assert asked == [("get_order", {"order_id": "#W1"}), ("get_order", {"order_id": "bad"})]


def test_view_read_without_an_environment_is_an_error(make: Make) -> None:
    fault = fault_of(
        lambda: make(actions=check("return view.read('get_order', order_id='1')")).check(CALL, 5)
    )
    assert (fault.kind, fault.message) == ("error", "RuntimeError: no live environment to read from")


def test_time_inside_read_does_not_count(make: Make) -> None:
    def read(_tool: str, _arguments: dict[str, Any]) -> str:
        time.sleep(0.5)
        return "slow"

    host = make(
        read, HostLimits(wall_seconds=0.3), actions=check("return Refuse(view.read('get_order'), 'x')")
    )
    assert host.check(CALL, 5) == Refuse("slow", "x")


def test_reads_per_hook_are_bounded(make: Make) -> None:
    host = make(
        lambda _t, _a: 1,
        HostLimits(reads=20),
        actions=check(
            "for i in range(call.arguments['n']):\n    view.read('get_order', id=[call.arguments['n'], i])\nreturn Allow()"
        ),
    )
    assert host.check(Call("c", {"n": 20}), 5) == Allow()
    assert fault_of(lambda: host.check(Call("c", {"n": 21}), 5)).kind == "reads"


def test_state_lives_for_one_trial(make: Make, tmp_path: Path) -> None:
    source = (
        HEAD
        + "seen = []\ndef check(call, view):\n    seen.append(1)\n    return Refuse(str(len(seen)), 'x')\n"
    )
    host = make(actions=source)
    assert [host.check(CALL, 1) for _ in range(2)] == [Refuse("1", "x"), Refuse("2", "x")]
    with Host(host.harness, "", TOOLS) as second:
        assert second.check(CALL, 1) == Refuse("1", "x")


def test_an_empty_harness_starts_no_process(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_server() -> None:
        raise AssertionError("no process is needed")

    monkeypatch.setattr(client, "current", no_server)
    for host in (make(), make(actions=check("return 1"), toml="[layers]\nactions = false")):
        assert not any(host.has(hook) for hook in ("describe", "brief", "check", "observe", "on_reply"))
        assert host.describe(TOOLS[0]) == TOOLS[0]
        assert host.brief("Hi") == ""
        assert host.check(CALL, 5) == Allow() == host.on_reply("Hi", 5)
        assert host.observe(CALL, "ok", False, 5) is None


def test_rules_switched_off_reach_the_hooks(make: Make) -> None:
    host = make(
        actions=check("return Refuse(f\"{enabled('bags')} {enabled('ids')}\", 'x')"),
        toml="[rules]\nbags = false",
    )
    assert host.check(CALL, 5) == Refuse("False True", "x")


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("None", "check returned NoneType; return Allow(), Rewrite(...) or Refuse(...)"),
        ("'no'", "check returned str"),
        ("Refuse('', 'x')", "a refusal needs a reason and a valid option"),
        ("Refuse('x', ' ')", "a refusal needs a reason and a valid option"),
        ("Refuse(1, 'x')", "reason must be text, not int"),
        ("Refuse('r', 'o', None)", "rule must be text, not NoneType"),
        ("Rewrite()", "Rewrite of a call needs arguments="),
        ("Rewrite(text='x')", "Rewrite of a call needs arguments="),
        ("Rewrite(arguments={'a': view})", "not JSON"),
        ("Rewrite(arguments={'a': float('nan')})", "not JSON"),
        ("Rewrite(arguments={'a': 2 ** 80})", "plain JSON data"),
        ("Rewrite(arguments={'a': '\\ud800'})", "plain JSON data"),
        ("Rewrite(arguments={'a': " + "[" * 40 + "]" * 40 + "})", "plain JSON data"),
    ],
)
def test_verdicts_are_validated(make: Make, value: str, what: str) -> None:
    host = make(actions=check(f"return {value} if call.id else Allow()"))
    fault = fault_of(lambda: host.check(CALL, 5))
    assert fault.kind == "contract" and what in fault.message, fault
    assert host.check(Call("c", {}), 5) == Allow(), "a broken answer leaves the worker usable"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("None", "describe returned NoneType"),
        ("{**tool, 'name': 'other'}", "must not change the tool's name"),
        ("{**tool, 'kind': 'read'}", "must not change the tool's kind"),
        ("{**tool, 'description': 3}", "description must be text, not int"),
        ("{**tool, 'parameters': []}", "parameters must be a JSON schema object"),
        ("{**tool, 'parameters': {'properties': {}}}", "must not add or remove parameters"),
    ],
)
def test_described_tools_are_validated(make: Make, value: str, what: str) -> None:
    host = make(contract=f"def describe(tool):\n    return {value}\n")
    fault = fault_of(lambda: host.describe(TOOLS[1]))
    assert (fault.kind, fault.hook, fault.file) == (
        "contract",
        "describe",
        fault.file,
    ) and what in fault.message


def test_texts_are_validated(make: Make) -> None:
    host = make(
        skills="def brief(opening, policy):\n    return ['x']\n",
        regulation=HEAD + "def observe(call, result, view):\n    return '\\udfff'\n"
        "def on_reply(text, view):\n    return Rewrite(text=' ')\n",
    )
    assert fault_of(lambda: host.brief("Hi")).message == "brief returned list"
    assert "not valid Unicode" in fault_of(lambda: host.observe(CALL, "x", False, 1)).message
    assert "Rewrite of a reply needs text=" in fault_of(lambda: host.on_reply("Hi", 1)).message


def test_an_exception_names_hook_file_and_line_and_the_trial_goes_on(make: Make) -> None:
    source = (
        check("return Allow() if call.id else _helper(call)")
        + "def _helper(call):\n    return call.missing\n"
    )
    host = make(actions=source)
    fault = fault_of(lambda: host.check(Call("c", {}), 5))
    assert (fault.kind, fault.hook, fault.file, fault.line) == ("error", "check", "actions.py", 5)
    assert str(fault) == (
        "error fault in check at actions.py:5: AttributeError: 'Call' object has no attribute 'missing'"
    )
    assert host.has("check") and host.fault is None
    assert host.check(CALL, 5) == Allow()


def test_after_a_fatal_fault_every_hook_counts_as_absent(make: Make) -> None:
    host = make(
        limits=HostLimits(cpu_seconds=0.2),
        actions=check("while True:\n    pass"),
        skills="def brief(o, p):\n    return 'x'\n",
    )
    assert host.brief("Hi") == "x"
    fault = fault_of(lambda: host.check(CALL, 5))
    assert fault.kind == "cpu" and host.fault is fault
    assert not host.has("check") and not host.has("brief")
    assert host.check(CALL, 5) == Allow() and host.brief("Hi") == ""


@pytest.mark.parametrize(
    ("source", "kind", "line"),
    [
        ("import os\n", "static", 1),
        ("x = 1 / 0\n" + check("return Allow()"), "error", 1),
        (HEAD + "check = 3\n", "contract", 0),
    ],
)
def test_a_harness_that_does_not_load_is_a_fault_of_the_first_hook(
    make: Make, source: str, kind: str, line: int
) -> None:
    host = make(actions=source if "check" in source else source + check("return Allow()"))
    fault = fault_of(lambda: host.check(CALL, 5))
    assert (fault.kind, fault.line) == (kind, line)


def readme_examples() -> list[str]:
    """Python blocks of the page that harness authors read."""
    page = (SHIPPED / "README.md").read_text()
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def test_the_examples_for_authors_work(make: Make) -> None:
    form, guard, loop = readme_examples()
    host = make(actions=form)
    assert host.check(Call("x", {"order_id": " w1234567", "n": 1}), 9) == Rewrite(
        {"order_id": "#W1234567", "n": 1}, None, "order_id_form"
    )
    assert host.check(Call("x", {"order_id": "#W1234567"}), 9) == Allow()
    assert host.check(Call("x", {"order_id": ["#W1234567"]}), 9) == Allow()

    orders = {"1": {"status": "pending"}, "2": {"status": "delivered"}}
    host = make(lambda _tool, arguments: orders.get(arguments["order_id"]), actions=guard)
    verdict = host.check(Call("return_items", {"order_id": "1"}), 9)
    assert (
        isinstance(verdict, Refuse)
        and verdict.rule == "return_after_delivery"
        and "it is pending" in verdict.option
    )
    assert host.check(Call("return_items", {"order_id": "2"}), 9) == Allow()
    assert host.check(Call("return_items", {"order_id": "3"}), 9) == Allow(), (
        "unknown to us, so not ours to stop"
    )

    host = make(regulation=loop)
    notes = []
    for _ in range(3):
        host.add_done(Done(Call("get_order", {"order_id": "1"}), "pending"))
        notes.append(host.observe(Call("get_order", {"order_id": "1"}), "pending", False, 9))
    assert notes[:2] == [None, None] and notes[2] is not None and "3 times" in notes[2]
    claim = host.on_reply("Your order has been cancelled.", 9)
    assert isinstance(claim, Refuse) and claim.rule == "claim_needs_write"
    host.add_done(Done(CALL, "ok"))
    assert host.on_reply("Your order has been cancelled.", 9) == Allow()


def test_faults_survive_pickling() -> None:
    fault = HarnessFault("cpu", "check", "actions.py", 3, "too slow")
    assert (
        str(pickle.loads(pickle.dumps(fault))) == str(fault) == "cpu fault in check at actions.py:3: too slow"
    )


def test_close_ends_the_worker_and_the_server_stays(make: Make) -> None:
    host = make(actions=check("return Allow()"))
    host.check(CALL, 5)
    assert host._worker is not None
    pid, server = host._worker.pid, client.current().process.pid
    assert Path(f"/proc/{pid}").exists()
    host.close()
    spares.current().settle()
    assert not Path(f"/proc/{pid}").exists()
    assert client.current().process.pid == server


def test_a_spare_worker_is_ready_from_the_second_trial_on_and_serves_one_trial(make: Make) -> None:
    harness = make(
        actions=HEAD
        + "n = []\ndef check(call, view):\n    n.append(1)\n    return Refuse(str(len(n)), 'x')\n"
    ).harness
    keeper = spares.current()
    pids = []
    for trial in range(4):
        spares_before = list(keeper._spares)
        with Host(harness, "", TOOLS) as host:
            assert host.check(CALL, 5) == Refuse("1", "x")
            assert host._worker is not None
            assert (host._worker in spares_before) == (trial >= 2)
            pids.append(host._worker.pid)
        keeper.settle()
    assert len(set(pids)) == 4
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    left = [worker.pid for worker in keeper._spares]
    other = make(actions=check("return Allow()")).harness
    with Host(other, "", TOOLS) as host:
        assert host.check(CALL, 5) == Allow()
    keeper.settle()
    assert keeper._spares == [], "spares are for the harness used last"
    assert len(left) == 2 and not any(Path(f"/proc/{pid}").exists() for pid in left)


READ = Call("get_order", {"order_id": "#W1"}, "c0")


@pytest.fixture
def counted(make: Make) -> tuple[Host, Callable[[str], None]]:
    """A host whose check tells twice what it reads; each read that reaches us is numbered."""
    asked: list[str] = []

    def read(tool: str, arguments: dict[str, Any]) -> Any:
        asked.append(tool)
        return {"n": [len(asked)]}

    source = "one, two = (view.read('get_order', order_id='#W1') for _ in 'ab')\none['n'].append(9)\n"
    host = make(read, actions=check(source + "return Refuse(str(one) + str(two), 'x')"))

    def tells(n: str) -> None:
        expected = Refuse(f"{{'n': [{n}, 9]}}{{'n': [{n}]}}", "x")
        assert host.check(CALL, 9) == expected, "each read gets its own copy"

    return host, tells


def test_a_read_is_asked_once_while_nothing_changes(counted: Any) -> None:
    host, tells = counted
    tells("1")
    host.add_done(Done(Call("get_order", {"order_id": "#W2"}), "{}"))
    host.add_message("assistant", "Done.")
    tells("1")
    host.add_message("user", "I did it myself.")
    tells("2")
    host.add_message("user", "And again.")
    tells("3")
    for name in ("cancel_order", "unknown_tool"):
        host.add_done(Done(Call(name, {}), "ok"))
        tells("4" if name == "cancel_order" else "5")


def test_what_the_model_has_just_read_is_not_read_again(counted: Any) -> None:
    host, tells = counted
    host.add_done(Done(READ, '{"n": [70]}'))
    tells("70")
    host.add_done(Done(CALL, "ok"))
    tells("1")
    host.add_done(Done(CALL, "ok"))
    host.add_done(Done(READ, '{"n": [80]}'))
    tells("80")
    host.add_done(Done(READ, '{"n": [90]}'))
    host.add_done(Done(CALL, "ok"))
    tells("2")
    host.add_done(Done(CALL, "ok"))
    host.add_done(Done(READ, "Error: no such order", error=True))
    tells("3")


def test_a_user_without_tools_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "actions.py").write_text(check("return Refuse(view.read('get_order'), 'x')"))
    answers = iter("ab")
    harness = load_harness(tmp_path)
    with Host(harness, "", TOOLS, lambda tool, arguments: next(answers), user_acts=False) as host:
        for _ in range(2):
            host.add_message("user", "Yes.")
            assert host.check(CALL, 5) == Refuse("a", "x")


def test_a_known_answer_in_plain_text_stays_text(make: Make) -> None:
    host = make(None, actions=check("return Refuse(view.read('get_order', order_id='#W1'), 'x')"))
    host.add_done(Done(READ, "on its way"))
    assert host.check(CALL, 5) == Refuse("on its way", "x")


def test_a_hook_cannot_change_the_record_by_its_arguments(make: Make) -> None:
    host = make(
        actions=check("return Refuse(str(view.done[0].call.arguments), 'x')"),
        regulation="def observe(call, result, view):\n    call.arguments['order_id'] = 'forged'\n",
    )
    host.add_done(Done(CALL, "ok"))
    assert host.observe(CALL, "ok", False, 5) is None
    assert host.check(CALL, 5) == Refuse("{'order_id': '#W1'}", "x")


def test_tools_that_are_no_plain_data_reach_the_hooks(tmp_path: Path) -> None:
    (tmp_path / "actions.py").write_text(check("return Refuse(view.tools[0]['path'], 'x')"))
    with Host(load_harness(tmp_path), "", [{**TOOLS[0], "path": Path("/a")}]) as host:
        assert host.check(Call("c", {"path": Path("/b")}), 5) == Refuse("/a", "x")


RULES = """
from ecdysis_lab.hooks import Rules

rules = Rules()
rules.form("strip", "order_id", case="unseen")(lambda text: text.strip("# "))
rules.form("code", "airport")({"Denver": "DEN"}.get)
rules.line("never", "never", "cancel_order")(lambda call, view: "Stop.")
rules.note("failed", "error")(lambda call, result, view: "It failed.")
rules.note("again", "repeat")(lambda call, result, view: "Again.")
check = rules.checker()
observe = rules.observer()
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Hooks that workers were asked to run, in order."""
    hooks, real = list[str](), ready.Worker.ask

    def ask(self: Any, hook: str, message: dict[str, Any], answer: Any) -> Any:
        if message["do"] == "hook":
            hooks.append(hook)
        return real(self, hook, message, answer)

    monkeypatch.setattr(ready.Worker, "ask", ask)
    return hooks


def noted(host: Host, asked: list[str], call: Call, error: bool = False) -> str | None:
    """What ``observe`` says of a call that was made, or ``"not asked"``."""
    asked.clear()
    host.add_done(Done(call, "{}", error))
    note = host.observe(call, "{}", error, 5)
    return note if asked else "not asked"


def test_notes_are_asked_for_in_their_cases_only(make: Make, asked: list[str]) -> None:
    host = make(regulation=RULES)
    assert (
        noted(host, asked, Call("get_order", {"order_id": 0})) == "It failed."
    )  # not loaded yet: cases are unknown
    for arguments, name, error, expected in (
        ({"order_id": 1}, "get_order", False, "not asked"),
        (
            {"order_id": 1},
            "get_order",
            False,
            "It failed.",
        ),  # a repeat; these notes say the same of every call
        ({"order_id": True}, "get_order", False, "not asked"),  # as JSON it differs
        ({"order_id": 1}, "cancel_order", False, "not asked"),
        ({"order_id": 2}, "cancel_order", True, "It failed."),
    ):
        assert noted(host, asked, Call(name, arguments), error) == expected


@pytest.mark.parametrize(
    ("off", "again", "failed"),
    [
        ("failed", "Again.", "not asked"),
        ("again", "not asked", "It failed."),
        ("other", "It failed.", "It failed."),
    ],
)
def test_a_note_that_is_off_has_no_case(
    make: Make, asked: list[str], off: str, again: str, failed: str
) -> None:
    host = make(regulation=RULES, toml=f"[rules]\n{off} = false\n")
    host.start()
    assert noted(host, asked, CALL) == "not asked"
    assert noted(host, asked, CALL) == again
    assert noted(host, asked, Call("get_order", {}), error=True) == failed


@pytest.mark.parametrize("note", ['rules.note("any")(len)\n', "def observe(call, result, view):\n    pass\n"])
def test_other_notes_are_always_asked_for(make: Make, asked: list[str], note: str) -> None:
    note = note.replace("(len)", "(lambda call, result, view: None)")
    host = make(regulation=RULES + note)
    host.start()
    assert noted(host, asked, CALL) != "not asked"


def test_no_hook_no_note(make: Make, asked: list[str]) -> None:
    host = make(actions=check("return Allow()"))
    host.start()
    assert noted(host, asked, CALL, error=True) == "not asked"


def test_a_call_is_judged_where_a_line_or_a_form_can_apply(make: Make, asked: list[str]) -> None:
    host = make(actions=RULES)
    host.start()
    host.add_done(Done(Call("other", {}), '{"orders": ["W1", "#W2"], "DEN": "Denver"}'))
    host.add_done(Done(Call("other", {}), 'no order "W3"', error=True))

    def judged(call: Call) -> Any:
        asked.clear()
        verdict = host.check(call, 5)
        assert verdict == Allow() or asked  # what is not asked passes
        return verdict if asked else "passed"

    assert judged(Call("get_order", {"order_id": "W1"})) == "passed"
    assert judged(Call("get_order", {"order_id": "#W2"})) == "passed"  # the environment writes it so
    assert judged(Call("get_order", {"order_id": "#W1"})) == Rewrite({"order_id": "W1"}, rule="strip")
    assert judged(Call("get_order", {"order_id": "W"})) == Allow()  # a part of what was seen
    assert judged(Call("get_order", {"order_id": "W3"})) == Allow()  # seen in an error only
    assert judged(Call("get_order", {"order_id": 1})) == Rewrite({"order_id": "1"}, rule="strip")
    assert judged(Call("get_order", {"why": "late"})) == "passed"
    assert judged(Call("get_order", {"airport": "Denver"})) == Rewrite({"airport": "DEN"}, rule="code")
    assert judged(Call("get_order", {"rows": [{"order_id": "#W1"}]})) == Rewrite(
        {"rows": [{"order_id": "W1"}]}, rule="strip"
    )
    assert judged(Call("cancel_order", {"order_id": "W1"})) == Refuse("Policy: never.", "Stop.", "never")


def test_rules_that_are_off_ask_for_no_judgement(make: Make, asked: list[str]) -> None:
    host = make(actions=RULES, toml="[rules]\nstrip = false\nnever = false\ncode = false\n")
    host.start()
    for name in ("get_order", "cancel_order"):
        assert host.check(Call(name, {"order_id": "#W1", "airport": "Denver"}), 5) == Allow()
    assert asked == []


@pytest.mark.parametrize("wraps", ["", "import functools\n@functools.wraps(inner)\n"])
def test_a_check_around_the_rules_is_always_asked(make: Make, asked: list[str], wraps: str) -> None:
    around = f"inner = check\n{wraps}def check(call, view):\n    return inner(call, view)\n"
    host = make(actions=RULES + around)
    host.start()
    assert host.check(Call("get_order", {"why": "late"}), 5) == Allow()
    assert asked == ["check"]


@pytest.mark.parametrize(
    "cases",
    [
        "5",
        "{'tools': 5, 'always': [], 'unseen': []}",
        "{'tools': []}",
        "['always']",
        "['errors']",
        "None",
        "{'tools': [], 'always': []}",
        "{'tools': [], 'always': {}, 'unseen': []}",
    ],
)
def test_cases_that_make_no_sense_harm_nothing(make: Make, asked: list[str], cases: str) -> None:
    names = "HOOK.cases = (HOOK, lambda: CASES)\n".replace("CASES", cases)
    note = "def observe(call, result, view):\n    return 'c'\n"
    host = make(
        actions=check("return Refuse('a', 'b')") + names.replace("HOOK", "check"),
        regulation=note + names.replace("HOOK", "observe"),
    )
    host.start()
    assert host.check(CALL, 5) == Refuse("a", "b")
    assert noted(host, asked, CALL) == "c"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('rules.note("x", "errors")(len)', "case 'errors' is not one of: always, error, repeat"),
        ('rules.form("x", "id", case="seen")(len)', "case 'seen' is not one of: always, unseen"),
        ('rules.form("strip", "id")(len)', "a rule named 'strip' is registered already"),
        ('rules.line("never", "p", "t")(len)', "a rule named 'never' is registered already"),
    ],
)
def test_a_rule_that_would_never_run_is_a_fault_with_its_line(make: Make, line: str, message: str) -> None:
    fault = fault_of(make(actions=RULES + line).start)
    assert message in fault.message and (fault.file, fault.line) == ("actions.py", RULES.count("\n") + 1)


def test_expressions_are_compiled_by_the_first_worker_only(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import re\nWORDS = re.compile(r'(?P<id>#w\\d+)|no', re.I)\n"
    body = "return Refuse(WORDS.search('is #W12').group('id') + str(WORDS.flags), 'x')"
    harness, told = make(actions=source + check(body)).harness, []
    real = ready.Worker.ask

    def ask(self: Any, hook: str, message: dict[str, Any], answer: Any) -> Any:
        value = real(self, hook, message, answer)
        if message["do"] == "load":
            told.append(value)
        return value

    monkeypatch.setattr(ready.Worker, "ask", ask)
    spares.current().drop()
    for _ in range(2):
        with Host(harness, "", TOOLS) as host:
            assert host.check(CALL, 5) == Refuse(f"#W12{int(re.I | re.U)}", "x")
    spares.current().settle()
    assert [entry[0] for entry in told[0]["regexes"]] == [r"(?P<id>#w\d+)|no"]
    assert told[1]["regexes"] == []


def test_more_expressions_than_an_answer_holds_are_kept_by_nobody(make: Make) -> None:
    body = "import re\nMANY = [re.compile(f'x{i}' * 400) for i in range(40)]\n" + check("return Allow()")
    comment = "import re\nONE = re.compile('(?#" + "中" * 1500 + ")x')\n" + check("return Allow()")
    for source, room in ((body, 20_000), (comment, 4_000)):  # the second is short as text, and long as JSON
        host = make(limits=HostLimits(output_bytes=room), actions=source)
        assert host.check(CALL, 5) == Allow()
        assert host.harness.hash not in ready._regexes


def test_a_spare_that_was_killed_is_replaced(make: Make) -> None:
    harness, keeper = make(actions=check("return Allow()")).harness, spares.current()
    for _ in range(2):
        with Host(harness, "", TOOLS) as host:
            assert host.check(CALL, 5) == Allow()
        keeper.settle()
    killed = [worker.pid for worker in keeper._spares]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert len(killed) == 2 and _gone(killed)
    with Host(harness, "", TOOLS) as host:
        assert host.check(CALL, 5) == Allow()
        assert host._worker is not None and host._worker.pid not in killed


def test_a_worker_that_was_killed_from_outside_is_no_fault_of_the_harness(make: Make) -> None:
    host = make(actions=check("return Allow()"))
    assert host.check(CALL, 5) == Allow()
    assert host._worker is not None
    os.kill(host._worker.pid, signal.SIGKILL)
    with pytest.raises(HostError, match="killed from outside"):
        for _ in range(50):
            host.check(CALL, 5)
            time.sleep(0.01)


def test_a_forgotten_worker_is_killed_even_inside_an_exchange(make: Make) -> None:
    harness = make(actions=check("return Allow()")).harness

    def forgotten() -> tuple[Host, int]:
        host = Host(harness, "", TOOLS)
        host.check(CALL, 1)
        assert host._worker is not None
        return host, host._worker.pid

    host, pid = forgotten()
    with client.current().lock:  # as when garbage collection strikes while this thread talks to the server
        del host
        assert Path(f"/proc/{pid}").exists()
    other, _ = forgotten()
    assert not Path(f"/proc/{pid}").exists()
    other.close()


def test_workers_run_side_by_side_from_threads(make: Make) -> None:
    harness = make(actions=check("return Refuse(call.id, 'x')")).harness

    def trial(i: int) -> list[Any]:
        with Host(harness, "", TOOLS) as host:
            return [host.check(Call("c", {}, f"{i}-{k}"), 5) for k in range(20)]

    with ThreadPoolExecutor(4) as pool:
        for i, verdicts in enumerate(pool.map(trial, range(12))):
            assert verdicts == [Refuse(f"{i}-{k}", "x") for k in range(20)]


def _trial(harness: Harness) -> tuple[str, int]:
    with Host(harness, "", TOOLS) as host:
        verdict = host.check(CALL, 5)
        assert isinstance(verdict, Refuse)
        return verdict.reason, client.current().process.pid


def test_loky_workers_and_forked_children_have_their_own_server(make: Make) -> None:
    from joblib import Parallel, delayed

    harness = make(actions=check("return Refuse('loky', 'x')")).harness
    mine = _trial(harness)[1]
    found = Parallel(n_jobs=2, backend="loky")(delayed(_trial)(harness) for _ in range(4))
    assert {reason for reason, _ in found} == {"loky"}
    assert mine not in {pid for _, pid in found}
    with multiprocessing.get_context("fork").Pool(1) as pool:
        reason, pid = pool.apply(_trial, (harness,))
    assert reason == "loky" and pid != mine
    assert _trial(harness) == ("loky", mine)


def test_a_server_that_died_is_an_infrastructure_error_and_the_next_trial_gets_a_new_one(make: Make) -> None:
    host = make(actions=check("return Allow()"))
    host.check(CALL, 5)
    old = client.current().process
    old.kill()
    old.wait()
    with pytest.raises(HostError):
        for _ in range(20):  # the worker gets its signal from the kernel a moment later
            host.check(CALL, 5)
            time.sleep(0.01)
    fresh = make(actions=check("return Allow()"))
    assert fresh.check(CALL, 5) == Allow()
    assert client.current().process.pid != old.pid


def test_an_exchange_that_breaks_off_does_not_answer_the_next_one(make: Make) -> None:
    spares.current().drop()
    spares.current().settle()
    server = client.current()

    class Interrupting:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def recv(self, *_: Any) -> bytes:
            raise KeyboardInterrupt

    real, server.control = server.control, Interrupting()  # type: ignore[assignment]
    host = make(actions=check("return Allow()"))
    with pytest.raises(KeyboardInterrupt):
        host.check(CALL, 5)
    assert server.broken
    assert make(actions=check("return Allow()")).check(CALL, 5) == Allow()
    assert client.current() is not server


PARENT = """
import sys, time
from ecdysis_lab.harness import load_harness
from ecdysis_lab.harness.host import Host
from ecdysis_lab.hooks import Call
from ecdysis_lab.harness.sandbox import client, ready, spares
host = Host(load_harness(sys.argv[1]), "", [])
host.check(Call("c", {}), 1)
print(client.current().process.pid, host._worker.pid, flush=True)
time.sleep(float(sys.argv[2]))
"""


def _gone(pids: list[int], seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        states = [Path(f"/proc/{pid}/stat") for pid in pids]
        if not any(s.exists() and s.read_text().split()[2] != "Z" for s in states):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("end", ["exit", "kill"])
def test_server_and_workers_end_with_their_parent(make: Make, end: str) -> None:
    folder = make(actions=check("return Allow()")).harness.path
    command = [sys.executable, "-W", "error", "-c", PARENT, str(folder), "0" if end == "exit" else "60"]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    if end == "kill":
        parent.send_signal(signal.SIGKILL)
    _, errors = parent.communicate(timeout=20)
    assert errors == "" and parent.returncode == (0 if end == "exit" else -signal.SIGKILL)
    assert _gone(pids)


def test_the_report_names_every_line_and_what_is_missing_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = sandbox_report()
    lines = "audit builtins core cpu descriptors files memory parent processes seccomp user"
    assert sorted(report) == lines.split()
    if sys.platform == "linux" and os.uname().machine in ("x86_64", "aarch64"):
        assert set(report.values()) == {""}
    monkeypatch.setattr(ready, "_report", {})
    with pytest.warns(UserWarning, match=r"weaker on this machine; missing: seccomp \(no filter for plan9\)"):
        ready._warn({**report, "seccomp": "no filter for plan9"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ready._warn({**report, "seccomp": "no filter for plan9"})
