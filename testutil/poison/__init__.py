"""Malformed and hostile jobs: as data (`kinds`), and what they do to their neighbours (`trial`, ``make poison``)."""
