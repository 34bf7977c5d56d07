"""kubernetes-asyncio's readers of credentials, without the rest of that package.

To import any part of it imports all: 860 modules of models and API classes, 36 MB and most of a second, of which nothing is
used here. So its packages are entered without running their ``__init__``, and forgotten again: who imports
kubernetes-asyncio in this process gets the whole of it.
"""

import importlib.util
import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

PACKAGE = "kubernetes_asyncio"


class Readers(NamedTuple):
    """What kubernetes-asyncio calls these."""

    configuration: Any
    config_exception: Any
    load_kube_config: Any
    in_cluster_loader: Any


@cache
def readers() -> Readers:
    """The readers. Raises ImportError when kubernetes-asyncio is not installed."""
    if PACKAGE in sys.modules:
        return _readers()
    try:
        _entered(PACKAGE)
        client = _entered(f"{PACKAGE}.client")
        vars(client).update(
            # Named by a helper that nobody calls; the class would bring the models along.
            ApiClient=object,
            Configuration=import_module(f"{PACKAGE}.client.configuration").Configuration,
        )
        return _readers()
    finally:
        for name in [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]:
            del sys.modules[name]


def _readers() -> Readers:
    config = import_module(f"{PACKAGE}.config")
    in_cluster = import_module(f"{PACKAGE}.config.incluster_config")
    configuration = import_module(f"{PACKAGE}.client").Configuration
    return Readers(configuration, config.ConfigException, config.load_kube_config, in_cluster.InClusterConfigLoader)


def _entered(name: str) -> ModuleType:
    """The package, so that its modules can be imported, but with nothing in it."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    return module
