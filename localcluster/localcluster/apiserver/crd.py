"""CustomResourceDefinition objects: defaults, validation, status, and the versions they serve.

Source of the rules and of their wording: apiextensions.k8s.io/v1 of the real server.
"""

import re
from collections.abc import Iterator
from typing import Any

from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.errors import Cause, invalid, not_chosen, not_supported, required
from localcluster.apiserver.schema import structural_causes
from localcluster.apiserver.table.custom import compile_path

SCOPES = ("Cluster", "Namespaced")
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_APPROVAL = "api-approved.kubernetes.io"


def default_crd(crd: Json) -> None:
    """Fills in what the server defaults, in place; does nothing to parts of the wrong shape (validation names them)."""
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(names.get("kind"), str):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    conversion = spec.setdefault("conversion", {})
    if isinstance(conversion, dict):
        conversion.setdefault("strategy", "None")
    status = crd.setdefault("status", {})
    if not status.get("storedVersions"):
        storage = [one.get("name") for one in _versions(crd) if one.get("storage")]
        status["storedVersions"] = storage


def _versions(crd: Json) -> list[Json]:
    found = (crd.get("spec") or {}).get("versions")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def validate_crd(crd: Json, old: Json | None = None) -> list[Cause]:
    """Why the server refuses the definition, by field; `old` is the stored one on update."""
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return [required("spec")]
    found = [*_identity(crd, spec), *_names(spec.get("names")), *_version_list(crd, spec)]
    for index, entry in enumerate(_versions(crd)):
        found += _version(entry, f"spec.versions[{index}]")
    if spec.get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        found.append(invalid("spec.preserveUnknownFields", True, why))
    if old is not None:
        found += _update(crd, old)
    return found


def _identity(crd: Json, spec: Json) -> Iterator[Cause]:
    group, names, name = spec.get("group"), spec.get("names"), (crd.get("metadata") or {}).get("name", "")
    if not group:
        yield required("spec.group")
    elif not isinstance(group, str) or not _DOMAIN.fullmatch(group):
        yield invalid("spec.group", group, "must be a lowercase RFC 1123 subdomain, e.g. 'example.com'")
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    elif group.endswith((".k8s.io", ".kubernetes.io")) and not (crd["metadata"].get("annotations") or {}).get(_APPROVAL):
        why = "protected groups must have approval annotation, see https://github.com/kubernetes/enhancements/pull/1111"
        yield required(f"metadata.annotations[{_APPROVAL}]", why)
    if isinstance(names, dict) and name != f"{names.get('plural')}.{group}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    yield from not_chosen("spec.scope", spec.get("scope"), SCOPES)


def _names(names: Any) -> Iterator[Cause]:
    if not isinstance(names, dict):
        yield required("spec.names")
        return
    label = "must be a DNS-1035 label: lower case letters, digits and '-', starting with a letter"
    for key in ("plural", "kind"):
        if not names.get(key):
            yield required(f"spec.names.{key}")
    for key in ("plural", "singular"):
        if names.get(key) and not _LABEL.fullmatch(str(names[key])):
            yield invalid(f"spec.names.{key}", names[key], label)
    for key in ("kind", "listKind"):
        if names.get(key) and not _LABEL.fullmatch(str(names[key]).lower()):
            yield invalid(f"spec.names.{key}", names[key], f"{label} (may have mixed case)")
    for key in ("shortNames", "categories"):
        for index, one in enumerate(names.get(key) or ()):
            if not _LABEL.fullmatch(str(one)):
                yield invalid(f"spec.names.{key}[{index}]", one, label)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


def _version_list(crd: Json, spec: Json) -> Iterator[Cause]:
    versions = spec.get("versions")
    if not isinstance(versions, list) or not versions:
        yield required("spec.versions")
        return
    entries = _versions(crd)
    names = [one.get("name") for one in entries]
    if sum(bool(one.get("storage")) for one in entries) != 1:
        yield invalid("spec.versions", names, "must have exactly one version marked as storage version")
    if len(set(map(str, names))) != len(names):
        yield invalid("spec.versions", names, "must contain unique version names")
    for index, stored in enumerate((crd.get("status") or {}).get("storedVersions") or ()):
        if stored not in names:
            why = (
                f"missing from spec.versions; {stored} was previously a storage version, and must remain in spec.versions "
                f"until a storage migration ensures no data remains persisted in {stored} and removes {stored} from "
                "status.storedVersions"
            )
            yield invalid(f"status.storedVersions[{index}]", stored, why)


def _version(entry: Json, path: str) -> Iterator[Cause]:
    name = entry.get("name")
    if not name:
        yield required(f"{path}.name")
    elif not _LABEL.fullmatch(str(name)):
        yield invalid(f"{path}.name", name, "must be a DNS-1035 label such as v1 or v1beta1")
    for key in ("served", "storage"):
        if not isinstance(entry.get(key), bool):
            yield required(f"{path}.{key}")
    schema = (entry.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(schema, dict):
        yield required(f"{path}.schema.openAPIV3Schema", "schemas are required")
    else:
        yield from structural_causes(schema, f"{path}.schema.openAPIV3Schema")
    yield from _columns(entry.get("additionalPrinterColumns") or (), f"{path}.additionalPrinterColumns")
    scale = (entry.get("subresources") or {}).get("scale")
    if isinstance(scale, dict):
        yield from _scale(scale, f"{path}.subresources.scale")


def _columns(columns: Any, path: str) -> Iterator[Cause]:
    for index, column in enumerate(columns):
        where = f"{path}[{index}]"
        for key in ("name", "type", "jsonPath"):
            if not column.get(key):
                yield required(f"{where}.{key}")
        if column.get("type") and column["type"] not in COLUMN_TYPES:
            yield not_supported(f"{where}.type", column["type"], COLUMN_TYPES)
        if column.get("jsonPath"):
            try:
                compile_path(column["jsonPath"])
            except ValueError as error:
                yield invalid(f"{where}.jsonPath", column["jsonPath"], str(error))


def _scale(scale: Json, path: str) -> Iterator[Cause]:
    for key, part, needed in (
        ("specReplicasPath", ".spec.", True),
        ("statusReplicasPath", ".status.", True),
        ("labelSelectorPath", "", False),
    ):
        value = scale.get(key)
        if not value:
            if needed:
                yield required(f"{path}.{key}")
        elif not str(value).startswith(part or (".spec.", ".status.")):
            under = part.removesuffix(".") or ".status or .spec"
            yield invalid(f"{path}.{key}", value, f"should be a json path under {under}")


def _update(crd: Json, old: Json) -> Iterator[Cause]:
    new_spec, old_spec = crd["spec"], old["spec"]
    if new_spec.get("scope") != old_spec.get("scope"):
        yield invalid("spec.scope", new_spec.get("scope"), "field is immutable")
    new_names, old_names = new_spec.get("names") or {}, old_spec["names"]
    if new_names.get("kind") != old_names.get("kind"):
        yield invalid("spec.names.kind", new_names.get("kind"), "field is immutable")


def established_status(crd: Json, now: str) -> Json:
    """The status of a definition that is accepted and served; keeps storedVersions and adds the storage version.
    `now`: RFC 3339.
    """
    before = crd.get("status") or {}
    stored = list(before.get("storedVersions") or ())
    stored += [one["name"] for one in _versions(crd) if one.get("storage") and one["name"] not in stored]
    known = {one["type"]: one for one in before.get("conditions") or ()}
    rows = (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    )
    conditions = []
    for kind, reason, message in rows:
        fresh = {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
        conditions.append(known[kind] if known.get(kind, {}).get("status") == "True" else fresh)
    return {"conditions": conditions, "acceptedNames": dict(crd["spec"]["names"]), "storedVersions": stored}
