"""Endpoints of services with a selector: the addresses of their ready pods (of all, with publishNotReadyAddresses)."""

from typing import Any

from localcluster.apiserver.storage import DELETED, Change, Item
from localcluster.controllers.access import Access

Obj = dict[str, Any]


def _ready(pod: Item) -> bool:
    conditions = pod.obj.get("status", {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _serves(pod: Item) -> bool:
    status = pod.obj.get("status", {})
    return bool(status.get("podIP")) and status.get("phase") not in ("Succeeded", "Failed")


def _selects(service: Item, pod: Item) -> bool:
    selector = service.obj.get("spec", {}).get("selector")
    labels = pod.obj["metadata"].get("labels") or {}
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def _facts(pod: Item) -> tuple[Any, ...]:
    """What endpoints depend on."""
    status = pod.obj.get("status", {})
    return status.get("podIP"), status.get("phase"), _ready(pod), pod.obj["metadata"].get("labels")


class EndpointsController:
    """Recomputes the endpoints of services that changed, and of those that select a pod that changed."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._feed = access.feed()
        self._members: dict[tuple[str, str], dict[str, Item]] = {}
        """The pods behind each service, by name: a change of one pod must not cost a look at all of its namespace."""
        self._dirty: set[tuple[str, str]] = set()
        for service in self._access.items("services"):
            self._select(service)

    def step(self) -> float | None:
        """Bring endpoints up to date."""
        while self._feed:
            change = self._feed.popleft()
            if change.table == "services":
                self._select(change.item)
            elif change.table == "pods":
                self._mark(change)
        for namespace, name in sorted(self._dirty):
            service = self._access.get("services", namespace, name)
            if service is None:
                self._forget(namespace, name)
            elif service.obj.get("spec", {}).get("selector"):
                self._publish(service)
        self._dirty.clear()
        return None

    def _select(self, service: Item) -> None:
        """Find the pods of a service that is new or has changed."""
        pods = self._access.items("pods", service.namespace)
        key = (service.namespace, service.name)
        self._members[key] = {pod.name: pod for pod in pods if _serves(pod) and _selects(service, pod)}
        self._dirty.add(key)

    def _mark(self, change: Change) -> None:
        if change.old is not None and change.type != DELETED and _facts(change.old) == _facts(change.item):
            return
        pod = change.item
        serves = change.type != DELETED and _serves(pod)
        for service in self._access.items("services", pod.namespace):
            key = (service.namespace, service.name)
            members = self._members.setdefault(key, {})
            if serves and _selects(service, pod):
                members[pod.name] = pod
            elif members.pop(pod.name, None) is None:
                continue
            self._dirty.add(key)

    def _forget(self, namespace: str, name: str) -> None:
        self._members.pop((namespace, name), None)
        if self._access.get("endpoints", namespace, name) is not None:
            self._access.send("DELETE", f"/api/v1/namespaces/{namespace}/endpoints/{name}")

    def _publish(self, service: Item) -> None:
        subsets = self._subsets(service)
        current = self._access.get("endpoints", service.namespace, service.name)
        if current is not None and (current.obj.get("subsets") or []) == subsets:
            return
        meta: Obj = {"name": service.name, "namespace": service.namespace}
        if service.obj["metadata"].get("labels"):
            meta["labels"] = service.obj["metadata"]["labels"]
        if service.obj["spec"].get("clusterIP") == "None":
            meta["labels"] = {**meta.get("labels", {}), "service.kubernetes.io/headless": ""}
        body: Obj = {"kind": "Endpoints", "apiVersion": "v1", "metadata": meta}
        if subsets:
            body["subsets"] = subsets
        self._access.send("PUT", f"/api/v1/namespaces/{service.namespace}/endpoints/{service.name}", body)

    def _subsets(self, service: Item) -> list[Obj]:
        spec = service.obj["spec"]
        pods = sorted(self._members[service.namespace, service.name].values(), key=lambda pod: pod.name)
        lists: dict[str, list[Obj]] = {"addresses": [], "notReadyAddresses": []}
        for pod in pods:
            ready = _ready(pod) or spec.get("publishNotReadyAddresses")
            lists["addresses" if ready else "notReadyAddresses"].append(_address(pod, service.name))
        subset: Obj = {key: value for key, value in lists.items() if value}
        if not subset:
            return []
        ports = [_port(port) for port in spec.get("ports") or ()]
        return [{**subset, "ports": ports} if ports else subset]


def _address(pod: Item, service: str) -> Obj:
    spec = pod.obj["spec"]
    address: Obj = {"ip": pod.obj["status"]["podIP"]}
    if spec.get("nodeName"):
        address["nodeName"] = spec["nodeName"]
    if spec.get("hostname") and spec.get("subdomain") == service:
        address["hostname"] = spec["hostname"]
    address["targetRef"] = {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return address


def _port(port: Obj) -> Obj:
    target = port.get("targetPort")
    found: Obj = {"port": target if isinstance(target, int) else port["port"], "protocol": port["protocol"]}
    return {"name": port["name"], **found} if port.get("name") else found
