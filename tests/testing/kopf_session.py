"""A plugin for the run of kopf's own tests: one API server for them all, with their definitions installed."""

import contextlib

import pytest

from jobcommon.testutil.kubernetes_api import KubectlError, KubernetesApi


@pytest.fixture(scope="session", autouse=True)
def _definitions(shared_kubernetes_api: KubernetesApi) -> None:
    shared_kubernetes_api.kubectl("apply", "-f", "examples/crd.yaml")
    # The file has a kind and an object of that kind: on any cluster it takes two attempts.
    with contextlib.suppress(KubectlError):
        shared_kubernetes_api.kubectl("apply", "-f", "peering.yaml")
    shared_kubernetes_api.kubectl("apply", "-f", "peering.yaml")
