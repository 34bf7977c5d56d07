"""The kubeconfig of an embedded server."""

import base64
from typing import Any

import yaml

NAME = "jobcommon"


def kubeconfig(url: str, token: str, ca_pem: bytes | None = None, namespace: str = "default") -> str:
    """The file's text: one cluster, one user, one context, all named ``jobcommon``. It is a secret: write it with mode 0600."""
    cluster: dict[str, Any] = {"server": url}
    if ca_pem is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}],
    }
    return yaml.safe_dump(content, sort_keys=False)
