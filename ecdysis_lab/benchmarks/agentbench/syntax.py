"""What MySQL's grammar refuses and sqlglot takes, judged by the words of a statement, with MariaDB's places."""

from __future__ import annotations

from typing import Any

from sqlglot.tokens import Token, TokenType

from ecdysis_lab.benchmarks.agentbench.errors import MySQLError, syntax_error

DEPTH = 60
RESERVED = frozenset(
    "ADD ALL ALTER AND AS ASC BEFORE BETWEEN BIGINT BOTH BY CALL CASCADE CASE CHANGE CHAR CHARACTER CHECK COLLATE "
    "COLUMN CONDITION CONSTRAINT CONTINUE CONVERT CREATE CROSS CURSOR DATABASE DATABASES DECIMAL DECLARE DEFAULT "
    "DELETE DESC DESCRIBE DISTINCT DISTINCTROW DIV DOUBLE DROP EACH ELSE ELSEIF EXCEPT EXISTS EXIT EXPLAIN FALSE "
    "FETCH FLOAT FOR FORCE FOREIGN FROM FULLTEXT GRANT GROUP HAVING IF IGNORE IN INDEX INNER INOUT INSERT INT "
    "INTEGER INTERSECT INTERVAL INTO IS ITERATE JOIN KEY KEYS KILL LEADING LEAVE LEFT LIKE LIMIT LINES LOAD LOCK "
    "LONG LOOP MATCH MOD NATURAL NOT NULL NUMERIC ON OPTIMIZE OPTION OR ORDER OUT OUTER OUTFILE OVER PARTITION "
    "PRIMARY PROCEDURE PURGE RANGE READ READS REAL RECURSIVE REFERENCES REGEXP RELEASE RENAME REPEAT REPLACE "
    "REQUIRE RETURN REVOKE RIGHT RLIKE ROWS SCHEMA SCHEMAS SELECT SEPARATOR SET SHOW SMALLINT SPATIAL SQL STARTING "
    "TABLE TERMINATED THEN TINYINT TO TRAILING TRIGGER TRUE UNDO UNION UNIQUE UNLOCK UNSIGNED UPDATE USAGE USE USING "
    "VALUES VARCHAR VARYING WHEN WHERE WHILE WINDOW WITH WRITE XOR ZEROFILL".split()
)
_CAST_TYPES = frozenset(
    "BINARY CHAR CHARACTER NCHAR VARCHAR DATE DATETIME DEC DECIMAL DOUBLE FLOAT INT INTEGER SIGNED UNSIGNED "
    "TIME".split()
)
_NO_SPACE = frozenset("SUM AVG MAX MIN COUNT GROUP_CONCAT SUBSTRING SUBSTR TRIM CAST NOW CURDATE".split())
_ONE, _TWO, _THREE = (1, 1), (2, 2), (3, 3)
_ARGUMENTS = {  # functions whose number of arguments is part of the grammar
    **dict.fromkeys("SUM AVG MAX MIN YEAR MONTH DAY HOUR MINUTE SECOND DATE TIME ASCII".split(), _ONE),
    **dict.fromkeys("LEFT RIGHT REPEAT TRUNCATE MOD DATE_ADD DATE_SUB".split(), _TWO),
    **dict.fromkeys("REPLACE IF TIMESTAMPDIFF".split(), _THREE),
    "SUBSTRING": (2, 3),
    "SUBSTR": (2, 3),
    "COUNT": (1, 99),
}
_CLAUSES = {"FROM": 1, "WHERE": 2, "GROUP": 3, "HAVING": 4, "ORDER": 5, "LIMIT": 6}
_OPERATORS = (TokenType.MOD, TokenType.SLASH, TokenType.EQ, TokenType.LT, TokenType.GT, TokenType.NEQ)
_OPENERS = frozenset({"SELECT", "WHERE", "LIKE", "AND", "OR", "BY", "NOT", "IN", "SET", "FROM"})
_FUNCTIONS = frozenset(
    "SELECT VALUES LEFT RIGHT REPLACE IF REPEAT INSERT CHAR CONVERT MOD CASE INTERVAL DATABASE".split()
)
_BY_NAME = frozenset({"FROM", "JOIN", "INTO", "UPDATE", "TABLE"})


def word_of(token: Token | None) -> str:
    """The token in capitals; "" for a text, a name in backticks, or none."""
    quoted = token is None or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return "" if token is None or quoted else token.text.upper()


def check_tokens(sql: str, tokens: list[Token]) -> None:
    """Raise for what sqlglot takes and MySQL does not.

    Raises
    ------
    MySQLError : 1064 at the place that MariaDB names, 1436 where brackets are nested too deeply, 1630 for a blank
        between an aggregate and its bracket.
    """
    _check_target(sql, tokens)
    _check_set(sql, tokens)
    brackets = _Brackets(sql, tokens)
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else None
        after = tokens[place + 1] if place + 1 < len(tokens) else None
        wrong = brackets.step(place, token, before, after)
        if wrong is None:
            wrong = _sequence(token, before, after, len(sql))
        if wrong is None and token.token_type == TokenType.STRING and word_of(before) in _BY_NAME:
            wrong = None if _in_call(tokens, place) else token.start
        if wrong is not None:
            raise syntax_error(sql, wrong)


class _Brackets:
    """What is known of every open bracket: whose it is, its arguments, the last clause in it."""

    def __init__(self, sql: str, tokens: list[Token]) -> None:
        self.sql, self.tokens = sql, tokens
        self.calls: list[list[Any]] = []  # name and number of arguments
        self.ranks = [0]  # the last clause, of the statement and of each bracket

    def step(self, place: int, token: Token, before: Token | None, after: Token | None) -> int | None:
        """Take a token; the place of what does not fit."""
        kind, word = token.token_type, word_of(token)
        if kind == TokenType.L_PAREN:
            self.open(place, token, before, after)
        elif kind == TokenType.R_PAREN:
            return self.close(place, token)
        elif kind == TokenType.COMMA and self.calls:
            self.calls[-1][1] += 1
            if self.calls[-1][1] > _ARGUMENTS.get(self.calls[-1][0], (0, 10**9))[1]:
                return token.start
        elif word == "AS" and self.calls and self.calls[-1][0] == "CAST":
            return None if word_of(after).split(" ")[0] in _CAST_TYPES else _start(after, self.sql)
        return self.clause(token, word)

    def open(self, place: int, token: Token, before: Token | None, after: Token | None) -> None:
        """Take an opening bracket."""
        named = place > 1 and word_of(self.tokens[place - 2]) in _BY_NAME
        empty = after is not None and after.token_type == TokenType.R_PAREN
        self.calls.append(["" if named else word_of(before), 0 if empty else 1])
        self.ranks.append(0)
        if len(self.calls) > DEPTH:
            raise MySQLError(1436, "Thread stack overrun")
        if before is not None and word_of(before) in _NO_SPACE and before.end + 1 < token.start:
            raise _spaced(self.sql, before, after)

    def close(self, place: int, token: Token) -> int | None:
        """Take a closing bracket."""
        name, count = self.calls.pop() if self.calls else ("", 0)
        self.ranks = self.ranks[:-1] or [0]
        spread = name.startswith("SUBSTR") and "FROM" in map(word_of, self.tokens[max(place - 8, 0) : place])
        return token.start if count < _ARGUMENTS.get(name, (0, 0))[0] and not spread else None

    def clause(self, token: Token, word: str) -> int | None:
        """Take a word that may begin a clause; clauses have one order."""
        if word in ("SELECT", "UNION", "EXCEPT", "INTERSECT"):
            self.ranks[-1] = 0
        rank = _CLAUSES.get(word, 0) if token.token_type != TokenType.VAR else 0
        if rank and rank < self.ranks[-1]:
            return token.start
        self.ranks[-1] = rank or self.ranks[-1]
        return None


def _start(token: Token | None, sql: str) -> int:
    return token.start if token is not None else len(sql)


def _sequence(token: Token, before: Token | None, after: Token | None, end: int) -> int | None:
    """The place of what cannot stand beside its neighbours."""
    kind, word = token.token_type, word_of(token)
    next_start = after.start if after is not None else end
    if kind == TokenType.SEMICOLON:
        return next_start
    if kind == TokenType.COMMA:
        if word_of(before) == "SELECT":
            return token.start
        closing = after is not None and after.token_type in (TokenType.R_PAREN, TokenType.STAR)
        return next_start if closing or word_of(after) in ("FROM", "WHERE") else None
    if kind in (TokenType.L_BRACKET, TokenType.DCOLON, TokenType.L_BRACE) or word == "ILIKE":
        return token.start
    if kind == TokenType.EQ and len(token.text) == 2:
        return token.start + 1
    if word in ("ORDER", "GROUP") and word_of(after) != "BY":
        named = before is not None and (before.token_type == TokenType.COMMA or word_of(before) in _OPENERS)
        return token.start if named else next_start
    if word == "LIMIT":
        return None if after is None or after.token_type == TokenType.NUMBER else next_start
    if word in ("IS", "NOT") and "IS" in (word, word_of(before)):
        return None if word_of(after) in ("NOT", "NULL", "TRUE", "FALSE", "UNKNOWN") else next_start
    return token.start if before is not None and _misplaced(before, token) else None


def _misplaced(before: Token, token: Token) -> bool:
    """Whether a token cannot stand after the one before it."""
    kind, word = token.token_type, word_of(token)
    opened = before.token_type in (TokenType.COMMA, TokenType.L_PAREN, *_OPERATORS)
    if before.token_type == TokenType.STRING and kind == TokenType.VAR:
        return before.end + 1 == token.start
    if word == "OUTER" and word_of(before) == "FULL":
        return True
    if before.token_type == TokenType.DOT and kind == TokenType.STRING:
        return True
    if kind == before.token_type and kind in (TokenType.LT, TokenType.GT):  # a shift
        return before.end + 1 < token.start
    if kind in _OPERATORS:
        return opened or word_of(before) in _OPENERS
    if before.token_type == TokenType.DOT and before.end + 1 < token.start:
        return True
    if word in ("FROM", "WHERE", "TO", "ON", "AND", "OR", "LIMIT"):
        return opened or word_of(before) == "SELECT"
    return word in RESERVED and word not in _FUNCTIONS and word_of(before) in ("INTO", "JOIN", "FROM")


def _check_set(sql: str, tokens: list[Token]) -> None:
    """Raise where the name before = in UPDATE's SET is no single name."""
    words = [word_of(token) for token in tokens]
    if words[0] != "UPDATE" or "SET" not in words:
        return
    depth, place = 0, words.index("SET") + 1
    expected = True  # a name
    while place < len(tokens) and words[place] not in ("WHERE", "ORDER", "LIMIT"):
        kind = tokens[place].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if expected:
            while place + 2 < len(tokens) and tokens[place + 1].token_type == TokenType.DOT:
                place += 2
            after = tokens[place + 1] if place + 1 < len(tokens) else None
            if kind in (TokenType.STRING, TokenType.NUMBER):
                raise syntax_error(sql, tokens[place].start)
            if after is None or after.token_type != TokenType.EQ:
                raise syntax_error(sql, after.start if after else len(sql))
        expected = depth == 0 and kind == TokenType.COMMA
        place += 1
    if expected and place < len(tokens):
        raise syntax_error(sql, tokens[place].start)


def _check_target(sql: str, tokens: list[Token]) -> None:
    """Raise for a text in INSERT's list of columns, and for a second name after DELETE FROM."""
    first = word_of(tokens[0])
    if first in ("INSERT", "REPLACE"):
        for token in tokens[1:]:
            if word_of(token) in ("VALUES", "VALUE", "SELECT", "SET"):
                return
            if token.token_type == TokenType.STRING:
                raise syntax_error(sql, token.start)
    if first == "DELETE" and len(tokens) > 3 and word_of(tokens[1]) == "FROM":
        after = tokens[3]
        if after.token_type not in (TokenType.DOT, TokenType.COMMA) and word_of(after) not in (
            "WHERE",
            "ORDER",
            "LIMIT",
            "USING",
        ):
            raise syntax_error(sql, after.start)


def _in_call(tokens: list[Token], place: int) -> bool:
    """Whether the FROM before this place belongs to a function, as in TRIM('x' FROM …)."""
    depth = 0
    for token in reversed(tokens[: place - 1]):
        if token.token_type == TokenType.R_PAREN:
            depth += 1
        elif token.token_type == TokenType.L_PAREN:
            depth -= 1
            if depth < 0:
                return True
        elif depth == 0 and word_of(token) in ("SELECT", "DELETE", "SHOW"):
            return False
    return False


def _spaced(sql: str, name: Token, after: Token | None) -> MySQLError:
    if after is not None and (after.token_type == TokenType.STAR or word_of(after) == "DISTINCT"):
        return syntax_error(sql, after.start)
    return MySQLError(
        1630,
        f"FUNCTION {{database}}.{name.text} does not exist. Check the 'Function Name Parsing and Resolution' "
        "section in the Reference Manual",
    )
