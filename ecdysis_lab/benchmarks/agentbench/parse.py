"""Reading a statement of MySQL: sqlglot's tree, after the checks that sqlglot is too kind for."""

from __future__ import annotations

import logging
from typing import Any

from sqlglot import exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from ecdysis_lab.benchmarks.agentbench.errors import MySQLError, syntax_error

logging.getLogger("sqlglot").setLevel(logging.ERROR)
PACKET_CHARACTERS = 200_000
TOKENS = 20_000
DEPTH = 60
STATEMENTS = frozenset(
    "SELECT INSERT UPDATE DELETE REPLACE WITH SHOW DESCRIBE DESC EXPLAIN CREATE DROP ALTER TRUNCATE SET USE BEGIN "
    "START COMMIT ROLLBACK VALUES RENAME ANALYZE CHECK OPTIMIZE REPAIR CALL DO GRANT REVOKE LOCK UNLOCK LOAD FLUSH "
    "KILL PREPARE EXECUTE HANDLER SHUTDOWN RESET SAVEPOINT RELEASE CHECKSUM INSTALL HELP".split()
)
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
    "BINARY CHAR CHARACTER NCHAR VARCHAR DATE DATETIME DEC DECIMAL DOUBLE FLOAT INT INTEGER SIGNED UNSIGNED TIME".split()
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
_BY_NAME = frozenset({"FROM", "JOIN", "INTO", "UPDATE", "TABLE"})
_TOKENIZER = MySQL.Tokenizer


class Dialect(MySQL):
    """MySQL as sqlglot reads it, with every function left under its own name."""

    class Parser(MySQL.Parser):
        """The parser."""

        FUNCTIONS: dict[str, Any] = {}


_DIALECT = Dialect()


def clean(sql: str) -> str:
    """The statement without what no server would get: half characters, blanks and semicolons around it.

    Raises
    ------
    MySQLError : 1153 for a statement that is too long.
    """
    if len(sql) > PACKET_CHARACTERS:
        raise MySQLError(1153, "Got a packet bigger than 'max_allowed_packet' bytes")
    return sql.encode(errors="replace").decode().strip().rstrip("; \t\r\n")


def tokens_of(sql: str) -> list[Token]:
    """The tokens of a cleaned statement, without a semicolon at its end.

    Raises
    ------
    MySQLError : 1064 or 1065 where it is no single statement, 1436 where it is too long to read.
    """
    try:
        tokens = list(_DIALECT.tokenize(sql))
    except (TokenError, RecursionError):
        raise _unfinished(sql) from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if len(tokens) > TOKENS:
        raise MySQLError(1436, "Thread stack overrun")
    if not tokens:
        raise MySQLError(1065, "Query was empty")
    first = tokens[0]
    if first.token_type != TokenType.L_PAREN and first.text.upper() not in STATEMENTS:
        raise syntax_error(sql, 0 if sql.startswith("`") else first.start)
    return tokens


def parse(sql: str, tokens: list[Token]) -> exp.Expression:
    """The tree of a statement that ``tokens_of`` has read.

    Raises
    ------
    MySQLError : 1064 where MySQL would not read it, 1436 where it is nested too deeply.
    """
    _check_tokens(sql, tokens)
    try:
        trees = _DIALECT.parser().parse(tokens, sql)
    except ParseError as error:
        raise _at(sql, tokens, error) from None
    except RecursionError:
        raise MySQLError(1436, "Thread stack overrun") from None
    tree = trees[0]
    if tree is None:
        raise syntax_error(sql, tokens[0].start)
    _check_tree(sql, tokens, tree)
    return tree


def _unfinished(sql: str) -> MySQLError:
    """The error for a quote or comment that does not end."""
    place, quote = 0, ""
    while place < len(sql):
        character = sql[place]
        if quote and character == "\\" and quote != "`":
            place += 1
        elif quote and character == quote:
            quote = ""
        elif not quote and character in "'\"`":
            quote, opened = character, place
        place += 1
    if not quote:
        return syntax_error(sql, len(sql))
    head = sql[:opened]
    filler = "0" if quote == "`" else "''"
    try:
        tokens = list(_DIALECT.tokenize(head + filler))
        _check_tokens(sql, tokens)
        _DIALECT.parser().parse(tokens, head + filler)
    except MySQLError as error:
        return error
    except ParseError as error:
        return _at(sql, tokens, error)
    except (TokenError, RecursionError):
        pass
    return syntax_error(sql, opened)


def _at(sql: str, tokens: list[Token], error: ParseError) -> MySQLError:
    """The syntax error at the place where sqlglot stopped."""
    told = error.errors[0] if error.errors else {}
    line, column, marked = told.get("line"), told.get("col"), told.get("highlight") or ""
    for place, token in enumerate(tokens):
        if token.line == line and token.col == column:
            missing = str(told.get("description", "")).startswith("Required keyword")
            if missing and place + 1 < len(tokens):
                return syntax_error(sql, tokens[place + 1].start)
            ended = missing or not marked or ("Expecting )" in str(told) and place + 1 == len(tokens))
            return syntax_error(sql, len(sql) if ended else token.start)
    return syntax_error(sql, len(sql))


def _word(token: Token | None) -> str:
    quoted = token is None or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return "" if token is None or quoted else token.text.upper()


def _check_tokens(sql: str, tokens: list[Token]) -> None:
    """Raise for what sqlglot takes and MySQL does not."""
    depth, casts = 0, []
    calls: list[list[Any]] = []  # name and number of arguments of every open bracket
    ranks = [0]  # the last clause seen, inside and outside of each bracket
    _check_target(sql, tokens)
    _check_set(sql, tokens)
    for place, token in enumerate(tokens):
        kind, word = token.token_type, _word(token)
        before = tokens[place - 1] if place else None
        after = tokens[place + 1] if place + 1 < len(tokens) else None
        if kind == TokenType.L_PAREN:
            depth += 1
            empty = after is not None and after.token_type == TokenType.R_PAREN
            calls.append([_word(before), 0 if empty else 1])
            ranks.append(0)
            if depth > DEPTH:
                raise MySQLError(1436, "Thread stack overrun")
            if _word(before) in ("CAST", "CONVERT"):
                casts.append((depth, _word(before)))
            if before is not None and _word(before) in _NO_SPACE and before.end + 1 < token.start:
                raise _spaced(sql, before, after)
        elif kind == TokenType.R_PAREN:
            name, count = calls.pop() if calls else ("", 0)
            spread = "FROM" in (_word(t) for t in tokens[max(place - 8, 0) : place]) and name.startswith(
                "SUBSTR"
            )
            if count < _ARGUMENTS.get(name, (0, 0))[0] and not spread:
                raise syntax_error(sql, token.start)
            casts = [cast for cast in casts if cast[0] != depth]
            ranks = ranks[:-1] or [0]
            depth -= 1
        elif kind == TokenType.SEMICOLON and after is not None:
            raise syntax_error(sql, after.start)
        elif kind == TokenType.COMMA:
            if calls:
                calls[-1][1] += 1
            if _word(before) == "SELECT" or (
                calls and calls[-1][1] > _ARGUMENTS.get(calls[-1][0], (0, 10**9))[1]
            ):
                raise syntax_error(sql, token.start)
            if _word(after) in ("FROM", "WHERE") or (
                after and after.token_type in (TokenType.R_PAREN, TokenType.STAR)
            ):
                raise syntax_error(sql, after.start if after else len(sql))
        elif kind == TokenType.STRING and (
            _word(before) in _BY_NAME
            and not _in_call(tokens, place)
            or (before and before.token_type == TokenType.DOT)
        ):
            raise syntax_error(sql, token.start)
        elif kind in (TokenType.L_BRACKET, TokenType.DCOLON, TokenType.L_BRACE) or word == "ILIKE":
            raise syntax_error(sql, token.start)
        elif kind == TokenType.EQ and len(token.text) == 2:
            raise syntax_error(sql, token.start + 1)
        elif (
            word == "AS"
            and casts
            and casts[-1] == (depth, "CAST")
            and _word(after).split(" ")[0] not in _CAST_TYPES
        ):
            raise syntax_error(sql, after.start if after else len(sql))
        elif word in ("ORDER", "GROUP") and not _by(word, after):
            named = before is not None and (before.token_type == TokenType.COMMA or _word(before) in _OPENERS)
            raise syntax_error(sql, token.start if named else after.start if after else len(sql))
        elif (
            word == "LIMIT"
            and after is not None
            and after.token_type not in (TokenType.NUMBER, TokenType.PLACEHOLDER)
        ):
            raise syntax_error(sql, after.start)
        elif word in ("IS", "NOT") and "IS" in (word, _word(before)):
            if _word(after) not in ("NOT", "NULL", "TRUE", "FALSE", "UNKNOWN"):
                raise syntax_error(sql, after.start if after else len(sql))
        elif word == "OUTER" and _word(before) == "FULL":
            raise syntax_error(sql, token.start)
        elif before is not None and _misplaced(before, token):
            raise syntax_error(sql, token.start)
        elif (
            kind == TokenType.VAR
            and before
            and before.token_type == TokenType.STRING
            and before.end + 1 == token.start
        ):
            raise syntax_error(sql, token.start)
        if word in ("SELECT", "UNION", "EXCEPT", "INTERSECT"):
            ranks[-1] = 0
        elif word in _CLAUSES and kind not in (TokenType.VAR,):
            if _CLAUSES[word] < ranks[-1]:
                raise syntax_error(sql, token.start)
            ranks[-1] = _CLAUSES[word]


def _misplaced(before: Token, token: Token) -> bool:
    """Whether a token cannot stand after the one before it."""
    kind, word = token.token_type, _word(token)
    opened = before.token_type in (TokenType.COMMA, TokenType.L_PAREN, *_OPERATORS)
    if kind in _OPERATORS:
        return opened or _word(before) in _OPENERS
    if before.token_type == TokenType.DOT and before.end + 1 < token.start:
        return True
    if word in ("FROM", "WHERE", "TO", "ON", "AND", "OR", "LIMIT"):
        return opened or _word(before) == "SELECT"
    return (
        word in RESERVED
        and word not in ("SELECT", "VALUES", "LEFT", "RIGHT", "REPLACE", "IF")
        and _word(before) in ("INTO", "JOIN")
    )


def _check_set(sql: str, tokens: list[Token]) -> None:
    """Raise where the name before = in UPDATE's SET is no single name."""
    words = [_word(token) for token in tokens]
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
            if kind == TokenType.STRING:
                raise syntax_error(sql, tokens[place].start)
            if after is None or after.token_type != TokenType.EQ:
                raise syntax_error(sql, after.start if after else len(sql))
        expected = depth == 0 and kind == TokenType.COMMA
        place += 1
    if expected and place < len(tokens):
        raise syntax_error(sql, tokens[place].start)


def _by(word: str, after: Token | None) -> bool:
    return " " in word or _word(after) == "BY"


def _check_target(sql: str, tokens: list[Token]) -> None:
    """Raise for a text in INSERT's list of columns, and for a second name after DELETE FROM."""
    first = _word(tokens[0])
    if first in ("INSERT", "REPLACE"):
        for token in tokens[1:]:
            if _word(token) in ("VALUES", "VALUE", "SELECT", "SET"):
                return
            if token.token_type == TokenType.STRING:
                raise syntax_error(sql, token.start)
    if first == "DELETE" and len(tokens) > 3 and _word(tokens[1]) == "FROM":
        after = tokens[3]
        if after.token_type not in (TokenType.DOT, TokenType.COMMA) and _word(after) not in (
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
        elif depth == 0 and _word(token) in ("SELECT", "DELETE", "SHOW"):
            return False
    return False


def _spaced(sql: str, name: Token, after: Token | None) -> MySQLError:
    if after is not None and (after.token_type == TokenType.STAR or _word(after) == "DISTINCT"):
        return syntax_error(sql, after.start)
    return MySQLError(
        1630,
        f"FUNCTION {{database}}.{name.text} does not exist. Check the 'Function Name Parsing and Resolution' "
        "section in the Reference Manual",
    )


def _check_tree(sql: str, tokens: list[Token], tree: exp.Expression) -> None:
    """Raise for reserved words used as names, names in the form of texts, and derived tables without a name."""
    for node in tree.walk():
        if isinstance(node, exp.Identifier) and "start" in node.meta:
            start = int(node.meta["start"])
            if not node.args.get("quoted") and node.name.upper() in RESERVED:
                raise syntax_error(sql, start)
            if sql[start : start + 1] in "'\"" and isinstance(
                node.parent, exp.Schema | exp.Table | exp.Column
            ):
                raise syntax_error(sql, start)
        elif (
            isinstance(node, exp.Subquery) and isinstance(node.parent, exp.From | exp.Join) and not node.alias
        ):
            if not isinstance(node.this, exp.Table | exp.Join):
                raise syntax_error(sql, _after(tokens, node, len(sql)))
        elif isinstance(node, exp.Select) and not node.expressions:
            raise syntax_error(sql, len(sql))


def _after(tokens: list[Token], node: exp.Expression, end: int) -> int:
    """Where the text after a subquery begins."""
    starts = [int(part.meta["end"]) for part in node.walk() if "end" in part.meta]
    last = max(starts, default=0)
    rest = [token for token in tokens if token.start > last]
    while rest:
        if rest.pop(0).token_type == TokenType.R_PAREN:
            break
    return rest[0].start if rest else end
