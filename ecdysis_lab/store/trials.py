"""The only reader and writer of data/: the trial store and the run folders.

Trials live in ``trials.sqlite`` (WAL), keyed by ``Trial.key``, shared by every run and process. A run folder
holds what belongs to one run. Every write is atomic; a kill leaves the state before or after it.
WAL needs a local disk: on a network folder, keep one process per store.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecdysis_lab.records import LabError, Trajectory, from_json, to_json
from ecdysis_lab.store.files import StoreError, told

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
    return zlib.compress(text.encode(), 6)


def _unpack(body: bytes) -> Any:
    return json.loads(zlib.decompress(body))


class Store:
    """All finished trials under a folder.

    Safe to use from several threads and processes at once, and to pickle into workers.

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
                row = (trajectory.key, trajectory.error, body, now)
                connection.execute(
                    "INSERT INTO infra_errors (key, error, body, stored_at) VALUES (?, ?, ?, ?)", row
                )
                return False
            kept = connection.execute("SELECT status FROM trials WHERE key = ?", (trajectory.key,)).fetchone()
            if kept and (kept[0] == "scored" or trajectory.status != "scored"):
                return False
            columns = tuple(getattr(trial, name) for name in FILTERS[:-1])
            row = (trajectory.key, *columns, trajectory.status, trajectory.score, body, now)
            connection.execute(f"INSERT OR REPLACE INTO trials VALUES ({', '.join('?' * len(row))})", row)
            truth = _pack(json.dumps(trajectory.truth, sort_keys=True, default=str))
            connection.execute("INSERT OR REPLACE INTO truth VALUES (?, ?)", (trajectory.key, truth))
        return True

    def get(self, key: str, with_truth: bool = False) -> Trajectory | None:
        """The finished trajectory of a trial, or None; ``truth`` stays empty unless it is asked for."""
        rows = self._rows("SELECT body FROM trials WHERE key = ?", (key,))
        if not rows:
            return None
        data = _unpack(rows[0][0])
        if with_truth:
            truth = self._rows("SELECT body FROM truth WHERE key = ?", (key,))
            data["truth"] = _unpack(truth[0][0]) if truth else {}
        return from_json(Trajectory, data)

    def keys(self) -> set[str]:
        """Keys of all finished trials."""
        return {row[0] for row in self._rows("SELECT key FROM trials")}

    def have(self, keys: Iterable[str]) -> set[str]:
        """Those of ``keys`` that are finished."""
        return {row[0] for row in self._lookup("SELECT key FROM trials WHERE key IN", (), keys)}

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
            return [from_json(Trajectory, _unpack(body)) for _, body in rows]
        wanted = list(keys)
        sql = f"SELECT key, body FROM trials WHERE {clauses} AND key IN"
        found = dict(self._lookup(sql, values, wanted))
        return [from_json(Trajectory, _unpack(found[key])) for key in wanted if key in found]

    def infra_errors(self, key: str | None = None) -> list[Trajectory]:
        """The log of infrastructure errors, oldest first: of one trial, or of all."""
        where, values = ("WHERE key = ?", (key,)) if key else ("", ())
        rows = self._rows(f"SELECT body FROM infra_errors {where} ORDER BY id", values)
        return [from_json(Trajectory, _unpack(row[0])) for row in rows]

    def get_vectors(self, model: str, hashes: Iterable[str]) -> dict[str, np.ndarray]:
        """Cached vectors (float32) of an embedder by text hash; those not cached are left out."""
        import numpy as np

        rows = self._lookup("SELECT hash, vector FROM vectors WHERE model = ? AND hash IN", (model,), hashes)
        return {key: np.frombuffer(blob, dtype="<f4").copy() for key, blob in rows}

    def put_vectors(self, model: str, vectors: Mapping[str, np.ndarray]) -> None:
        """Cache vectors of an embedder by text hash, as float32."""
        import numpy as np

        rows = [(model, key, np.asarray(vector, dtype="<f4").tobytes()) for key, vector in vectors.items()]
        with self._writing() as connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)


def _where(filters: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
    clauses, values = ["1"], []
    for name, wanted in filters.items():
        if name not in FILTERS:
            raise LabError(f"unknown filter {name!r}; choose one of {', '.join(FILTERS)}")
        several = list(wanted) if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]
        clauses.append(f"{name} IN ({', '.join('?' * len(several))})")
        values += several
    return " AND ".join(clauses), tuple(values)
