"""The usage of a namespace, as a ResourceQuota counts it."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from localcluster.apiserver.storage import Item, Storage
from localcluster.quantity import parse_quantity

Obj = dict[str, Any]

QUOTA_TABLE = "resourcequotas"


def plain(value: Decimal) -> str:
    """A quantity without exponent."""
    return format(value.normalize(), "f")


def usage(storage: Storage, namespace: str, names: Sequence[str]) -> dict[str, Decimal]:
    """The usage of a namespace by quota resource; finished pods count nothing."""
    totals = dict.fromkeys(names, Decimal(0))
    for table in {_table_of(name) for name in names}:
        plural, _, group = table.partition(".")
        for item in storage.table(table).items(namespace):
            if table == "pods" and _finished(item):
                continue
            for name, amount in usage_of(plural, group, item.obj).items():
                if name in totals:
                    totals[name] += amount
    return totals


def _finished(item: Item) -> bool:
    return item.obj.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _table_of(name: str) -> str:
    if name.startswith("count/"):
        return name.removeprefix("count/")
    if name in ("cpu", "memory") or name.startswith(("requests.", "limits.")):
        return "pods"
    return name


def usage_of(plural: str, group: str, obj: Obj) -> dict[str, Decimal]:
    """The usage of one object by quota resource."""
    qualified = f"{plural}.{group}" if group else plural
    found = {f"count/{qualified}": Decimal(1), qualified: Decimal(1)}
    if qualified != "pods":
        return found
    for container in obj.get("spec", {}).get("containers") or ():
        for part, amounts in (container.get("resources") or {}).items():
            for name, text in (amounts or {}).items() if part in ("requests", "limits") else ():
                try:
                    amount = parse_quantity(text)
                except ValueError:
                    continue
                for key in (f"{part}.{name}", name) if part == "requests" else (f"{part}.{name}",):
                    found[key] = found.get(key, Decimal(0)) + amount
    return found
