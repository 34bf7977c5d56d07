"""Names for addresses: the contents of a pod's /etc/hosts, and how it changes while processes read it."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from localcluster.kubelet.lifecycle import Pod

DOMAIN = "cluster.local"
_Searches = tuple[str, ...] | None
_PREAMBLE = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"


def hostname(pod: Pod) -> str:
    """The hostname inside the pod: spec.hostname, else the pod's name, at most 63 characters."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63].rstrip("-.")


def own_names(pod: Pod) -> list[str]:
    """What the kubelet itself writes into a pod's hosts file. On the host's network that is the node's, without subdomains."""
    host, subdomain = hostname(pod), not pod["spec"].get("hostNetwork") and pod["spec"].get("subdomain")
    return [f"{host}.{subdomain}.{pod['metadata']['namespace']}.svc.{DOMAIN}", host] if subdomain else [host]


def searches(pod: Pod) -> tuple[str, ...] | None:
    """The domains in which the cluster's DNS looks for a name that the pod asks for; None for a pod that does not ask it."""
    spec = pod["spec"]
    policy, own = spec.get("dnsPolicy") or "ClusterFirst", (spec.get("dnsConfig") or {}).get("searches") or ()
    if policy == "None":
        return tuple(own)
    if policy == "Default" or (policy == "ClusterFirst" and spec.get("hostNetwork")):
        return None
    return (f"{pod['metadata']['namespace']}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN, *own)


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

    def __init__(self, path: Path, own: Iterable[tuple[str, Iterable[str]]], lines: Mapping[str, bytes]) -> None:
        self.path = path
        own = [(address, list(names)) for address, names in own]
        # As on a node, these names are not looked up elsewhere, so a pod finds itself whatever other pods call themselves.
        self._own = {name.encode() for _, names in own for name in names}
        self._places: dict[str, tuple[int, int]] = {}
        self._free: list[tuple[int, int]] = []
        head = _PREAMBLE + "".join(f"{address} {' '.join(names)}\n" for address, names in own)
        path.write_text(head)
        self._end = len(head.encode())
        self.apply((), lines)

    def apply(self, gone: Iterable[str], new: Mapping[str, bytes]) -> None:
        """Remove the lines with the keys `gone`, then add `new` ones in place of those with the same keys."""
        with self.path.open("r+b", buffering=0) as file:
            for key in (*gone, *new):
                if key not in self._places:
                    continue
                offset, length = self._places.pop(key)
                os.pwrite(file.fileno(), b" " * (length - 1) + b"\n", offset)
                self._free.append((offset, length))
            for key, line in new.items():
                if any(name in line for name in self._own):
                    line = b" ".join(word for word in line.split() if word not in self._own) + b"\n"
                offset = self._place(len(line))
                os.pwrite(file.fileno(), line, offset)
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

    `soon` is called with `publish` once for any number of simultaneous changes.
    """

    def __init__(self, soon: Callable[[Callable[[], None]], object]) -> None:
        self._soon = soon
        self._due = False
        self._pods: dict[str, tuple[Pod, str]] = {}
        self._services: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._lines: dict[_Searches, dict[str, bytes]] = {}
        self._files: dict[str, tuple[_Searches, HostsFile]] = {}

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
        asked = searches(pod)
        if asked not in self._lines:
            self._lines[asked] = _lines(self._records(), asked)
        aliases = [(entry["ip"], entry.get("hostnames") or []) for entry in pod["spec"].get("hostAliases") or []]
        self._files[uid] = (asked, HostsFile(path, [(address, own_names(pod)), *aliases], self._lines[asked]))

    def close(self, uid: str) -> None:
        """Stop updating the pod's file."""
        asked, _ = self._files.pop(uid, (None, None))
        if all(other != asked for other, _ in list(self._files.values())):
            # Without an open file nothing is published, so what the next one begins with must be made anew.
            self._lines.pop(asked, None)

    def publish(self) -> None:
        """Bring every open file up to date."""
        self._due = False
        records = self._records()
        for asked in {asked for asked, _ in self._files.values()}:
            before, after = self._lines.get(asked, {}), _lines(records, asked)
            gone = [key for key, line in before.items() if after.get(key) != line]
            new = {key: line for key, line in after.items() if before.get(key) != line}
            for its, file in self._files.values():
                if its == asked and (gone or new):
                    file.apply(gone, new)
            self._lines[asked] = after

    def _records(self) -> dict[str, tuple[str, str]]:
        """What a cluster's DNS knows: addresses, each with a full name.

        A Service has its name, and gives those of its pods one that name it as their subdomain.
        """
        found = {}
        for (namespace, name), service in self._services.items():
            domain = f"{name}.{namespace}.svc.{DOMAIN}"
            for uid, (pod, address) in self._pods.items():
                if selects(service, pod):
                    found[f"{uid} {namespace}/{name}"] = (address, domain)
                    if pod["spec"].get("subdomain") == name:
                        found[uid] = (address, f"{hostname(pod)}.{domain}")
        return found


def _lines(records: Mapping[str, tuple[str, str]], asked: _Searches) -> dict[str, bytes]:
    """By key, the line with the full name of each record and what a search finds it by."""
    if asked is None:
        return {}
    names = {name for _, name in records.values()}
    lines = {}
    for key, (address, full) in records.items():
        said = [full]
        for place, domain in enumerate(asked):
            short = full.removesuffix(f".{domain}")
            if short != full and not any(f"{short}.{earlier}" in names for earlier in asked[:place]):
                said.append(short)
        lines[key] = f"{address} {' '.join(dict.fromkeys(said))}\n".encode()
    return lines
