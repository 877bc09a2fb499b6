"""DBBench on a real MariaDB: a server of our own without a network, or the user's.

Every trial has a database and an account that sees no other. Statements of a user's server are not limited in time
unless that server limits them; the one that is started here does.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ecdysis_lab.benchmarks.agentbench.engine import (
    DATABASE,
    MAX_ROWS,
    STATEMENT_SECONDS,
    Answer,
    Table,
    Value,
    quoted,
)
from ecdysis_lab.benchmarks.agentbench.errors import too_big
from ecdysis_lab.benchmarks.agentbench.mariadb_server import PACKET_BYTES, start
from ecdysis_lab.records import LabError

MAX_CHARACTERS = 1_000_000
RIGHTS = (
    "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, CREATE TEMPORARY TABLES, CREATE VIEW, SHOW VIEW, "
    "EXECUTE"  # an unknown function is then told as such
)
READER = "_r"  # an account that may only read: in a read-only transaction MariaDB still drops tables
_LOST = {2006, 2013, 2014, 2055}


class MariaEngine:
    """MariaDB behind a connection that may create databases and accounts.

    Parameters
    ----------
    connect : arguments of ``pymysql.connect`` for an administrator: ``unix_socket`` or ``host``, ``user``, …
    """

    name = "mariadb"
    _started: tuple[int, MariaEngine] | None = None  # by process: a fork starts its own
    _starting = threading.Lock()

    def __init__(self, connect: dict[str, Any]) -> None:
        self.connect = connect
        with self.admin() as cursor:
            cursor.execute("SELECT VERSION()")
            self.version = str(cursor.fetchone()[0])

    @classmethod
    def started(cls) -> MariaEngine:
        """The server of this process, started at the first call.

        Raises
        ------
        LabError: a program or package is missing, or the server does not start (its last words are told).
        """
        with cls._starting:
            if cls._started is None or cls._started[0] != os.getpid():
                cls._started = (os.getpid(), cls({"unix_socket": start(), "user": "root", "password": ""}))
            return cls._started[1]

    @classmethod
    def at(cls, dsn: str) -> MariaEngine:
        """The user's own server.

        Parameters
        ----------
        dsn : ``mysql://user:password@host:port/`` or ``mysql://user:password@/?unix_socket=PATH``.

        Raises
        ------
        LabError: it is no such address, or nobody answers there.
        """
        try:
            parts = urlsplit(dsn)
            port = parts.port or 3306
        except ValueError:
            parts, port = urlsplit(""), 0
        socket = parse_qs(parts.query).get("unix_socket", [""])[0]
        if parts.scheme not in ("mysql", "mariadb") or not (parts.hostname or socket):
            raise LabError("engine: a server's address is mysql://user:password@host:port/")
        where: dict[str, Any] = {"unix_socket": socket} if socket else {"host": parts.hostname, "port": port}
        who = {"user": unquote(parts.username or "root"), "password": unquote(parts.password or "")}
        return cls({**where, **who})

    @contextlib.contextmanager
    def admin(self) -> Iterator[Any]:
        """A cursor of the administrator's."""
        link = _connect(self.connect)
        try:
            with link.cursor() as cursor:
                yield cursor
        finally:
            link.close()

    def open(self, table: Table) -> MariaDatabase:
        """A fresh database that holds the table, and an account that sees nothing else.

        Raises
        ------
        LabError: the account of a user's server may not create databases or accounts, or no table can be like this.
        """
        name, password = f"ecdysis_{secrets.token_hex(8)}", secrets.token_hex(16)
        import pymysql

        host = "localhost" if "unix_socket" in self.connect else "%"
        account = {**self.connect, "user": name, "password": password, "database": name}
        made = MariaDatabase(self, account, host)
        try:
            with self.admin() as cursor:
                cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
                cursor.execute(f"CREATE USER '{name}'@'{host}' IDENTIFIED BY '{password}'")
                cursor.execute(f"GRANT {RIGHTS} ON {name}.* TO '{name}'@'{host}'")
                cursor.execute(f"CREATE USER '{name}{READER}'@'{host}' IDENTIFIED BY '{password}'")
                cursor.execute(f"GRANT SELECT, SHOW VIEW ON {name}.* TO '{name}{READER}'@'{host}'")
                _fill(cursor, name, table)
        except pymysql.err.MySQLError as why:
            with contextlib.suppress(pymysql.err.MySQLError):
                made.close()
            raise LabError(f"engine: the server refuses to set a trial up: {why.args[-1]}") from why
        return made


class MariaDatabase:
    """The database of one trial; made by :meth:`MariaEngine.open`."""

    def __init__(self, engine: MariaEngine, connect: dict[str, Any], host: str) -> None:
        self.engine, self.connect, self.host = engine, connect, host
        self.name: str = connect["database"]
        self.links: dict[str, Any] = {}  # by account

    def execute(self, sql: str, read_only: bool = False) -> Answer:
        """Execute one statement as the agent wrote it, and commit what it did."""
        import pymysql

        sql = sql.encode("utf-8", "replace").decode().replace(DATABASE, self.name)
        if len(sql.encode()) > PACKET_BYTES - 1024:
            return Answer(error=str(too_big()))
        user = self.name + READER * read_only
        try:
            if user not in self.links:
                self.links[user] = _connect({**self.connect, "user": user})
            answer = _ask(self.links[user], sql, self.name)
            self.links[user].commit()
        except pymysql.err.MySQLError as why:
            number = why.args[0] if why.args and isinstance(why.args[0], int) else 0
            if number in _LOST or number == 0:
                self._abandon(user)
            text = _shown(why.args[-1] if why.args else "", self.name)
            return Answer(error=f"{number} ({why.sqlstate or 'HY000'}): {text}")
        return answer

    def _abandon(self, user: str) -> None:
        """Give up a connection whose statement may still be at work: statements can lift the limit of their time."""
        import pymysql

        link = self.links.pop(user, None)
        if link is not None:
            with contextlib.suppress(pymysql.err.MySQLError), self.engine.admin() as cursor:
                cursor.execute(f"KILL {link.thread_id()}")
            link.close()

    def rows(self, table: str, columns: Sequence[str] = ()) -> tuple[tuple[Any, ...], ...] | None:
        """All rows of a table, see ``engine.Database``; a view in its place may take too long to read."""
        import pymysql

        heads = ", ".join(map(quoted, columns)) or "*"
        with self.engine.admin() as cursor:
            try:
                cursor.execute(f"SELECT {heads} FROM {self.name}.{quoted(table)}")
            except pymysql.err.MySQLError:
                return None
            return tuple(cursor.fetchall())

    def close(self) -> None:
        """Drop the database and its account."""
        while self.links:
            self.links.popitem()[1].close()
        if self.name:
            name, self.name = self.name, ""
            with self.engine.admin() as cursor:
                cursor.execute(f"DROP DATABASE IF EXISTS {name}")
                cursor.execute(f"DROP USER IF EXISTS '{name}'@'{self.host}', '{name}{READER}'@'{self.host}'")


def _shown(value: Any, name: str) -> Any:
    """What a trial reads has the same names each time."""
    if not isinstance(value, str) or name not in value:
        return value
    return re.sub(rf"'{name}(?:{READER})?'@", "'agent'@", value).replace(name, DATABASE)


def _ask(link: Any, sql: str, name: str) -> Answer:
    import pymysql

    rows: list[tuple[Value, ...]] = []
    size, cut = 0, False
    with link.cursor(pymysql.cursors.SSCursor) as cursor:  # leaving it reads the rest in the statement's time
        cursor.execute(sql)
        while not cut and (row := cursor.fetchone()) is not None:
            size += sum(len(str(value)) for value in row)
            cut = len(rows) == MAX_ROWS or size > MAX_CHARACTERS
            rows += [] if cut else [tuple(_shown(value, name) for value in row)]
    return Answer(tuple(rows), cut=cut)


def _fill(cursor: Any, database: str, table: Table) -> None:
    where = f"{database}.{quoted(table.name)}"
    columns = ", ".join(f"{quoted(column)} TEXT" for column in table.columns)
    cursor.execute(f"CREATE TABLE {where} ({columns})")
    marks = ", ".join(["%s"] * len(table.columns))
    cursor.executemany(f"INSERT INTO {where} VALUES ({marks})", table.rows)


def _connect(where: dict[str, Any]) -> Any:
    try:
        import pymysql
    except ModuleNotFoundError as missing:
        raise LabError(
            "engine mariadb needs the package pymysql: pip install 'ecdysis-lab[mariadb]'"
        ) from missing
    try:
        return pymysql.connect(
            charset="utf8mb4",
            autocommit=True,
            ssl_disabled="unix_socket" in where,
            read_timeout=STATEMENT_SECONDS + 2,
            connect_timeout=5,
            **where,
        )
    except pymysql.err.OperationalError as why:
        raise LabError(f"engine: no answer from the server: {why.args[-1]}") from why
