"""What a statement of MySQL does to the database: read, write, or neither."""

from __future__ import annotations

from typing import Literal

from sqlglot.tokens import TokenType

from ecdysis_lab.benchmarks.agentbench.errors import MySQLError
from ecdysis_lab.benchmarks.agentbench.parse import clean, tokens_of

Effect = Literal["read", "write", "other"]
_READS = frozenset({"SELECT", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "VALUES", "WITH", "("})
_WRITES = frozenset(
    "INSERT UPDATE DELETE REPLACE CREATE DROP ALTER TRUNCATE RENAME LOAD GRANT REVOKE OPTIMIZE REPAIR".split()
)
_CHANGES = frozenset({"INTO", "INSERT", "UPDATE", "DELETE", "REPLACE", "ANALYZE", "PROCEDURE"})
_CALLS = frozenset({"GET_LOCK", "RELEASE_LOCK", "RELEASE_ALL_LOCKS", "NEXTVAL", "SETVAL", "LASTVAL"})


def effect_of(sql: str) -> Effect:
    """The effect of a statement, judged by its words alone.

    Parameters
    ----------
    sql : as the agent wrote it.

    Returns
    -------
    "read" only where it can change nothing; "write" where it is meant to change data or tables; "other" for what
    is neither or cannot be read, as several statements at once.
    """
    try:
        tokens = tokens_of(clean(sql))
    except MySQLError:
        return "other"
    words = [
        "" if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else token.text.upper()
        for token in tokens
    ]
    if any(token.token_type == TokenType.SEMICOLON for token in tokens):
        return "other"
    if words[0] in _WRITES:
        return "write"
    if words[0] not in _READS:
        return "other"
    called = {word for word, after in zip(words, [*words[1:], ""], strict=True) if after == "("}
    changes = (_CHANGES - {"INSERT", "REPLACE"} | {"INTO"}) & set(words)
    changes |= {word for word in ("INSERT", "REPLACE") if word in words and word not in called}
    if changes or called & _CALLS or ":=" in sql or "/*!" in sql or "/*M!" in sql:
        return "write" if words[0] == "WITH" and changes & {"UPDATE", "DELETE"} else "other"
    return "read"
