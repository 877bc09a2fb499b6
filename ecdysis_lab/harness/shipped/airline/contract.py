"""Environment contract of tau2/airline: what the schemas leave unsaid, one short note a tool."""

from ecdysis_lab.hooks import Row, with_note

NOTES = {
    "search_direct_flight": "origin, destination: three-letter IATA codes. date: YYYY-MM-DD.",
    "book_reservation": "Dates as YYYY-MM-DD; flights in travel order, both ways for a round trip. The total "
    "to pay adds $30 insurance a passenger and $50 per nonfree bag, by at most 1 certificate, 1 credit card "
    "and 3 gift cards.",
    "update_reservation_flights": "flights: every segment, unchanged ones too; dates as YYYY-MM-DD.",
    "update_reservation_baggages": "total_baggages: an integer, never fewer; nonfree: beyond the free bags.",
    "cancel_reservation": "reservation_id: six characters, no #. Not once any segment was flown.",
    "send_certificate": "Only if the user explicitly asks, for a delayed or cancelled flight.",
    "transfer_to_human_agents": "transfer only what tools and policy cannot handle.",
    "calculate": "expression: digits and + - * / ( ) only, no $.",
}


def describe(tool: Row) -> Row:
    """Add the note of a tool to its description."""
    return with_note(tool, NOTES)
