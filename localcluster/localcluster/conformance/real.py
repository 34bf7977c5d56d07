"""Which real API server to compare with, if any."""

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import yaml

from localcluster import envtest
from localcluster.conformance.target import Target, connected
from localcluster.http_client import Endpoint
from localcluster.request import Request

MARKED = "KUBECONFIG_CONFORMANCE"
#: A kubeconfig that is there for other purposes counts only when its current context says so.
CONTEXT = "conformance"
WHY_NOT = (
    f"no real API server to compare with: set {envtest.ASSETS} to a directory with etcd and kube-apiserver, or {MARKED} to the "
    f"kubeconfig of a cluster that may be written to (KUBECONFIG counts when its current context is named {CONTEXT!r})"
)


def kubeconfig(variable: str = MARKED, context: str = CONTEXT) -> Path | None:
    """The kubeconfig of a cluster that is marked: by `variable`, or by the name of its current context."""
    if marked := os.environ.get(variable):
        return Path(marked)
    plain = os.environ.get("KUBECONFIG", "")
    if plain and Path(plain).is_file():
        content = yaml.safe_load(Path(plain).read_text())
        if isinstance(content, dict) and content.get("current-context") == context:
            return Path(plain)
    return None


def available() -> bool:
    """Whether there is one. Raises envtest.StartError when the variable is set wrongly."""
    return envtest.assets() is not None or kubeconfig() is not None


@asynccontextmanager
async def control_plane(directory: Path) -> AsyncIterator[Target]:
    """Both programs of `directory`, ready, and connections to them. Raises envtest.StartError."""
    async with envtest.servers(directory) as found, connected("kube-apiserver", found.version, found.endpoint) as target:
        yield target


@asynccontextmanager
async def real() -> AsyncIterator[Target | None]:
    """The real server, started if need be; None when there is none."""
    directory = envtest.assets()
    if directory is not None:
        async with control_plane(directory) as target:
            yield target
        return
    path = kubeconfig()
    if path is None:
        yield None
        return
    async with connected(str(path), "", await _endpoint(path), lasting=True) as target:
        found = await target.transport.send(Request("GET", "/version"))
        version = str(msgspec.json.decode(found.body).get("gitVersion", "unknown"))
        yield Target(target.name, version, target.transport, lasting=True)


async def _endpoint(path: Path) -> Endpoint:
    """The server of a kubeconfig, by the rules of kubernetes_asyncio."""
    from kubernetes_asyncio import client, config

    found = client.Configuration()
    await config.load_kube_config(str(path), client_configuration=found)
    context = ssl.create_default_context(cafile=found.ssl_ca_cert)
    if found.cert_file:
        context.load_cert_chain(found.cert_file, found.key_file)
    if not found.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    token = found.api_key.get("BearerToken", "").removeprefix("Bearer ")
    return Endpoint(str(found.host), token or None, context, found.tls_server_name)
