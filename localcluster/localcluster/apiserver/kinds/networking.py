"""Ingresses, ingress classes and network policies; disruption budgets, which are as short."""

import ipaddress
from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, forbidden, invalid, not_supported, required
from localcluster.apiserver.kinds.rules import port_causes
from localcluster.apiserver.kinds.scheduling import selector_check
from localcluster.apiserver.kinds.tables import (
    defaults,
    each_at,
    filled,
    given,
    immutable,
    named,
    needed,
    one_of,
    rules,
    share,
    status_of,
)
from localcluster.apiserver.names import check, dns1123_label, dns1123_subdomain, is_address
from localcluster.apiserver.resource import Strategy

Obj = dict[str, Any]

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_BAD_AT_END = ("/..", "/.")


# Ingresses


def _host(path: str, host: str) -> Sequence[Cause]:
    causes = [invalid(path, host, "must be a DNS name, not an IP address")] if is_address(host) else []
    return causes + check(dns1123_subdomain, path, host.removeprefix("*."))


def _http_path(path: str, entry: Obj, _parent: Obj) -> Sequence[Cause]:
    kind, text = entry.get("pathType"), entry.get("path") or ""
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    causes = []
    if kind not in _PATH_TYPES:
        causes.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        causes.append(invalid(f"{path}.path", text, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        causes += [invalid(f"{path}.path", text, f"must not contain '{part}'") for part in _BAD_IN_PATHS if part in text]
        causes += [invalid(f"{path}.path", text, f"cannot end with '{end}'") for end in _BAD_AT_END if text.endswith(end)]
    return causes + list(_backend(f"{path}.backend", entry.get("backend") or {}))


def _backend(path: str, backend: Obj) -> Sequence[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if resource is not None:
        if service is not None:
            return [invalid(path, "", "cannot set both resource and service backends")]
        return [required(f"{path}.resource.{name}") for name in ("kind", "name") if not resource.get(name)]
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    name, port = service.get("name") or "", service.get("port") or {}
    causes = check(dns1123_label, f"{path}.service.name", name) if name else [required(f"{path}.service.name")]
    if port.get("name") and port.get("number"):
        causes.append(invalid(path, "", "cannot set both port name & port number"))
    elif port.get("name"):
        causes += port_causes(port["name"], f"{path}.service.port.name")
    elif port.get("number"):
        causes += port_causes(port["number"], f"{path}.service.port.number")
    else:
        causes.append(required(path, "port name or number is required"))
    return causes


def _routes(obj: Obj) -> Sequence[Cause]:
    spec = obj["spec"]
    if spec.get("rules") or spec.get("defaultBackend"):
        return []
    return [invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified")]


INGRESS = Strategy(
    default=defaults(("spec", {})),
    **status_of(*filled("status", loadBalancer={})),
    validate=rules(
        _routes,
        ("spec.defaultBackend", given(_backend)),
        ("spec.rules[].host", given(lambda path, host: _host(path, host) if host else [])),
        ("spec.rules[].http.paths", needed()),
        ("spec.rules[].http.paths[]", _http_path),
        ("spec.tls[].hosts[]", given(lambda path, host: check(dns1123_subdomain, path, host.removeprefix("*.")))),
        *each_at(named(dns1123_subdomain), "spec.tls[].secretName", "spec.ingressClassName"),
    ),
)


def _controller(path: str, value: Any, _parent: Obj) -> Sequence[Cause]:
    if not value:
        return [required(path)]
    domain, slash, rest = value.partition("/")
    if slash and rest and not check(dns1123_subdomain, path, domain):
        return []
    return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]


INGRESS_CLASS = Strategy(
    default=defaults(("spec", {}), ("spec.parameters.scope", "Cluster")),
    validate=rules(
        ("spec.controller", _controller),
        *each_at(needed(), "spec.parameters.kind", "spec.parameters.name"),
        ("spec.parameters.scope", one_of("Cluster", "Namespace")),
    ),
    validate_update=immutable("spec.controller"),
)

# Network policies


def _default_policy(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    _policy_ports(obj)


_DIRECTIONS = (("ingress", "from"), ("egress", "to"))
_policy_ports = defaults(*((f"spec.{direction}[].ports[].protocol", "TCP") for direction, _ in _DIRECTIONS))


def _policy_port(path: str, port: Obj, _parent: Obj) -> Sequence[Cause]:
    number, end = port.get("port"), port.get("endPort")
    causes = port_causes(number, f"{path}.port") if number is not None else []
    if end is not None and isinstance(number, int):
        causes += [invalid(f"{path}.endPort", end, "must be greater than or equal to `port`")] if end < number else []
        causes += port_causes(end, f"{path}.endPort")
    elif end is not None:
        told = "may not be specified when `port` is non-numeric or not specified"
        causes.insert(0, invalid(f"{path}.endPort", end, told))
    return causes


def _peer(path: str, peer: Obj, _parent: Obj) -> Sequence[Cause]:
    if not peer:
        return [required(path, "must specify a peer")]
    block = peer.get("ipBlock")
    causes = _block(block, f"{path}.ipBlock") if block is not None else []
    if block is not None and len(peer) > 1:
        causes.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return causes


def _block(block: Obj, path: str) -> list[Cause]:
    if not block.get("cidr"):
        return [required(f"{path}.cidr")]
    whole = _network(block["cidr"])
    if whole is None:
        return [invalid(f"{path}.cidr", block["cidr"], "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]
    causes = []
    for index, text in enumerate(block.get("except") or ()):
        where, part = f"{path}.except[{index}]", _network(text)
        if part is None:
            causes.append(invalid(where, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"))
        elif part.version != whole.version or part == whole or not part.subnet_of(whole):  # type: ignore[arg-type]
            causes.append(invalid(where, text, "must be a strict subset of `cidr`"))
    return causes


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


NETWORK_POLICY = Strategy(
    default=_default_policy,
    validate=rules(
        ("spec.podSelector", selector_check),
        ("spec.policyTypes[]", one_of("Ingress", "Egress")),
        *((f"spec.{direction}[].ports[].protocol", one_of("TCP", "UDP", "SCTP")) for direction, _ in _DIRECTIONS),
        *((f"spec.{direction}[].ports[]", _policy_port) for direction, _ in _DIRECTIONS),
        *((f"spec.{direction}[].{peers}[]", _peer) for direction, peers in _DIRECTIONS),
        *(
            (f"spec.{direction}[].{peers}[].{selector}", selector_check)
            for direction, peers in _DIRECTIONS
            for selector in ("podSelector", "namespaceSelector")
        ),
    ),
)

ENDPOINT_SLICE = Strategy(
    default=defaults(("endpoints[].conditions", {}), ("ports[].name", ""), ("ports[].protocol", "TCP")),
    validate=rules(
        ("addressType", needed()),
        ("addressType", one_of("FQDN", "IPv4", "IPv6")),
        ("endpoints[].addresses", needed()),
        ("ports[].protocol", one_of("SCTP", "TCP", "UDP")),
    ),
    validate_update=immutable("addressType"),
)

# Disruption budgets


def _one_bound(obj: Obj) -> Sequence[Cause]:
    if "minAvailable" in obj["spec"] and "maxUnavailable" in obj["spec"]:
        return [invalid("spec", obj["spec"], "minAvailable and maxUnavailable cannot be both set")]
    return []


DISRUPTION_BUDGET = Strategy(
    default=defaults(("spec", {})),
    **status_of(*filled("status", disruptionsAllowed=0, currentHealthy=0, desiredHealthy=0, expectedPods=0)),
    validate=rules(
        _one_bound,
        *each_at(share, "spec.minAvailable", "spec.maxUnavailable"),
        ("spec.selector", selector_check),
        ("spec.unhealthyPodEvictionPolicy", one_of("AlwaysAllow", "IfHealthyBudget")),
    ),
)
