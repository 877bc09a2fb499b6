"""Our end of the fork server: one server per process, started when first needed."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from ecdysis_lab.harness.sandbox import REPLY, REQUEST
from ecdysis_lab.models.errors import TransientError


class HostError(TransientError):
    """The sandbox itself could not run; infrastructure, not the harness's doing: the trial is tried again."""


class ForkServer:
    """The fork server as its parent sees it; safe to share between threads."""

    def __init__(self) -> None:
        if os.name != "posix" or not sys.executable:
            raise HostError("harness code needs a POSIX system and a Python executable to run out of process")
        self.lock = threading.Lock()
        self.broken = False
        self._doomed: deque[int] = deque()
        self.control, theirs = socket.socketpair()
        script = str(Path(__file__).with_name("server.py"))
        flags = ["-s", "-S", "-B", "-P"]  # not -I: it would ignore PYTHONHASHSEED
        environment = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
        if "LD_LIBRARY_PATH" in os.environ:  # some interpreters do not start without it
            environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, *flags, script, str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd="/",
                start_new_session=True,  # Ctrl-C in a terminal or notebook is for us
            )

    def fork(self, channel: socket.socket) -> int:
        """Process id of a new worker on ``channel``."""
        pid = self._ask(b"F", 0, 0.0, channel)
        if pid <= 0:
            raise HostError(f"cannot fork a worker: {os.strerror(-pid)}")
        return pid

    def reap(self, pid: int, grace: float) -> int:
        """Wait status of a worker, killed after ``grace`` seconds."""
        return self._ask(b"R", pid, grace)

    def release(self, pid: int) -> None:
        """Kill a forgotten worker, at the latest with the next exchange.

        It never waits: garbage collection may call it in the middle of an exchange of this very thread.
        """
        self._doomed.append(pid)
        if self.lock.acquire(blocking=False):
            try:
                self._bury()
            except OSError:
                self.broken = True  # the server is gone, and its workers with it
            finally:
                self.lock.release()

    def _bury(self) -> None:
        while self._doomed:
            self._exchange(REQUEST.pack(b"R", self._doomed.popleft(), 0.0))

    def _ask(self, operation: bytes, pid: int, grace: float, channel: socket.socket | None = None) -> int:
        try:
            with self.lock, self._whole_exchange():
                value = self._exchange(REQUEST.pack(operation, pid, grace), channel)
                self._bury()
        except OSError as error:
            raise HostError(f"the sandbox server is gone: {error}") from error
        return value

    def _exchange(self, request: bytes, channel: socket.socket | None = None) -> int:
        if channel is not None:
            socket.send_fds(self.control, [request], [channel.fileno()])
        else:
            self.control.sendall(request)
        answer = self.control.recv(REPLY.size, socket.MSG_WAITALL)
        if len(answer) < REPLY.size:
            raise ConnectionResetError("end of file")
        value: int = REPLY.unpack(answer)[0]
        return value

    @contextlib.contextmanager
    def _whole_exchange(self) -> Iterator[None]:
        """Drop the server when an exchange breaks off (Ctrl-C): its answer would be taken for the next."""
        try:
            yield
        except BaseException:
            self.broken = True
            self.control.close()
            raise

    def stop(self) -> None:
        """Let it end, with all its workers."""
        self.control.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


_servers: dict[int, ForkServer] = {}
_guard = threading.Lock()


def current() -> ForkServer:
    """The fork server of this very process, started when first needed; a forked child gets its own."""
    with _guard:
        server = _servers.get(os.getpid())
        if server is None or server.broken or server.process.poll() is not None:
            server = _servers[os.getpid()] = ForkServer()
        return server


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()
    for server in _servers.values():
        server.control.close()
        server.process.returncode = 0  # not our child: keep Popen from waiting for it
    _servers.clear()


def _stop() -> None:
    server = _servers.pop(os.getpid(), None)
    if server is not None:
        server.stop()


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
