"""Volumes, claims of them, and storage classes."""

from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, forbidden, invalid, not_supported, required
from localcluster.apiserver.kinds.scheduling import selector_check
from localcluster.apiserver.kinds.tables import (
    Rules,
    at_least,
    defaults,
    each_at,
    each_of,
    filled,
    immutable,
    named,
    needed,
    needed_name,
    one_of,
    positive,
    rules,
    under,
)
from localcluster.apiserver.names import check, dns1123_subdomain, qualified_name
from localcluster.apiserver.resource import Strategy
from localcluster.finalizers import CLAIM_PROTECTION, VOLUME_PROTECTION
from localcluster.quantity import parse_quantity

Obj = dict[str, Any]

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODE = one_of("Block", "Filesystem")


def _access_modes(path: str, modes: list[str] | None, _parent: Obj) -> Sequence[Cause]:
    if not modes:
        return [required(path)]
    causes = [not_supported(path, mode, _MODES) for mode in modes if mode not in _MODES]
    known = set(modes).intersection(_MODES)
    if "ReadWriteOncePod" in known and len(known) > 1:
        causes.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return causes


# Claims

default_claim = defaults(*filled("spec", volumeMode="Filesystem", resources={}))


def _claim_size(obj: Obj) -> Sequence[Cause]:
    size = (obj["spec"]["resources"].get("requests") or {}).get("storage")
    path = "spec.resources[storage]"
    return [required(path)] if size is None else list(positive(path, size, {}))


_claim_rules: Rules = rules(
    ("spec.accessModes", _access_modes),
    ("spec.selector", selector_check),
    ("spec.storageClassName", named(dns1123_subdomain)),
    ("spec.volumeMode", _VOLUME_MODE),
    *each_at(needed(), "spec.dataSource.kind", "spec.dataSource.name"),
    _claim_size,
)


def validate_claim(obj: Obj, path: str) -> list[Cause]:
    """The rules of a claim at `path`, which ends with a dot."""
    return [Cause(cause.reason, f"{path}{cause.field}", cause.message) for cause in _claim_rules(obj)]


def _claim_created(obj: Obj) -> None:
    obj["status"] = {"phase": "Pending"}
    _protect(obj, CLAIM_PROTECTION)


def _protect(obj: Obj, finalizer: str) -> None:
    """A finalizer keeps it while it is in use; a controller removes it."""
    present = obj["metadata"].get("finalizers") or []
    obj["metadata"]["finalizers"] = present if finalizer in present else [*present, finalizer]


def _claim_fixed(new: Obj, old: Obj) -> Sequence[Cause]:
    bound = (new.get("status") or {}).get("phase") == "Bound"
    before, after = dict(old["spec"]), dict(new["spec"])
    for name in ("volumeName", "storageClassName"):
        if name not in before:
            # What a controller chooses later.
            before[name] = after.get(name)
    if bound:
        for spec in (before, after):
            spec["resources"] = {**spec["resources"], "requests": None}
            spec.pop("volumeAttributesClassName", None)
    causes = []
    if {key: value for key, value in before.items() if value} != {key: value for key, value in after.items() if value}:
        detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        causes.append(forbidden("spec", detail))
    sizes = [parse_quantity((one["spec"]["resources"].get("requests") or {}).get("storage", "0")) for one in (new, old)]
    if sizes[0] < sizes[1]:
        has = parse_quantity(((old.get("status") or {}).get("capacity") or {}).get("storage", "0"))
        if sizes[0] <= has:
            causes.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    if before.get("volumeMode") != after.get("volumeMode"):
        causes.append(invalid("volumeMode", after.get("volumeMode"), "field is immutable"))
    return causes


CLAIM = Strategy(default=default_claim, on_create=_claim_created, validate=_claim_rules, validate_update=_claim_fixed)

# Volumes

#: The fields of a volume's spec that are no source.
_NOT_A_SOURCE = {
    "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy", "storageClassName",
    "volumeAttributesClassName", "volumeMode",
}  # fmt: skip


def _sources(obj: Obj) -> dict[str, Any]:
    return {key: value for key, value in obj["spec"].items() if key not in _NOT_A_SOURCE}


def _one_source(obj: Obj) -> Sequence[Cause]:
    spec, sources = obj["spec"], sorted(_sources(obj))
    causes = [] if sources else [required("spec", "must specify a volume type")]
    causes += [forbidden(f"spec.{name}", "may not specify more than 1 volume type") for name in sources[1:]]
    if "local" in sources and not ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms"):
        causes.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    capacity = spec.get("capacity") or {}
    if not capacity:
        causes.append(required("spec.capacity"))
    if set(capacity) != {"storage"}:
        causes.append(not_supported("spec.capacity", capacity, ["storage"]))
    for name, amount in capacity.items():
        causes += positive(f"spec.capacity[{name}]", amount, capacity)
    return causes


def _volume_created(obj: Obj) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": obj["metadata"]["creationTimestamp"]}
    _protect(obj, VOLUME_PROTECTION)


def _volume_fixed(new: Obj, old: Obj) -> Sequence[Cause]:
    causes = []
    if _sources(new) != _sources(old):
        detail = "spec.persistentvolumesource is immutable after creation"
        causes.append(forbidden("spec.persistentvolumesource", detail))
    if new["spec"].get("volumeMode") != old["spec"].get("volumeMode"):
        causes.append(invalid("volumeMode", new["spec"].get("volumeMode"), "field is immutable"))
    return causes


VOLUME = Strategy(
    default=defaults(
        *filled("spec", persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem"),
        ("spec.hostPath.type", ""),
        *under("spec.rbd", pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
        ("spec.iscsi.iscsiInterface", "default"),
    ),
    on_create=_volume_created,
    validate=rules(
        ("spec.accessModes", _access_modes),
        ("spec.persistentVolumeReclaimPolicy", one_of("Delete", "Recycle", "Retain")),
        ("spec.volumeMode", _VOLUME_MODE),
        ("spec.storageClassName", named(dns1123_subdomain)),
        *each_at(needed(), "spec.hostPath.path", "spec.nfs.server", "spec.nfs.path", "spec.local.path"),
        *each_at(needed(), "spec.csi.driver", "spec.csi.volumeHandle"),
        _one_source,
    ),
    validate_update=_volume_fixed,
)

# Classes and drivers


def _provisioner(path: str, value: Any, _parent: Obj) -> Sequence[Cause]:
    return check(qualified_name, path, value.lower()) if value else [required(path)]


STORAGE_CLASS = Strategy(
    default=defaults(("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")),
    validate=rules(
        ("provisioner", _provisioner),
        ("reclaimPolicy", one_of("Delete", "Retain")),
        ("volumeBindingMode", one_of("Immediate", "WaitForFirstConsumer")),
    ),
    validate_update=immutable("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
)
CSI_DRIVER = Strategy(
    default=defaults(
        *filled("spec", attachRequired=True, podInfoOnMount=False, storageCapacity=False, requiresRepublish=False),
        *under("spec", fsGroupPolicy="ReadWriteOnceWithFSType", volumeLifecycleModes=["Persistent"], seLinuxMount=False),
    ),
    validate=rules(
        ("spec.fsGroupPolicy", one_of("File", "None", "ReadWriteOnceWithFSType")),
        ("spec.volumeLifecycleModes", each_of("Ephemeral", "Persistent")),
    ),
)
CSI_NODE = Strategy(
    default=defaults(("spec", {}), ("spec.drivers", None)),
    validate=rules(
        ("spec.drivers[].name", needed_name(dns1123_subdomain)),
        ("spec.drivers[].nodeID", needed()),
        ("spec.drivers[].allocatable.count", at_least(0)),
    ),
)
VOLUME_ATTACHMENT = Strategy(
    default=defaults(("spec", {}), ("spec.source", {})),
    on_create=defaults(*filled("status", attached=False)),
    validate=rules(*each_at(needed_name(dns1123_subdomain), "spec.attacher", "spec.nodeName")),
    validate_update=immutable("spec"),
)
