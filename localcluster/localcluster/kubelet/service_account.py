"""In-cluster configuration: how the programs of a pod reach the API server as the pod's ServiceAccount.

On a real cluster admission adds the volume and the kubelet the environment. Here the kubelet does both, so the pod's spec stays
as it was written.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from localcluster.kubeconfig import kubeconfig
from localcluster.kubelet.lifecycle import Container, Pod

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
#: No volume of a pod can have this name: it is not a DNS label.
VOLUME = "kube-api-access.pod"
#: A year, as the tokens of this volume get from a real API server (--service-account-extend-token-expiration).
TOKEN_SECONDS = 365 * 24 * 3600
#: Variables that would lead a pod to the cluster of the user's shell, or of the pod that the embedded cluster runs in.
FOREIGN = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS")


def server_environment(url: str) -> dict[str, str]:
    """The variables by which clients find the API server at `url`."""
    parts = urlsplit(url)
    port = str(parts.port)
    host = parts.hostname or ""
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "KUBERNETES_SERVICE_PORT_HTTPS": port}


def automounts(pod: Pod, account: Mapping[str, Any]) -> bool:
    """Whether the pod gets the volume: its own automountServiceAccountToken counts before its ServiceAccount's."""
    own = pod["spec"].get("automountServiceAccountToken")
    return bool(account.get("automountServiceAccountToken", True) if own is None else own)


def access_volume() -> dict[str, Any]:
    """The volume that admission adds to a pod: token, root certificate and namespace."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": VOLUME, "projected": {"sources": sources}}


def access_mounts(container: Container) -> Iterator[dict[str, Any]]:
    """The mount of that volume, unless the container has something of its own at its place."""
    if not any(mount["mountPath"].rstrip("/") == MOUNT_PATH for mount in container.get("volumeMounts") or ()):
        yield {"name": VOLUME, "mountPath": MOUNT_PATH, "readOnly": True}


def kubeconfig_of(url: str, volume: Path) -> str:
    """The text of a kubeconfig with the contents of the volume. It holds a secret."""
    token, namespace = ((volume / name).read_text() for name in ("token", "namespace"))
    return kubeconfig(url, token, (volume / "ca.crt").read_bytes(), namespace)
