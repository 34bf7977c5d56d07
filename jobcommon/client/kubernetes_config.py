"""kubernetes-asyncio's readers of credentials, imported when the first credentials are read.

To import any part of kubernetes-asyncio imports all of it: 960 modules of models and API classes, 0.45 s of CPU and 39 MB, of
which nothing else is used here. An operator pays that once, at its start; a process that reads no credentials does not.
"""

from typing import Any, NamedTuple


class Readers(NamedTuple):
    """What kubernetes-asyncio calls these."""

    configuration: Any
    config_exception: Any
    load_kube_config: Any
    in_cluster_loader: Any


def readers() -> Readers:
    """The readers. Raises ImportError when kubernetes-asyncio is not installed."""
    from kubernetes_asyncio import client, config
    from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader

    return Readers(client.Configuration, config.ConfigException, config.load_kube_config, InClusterConfigLoader)
