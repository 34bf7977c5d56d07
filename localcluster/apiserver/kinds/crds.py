"""CustomResourceDefinitions themselves; what they serve is made by `custom`."""

from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, invalid, not_supported, required
from localcluster.apiserver.names import check, dns1035_label

Obj = dict[str, Any]

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


def default(obj: Obj) -> None:
    """Singular, list kind and conversion follow from the rest."""
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def _stored(spec: Obj) -> list[str]:
    return [version["name"] for version in spec.get("versions") or () if version.get("storage")]


def on_create(obj: Obj) -> None:
    """A definition is served as soon as it is stored, so it is established at once."""
    spec, meta = obj["spec"], obj["metadata"]
    since = meta["creationTimestamp"]
    accepted = {
        "type": "NamesAccepted", "status": "True", "lastTransitionTime": since, "reason": "NoConflicts",
        "message": "no conflicts found",
    }  # fmt: skip
    established = {
        "type": "Established", "status": "True", "lastTransitionTime": since, "reason": "InitialNamesAccepted",
        "message": "the initial names have been accepted",
    }  # fmt: skip
    obj["status"] = {
        "acceptedNames": spec["names"], "conditions": [accepted, established], "storedVersions": _stored(spec)
    }  # fmt: skip
    meta["finalizers"] = [*(meta.get("finalizers") or ()), CLEANUP_FINALIZER]


def on_update(new: Obj, old: Obj) -> None:
    """Accepted names and stored versions follow the spec."""
    status = {**old.get("status", {}), **(new.get("status") or {})}
    status["acceptedNames"] = new["spec"]["names"]
    known = status.get("storedVersions") or []
    status["storedVersions"] = known + [name for name in _stored(new["spec"]) if name not in known]
    new["status"] = status


def validate(obj: Obj) -> Sequence[Cause]:
    """The names, one storage version, and a schema per version."""
    spec, causes = obj["spec"], []
    names = spec["names"]
    group, plural = spec.get("group") or "", names.get("plural") or ""
    if obj["metadata"].get("name") != f"{plural}.{group}":
        causes.append(invalid("metadata.name", obj["metadata"].get("name"), f"must be spec.names.plural+\".\"+spec.group"))
    if "." not in group:
        causes.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        causes.append(not_supported("spec.scope", spec.get("scope", ""), ["Cluster", "Namespaced"]))
    causes += check(dns1035_label, "spec.names.plural", plural)
    causes += check(dns1035_label, "spec.names.kind", (names.get("kind") or "").lower())
    if spec["conversion"].get("strategy") != "None":
        causes.append(not_supported("spec.conversion.strategy", spec["conversion"].get("strategy"), ["None"]))
    return causes + _validate_versions(spec.get("versions") or [])


def _validate_versions(versions: Sequence[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    if len([1 for version in versions if version.get("storage")]) != 1:
        detail = "must have exactly one version marked as storage version"
        causes.append(invalid("spec.versions", [version.get("name") for version in versions], detail))
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        causes += check(dns1035_label, f"{path}.name", version.get("name") or "")
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            causes.append(required(f"{path}.schema.openAPIV3Schema", "schemas are required"))
    return causes


def validate_update(new: Obj, old: Obj) -> Sequence[Cause]:
    """Group, scope and kind are fixed."""
    causes = []
    for path, before, after in (
        ("spec.group", old["spec"].get("group"), new["spec"].get("group")),
        ("spec.scope", old["spec"].get("scope"), new["spec"].get("scope")),
        ("spec.names.kind", old["spec"]["names"].get("kind"), new["spec"]["names"].get("kind")),
        ("spec.names.plural", old["spec"]["names"].get("plural"), new["spec"]["names"].get("plural")),
    ):
        if before != after:
            causes.append(invalid(path, after, "field is immutable"))
    return causes
