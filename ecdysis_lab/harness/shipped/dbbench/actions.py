"""Action realization for agentbench/dbbench: names and numbers in canonical form, commits that come too early."""

import re

from ecdysis_lab.hooks import Call, Refuse, Rewrite, Rules, Verdict, View, anycase, enabled, same_call

rules = Rules()
SQL, COMMIT = "execute_sql", "commit_final_answer"
HEADERS = re.compile(r"The name of this table is (.+?), and the headers of this table are (.+?)\.?\s*$", re.M)
CHANGE = anycase(
    r"^\W*(please )?(insert|add(?! up)|update|modify|change|set(?! \d| of)|correct|edit|delete|remove|rename|replace)\b"
)
WRITE = anycase(r"^\s*(insert|update|delete|replace)\b")
PIECES = re.compile(r"('(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`)")
VALUE = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|(-?\d+(?:\.\d+)?)")
LISTED = re.compile(r"\s*\[\s*(\(.*\)|'.*'|\".*\")\s*\]\s*", re.S)
PLAIN = re.compile(r"\w+")
NUMBER = re.compile(r"-?[\d,]*\.?\d+")
ORDER = anycase(r"\border\s+by\s+(`[^`]+`|\w+)(?=\s*(?:asc\b|desc\b|limit\b|;|$))")
EXTREME = anycase(r"\b(max|min)\s*\(\s*(`[^`]+`|\w+)\s*\)")

UNION = anycase(r"\b(?:union|intersect|except)\b")
ALIAS = anycase(r"\bas\s+(`[^`]+`|\w+)")


def query_of(call: Call) -> str:
    """The statement of a call; empty where there is none."""
    text = call.arguments.get("query")
    return text if call.name == SQL and isinstance(text, str) else ""


def names(view: View) -> list[str]:
    """The table's name, then its headers, as the task gives them."""
    for message in view.messages:
        found = HEADERS.search(str(message["content"]))
        if found:
            return [found[1], *(name.strip() for name in found[2].split(",") if name.strip())]
    return []


def outside(text: str) -> list[str]:
    """The text cut at quotes: every second piece is quoted."""
    return PIECES.split(text)


@rules.line("one_statement", "one statement a call", SQL)
def one_statement(call: Call, view: View) -> str | None:
    """Several statements in one call."""
    bare = "".join(piece if n % 2 == 0 else "x" for n, piece in enumerate(outside(query_of(call))))
    several = len([part for part in bare.split(";") if part.strip()]) > 1
    return "Send the first statement alone, then the next." if several else None


@rules.line("insert_once", "a change is executed once", SQL)
def insert_once(call: Call, view: View) -> str | None:
    """An INSERT that was executed is sent again."""
    if not query_of(call).lstrip().lower().startswith("insert"):
        return None
    again = any(same_call(done.call, call) and not done.error for done in view.done)
    return f"[] meant that the row is in the table. Call {COMMIT}." if again else None


@rules.line("something_first", "an answer comes from the database", COMMIT)
def something_first(call: Call, view: View) -> str | None:
    """A commit although the database has not executed anything yet."""
    if any(done.call.name == SQL and not done.error for done in view.done):
        return None
    return f"Call {SQL} with a statement that the database can execute; names in backticks: {shown(view)}."


@rules.line("change_first", "the task asks for a change of the table", COMMIT)
def change_first(call: Call, view: View) -> str | None:
    """A commit before the change."""
    task = str(view.messages[0]["content"]) if view.messages else ""
    done = any(WRITE.search(query_of(d.call)) and not d.error for d in view.done)
    return None if done or not CHANGE.search(task) else f"Call {SQL} with the INSERT or UPDATE first."


def shown(view: View) -> str:
    """The names as they are quoted."""
    return ", ".join(f"`{name}`" for name in names(view)) or "`name`"


def spaced(name: str) -> str:
    """A name in lower case, with spaces for underscores; as long as the name."""
    return name.lower().replace("_", " ")


def quoted(text: str, known: list[str]) -> str:
    """A statement with names that need it in backticks, whether they were written with spaces or underscores."""
    plain = {name.lower() for name in known}
    odd = sorted((name for name in known if not PLAIN.fullmatch(name)), key=len, reverse=True)
    pieces = outside(text)
    for n in range(0, len(pieces), 2):
        for name in odd:
            pieces[n] = "".join(
                piece if m % 2 else quoted_in(piece, name, plain)
                for m, piece in enumerate(outside(pieces[n]))
            )
    return "".join(pieces)


def quoted_in(text: str, name: str, plain: set[str]) -> str:
    """A text without quotes, one name put in backticks where it stands as words of its own."""
    made, at, flat = "", 0, spaced(text)
    while (found := flat.find(spaced(name), at)) >= 0:
        end = found + len(name)
        around = text[max(0, found - 1) : found] + text[end : end + 1]
        alone = not any(char.isalnum() or char == "_" for char in around)
        stays = not alone or text[found:end].lower() in plain - {name.lower()}
        made += text[at:found] + (text[found:end] if stays else f"`{name}`")
        at = end
    return made + text[at:]


def unordered(view: View, table: str, column: str) -> bool:
    """Whether a column's texts are numbers that text order puts elsewhere."""
    texts = view.read(SQL, query=f"SELECT {column} FROM `{table}`")
    if not isinstance(texts, list) or not all(isinstance(row, list) and row for row in texts):
        return False
    values = [row[0].strip() for row in texts if isinstance(row[0], str) and row[0].strip()]
    if not values or not all(NUMBER.fullmatch(value) for value in values):
        return False
    return sorted(values) != sorted(values, key=lambda value: float(value.replace(",", "")))


def numbered(text: str, known: list[str], view: View) -> str:
    """A question whose ORDER BY, MAX or MIN takes a column of numbers by number."""
    literals = " ".join(piece for piece in outside(text)[1::2] if piece[0] != "`")
    if UNION.search(text) or ORDER.search(literals) or EXTREME.search(literals):
        return text
    alias = {name.strip("`").lower() for name in ALIAS.findall(text)}
    columns = {name.lower(): f"`{name}`" for name in known[1:] if name.lower() not in alias}

    def by_number(written: str) -> str:
        column = columns.get(written.strip("`").lower(), "")
        return (
            f"(REPLACE({column}, ',', '') + 0)" if column and unordered(view, known[0], column) else written
        )

    text = ORDER.sub(lambda found: found[0][: -len(found[1])] + by_number(found[1]), text)
    return EXTREME.sub(lambda found: f"{found[1]}({by_number(found[2])})", text)


def bare(answers: list[object]) -> list[object]:
    """The entries of a list that was written into one entry."""
    if len(answers) != 1 or not isinstance(answers[0], str) or not LISTED.fullmatch(answers[0]):
        return answers
    return [found[0] or found[1] or found[2] for found in VALUE.findall(answers[0])] or answers


def canonical(call: Call, view: View) -> tuple[Call, list[str]]:
    """The call in canonical form, and the rules that changed it."""
    used: list[str] = []
    arguments, known = dict(call.arguments), names(view)
    given = arguments.get("answers")
    if call.name == COMMIT and isinstance(given, list) and enabled("bare_answers"):
        arguments["answers"] = bare(given)
        used += ["bare_answers"] * (arguments["answers"] != given)
    text = query_of(call)
    if text and known and enabled("quoted_names"):
        arguments["query"] = quoted(text, known)
        used += ["quoted_names"] * (arguments["query"] != text)
        text = arguments["query"]
    if known and text.lstrip().lower().startswith("select") and enabled("numbers_in_order"):
        arguments["query"] = numbered(text, known, view)
        used += ["numbers_in_order"] * (arguments["query"] != text)
    return Call(call.name, arguments, call.id), used


def check(call: Call, view: View) -> Verdict:
    """Bring a call to canonical form, then hold it against the rules."""
    call, used = canonical(call, view)
    verdict = rules.check(call, view)
    if isinstance(verdict, Refuse) or not used:
        return verdict
    return Rewrite(call.arguments, rule="+".join(used))
