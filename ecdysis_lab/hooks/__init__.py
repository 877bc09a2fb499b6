"""What a harness author imports: calls, verdicts, the read-only view, rule registers, forms, and readers of the talk.

A harness is a folder with up to four files, one per layer; each function is optional.

============== ============================ ================================================
file           function                     when it runs
============== ============================ ================================================
contract.py    ``describe(tool) -> tool``   once per tool, before the interaction
skills.py      ``brief(opening, policy)``   once, with the user's first message -> str
actions.py     ``check(call, view)``        before a tool call executes -> verdict
regulation.py  ``observe(call, result, view)``  after it executed -> str or None
regulation.py  ``on_reply(text, view)``     before a text reaches the user -> verdict
============== ============================ ================================================

Nothing here knows a benchmark, and everything needs the standard library only, since the sandbox loads this package
without the rest. The patterns are compiled once, in the fork server; state lives only in the ``Rules`` that a harness
file makes for itself. Harness code sees the names below and nothing of the modules behind them.
The layers are those of Life-Harness (arXiv 2605.22166).
"""

from ecdysis_lab.hooks.forms import (
    Pattern,
    Row,
    anycase,
    fitting,
    iso_date,
    json_list,
    plain_expression,
    plain_words,
    snake_case,
    whole_number,
    with_note,
)
from ecdysis_lab.hooks.rules import Rules
from ecdysis_lab.hooks.talk import (
    ASKS,
    CLAIM,
    YES,
    agreed_not_done,
    agrees,
    ask_first,
    claim_without_write,
    confirmed_listing,
    declines,
    early_transfer,
    error_hint,
    ids,
    names_it,
    number,
    repeated_call,
    repeated_read,
    rows,
    said,
    same_call,
    transfer_without_call,
)
from ecdysis_lab.hooks.verdicts import (
    Allow,
    Call,
    Done,
    Realize,
    Refuse,
    Rewrite,
    Verdict,
    enabled,
)
from ecdysis_lab.hooks.view import View

__all__ = [
    "ASKS",
    "CLAIM",
    "YES",
    "Allow",
    "Call",
    "Done",
    "Pattern",
    "Realize",
    "Refuse",
    "Rewrite",
    "Row",
    "Rules",
    "Verdict",
    "View",
    "agreed_not_done",
    "agrees",
    "anycase",
    "ask_first",
    "claim_without_write",
    "confirmed_listing",
    "declines",
    "early_transfer",
    "enabled",
    "error_hint",
    "fitting",
    "ids",
    "iso_date",
    "json_list",
    "names_it",
    "number",
    "plain_expression",
    "plain_words",
    "repeated_call",
    "repeated_read",
    "rows",
    "said",
    "same_call",
    "snake_case",
    "transfer_without_call",
    "whole_number",
    "with_note",
]
