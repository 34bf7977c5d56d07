"""Names for addresses: the contents of a pod's /etc/hosts, and how it changes while processes read it."""

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from localcluster.kubelet.lifecycle import Pod

DOMAIN = "cluster.local"
_PREAMBLE = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"


def hostname(pod: Pod) -> str:
    """The hostname inside the pod: spec.hostname, else the pod's name, at most 63 characters."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63].rstrip("-.")


def pod_names(pod: Pod) -> list[str]:
    """The names of one pod, the most qualified first."""
    host, subdomain, namespace = hostname(pod), pod["spec"].get("subdomain"), pod["metadata"]["namespace"]
    if not subdomain:
        return [host]
    stem = f"{host}.{subdomain}"
    return [f"{stem}.{namespace}.svc.{DOMAIN}", f"{stem}.{namespace}.svc", f"{stem}.{namespace}", stem, host]


def service_names(service: Mapping[str, Any], namespace: str) -> list[str]:
    """The names of a service as a pod in `namespace` may say them."""
    name, home = service["metadata"]["name"], service["metadata"]["namespace"]
    names = [f"{name}.{home}.svc.{DOMAIN}", f"{name}.{home}.svc", f"{name}.{home}"]
    return [*names, name] if home == namespace else names


def selects(service: Mapping[str, Any], pod: Pod) -> bool:
    """Whether the service's selector matches the pod; a service without one matches none."""
    selector = service["spec"].get("selector")
    labels = pod["metadata"].get("labels") or {}
    return (
        bool(selector)
        and service["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and all(labels.get(key) == value for key, value in selector.items())
    )


class HostsFile:
    """A hosts file that is safe to change while others read it.

    The C library opens and scans the file at every lookup, and the file is bind-mounted, so it can neither be replaced nor
    locked. Each line therefore keeps its place for as long as it exists: a lookup of one name is never disturbed by a change
    of another. The place of a removed line is blanked and used again by one that fits.
    """

    def __init__(self, path: Path, uid: str, own: Iterable[tuple[str, Iterable[str]]], lines: Mapping[str, bytes]) -> None:
        self.path = path
        self._uid = uid  # the key of the pod's own line, which stands at the head instead
        self._places: dict[str, tuple[int, int]] = {}
        self._free: list[tuple[int, int]] = []
        # The pod's own names come first, so it finds itself whatever other pods call themselves.
        head = _PREAMBLE + "".join(f"{address} {' '.join(names)}\n" for address, names in own)
        path.write_text(head)
        self._end = len(head.encode())
        self.apply((), lines)

    def apply(self, gone: Iterable[str], new: Mapping[str, bytes]) -> None:
        """Remove the lines with the keys `gone`, then add `new` ones in place of those with the same keys.

        Raises OSError when the disk is full; the same call again then completes it.
        """
        with self.path.open("r+b", buffering=0) as file:
            for key in (*gone, *new):
                if key not in self._places:
                    continue
                offset, length = self._places.pop(key)
                os.pwrite(file.fileno(), b" " * (length - 1) + b"\n", offset)
                self._free.append((offset, length))
            for key, line in new.items():
                if key == self._uid:
                    continue
                offset = self._place(len(line))
                try:
                    if os.pwrite(file.fileno(), line, offset) < len(line):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
                except OSError:
                    # First in line for the next attempt, so that no gap stays.
                    self._free.insert(0, (offset, len(line)))
                    raise
                self._places[key] = (offset, len(line))

    def _place(self, length: int) -> int:
        for position, (offset, size) in enumerate(self._free):
            if size >= length:
                # What is left of the place is blanks ending in a newline, itself a valid line.
                self._free[position : position + 1] = [(offset + length, size - length)] if size > length else []
                return offset
        self._end += length
        return self._end - length


class Names:
    """Keeps the hosts files of all running pods in step with the pods and services there are.

    `soon` is called with `publish` once for any number of simultaneous changes, `later` if the disk was full.
    """

    def __init__(
        self, soon: Callable[[Callable[[], None]], object], later: Callable[[Callable[[], None]], object] | None = None
    ) -> None:
        self._soon = soon
        self._later = later or soon
        self._due = False
        self._pods: dict[str, tuple[Pod, str]] = {}
        self._services: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._lines: dict[str, dict[str, bytes]] = {}
        self._files: dict[str, tuple[str, HostsFile]] = {}

    def set_pod(self, uid: str, pod: Pod | None, address: str = "") -> None:
        """A pod was created or has changed (None: deleted or finished)."""
        if pod is None:
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = (pod, address)
        self._touch()

    def set_service(self, key: tuple[str, str], service: Mapping[str, Any] | None) -> None:
        """A service was created or has changed (None: deleted)."""
        if service is None:
            self._services.pop(key, None)
        else:
            self._services[key] = service
        self._touch()

    def _touch(self) -> None:
        if not self._due:
            self._due = True
            self._soon(self.publish)

    def open(self, uid: str, path: Path) -> None:
        """Write the hosts file of pod `uid` and keep it up to date until `close`."""
        pod, address = self._pods[uid]
        namespace = pod["metadata"]["namespace"]
        lines = self._lines.setdefault(namespace, self._wanted(namespace))
        aliases = [(entry["ip"], entry.get("hostnames") or []) for entry in pod["spec"].get("hostAliases") or []]
        self._files[uid] = (namespace, HostsFile(path, uid, [(address, pod_names(pod)), *aliases], lines))

    def close(self, uid: str) -> None:
        """Stop updating the pod's file."""
        namespace, _ = self._files.pop(uid, ("", None))
        if all(home != namespace for home, _ in list(self._files.values())):
            # Without an open file nothing is published, so what the next one begins with must be made anew.
            self._lines.pop(namespace, None)

    def publish(self) -> None:
        """Bring every open file up to date."""
        self._due = False
        for namespace in {namespace for namespace, _ in self._files.values()}:
            before, after = self._lines.get(namespace, {}), self._wanted(namespace)
            gone = [key for key, line in before.items() if after.get(key) != line]
            new = {key: line for key, line in after.items() if before.get(key) != line}
            try:
                for home, file in self._files.values():
                    if home == namespace and (gone or new):
                        file.apply(gone, new)
            except OSError:
                # Every file of the namespace gets the same changes again.
                self._later(self.publish)
                continue
            self._lines[namespace] = after

    def _wanted(self, namespace: str) -> dict[str, bytes]:
        lines = {}
        for uid, (pod, address) in self._pods.items():
            names = pod_names(pod)
            if pod["metadata"]["namespace"] != namespace:
                names = names[:3] if len(names) > 1 else []
            elif pod["metadata"]["name"] not in names:
                names.append(pod["metadata"]["name"])
            if names:
                lines[uid] = f"{address} {' '.join(names)}\n".encode()
        for key, service in self._services.items():
            said = " ".join(service_names(service, namespace))
            for uid, (pod, address) in self._pods.items():
                if selects(service, pod):
                    lines[f"{uid} {'/'.join(key)}"] = f"{address} {said}\n".encode()
        return lines
