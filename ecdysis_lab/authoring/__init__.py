"""What harness authors may import besides ``ecdysis_lab.hooks``: rule registers, forms, and readers of the talk.

Nothing here knows a benchmark. The patterns are compiled once, in the fork server, and every worker inherits them.
State lives only in the ``Rules`` that a harness file makes for itself, so no two files or trials share any.

Standard library and ``hooks`` only, since the sandbox loads this package without the rest. Harness code sees the
names below and nothing of the modules behind them.
"""

from ecdysis_lab.authoring.forms import (
    Pattern,
    Row,
    anycase,
    fitting,
    iso_date,
    json_list,
    plain_expression,
    whole_number,
    with_note,
)
from ecdysis_lab.authoring.rules import Rules
from ecdysis_lab.authoring.talk import (
    ASKS,
    YES,
    ask_first,
    claim_without_write,
    confirmed_listing,
    declines,
    early_transfer,
    error_hint,
    ids,
    names_it,
    number,
    repeated_read,
    rows,
    said,
    same_call,
    transfer_without_call,
)

__all__ = [
    "ASKS",
    "YES",
    "Pattern",
    "Row",
    "Rules",
    "anycase",
    "ask_first",
    "claim_without_write",
    "confirmed_listing",
    "declines",
    "early_transfer",
    "error_hint",
    "fitting",
    "ids",
    "iso_date",
    "json_list",
    "names_it",
    "number",
    "plain_expression",
    "repeated_read",
    "rows",
    "said",
    "same_call",
    "transfer_without_call",
    "whole_number",
    "with_note",
]
