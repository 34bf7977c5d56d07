"""Server-side printing: objects as a `meta.k8s.io/v1` Table, which is what `kubectl get` shows."""

import json
from functools import lru_cache
from typing import Any

from localcluster.apiserver.table import pods, resources
from localcluster.apiserver.table.custom import custom_printer
from localcluster.apiserver.table.printer import Json, Printer

_BUILT_IN: dict[tuple[str, str], Printer] = {**pods.PRINTERS, **resources.PRINTERS}


@lru_cache(maxsize=256)
def _custom(declared: str) -> Printer:
    return custom_printer(json.loads(declared))


def _row_object(item: Json, include: str) -> Any:
    if include == "Object":
        return item
    if include == "None":
        return None
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item.get("metadata", {})}


def to_table(
    group: str,
    kind: str,
    objects: list[Json],
    *,
    now: float,
    columns: list[Json] | None = None,
    custom: bool = False,
    include_object: str = "Metadata",
    list_meta: Json | None = None,
) -> Json:
    """The objects of one kind as a Table, ages counted to `now` (unix seconds).

    `columns` are the `additionalPrinterColumns` of a CRD version; `custom` says that the kind is a custom resource even
    if it declares none. A built-in kind without a printer of its own gets Name and Created At, as on the real server.
    `include_object` is the query parameter of that name.
    """
    printer = _custom(json.dumps(columns or [])) if custom or columns else _BUILT_IN.get((group, kind), resources.CREATED_AT)
    cells = [[cell(item, now) for _, cell in printer] for item in objects]
    rows = [{"cells": row, "object": _row_object(item, include_object)} for row, item in zip(cells, objects, strict=True)]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta or {},
        "columnDefinitions": [definition for definition, _ in printer],
        "rows": rows,
    }
