"""Harnesses that attack, each against the whole sandbox and against its inner lines alone.

Every case runs three times: behind all lines; past the static policy; and past every Python line, so that only the
kernel's lines and the host's own checks are left. The host must stay alive, the fault must be typed (or the attack
must come to nothing), and nothing may leak: ``LEAK`` marks an attack that reached its aim.
"""

import importlib.util
import os
import shutil
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ecdysis_lab.harness import Harness, load_harness
from ecdysis_lab.harness.host import HarnessFault, Host, HostLimits
from ecdysis_lab.harness.sandbox import client
from ecdysis_lab.hooks import Call, Refuse

LIMITS = HostLimits(wall_seconds=4.0, cpu_seconds=0.4, memory_bytes=128 * 2**20, output_bytes=2**16, reads=50)
LINES = {
    "all lines": (),
    "past static": ("static",),
    "kernel only": ("static", "builtins", "audit"),
}
CANARY = "canary-7f3a91"
HEAD = "from ecdysis_lab.hooks import Allow, Call, Refuse, Rewrite\n"
TOOLS: list[dict[str, Any]] = [
    {"name": "get_user", "description": "d", "parameters": {"properties": {}}, "kind": "read"},
    {"name": "cancel", "description": "d", "parameters": {"properties": {}}, "kind": "write"},
]


@dataclass(frozen=True)
class Attack:
    """One hostile harness: files, and the outcomes that count as contained past the Python lines.

    ``kinds`` are for "kernel only"; ``inner`` for "past static" (default: the builtins line denies); ``full`` for
    all lines (default: the static policy answers).
    """

    name: str
    files: dict[str, str]
    kinds: str
    inner: str = "denied error"
    full: str = "static"


def check(body: str, head: str = "") -> dict[str, str]:
    """An actions.py whose check has this body."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return {"actions": HEAD + head + "def check(call, view):\n" + lines + "    return Allow()\n"}


def same(name: str, files: dict[str, str], kinds: str) -> Attack:
    """An attack within the static policy: the same outcome behind any lines."""
    return Attack(name, files, kinds, kinds, kinds)


LOOP = "while True:\n        pass\n"
HOOK_LOOPS = {
    "describe": {"contract": f"def describe(tool):\n    {LOOP}"},
    "brief": {"skills": f"def brief(opening, policy):\n    {LOOP}"},
    "check": {"actions": f"def check(call, view):\n    {LOOP}"},
    "observe": {"regulation": f"def observe(call, result, view):\n    {LOOP}"},
    "on_reply": {"regulation": f"def on_reply(text, view):\n    {LOOP}"},
}
LEAK = "return Refuse('LEAK', 'x')"
WORKER = "import sys\nworker = sys.modules['ecdysis_lab.harness.sandbox.worker']\n"
SEND = (
    "import os\ndef send(text, length=None):\n"
    "    data = text.encode()\n"
    "    os.write(3, (len(data) if length is None else length).to_bytes(4, 'big') + data)\n"
)
SUBCLASSES = """
found = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close']
found[0].__init__.__globals__['system']('touch {out}/pwned')
"""
SYSCALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.syscall(257, -100, ctypes.c_char_p(b'{tasks}'), 0, 0)
if fd >= 0: return Refuse('LEAK', 'x')
raise PermissionError(ctypes.get_errno())
"""
SHELLCODE = """
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_long
page = libc.mmap(ctypes.c_long(0), ctypes.c_long(4096), 7, 0x22, -1, ctypes.c_long(0))
if page != -1: return Refuse('LEAK', 'x')
page = libc.mmap(ctypes.c_long(0), ctypes.c_long(4096), 3, 0x22, -1, ctypes.c_long(0))
if libc.mprotect(ctypes.c_void_p(page), ctypes.c_long(4096), 7) == 0: return Refuse('LEAK', 'x')
raise PermissionError('no executable memory')
"""
FRAMES = """
import sys
frame = sys._getframe()
seen = ''
while frame:
    seen += repr(frame.f_globals.keys()) + repr(frame.f_locals)
    frame = frame.f_back
return Refuse(seen[:20000], 'x')
"""

NO_CLOCK = {
    "match a class": "import datetime\nmatch datetime.datetime:\n    case object(now=n): pass",
    "match an instance": "import datetime\nmatch datetime.datetime(2024, 5, 15):\n    case object(utcnow=n): pass",
    "match the day of a time": "import datetime\nmatch datetime.datetime(2024, 5, 15).date():\n    case object(today=n): pass",
    "match by an own class": "import datetime\nclass A(datetime.datetime):\n    __match_args__ = ('now',)\nmatch A(2024, 5, 15):\n    case A(n): pass",
    "class of the first moment": "import datetime\nn = getattr(type(datetime.datetime.min), 'no' + 'w')",
    "first moment itself": "import datetime\nn = getattr(datetime.datetime.min, 'n' 'ow')",
    "class of a date": "import datetime\nn = getattr(type(datetime.datetime.max.date()), 'today')",
    "dictionary of a class": "import datetime\nn = vars(datetime.date)['today'].__func__",
    "method resolution": "import datetime\nn = datetime.datetime.mro()[1].today",
    "in a table": "import datetime\nn = {{'f': datetime.datetime}}['f'].now",
    "globals of wraps": "import functools\nn = functools.wraps.__globals__['__builtins__']['__import__']('time').time",
    "module by wraps": "import functools\nimport sys\nn = sys.modules['time'].monotonic_ns",
    "made class": "import functools\nT = type('T', (), {{'__match_args__': ('__' + 'globals__',)}})\nn = functools.wraps.__globals__['recursive_repr'].__globals__['__builtins__']['__import__']('time').perf_counter",
    "a given time is none": "import sys\nn = lambda: sys.modules['time'].localtime(None)",
    "text of now": "import sys\nn = lambda: sys.modules['time'].strftime('%S')",
}
"""Ways to a clock; each ends with ``n``, which would read it."""
CLOCKS = [
    Attack(
        f"clock: {name}",
        check(f"{body}\nreturn Refuse('LEAK' + str(n()), 'x')"),
        "denied error",
        "denied error",
    )
    for name, body in NO_CLOCK.items()
]
ADDRESSES = {
    "hash of an object": "n = hash(object())",
    "hash of a function": "def f(): pass\nn = hash(f)",
    "hash by another name": "h = hash\nn = h(lambda: 1)",
    "hash in a table": "n = [abs, hash][1](object())",
    "hash by map": "n = list(map(hash, [object()]))",
    "id": "n = id(view)",
    "id freed elsewhere": "def g(id): return id\nn = g(1) + __builtins__['id'](view)",
    "id in another function": "def g(id): return id\ndef f(x): return id(x)\nn = f(view)",
    "dir": "n = dir(view)",
    "dir freed by a loop": "def g():\n    for dir in (): pass\nn = [dir(x) for x in (view,)]",
    "three-argument type": "n = type('T', (), {{'__match_args__': ('policy',)}})",
    "type of a class": "n = type(str)('T', (), {{}})",
    "type by star": "n = type(*('T', (), {{}}))",
    "metaclass": "class M(type): pass\nclass A(metaclass=M): pass\nn = A",
}
"""Addresses, and classes out of nothing: the builtins line holds them; behind the kernel alone they are harmless."""
ADDRESSED = [
    Attack(f"address: {name}", check(f"{body}\nreturn Refuse('LEAK' + str(n), 'x')"), "", "denied error")
    for name, body in ADDRESSES.items()
]

ATTACKS = [
    # files
    Attack("read tasks", check("return Refuse('LEAK' + open('{tasks}').read()[:99], 'x')"), "denied"),
    Attack("read tasks by os.open", check("import os\nos.open('{tasks}', 0)\n" + LEAK), "denied"),
    Attack("read tasks at load", {"actions": "text = open('{tasks}').read()\n" + HEAD + "def check(c, v):\n    " + LEAK}, "denied"),
    Attack("read by import machinery", check("import sys\nloader = sys.modules['json'].__loader__\nloader.get_data('{tasks}')\n" + LEAK), "denied"),
    Attack("write a file", check("open('{out}/pwned', 'w').write('x')\n" + LEAK), "denied"),
    Attack("list a folder", check("import os\nos.listdir('/')\n" + LEAK), "denied"),
    Attack("stat a file", check("import os\nos.stat('{tasks}')\n" + LEAK), "denied"),
    Attack("unlink a file", check("import os\nos.unlink('{out}/victim')\n" + LEAK), "denied"),
    Attack("import from disk", check("import xmlrpc.client\n" + LEAK), "error denied"),
    Attack("import the lab's store", check("import ecdysis_lab.store\n" + LEAK), "error denied"),
    Attack("read /proc environ", check("return Refuse('LEAK' + open('/proc/{parent}/environ').read(), 'x')"), "denied"),
    Attack("read /proc/self/maps", check("return Refuse('LEAK' + open('/proc/self/maps').read(), 'x')"), "denied"),
    Attack("environment variables", check("import os\nreturn Refuse(str(dict(os.environ)), 'x')"), "harmless"),
    Attack("read stdin", check("import os\nif os.read(0, 10): " + LEAK), "harmless"),
    # network
    Attack("inet socket", check("import socket\nsocket.socket()\n" + LEAK), "denied"),
    Attack("unix socket", check("import socket\nsocket.socket(socket.AF_UNIX)\n" + LEAK), "denied"),
    Attack("socket pair", check("import socket\nsocket.socketpair()\n" + LEAK), "denied"),
    Attack("socket from the pipe", check("import socket\nsocket.socket(fileno=3).connect('{out}/x')\n" + LEAK), "denied error"),
    # processes
    Attack("fork", check("import os\nos.fork()\n" + LEAK), "denied"),
    Attack("fork bomb", check("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"), "cpu timeout"),
    Attack("system", check("import os\nif os.system('touch {out}/pwned') == 0: " + LEAK), "harmless"),
    Attack("exec", check("import os\nos.execv('/bin/sh', ['sh', '-c', 'touch {out}/pwned'])\n" + LEAK), "denied"),
    Attack("spawn", check("import os\nos.posix_spawn('/bin/sh', ['sh', '-c', 'touch {out}/pwned'], {})\n" + LEAK), "denied"),
    Attack("thread", check("import _thread\n_thread.start_new_thread(print, ())\n" + LEAK), "error"),
    Attack("signal the host", check("import os\nos.kill({parent}, 0)\n" + LEAK), "denied"),
    Attack("signal the server", check("import os\nos.kill(os.getppid(), 0)\n" + LEAK), "denied"),
    Attack("signal everyone", check("import os\nos.kill(-1, 0)\n" + LEAK), "denied"),
    Attack("signal the group", check("import os\nos.killpg(0, 0)\n" + LEAK), "denied error"),
    Attack("own signal handler", check("import signal\nsignal.signal(14, print)\n" + LEAK), "denied error"),
    Attack("timer", check("import signal\nsignal.setitimer(0, 0.01)\n" + LEAK), "denied error"),
    Attack("become root", check("import os\nos.setuid(0)\n" + LEAK), "denied"),
    Attack("raise a limit", check("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (99, 99))\n" + LEAK), "denied error"),
    # native code
    Attack("ctypes system", check("import ctypes\nif ctypes.CDLL(None).system(b'touch {out}/pwned') == 0: " + LEAK), "harmless"),
    Attack("raw system call", check(SYSCALL), "denied"),
    Attack("shellcode pages", check(SHELLCODE), "denied"),
    Attack("null pointer", check("import ctypes\nctypes.string_at(0)"), "exit"),
    Attack("library from disk", check("import ctypes\nctypes.CDLL('{out}/evil.so')\n" + LEAK), "error denied"),
    # ends
    Attack("sys.exit", check("import sys\nsys.exit(0)"), "exit"),
    same("SystemExit", check("raise SystemExit(0)"), "exit"),
    same("KeyboardInterrupt", check("raise KeyboardInterrupt"), "error"),
    Attack("os._exit", check("import os\nos._exit(0)"), "exit"),
    Attack("os.abort", check("import os\nos.abort()"), "exit"),
    Attack("close the pipe", check("import os\nos.close(3)"), "denied error"),
    # time
    *(same(f"endless loop in {hook}", files, "cpu timeout") for hook, files in HOOK_LOOPS.items()),
    same("endless loop at load", {"actions": "while True:\n    pass\n" + HEAD + "def check(call, view):\n    return 1\n"}, "cpu timeout"),
    same("endless regex", check("import re\nre.match('(a+)+$', 'a' * 64 + 'b')"), "cpu timeout"),
    same("huge power", check("n = 10\nreturn Refuse(str(n ** n ** n), 'x')"), "cpu memory timeout"),
    same("swallow everything", check("while True:\n    try: view.read('cancel')\n    except BaseException: pass"), "cpu timeout"),
    Attack("sleep", check("import time\ntime.sleep(100)\n" + LEAK), "denied"),
    Attack("deadlock", check("import _thread\nlock = _thread.allocate_lock()\nlock.acquire()\nlock.acquire()"), "timeout"),
    Attack("wait on the pipe", check("import os\nos.read(3, 1)"), "timeout"),
    same("read flood", check("for n in range(10 ** 9):\n    view.read('get_user', n=n)"), "reads"),
    # memory and size
    same("memory bomb, list", check("x = [0]\nwhile True:\n    x = x + x"), "memory"),
    same("memory bomb, text", check("x = 'x' * 10 ** 12"), "memory"),
    same("memory bomb, at load", {"actions": "x = [0] * 10 ** 9\n" + HEAD + "def check(call, view):\n    return 1\n"}, "memory"),
    same("memory bomb, caught", check("try: x = 'x' * 10 ** 12\nexcept MemoryError: pass"), "harmless"),
    same("100 MB brief", {"skills": "def brief(opening, policy):\n    return 'x' * 100_000_000\n"}, "output"),
    same("100 MB reason", check("return Refuse('x' * 100_000_000, 'x')"), "output memory cpu"),
    same("100 MB argument", check("return Rewrite(arguments={{'a': 'x' * 100_000_000}})"), "output memory cpu"),
    same("100 MB read request", check("view.read('get_user', a='x' * 100_000_000)"), "output memory cpu"),
    same("100 MB exception", check("raise ValueError('x' * 100_000_000)"), "error memory"),
    same("deep recursion", check("def f(): return f()\nf()"), "recursion"),
    Attack("deeper recursion", check("import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(): return f()\nf()"), "memory exit cpu recursion"),
    same("deep answer", check("x = []\nfor _ in range(100_000): x = [x]\nreturn Rewrite(arguments={{'a': x}})"), "contract recursion"),
    same("cyclic answer", check("x = {{}}\nx['a'] = x\nreturn Rewrite(arguments=x)"), "contract recursion"),
    # tricks inside Python
    Attack("subclasses walk", check(SUBCLASSES), "harmless", inner="denied"),
    Attack("frame walk", check(FRAMES), "harmless output"),
    Attack("traceback walk", check("try: 1 / 0\nexcept ZeroDivisionError as e: f = e.__traceback__.tb_frame.f_back\nf.f_builtins['open']('{tasks}')\n" + LEAK), "denied"),
    Attack("generator frame", check("g = (0 for _ in ())\nreturn Refuse(str(g.gi_frame.f_builtins.get('open')('{tasks}')), 'x')"), "denied error"),
    Attack("getattr by a built name", check("n = '_' + '_class__'\nreturn Refuse(str(getattr(1, n)), 'x')"), "harmless", inner="denied"),
    Attack("format walk", check("t = '{0._' + '_class__}'\nreturn Refuse(t.replace('{{', '{').format(view), 'x')"), "harmless", inner="harmless"),
    Attack("eval", check("return Refuse('LEAK' + eval('open')('{tasks}').read(), 'x')"), "denied"),
    Attack("evaluate an annotation", check("import typing\nclass C:\n    x: \"open('{tasks}')\"\ntyping.get_type_hints(C)\n" + LEAK), "denied"),
    Attack("modules by statistics", check("import statistics\nstatistics.random._os.listdir('/')\n" + LEAK), "denied"),
    Attack("import by a loader", check("import sys\nsys.modules['importlib'].import_module('subprocess')\n" + LEAK), "error denied"),
    Attack("patch builtins", check("import builtins\nbuiltins.isinstance = lambda *a: True\nbuiltins.len = lambda *a: 0"), "exit protocol error"),
    Attack("patch the hooks module", check("import ecdysis_lab.hooks as h\nh.Allow = h.Refuse = h.Call = None\nh.View = 3"), "harmless error contract", inner="harmless"),
    Attack("globals of authoring", check("from ecdysis_lab.hooks import said\nsaid.__globals__['__builtins__']['open']('{tasks}')\n" + LEAK), "denied"),
    Attack("modules by authoring", check("from ecdysis_lab import hooks\nhooks.talk.json.codecs.open('{tasks}')\n" + LEAK), "denied"),
    Attack("import behind authoring", check("import ecdysis_lab.hooks.talk as t\nt.json.codecs.open('{tasks}')\n" + LEAK), "denied"),
    Attack("patch authoring", check("from ecdysis_lab import hooks\nhooks.said = hooks.YES = None\nhooks.Rules.check = None"), "harmless", inner="harmless"),
    Attack("patch json", check("import json\njson.dumps = lambda *a, **k: '{{'"), "harmless protocol contract error exit", inner="harmless"),
    Attack("patch the reader", check("import json\njson.loads = lambda *a, **k: {{}}"), "exit", inner="harmless"),
    Attack("switch limits off", check(WORKER + "worker._Worker._encode = lambda s, m: b'x' * 10 ** 7"), "output"),
    Attack("unlock rules", check("from ecdysis_lab import hooks\nhooks.verdicts._DISABLED.clear()"), "harmless"),
    Attack("audit hook", check("import sys\nsys.addaudithook(lambda *a: 1 / 0)"), "harmless error exit"),
    Attack("trace function", check("import sys\nsys.settrace(lambda *a: 1 / 0)"), "harmless error exit"),
    Attack("live objects", check("import gc\nreturn Refuse(repr([o for o in gc.get_objects() if type(o) is dict])[:20000], 'x')"), "harmless error"),
    same("exception that loops when shown", check("class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E"), "cpu timeout"),
    same("exception that raises when shown", check("class E(Exception):\n    def __str__(self): raise E\nraise E"), "error"),
    Attack("finalizer", check("class D:\n    def __del__(self):\n        import os\n        os._exit(3)\nD()"), "exit", inner="harmless"),
    # answers
    Attack("pickling gadget", check("class G:\n    def __reduce__(self): return (open, ('{out}/pwned', 'w'))\nreturn Rewrite(arguments={{'a': G()}})"), "contract", inner="contract"),
    Attack("lookalike verdict", check("class Refuse:\n    reason, option, rule = '', '', ''\nreturn Refuse()"), "contract", inner="contract", full="contract"),
    Attack("text subclass", check("class T(str):\n    def __len__(self): return 1\n    def encode(self, *a): return b''\nreturn Refuse(T('x' * 10 ** 6), 'x')"), "output", inner="output", full="output"),
    same("generator as answer", {"skills": "def brief(opening, policy):\n    yield 'x'\n"}, "contract"),
    same("print", check("print('noise' * 1000)"), "harmless"),
    Attack("write to descriptor 1", check("import os\nos.write(1, b'x' * 10 ** 6)\nos.write(2, b'x')"), "harmless"),
    # the pipe
    Attack("forged answer", check("send('{{\"i\": 3, \"value\": {{\"kind\": \"Allow\"}}}}')\nreturn Refuse('x', 'y')", SEND), "protocol"),
    Attack("forged answers in one go", check("frame = lambda i: bytes([0, 0, 0, 23]) + b'{{\"i\": %d, \"value\": null}}' % i\nos.write(3, frame(3) + frame(3))\nfor i in range(4, 9):\n    os.read(3, 65536)\n    os.write(3, frame(i))\nwhile True: pass", SEND), "protocol"),
    Attack("forged verdict kind", check("send('{{\"i\": 3, \"value\": {{\"kind\": \"Evil\", \"rule\": 3}}}}')", SEND), "contract"),
    Attack("forged fault", check("send('{{\"i\": 3, \"fault\": {{\"kind\": \"accepted\", \"file\": \"/etc/passwd\"}}}}')", SEND), "protocol"),
    Attack("forged garbage", check("send('\\\\xff not json')", SEND), "protocol"),
    Attack("forged nesting", check("send('[' * 60000)", SEND), "protocol"),
    Attack("forged number", check("send('{{\"i\": 3, \"value\": ' + '9' * 60000 + '}}')", SEND), "protocol"),
    Attack("forged surrogate", check("send('{{\"i\": 3, \"value\": {{\"kind\": \"Refuse\", \"reason\": \"\\\\ud800\", \"option\": \"x\"}}}}')", SEND), "contract"),
    Attack("forged length", check("send('x', 2 ** 32 - 1)", SEND), "output"),
    Attack("forged flood", check("while True: send('{{}}' * 1000)", SEND), "protocol"),
    Attack("half an answer", check("send('x', 100)\nwhile True: pass", SEND), "cpu timeout"),
    Attack("forged write by read", check("send('{{\"i\": 3, \"read\": \"cancel\", \"arguments\": {{}}}}')\nos.read(3, 9999)", SEND), "protocol"),
    Attack("forged read of nothing", check("send('{{\"i\": 3, \"read\": [1], \"arguments\": 7}}')\nos.read(3, 9999)", SEND), "protocol"),
    Attack("write tool by view._read", check("view._read('cancel', {{}})\n" + LEAK), "denied"),
    # determinism
    Attack("clock", check("import time, datetime\nview.policy = time.time()\ndatetime.datetime.now()"), "denied"),
    Attack("clock by datetime", check("import datetime\nreturn Refuse(str(datetime.datetime.now()), 'x')"), "denied"),
    *CLOCKS,
    Attack("entropy", check("import os\nos.urandom(8)\n" + LEAK), "denied error"),
]  # fmt: skip


# The same aims behind one line alone: what each is worth when all others fail.
ALONE = {
    "audit": ("static", "builtins", "seccomp"),
    "limits": ("static", "builtins", "audit", "seccomp"),
}
AIMS = {
    "read tasks": ("denied", "error"),  # a typed fault either way; without descriptors it is an OSError
    "read tasks by os.open": ("denied", "error"),
    "write a file": ("denied", "error"),
    "inet socket": ("denied", "error"),
    "unix socket": ("denied", "error"),
    "read /proc environ": ("denied", "error"),
    "fork": ("denied", "error"),
    "system": ("denied", "harmless"),
    "exec": ("denied", "exit error"),
    "spawn": ("denied", "error exit harmless"),
    "thread": ("denied error", "error"),  # the audit event came with 3.12
    "signal the host": ("denied", "denied"),
    "signal the server": ("denied", "denied"),
    "raise a limit": ("denied", "denied error"),
}


@pytest.fixture(scope="module")
def places() -> Iterator[dict[str, str]]:
    """What attackers aim at: the real tasks file, a folder that anyone may write to, this process."""
    out = Path(tempfile.mkdtemp(prefix="hostile"))
    out.chmod(0o777)
    (out / "victim").write_text("here")
    spec = importlib.util.find_spec("tau2")
    data = Path(next(iter(spec.submodule_search_locations or [])) if spec else "")
    tasks = data / "data/tau2/domains/airline/tasks.json"
    tasks = tasks if tasks.is_file() else out / "victim"  # τ² is an optional part
    os.environ["ECDYSIS_CANARY"] = CANARY
    yield {"tasks": str(tasks), "out": str(out), "parent": str(os.getpid())}
    del os.environ["ECDYSIS_CANARY"]
    shutil.rmtree(out)


def fill(source: str, places: dict[str, str]) -> str:
    """Put the targets in; doubled braces become single ones."""
    for name, value in places.items():
        source = source.replace("{" + name + "}", value)
    return source.replace("{{", "{").replace("}}", "}")


def build(folder: Path, files: dict[str, str], places: dict[str, str]) -> Harness:
    """A harness folder."""
    folder.mkdir(exist_ok=True)
    for name, source in files.items():
        (folder / f"{name}.py").write_text(fill(source, places))
    return load_harness(folder)


def play(host: Host) -> tuple[str, str]:
    """Run every hook twice, as an agent would; the first fault's kind (or "harmless"), and all that was said."""
    call, said, outcome = Call("cancel", {"id": "1"}, "c1"), [], "harmless"
    for act in (
        lambda: host.describe(TOOLS[0]),
        lambda: host.brief("Hi"),
        lambda: host.check(call, 9),
        lambda: host.observe(call, "ok", 9),
        lambda: host.on_reply("Done.", 9),
    ):
        for _ in range(2):
            try:
                said.append(repr(act()))
            except HarnessFault as fault:
                assert fault.kind and fault.hook and len(fault.message) < 1000
                outcome = fault.kind if outcome == "harmless" else outcome
                said.append(str(fault))
    return outcome, "\n".join(said)


@pytest.mark.parametrize("lines", LINES)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attacks_are_contained(attack: Attack, lines: str, places: dict[str, str], tmp_path: Path) -> None:
    written: list[str] = []

    def read(tool: str, _arguments: dict[str, Any]) -> Any:
        written.extend([tool] if tool != "get_user" else [])
        return {"ok": True}

    server = client.current().process.pid
    started = time.monotonic()
    with Host(build(tmp_path, attack.files, places), "p", TOOLS, read, LIMITS, LINES[lines]) as host:
        outcome, said = play(host)
    expected = {"all lines": attack.full, "past static": attack.inner, "kernel only": attack.kinds}[lines]
    assert outcome in expected.split(), said
    assert "LEAK" not in said and CANARY not in said
    assert written == []
    assert sorted(os.listdir(places["out"])) == ["victim"]
    assert time.monotonic() - started < 20
    assert client.current().process.pid == server, "the server is alive"
    well = build(tmp_path / "well", check("return Refuse('well', 'x')"), places)
    with Host(well, "p", TOOLS) as host:
        assert host.check(Call("c", {}), 1) == Refuse("well", "x")


@pytest.mark.parametrize("lines", ["all lines", "past static"])
@pytest.mark.parametrize("attack", ADDRESSED, ids=lambda attack: attack.name)
def test_addresses_and_made_classes_are_refused(
    attack: Attack, lines: str, places: dict[str, str], tmp_path: Path
) -> None:
    with Host(build(tmp_path, attack.files, places), "p", TOOLS, None, LIMITS, LINES[lines]) as host:
        outcome, said = play(host)
    assert outcome in (attack.full if lines == "all lines" else attack.inner).split() and "LEAK" not in said


STILL = """
import datetime
day = datetime.datetime.fromisoformat('2024-05-15T15:00:00')
said = [day.strftime('%a %d'), str(datetime.datetime.strptime('15 May', '%d %B').month), str(day.date() > datetime.date.min)]
said += [str(datetime.datetime.fromtimestamp(0)), str(hash('x')), str(hash((1, 'y'))), str(type(day))]
return Refuse(' | '.join(said), 'x')
"""


def test_given_times_still_convert(places: dict[str, str], tmp_path: Path) -> None:
    with Host(build(tmp_path, check(STILL), places), "p", TOOLS, None, LIMITS, ("static",)) as host:
        verdict = host.check(Call("c", {}), 1)
    assert isinstance(verdict, Refuse)
    assert verdict.reason.startswith("Wed 15 | 5 | True | 1970-01-01 00:00:00 | ")
    assert verdict.reason.endswith("<class 'datetime.datetime'>")


@pytest.mark.skipif(os.geteuid() != 0, reason="without root the user line has nothing to drop")
@pytest.mark.parametrize("line", ALONE)
@pytest.mark.parametrize("name", AIMS)
def test_single_lines_hold_alone(name: str, line: str, places: dict[str, str], tmp_path: Path) -> None:
    attack = next(attack for attack in ATTACKS if attack.name == name)
    with Host(build(tmp_path, attack.files, places), "p", TOOLS, None, LIMITS, ALONE[line]) as host:
        outcome, said = play(host)
    assert outcome in AIMS[name][list(ALONE).index(line)].split(), said
    assert "LEAK" not in said and CANARY not in said
    assert sorted(os.listdir(places["out"])) == ["victim"]


@pytest.mark.parametrize(
    "name", ["100 MB brief", "100 MB reason", "100 MB argument", "forged length", "forged flood"]
)
def test_large_answers_do_not_fill_the_host(name: str, places: dict[str, str], tmp_path: Path) -> None:
    attack = next(attack for attack in ATTACKS if attack.name == name)
    tracemalloc.start()
    try:
        with Host(
            build(tmp_path, attack.files, places), "p", TOOLS, None, HostLimits(), LINES["kernel only"]
        ) as host:
            outcome, _ = play(host)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcome in ("output", "memory", "protocol")
    assert peak < 3 * 2**20


def test_what_a_harness_computes_repeats(places: dict[str, str], tmp_path: Path) -> None:
    body = "import statistics\nwords = set('a quick brown fox jumps'.split())\n"
    body += "return Refuse(str([list(words), hash('x'), statistics.NormalDist().samples(3)]), 'x')"
    harness, seen = build(tmp_path, check(body), places), set()
    for _ in range(3):
        client._stop()  # another server: within one, any seed would repeat
        with Host(harness, "p", TOOLS, None, LIMITS, ("static",)) as host:
            seen.add(repr(host.check(Call("c", {}), 1)))
    assert len(seen) == 1 and "Refuse" in seen.pop()


@pytest.mark.parametrize("name", ["endless loop in check", "SystemExit"])
def test_a_real_trial_is_scored_and_holds_the_fault(
    name: str, places: dict[str, str], tmp_path: Path
) -> None:
    from ecdysis_lab.benchmarks import load_benchmark
    from ecdysis_lab.harness.rollout import Setup, run_trial

    attack = next(attack for attack in ATTACKS if attack.name == name)
    harness = build(tmp_path, attack.files, places)
    task = load_benchmark("tau2/airline").tasks("train", 1, 0)[0]
    left = run_trial(Setup("tau2/airline", "sim/large"), task, harness.path, 0)
    assert left.status == "scored" and left.score is not None
    assert left.faults and left.faults[0].rule in attack.full.split()
    assert left.faults[0].hook in ("check", "brief", "describe")


COUNTING = {
    "contract": "from ecdysis_lab.hooks import said\nf = said\n\n\ndef describe(tool):\n"
    "    f.seen = getattr(f, 'seen', 0) + 1\n"
    "    return {{**tool, 'description': tool['description'] + f' {{f.seen}}'}}\n",
    "actions": "from ecdysis_lab.hooks import Refuse, said\n\n\ndef check(call, view):\n"
    "    return Refuse(f'{{getattr(said, \"seen\", 0)}} seen.', 'Try again.')\n",
}


def test_the_first_trial_of_a_process_is_like_the_next(places: dict[str, str], tmp_path: Path) -> None:
    """What ``describe`` leaves on a function that the layers share is there in every trial, and only in that trial."""
    from ecdysis_lab.benchmarks import load_benchmark
    from ecdysis_lab.harness.rollout import Setup, run_trial

    harness = build(tmp_path, COUNTING, places)
    bench = load_benchmark("tau2/airline")
    task = bench.tasks("train", 1, 0)[0]
    first, second = (run_trial(Setup("tau2/airline", "sim/large"), task, harness.path, 0) for _ in range(2))
    assert first.context == second.context and first.shown == second.shown
    assert any(f"{len(bench.tools)} seen." in (m.content or "") for m in second.context)
