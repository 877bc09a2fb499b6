"""Our end of one worker's pipe: framing, limits on time and size, and the fault that a breach becomes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ecdysis_lab.harness.sandbox import client
from ecdysis_lab.records import LAYER_FILES

_SLICE_SECONDS = 0.05
_WORKER_KINDS = frozenset({"error", "contract", "denied", "recursion", "output", "exit", "memory"})


class HarnessFault(Exception):
    """A breach by harness code.

    Parameters
    ----------
    kind : ``static``, ``error``, ``contract``, ``denied``, ``recursion``, ``output``, ``exit``, ``memory``,
        ``timeout`` (wall clock), ``cpu``, ``reads`` or ``protocol``.
    hook : hook that ran, or ``"load"``.
    file, line : place in the harness, where known (else an empty string and 0).
    message : what happened, for a person.
    """

    def __init__(self, kind: str, hook: str, file: str, line: int, message: str) -> None:
        super().__init__(kind, hook, file, line, message)
        self.kind, self.hook, self.file, self.line, self.message = kind, hook, file, line, message

    def __str__(self) -> str:
        where = f" at {self.file}:{self.line}" if self.file else ""
        return f"{self.kind} fault in {self.hook}{where}: {self.message}"


@dataclass(frozen=True)
class HostLimits:
    """Limits of one worker.

    Parameters
    ----------
    wall_seconds, cpu_seconds : per hook call (and for loading); time inside ``view.read`` does not count.
    total_cpu_seconds : per trial.
    memory_bytes : what the worker may allocate beyond what it starts with.
    output_bytes : size of one answer.
    reads : ``view.read`` calls per hook call.
    """

    wall_seconds: float = 10.0
    cpu_seconds: float = 2.0
    total_cpu_seconds: int = 120
    memory_bytes: int = 256 * 1024 * 1024
    output_bytes: int = 256 * 1024
    reads: int = 200


class Worker:
    """One worker process and the framing of its pipe."""

    def __init__(self, limits: HostLimits) -> None:
        self.limits = limits
        self.sequence = 0
        self._unread = bytearray()
        self.channel, theirs = socket.socketpair()
        self.channel.settimeout(_SLICE_SECONDS)
        self.server = client.current()
        with theirs:
            self.pid = self.server.fork(theirs)
        self._finalizer = weakref.finalize(self, _abandon, self.server, self.pid, self.channel)

    def ask(self, hook: str, message: dict[str, Any], answer_read: Callable[[str, Any], Any]) -> Any:
        """One request and its answer; ``read`` requests in between are answered on the way.

        Raises
        ------
        HarnessFault: of any kind but ``static``.
        """
        self.sequence += 1
        self.hook, self.deadline = hook, time.monotonic() + self.limits.wall_seconds
        self.cpu_start = _cpu_seconds(self.pid)
        self._send({**message, "i": self.sequence})
        for _ in range(self.limits.reads + 1):
            answer = self._receive()
            if "read" not in answer:
                return self._value(answer)
            started = time.monotonic()
            reply = answer_read(answer["read"], answer.get("arguments"))
            self.deadline += time.monotonic() - started
            self._send(reply)
        raise self.fault("reads", f"more than {self.limits.reads} view.read calls in one hook call")

    def fault(self, kind: str, message: str) -> HarnessFault:
        """A fault that ends this worker."""
        self.close()
        return HarnessFault(kind, self.hook, "", 0, message)

    def close(self) -> None:
        """Kill the worker's process group and wait for it."""
        if self._finalizer.detach():
            self.channel.close()
            with contextlib.suppress(client.HostError):  # the server is gone, and its workers with it
                self.server.reap(self.pid, grace=0.0)

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        return self._finalizer.alive

    def _value(self, answer: dict[str, Any]) -> Any:
        problem = answer.get("fault")
        if problem is None:
            return answer.get("value")
        if not isinstance(problem, dict):
            raise self.fault("protocol", "malformed answer")
        kind, file = str(problem.get("kind")), str(problem.get("file", ""))
        line = problem.get("line")
        if kind not in _WORKER_KINDS or (file and file not in LAYER_FILES.values()):
            raise self.fault("protocol", "malformed answer")
        if kind == "memory":  # nothing that follows could be trusted to have been computed in full
            self.close()
        text = str(problem.get("message", "")).encode("utf-8", "replace").decode()[:600]
        raise HarnessFault(kind, self.hook, file, line if isinstance(line, int) else 0, text)

    def _send(self, message: dict[str, Any]) -> None:
        left = memoryview(_frame(message))
        while left:
            try:
                left = left[self.channel.send(left) :]
            except TimeoutError:
                self._check_time()
            except OSError:
                raise self._died() from None

    def _receive(self) -> dict[str, Any]:
        frame = self._at_least(4, self._unread)
        length = int.from_bytes(frame[:4], "big")
        if length > self.limits.output_bytes + 4096:  # room for the envelope
            raise self.fault(
                "output", f"an answer of {length} bytes; the limit is {self.limits.output_bytes}"
            )
        data = self._at_least(4 + length, frame)
        self._unread = data[4 + length :]  # a forged answer: the next question will find it
        try:
            message = _DECODER.decode(data[4 : 4 + length].decode())
        except (ValueError, RecursionError) as error:
            raise self.fault("protocol", f"an answer that is not JSON: {str(error)[:200]}") from None
        if not isinstance(message, dict) or message.get("i") != self.sequence:
            raise self.fault("protocol", "an answer that nothing asked for")
        return message

    def _at_least(self, count: int, parts: bytearray) -> bytearray:
        """``parts``, grown until it holds ``count`` bytes, or more where more was sent."""
        while len(parts) < count:
            try:
                part = self.channel.recv(1 << 16)
            except TimeoutError:
                part = None
            except OSError:
                raise self._died() from None
            if part is not None:
                if not part:
                    raise self._died()
                parts += part
            if len(parts) < count:
                self._check_time()
        return parts

    def _check_time(self) -> None:
        if _cpu_seconds(self.pid) - self.cpu_start > self.limits.cpu_seconds:
            raise self.fault("cpu", f"more than {self.limits.cpu_seconds:g} s of CPU time")
        if time.monotonic() > self.deadline:
            raise self.fault("timeout", f"no answer within {self.limits.wall_seconds:g} s")

    def _died(self) -> HarnessFault:
        """Why the pipe closed, from the wait status."""
        self._finalizer.detach()
        self.channel.close()
        status = self.server.reap(self.pid, grace=0.5)
        if status == -1:
            raise client.HostError("the worker was lost")
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if (
                number == signal.SIGKILL
            ):  # seccomp keeps a harness from sending signals; we had not sent this one
                raise client.HostError("a sandbox worker was killed from outside (out of memory?)")
            kind = "cpu" if number == signal.SIGXCPU else "exit"
            return HarnessFault(
                kind, self.hook, "", 0, f"the worker was ended by {signal.Signals(number).name}"
            )
        code = os.WEXITSTATUS(status)
        return HarnessFault("exit", self.hook, "", 0, f"the worker ended itself with exit status {code}")


def _abandon(server: client.ForkServer, pid: int, channel: socket.socket) -> None:
    channel.close()
    server.release(pid)


def _frame(message: dict[str, Any]) -> bytes:
    data = json.dumps(message, default=str).encode()
    return len(data).to_bytes(4, "big") + data


def _cpu_seconds(pid: int) -> float:
    """CPU time of another process (Linux: its clock's id is the complement of the pid); 0.0 where unknown."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except (OSError, AttributeError):
        return 0.0


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
