"""Endpoints of services with a selector: the addresses of their ready pods (of all, with publishNotReadyAddresses)."""

from typing import Any

from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import DELETED, Item
from localcluster.controllers.access import Access

Obj = dict[str, Any]


def _ready(pod: Item) -> bool:
    conditions = pod.obj.get("status", {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _serves(pod: Item, selector: Obj) -> bool:
    labels = pod.obj["metadata"].get("labels") or {}
    status = pod.obj.get("status", {})
    finished = status.get("phase") in ("Succeeded", "Failed")
    return bool(status.get("podIP")) and not finished and all(labels.get(key) == value for key, value in selector.items())


class EndpointsController:
    """Recomputes the endpoints of the namespaces in which a pod or service changed."""

    def __init__(self, server: ApiServer) -> None:
        self._access = Access(server, "endpoint-controller")
        self._feed = server.storage.feed()
        self._dirty = {item.namespace for item in self._access.items("services")}

    def step(self) -> float | None:
        """Bring endpoints up to date."""
        while self._feed:
            change = self._feed.popleft()
            if change.table in ("pods", "services"):
                self._dirty.add(change.item.namespace)
            if change.table == "services" and change.type == DELETED:
                self._forget(change.item)
        for namespace in sorted(self._dirty):
            for service in self._access.items("services", namespace):
                selector = service.obj.get("spec", {}).get("selector")
                if selector:
                    self._publish(service, selector)
        self._dirty.clear()
        return None

    def _forget(self, service: Item) -> None:
        path = f"/api/v1/namespaces/{service.namespace}/endpoints/{service.name}"
        if self._access.get("endpoints", service.namespace, service.name) is not None:
            self._access.send("DELETE", path)

    def _publish(self, service: Item, selector: Obj) -> None:
        subsets = self._subsets(service, selector)
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

    def _subsets(self, service: Item, selector: Obj) -> list[Obj]:
        spec = service.obj["spec"]
        pods = sorted(
            (pod for pod in self._access.items("pods", service.namespace) if _serves(pod, selector)), key=lambda pod: pod.name
        )
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
