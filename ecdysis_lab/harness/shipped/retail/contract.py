"""Environment contract of tau2/retail: what the schemas leave unsaid, one short note a tool."""

from ecdysis_lab.hooks import Row, with_note

ONCE = "Collect all items first: every item goes into this one call (item_ids is a list), once per order."
NOTES = {
    "find_user_id_by_name_zip": "zip: five digits. Locate the user first, even when a user id is given.",
    "get_product_details": "product_id: from orders or list_all_product_types, different from an item id.",
    "get_order_details": "order_id looks like #W1234567. Check the status before any change.",
    "cancel_pending_order": "reason: exactly 'no longer needed' or 'ordered by mistake', as the user says.",
    "modify_pending_order_items": ONCE + " Change address and payment before.",
    "exchange_delivered_order_items": ONCE,
    "return_delivered_order_items": ONCE
    + " Refund to the original payment or a gift card, as the user says.",
    "modify_pending_order_address": "country looks like USA, state like CA.",
    "transfer_to_human_agents": "transfer only what tools and policy cannot handle.",
    "calculate": "expression: digits and + - * / ( ) only, no $.",
}


def describe(tool: Row) -> Row:
    """Add the note of a tool to its description."""
    return with_note(tool, NOTES)
