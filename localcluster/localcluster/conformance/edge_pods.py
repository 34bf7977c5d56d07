"""Pods at the edge of what a server takes, as changes of one pod, with the answers that a real server gave."""

import json
import re
from functools import partial
from pathlib import Path

import jsonpatch

from localcluster.conformance.case import Case, Expect, Json, Step, Steps
from localcluster.conformance.kinds import PODS
from localcluster.request import JSON_PATCH

FILE = Path(__file__).with_name("edge_pods.json")
_DRY_RUN = {"dryRun": "All"}
_BATCH = 20


def cases() -> list[Case]:
    """The rows of the file, some of them in each case. Only what is to be updated is stored."""
    document = json.loads(FILE.read_text())
    rows = document["cases"]
    batches = [rows[first : first + _BATCH] for first in range(0, len(rows), _BATCH)]
    return [
        Case(f"pods at the edge, {number}: {rows[0]['name']}", partial(_steps, document, rows))
        for number, rows in enumerate(batches)
    ]


def _steps(document: Json, rows: list[Json]) -> Steps:
    """The pods are named as their rows, so that a report says which it is."""
    for row in rows:
        name = re.sub(r"[^a-z0-9]+", "-", row["name"].lower())
        body = _changed(document["base"], [{"op": "replace", "path": "/metadata/name", "value": name}])
        expect = _expected(document, row)
        if "of" in row:
            yield PODS.create(_changed(body, row["of"]))
            yield Step("PATCH", PODS, name, row["change"], expect, JSON_PATCH, _DRY_RUN)
        else:
            yield Step("POST", PODS, body=_changed(body, row["change"]), query=_DRY_RUN, expect=expect)


def _expected(document: Json, row: Json) -> Expect:
    causes = row.get("causes", ())
    return Expect(
        row["code"],
        causes=tuple(sorted({f"{reason} {path}" for reason, path, _ in causes})) if row["code"] == 422 else None,
        fields=_changed(document["answer"], row["answer"]) if "answer" in row else {},
    )


def _changed(value: Json, operations: list[Json]) -> Json:
    changed: Json = jsonpatch.apply_patch(value, operations)
    return changed
