"""A plugin for the run of kopf's own tests: one API server for them all, with their definitions installed."""

import contextlib
from collections.abc import Collection

import kopf
import pytest

from localcluster.certificates import self_signed
from localcluster.testing.kubernetes_api import KubectlError, KubernetesApi


@pytest.fixture(scope="session", autouse=True)
def _definitions(shared_kubernetes_api: KubernetesApi) -> None:
    shared_kubernetes_api.kubectl("apply", "-f", "examples/crd.yaml")
    # The file has a kind and an object of that kind: on any cluster it takes two attempts.
    with contextlib.suppress(KubectlError):
        shared_kubernetes_api.kubectl("apply", "-f", "peering.yaml")
    shared_kubernetes_api.kubectl("apply", "-f", "peering.yaml")


@pytest.fixture(autouse=True)
def _certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates without oscrypto, which does not know OpenSSL 3.0.10 and later: kopf makes and reads its own with it."""

    def build(hostnames: Collection[str], _password: str | None = None) -> tuple[bytes, bytes]:
        made = self_signed(tuple(hostnames))
        return made.pem, made.key

    async def nowhere(_: object) -> None:
        """By the API server's certificate, kopf finds out in which virtual machine it would have to be reached."""

    monkeypatch.setattr(kopf.WebhookServer, "build_certificate", staticmethod(build))
    monkeypatch.setattr(kopf.WebhookAutoServer, "guess_host", nowhere)
