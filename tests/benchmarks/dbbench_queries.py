"""Statements as agents write them, for any table: what the two engines are compared on.

A template knows the table alone and nothing of either engine. Beside what works it writes what goes wrong: names
with blanks and no backticks, names in double quotes, columns and functions that are not there, other dialects.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from ecdysis_lab.benchmarks.agentbench.engine import Table

Template = Callable[["Picker"], list[str]]


class Picker:
    """Draws names and values of one table.

    Parameters
    ----------
    table : to draw from. seed : of the drawing.
    """

    def __init__(self, table: Table, seed: str) -> None:
        self.table, self.random = table, random.Random(seed)
        self.t = f"`{table.name}`"
        self.columns = list(table.columns)

    def c(self) -> str:
        """A column in backticks."""
        return f"`{self.random.choice(self.columns)}`"

    def bare(self) -> str:
        """A column as it is."""
        return self.random.choice(self.columns)

    def numeric(self) -> str:
        """A column that mostly holds numbers, in backticks; any column where there is none."""
        good = [c for i, c in enumerate(self.columns) if self._share(i) > 0.5]
        return f"`{self.random.choice(good or self.columns)}`"

    def _share(self, place: int) -> float:
        cells = [row[place] or "" for row in self.table.rows]
        return sum(cell.strip()[:1].isdigit() for cell in cells) / max(len(cells), 1)

    def pair(self) -> tuple[str, str]:
        """A column in backticks and the text of one of its cells, in quotes."""
        place = self.random.randrange(len(self.columns))
        row = self.random.choice(self.table.rows) if self.table.rows else ("",) * len(self.columns)
        return f"`{self.columns[place]}`", self.quote(row[place] or "")

    def quote(self, value: str) -> str:
        """The text in quotes."""
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"

    def n(self) -> int:
        """A number as questions have them."""
        return self.random.choice((0, 1, 2, 3, 5, 10, 12, 20, 50, 100, 1000, 1990, 2000, 2005, 2010))

    def row(self) -> str:
        """Values for a whole row."""
        return ", ".join(
            self.quote(self.random.choice(("New", "5", "2.50", "1,234", "", "x y"))) for _ in self.columns
        )

    def names(self) -> str:
        """All columns in backticks."""
        return ", ".join(f"`{column}`" for column in self.columns)


def _where(p: Picker) -> str:
    column, value = p.pair()
    return f"{column} = {value}"


def _read(p: Picker) -> str:
    return f"SELECT * FROM {p.t}"


TEMPLATES: dict[str, tuple[Template, ...]] = {
    "plain": (
        lambda p: [f"SELECT * FROM {p.t} LIMIT {p.n()}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {_where(p)};"],
        lambda p: [f"SELECT {p.c()}, {p.c()} FROM {p.t} WHERE {_where(p)} AND {_where(p)}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {_where(p)} OR {_where(p)}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {_where(p).lower()}"],
        lambda p: [f"SELECT DISTINCT {p.c()} FROM {p.t}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE NOT {_where(p)}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} != '' AND {p.c()} IS NOT NULL"],
        lambda p: [f"SELECT {p.c()} AS answer FROM {p.t} AS t WHERE t.{_where(p)}"],
        lambda p: [f"SELECT {p.bare()} FROM {p.t} WHERE {_where(p)}"],
        lambda p: [f"select {p.c().lower()} from {p.t} where {_where(p)}"],
    ),
    "numbers": (
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.numeric()} = {p.n()}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.numeric()} > {p.n()}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.numeric()} <= '{p.n()}'"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.numeric()} BETWEEN {p.n()} AND {p.n()}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE CAST({p.numeric()} AS UNSIGNED) > {p.n()}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE CAST({p.numeric()} AS DECIMAL(10,2)) < {p.n()}.5"],
        lambda p: [f"SELECT {p.c()}, {p.numeric()} * 2, {p.numeric()} / 3 FROM {p.t}"],
        lambda p: [f"SELECT {p.numeric()} - {p.numeric()} FROM {p.t} WHERE {_where(p)}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE REPLACE({p.numeric()}, ',', '') + 0 > {p.n()}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.numeric()} IN ({p.n()}, {p.n()}, 2.5)"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} = 0"],
        lambda p: [f"SELECT ROUND({p.numeric()}, 1), FLOOR({p.numeric()}), {p.numeric()} + 0.5 FROM {p.t}"],
        lambda p: [f"SELECT CAST({p.numeric()} AS SIGNED) DIV 3, {p.numeric()} % 7 FROM {p.t}"],
    ),
    "order": (
        lambda p: [f"SELECT {p.c()} FROM {p.t} ORDER BY {p.c()}"],
        lambda p: [f"SELECT {p.c()}, {p.c()} FROM {p.t} ORDER BY {p.c()} DESC LIMIT 1"],
        lambda p: [
            f"SELECT {p.c()} FROM {p.t} ORDER BY CAST({p.numeric()} AS UNSIGNED) DESC, {p.c()} LIMIT 3"
        ],
        lambda p: [
            f"SELECT {p.c()} FROM {p.t} ORDER BY CAST({p.numeric()} AS DECIMAL(10,2)), {p.c()} LIMIT 3"
        ],
        lambda p: [f"SELECT {p.c()} FROM {p.t} ORDER BY {p.numeric()} + 0 DESC LIMIT 1"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} ORDER BY LENGTH({p.c()}) DESC, {p.c()} LIMIT 2 OFFSET 1"],
        lambda p: [f"SELECT {p.c()} AS a, {p.c()} AS b FROM {p.t} ORDER BY a, b DESC LIMIT 1, 3"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} ORDER BY 1 DESC"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} ORDER BY FIELD({p.c()}, 'a', 'b'), 1 LIMIT 4"],
    ),
    "aggregates": (
        lambda p: [f"SELECT COUNT(*) FROM {p.t} WHERE {_where(p)}"],
        lambda p: [f"SELECT COUNT({p.c()}), COUNT(DISTINCT {p.c()}) FROM {p.t}"],
        lambda p: [f"SELECT SUM({p.numeric()}) FROM {p.t}"],
        lambda p: [f"SELECT AVG({p.numeric()}) FROM {p.t} WHERE {_where(p)}"],
        lambda p: [f"SELECT MAX({p.numeric()}), MIN({p.c()}) FROM {p.t}"],
        lambda p: [f"SELECT MAX(CAST({p.numeric()} AS UNSIGNED)) FROM {p.t}"],
        lambda p: [f"SELECT SUM(CAST(REPLACE({p.numeric()}, ',', '') AS DECIMAL(12,2))) AS total FROM {p.t}"],
        lambda p: [f"SELECT ROUND(AVG({p.numeric()}), 2) FROM {p.t}"],
        lambda p: [f"SELECT AVG(CAST({p.numeric()} AS SIGNED)) FROM {p.t}"],
        lambda p: [f"SELECT SUM({p.numeric()} > {p.n()}), COUNT(*) / 2 FROM {p.t}"],
        lambda p: [f"SELECT {p.c()}, MAX({p.numeric()}) FROM {p.t}"],
        lambda p: [f"SELECT GROUP_CONCAT({p.c()}) FROM {p.t}"],
        lambda p: [f"SELECT GROUP_CONCAT(DISTINCT {p.c()} ORDER BY {p.c()} SEPARATOR '; ') FROM {p.t}"],
        lambda p: [f"SELECT STDDEV({p.numeric()}) FROM {p.t}"],
        lambda p: [f"SELECT MAX({p.bare()}) FROM {p.t}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE COUNT({p.c()}) > 1"],
    ),
    "groups": (
        lambda p: [f"SELECT {(c := p.c())}, COUNT(*) FROM {p.t} GROUP BY {c}"],
        lambda p: [
            f"SELECT {(c := p.c())}, COUNT(*) AS n FROM {p.t} GROUP BY {c} ORDER BY n DESC, {c} LIMIT 1"
        ],
        lambda p: [f"SELECT {(c := p.c())} FROM {p.t} GROUP BY {c} HAVING COUNT(*) > 1"],
        lambda p: [
            f"SELECT {(c := p.c())}, SUM({p.numeric()}) AS s FROM {p.t} GROUP BY {c} HAVING s > {p.n()}"
        ],
        lambda p: [f"SELECT {(c := p.c())}, AVG({p.numeric()}), MAX({p.numeric()}) FROM {p.t} GROUP BY {c}"],
        lambda p: [f"SELECT LEFT({p.c()}, 1) AS k, COUNT(*) FROM {p.t} GROUP BY k"],
        lambda p: [f"SELECT COUNT(*) FROM (SELECT DISTINCT {p.c()}, {p.c()} AS b FROM {p.t}) AS x"],
        lambda p: [f"SELECT {(c := p.c())}, {p.c()}, COUNT(*) FROM {p.t} GROUP BY {c}"],
    ),
    "texts": (
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} LIKE '%{p.random.choice('aeiou19')}%'"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} LIKE '{p.random.choice('ABMST12')}%' LIMIT 10"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} NOT LIKE '%e_%'"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} REGEXP '^[0-9]+$'"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} RLIKE '[A-Z]{{2}}|an'"],
        lambda p: [f"SELECT UPPER({p.c()}), LENGTH({p.c()}), LEFT({p.c()}, 3), RIGHT({p.c()}, 2) FROM {p.t}"],
        lambda p: [f"SELECT SUBSTRING_INDEX({p.c()}, ' ', 1), SUBSTRING_INDEX({p.c()}, '-', -1) FROM {p.t}"],
        lambda p: [f"SELECT CONCAT({p.c()}, ' - ', {p.c()}) FROM {p.t} LIMIT 3"],
        lambda p: [f"SELECT CONCAT_WS(', ', {p.names()}) FROM {p.t}"],
        lambda p: [f"SELECT SUBSTRING({p.c()}, 2, 4), LOCATE('a', {p.c()}), INSTR({p.c()}, ' ') FROM {p.t}"],
        lambda p: [f"SELECT TRIM({p.c()}), REVERSE({p.c()}), LPAD({p.c()}, 6, '0'), MD5({p.c()}) FROM {p.t}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE LOWER({p.c()}) = LOWER({p.pair()[1]})"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} IN ({p.pair()[1]}, {p.pair()[1]})"],
        lambda p: [f"SELECT {p.c()} || {p.c()} FROM {p.t} LIMIT 2"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE BINARY {_where(p)}"],
    ),
    "dates": (
        lambda p: [f"SELECT YEAR({p.c()}), MONTH({p.c()}), DAY({p.c()}) FROM {p.t}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE YEAR({p.c()}) = {p.n()}"],
        lambda p: [f"SELECT STR_TO_DATE({p.c()}, '%M %d, %Y') FROM {p.t}"],
        lambda p: [
            f"SELECT {p.c()} FROM {p.t} ORDER BY STR_TO_DATE({(c := p.c())}, '%d %M %Y') DESC, {c} LIMIT 1"
        ],
        lambda p: [f"SELECT DATE_FORMAT({p.c()}, '%Y-%m') FROM {p.t}"],
        lambda p: [f"SELECT CAST({p.c()} AS DATE) FROM {p.t}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} BETWEEN '2000-01-01' AND '2010-12-31'"],
        lambda p: [f"SELECT EXTRACT(YEAR FROM {p.c()}), DATE({p.c()}) FROM {p.t}"],
        lambda p: [f"SELECT DATEDIFF('2020-01-01', {p.c()}), DATE_ADD({p.c()}, INTERVAL 1 DAY) FROM {p.t}"],
    ),
    "choices": (
        lambda p: [f"SELECT IF({p.numeric()} > {p.n()}, 'yes', 'no') FROM {p.t}"],
        lambda p: [f"SELECT IFNULL({p.c()}, 'none'), COALESCE(NULLIF({p.c()}, ''), '-') FROM {p.t}"],
        lambda p: [f"SELECT CASE WHEN {_where(p)} THEN 'A' ELSE {p.c()} END FROM {p.t}"],
        lambda p: [f"SELECT SUM(CASE WHEN {_where(p)} THEN 1 ELSE 0 END) FROM {p.t}"],
        lambda p: [f"SELECT GREATEST({p.numeric()}, {p.n()}), LEAST({p.c()}, 'm') FROM {p.t}"],
    ),
    "subqueries": (
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {(c := p.numeric())} = (SELECT MAX({c}) FROM {p.t})"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {(c := p.numeric())} > (SELECT AVG({c}) FROM {p.t})"],
        lambda p: [
            f"SELECT {p.c()} FROM {p.t} WHERE {(c := p.c())} IN (SELECT {c} FROM {p.t} WHERE {_where(p)})"
        ],
        lambda p: [
            f"SELECT {p.c()} FROM {p.t} WHERE CAST({(c := p.numeric())} AS UNSIGNED) = "
            f"(SELECT MIN(CAST({c} AS UNSIGNED)) FROM {p.t})"
        ],
        lambda p: [
            f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} = (SELECT {p.c()} FROM {p.t} WHERE {_where(p)})"
        ],
        lambda p: [
            f"SELECT COUNT(*) FROM {p.t} a JOIN {p.t} b ON a.{(c := p.c())} = b.{c} WHERE a.{_where(p)}"
        ],
        lambda p: [f"SELECT {p.c()} FROM {p.t} a, {p.t} b WHERE a.{_where(p)} LIMIT 2"],
        lambda p: [
            f"WITH x AS (SELECT {(c := p.c())} FROM {p.t} WHERE {_where(p)}) SELECT COUNT({c}) FROM x"
        ],
        lambda p: [
            f"SELECT {p.c()} FROM {p.t} WHERE {_where(p)} UNION SELECT {p.c()} FROM {p.t} WHERE {_where(p)}"
        ],
        lambda p: [f"SELECT {p.c()}, RANK() OVER (ORDER BY {p.c()}) FROM {p.t}"],
        lambda p: [f"SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM {p.t} GROUP BY {p.c()}) q"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} a WHERE EXISTS (SELECT 1 FROM {p.t} b WHERE b.{_where(p)})"],
        lambda p: [f"SELECT COUNT(*) FROM (SELECT {p.c()} FROM {p.t} WHERE {_where(p)})"],
    ),
    "slips": (
        lambda p: [f"SELECT {p.bare()} FROM {p.table.name} WHERE {p.bare()} = {p.pair()[1]}"],
        lambda p: [f"SELECT {p.bare()} FROM {p.t} ORDER BY {p.bare()} DESC LIMIT 1"],
        lambda p: [f"SELECT {p.bare()}, {p.bare()} FROM {p.t}"],
        lambda p: [f'SELECT "{p.bare()}" FROM {p.t} LIMIT 2'],
        lambda p: [f'SELECT * FROM "{p.table.name}" LIMIT 2'],
        lambda p: [f'SELECT {p.c()} FROM {p.t} WHERE "{p.bare()}" = {p.pair()[1]}'],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.pair()[0]} = " + '"' + p.pair()[1].strip("'") + '"'],
        lambda p: [f"SELECT `{p.bare().replace(' ', '_')}x` FROM {p.t}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE winner_name = 'x'"],
        lambda p: [f"SELECT {p.c()} FROM `{p.table.name.lower()}s`"],
        lambda p: [f"SELECT * FROM {p.table.name.replace(' ', '_').lower()} LIMIT 1"],
        lambda p: [f"SELECT [{p.bare()}] FROM {p.t}"],
        lambda p: [f"SELECT TOP 1 {p.c()} FROM {p.t}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} ILIKE '%a%'"],
        lambda p: [f"SELECT {p.c()}::int FROM {p.t}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} == 'a'"],
        lambda p: [f"SELECT STRFTIME('%Y', {p.c()}) FROM {p.t}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t}; SELECT {p.c()} FROM {p.t};"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE"],
        lambda p: [f"SELECT {p.c()}, FROM {p.t}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} = O'Neil"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} = 'O'Neil'"],
        lambda p: [
            f"SELECT {p.c()} FROM {p.t} WHERE {p.c()} = {p.random.choice(('Total', 'Winner', 'Best'))}"
        ],
        lambda p: [f"I will look at the table {p.t} first."],
        lambda p: [f"SELECT COUNT({p.bare()}) FROM {p.t} WHERE {p.c()} > {p.n()}"],
        lambda p: [f"SELECT CAST({p.c()} AS INTEGER), CAST({p.c()} AS FLOAT) FROM {p.t}"],
        lambda p: [f"SELECT {p.c()} FROM {p.t} LIMIT 1 WHERE {_where(p)}"],
        lambda p: ["SELECT name FROM sqlite_master WHERE type = 'table'"],
        lambda p: [f"PRAGMA table_info({p.t})"],
    ),
    "catalog": (
        lambda p: ["SHOW TABLES"],
        lambda p: [f"DESCRIBE {p.t}"],
        lambda p: [f"DESC {p.t};"],
        lambda p: [f"SHOW COLUMNS FROM {p.t}"],
        lambda p: [f"SHOW FULL COLUMNS FROM {p.t}"],
        lambda p: [f"SHOW CREATE TABLE {p.t}"],
        lambda p: [f"DESCRIBE {p.table.name}"],
        lambda p: [f"SHOW COLUMNS FROM {p.table.name}"],
        lambda p: [f"SELECT COLUMN_NAME FROM information_schema.columns WHERE table_name = '{p.table.name}'"],
        lambda p: [
            f"SELECT column_name, data_type FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME='{p.table.name}';"
        ],
        lambda p: ["SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"],
        lambda p: ["SHOW TABLES LIKE '%a%'"],
        lambda p: ["SHOW INDEX FROM " + p.t],
    ),
    "writes": (
        lambda p: [f"INSERT INTO {p.t} ({p.names()}) VALUES ({p.row()})", _read(p)],
        lambda p: [f"INSERT INTO {p.t} VALUES ({p.row()}), ({p.row()})", _read(p)],
        lambda p: [f"INSERT INTO {p.t} ({p.c()}) VALUES ({p.n()})", _read(p)],
        lambda p: [f"INSERT INTO {p.t} ({p.bare()}) VALUES ('x')", _read(p)],
        lambda p: [f"INSERT INTO {p.t} VALUES ('a', 'b')", _read(p)],
        lambda p: [f"INSERT INTO {p.t} SET {p.c()} = 2.50", _read(p)],
        lambda p: [f"INSERT INTO {p.table.name} ({p.names()}) VALUES ({p.row()})", _read(p)],
        lambda p: [f"INSERT INTO {p.t} ({p.names()}) VALUES ({p.row()})".replace("'", '"'), _read(p)],
        lambda p: [f"UPDATE {p.t} SET {p.c()} = 'new' WHERE {_where(p)}", _read(p)],
        lambda p: [f"UPDATE {p.t} SET {p.c()} = 5, {p.c()} = '' WHERE {_where(p)} AND {_where(p)}", _read(p)],
        lambda p: [f"UPDATE {p.t} SET {(c := p.numeric())} = {c} + 1 WHERE {_where(p)}", _read(p)],
        lambda p: [f"UPDATE {p.t} SET {p.c()} = 'x' WHERE {p.numeric()} = {p.n()}", _read(p)],
        lambda p: [f"UPDATE {p.t} SET {p.bare()} = 'x' WHERE {_where(p)}", _read(p)],
        lambda p: [f'UPDATE {p.t} SET "{p.bare()}" = 1', _read(p)],
        lambda p: [f"UPDATE {p.t} SET {p.c()} = REPLACE({p.c()}, ',', '') LIMIT 3", _read(p)],
        lambda p: [f"DELETE FROM {p.t} WHERE {_where(p)}", _read(p)],
        lambda p: [f"DELETE FROM {p.t} WHERE {p.numeric()} > {p.n()}", _read(p)],
        lambda p: [f"DELETE FROM {p.table.name} WHERE {_where(p)}", _read(p)],
        lambda p: [f"REPLACE INTO {p.t} VALUES ({p.row()})", _read(p)],
        lambda p: [f"INSERT INTO {p.t} VALUES ({p.row()}) ON DUPLICATE KEY UPDATE {p.c()} = 'x'", _read(p)],
        lambda p: [f"ALTER TABLE {p.t} ADD COLUMN extra TEXT", _read(p)],
        lambda p: ["BEGIN", f"UPDATE {p.t} SET {p.c()} = 'z'", "ROLLBACK", _read(p)],
        lambda p: [
            "CREATE TABLE notes (id INT, note TEXT)",
            "INSERT INTO notes VALUES (1, 'a')",
            "SELECT * FROM notes",
        ],
        lambda p: [f"DROP TABLE {p.t}", _read(p)],
    ),
}


def conversations(tables: list[Table], seed: int, per_table: int) -> Iterator[tuple[str, Table, list[str]]]:
    """Kind, table and statements of one visit to a fresh database; every template comes round in turn.

    Parameters
    ----------
    tables : to write for. seed : of the drawing. per_table : templates for each table.
    """
    flat = [(kind, template) for kind, templates in TEMPLATES.items() for template in templates]
    order = random.Random(seed)
    queue: list[tuple[str, Template]] = []
    for number, table in enumerate(tables):
        for turn in range(per_table):
            if not queue:
                queue = order.sample(flat, len(flat))
            kind, template = queue.pop()
            yield kind, table, template(Picker(table, f"{seed}-{number}-{turn}"))
