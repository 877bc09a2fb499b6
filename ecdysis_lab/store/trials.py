"""The trials of all runs.

They live in ``trials.sqlite`` (WAL), keyed by ``Trial.key``, shared by every run and process. Every write is atomic;
a kill leaves the state before or after it.
WAL needs a local disk: on a network folder, keep one process per store.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecdysis_lab.records import LabError, Trajectory, from_json, to_json
from ecdysis_lab.store.files import StoreError, told, utf8
from ecdysis_lab.store.foreign import clean

if TYPE_CHECKING:
    import numpy as np

SCHEMA_VERSION = 1
FILTERS = ("benchmark", "version", "task_id", "split", "model", "user_model", "harness", "seed", "status")
_TABLES = f"""
CREATE TABLE IF NOT EXISTS trials (
    key TEXT PRIMARY KEY, benchmark TEXT, version TEXT, task_id TEXT, split TEXT, model TEXT, user_model TEXT,
    harness TEXT, seed INTEGER, status TEXT, score REAL, body BLOB NOT NULL, stored_at REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS truth (key TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS infra_errors (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, error TEXT, body BLOB NOT NULL, stored_at REAL);
CREATE TABLE IF NOT EXISTS vectors (
    model TEXT, hash TEXT, vector BLOB NOT NULL, PRIMARY KEY (model, hash)) WITHOUT ROWID;
PRAGMA user_version = {SCHEMA_VERSION};
"""
DAMAGED = "damaged"  # status of a trial whose body could not be read; it counts as not run
_IN_ONE_QUERY = 500
BUSY_SECONDS = 60.0


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL; processes that create a store at once meet a lock that ignores the busy time-out."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.005)


def _pack(text: str) -> bytes:
    return zlib.compress(utf8(text), 6)


def _unpack(body: Any) -> dict[str, Any]:
    """The JSON object in a stored body.

    Raises
    ------
    StoreError: the body is damaged; the message says how.
    """
    try:
        found = json.loads(zlib.decompress(body))
    except (zlib.error, ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"{type(error).__name__}: {error}"[:200]) from None
    if not isinstance(found, dict):
        raise StoreError(f"holds {type(found).__name__}, not an object")
    return found


def _trajectory(body: Any, truth: dict[str, Any] | None = None) -> Trajectory:
    """The trajectory in a stored body; see :func:`_unpack`."""
    try:
        data = _unpack(body) | ({} if truth is None else {"truth": truth})
        made: Trajectory = from_json(Trajectory, data)
        made.trial.key  # noqa: B018  # a trial of another shape fails here and not in a reader's hands
        return made
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise StoreError(f"{type(error).__name__}: {error}"[:200]) from None


class Store:
    """All finished trials under a folder.

    Safe to use from several threads and processes at once, and to pickle into workers. A trial whose body is damaged
    is said once (a warning with its key), set aside and counts as not run, so that the next start runs it again.

    Parameters
    ----------
    root : the data folder; made when it is missing.

    Raises
    ------
    StoreError: the folder cannot be written, the file is damaged, or a newer version of the lab made it.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self.path = self.root / "trials.sqlite"
        self._local = threading.local()
        self._sound: set[str] = set()  # keys of bodies that were read
        with told(self.path):
            self.root.mkdir(parents=True, exist_ok=True)
            connection = self._connection()
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > SCHEMA_VERSION:
                raise StoreError(
                    f"{self.path} has format {version}, this version reads up to {SCHEMA_VERSION}"
                )
            if version < SCHEMA_VERSION:
                connection.executescript("BEGIN IMMEDIATE;" + _TABLES + "COMMIT;")

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["root"])  # type: ignore[misc]

    def _connection(self) -> sqlite3.Connection:
        """Connection of the calling thread; a forked child opens its own, SQLite forbids sharing one."""
        mine = getattr(self._local, "connection", None)
        if mine is not None and self._local.pid == os.getpid():
            return mine  # type: ignore[no-any-return]
        self._local.inherited = mine  # kept, since closing it here could disturb the parent
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        self._local.connection, self._local.pid = connection, os.getpid()
        return connection

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One write transaction: whole or not at all."""
        with told(self.path):
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with told(self.path):
            return self._connection().execute(sql, values).fetchall()

    def put(self, trajectory: Trajectory) -> bool:
        """Store a trajectory.

        A scored one is never replaced; a user fault is replaced by a scored one only. An infrastructure error
        goes to a log of its own and does not count as finished.

        Parameters
        ----------
        trajectory : what a trial left.

        Returns
        -------
        Whether the trial store changed.
        """
        body = _pack(to_json(replace(trajectory, truth={})))
        trial, now = trajectory.trial, time.time()
        with self._writing() as connection:
            if trajectory.status == "infra_error":
                connection.execute(
                    "INSERT INTO infra_errors (key, error, body, stored_at) VALUES (?, ?, ?, ?)",
                    (trajectory.key, clean(trajectory.error), body, now),
                )
                return False
            kept = connection.execute("SELECT status FROM trials WHERE key = ?", (trajectory.key,)).fetchone()
            if kept and kept[0] != DAMAGED and (kept[0] == "scored" or trajectory.status != "scored"):
                return False
            values = (getattr(trial, name) for name in FILTERS[:-1])
            columns = tuple(clean(value) if isinstance(value, str) else value for value in values)
            row = (trajectory.key, *columns, trajectory.status, trajectory.score, body, now)
            connection.execute(f"INSERT OR REPLACE INTO trials VALUES ({', '.join('?' * len(row))})", row)
            truth = _pack(json.dumps(trajectory.truth, sort_keys=True, default=str))
            connection.execute("INSERT OR REPLACE INTO truth VALUES (?, ?)", (trajectory.key, truth))
        return True

    def get(self, key: str, with_truth: bool = False) -> Trajectory | None:
        """The finished trajectory of a trial, or None; ``truth`` stays empty unless it is asked for."""
        rows = self._rows("SELECT body FROM trials WHERE key = ? AND status != ?", (key, DAMAGED))
        if not rows:
            return None
        truth = None
        if with_truth:
            with contextlib.suppress(StoreError, IndexError):
                truth = _unpack(self._rows("SELECT body FROM truth WHERE key = ?", (key,))[0][0])
        return self._read(key, rows[0][0], truth)

    def _read(self, key: str, body: Any, truth: dict[str, Any] | None = None) -> Trajectory | None:
        """The trajectory in the body of a finished trial; None, said and set aside, where it is damaged."""
        try:
            found = _trajectory(body, truth)
        except StoreError as error:
            said = f"{self.path}: trial {key} is damaged and counts as not run: {error}"
            warnings.warn(said, stacklevel=3)
            with contextlib.suppress(StoreError), self._writing() as connection:  # a store may be read-only
                connection.execute(
                    "UPDATE trials SET status = ? WHERE key = ? AND body = ?", (DAMAGED, key, body)
                )
            return None
        self._sound.add(key)
        return found

    def keys(self) -> set[str]:
        """Keys of all finished trials."""
        return {row[0] for row in self._rows("SELECT key FROM trials WHERE status != ?", (DAMAGED,))}

    def have(self, keys: Iterable[str]) -> set[str]:
        """Those of ``keys`` that are finished and can be read."""
        sql = "SELECT key FROM trials WHERE status != ? AND key IN"
        found = {row[0] for row in self._lookup(sql, (DAMAGED,), keys)}
        fresh = self._lookup("SELECT key, body FROM trials WHERE key IN", (), found - self._sound)
        return found - {key for key, body in fresh if self._read(key, body) is None}

    def damaged(self) -> list[str]:
        """Keys of the trials that were set aside because their bodies are damaged, sorted."""
        return [
            row[0] for row in self._rows("SELECT key FROM trials WHERE status = ? ORDER BY key", (DAMAGED,))
        ]

    def _lookup(self, sql: str, values: tuple[Any, ...], keys: Iterable[str]) -> Iterator[Any]:
        wanted = list(dict.fromkeys(keys))
        for start in range(0, len(wanted), _IN_ONE_QUERY):
            part = wanted[start : start + _IN_ONE_QUERY]
            yield from self._rows(f"{sql} ({', '.join('?' * len(part))})", (*values, *part))

    def trajectories(self, keys: Iterable[str] | None = None, **filters: Any) -> list[Trajectory]:
        """Finished trajectories, without truth.

        Parameters
        ----------
        keys : trial keys; the answer keeps their order, without unknown ones. None for all, ordered by
            benchmark, split, task, model, harness, seed.
        **filters : a value, or a list of values, by field: see ``FILTERS``.

        Raises
        ------
        LabError: a filter that is no field.
        """
        clauses, values = _where(filters)
        if keys is None:
            order = "ORDER BY benchmark, split, task_id, model, harness, seed, key"
            rows = self._rows(f"SELECT key, body FROM trials WHERE {clauses} {order}", values)
            return [made for key, body in rows if (made := self._read(key, body))]
        wanted = list(keys)
        sql = f"SELECT key, body FROM trials WHERE {clauses} AND key IN"
        found = dict(self._lookup(sql, values, wanted))
        return [made for key in wanted if key in found and (made := self._read(key, found[key]))]

    def infra_errors(self, key: str | None = None) -> list[Trajectory]:
        """The log of infrastructure errors, oldest first: of one trial, or of all."""
        where, values = ("WHERE key = ?", (key,)) if key else ("", ())
        found = []
        for number, body in self._rows(f"SELECT id, body FROM infra_errors {where} ORDER BY id", values):
            try:
                found.append(_trajectory(body))
            except StoreError as error:
                warnings.warn(f"{self.path}: infrastructure error {number} is damaged: {error}", stacklevel=2)
        return found

    def get_vectors(self, model: str, hashes: Iterable[str]) -> dict[str, np.ndarray]:
        """Cached vectors (float32) of an embedder by text hash; those not cached are left out."""
        import numpy as np

        rows = self._lookup("SELECT hash, vector FROM vectors WHERE model = ? AND hash IN", (model,), hashes)
        whole = ((key, blob) for key, blob in rows if isinstance(blob, bytes) and len(blob) % 4 == 0)
        return {key: np.frombuffer(blob, dtype="<f4").copy() for key, blob in whole}

    def put_vectors(self, model: str, vectors: Mapping[str, np.ndarray]) -> None:
        """Cache vectors of an embedder by text hash, as float32."""
        import numpy as np

        rows = [(model, key, np.asarray(vector, dtype="<f4").tobytes()) for key, vector in vectors.items()]
        with self._writing() as connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)


def _where(filters: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
    clauses, values = ["status != ?"], [DAMAGED]
    for name, wanted in filters.items():
        if name not in FILTERS:
            raise LabError(f"unknown filter {name!r}; choose one of {', '.join(FILTERS)}")
        several = list(wanted) if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]
        clauses.append(f"{name} IN ({', '.join('?' * len(several))})")
        values += several
    return " AND ".join(clauses), tuple(values)
