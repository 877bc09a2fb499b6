"""A MariaDB server without a network, in a temporary folder, that ends with the process that started it.

It listens on a socket, keeps nothing, and limits every statement in time and memory.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from ecdysis_lab.benchmarks.agentbench.engine import STATEMENT_SECONDS
from ecdysis_lab.records import LabError

PACKET_BYTES = 1 << 20
READY_SECONDS = 60
SBIN = "/usr/sbin:/usr/local/sbin"
NEEDS = "engine mariadb needs the program {}: apt-get install mariadb-server"
SETTINGS = {
    "character-set-server": "utf8mb4",
    "collation-server": "utf8mb4_general_ci",
    "innodb-buffer-pool-size": "32M",
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-log-file-size": "16M",
    "innodb-max-undo-log-size": "10M",
    "key-buffer-size": "1M",
    "local-infile": "0",
    "max-allowed-packet": str(PACKET_BYTES),
    "max-session-mem-used": "128M",
    "max-statement-time": str(STATEMENT_SECONDS),
    "performance-schema": "0",
    "skip-log-bin": None,
    "sql-mode": "NO_ENGINE_SUBSTITUTION",  # lenient, as AgentBench's: a strict one refuses one of its gold writes
    "skip-name-resolve": None,
    "skip-networking": None,
}
# The shell outlives a starter that is killed just long enough to end the server and remove its folder.
_KEEPER = 'folder=$1; shift; "$@" & server=$!; cat >/dev/null; kill -9 $server; wait; rm -rf "$folder"'


def program(name: str) -> str | None:
    """Path of one of the server's programs, which Debian keeps where a user's PATH does not look."""
    return shutil.which(name) or shutil.which(name, path=SBIN)


def start() -> str:
    """Start a server; returns the path of its socket, at which ``root`` needs no password.

    Raises
    ------
    LabError: a program is missing, or the server does not start (its last words are told).
    """
    programs = {name: program(name) for name in ("mariadb-install-db", "mariadbd")}
    for name, path in programs.items():
        if path is None:
            raise LabError(NEEDS.format(name))
    folder = Path(tempfile.mkdtemp(prefix="ecdysis-db-"))
    data, socket, log = folder / "data", folder / "s", folder / "log"
    account = ["--user=root"] if os.geteuid() == 0 else []
    install = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
    with log.open("wb") as out:
        subprocess.run(
            [str(programs["mariadb-install-db"]), "--no-defaults", *account, f"--datadir={data}", *install],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out,
        )  # fmt: skip
        settings = [f"--{key}" if value is None else f"--{key}={value}" for key, value in SETTINGS.items()]
        empty = folder / "nothing"  # all that statements could read and write, if an account had the right
        empty.mkdir()
        server = [str(programs["mariadbd"]), "--no-defaults", *account, f"--datadir={data}", f"--socket={socket}",
                  f"--secure-file-priv={empty}", f"--pid-file={folder / 'pid'}", *settings]  # fmt: skip
        keeper = subprocess.Popen(
            ["sh", "-c", _KEEPER, "sh", str(folder), *server],
            stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    atexit.register(_stop, keeper, os.getpid())
    _wait(keeper, socket, log)
    return str(socket)


def _stop(keeper: subprocess.Popen[bytes], starter: int) -> None:
    if os.getpid() == starter and keeper.stdin is not None:
        keeper.stdin.close()
        keeper.wait(timeout=10)


def _wait(keeper: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end and "Aborting" not in log.read_text(errors="replace"):
        if "ready for connections" in log.read_text(errors="replace") and socket.exists():
            return
        time.sleep(0.02)
    last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
    _stop(keeper, os.getpid())
    raise LabError(f"engine: MariaDB did not start: {last[0][:300]}")
