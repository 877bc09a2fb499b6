"""Statements that try to hang, fill, crash or leave a database; both engines must contain every one.

Shared by the tests of both engines. ``TABLE`` is the table of the trial, and each entry of ``HOSTILE`` is a name
and the statements sent one after the other. Contained means: every statement returns within the engine's time
limit and raises nothing; afterwards ``SELECT COUNT(*)`` answers and the table's rows can still be read for the
scorer; no file is written or read. Entries whose name is in ``TOLD`` must end in an error text.
"""

from __future__ import annotations

from ecdysis_lab.benchmarks.agentbench.engine import Table

TABLE = Table(
    "Swim Records",
    ("Name", "Lane No.", "Time"),
    tuple((f"Swimmer {number}", str(number % 8), f"{50 + number / 10:.1f}") for number in range(40)),
)

_CROSS = " CROSS JOIN ".join(f"`Swim Records` t{number}" for number in range(9))
_CHAIN = " + ".join(["1"] * 20_000)

HOSTILE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("attach", ("ATTACH DATABASE '/tmp/ecdysis_hostile.db' AS other",)),
    ("pragma", ("PRAGMA writable_schema = ON", "PRAGMA database_list")),
    ("load extension", ("SELECT load_extension('/tmp/ecdysis_hostile.so')",)),
    ("read file", ("SELECT readfile('/etc/passwd')", "SELECT LOAD_FILE('/etc/passwd') IS NOT NULL")),
    ("vacuum into", ("VACUUM INTO '/tmp/ecdysis_hostile.db'",)),
    (
        "recursion without end",
        ("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT COUNT(*) FROM c",),
    ),
    (
        "recursion that grows",
        (
            "WITH RECURSIVE c(s) AS (SELECT 'x' UNION ALL SELECT CONCAT(s, s) FROM c) SELECT MAX(LENGTH(s)) FROM c",
        ),
    ),
    ("huge repeat", ("SELECT LENGTH(REPEAT('x', 2000000000))", "SELECT REPEAT(REPEAT('x', 60000), 60000)")),
    ("huge padding", ("SELECT LENGTH(LPAD('x', 2000000000, 'y'))", "SELECT LENGTH(SPACE(2000000000))")),
    (
        "huge blobs",
        ("SELECT randomblob(2000000000)", "SELECT zeroblob(2000000000)", "SELECT printf('%999999999d', 1)"),
    ),
    ("hex growth", ("SELECT LENGTH(" + "HEX(" * 60 + "'x'" + ")" * 60 + ")",)),
    ("replace growth", ("SELECT LENGTH(" + "REPLACE(" * 40 + "'xx'" + ", 'x', 'xxxxxxxx')" * 40 + ")",)),
    ("cross join", (f"SELECT COUNT(*) FROM {_CROSS}",)),
    ("sorted cross join", (f"SELECT t0.Name FROM {_CROSS} ORDER BY t8.Name, t1.`Time` LIMIT 5",)),
    ("many rows", (f"SELECT * FROM {_CROSS}",)),
    ("deep parentheses", ("SELECT " + "(" * 10_000 + "1" + ")" * 10_000,)),
    ("deep functions", ("SELECT " + "ABS(" * 5_000 + "1" + ")" * 5_000,)),
    ("deep subqueries", ("SELECT * FROM " + "(SELECT * FROM " * 1_000 + "`Swim Records`" + ") x" * 1_000,)),
    ("long chain", (f"SELECT {_CHAIN}",)),
    ("giant statement", ("SELECT '" + "x" * 30_000_000 + "'",)),
    (
        "giant list",
        ("SELECT COUNT(*) FROM `Swim Records` WHERE Name IN (" + ",".join(["'a'"] * 200_000) + ")",),
    ),
    ("nul bytes", ("SELECT '\x00'", "SELECT 1\x00; DROP TABLE `Swim Records`", "\x00")),
    ("lone surrogates", ("SELECT '\ud800'", "SELECT `\udfff` FROM `Swim Records`")),
    ("into outfile", ("SELECT * FROM `Swim Records` INTO OUTFILE '/tmp/ecdysis_hostile.txt'",)),
    ("into dumpfile", ("SELECT 'x' INTO DUMPFILE '/tmp/ecdysis_hostile.txt'",)),
    ("load data", ("LOAD DATA INFILE '/etc/passwd' INTO TABLE `Swim Records`",)),
    ("load local data", ("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE `Swim Records`",)),
    (
        "temporary trigger",
        ("CREATE TEMP TRIGGER tr AFTER INSERT ON `Swim Records` BEGIN DELETE FROM `Swim Records`; END",),
    ),
    (
        "table that fills memory",
        (
            "CREATE TABLE big (a TEXT)",
            "INSERT INTO big SELECT REPEAT('x', 60000) FROM `Swim Records`",
            *["INSERT INTO big SELECT b1.a FROM big b1 CROSS JOIN `Swim Records`"] * 4,
        ),
    ),
    ("table that doubles", ("INSERT INTO `Swim Records` SELECT * FROM `Swim Records`",) * 3),
    ("sleep", ("SELECT SLEEP(1000)", "SELECT SLEEP(1000) FROM `Swim Records`")),
    ("benchmark", ("SELECT BENCHMARK(1000000000000, MD5('x'))",)),
    (
        "lock",
        (
            "SELECT GET_LOCK('ecdysis', 1000)",
            "SELECT GET_LOCK('ecdysis', 1000)",
            "LOCK TABLES `Swim Records` WRITE",
        ),
    ),
    (
        "pattern that backtracks",
        (
            "SELECT REPEAT('a', 40) REGEXP '^(a+)+$|^(a|aa)+b$'",
            "SELECT CONCAT(REPEAT('a', 400), 'c') REGEXP '(a*)*(a*)*(a*)*b'",
        ),
    ),
    ("like that backtracks", ("SELECT REPEAT('a', 20000) LIKE '" + "%a" * 40 + "%b'",)),
    (
        "other databases",
        ("DROP DATABASE mysql", "CREATE DATABASE ecdysis_hostile", "SELECT * FROM mysql.user"),
    ),
    ("accounts", ("CREATE USER eve", "GRANT ALL ON *.* TO eve", "SET PASSWORD = 'x'")),
    (
        "global settings",
        ("SET GLOBAL max_connections = 1", "SET SESSION max_statement_time = 0", "SHUTDOWN", "KILL 1"),
    ),
    ("transactions", ("BEGIN", "DELETE FROM `Swim Records`", "ROLLBACK", "COMMIT")),
    ("two statements", ("SELECT 1; DROP TABLE `Swim Records`",)),
    ("group concat growth", (f"SELECT LENGTH(GROUP_CONCAT(REPEAT('x', 60000))) FROM {_CROSS}",)),
    (
        "power without end",
        ("SELECT POW(9, POW(9, POW(9, 9)))", "SELECT 9e999 * 9e999", "SELECT 1 << 1000000000"),
    ),
    ("empty", ("", ";", "-- ", "/*", "/*! */")),
)

TOLD = frozenset(
    {
        "attach",
        "pragma",
        "load extension",
        "vacuum into",
        "deep subqueries",
        "giant statement",
        "into outfile",
        "into dumpfile",
        "load data",
        "load local data",
        "temporary trigger",
        "other databases",
        "accounts",
        "two statements",
    }
)
