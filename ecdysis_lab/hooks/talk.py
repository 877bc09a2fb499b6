"""What a call asks for, what the user agreed to, and what a reply claims."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence

from ecdysis_lab.hooks.forms import Pattern, Row, anycase
from ecdysis_lab.hooks.verdicts import Call
from ecdysis_lab.hooks.view import View

_QUESTION = (
    r"confirm|proceed|go ahead|would you like|(shall|should) i|do you want|yes/no|\(yes|is that correct"
)
_PLAIN_YES = (
    r"yes|yeah|yep|yup|(?<!make )(?<!not )sure|ok|okay|confirm\w*|proceed|go ahead|correct|agree\w*|please do"
    r"|sounds good|that works"
)
# A question, a yes and a claim that stand for themselves; ASKS and YES are wider and weigh only beside each other.
ASKED = anycase(_QUESTION)
AGREED = anycase(rf"\b({_PLAIN_YES}|sí|oui|ja|sim|да|igen|tak|evet)\b|是|好的|确认|はい|예|네")
CLAIM = anycase(
    r"\b((i )?(has|have)|i've)( now| just| been| successfully)* (cancel+ed|booked|changed|updated"
    r"|upgraded|downgraded|modified|exchanged|returned|processed|completed|placed|added|removed|issued|sent|made"
    r"|done|taken care)\b|\b(is|are)( now)? (confirmed|booked|cancel+ed|completed?|done|all set)\b"
    r"|\bbeen requested\b|\bsuccessfully\b"
)
ASKS = anycase(
    rf"{_QUESTION}|like me to|let me know|\b(is|are) (this|that|these|it)\b.{{0,30}}(right|correct|fine|ok)"
    r"|payment method"
)
YES = anycase(
    rf"\b({_PLAIN_YES}|ya|oui|please|go (for|with)|exactly|absolutely|definitely|certainly|perfect|great|fine|good"
    r"|right|works|do (it|that|so|them)|let'?s|of course|alright|i accept|make (it|the|that)|i('d| would) like"
    r"|i('ll| will) (use|take|go))\b"
)
_WAIT = anycase(
    r"(?<!can't )(?<!cannot )\b(wait|hold on|hang on|not yet|not now|never ?mind|think about|let me think"
    r"|rethink)\b"
)
_NO = anycase(
    r"^\W*(no|nope)\b|\bchanged my mind\b|\b(don'?t|do not|rather not)( (want (you|to|it)|do|proceed|go|book"
    r"|cancel|change|make|continue|confirm|return|exchange|modify)\b|\W*$)"
)
_CLEAR = anycase(
    r"\b(yes|yeah|go ahead|proceed|i confirm|confirmed|sounds good|works|that'?s (fine|correct|right)"
    r"|please (book|cancel|change|make|return|exchange|modify|update|upgrade|add|use|process))\b"
)
_HUMAN = anycase(
    r"\b(human|agent|transfer\w*|supervisor|manager|represent\w*|escalat\w*|(some|any)(one|body)|person)\b"
)
_CANNOT = anycase(
    r"can ?not|can'?t|unable|\bnot\b.{0,20}(possible|allow|permit|eligib|able|cover)|polic|beyond|outside"
)
_STARTS_WITH_YES = anycase(rf"^\W*({_PLAIN_YES}|please|that'?s (right|correct))\b")


def rows(call: Call, key: str) -> list[Row]:
    """A list argument as its objects."""
    value = call.arguments.get(key)
    return [r for r in value if isinstance(r, dict)] if isinstance(value, list) else []


def ids(call: Call, key: str) -> list[str]:
    """A list argument as text ids."""
    value = call.arguments.get(key)
    return [str(v) for v in value] if isinstance(value, list) else []


def number(call: Call, key: str) -> float:
    """A number argument; 0 where it is missing or no number."""
    value = call.arguments.get(key)
    return value if isinstance(value, (int, float)) else 0


def said(view: View, *roles: str) -> str:
    """Everything these roles said, one message a line."""
    return "\n".join(m["content"] for m in view.messages if m["role"] in roles)


def agrees(answer: str) -> bool:
    """Whether an answer holds a plain yes."""
    return bool(AGREED.search(answer))


def declines(answer: str) -> bool:
    """Whether an answer puts the action off, or says no without a clear yes to it."""
    rest = _NO.sub(" ", answer)
    return bool(_WAIT.search(answer)) or (rest != answer and not _CLEAR.search(rest))


def names_it(call: Call, text: str, kinds: Iterable[Pattern]) -> bool:
    """Whether a text that names things of a kind (ids, say) names some of the call's, for each kind."""
    data = json.dumps(call.arguments, default=str)
    found = [(set(kind.findall(data)), set(kind.findall(text))) for kind in kinds]
    return all(not wanted or not listed or wanted & listed for wanted, listed in found)


def confirmed_listing(call: Call, view: View, about: Pattern, key: str, kinds: Sequence[Pattern]) -> str:
    """The agent's message on such an action that one of the last four answers said yes to, with the answer.

    Parameters
    ----------
    about : words for the kind of action. key : argument with the id of what is changed; naming it counts as asking.
    kinds : forms of ids for ``names_it``.

    Returns
    -------
    Both texts, a line each, or an empty string.
    """
    talk = [("", ""), *((m["role"], m["content"]) for m in view.messages)]
    turns = [(talk[i - 1], talk[i][1]) for i in range(1, len(talk)) if talk[i][0] == "user"]
    for (role, asked), answer in reversed(turns[-4:]):
        if declines(answer):
            return ""
        wants = YES.search(answer) or (about.search(answer) and "?" not in answer)
        listed = ASKS.search(asked) or str(call.arguments.get(key)) in asked
        if role == "assistant" and about.search(asked) and listed and wants:
            if names_it(call, asked + answer, kinds):
                return f"{asked}\n{answer}"
    return ""


def ask_first(call: Call) -> str:
    """The option for a write without a yes."""
    details = json.dumps(call.arguments, default=str)[:400]
    return f"Nothing was changed. Tell the user {details}, ask for a yes, call again."


def early_transfer(call: Call, view: View) -> str | None:
    """The option for a transfer where no user asked for a person and no agent said what cannot be done."""
    why = said(view, "assistant") + str(call.arguments.get("summary"))
    known = _HUMAN.search(said(view, "user")) or _CANNOT.search(why)
    return None if known else "Handle the request with the tools, or name in the summary what policy forbids."


# -- notes and replies ---


def same_call(a: Call, b: Call) -> bool:
    """Whether two calls are equal as JSON, where 1 and true differ."""
    return a.name == b.name and _text(a) == _text(b)


def _text(call: Call) -> str:
    return json.dumps(call.arguments, sort_keys=True, default=str)


def repeated_call(call: Call, view: View, limit: int) -> str | None:
    """The same call so often in a row has nothing new to show."""
    count = 0
    for done in reversed(view.done):
        if not same_call(done.call, call):
            break
        count += 1
    if count < limit:
        return None
    return (
        f"This is the same call {count} times in a row. Use the result that you have and take the next step."
    )


def repeated_read(call: Call, result: str, view: View) -> str | None:
    """The third same read since the last change learns nothing new."""
    count = 0
    for done in reversed(view.done):
        if view.kind(done.call.name) == "write" and not done.error:
            break
        count += same_call(done.call, call)
    if view.kind(call.name) != "read" or count < 3:
        return None
    return "You made this same call before and nothing has changed since: use what you have, or ask the user."


def error_hint(call: Call, result: str, view: View, hints: Iterable[tuple[Pattern, str]]) -> str | None:
    """The first hint whose pattern occurs in the result of a call that was rejected."""
    failed = view.done and view.done[-1].error and same_call(view.done[-1].call, call)
    return next((hint for pattern, hint in hints if pattern.search(result)), None) if failed else None


def claim_without_write(
    text: str,
    view: View,
    tools: Mapping[str, Pattern],
    key: str,
    listed: Pattern,
    doubtful: Sequence[str] = (),
) -> tuple[str, str] | None:
    """Reason and option where a reply claims, right after the user's yes to it, work that no call did.

    A rejected call counts as one, as it got its own note.

    Parameters
    ----------
    tools : write tool -> words for its work, in the question or the claim.
    key : argument with the id of what is changed. listed : form of such ids; where the agent's question lists some,
        the call must have been about one of them, or about no id.
    doubtful : tools whose claim alone stops nothing.
    """
    asked, answer = _last_exchange(view)
    if not _STARTS_WITH_YES.match(answer):
        return None
    wanted = set(listed.findall(asked))
    for call in (done.call for done in reversed(view.done) if done.call.name in tools):
        about = not wanted or call.arguments.get(key, "") in ("", *wanted)
        if about and tools[call.name].search(asked + text):
            return None
    if not (ASKED.search(asked) and CLAIM.search(text)):  # last, since it costs most
        return None
    claimed = [tool for tool, words in tools.items() if words.search(asked + text)]
    if set(claimed) <= set(doubtful):
        return None
    return (
        "You say it is done, but no call did what the user has just confirmed.",
        f"Call {' or '.join(claimed)} now, or tell the user what is still open.",
    )


def agreed_not_done(text: str, view: View, tools: Collection[str]) -> tuple[str, str] | None:
    """Reason and option where a reply to a yes claims work, and the user said yes more often than these tools ran."""
    agreed = sum(m["role"] == "user" and agrees(m["content"]) for m in view.messages)
    ran = sum(done.call.name in tools and not done.error for done in view.done)
    if agreed <= ran or not agrees(view.last_user()) or not CLAIM.search(text):
        return None
    return (
        "The user agreed to a change and no call has made it.",
        "Make the agreed call now, then tell the user.",
    )


def transfer_without_call(text: str, view: View, tool: str, message: str) -> tuple[str, str] | None:
    """Reason and option where a reply holds the transfer message (in capitals) and the tool was not called."""
    if message not in text.upper() or any(done.call.name == tool for done in view.done):
        return None
    return (
        "Policy: to transfer, first make the tool call, then send that message.",
        f"Call {tool} if the request cannot be handled, else go on.",
    )


def _last_exchange(view: View) -> tuple[str, str]:
    """The last message before the user's latest, and that one; empty where the user did not speak last."""
    turns = [m for m in view.messages if m["content"]]
    if len(turns) < 2 or turns[-1]["role"] != "user":
        return "", ""
    return turns[-2]["content"], turns[-1]["content"]
