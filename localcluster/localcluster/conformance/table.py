"""What a real API server has answered: rows of data, each a request with what its answer must be.

`table.json` holds the cases, each the steps of one namespace. ``do`` is ``METHOD plural name subresource``, ``*`` each of the
case's ``kinds``; WATCH reads every event up to now. A ``body`` that is posted changes the smallest object of its kind.
``$2.metadata.uid`` is a part of the answer to the second step, ``{"$2": patch}`` that answer with a merge patch, ``$after`` a
time at least so many seconds after another. ``pause`` are seconds that pass before the request, ``settle`` repeats it until it
is answered as expected, for what a server does a moment later, and ``brief`` asks for metadata only.

What must be: ``code``, ``reason``, a part of the ``message``, ``fields`` by dotted path (null: absent), ``causes`` as ``reason
field``, the names of ``items``, and ``events`` as ``TYPE name``, all in order. What is not given is not checked.

`edge_pods.json` holds pods at the edge of what a server takes, as changes of one pod.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonpatch

from localcluster.apiserver.rest.patch import merge
from localcluster.timestamps import parse_time

Json = dict[str, Any]
FILE, EDGE = Path(__file__).with_name("table.json"), Path(__file__).with_name("edge_pods.json")
GROUP = "conformance.jobcommon.dev"
#: Plural -> the path of its version, and its kind. Widgets are custom, with a status.
KINDS = {
    "pods": ("/api/v1", "Pod"), "services": ("/api/v1", "Service"), "configmaps": ("/api/v1", "ConfigMap"),
    "secrets": ("/api/v1", "Secret"), "resourcequotas": ("/api/v1", "ResourceQuota"),
    "widgets": (f"/apis/{GROUP}/v1", "Widget"),
}  # fmt: skip
_REFERENCE = re.compile(r"\$(\d+)(?:\.(.+))?")
_BATCH = 20


@dataclass(frozen=True, slots=True)
class Case:
    """Named steps."""

    name: str
    steps: Sequence[Json]


def at(value: Any, path: str) -> Any:
    """The value at a dotted path (list indices are numbers); None when there is none."""
    for part in path.split("."):
        if isinstance(value, list) and part.isdigit():
            value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, Mapping):
            value = value.get(part)
        else:
            return None
    return value


def resolved(value: Any, answers: Sequence[Json]) -> Any:
    """A value of a row with the parts of earlier answers in place of their names."""
    if isinstance(value, str) and (found := _REFERENCE.fullmatch(value)):
        answer = answers[int(found[1]) - 1]
        return at(answer, found[2]) if found[2] else answer
    if isinstance(value, list):
        return [resolved(one, answers) for one in value]
    if isinstance(value, dict):
        (key, *more) = value or [""]
        if not more and _REFERENCE.fullmatch(key):
            return merge(resolved(key, answers), resolved(value[key], answers))
        return {key: resolved(one, answers) for key, one in value.items()}
    return value


def holds(wanted: Any, found: Any) -> bool:
    """Whether a field is as it must be."""
    if isinstance(wanted, dict) and "$after" in wanted:
        start, seconds = wanted["$after"]
        return bool(found) and parse_time(found) >= parse_time(start) + seconds
    return bool(found == wanted)


def smallest(plural: str, name: str, **meta: Any) -> Json:
    """The smallest object of a kind that a server takes."""
    prefix, kind = KINDS[plural]
    plain = {"apiVersion": prefix.removeprefix("/apis/").removeprefix("/api/"), "kind": kind}
    made: Json = merge(document()["objects"].get(plural, plain), {"metadata": {"name": name, **meta}})
    return made


def _of_kind(text: str, plural: str) -> Json:
    row: Json = json.loads(text.replace("<plural>", plural).replace("<kind>", KINDS[plural][1]))
    return {**row, "do": row["do"].replace("*", plural)}


def _cases(row: Json) -> list[Case]:
    if "kinds" not in row:
        return [Case(row["name"], row["steps"])]
    texts = [json.dumps(step) for step in row["steps"]]
    return [Case(f"{row['name']}: {plural}", [_of_kind(text, plural) for text in texts]) for plural in row["kinds"]]


def _edge() -> list[Case]:
    """Some of the pods in each case. Only what is to be updated is stored."""
    document = json.loads(EDGE.read_text())
    rows = document["cases"]
    return [
        Case(
            f"pods at the edge, {number}: {rows[first]['name']}",
            [step for row in rows[first : first + _BATCH] for step in _edge_steps(document, row)],
        )
        for number, first in enumerate(range(0, len(rows), _BATCH))
    ]


def _edge_steps(document: Json, row: Json) -> list[Json]:
    """The pods are named as their rows, so that a report says which it is."""
    name = re.sub(r"[^a-z0-9]+", "-", row["name"].lower())
    body = _changed(document["base"], [{"op": "replace", "path": "/metadata/name", "value": name}])
    answer: Json = {"code": row["code"], "query": {"dryRun": "All"}}
    if row["code"] == 422:
        answer["causes"] = sorted({f"{reason} {path}" for reason, path, _ in row["causes"]})
    if "answer" in row:
        answer["fields"] = _changed(document["answer"], row["answer"])
    if "of" in row:
        stored = {"do": "POST pods", "whole": _changed(body, row["of"])}
        return [stored, {"do": f"PATCH pods {name}", "body": row["change"], **answer}]
    return [{"do": "POST pods", "whole": _changed(body, row["change"]), **answer}]


def _changed(value: Json, operations: list[Json]) -> Json:
    changed: Json = jsonpatch.apply_patch(value, operations)
    return changed


@cache
def document() -> Json:
    """The file: the cases, the smallest objects, and the definition of the custom kind."""
    found: Json = json.loads(FILE.read_text())
    return found


@cache
def table() -> list[Case]:
    """The facts about an API server that jobcommon relies on, recorded from Kubernetes 1.36.2."""
    return [case for row in document()["cases"] for case in _cases(row)] + _edge()
