"""The pytest plugin of ``jobcommon[testing]``: a fresh Kubernetes API for a test.

pytest loads this module in every project where jobcommon is installed, so it imports nothing else until a fixture is used.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jobcommon.testutil.kubernetes_api import KubernetesApi


@pytest.fixture
def kubernetes_api(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[KubernetesApi]":
    """An API server of this test alone. KUBECONFIG leads to it for as long as the test runs."""
    with _running(tmp_path_factory) as api:
        yield api


@pytest.fixture(scope="session")
def shared_kubernetes_api(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[KubernetesApi]":
    """One API server for all tests that use it. KUBECONFIG leads to it from its first use to the end of the session."""
    with _running(tmp_path_factory) as api:
        yield api


@contextmanager
def _running(factory: pytest.TempPathFactory) -> "Iterator[KubernetesApi]":
    from jobcommon.testutil.kubernetes_api import kubernetes_api as run

    with run(factory.mktemp("kubernetes-api")) as api, pytest.MonkeyPatch.context() as patch:
        for name, value in api.variables.items():
            patch.setenv(name, value)
        yield api
