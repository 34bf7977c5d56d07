"""Namespaces: the built-in finalizer that the namespace controller removes, and the name label."""

from typing import Any

Obj = dict[str, Any]

NAME_LABEL = "kubernetes.io/metadata.name"


def default(obj: Obj) -> None:
    """The label with the name, by which selectors find it."""
    meta = obj["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), NAME_LABEL: meta.get("name", "")}


def on_create(obj: Obj) -> None:
    """A new namespace is Active and is held by its content's finalizer."""
    obj["spec"] = {"finalizers": ["kubernetes"]}
    obj["status"] = {"phase": "Active"}


def on_update(new: Obj, old: Obj) -> None:
    """spec.finalizers changes by the finalize subresource alone."""
    new["spec"] = old["spec"]
