"""A pod's volumes as directories on the host."""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from localcluster.kubelet.environment import ConfigError, Objects, entries, field_value, resource_value
from localcluster.kubelet.lifecycle import Pod

Volume = Mapping[str, Any]
Files = dict[str, tuple[bytes, int]]  # relative path -> content and mode

_PROJECTED = ("configMap", "secret", "downwardAPI", "projected")


def is_projected(volume: Volume) -> bool:
    """Whether the volume's files come from the API and follow it."""
    return any(kind in volume for kind in _PROJECTED)


def sources(volume: Volume) -> Sequence[Mapping[str, Any]]:
    """What the volume is made of: the sources of a projected one, or the volume itself."""
    return volume["projected"].get("sources") or [] if "projected" in volume else [volume]


def volume_references(volume: Volume) -> set[tuple[str, str]]:
    """The config maps, secrets and claims the volume is made of."""
    found = set()
    for source in sources(volume):
        if "configMap" in source:
            found.add(("ConfigMap", source["configMap"]["name"]))
        if "secret" in source:
            found.add(("Secret", source["secret"].get("secretName") or source["secret"].get("name")))
    if "persistentVolumeClaim" in volume:
        found.add(("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]))
    return found


def projected_files(pod: Pod, volume: Volume, objects: Objects, tokens: Mapping[str, str]) -> Files:
    """The files of a configMap, secret, downwardAPI or projected volume. Raises ConfigError for what is missing.

    `tokens` are service account tokens by audience ("" for the server's own).
    """
    files: Files = {}
    for source in sources(volume):
        files |= _source_files(pod, source, objects, tokens, (volume.get("projected") or {}).get("defaultMode"))
    return files


def _source_files(pod: Pod, source: Mapping[str, Any], objects: Objects, tokens: Mapping[str, str], mode: int | None) -> Files:
    if "configMap" in source:
        part = source["configMap"]
        return _entries("ConfigMap", part["name"], part, objects, mode)
    if "secret" in source:
        part = source["secret"]
        return _entries("Secret", part.get("secretName") or part.get("name"), part, objects, mode)
    if "downwardAPI" in source:
        part = source["downwardAPI"]
        default = mode or part.get("defaultMode") or 0o644
        return {item["path"]: (_downward(pod, item).encode(), item.get("mode") or default) for item in part.get("items") or []}
    if "serviceAccountToken" in source:
        part = source["serviceAccountToken"]
        token = tokens.get(part.get("audience") or "")
        return {part["path"]: (token.encode(), mode or 0o644)} if token else {}
    raise ConfigError(f"a projected source of this kind is not supported: {', '.join(source)}")


def _downward(pod: Pod, item: Mapping[str, Any]) -> str:
    if "fieldRef" in item:
        return field_value(pod, item["fieldRef"]["fieldPath"])
    return resource_value(pod, pod["spec"]["containers"][0], item["resourceFieldRef"], {})


def _entries(kind: str, name: str, part: Mapping[str, Any], objects: Objects, mode: int | None) -> Files:
    data, default = entries(kind, {**part, "name": name}, objects), mode or part.get("defaultMode") or 0o644
    if part.get("items") is None:
        return {key: (content, default) for key, content in data.items()}
    files: Files = {}
    for entry in part["items"]:
        if entry["key"] in data:
            files[entry["path"]] = (data[entry["key"]], entry.get("mode") or default)
        elif not part.get("optional"):
            raise ConfigError(f"{kind.lower()} references non-existent config key: {entry['key']}")
    return files


def write_files(directory: Path, files: Files, group: int | None = None) -> None:
    """Make the visible files of `directory` exactly `files`, all at once.

    As the real kubelet does: the files live in a time-stamped directory, ``..data`` links to it, and each visible name links
    into ``..data``; replacing that one link changes every file in one step. Unchanged content is left alone.
    """
    _check_paths(files)
    link = directory / "..data"
    if link.is_symlink() and _current(link) == {path: content for path, (content, _) in files.items()}:
        return
    # A volume may also be written by the pod's own user, so the directory name must not be guessable-unique by time alone.
    fresh = directory / f"..{time.time_ns():020d}"
    for path, (content, mode) in files.items():
        place = fresh / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(mode | 0o440 if group is not None else mode)
        if group is not None:
            os.chown(place, -1, group)
    fresh.mkdir(parents=True, exist_ok=True)
    stale = link.readlink() if link.is_symlink() else None
    swap = directory / "..data_tmp"
    swap.unlink(missing_ok=True)
    swap.symlink_to(fresh.name)
    swap.rename(link)
    names = {path.split("/", 1)[0] for path in files}
    for name in names:
        visible = directory / name
        if not visible.is_symlink():
            visible.symlink_to(f"..data/{name}")
    for visible in directory.iterdir():
        if not visible.name.startswith("..") and visible.name not in names:
            visible.unlink()
    if stale is not None:
        shutil.rmtree(directory / stale, ignore_errors=True)


def _check_paths(files: Files) -> None:
    for path in files:
        if path.startswith(("/", "..")) or ".." in path.split("/"):
            raise ConfigError(f"volume item path {path!r} must be relative and must not contain '..'")


def _current(link: Path) -> dict[str, bytes]:
    root = link.resolve()
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def plain_directory(volume: Volume, pod: Pod, own: Path, shared: Path) -> Path:
    """The directory (or file) behind an emptyDir, hostPath or claim, created where its type says so. Raises ConfigError.

    `own` is the pod's directory for this volume, `shared` where claims live.
    """
    if "hostPath" in volume:
        return _host_path(volume["hostPath"])
    if "persistentVolumeClaim" in volume:
        claim = shared / str(pod["metadata"]["namespace"]) / str(volume["persistentVolumeClaim"]["claimName"])
        claim.mkdir(parents=True, exist_ok=True)
        return claim
    if "emptyDir" in volume or "ephemeral" in volume:
        if not own.exists():
            own.mkdir(parents=True)
            own.chmod(0o777)
        return own
    kinds = ", ".join(key for key in volume if key != "name")
    raise ConfigError(f"volume {volume['name']!r}: the embedded cluster has no volumes of kind {kinds or '(none given)'}")


def _host_path(part: Mapping[str, Any]) -> Path:
    path, kind = Path(part["path"]), part.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch(exist_ok=True)
    fits = {"Directory": path.is_dir(), "File": path.is_file(), "Socket": path.is_socket()}.get(kind, path.exists())
    if not fits:
        raise ConfigError(f"hostPath {path}: no such {kind.lower() or 'path'} on this machine")
    return path


def mount_source(root: Path, mount: Mapping[str, Any], values: Mapping[str, str], expand: Callable[..., str]) -> Path:
    """The path to mount for a volumeMount, sub-path applied. Raises ConfigError when it leads out of the volume."""
    sub = mount.get("subPath") or (expand(mount["subPathExpr"], values) if mount.get("subPathExpr") else "")
    if not sub:
        return root
    if sub.startswith("/") or ".." in sub.split("/"):
        raise ConfigError(f"subPath {sub!r} must be relative and must not contain '..'")
    chosen = root / sub
    if not chosen.exists():
        chosen.mkdir(parents=True)
    resolved = chosen.resolve()
    if not resolved.is_relative_to(root.resolve()):
        raise ConfigError(f"subPath {sub!r} leads out of its volume")
    return resolved
