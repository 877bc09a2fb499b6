"""The lines that a worker draws around itself before it loads harness code, kernel lines first.

Standard library only: this runs inside the sandbox process, which does not load the rest of the package.
"""

from __future__ import annotations

import builtins
import ctypes
import datetime
import functools
import gc
import os
import random
import resource
import signal
import struct
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CHANNEL = 3
_LINUX = sys.platform == "linux"
ALLOWED = _words(
    "__future__ collections collections.abc dataclasses datetime decimal fractions functools itertools json"
    " math re statistics string textwrap typing unicodedata"
)
_BEHIND_DATETIME = {"time": ("strftime",), "_strptime": ("_strptime_datetime",)}  # it imports them when asked
OURS = ("hooks",)  # rooms of ecdysis_lab that harness code may import as well
_NO_BUILTIN = _words(
    "open exec eval compile __import__ globals locals vars breakpoint input help exit quit memoryview setattr"
    " delattr id dir __loader__ __spec__"
)
_NO_MEMBER = _words("get_type_hints ForwardRef make_dataclass singledispatch singledispatchmethod Formatter")
_AUDIT_OK = _words(
    "exec compile import builtins.id code.__new__ function.__new__ sys._getframe"
    " object.__getattr__ object.__setattr__ object.__delattr__"
)
_ARCH: dict[str, tuple[int, int, int, tuple[int, ...]]] = {
    # audit number, mmap, mprotect; then read write munmap brk rt_sigprocmask rt_sigreturn sched_yield mremap
    # madvise getpid gettid exit exit_group futex restart_syscall clock_gettime gettimeofday
    "x86_64": (0xC000003E, 9, 10, (0, 1, 11, 12, 14, 15, 24, 25, 28, 39, 186, 60, 231, 202, 219, 228, 96)),
    "aarch64": (
        0xC00000B7, 222, 226, (63, 64, 215, 214, 135, 139, 124, 216, 233, 172, 178, 93, 94, 98, 128, 113, 169)
    ),
}  # fmt: skip


def confine(limits: dict[str, int], without: list[str], server: int) -> dict[str, str]:
    """Shut this process in.

    Returns
    -------
    Name of each line -> why it is missing, or an empty string where it holds.
    """
    lines: dict[str, str] = {"builtins": "", "audit": "", "clock": _clock_runs}
    cpu = limits["total_cpu_seconds"]
    for line, kind, value in (
        ("core", resource.RLIMIT_CORE, 0),
        ("cpu", resource.RLIMIT_CPU, cpu),
        ("memory", resource.RLIMIT_AS, _address_space() + limits["memory_bytes"]),
        ("files", resource.RLIMIT_FSIZE, 0),
        ("descriptors", resource.RLIMIT_NOFILE, CHANNEL + 1),
        ("processes", resource.RLIMIT_NPROC, 0),
    ):
        try:
            # CPU: with a hard limit above the soft one the end comes as SIGXCPU, not as anybody's SIGKILL.
            resource.setrlimit(kind, (value, value + 5 if kind == resource.RLIMIT_CPU else value))
            lines[line] = ""
        except (OSError, ValueError) as error:
            lines[line] = str(error)
    if not _LINUX:
        lines["memory"] = "this platform does not enforce RLIMIT_AS"
    lines["user"] = _drop_root()
    lines["parent"] = _prctl(1, signal.SIGKILL)  # after setuid, which clears it
    if os.getppid() != server:
        os._exit(71)
    if "seccomp" not in without:
        lines["seccomp"] = _seccomp()
    if "audit" not in without:
        sys.addaudithook(_audit)
    lines.update(dict.fromkeys(without, "switched off by the caller"))
    return lines


def _drop_root() -> str:
    """Become nobody: root ignores RLIMIT_NPROC and could signal any process."""
    if os.geteuid() != 0:
        return ""
    try:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    except OSError as error:
        return f"runs as root: {error}"
    return ""


def _address_space() -> int:
    """Bytes of address space that this process has mapped."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") if _LINUX else 0


def _prctl(option: int, *arguments: Any) -> str:
    if not _LINUX:
        return f"no prctl on {sys.platform}"
    try:
        libc = ctypes.CDLL(None, use_errno=True)
    except OSError as error:
        return str(error)
    padded = [
        a if isinstance(a, ctypes.Array) or not isinstance(a, int) else ctypes.c_ulong(a) for a in arguments
    ]
    padded += [ctypes.c_ulong(0)] * (4 - len(padded))
    return "" if libc.prctl(ctypes.c_int(option), *padded) == 0 else os.strerror(ctypes.get_errno())


def _seccomp() -> str:
    """Allow the system calls that computing and answering need; refuse others, and executable memory."""
    machine = os.uname().machine
    if not _LINUX or machine not in _ARCH:
        return f"no filter for {sys.platform} on {machine}"
    arch, mmap, mprotect, allowed = _ARCH[machine]
    load, equal, any_bit, answer = 0x20, 0x15, 0x45, 0x06
    refuse, allow, kill = 0x00050000 | 1, 0x7FFF0000, 0x80000000  # errno EPERM, allow, kill the process
    n = len(allowed)
    program = [(load, 0, 0, 4), (equal, 1, 0, arch), (answer, 0, 0, kill), (load, 0, 0, 0)]
    program += [(equal, n - i + 4, 0, number) for i, number in enumerate(allowed)]
    program += [(equal, 2, 0, mmap), (equal, 1, 0, mprotect), (answer, 0, 0, refuse)]
    program += [(load, 0, 0, 32), (any_bit, 1, 0, 4), (answer, 0, 0, allow), (answer, 0, 0, refuse)]
    code = b"".join(struct.pack("HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(code)
    header = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(buffer))
    return _prctl(38, 1) or _prctl(22, 2, ctypes.create_string_buffer(header))


def _audit(event: str, _arguments: tuple[Any, ...]) -> None:
    if event not in _AUDIT_OK:
        raise PermissionError(f"the sandbox does not allow {event}")


_clock_runs = "it was not stopped"


def steady() -> None:
    """Leave this process no clock and no fresh randomness, whoever asks and by whatever name.

    Classes of C code take no new attributes, so their dictionaries are changed. What converts a given time stays.
    """
    global _clock_runs
    clocks = {name: getattr(time, name) for name in _CLOCKS if hasattr(time, name)}
    stopped = {id(real): _needs_time(real, _CLOCKS[name]) for name, real in clocks.items()}
    for module in [m for m in sys.modules.values() if isinstance(m, types.ModuleType)]:
        vars(module).update({name: stopped[id(v)] for name, v in vars(module).items() if id(v) in stopped})
    random.Random.seed = functools.partialmethod(_seed, random.Random.seed)  # type: ignore[method-assign, assignment]
    try:
        for kind in (datetime.date, datetime.datetime):
            inside = gc.get_referents(vars(kind))[0]
            inside.update(
                (name, classmethod(_refuse)) for name in ("now", "today", "utcnow") if name in inside
            )
            ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
        _clock_runs = ""
    except (AttributeError, IndexError, TypeError) as error:
        _clock_runs = f"the clock of datetime cannot be stopped: {error}"


_CLOCKS = dict.fromkeys(
    _words(
        "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns"
        " thread_time thread_time_ns clock_gettime clock_gettime_ns clock_getres get_clock_info"
    ),
    99,
) | {"localtime": 1, "gmtime": 1, "ctime": 1, "asctime": 1, "strftime": 2}
"""Functions of ``time`` that read the clock, and with how many arguments they do not."""


def _needs_time(real: Callable[..., Any], count: int) -> Callable[..., Any]:
    def given(*arguments: Any) -> Any:
        return real(*arguments) if len(arguments) >= count and None not in arguments else _refuse()

    return given


def _seed(self: Any, real: Callable[..., None], value: Any = None, *version: Any) -> None:
    real(self, 0 if value is None else value, *version)


def _refuse(*_given: Any, **_named: Any) -> NoReturn:
    raise PermissionError("there is no clock here, since trials must repeat; take times from the view")


def _facade(name: str) -> types.ModuleType:
    """A copy of a module with its public names only, so that nothing leads further and no change sticks."""
    shown = types.ModuleType(name)
    for key, value in vars(sys.modules[name]).items():
        if not key.startswith("_") and key not in _NO_MEMBER and not isinstance(value, types.ModuleType):
            setattr(shown, key, value)
    return shown


def safe_builtins() -> dict[str, Any]:
    """Builtins without evaluators and file access, with an import of allowed modules only."""
    modules = {name: _facade(name) for name in (*ALLOWED, *(f"ecdysis_lab.{name}" for name in OURS))}
    modules["ecdysis_lab"] = types.ModuleType("ecdysis_lab")
    vars(modules["ecdysis_lab"]).update((name, modules[f"ecdysis_lab.{name}"]) for name in OURS)
    vars(modules["collections"])["abc"] = modules["collections.abc"]
    vars(modules["__future__"]).update(vars(sys.modules["__future__"]))

    for name, wants in _BEHIND_DATETIME.items():
        modules[name] = types.ModuleType(name)
        vars(modules[name]).update((want, getattr(sys.modules[name], want)) for want in wants)

    def guarded_import(name: str, _g: Any = None, _l: Any = None, wanted: Any = (), level: int = 0) -> Any:
        if level or name not in modules:
            raise PermissionError(f"import of {name!r} is not allowed")
        return modules[name] if wanted else modules[name.partition(".")[0]]

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def look_up(thing: Any, name: str, *default: Any) -> Any:
            if type(name) is not str or name.startswith("_"):
                raise PermissionError(f"attribute {name!r} is private")
            return real(thing, name, *default)

        return look_up

    def kind_of(thing: Any, *more: Any) -> type:
        kind = builtins.type(thing)
        if more or issubclass(kind, builtins.type):
            raise PermissionError("type takes one thing that is no class")
        return kind

    by_address: Any = object.__hash__

    def value_hash(thing: Any) -> int:
        if builtins.type(thing).__hash__ is by_address:
            raise PermissionError("the hash of an object is its address, and trials must repeat")
        return hash(thing)

    shown = {name: value for name, value in vars(builtins).items() if name not in _NO_BUILTIN}
    guards: dict[str, Any] = {
        "getattr": guarded(getattr),
        "hasattr": guarded(hasattr),
        "type": kind_of,
        "hash": value_hash,
    }
    return {**shown, **guards, "__import__": guarded_import}
