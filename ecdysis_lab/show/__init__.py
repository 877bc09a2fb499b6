"""For people: ``figures``, ``tables``, ``widgets``, ``report`` and ``rounds``."""
