"""Procedural skills for agentbench/dbbench: short procedures that fit the task."""

from ecdysis_lab.hooks import anycase, fitting

FORM = (
    'First line of every reply: the call itself, {"name": "execute_sql", "arguments": {"query": '
    '"SELECT `Home team` FROM `Team results`"}}; never the list of tools.'
)
PROCEDURES = (
    (
        anycase(
            r"\b(most|least|high|low|larg|small|great|few|more|less|maxim|minim|best|worst|top|before|after|total)"
        ),
        "Numbers are texts: compare and order them as (REPLACE(`column`, ',', '') + 0). Leave out a row of totals.",
    ),
    (
        anycase(r"\b(insert|add|record|new|register|enter)\b"),
        "A new row: INSERT INTO `table` (all columns) VALUES (...), every value as the task writes it; then commit.",
    ),
    (
        anycase(r"\b(update|change|modify|set|correct|replace|rename|edit)\b"),
        "A change: UPDATE `table` SET `column` = 'value' WHERE ..., only the rows that are meant; then commit.",
    ),
)


def brief(opening: str, policy: str) -> str:
    """How a call looks, which small models get wrong, and the procedures that fit the task."""
    return "\n".join([FORM, *fitting(opening, PROCEDURES)])
