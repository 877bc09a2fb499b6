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
from ecdysis_lab.harness.sandbox import client, ready
from ecdysis_lab.harness.static import HOOKS
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
HEAD = "from ecdysis_lab.hooks import Allow, Call, Realize, Refuse, Rewrite, enabled\n"

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
    assert host.observe(CALL, "ok", 7) == "c1 ok 7"
    assert host.observe(CALL, "", 7) is None
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


def test_changing_what_a_hook_sees_changes_nothing_outside_it(make: Make) -> None:
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
    forged = "def observe(call, result, view):\n    call.arguments['order_id'] = 'forged'\n"
    host = make(actions=check(body), regulation=forged)
    host.add_message("user", "Hi")
    host.add_done(Done(CALL, "ok"))
    mine = {"order_id": "#W1"}
    assert host.check(Call("cancel_order", mine, "spoil"), 5) == Allow()
    assert host.observe(CALL, "ok", 5) is None
    assert mine == {"order_id": "#W1"} == CALL.arguments
    left = "[[{'role': 'user', 'content': 'Hi'}], {'order_id': '#W1'}, 'get_order', 'Be kind.']"
    assert host.check(CALL, 5) == Refuse(left, "x")


def test_view_read_asks_the_live_environment_each_time_and_read_tools_only(make: Make) -> None:
    asked: list[Any] = []

    def read(tool: str, arguments: dict[str, Any]) -> Any:
        asked.append((tool, arguments))
        if arguments["order_id"] == "bad":
            raise KeyError("no such order")
        return {"status": len(asked)} if arguments["order_id"] == "#W1" else "plain text"

    body = "tool = call.arguments.get('tool', 'get_order')\n"
    body += "return Refuse(str(view.read(tool, order_id=call.arguments['id'])), 'x')"
    host = make(read, actions=check(body))
    host.add_done(Done(Call("get_order", {"order_id": "#W1"}), '{"status": 0}'))
    for name, said in (
        ("#W1", "{'status': 1}"),
        ("#W1", "{'status': 2}"),
        ("#W2", "plain text"),
        ("bad", "None"),
    ):
        assert host.check(Call("c", {"id": name}), 5) == Refuse(said, "x")
    fault = fault_of(lambda: host.check(Call("c", {"id": "#W1", "tool": "cancel_order"}), 5))
    assert (fault.kind, fault.file, fault.line) == ("denied", "actions.py", 4)
    assert "'cancel_order' is write" in fault.message
    assert asked == [("get_order", {"order_id": name}) for name in ("#W1", "#W1", "#W2", "bad")]
    fault = fault_of(lambda: make(actions=check(body)).check(Call("c", {"id": "#W1"}), 5))
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
    body = "for _ in range(call.arguments['n']):\n    view.read('get_order')\nreturn Allow()"
    host = make(lambda _t, _a: 1, HostLimits(reads=20), actions=check(body))
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
        assert host.observe(CALL, "ok", 5) is None


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
        ("None", "on_reply returned NoneType; return Allow(), Rewrite(...) or Refuse(...) or Realize(...)"),
        ("Realize(())", "one to 8"),
        ("Realize((Call('cancel_order', {}),) * 10_000)", "one to 8"),
        ("Realize((Call('drop_order', {}),))", "no tool 'drop_order'; the tools are cancel_order, get_order"),
        ("Realize(('cancel_order',))", "a tool's name and an argument object"),
        ("Realize((Call('cancel_order', []),))", "a tool's name and an argument object"),
        ("Realize((Call(3, {}),))", "a tool's name and an argument object"),
        ("Realize((Call('cancel_order', {'a': '\\ud800'}),))", "plain JSON data"),
        ("Realize((Call('cancel_order', {'a': " + "[" * 40 + "]" * 40 + "}),))", "plain JSON data"),
        ("Realize((Call('cancel_order', {'a': view}),))", "not JSON"),
    ],
)
def test_realized_calls_are_validated(make: Make, value: str, what: str) -> None:
    host = make(
        regulation=HEAD + f"def on_reply(text, view):\n    return {value} if text == 'x' else Allow()\n"
    )
    fault = fault_of(lambda: host.on_reply("x", 5))
    assert fault.kind == "contract" and what in fault.message, fault
    assert host.on_reply("y", 5) == Allow(), "a broken answer leaves the worker usable"


def test_a_call_cannot_be_realized(make: Make) -> None:
    host = make(actions=check("return Realize((call,))"))
    assert "only a reply can be realized" in fault_of(lambda: host.check(CALL, 5)).message


@pytest.mark.parametrize(
    ("hook", "value", "what"),
    [
        ("describe(tool)", "None", "describe returned NoneType"),
        ("describe(tool)", "{**tool, 'name': 'other'}", "must not change the tool's name"),
        ("describe(tool)", "{**tool, 'kind': 'read'}", "must not change the tool's kind"),
        ("describe(tool)", "{**tool, 'description': 3}", "description must be text, not int"),
        ("describe(tool)", "{**tool, 'parameters': []}", "parameters must be a JSON schema object"),
        ("describe(tool)", "{**tool, 'parameters': {'properties': {}}}", "must not add or remove parameters"),
        ("brief(opening, policy)", "['x']", "brief returned list"),
        ("observe(call, result, view)", "'\\udfff'", "not valid Unicode"),
        ("on_reply(text, view)", "Rewrite(text=' ')", "Rewrite of a reply needs text="),
    ],
)
def test_other_answers_are_validated(make: Make, hook: str, value: str, what: str) -> None:
    name = hook.partition("(")[0]
    layer = HOOKS[name][0]
    host = make(**{layer: HEAD + f"def {hook}:\n    return {value}\n"})
    given = {"describe": (TOOLS[1],), "brief": ("Hi",), "observe": (CALL, "x", 1), "on_reply": ("Hi", 1)}
    fault = fault_of(lambda: getattr(host, name)(*given[name]))
    assert (fault.kind, fault.hook) == ("contract", name) and what in fault.message


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
        notes.append(host.observe(Call("get_order", {"order_id": "1"}), "pending", 9))
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
    assert not Path(f"/proc/{pid}").exists()
    assert client.current().process.pid == server


def test_tools_that_are_no_plain_data_reach_the_hooks(tmp_path: Path) -> None:
    (tmp_path / "actions.py").write_text(check("return Refuse(view.tools[0]['path'], 'x')"))
    with Host(load_harness(tmp_path), "", [{**TOOLS[0], "path": Path("/a")}]) as host:
        assert host.check(Call("c", {"path": Path("/b")}), 5) == Refuse("/a", "x")


RULES = """
from ecdysis_lab.hooks import Rules

rules = Rules()
rules.form("strip", "order_id")(lambda text: text.strip("# "))
rules.line("never", "never", "cancel_order")(lambda call, view: "Stop.")
rules.note("note")(lambda call, result, view: f"{result}, {len(view.done)} done")
rules.reply("claim")(lambda text, view: ("Not so.", "Say what is so.") if "done" in text else None)
"""


def test_rules_are_hooks_and_are_asked_at_every_call(make: Make) -> None:
    regulation = RULES + "observe = rules.observe\non_reply = rules.on_reply\n"
    host = make(actions=RULES + "check = rules.check\n", regulation=regulation, toml="[rules]\nnever = false")
    for n in (1, 2):
        assert host.check(CALL, 5) == Rewrite({"order_id": "W1"}, rule="strip")
        host.add_done(Done(CALL, "ok"))
        assert host.observe(CALL, "ok", 5) == f"ok, {n} done"
    assert host.check(Call("cancel_order", {"order_id": "W1"}), 5) == Allow()
    assert host.on_reply("All done.", 5) == Refuse("Not so.", "Say what is so.", "claim")


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
from ecdysis_lab.harness.sandbox import client
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
    lines = "audit builtins clock core cpu descriptors files memory parent processes seccomp user"
    assert sorted(report) == lines.split()
    if sys.platform == "linux" and os.uname().machine in ("x86_64", "aarch64"):
        assert set(report.values()) == {""}
    monkeypatch.setattr(ready, "_report", {})
    with pytest.warns(UserWarning, match=r"weaker on this machine; missing: seccomp \(no filter for plan9\)"):
        ready._warn({**report, "seccomp": "no filter for plan9"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ready._warn({**report, "seccomp": "no filter for plan9"})
