"""A machine for one trial: bubblewrap, with the host's system below and all that is written in memory.

The box sees /usr, /etc and /var of the host through an overlay, and empty /root, /home and /tmp; every write goes to
one tmpfs of limited size, which ends with the box. It has namespaces of its own for users, processes, network, IPC,
host name and cgroups, no capabilities, no way to more namespaces, and a filter of system calls (:mod:`box_calls`). No
version of bubblewrap puts a size on its overlays, and many have none, so a few lines of shell in an outer namespace
mount them.

The user is root inside, and on the host the one who runs the lab, or ``nobody`` where root does: what only root reads
stays unread, and the kernel limits the number of processes of everybody but root. Folders that this user may not read
are not there. So tasks that need a second user, or to change files that packages own, cannot be done here.

Not covered: weaknesses of the kernel; buffers of sockets, which no limit counts (some 200 KB a socket). What
everybody may read in the host's /usr, /etc and /var an agent may read, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ecdysis_lab.benchmarks.agentbench import box_calls
from ecdysis_lab.records import LabError

DISK_BYTES, MEMORY_BYTES = 256 << 20, 1 << 30
FILES, PROCESSES, CPU_SECONDS = 100_000, 128, 120
START_SECONDS, GRACE_SECONDS = 20.0, 5.0
MOST_LINE = 1 << 20
NOBODY = 65534
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INIT = Path(__file__).with_name("box_init.py")
GONE = "the machine has gone down"
MOUNTS = f"""
set -e
cd /tmp
mount -t tmpfs -o size={DISK_BYTES},nr_inodes={FILES},mode=755 box /tmp
cd /tmp
mkdir new up work
cd new
mkdir root home tmp run mnt media opt srv proc dev
chmod 700 root; chmod 1777 tmp
for name in usr etc var bin sbin lib lib32 lib64 libx32; do
    if [ -L /$name ]; then cp -d /$name .
    elif [ -d /$name ]; then
        mkdir $name ../work/$name ../up/$name
        (cd /$name && find . -mindepth 1 -maxdepth 2 -type d ! -name '*.d' -print0 2>/dev/null || true) |
            (cd ../up/$name && xargs -0 -r mkdir -p)
    fi
done
cp /etc/passwd /etc/group ../up/etc/
while IFS= read -r path; do
    [ -n "$path" ] || continue
    mkdir -p "../up${{path%/*}}" && rm -rf "../up$path" && mknod "../up$path" c 0 0
done <<< "$2"
chmod 1777 ../up/var/tmp
for name in *; do
    if [ -d ../work/$name ]; then
        mount -t overlay -o lowerdir=/$name,upperdir=/tmp/up/$name,workdir=/tmp/work/$name,userxattr box $name
    fi
done
echo 1000 > /proc/self/oom_score_adj
ulimit -u {PROCESSES} -v {MEMORY_BYTES >> 10} -f {DISK_BYTES >> 10} -t {CPU_SECONDS} -n 1024 -c 0
exec bwrap --bind /tmp/new / --proc /proc --dev /dev --bind /tmp/new/tmp /dev/shm --remount-ro /dev \\
    --unshare-user --disable-userns --unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup-try \\
    --uid 0 --gid 0 --cap-drop ALL --hostname box --die-with-parent --new-session --as-pid-1 \\
    --seccomp "$3" --clearenv --setenv PATH {PATH} --setenv HOME /root --setenv USER root --setenv LANG C.UTF-8 \\
    --chdir /root python3 -I -c "$1" {MEMORY_BYTES}
"""
UNSHARE = (
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "--propagation",
    "private",
    "bash",
    "-c",
    MOUNTS,
    "box",
)


@dataclass(frozen=True)
class Ran:
    """What a script left: what it printed, its exit code (None in the shared shell), and why it was ended, if it was.

    ``ended`` is ``"time"``, ``"memory"``, ``"gone"`` (there is no machine any more) or empty.
    """

    output: str
    exit: int | None = None
    ended: str = ""


class Box:
    """One machine, up from the start to :meth:`close`.

    Raises
    ------
    LabError: it cannot be started here; the reason is said.
    """

    def __init__(self) -> None:
        if not sys.platform.startswith("linux"):
            raise LabError("agentbench/os: needs Linux, for bubblewrap")
        told = [INIT.read_text(encoding="utf-8"), _closed_folders()]
        try:
            calls = box_calls.opened()
        except OSError as why:
            raise LabError(f"agentbench/os: no machine can be started: {why}") from None
        try:
            self._process = subprocess.Popen(
                [*UNSHARE, *told, str(calls)],
                pass_fds=[calls],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env={"PATH": os.environ.get("PATH", PATH)},
                start_new_session=True,
                **_who(),
            )
        except OSError as why:
            raise LabError(f"agentbench/os: no machine can be started: {why}") from None
        finally:
            os.close(calls)
        self._end = weakref.finalize(self, _end, self._process)
        self._rest = b""
        if self._answer(START_SECONDS) is None:
            self._process.kill()
            last = (self._process.communicate()[1] or b"").decode("utf-8", "replace").strip().splitlines()
            self.close()
            raise LabError(
                f"agentbench/os: no machine can be started: {last[-1] if last else 'it stays silent'}"
            )

    def shell(self, script: str, seconds: float) -> Ran:
        """Run a script in the shell that keeps its directory, variables and background processes between calls."""
        return self._ask({"argv": None, "script": script, "seconds": seconds})

    def alone(self, argv: list[str], seconds: float) -> Ran:
        """Run a program of the machine in a process of its own."""
        return self._ask({"argv": [part.replace("\0", "") for part in argv], "seconds": seconds})

    def close(self) -> None:
        """Nothing is left of it; may be called again."""
        self._end()

    def _ask(self, request: dict[str, Any]) -> Ran:
        answer = None
        if self._end.alive:
            with contextlib.suppress(OSError):
                assert self._process.stdin is not None
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
                answer = self._answer(request["seconds"] + GRACE_SECONDS)
        if answer is None:
            self.close()
            return Ran(GONE, None, "gone")
        output = answer["output"].encode("latin-1").decode("utf-8", "replace")
        return Ran(output, answer["exit"], answer["ended"])

    def _answer(self, seconds: float) -> Any:
        """The next line of process 1; None where none came, or too long a one."""
        assert self._process.stdout is not None
        until, out = time.monotonic() + seconds, self._process.stdout.fileno()
        while b"\n" not in self._rest:
            left = until - time.monotonic()
            if left <= 0 or len(self._rest) > MOST_LINE or not select.select([out], [], [], left)[0]:
                return None
            part = os.read(out, 1 << 16)
            if not part:
                return None
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)


def _who() -> dict[str, Any]:
    """Whom the box belongs to on the host, as options of a process."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@cache
def _closed_folders() -> str:
    """Folders of the host's system that the box's owner may not read, one a line."""
    closed = ("-type", "d", "(", "!", "-readable", "-o", "!", "-executable", ")", "-prune", "-print")
    looked = subprocess.run(
        ["find", "/etc", "/usr", "/var", "-xdev", *closed],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        check=False,
        **_who(),
    )
    return looked.stdout.decode("utf-8", "surrogateescape").strip()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End process 1 of the box, which the kernel lets end only after all others; then bubblewrap ends, too."""
    with contextlib.suppress(OSError):
        for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


@cache
def missing() -> str:
    """Why no machine can be started here; empty where one can."""
    try:
        Box().close()
    except LabError as why:
        return str(why).partition("agentbench/os: ")[2]
    return ""
