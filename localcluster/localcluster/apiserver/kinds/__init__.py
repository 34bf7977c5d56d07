"""Defaults and validation of the built-in kinds, as far as users meet them: one module per family, pure functions on dicts."""
