"""The fork server: a small warm process, one per parent process, that forks a fresh worker per trial.

``client.ForkServer`` starts this file as a script, standard library only, with an empty environment. The
server holds no secrets and never touches harness code. It ends, with its workers, when its parent does.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path

# What allowed modules import only when first used.
_LAZY = (
    "_strptime",
    "calendar",
    "locale",
    "encodings.idna",
    "encodings.ascii",
    "encodings.latin_1",
    "bisect",
)


def serve(parent: int) -> None:
    """Answer fork and reap requests on file descriptor 0 until the parent goes away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=0)
    work, request, reply = _preload()
    children: set[int] = set()
    poll = select.poll()
    poll.register(0, select.POLLIN)
    try:
        while os.getppid() == parent:  # a copy of the socket in some forked process must not keep us alive
            if not poll.poll(1000):
                continue
            message, fds, _, _ = socket.recv_fds(control, request.size, 1)
            if not message:
                return
            operation, pid, grace = request.unpack(message)
            answer = _fork(fds[0], work, children) if operation == b"F" else _reap(pid, grace, children)
            control.sendall(reply.pack(answer))
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def _preload() -> tuple[Callable[[int, int], None], struct.Struct, struct.Struct]:
    """Import everything that a worker may need, as no file can be opened later."""
    packages = {"ecdysis_lab": 2, "ecdysis_lab.harness": 1}  # their own __init__ stay out
    for name, up in packages.items():
        package = types.ModuleType(name)
        package.__path__ = [str(Path(__file__).parents[up])]
        sys.modules[name] = package
    from ecdysis_lab.harness.sandbox import REPLY, REQUEST, lines, worker

    for name in (*lines.ALLOWED, *_LAZY, *(f"ecdysis_lab.{name}" for name in lines.OURS)):
        importlib.import_module(name)
    warnings.simplefilter("ignore")  # showing one would open files
    for name in packages:
        sys.modules[name].__path__ = []
    lines.steady()
    gc.freeze()
    return worker.main, REQUEST, REPLY


def _fork(channel: int, work: Callable[[int, int], None], children: set[int]) -> int:
    """Process id of a new worker on ``channel``, or a negative errno."""
    server = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(channel)
        return -(error.errno or 1)
    if pid == 0:
        try:
            work(channel, server)
        finally:
            os._exit(70)
    os.close(channel)
    children.add(pid)
    return pid


def _reap(pid: int, grace: float, children: set[int]) -> int:
    """Wait ``grace`` seconds for the end of a child, then kill it; its wait status, or -1 if not ours."""
    if pid not in children:
        return -1
    children.discard(pid)
    done, status = os.waitpid(pid, os.WNOHANG)
    while not done and grace > 0:
        select.select([], [], [], 0.005)
        grace -= 0.005
        done, status = os.waitpid(pid, os.WNOHANG)
    if not done:
        for kill in (os.killpg, os.kill):
            try:
                kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it has no group of its own yet
        _, status = os.waitpid(pid, 0)
    return status


if __name__ == "__main__":
    serve(int(sys.argv[1]))
