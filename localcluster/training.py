"""The embedded cluster with the CRDs of some frameworks installed and their operators running."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jobcommon.client.list_watch import list_and_watch
from jobcommon.client.request import APPLY_PATCH, Request, Transport
from jobcommon.client.status import response_error
from jobcommon.crd import custom_resource_definition
from jobcommon.framework import Framework
from jobcommon.localcluster.cluster import LocalCluster, background, local_cluster
from jobcommon.localcluster.credentials import write_secret
from jobcommon.localcluster.scratch import scratch_directory
from jobcommon.runtime.manager import run_operators
from jobcommon.runtime.report_server import CERTIFICATE, KEY
from jobcommon.runtime.settings import Settings

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ESTABLISH_SECONDS = 60.0
#: Without logs and a metrics server: it runs inside the cluster's process. What it would warn of, such as a plan that took long
#: on a busy machine, is for those who run an operator.
SETTINGS = Settings(metrics_port=None, log_format="console", log_level="error")


@asynccontextmanager
async def training_cluster(
    frameworks: Sequence[Framework],
    settings: Settings = SETTINGS,
    *,
    data_dir: Path | None = None,
    port: int = 0,
    stop_grace: float = 2.0,
    operators: bool = True,
    capacity: Mapping[str, str] | None = None,
) -> AsyncIterator[LocalCluster]:
    """A cluster for the jobs of `frameworks`; without `operators` only their CRDs are installed.

    The operators take reports of progress on a free port of the loopback interface, with the cluster's certificate.

    Raises as `localcluster.cluster.local_cluster` does.
    """
    async with local_cluster(data_dir=data_dir, port=port, stop_grace=stop_grace, capacity=capacity) as cluster:
        await install(cluster.transport, frameworks)
        if not operators:
            yield cluster
            return
        with scratch_directory() as directory:
            write_secret(directory / CERTIFICATE, cluster.credentials.certificate.pem)
            write_secret(directory / KEY, cluster.credentials.certificate.key)
            settings = replace(settings, progress_port=0, progress_tls=str(directory))
            async with background(run_operators(cluster.transport, frameworks, settings)):
                yield cluster


async def install(transport: Transport, frameworks: Sequence[Framework]) -> None:
    """Install the frameworks' CRDs and wait until their kinds are served.

    Raises StatusError when one is refused and TimeoutError when they are not served in time.
    """
    waiting = set[str]()
    for framework in frameworks:
        definition = custom_resource_definition(framework)
        name = definition["metadata"]["name"]
        query = (("fieldManager", "jobcommon"), ("force", "true"))
        body = json.dumps(definition).encode()
        response = await transport.send(Request("PATCH", f"{DEFINITIONS}/{quote(name)}", query, body, APPLY_PATCH))
        if response.status >= 400:
            raise response_error(response)
        waiting.add(name)
    async with asyncio.timeout(ESTABLISH_SECONDS), aclosing(list_and_watch(transport, DEFINITIONS)) as definitions:
        while waiting:
            seen = await anext(definitions)
            if _established(seen.body):
                waiting.discard(seen.body["metadata"]["name"])


def _established(definition: dict[str, Any]) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
