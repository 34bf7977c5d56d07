"""Nodes."""

from typing import Any

Obj = dict[str, Any]


def on_create(obj: Obj) -> None:
    """A node has a spec, even an empty one."""
    obj.setdefault("spec", {})
