"""The embedded cluster as jobcommon uses it: behind its own `Transport`, with the CRDs and operators of some frameworks.

`localcluster` knows nothing of jobcommon. Its requests, responses and errors have the same fields as those of
`jobcommon.client`, and are turned into each other here.
"""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from jobcommon.client import objects
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.request import APPLY_PATCH, Request, Response, Transport
from jobcommon.client.responses import response_error
from jobcommon.client.transport import HttpTransport, StaticEndpoint
from jobcommon.crd import definitions
from jobcommon.framework import Framework
from jobcommon.runtime.manager import run_operators
from jobcommon.runtime.reports.server import CERTIFICATE, KEY
from jobcommon.runtime.settings import Settings
from localcluster import ApiServer, Cluster, User, client, local_cluster
from localcluster.client import ADMIN, EMBEDDED, REAL, Endpoint, PodBackend, background, scratch_directory, write_secret

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TYPE = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
ESTABLISH_SECONDS = 60.0
# Between two questions whether a kind is served: discovery has no watch.
_INTERVAL = 0.1
#: Which API server a cluster has whose user does not say: that of the environment's variable, else the embedded one.
SERVER = "JOBCOMMON_SERVER"
#: Without logs and a metrics server: it runs inside the cluster's process. What it would warn of, such as a plan that took long
#: on a busy machine, is for those who run an operator.
SETTINGS = Settings(metrics_port=None, log_format="console", log_level="error")


_REQUEST = attrgetter("method", "path", "query", "body", "content_type", "headers")
_RESPONSE = attrgetter("status", "body", "headers")


def to_cluster(request: Request) -> client.Request:
    """The request as the embedded server takes it."""
    return client.Request(*_REQUEST(request))


def from_cluster(response: client.Response) -> Response:
    """The response as jobcommon takes it."""
    return Response(*_RESPONSE(response))


def endpoint(found: Endpoint) -> StaticEndpoint:
    """The endpoint of a server that `localcluster.conformance` has started, for jobcommon's own client."""
    return StaticEndpoint(found.base_url, found.token, found.ssl_context)


class _Side(NamedTuple):
    """What requests, responses and errors are called on one side; their fields are the same on both."""

    request: Any
    response: Any
    status_error: Any
    transport_error: Any


_OURS = _Side(Request, Response, StatusError, TransportError)
_THEIRS = _Side(client.Request, client.Response, client.StatusError, client.TransportError)


class _Bridge:
    """A transport of one side over one of the other."""

    outer: _Side
    inner: _Side

    def __init__(self, transport: Any) -> None:
        self._inner = transport

    async def send(self, request: Any) -> Any:
        """See `Transport.send`."""
        try:
            response = await self._inner.send(self.inner.request(*_REQUEST(request)))
        except self.inner.transport_error as error:
            raise self.outer.transport_error(str(error)) from error
        return self.outer.response(*_RESPONSE(response))

    async def stream(self, request: Any) -> AsyncGenerator[bytes, None]:
        """See `Transport.stream`."""
        try:
            async with aclosing(self._inner.stream(self.inner.request(*_REQUEST(request)))) as lines:
                async for line in lines:
                    yield line
        except self.inner.status_error as error:
            raise self.outer.status_error(error.code, error.reason, error.message, error.retry_after) from error
        except self.inner.transport_error as error:
            raise self.outer.transport_error(str(error)) from error

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._inner.close()


class ClusterTransport(_Bridge):
    """A `jobcommon.client.request.Transport` over a transport of `localcluster`."""

    outer, inner = _OURS, _THEIRS


class ServerTransport(_Bridge):
    """A transport of `localcluster`, such as its kubelet takes, over one of jobcommon."""

    outer, inner = _THEIRS, _OURS


class InProcessTransport(ClusterTransport):
    """A `jobcommon.client.request.Transport` to a server in the same process and event loop.

    See `localcluster.client.InProcessTransport`.
    """

    def __init__(self, server: ApiServer, user: User = ADMIN, pods: PodBackend | None = None) -> None:
        super().__init__(client.InProcessTransport(server, user, pods))


@dataclass(frozen=True)
class TrainingCluster(Cluster):
    """A running cluster that `client` reaches in process, as administrator."""

    client: Transport


@asynccontextmanager
async def training_cluster(
    frameworks: Sequence[Framework],
    settings: Settings = SETTINGS,
    *,
    port: int = 0,
    stop_grace: float = 2.0,
    operators: bool = True,
    capacity: Mapping[str, str] | None = None,
    server: str | None = None,
    python: Path | None = None,
) -> AsyncIterator[TrainingCluster]:
    """A cluster for the jobs of `frameworks`; without `operators` only their CRDs are installed.

    `server` and `python` are as for `localcluster.local_cluster`. Without a `server` it is what the environment's
    JOBCOMMON_SERVER says, so that a suite runs on a real server by one switch. The operators take reports of progress on a free
    port of the loopback interface, with the cluster's certificate.

    Raises as `localcluster.local_cluster` does.
    """
    server = server or os.environ.get(SERVER) or EMBEDDED
    async with AsyncExitStack() as stack:
        opened = local_cluster(port=port, stop_grace=stop_grace, capacity=capacity, server=server, python=python)
        local = await stack.enter_async_context(opened)
        client: Transport = ClusterTransport(local.transport)
        if server == REAL:
            # The client of a deployed operator is tried, too.
            context = ssl.create_default_context(cadata=local.credentials.certificate.pem.decode())
            client = HttpTransport(StaticEndpoint(local.url, local.credentials.token, context))
            stack.push_async_callback(client.close)
        cluster = TrainingCluster(**vars(local), client=client)
        await install(cluster.client, frameworks)
        if not operators:
            yield cluster
            return
        with scratch_directory() as directory:
            write_secret(directory / CERTIFICATE, cluster.credentials.certificate.pem)
            write_secret(directory / KEY, cluster.credentials.certificate.key)
            settings = replace(settings, progress_port=0, progress_tls=str(directory))
            async with background(run_operators(cluster.client, frameworks, settings)):
                yield cluster


async def install(transport: Transport, frameworks: Sequence[Framework]) -> None:
    """Install the frameworks' CRDs, wait until their kinds are served, and create the objects that come with the operators.

    Raises StatusError when one is refused and TimeoutError when they are not served in time.
    """
    await define(transport, *(crd for framework in frameworks for crd in definitions(framework)))
    for framework in frameworks:
        for key, manifest in framework.related_to(framework.shipped()).items():
            path = objects.collection_path(manifest["apiVersion"], key.plural, key.namespace or None)
            response = await transport.send(objects.create(path, manifest))
            # One that is kept from an earlier time may have been changed.
            if response.status >= 400 and response.status != 409:
                raise response_error(response)


async def define(transport: Transport, *definitions: dict[str, Any]) -> None:
    """Apply CustomResourceDefinitions and wait until discovery has their kinds. Raises as `install` does."""
    for definition in definitions:
        name = definition["metadata"]["name"]
        query = (("fieldManager", "jobcommon"), ("force", "true"))
        body = json.dumps({**_TYPE, **definition}).encode()
        response = await transport.send(Request("PATCH", f"{DEFINITIONS}/{quote(name)}", query, body, APPLY_PATCH))
        if response.status >= 400:
            raise response_error(response)
    async with asyncio.timeout(ESTABLISH_SECONDS):
        for definition in definitions:
            spec = definition["spec"]
            for version in (one["name"] for one in spec["versions"] if one["served"]):
                asked = Request("GET", f"/apis/{spec['group']}/{version}")
                while not _lists(spec["names"]["plural"], await transport.send(asked)):  # noqa: ASYNC110
                    await asyncio.sleep(_INTERVAL)


def _lists(plural: str, discovery: Response) -> bool:
    if discovery.status != 200:
        return False
    return any(resource["name"] == plural for resource in json.loads(discovery.body)["resources"])
