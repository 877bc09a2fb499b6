"""Errors of MySQL: number, SQL state and text, worded as MariaDB 10.11 words them."""

from __future__ import annotations

_STATES = {
    1044: "42000",
    1048: "23000",
    1050: "42S01",
    1051: "42S02",
    1052: "23000",
    1054: "42S22",
    1060: "42S21",
    1064: "42000",
    1066: "42000",
    1091: "42000",
    1109: "42S02",
    1110: "42000",
    1111: "HY000",
    1115: "42000",
    1136: "21S01",
    1142: "42000",
    1146: "42S02",
    1153: "08S01",
    1222: "21000",
    1227: "42000",
    1235: "42000",
    1241: "21000",
    1242: "21000",
    1248: "42000",
    1292: "22007",
    1305: "42000",
    1366: "22007",
    1406: "22001",
    1582: "42000",
    1630: "42000",
    1690: "22003",
    1792: "25006",
    1969: "70100",
}
_SYNTAX = (
    "You have an error in your SQL syntax; check the manual that corresponds to your MariaDB server version "
    "for the right syntax to use near '{near}' at line {line}"
)
NEAR_BYTES = 80


class MySQLError(Exception):
    """A statement's error as MySQL numbers and words it; ``str()`` is what the agent sees."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"{number} ({_STATES.get(number, 'HY000')}): {text}")
        self.number = number


def syntax_error(sql: str, start: int) -> MySQLError:
    """Error 1064 at a place of the statement; a comma is swallowed, as MariaDB's scanner does.

    Parameters
    ----------
    sql : the statement. start : index of the first character that does not fit.
    """
    line = sql.count("\n", 0, start) + 1
    if sql[start : start + 1] == ",":
        start += 1
    return MySQLError(1064, _SYNTAX.format(near=_near(sql[start:]), line=line))


def _near(rest: str) -> str:
    written = rest.encode(errors="replace")
    if len(written) <= NEAR_BYTES:
        return rest
    return written[: NEAR_BYTES - 3].decode(errors="ignore") + "..."


def unknown_column(name: str, clause: str) -> MySQLError:
    """Error 1054 for a column; clause is ``SELECT``, ``WHERE``, ``ORDER BY`` and so on."""
    return MySQLError(1054, f"Unknown column '{name}' in '{clause}'")


def no_such_table(name: str, database: str) -> MySQLError:
    """Error 1146 for a table of a database."""
    return MySQLError(1146, f"Table '{database}.{name}' doesn't exist")


def too_big() -> MySQLError:
    """Error 1153, for a statement beyond the limit of its length."""
    return MySQLError(1153, "Got a packet bigger than 'max_allowed_packet' bytes")


def unsupported(what: str) -> MySQLError:
    """Error 1235, for what MySQL may know and this engine does not."""
    return MySQLError(1235, f"This version of MySQL doesn't yet support '{what}'")
