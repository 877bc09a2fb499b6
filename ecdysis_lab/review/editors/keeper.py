"""Runs a program and takes everything that it started along when it ends, or when its starter does.

Started as a script, ``python -I -S keeper.py PROGRAM ARGUMENTS…``, with the starter's end of a pipe as stdin: the pipe
closes when the starter says so or dies, by SIGKILL too. Descendants that left the process group (``setsid``) come back
to this process when their parent ends, and are found by their parents.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
POLL_SECONDS, END_SECONDS = 0.05, 4.0


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # Linux only
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _descendants() -> list[int]:
    """Processes below this one, by ``/proc``; none where there is no ``/proc``."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found, todo = [], [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the child's group and every descendant until none is left, or for ``END_SECONDS``."""
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    until = time.monotonic() + END_SECONDS
    while (left := _descendants()) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def main(command: list[str]) -> int:
    """Run the program until it ends or stdin does; its exit code, or 128 and the signal that ended it."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=lambda: _prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
        )  # fmt: skip
    except OSError as why:
        sys.stderr.write(f"{command[0]}: {why}\n")
        return 127
    while child.poll() is None and not select.select([0], [], [], POLL_SECONDS)[0]:
        pass
    code = child.poll()
    _end(child)
    return 0 if code is None else code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
