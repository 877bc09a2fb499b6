"""Process 1 of a box: runs scripts one after the other, limits their time and memory, and reaps what they leave.

Never imported: its text is what the box starts, so it needs nothing but the standard library of Python 3.9. One JSON
object a line on standard input, ``{"argv": [...] or null, "script": text, "seconds": float}``; one a line on standard
output, ``{"output": text of Latin-1, "exit": code or null, "ended": "", "time" or "memory"}``. Without ``argv`` the
script runs in one shell that all scripts share: directory, variables and background processes stay.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

MOST_BYTES = 65536
MOST_MEMORY = int(sys.argv[1])  # bytes, resident, of all processes together
LOOK_SECONDS = 0.2
PAGE = os.sysconf("SC_PAGE_SIZE")
SHELL = 'while IFS= read -r -d "" -u {0} __script; do eval "$__script" {0}<&- {1}>&-; printf . >&{1}; done'
ended: dict[int, int] = {}  # process -> status
shell: dict[str, int] = {}


def _pids() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()} - {1}


def _memory() -> int:
    total = 0
    for pid in _pids():
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm") as told:
            total += int(told.read().split()[1]) * PAGE
    return total


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]


def _kill(chosen: set[int]) -> None:
    """End these processes; where others spring up meanwhile, all."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in chosen:
            with contextlib.suppress(OSError):
                os.kill(pid, number)


def _kill_all() -> None:
    for _ in range(40):
        with contextlib.suppress(OSError):
            os.kill(-1, signal.SIGKILL)  # in one go: nothing can fork meanwhile
        time.sleep(0.05)
        _reap()
        if not _pids():
            return


def _spawn(argv: list[str], out: int, keep: tuple[int, ...] = ()) -> int:
    """Start a process of a session of its own; a machine without room for it is emptied first."""
    for again in (True, False):
        try:
            made = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=keep, start_new_session=True
            )
        except BlockingIOError:
            if not again:
                raise
            _kill_all()
            continue
        made.returncode = 0  # reaped here, not there
        return made.pid
    raise AssertionError


def _new_shell() -> None:
    for end in ("out", "done", "scripts"):
        if end in shell:
            os.close(shell.pop(end))
    (read, write), (scripts, to_shell), (done, at_end) = os.pipe(), os.pipe(), os.pipe()
    pid = _spawn(["bash", "-c", SHELL.format(scripts, at_end)], write, (scripts, at_end))
    for unused in (write, scripts, at_end):
        os.close(unused)
    shell.update(pid=pid, out=read, done=done, scripts=to_shell)


def _collect(out: int, is_over: Callable[[], bool], seconds: float) -> tuple[bytes, str]:
    """(bytes that came out, why it was ended): first bytes only, the rest is read and dropped."""
    got, until, look = bytearray(), time.monotonic() + seconds, 0.0
    while True:
        over = is_over()  # before the last read, so that nothing is missed
        readable = select.select([out], [], [], 0 if over else 0.005)[0]
        part = os.read(out, MOST_BYTES) if readable else b""
        got += part[: MOST_BYTES - len(got)]
        now = time.monotonic()
        if over and (not part or now > until):
            return bytes(got), ""
        if now > until:
            return bytes(got), "time"
        if readable and not part:  # its end was closed early
            time.sleep(0.005)
        if now > look:
            look = now + LOOK_SECONDS
            if _memory() > MOST_MEMORY:
                return bytes(got), "memory"


def _run(request: dict[str, Any]) -> dict[str, Any]:
    argv, before = request["argv"], _pids()
    if argv is None:
        _reap()
        if shell.get("pid") is None or shell["pid"] in ended:
            _new_shell()
        with contextlib.suppress(BrokenPipeError):
            os.write(shell["scripts"], request["script"].replace("\0", "").encode() + b"\0")
        pid, out = shell["pid"], shell["out"]
    else:
        out, write = os.pipe()
        pid = _spawn(argv, write)
        os.close(write)

    def over() -> bool:
        _reap()
        return pid in ended or (argv is None and bool(select.select([shell["done"]], [], [], 0)[0]))

    got, why = _collect(out, over, request["seconds"])
    if argv is None and not why and pid not in ended:
        os.read(shell["done"], 4096)
    if why:
        _stop(why, before, pid)
    if argv is not None:
        os.close(out)
    status = ended.get(pid)
    code = None if status is None else os.waitstatus_to_exitcode(status)
    return {"output": got.decode("latin-1"), "exit": code, "ended": why}


def _stop(why: str, before: set[int], pid: int) -> None:
    """End what a script has started, itself included; everything where that is not enough."""
    _kill((_pids() - before) | {pid})
    time.sleep(0.05)
    _reap()
    if why == "memory" or _pids() - before:
        _kill_all()


def _main() -> None:
    ctypes.CDLL(None).prctl(4, 0)  # not dumpable: no other process reads or traces this one
    for number in (signal.SIGPIPE, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    _send({"ready": True})
    buffer = b""
    while True:
        while b"\n" not in buffer:
            if select.select([0], [], [], LOOK_SECONDS)[0]:
                part = os.read(0, MOST_BYTES)
                if not part:
                    return
                buffer += part
            else:
                _reap()
                if _memory() > MOST_MEMORY:
                    _kill_all()
        line, _, buffer = buffer.partition(b"\n")
        try:
            answer = _run(json.loads(line))
        except OSError as why:  # no bash, no python any more: the trial has removed it
            answer = {"output": str(why), "exit": 127, "ended": ""}
        _send(answer)


def _send(answer: dict[str, Any]) -> None:
    left = json.dumps(answer).encode() + b"\n"
    while left:
        left = left[os.write(1, left) :]


_main()
