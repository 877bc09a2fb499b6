"""Reading a statement of MySQL: sqlglot's tree, after the checks that sqlglot is too kind for."""

from __future__ import annotations

import logging
from typing import Any

from sqlglot import exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from ecdysis_lab.benchmarks.agentbench.errors import MySQLError, syntax_error, too_big
from ecdysis_lab.benchmarks.agentbench.syntax import RESERVED, check_tokens

logging.getLogger("sqlglot").setLevel(logging.ERROR)
PACKET_CHARACTERS = 200_000
TOKENS = 20_000
STATEMENTS = frozenset(
    "SELECT INSERT UPDATE DELETE REPLACE WITH SHOW DESCRIBE DESC EXPLAIN CREATE DROP ALTER TRUNCATE SET USE BEGIN "
    "START COMMIT ROLLBACK VALUES RENAME ANALYZE CHECK OPTIMIZE REPAIR CALL DO GRANT REVOKE LOCK UNLOCK LOAD FLUSH "
    "KILL PREPARE EXECUTE HANDLER SHUTDOWN RESET SAVEPOINT RELEASE CHECKSUM INSTALL HELP".split()
)


class Dialect(MySQL):
    """MySQL as sqlglot reads it, with every function left under its own name."""

    class Parser(MySQL.Parser):  # type: ignore[misc, valid-type]
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
        raise too_big()
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


def parse(sql: str, tokens: list[Token]) -> Any:
    """The tree of a statement that ``tokens_of`` has read.

    Raises
    ------
    MySQLError : 1064 where MySQL would not read it, 1436 where it is nested too deeply.
    """
    check_tokens(sql, tokens)
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
        check_tokens(sql, tokens)
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


def _check_tree(sql: str, tokens: list[Token], tree: Any) -> None:
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


def _after(tokens: list[Token], node: Any, end: int) -> int:
    """Where the text after a subquery begins."""
    starts = [int(part.meta["end"]) for part in node.walk() if "end" in part.meta]
    last = max(starts, default=0)
    rest = [token for token in tokens if token.start > last]
    while rest:
        if rest.pop(0).token_type == TokenType.R_PAREN:
            break
    return rest[0].start if rest else end
