"""Action realization for tau2/retail: each rule serves one line of the retail policy.

Forms rewrite a call to canonical form. Rules refuse what the policy forbids and the environment would
accept; what the environment rejects by itself (status, availability, balance, refund route, reason) is left
to it. Two policy lines have no rule, because the benchmark's own solutions depart from them: orders are
changed without reading their status first, and an item is exchanged for the same one.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from ecdysis_lab.hooks import Allow, Call, Refuse, Rewrite, Verdict, View, enabled

Rule = Callable[[Call, View], Verdict | None]
Find = Callable[[Call, View], str | None]
Row = dict[str, Any]
RULES: dict[str, Rule] = {}
FORMS: dict[str, Rule] = {}

CANCEL, RETURN = "cancel_pending_order", "return_delivered_order_items"
EXCHANGE, ITEMS = "exchange_delivered_order_items", "modify_pending_order_items"
PAYMENT, ADDRESS = "modify_pending_order_payment", "modify_pending_order_address"
PROFILE, TRANSFER = "modify_user_address", "transfer_to_human_agents"
WRITES = (CANCEL, RETURN, EXCHANGE, ITEMS, PAYMENT, ADDRESS, PROFILE)
LOOKUPS = ("find_user_id_by_email", "find_user_id_by_name_zip")
PERSONAL = ("get_order_details", "get_user_details")

ABOUT = {
    CANCEL: r"cancel",
    RETURN: r"return|refund",
    EXCHANGE: r"exchang|replac|swap|switch|chang",
    ITEMS: r"modif|chang|exchang|replac|swap|switch|updat|item",
    PAYMENT: r"pay",
    ADDRESS: r"address|ship|deliver",
    PROFILE: r"address",
}
ASKS = (
    r"confirm|proceed|go ahead|would you like|(shall|should) i|do you want|like me to|yes/no|\(yes"
    r"|let me know|\b(is|are) (this|that|these|it)\b.{0,30}(right|correct|fine|ok)|payment method"
)
YES = (
    r"\b(yes|yeah|yep|yup|ya|sure|ok|okay|please|proceed|go (ahead|for|with)|confirm(ed)?|correct|agreed?"
    r"|exactly|absolutely|definitely|certainly|perfect|great|fine|good|right|works|do (it|that|so|them)|oui"
    r"|let'?s|of course|alright|i accept|make (it|the|that)|i('d| would) like|i('ll| will) (use|take|go))\b"
)
WAIT = (
    r"(?<!can't )(?<!cannot )\b(wait|hold on|hang on|not yet|not now|never ?mind|think about|let me think"
    r"|rethink)\b"
)
NO = (
    r"^\W*(no|nope)\b|\bchanged my mind\b|\b(don'?t|do not|rather not)( (want (you|to|it)|do|proceed|go|book"
    r"|cancel|change|make|continue|confirm|return|exchange|modify)\b|\W*$)"
)
CLEAR = (
    r"\b(yes|yeah|go ahead|proceed|i confirm|confirmed|sounds good|works|that'?s (fine|correct|right)"
    r"|please (book|cancel|change|make|return|exchange|modify|update|upgrade|add|use|process))\b"
)
REASONS = {
    "no longer needed": r"no longer|(do not|don't|didn't|not) (really )?(need|want)|changed? (my|your) mind",
    "ordered by mistake": r"mistake|accident|wrong|error|unintention",
}
KINDS = {
    "gift": r"gift",
    "credit": r"card|visa|mastercard|amex|original|same",
    "paypal": r"pay ?pal|original|same",
}
HUMAN = (
    r"\b(human|agent|transfer\w*|supervisor|manager|represent\w*|escalat\w*|(some|any)(one|body)|person)\b"
)
CANNOT = (
    r"can ?not|can'?t|unable|\bnot\b.{0,20}(possible|allow|permit|eligib|able|cover)|polic|beyond|outside"
)


def line(name: str, policy: str, *tools: str) -> Callable[[Find], Rule]:
    """Register ``find(call, view) -> option or None`` as a rule that refuses these tools by that policy."""

    def register(find: Find) -> Rule:
        def rule(call: Call, view: View) -> Verdict | None:
            option = find(call, view) if call.name in tools else None
            return Refuse(f"Policy: {policy}.", option, name) if option else None

        RULES[name] = rule
        return rule

    return register


def form(name: str, *keys: str) -> Callable[[Callable[[str], Any]], Rule]:
    """Register ``canonical(text) -> value or None`` for these arguments, inside lists of objects too."""

    def register(canonical: Callable[[str], Any]) -> Rule:
        def convert(data: Any, key: str = "") -> Any:
            if isinstance(data, dict):
                return {k: convert(v, k) for k, v in data.items()}
            if isinstance(data, list):
                return [convert(v) for v in data]
            found = canonical(str(data).strip()) if key in keys and data is not None else None
            return data if found is None else found

        def rule(call: Call, view: View) -> Verdict | None:
            arguments = convert(call.arguments)
            return None if arguments == call.arguments else Rewrite(arguments, rule=name)

        FORMS[name] = rule
        return rule

    return register


# -- canonical forms ---


@form("list_form", "item_ids", "new_item_ids")
def list_form(text: str) -> Any:
    """``"0000000001, 0000000002"`` -> the list of both."""
    return re.findall(r"\d{10}", text) or None


@form("order_id_form", "order_id")
def order_id_form(text: str) -> Any:
    """``"W0000000"``, ``"#w0000000"`` -> ``"#W0000000"``; a bare number may be something else."""
    found = re.fullmatch(r"#?\s*W\s*(\d{7})", text, re.I)
    return f"#W{found[1]}" if found else None


@form("id_form", "user_id", "payment_method_id", "product_id")
def id_form(text: str) -> Any:
    """``"Mei_Davis_8935"``, ``6086499569`` -> lower case text."""
    word = text.strip("#'\" ").lower()
    return word if re.fullmatch(r"([a-z]+_)*\d+", word) else None


@form("zip_form", "zip")
def zip_form(text: str) -> Any:
    """``"00000-0000"`` -> ``"00000"``."""
    found = re.fullmatch(r"(\d{5})(-\d{4})?", text)
    return found[1] if found else None


@form("country_form", "country")
def country_form(text: str) -> Any:
    """``"United States"`` -> ``"USA"``."""
    word = re.sub(r"[^a-z]", "", text.lower())
    return "USA" if word in ("us", "usa", "unitedstates", "unitedstatesofamerica", "america") else None


@form("address2_form", "address2")
def address2_form(text: str) -> Any:
    """``"N/A"`` -> ``""``."""
    return "" if text.lower() in ("n/a", "na", "none", "null", "-") else None


@form("reason_form", "reason")
def reason_form(text: str) -> Any:
    """``"No longer needed."`` -> ``"no longer needed"``; other reasons stay, to be rejected."""
    word = re.sub(r"[^a-z ]", "", text.lower()).strip()
    return word if word in REASONS else None


@form("expression_form", "expression")
def expression_form(text: str) -> Any:
    """``"$1,200 × 2"`` -> ``"1200 * 2"``."""
    return re.sub(r"(?<=\d),(?=\d{3})", "", text.replace("$", "")).replace("×", "*").replace("÷", "/")


# -- what the rules ask ---


def said(view: View, *roles: str) -> str:
    """Everything these roles said, one message a line."""
    return "\n".join(m["content"] for m in view.messages if m["role"] in roles)


def has(pattern: str, text: str) -> bool:
    """Whether the pattern occurs, in any case."""
    return re.search(pattern, text, re.I) is not None


def ids(call: Call, key: str = "item_ids") -> list[str]:
    """A list argument as text ids."""
    value = call.arguments.get(key)
    return [str(v) for v in value] if isinstance(value, list) else []


def order(call: Call, view: View) -> Row:
    """The order a call is about, or an empty dict."""
    key = call.arguments.get("order_id")
    return view.read("get_order_details", order_id=str(key)) or {} if key else {}


def profile(user: str, view: View) -> Row:
    """A profile by user id, or an empty dict."""
    return view.read("get_user_details", user_id=user) or {} if user else {}


def user_of(call: Call, view: View) -> str:
    """The user id a call is about, or an empty string."""
    return str(call.arguments.get("user_id") or order(call, view).get("user_id") or "")


def owner(call: Call, view: View) -> Row:
    """The profile a call is about, or an empty dict."""
    return profile(user_of(call, view), view)


def located(view: View) -> list[str]:
    """User ids that lookups by email or by name and zip have found."""
    return [d.result.strip('" ') for d in view.done if d.call.name in LOOKUPS and not d.error]


def proven(user: Row, view: View) -> bool:
    """Whether the user's own words hold the email, or the name and zip, of a profile."""
    words = said(view, "user").lower()
    name = [user["name"]["first_name"], user["name"]["last_name"], user["address"]["zip"]]
    return user["email"].lower() in words or all(part.lower() in words for part in name)


# -- who is served ---


@line("authenticate_first", "first locate the user id by email, or by name and zip code", *PERSONAL, *WRITES)
def authenticate_first(call: Call, view: View) -> str | None:
    """Nothing personal before the user is known; a user id alone is not enough."""
    user = {} if located(view) else owner(call, view)
    unknown = user and not proven(user, view)
    return "Ask for the email, or name and zip code, and look the user id up." if unknown else None


@line(
    "one_user",
    "help only one user per conversation, and deny what concerns others",
    *PERSONAL,
    *WRITES,
    *LOOKUPS,
)
def one_user(call: Call, view: View) -> str | None:
    """Only the customer who was located is served; one person may have two profiles."""
    known = located(view)
    if not known:
        return None
    found = view.read(call.name, **call.arguments) if call.name in LOOKUPS else user_of(call, view)
    user = str(found or "").strip('"')
    if user in ("", *known) or profile(user, view).get("name") == profile(known[0], view).get("name"):
        return None
    return f"Serve {known[0]} only: take order ids from that profile, and deny the rest."


# -- orders, and the user's yes ---


@line("modified_order_final", "once its items are modified an order can be neither modified nor cancelled",
      CANCEL, ITEMS, PAYMENT, ADDRESS)  # fmt: skip
def modified_order_final(call: Call, view: View) -> str | None:
    """Address and payment come before the items."""
    final = "modified" in str(order(call, view).get("status"))
    return "Tell the user that this order can no longer be changed." if final else None


@line("items_listed", "the user confirms the list of items", RETURN, EXCHANGE, ITEMS)
def items_listed(call: Call, view: View) -> str | None:
    """A change of no items still closes the order to further changes."""
    return None if ids(call) else "Ask which items, and send all of them in item_ids."


def declines(answer: str) -> bool:
    """Whether an answer puts the action off, or says no without a clear yes to it."""
    rest = re.sub(NO, " ", answer, flags=re.I)
    return has(WAIT, answer) or (rest != answer and not has(CLEAR, rest))


def confirmed_listing(call: Call, view: View) -> str | None:
    """The agent's message about this kind of action that a recent answer said yes to, with the answer."""
    talk = [("", ""), *((m["role"], m["content"]) for m in view.messages)]
    turns = [(talk[i - 1], talk[i][1]) for i in range(1, len(talk)) if talk[i][0] == "user"]
    about = ABOUT[call.name]
    for (role, asked), answer in reversed(turns[-4:]):
        if declines(answer):
            return None
        wants = has(YES, answer) or (has(about, answer) and "?" not in answer)
        listed = has(ASKS, asked) or str(call.arguments.get("order_id")) in asked
        if role == "assistant" and has(about, asked) and listed and wants and names_it(call, asked + answer):
            return f"{asked}\n{answer}"
    return None


def names_it(call: Call, text: str) -> bool:
    """Whether a text that names orders, payment methods or items names some of the call's."""
    data = json.dumps(call.arguments, default=str)
    kinds = (r"#W\d{7}\b", r"\b(?:gift_card|credit_card|paypal)_\d{7}\b", r"\b\d{10}\b")
    found = [(set(re.findall(kind, data)), set(re.findall(kind, text))) for kind in kinds]
    return all(not wanted or not listed or wanted & listed for wanted, listed in found)


@line("confirmed_first", "list the action details and obtain an explicit yes first", *WRITES)
def confirmed_first(call: Call, view: View) -> str | None:
    """The user agreed to this kind of action, on this order, with this payment method."""
    if confirmed_listing(call, view):
        return None
    details = json.dumps(call.arguments, default=str)[:400]
    return f"Nothing was changed. Tell the user {details}, ask for a yes, call again."


@line("all_items_in_one_call", "collect all items to be changed into one call, since it works once per order",
      RETURN, EXCHANGE, ITEMS)  # fmt: skip
def all_items_in_one_call(call: Call, view: View) -> str | None:
    """No item of the confirmed listing is left out of the call."""
    listing = confirmed_listing(call, view) or ""
    mine = [item["item_id"] for item in order(call, view).get("items", [])]
    listed = [i for i in dict.fromkeys(re.findall(r"\b\d{10}\b", listing)) if i in mine]
    missing = [i for i in listed if i not in ids(call)]
    new = [i for i in re.findall(r"\b\d{10}\b", listing) if i not in mine]
    # A listing may show the whole order: only one with a new item for each old one names them all for change.
    whole = (
        len(new) >= len(listed)
        if call.name != RETURN
        else not has(r"contain|includ|keep|other item", listing)
    )
    return f"Send {', '.join(listed)} together in item_ids." if missing and whole else None


@line("cancel_reason", "the user confirms the reason, no longer needed or ordered by mistake", CANCEL)
def cancel_reason(call: Call, view: View) -> str | None:
    """The reason of the call was spoken of (the environment rejects other reasons itself)."""
    pattern = REASONS.get(str(call.arguments.get("reason")))
    silent = pattern is not None and not has(pattern, said(view, "user", "assistant"))
    return "Ask why: no longer needed, or ordered by mistake? Cancel for no other reason." if silent else None


@line("payment_provided", "the user provides the payment method", RETURN, EXCHANGE, ITEMS, PAYMENT)
def payment_provided(call: Call, view: View) -> str | None:
    """The kind of payment method was spoken of."""
    kind = str(call.arguments.get("payment_method_id")).split("_")[0]
    if has(KINDS.get(kind, "."), said(view, "user", "assistant")):
        return None
    options = ", ".join(owner(call, view).get("payment_methods", {}))
    return f"Ask which to use: {options}." if options else None


@line("address_given", "do not make up information", ADDRESS, PROFILE)
def address_given(call: Call, view: View) -> str | None:
    """Street, city, state and zip are there, and street number and zip were given by someone."""
    parts = {
        k: str(call.arguments.get(k) or "").strip() for k in ("address1", "city", "state", "country", "zip")
    }
    known = (
        said(view, "user", "assistant")
        + json.dumps(owner(call, view))
        + " ".join(d.result for d in view.done)
    )
    digits = [*re.findall(r"^\d+", parts["address1"]), parts["zip"]]
    if all(parts.values()) and all(d in known for d in digits):
        return None
    return "Ask for the full address: street, city, state, country and zip code."


# -- transfer ---


@line("transfer_out_of_scope", "transfer if and only if the request cannot be handled here", TRANSFER)
def transfer_out_of_scope(call: Call, view: View) -> str | None:
    """The user asked for a person, or the agent has said what cannot be done."""
    why = said(view, "assistant") + str(call.arguments.get("summary"))
    known = has(HUMAN, said(view, "user")) or has(CANNOT, why)
    return None if known else "Handle the request with the tools, or name in the summary what policy forbids."


# -- the hook ---


def check(call: Call, view: View) -> Verdict:
    """Bring a call to canonical form, then hold it against the policy."""
    view, original, applied = remembered(view), call, []
    for name, rule in FORMS.items():
        verdict = rule(call, view) if enabled(name) else None
        if isinstance(verdict, Rewrite):
            call, applied = Call(call.name, verdict.arguments or {}, call.id), [*applied, name]
    for name, rule in RULES.items():
        verdict = rule(call, view) if enabled(name) else None
        if verdict is not None:
            return verdict
    return Rewrite(call.arguments, rule="+".join(applied)) if call is not original else Allow()


def remembered(view: View) -> View:
    """The same view with each read made once, since several rules ask for the same row."""
    seen: dict[str, Any] = {}

    def read(tool: str, arguments: Row) -> Any:
        key = tool + json.dumps(arguments, sort_keys=True, default=str)
        if key not in seen:
            seen[key] = view.read(tool, **arguments)
        return seen[key]

    return View(view.messages, view.done, view.policy, view.tools, view.steps_left, read)
