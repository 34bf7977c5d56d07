"""Volumes of pods and pod templates."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, duplicate, forbidden, invalid, not_supported, required
from localcluster.apiserver.kinds.rules import (
    Obj,
    beyond_first,
    file_mode,
    form,
    local_path,
    need,
    relative,
    union,
)
from localcluster.apiserver.kinds.walk import Action, Unvisited
from localcluster.apiserver.names import check, dns1123_label, qualified_name
from localcluster.quantity import parse_quantity

#: In the order in which the real server looks at them: the first is validated, the others are refused.
SOURCES = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi", "glusterfs",
    "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc", "flexVolume", "configMap",
    "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "storageos", "projected", "scaleIO",
    "csi", "ephemeral", "image",
)  # fmt: skip
#: Names that the real server's own errors spell in another way.
_SPELT = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_FILE_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_LABELS = {*_FILE_FIELDS, *_ENV_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
_AMOUNTS = tuple(f"{part}.{name}" for part in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory"))
_PAGES = ("limits.hugepages-", "requests.hugepages-")
_UNITS = ("1", *(f"1{unit}" for unit in ("k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")))
_SUBSCRIPT = re.compile(r"(.+?)\['(.*)'\]")


def field_ref(ref: Obj, path: str, *, env: bool) -> Iterator[Cause]:
    """The rules of a fieldRef, of an environment variable or of a file."""
    version, label = ref.get("apiVersion") or "", ref.get("fieldPath") or ""
    for name, given in (("apiVersion", version), ("fieldPath", label)):
        if not given:
            yield required(f"{path}.{name}")
            return
    subscripted = _SUBSCRIPT.fullmatch(label)
    problem = ""
    if version != "v1":
        problem = f"unsupported pod version: {version}"
    elif subscripted and subscripted[1] not in ("metadata.annotations", "metadata.labels"):
        problem = f"field label does not support subscript: {label}"
    elif not subscripted and label not in _LABELS and label != "spec.host":
        problem = f"field label not supported: {label}"
    if problem:
        yield invalid(f"{path}.fieldPath", label, f"error converting fieldPath: {problem}")
    elif subscripted:
        key = subscripted[2]
        yield from check(qualified_name, path, key.lower() if subscripted[1] == "metadata.annotations" else key)
    else:
        allowed = _ENV_FIELDS if env else _FILE_FIELDS
        label = "spec.nodeName" if label == "spec.host" else label
        if label not in allowed:
            yield not_supported(f"{path}.fieldPath", label, allowed)


def resource_ref(ref: Obj, path: str, *, env: bool) -> Iterator[Cause]:
    """The rules of a resourceFieldRef, of an environment variable or of a file."""
    name, divisor = ref.get("resource") or "", ref.get("divisor") or "0"
    if not env and not ref.get("containerName"):
        yield required(f"{path}.containerName")
    elif not name:
        yield required(f"{path}.resource")
    elif name not in _AMOUNTS and not name.startswith(_PAGES):
        yield not_supported(f"{path}.resource", name, _AMOUNTS)
    kind = name.partition(".")[2].partition("-")[0]
    units = {"cpu": ("1m", "1"), "memory": _UNITS, "ephemeral": _UNITS, "hugepages": _UNITS}.get(kind)
    if units is not None and parse_quantity(divisor) and divisor not in units:
        what = {"ephemeral": "local ephemeral storage"}.get(kind, kind)
        listed = "1m and 1" if kind == "cpu" else ", ".join(units)
        yield invalid(f"{path}.divisor", name, f"only divisor's values {listed} are supported with the {what} resource")


def _downward_file(file: Obj, path: str, _: Any) -> Iterator[Cause]:
    # The real server leaves out which of the items it is.
    where = path.rpartition(".items[")[0]
    if not file.get("path"):
        yield required(f"{where}.path")
    yield from relative(f"{where}.path", file.get("path") or "", reserved=True)
    if file.get("fieldRef") is not None:
        yield from field_ref(file["fieldRef"], f"{where}.fieldRef", env=False)
        if file.get("resourceFieldRef") is not None:
            yield invalid(where, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif file.get("resourceFieldRef") is not None:
        yield from resource_ref(file["resourceFieldRef"], f"{where}.resourceFieldRef", env=False)
    else:
        yield required(where, "one of fieldRef and resourceFieldRef is required")
    yield from file_mode("mode")(file, where, None)


def _host_path(source: Obj, path: str, _: Any) -> Iterator[Cause]:
    given = source.get("path") or ""
    if not given:
        yield required(f"{path}.path")
        return
    if ".." in given.split("/"):
        yield invalid(f"{path}.path", given, "must not contain '..'")
    if source.get("type") not in (None, *_PATH_TYPES):
        yield not_supported(f"{path}.type", source["type"], _PATH_TYPES)


def _nfs(source: Obj, path: str, _: Any) -> Iterator[Cause]:
    if not (source.get("path") or "").startswith("/"):
        yield invalid(f"{path}.path", source.get("path") or "", "must be an absolute path")


def _empty_dir(source: Obj, path: str, _: Any) -> Iterator[Cause]:
    if parse_quantity(source.get("sizeLimit", "0")) < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _projected(source: Obj, path: str, _: Any) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, one in enumerate(source.get("sources") or ()):
        where = f"{path}.sources[{index}]"
        if len(one) > 1:
            yield forbidden(where, "may not specify more than 1 volume type per source")
        for kind, projection in one.items():
            for item in projection.get("items") or ():
                given = item.get("path") or ""
                if given in seen:
                    yield invalid(
                        path, given if kind == "downwardAPI" else projection.get("name", ""), "conflicting duplicate paths"
                    )
                seen.add(given or str(len(seen)))
        token = one.get("serviceAccountToken")
        if token is not None:
            yield from _token(token, f"{where}.serviceAccountToken", path)


def _token(token: Obj, path: str, volume: str) -> Iterator[Cause]:
    seconds = token.get("expirationSeconds", 3600)
    if seconds < 600:
        yield invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > 1 << 32:
        yield invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    # The real server names the volume here, not the source.
    if not token.get("path"):
        yield required(f"{volume}.path")
    else:
        yield from relative(f"{volume}.path", token["path"], reserved=True)


def volume_names(volumes: Sequence[Obj], path: str) -> Iterator[Cause]:
    """What volumes must not have in common."""
    seen: set[str] = set()
    for index, one in enumerate(volumes):
        name = one.get("name") or ""
        if name in seen:
            yield duplicate(f"{path}[{index}].name", name)
        seen.add(name)


ACTIONS: Mapping[str, Sequence[Action]] = {
    "Volume": (form("name", dns1123_label, needed=True), union("volume", SOURCES, spelt=lambda name: _SPELT.get(name, name))),
    "EmptyDirVolumeSource": (_empty_dir,),
    "HostPathVolumeSource": (_host_path,),
    "SecretVolumeSource": (need("secretName"), file_mode("defaultMode")),
    "ConfigMapVolumeSource": (need("name"), file_mode("defaultMode")),
    "SecretProjection": (need("name"),),
    "ConfigMapProjection": (need("name"),),
    "KeyToPath": (need("key", "path"), local_path("path"), file_mode("mode")),
    "PersistentVolumeClaimVolumeSource": (need("claimName"),),
    "NFSVolumeSource": (need("server", "path"), _nfs),
    "DownwardAPIVolumeSource": (file_mode("defaultMode"),),
    "DownwardAPIVolumeFile": (_downward_file,),
    "ProjectedVolumeSource": (file_mode("defaultMode"), _projected),
}
UNVISITED: Mapping[str, Unvisited] = {"Volume": beyond_first(SOURCES)}
