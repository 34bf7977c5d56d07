"""A Kubernetes cluster in one process. What others import of it are the names in `__all__`, and nothing beyond them.

`client` talks to a cluster, `rules` are those of pods, definitions and requests, without a server, `model` is what simulators
are built from, and `conformance` knows real API servers. They are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcluster import client, conformance, model, rules
    from localcluster.apiserver import ApiServer, Env, User, serve
    from localcluster.cluster import Cluster, local_cluster
    from localcluster.controllers import Controllers
    from localcluster.kubelet.kubelet import Kubelet

__all__ = [
    "ApiServer", "Cluster", "Controllers", "Env", "Kubelet", "User", "client", "conformance", "local_cluster", "model",
    "rules", "serve",
]  # fmt: skip
_HOMES = {"Cluster": "cluster", "Controllers": "controllers", "Kubelet": "kubelet.kubelet", "local_cluster": "cluster"}


def __getattr__(name: str) -> Any:
    if name in ("client", "conformance", "model", "rules"):
        return import_module(f"localcluster.{name}")
    if name in __all__:
        return getattr(import_module(f"localcluster.{_HOMES.get(name, 'apiserver')}"), name)
    raise AttributeError(f"module 'localcluster' has no attribute {name!r}")
