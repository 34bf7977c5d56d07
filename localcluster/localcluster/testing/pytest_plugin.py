"""The pytest plugin of ``jobcommon-localcluster[testing]``: a fresh Kubernetes API for a test.

pytest loads this module in every project where it is installed, so it imports nothing else until a fixture is used.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from localcluster.testing.kubernetes_api import ApiServers, Faults, Kubelet, KubernetesApi

_CLIENTS = tuple(
    f"{client}.config{module}" for client in ("kubernetes", "kubernetes_asyncio") for module in ("", ".kube_config")
)


@pytest.fixture(scope="session")
def _api_servers() -> "Iterator[ApiServers]":
    from localcluster.testing.kubernetes_api import ApiServers

    with ApiServers() as servers:
        yield servers


@pytest.fixture
def kubernetes_api(_api_servers: "ApiServers", tmp_path_factory: pytest.TempPathFactory) -> "Iterator[KubernetesApi]":
    """An API server of this test alone. KUBECONFIG leads to it for as long as the test runs."""
    with _running(_api_servers, tmp_path_factory) as api:
        yield api


@pytest.fixture(scope="session")
def shared_kubernetes_api(_api_servers: "ApiServers", tmp_path_factory: pytest.TempPathFactory) -> "Iterator[KubernetesApi]":
    """One API server for all tests that use it. KUBECONFIG leads to it from its first use to the end of the session."""
    with _running(_api_servers, tmp_path_factory) as api:
        yield api


@pytest.fixture
def _server_of_the_test(request: pytest.FixtureRequest) -> "KubernetesApi":
    """The server that the test uses; a fresh one if it has named none."""
    used = {"kubernetes_api", "shared_kubernetes_api"} & set(request.fixturenames)
    if len(used) == 2:
        pytest.fail(
            "the test uses kubernetes_api and shared_kubernetes_api: kubelet and faults are for one server", pytrace=False
        )
    found: KubernetesApi = request.getfixturevalue(used.pop() if used else "kubernetes_api")
    return found


@pytest.fixture
def kubernetes_kubelet(_server_of_the_test: "KubernetesApi", _api_servers: "ApiServers") -> "Kubelet":
    """A kubelet that plays the pods of the test's server; on a shared one, to the end of the session."""
    from localcluster.testing.kubernetes_api import Kubelet

    kubelet = Kubelet(_server_of_the_test, _api_servers)
    kubelet.play()
    return kubelet


@pytest.fixture
def kubernetes_faults(_server_of_the_test: "KubernetesApi", _api_servers: "ApiServers") -> "Iterator[Faults]":
    """What can go wrong at the test's server. A fault that has not happened by the end of the test fails it."""
    from localcluster.testing.kubernetes_api import Faults

    faults = Faults(_server_of_the_test, _api_servers)
    yield faults
    if vain := faults.end():
        pytest.fail(f"no request of the test met this fault: {'; '.join(vain)}", pytrace=False)


@contextmanager
def _running(servers: "ApiServers", factory: pytest.TempPathFactory) -> "Iterator[KubernetesApi]":
    with servers.fresh(factory.mktemp("kubernetes-api")) as api, pytest.MonkeyPatch.context() as patch:
        # Clients prefer the cluster that they run in, as in a CI runner that is a pod, to a kubeconfig.
        for name in os.environ.keys() - api.env.keys():
            patch.delenv(name)
        for name, value in api.variables.items():
            patch.setenv(name, value)
        for module in _CLIENTS:
            # These read KUBECONFIG when they are imported, which may have been before; it would be another cluster.
            if hasattr(sys.modules.get(module), "KUBE_CONFIG_DEFAULT_LOCATION"):
                patch.setattr(sys.modules[module], "KUBE_CONFIG_DEFAULT_LOCATION", str(api.kubeconfig))
        yield api
