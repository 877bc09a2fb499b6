"""Environment contract of agentbench/dbbench: what the schemas leave unsaid, one short note a tool."""

from ecdysis_lab.hooks import Row, with_note

NOTES = {
    "execute_sql": "Write names that hold spaces or signs in backticks: `Home team`. Every column is TEXT.",
    "commit_final_answer": "answers: only the values that were asked for, one entry each, as the database has them.",
}


def describe(tool: Row) -> Row:
    """Add the note of a tool to its description."""
    return with_note(tool, NOTES)
