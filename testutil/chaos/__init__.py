"""Chaos with real processes: `kill -9` of the operator and of the embedded cluster while jobs run (``make chaos``)."""
