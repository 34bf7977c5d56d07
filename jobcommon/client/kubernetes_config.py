"""kubernetes-asyncio's reader of kubeconfigs, imported when the first one is read.

To import any part of kubernetes-asyncio imports all of it: 1,164 modules with what they need, 0.47 s of CPU and 57 MB, of
which nothing else is used here. An operator in a pod uses its service account, and does without.
"""

import logging
from typing import Any, NamedTuple


class Readers(NamedTuple):
    """What kubernetes-asyncio calls these."""

    configuration: Any
    config_exception: Any
    load_kube_config: Any
    merger: Any


def readers() -> Readers:
    """The readers. Raises ImportError when kubernetes-asyncio is not installed."""
    from kubernetes_asyncio import client, config
    from kubernetes_asyncio.config.kube_config import KubeConfigMerger

    # It logs what it also raises, and Python prints to standard error what nothing handles.
    logging.getLogger("kubernetes_asyncio").addHandler(logging.NullHandler())
    return Readers(client.Configuration, config.ConfigException, config.load_kube_config, KubeConfigMerger)
