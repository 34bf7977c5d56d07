"""The node object and its heartbeat."""

import asyncio
import contextlib
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from localcluster.kubelet.api import Api
from localcluster.kubelet.server import DECLARED
from localcluster.request import ClientError, StatusError
from localcluster.timestamps import format_micro_time, format_time
from localcluster.version import GIT_VERSION

_LEASE_SECONDS = 40
_DEVICE_FILES = {"nvidia.com/gpu": Path("/dev/nvidiactl"), "amd.com/gpu": Path("/dev/kfd")}


def machine_capacity() -> dict[str, str]:
    """CPU and memory of this machine as a node's capacity."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": str(os.cpu_count() or 1), "memory": f"{memory // 1024}Ki", "pods": "1000"}


def devices_not_here(names: Iterable[str]) -> set[str]:
    """Those of the resources that are devices which this machine does not have; nothing is known of most vendors'."""
    return {name for name in names if "/" in name and not _DEVICE_FILES.get(name, Path("/nonexistent")).exists()}


def node_labels(name: str) -> dict[str, str]:
    """The well-known labels of the node."""
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {"kubernetes.io/hostname": name, "kubernetes.io/os": sys.platform, "kubernetes.io/arch": arch}


def node_object(name: str, address: str, capacity: Mapping[str, str], now: float, port: int = 0) -> dict[str, Any]:
    """The node as this kubelet registers it. Its ``containerRuntimeVersion`` distinguishes it from a real one.

    At `port` an API server reaches it, if it serves one.
    """
    moment = format_time(now)
    facts = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "pods run as local processes"),
    ]
    conditions = [
        {"type": kind, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": moment,
         "lastTransitionTime": moment}
        for kind, status, reason, message in facts
    ]  # fmt: skip
    labels = node_labels(name)
    info = {
        "architecture": labels["kubernetes.io/arch"], "operatingSystem": sys.platform, "osImage": platform.platform(),
        "kernelVersion": platform.release(), "kubeletVersion": GIT_VERSION, "kubeProxyVersion": "",
        "containerRuntimeVersion": "process://1", "machineID": "", "systemUUID": "", "bootID": "",
    }  # fmt: skip
    addresses = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "capacity": dict(capacity), "allocatable": dict(capacity), "addresses": addresses, "conditions": conditions,
            "nodeInfo": info,
            **({"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}, "declaredFeatures": [*DECLARED]} if port else {}),
        },
    }  # fmt: skip


async def register(api: Api, node: Mapping[str, Any]) -> dict[str, Any]:
    """Create the node, or renew the status of the one that is there. Raises ClientError."""
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    try:
        await api.call("POST", "/api/v1/nodes", node)
    except StatusError as error:
        if error.code != 409:
            raise
    return await api.patch(f"{path}/status", {"status": node["status"]})


def _is_unknown(node: Mapping[str, Any]) -> bool:
    """Whether a controller has missed heartbeats: it hears of a node again by its status alone."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "Unknown" for one in conditions)


async def heartbeat(
    api: Api,
    shown: Callable[[], Mapping[str, Any]],
    fresh: Callable[[], Mapping[str, Any]],
    now: Callable[[], float],
    every: float,
) -> None:
    """Renew the node's lease until cancelled, `every` so many seconds, and its status if that is unknown by now.

    `shown` is the node as the server has it, `fresh` as it is.
    """
    name = shown()["metadata"]["name"]
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": shown()["metadata"]["uid"]}
    while True:
        spec = {"holderIdentity": name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": format_micro_time(now())}
        metadata = {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        try:
            await api.patch(f"{path}/{name}", {"spec": spec})
        except StatusError as error:
            if error.code == 404:
                with contextlib.suppress(ClientError):
                    await api.call("POST", path, lease)
        except ClientError:
            pass
        if _is_unknown(shown()):
            with contextlib.suppress(ClientError):
                await register(api, fresh())
        await asyncio.sleep(every)
