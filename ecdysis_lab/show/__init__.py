"""For people: figures, report, widgets."""
