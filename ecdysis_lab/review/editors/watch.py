"""Runs a program under a wall-clock limit and hands out its lines as they come; nothing of it stays behind.

A :mod:`~ecdysis_lab.review.editors.keeper` between this process and the program ends all that the program started, also
when this process is killed.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

MAX_LINE_CHARS = 4_000_000
KEEPER = Path(__file__).with_name("keeper.py")
END_SECONDS = 5.0


@dataclass(frozen=True)
class Line:
    """A line of output, or (``end``) why the program ended; an empty text there means exit code 0."""

    source: Literal["stdout", "stderr", "end"]
    text: str


def watched(
    command: list[str], cwd: Path, env: dict[str, str], timeout_seconds: float
) -> Generator[Line, None, None]:
    """Run a program with its stdin closed and yield its lines, the ``end`` line last.

    However the iteration ends (exit, time limit, the caller leaves, or dies), whatever the program started is killed.

    Parameters
    ----------
    command, cwd, env : as for ``subprocess``; ``env`` is the whole environment.
    timeout_seconds : wall clock until it is killed.
    """
    deadline = time.monotonic() + timeout_seconds
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(KEEPER), *command],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    lines: queue.Queue[Line | None] = queue.Queue()
    assert process.stdout is not None and process.stderr is not None
    readers = [
        threading.Thread(target=_read, args=(process.stdout, "stdout", lines), daemon=True),
        threading.Thread(target=_read, args=(process.stderr, "stderr", lines), daemon=True),
    ]
    try:
        for reader in readers:
            reader.start()
        yield from _until(lines, deadline)
        code = process.wait(max(0.1, deadline - time.monotonic()))
        yield Line("end", f"exit code {code}" if code else "")
    except (queue.Empty, subprocess.TimeoutExpired):
        yield Line("end", f"no end within {timeout_seconds:g} s; it was stopped")
    finally:
        _end(process)
        for reader in readers:
            reader.join(5)


def _until(lines: queue.Queue[Line | None], deadline: float) -> Iterator[Line]:
    """Lines until both streams are closed; ``queue.Empty`` at the deadline."""
    open_streams = 2
    while open_streams:
        line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        if line is None:
            open_streams -= 1
        else:
            yield line


def _read(stream: IO[str], source: Literal["stdout", "stderr"], lines: queue.Queue[Line | None]) -> None:
    with stream:
        for text in iter(lambda: stream.readline(MAX_LINE_CHARS), ""):
            lines.put(Line(source, text.rstrip("\n")))
    lines.put(None)


def _end(process: subprocess.Popen[str]) -> None:
    """Let the keeper end what is left; kill it where it does not."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
