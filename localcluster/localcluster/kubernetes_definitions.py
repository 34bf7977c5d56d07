"""Writes `builtin_schemas.json.gz`: the definitions of the built-in kinds, derived from kubernetes-validate.

That package (a build and test dependency, 108 MB) carries Kubernetes' published definitions with two changes made for
validators: every optional type is `[type, "null"]` and `apiVersion`/`kind` are enums. Both are undone here, so that
what is committed is the published form with its `x-kubernetes-*` keys, which the server's own documents, strategic
merge and server-side apply need. Run as `python -m localcluster.kubernetes_definitions`; the output is the same
every time.
"""

import gzip
import importlib.util
import json
from pathlib import Path
from typing import Any

from localcluster import apiserver
from localcluster.apiserver.builtin_schemas import ARTEFACT, REF_PREFIX, references

Json = dict[str, Any]

VERSION = "1.36.0"

_APIS = (
    "admissionregistration.v1 apps.v1 authentication.v1 authorization.v1 autoscaling.v1 autoscaling.v2 batch.v1 "
    "certificates.v1 coordination.v1 core.v1 discovery.v1 events.v1 flowcontrol.v1 networking.v1 node.v1 policy.v1 rbac.v1 "
    "resource.v1 scheduling.v1 storage.v1"
)
PACKAGES = (
    *(f"io.k8s.api.{name}" for name in _APIS.split()), "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "io.k8s.apimachinery.pkg.apis.meta.v1", "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
)  # fmt: skip
# The published form says these with a format, kubernetes-validate with `oneOf`.
SCALARS: dict[str, Json] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string", "format": "int-or-string"},
}
# List-map keys that may be left out: the server defaults them before it compares list items.
KEY_DEFAULTS = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
}


def definitions() -> dict[str, dict[str, Any]]:
    """The definitions as kubernetes-validate ships them, by full name. Raises ModuleNotFoundError without that package."""
    found = importlib.util.find_spec("kubernetes_validate")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("kubernetes-validate is needed to generate schemas: pip install kubernetes-validate")
    folder = Path(found.origin).parent / "kubernetes-json-schema" / f"v{VERSION}-local"
    shipped: dict[str, dict[str, Any]] = json.loads((folder / "_definitions.json").read_text())["$defs"]
    return shipped


def _published(node: Any) -> Any:
    if isinstance(node, list):
        return [_published(item) for item in node]
    if not isinstance(node, dict):
        return node
    result: Json = {}
    for key, value in node.items():
        if key == "properties":
            result[key] = {name: _published(child) for name, child in sorted(value.items())}
        elif key == "type" and isinstance(value, list):
            result[key] = next(name for name in value if name != "null")
        elif key == "$ref":
            result[key] = REF_PREFIX + value.rsplit("/", 1)[-1]
        else:
            result[key] = _published(value)
    return result


def published_definition(name: str, source: Json) -> Json:
    """One definition in the form Kubernetes publishes in /openapi/v2."""
    if name in SCALARS:
        return SCALARS[name]
    definition: Json = _published(source)
    properties = definition.get("properties", {})
    if "x-kubernetes-group-version-kind" in definition:
        for field in ("apiVersion", "kind"):
            properties.get(field, {}).pop("enum", None)
    for (owner, field), default in KEY_DEFAULTS.items():
        if owner == name:
            properties[field]["default"] = default
    return definition


def generate() -> bytes:
    """The artefact's bytes: gzip of canonical JSON, without a time stamp."""
    source = definitions()
    wanted = {name for name in source if name.rsplit(".", 1)[0] in PACKAGES}
    found: dict[str, Json] = {}
    while wanted:
        name = wanted.pop()
        found[name] = published_definition(name, source[name])
        wanted |= references(found[name]) - found.keys()
    document = {"version": VERSION, "definitions": dict(sorted(found.items()))}
    text = json.dumps(document, separators=(",", ":"), sort_keys=True)
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


if __name__ == "__main__":
    Path(apiserver.__file__).with_name(ARTEFACT).write_bytes(generate())
