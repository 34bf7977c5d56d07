"""The rules of a pod's spec, alone or in a template."""

from collections.abc import Iterator, Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, duplicate, invalid, not_supported, required
from localcluster.apiserver.kinds import containers, pod_volumes, scheduling
from localcluster.apiserver.kinds.containers import host_ports
from localcluster.apiserver.kinds.pod_context import PodContext
from localcluster.apiserver.kinds.rules import between, each, form, identity, one_of
from localcluster.apiserver.kinds.walk import Walk
from localcluster.apiserver.names import (
    check,
    check_labels,
    dns1123_label,
    dns1123_subdomain,
    ip_address,
    qualified_name,
    search_domain,
)

Obj = dict[str, Any]
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")


def _containers(spec: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    main, init = spec.get("containers") or [], spec.get("initContainers") or []
    if not main:
        yield required(f"{path}.containers")
    seen: set[str] = set()
    for part, found in (("containers", main), ("initContainers", init)):
        for index, container in enumerate(found):
            name = container.get("name") or ""
            if name and name in seen:
                yield duplicate(f"{path}.{part}[{index}].name", name)
            seen.add(name)
    yield from host_ports(main, f"{path}.containers")
    for container in init:
        # Init containers run one after another.
        yield from host_ports([container], f"{path}.initContainers")


def _host_network(spec: Obj, path: str, pod: PodContext) -> Iterator[Cause]:
    for index, container in enumerate((spec.get("containers") or ()) if spec.get("hostNetwork") else ()):
        for number, one in enumerate(container.get("ports") or ()):
            port = one.get("hostPort", 0)
            if (pod.is_pod or port) and port != one.get("containerPort", 0):
                told = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(f"{path}.containers[{index}].ports[{number}].hostPort", port, told)


def _dns(spec: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    config, where = spec.get("dnsConfig"), f"{path}.dnsConfig"
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield required(where, "must provide `dnsConfig` when `dnsPolicy` is None")
        elif not config.get("nameservers"):
            yield required(f"{where}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
            return
    servers, searches = ((config or {}).get(name) or [] for name in ("nameservers", "searches"))
    if len(servers) > 3:
        yield invalid(f"{where}.nameservers", servers, "must not have more than 3 nameservers")
    if len(searches) > 32:
        yield invalid(f"{where}.searches", searches, "must not have more than 32 search paths")
    if len(" ".join(searches)) > 2048:
        told = "must not have more than 2048 characters (including spaces) in the search list"
        yield invalid(f"{where}.searches", searches, told)
    for index, option in enumerate((config or {}).get("options") or ()):
        if not option.get("name"):
            yield required(f"{where}.options[{index}]", "must not be empty")


def _gates(spec: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        where, name = f"{path}.schedulingGates[{index}]", gate.get("name") or ""
        yield from check(qualified_name, where, name)
        if name in seen:
            yield duplicate(where, name)
        seen.add(name)


def _rest(spec: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    yield from check_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    if spec.get("runtimeClassName") is not None:
        yield from check(dns1123_subdomain, f"{path}.runtimeClassName", spec["runtimeClassName"])
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from check(ip_address, f"{path}.hostAliases[{index}].ip", alias.get("ip") or "")
    if spec.get("preemptionPolicy") not in (None, "PreemptLowerPriority", "Never"):
        yield not_supported(f"{path}.preemptionPolicy", spec["preemptionPolicy"], ("PreemptLowerPriority", "Never"))


_IDENTITIES = tuple(identity(name) for name in ("fsGroup", "runAsUser", "runAsGroup"))
_WALK = Walk(
    {
        "PodSpec": (
            _containers, _host_network, one_of("restartPolicy", "Always", "OnFailure", "Never"),
            one_of("dnsPolicy", *_DNS_POLICIES), _dns, _gates, _rest,
            *(form(name, dns1123_label) for name in ("hostname", "subdomain")),
            *(form(name, dns1123_subdomain) for name in ("serviceAccountName", "nodeName", "priorityClassName")),
            between("activeDeadlineSeconds", 1, 2**31 - 1),
        ),
        "PodReadinessGate": (form("conditionType", qualified_name),),
        "PodDNSConfig": (each("nameservers", ip_address), each("searches", search_domain)),
        "PodSecurityContext": _IDENTITIES,
        "SecurityContext": _IDENTITIES,
        "HostAlias": (each("hostnames", dns1123_subdomain),),
        **containers.ACTIONS, **scheduling.ACTIONS, **pod_volumes.ACTIONS,
    },
    {**containers.UNVISITED, **pod_volumes.UNVISITED, "PodSpec": lambda *_: ("volumes", "ephemeralContainers")},
)  # fmt: skip


def validate_spec(spec: Obj, path: str, *, pod_name: str | None = None) -> list[Cause]:
    """The rules of a pod's spec with its defaults: of a pod if it has a name, else of a template."""
    pod = PodContext(spec, pod_name is not None)
    given: Sequence[Obj] = spec.get("volumes") or ()
    causes = list(pod_volumes.volume_names(given, f"{path}.volumes"))
    for index, volume in enumerate(given):
        found = _WALK("Volume", volume, f"{path}.volumes[{index}]", pod)
        causes += found
        if not found:
            pod.volumes.setdefault(volume["name"], volume)
    return causes + _WALK("PodSpec", spec, path, pod)
