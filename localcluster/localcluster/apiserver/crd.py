"""CustomResourceDefinition objects: defaults, validation, status, and the versions they serve.

The shape of a definition, the structural schema in it included, is a JSON Schema, `definition.json`; what one part says of
another is checked after that. An accepted one is established at once, and kept by a finalizer until its
objects are deleted.
"""

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import jsonschema_rs

from localcluster.apiserver import cel
from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.errors import Cause, invalid, required
from localcluster.apiserver.schema.rules import compile_rule
from localcluster.apiserver.schema.values import validator, value_causes
from localcluster.apiserver.table import compile_path
from localcluster.finalizers import CRD_CLEANUP

_SHAPE = jsonschema_rs.Draft202012Validator(
    json.loads(resources.files("localcluster.apiserver").joinpath("definition.json").read_text())
)


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


def validate_crd(crd: Json) -> list[Cause]:
    """Why the server refuses the definition, by field."""
    found = value_causes(_SHAPE, crd)
    if found:
        return found
    spec, name = crd["spec"], crd["metadata"].get("name", "")
    if name != f"{spec['names']['plural']}.{spec['group']}":
        found.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    found += _version_list(spec)
    for index, entry in enumerate(spec["versions"]):
        path = f"spec.versions[{index}]"
        found += _rule_causes(entry["schema"]["openAPIV3Schema"], f"{path}.schema.openAPIV3Schema")
        found += _columns(entry.get("additionalPrinterColumns") or (), f"{path}.additionalPrinterColumns")
    return found


def _version_list(spec: Json) -> Iterator[Cause]:
    names = [one["name"] for one in spec["versions"]]
    if sum(one["storage"] for one in spec["versions"]) != 1:
        yield invalid("spec.versions", names, "must have exactly one version marked as storage version")
    if len(set(names)) != len(names):
        yield invalid("spec.versions", names, "must contain unique version names")


def _columns(columns: Any, path: str) -> Iterator[Cause]:
    for index, column in enumerate(columns):
        try:
            compile_path(column["jsonPath"])
        except ValueError as error:
            yield invalid(f"{path}[{index}].jsonPath", column["jsonPath"], str(error))


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


def _rule_causes(schema: Json, path: str) -> list[Cause]:
    """What is wrong with the patterns, list keys and CEL rules of a schema of the right shape."""
    try:
        validator(schema)
    except ValueError as error:
        return [invalid(path, "", f"must be a valid schema, but isn't: {str(error).splitlines()[0]}")]
    return list(_node(schema, path, correlatable=True))


def _node(node: Json, path: str, *, correlatable: bool) -> Iterator[Cause]:
    for index, source in enumerate(node.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{index}].rule"
        try:
            uses_old = compile_rule(source).uses_old
        except cel.CelError as error:
            yield invalid(where, source["rule"], str(error))
            continue
        if uses_old and not correlatable:
            why = "oldSelf cannot be used on the uncorrelatable portion of the schema within a list that is not a map"
            yield invalid(where, source["rule"], why)
    below: Any = node.get("items") or {}
    for key in node.get("x-kubernetes-list-map-keys") or ():
        if key not in below.get("required", ()) and "default" not in below.get("properties", {}).get(key, {}):
            why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{path}.items.properties[{key}].default", why)
    for key, one in (node.get("properties") or {}).items():
        yield from _node(one, f"{path}.properties[{key}]", correlatable=correlatable)
    if isinstance(node.get("additionalProperties"), dict):
        yield from _node(node["additionalProperties"], f"{path}.additionalProperties", correlatable=correlatable)
    if below:
        kept = correlatable and node.get("x-kubernetes-list-type") == "map"
        yield from _node(below, f"{path}.items", correlatable=kept)


def on_create(obj: Json) -> None:
    """A definition is served from the moment it is stored; the finalizer keeps it until its objects are deleted."""
    meta = obj["metadata"]
    obj["status"] = established_status(obj, meta["creationTimestamp"])
    meta["finalizers"] = [*(meta.get("finalizers") or ()), CRD_CLEANUP]


def on_update(new: Json, old: Json) -> None:
    """Accepted names and stored versions follow the spec; further conditions stay."""
    before = {**(old.get("status") or {}), **(new.get("status") or {})}
    settled = established_status({**new, "status": before}, new["metadata"]["creationTimestamp"])
    known = {condition["type"] for condition in settled["conditions"]}
    others = [condition for condition in before.get("conditions") or () if condition.get("type") not in known]
    new["status"] = {**settled, "conditions": settled["conditions"] + others}
