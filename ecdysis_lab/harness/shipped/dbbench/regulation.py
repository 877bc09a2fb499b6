"""Trajectory regulation for agentbench/dbbench: replies taken as the calls they meant, results explained."""

import json
import re

from ecdysis_lab.hooks import Call, Rules, Verdict, View, anycase

rules = Rules()
SQL, COMMIT = "execute_sql", "commit_final_answer"
VERB = r"(?:select|insert|update|delete|show|describe|with)\b"
FENCE = anycase(rf"(?:```(?:sql|mysql)?\s*\n?|<sql>\s*)({VERB}[\s\S]*?)\s*(?:```|</sql>|$)")
INLINE = anycase(rf"`({VERB}\s[^`\n]*(?:`[^`\n]+`[^`\n]*)*?)`(?=[\s.,;:)]|$)")
ALONE = anycase(rf"\s*({VERB}[^\n]*(?:\n[^\n]+)*)\s*")
CALL = re.compile(rf"\{{+\s*\"name\"\s*:\s*\"({SQL}|{COMMIT})\"")
BETWEEN = re.compile(r"[`_\s]+")
TAG = re.compile(rf"<{SQL}\s+query=([\"'])(.*?)\1\s*/?>", re.S)
CHANGE = anycase(r"^\s*(insert|update|delete|replace)\b")
HEADERS = re.compile(r"The name of this table is (.+?), and the headers of this table are (.+?)\.?\s*$", re.M)
HAND_IN = f'{{"name": "{COMMIT}", "arguments": {{"answers": ["..."]}}}}'
FORM = f'{{"name": "{SQL}", "arguments": {{"query": "SELECT ..."}}}}, or {HAND_IN} once you know'


def written_call(text: str, name: str) -> Call | None:
    """The call that a text begins with; a template's doubled braces are single ones."""
    for written in (text, text.replace("{{", "{").replace("}}", "}")):
        try:
            value, _ = json.JSONDecoder().raw_decode(written)
        except ValueError:
            continue
        arguments = value.get("arguments", value.get("parameters"))
        if isinstance(arguments, dict) and "properties" not in arguments:
            return Call(name, arguments)
    return None


def said_again(call: Call, view: View) -> bool:
    """Whether it is the statement that was executed last, however its names are quoted."""
    last = view.done[-1].call.arguments if view.done else {}
    mine, before = (BETWEEN.sub("", str(a.get("query"))) for a in (call.arguments, last))
    return call.name == SQL and mine == before


@rules.realize("call_in_text")
def call_in_text(text: str, view: View) -> Call | None:
    """The first call written out as JSON that does not only repeat the one before."""
    found = [written_call(text[m.start() :], m[1]) for m in list(CALL.finditer(text))[:9]]
    calls = [call for call in found if call]
    return next((call for call in calls if not said_again(call, view)), calls[0] if calls else None)


@rules.realize("tag_in_text")
def tag_in_text(text: str, view: View) -> Call | None:
    """A statement as an attribute of a tag that has the tool's name."""
    found = TAG.search(text)
    return Call(SQL, {"query": found[2]}) if found else None


@rules.realize("statement_in_text")
def statement_in_text(text: str, view: View) -> Call | None:
    """The first statement in a fence, one that is the whole text, or one that is marked as code in a line."""
    found = FENCE.search(text) or ALONE.fullmatch(text) or INLINE.search(text)
    return Call(SQL, {"query": found[1].strip()}) if found else None


@rules.reply("exact_form")
def exact_form(text: str, view: View) -> tuple[str, str] | None:
    """Nobody reads a text; told once, since the benchmark says so from then on."""
    if any(m["role"] == "assistant" for m in view.messages[-2:]):
        return None
    return "Nobody reads a text here: only calls do something.", f"Write nothing but the call: {FORM}."


@rules.note("error_note")
def error_note(call: Call, result: str, view: View) -> str | None:
    """What the names are, after a statement that failed over one."""
    if not view.done[-1].error or not any(code in result for code in ("1064", "1054", "1146")):
        return None
    found = next((HEADERS.search(str(m["content"])) for m in view.messages), None)
    if not found:
        return None
    columns = ", ".join(f"`{name.strip()}`" for name in found[2].split(",") if name.strip())
    return f"The table is `{found[1]}`, its columns are {columns}. Correct the statement; do not commit yet."


@rules.note("done_note")
def done_note(call: Call, result: str, view: View) -> str | None:
    """[] after a change."""
    changed = CHANGE.search(str(call.arguments.get("query", ""))) and not view.done[-1].error
    return f"The change was executed. Call {COMMIT} now." if changed else None


@rules.note("same_note")
def same_note(call: Call, result: str, view: View) -> str | None:
    """The statement before, once more, with the same rows."""
    last = [(done.call.arguments, done.result) for done in view.done[-2:] if done.call.name == SQL]
    again = call.name == SQL and len(last) == 2 and last[0] == last[1] and not view.done[-1].error
    return f"The same statement gives the same rows. Hand in what they say: {HAND_IN}." if again else None


@rules.note("empty_note")
def empty_note(call: Call, result: str, view: View) -> str | None:
    """No row, or nothing to add up."""
    if call.name != SQL or result not in ("[]", "[(None,)]"):
        return None
    return "No row fits. Look at the values that the column has (SELECT DISTINCT), or compare with LIKE."


@rules.note("cut_note")
def cut_note(call: Call, result: str, view: View) -> str | None:
    """A result that was cut."""
    cut = call.name == SQL and "[cut at 800 characters]" in result
    return "The result was cut: ask for the needed columns and rows only, or COUNT them." if cut else None


def observe(call: Call, result: str, view: View) -> str | None:
    """The first note that fits a result."""
    return rules.observe(call, result, view)


def on_reply(text: str, view: View) -> Verdict:
    """Take a text as the call that it meant, or send it back."""
    return rules.on_reply(text, view)
