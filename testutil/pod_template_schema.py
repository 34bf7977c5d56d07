"""Writes `pod_template.json.gz`: the structural schema of a pod template, from the definitions in kubernetes-validate.

That package is for build and tests only, so what is derived from it is committed. Run as
``python -m jobcommon.testutil.pod_template_schema``; the output is the same every time.
"""

import gzip
import json
from pathlib import Path
from typing import Any

from jobcommon import crd
from jobcommon.api.text import shortened
from jobcommon.crd.pod_template import ARTEFACT, QUANTITY
from localcluster.rules import kubernetes_definitions

Json = dict[str, Any]

ROOT = "io.k8s.api.core.v1.PodSpec"
DESCRIPTION_LIMIT = 240
SCALARS: dict[str, Json] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"x-kubernetes-int-or-string": True},
}
_KEPT = ("format", "required", "enum", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")
# A template may not have these (the API server refuses them), and they are as large as containers.
_LEFT_OUT = {ROOT: ("ephemeralContainers",)}
# Lists that are left atomic although pods have them by key. env: pods with a variable given twice are accepted (the
# last one counts), so jobs with one must be, too. ports: their key needs a default for `protocol`, and a default
# inside a list makes kubectl, which compares a custom resource's lists whole, report a change on every apply.
_ATOMIC = {("io.k8s.api.core.v1.Container", "env"), ("io.k8s.api.core.v1.Container", "ports")}
# The pod validation of ports, so that an invalid one is refused with the job. A host port of 0 means unset.
_BOUNDS: dict[tuple[str, str], Json] = {
    ("io.k8s.api.core.v1.ContainerPort", "containerPort"): {"minimum": 1, "maximum": 65535},
    ("io.k8s.api.core.v1.ContainerPort", "hostPort"): {"minimum": 0, "maximum": 65535},
}
# A container list is bounded so that CEL rules over it have a bounded cost.
_MAX_CONTAINERS = 100


def _structural(node: Json, owner: str, definitions: dict[str, Json]) -> Json:
    """One node without references; `owner` is the definition that contains it."""
    if "$ref" in node:
        owner = node["$ref"].rsplit("/", 1)[-1]
        found = SCALARS.get(owner) or _structural(definitions[owner], owner, definitions)
        own = shortened(node.get("description", ""), DESCRIPTION_LIMIT)
        return {**found, "description": own} if own else found
    result: Json = {key: node[key] for key in _KEPT if key in node}
    kind = node.get("type")
    result["type"] = next(one for one in kind if one != "null") if isinstance(kind, list) else kind
    if text := shortened(node.get("description", ""), DESCRIPTION_LIMIT):
        result["description"] = text
    properties = {
        name: _property(name, child, owner, definitions)
        for name, child in sorted(node.get("properties", {}).items())
        if name not in _LEFT_OUT.get(owner, ())
    }
    if properties:
        result["properties"] = properties
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            result[key] = _structural(node[key], owner, definitions)
    return result


def _property(name: str, node: Json, owner: str, definitions: dict[str, Json]) -> Json:
    found = _structural(node, owner, definitions)
    if (owner, name) in _ATOMIC:
        found = {key: value for key, value in found.items() if not key.startswith("x-kubernetes-list")}
    found = _with_key_defaults({**found, **_BOUNDS.get((owner, name), {})})
    if owner == ROOT and name == "containers":
        found = {**found, "minItems": 1, "maxItems": _MAX_CONTAINERS}
    return found


def _with_key_defaults(node: Json) -> Json:
    """The keys of a list map must be required or have a default; else the schema is not structural."""
    keys, below = node.get("x-kubernetes-list-map-keys", ()), node.get("items", {})
    optional = [key for key in keys if key not in below.get("required", ())]
    if not optional:
        return node
    properties = dict(below["properties"])
    for key in optional:
        properties[key] = {**properties[key], "default": ""}
    return {**node, "items": {**below, "properties": properties}}


def generate() -> bytes:
    """The artefact's bytes: gzip of canonical JSON, without a time stamp."""
    definitions = kubernetes_definitions.definitions()
    document = {"version": kubernetes_definitions.VERSION, "spec": _structural(definitions[ROOT], ROOT, definitions)}
    text = json.dumps(document, separators=(",", ":"), sort_keys=True)
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


if __name__ == "__main__":
    Path(crd.__file__).with_name(ARTEFACT).write_bytes(generate())
