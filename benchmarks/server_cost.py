"""What the requests of a small job cost the API server, in CPU time.

::

    python -m benchmarks.server_cost               # 600 of each request
    python -m benchmarks.server_cost --jobs 100

A plain client sends them. The jobs' definition is measured as it is, and with parts taken out, which shows what these cost.
"""

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from benchmarks import record, report
from benchmarks.apiserver import EMBEDDED, REAL, api_server, prepare, real_is_given
from benchmarks.baseline_client import final_status, release, send_all
from benchmarks.processes import descendants_cpu_seconds
from benchmarks.seeds import NAMESPACE, running_status
from benchmarks.workloads import (
    BASELINE_GROUP,
    Manifest,
    Workload,
    baseline_definition,
    baseline_writes,
    job_manifest,
    submissions,
)
from jobcommon.client.objects import collection_path, create, delete, get, merge, object_path
from jobcommon.client.request import Request, Transport
from jobcommon.localcluster.training import DEFINITIONS
from jobcommon.operators.tf import TF

REPLICAS = 2
CONCURRENCY = 16
#: The server still handles watches and collects garbage after its last response.
SETTLE_SECONDS = 0.7
CHANGE_SECONDS = 60.0
WHOLE = "as it is"
_API = f"{BASELINE_GROUP}/{TF.storage_version}"
_RULES = "x-kubernetes-validations"


@dataclass(frozen=True)
class Variant:
    """The definition after `change`. The server uses it once the response to `probe` has that `status`."""

    name: str
    change: Callable[[Manifest], None]
    probe: Request
    status: int


@dataclass(frozen=True)
class Cost:
    """What one request costs the server's processes, in milliseconds of CPU time."""

    request: str
    definition: str
    milliseconds: float


def variants() -> tuple[Variant, ...]:
    """The definition as it is, and without parts of it."""
    long_name = _dry_run(job_manifest(NAMESPACE, "n" * 70, 1, api_version=_API))
    any_spec = _dry_run({**job_manifest(NAMESPACE, "probe", 1, api_version=_API), "spec": {"runPolicy": 1}})
    other = next(version.name for version in TF.versions if not version.storage)
    other_version = get(collection_path(f"{BASELINE_GROUP}/{other}", TF.plural, NAMESPACE))
    return (
        Variant(WHOLE, _keep, long_name, 422),
        Variant("without CEL rules", lambda definition: _remove_rules(definition["spec"]["versions"]), long_name, 201),
        Variant("with the stored version alone", _remove_versions, other_version, 404),
        Variant("for any object", _open, any_spec, 201),
    )


def _dry_run(manifest: Manifest) -> Request:
    path = collection_path(_API, TF.plural, NAMESPACE)
    return Request("POST", path, (("dryRun", "All"),), msgspec.json.encode(manifest))


def _keep(_: Manifest) -> None:
    """Leave the definition as it is."""


def _remove_rules(node: Any) -> None:
    if isinstance(node, dict):
        node.pop(_RULES, None)
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _remove_rules(child)


def _remove_versions(definition: Manifest) -> None:
    definition["spec"]["versions"] = [version for version in definition["spec"]["versions"] if version["storage"]]


def _open(definition: Manifest) -> None:
    for version in definition["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


async def measure(kind: str, jobs: int) -> tuple[str, list[Cost]]:
    """The server's name and what each request costs, with that many jobs a variant. Raises RuntimeError and TimeoutError."""
    found: list[Cost] = []
    async with api_server(kind) as server, server.connected() as transport:
        await prepare(transport, NAMESPACE)
        await send_all(transport, [create(DEFINITIONS, baseline_definition())])
        for variant in variants():
            await _define(transport, variant)
            found += [Cost(*cost) async for cost in _of_jobs(transport, variant.name, jobs)]
        found += [Cost(*cost) async for cost in _of_children(transport, jobs)]
        return server.name, found


async def _define(transport: Transport, variant: Variant) -> None:
    """Change the definition; the server uses it on return."""
    definition = baseline_definition()
    variant.change(definition)
    # A merge patch without a resourceVersion: the server writes the status of the definition at the same time.
    await send_all(transport, [merge(f"{DEFINITIONS}/{definition['metadata']['name']}", {"spec": definition["spec"]})])
    async with asyncio.timeout(CHANGE_SECONDS):
        while (await transport.send(variant.probe)).status != variant.status:  # noqa: ASYNC110  there is no event
            await asyncio.sleep(0.2)


async def _of_jobs(transport: Transport, definition: str, jobs: int) -> AsyncIterator[tuple[str, str, float]]:
    """Jobs are created, get their final status, are read, and are deleted."""
    bodies, spent = await _spent(transport, submissions(Workload(jobs, REPLICAS), NAMESPACE, _API))
    yield "job: POST", definition, spent
    raws = [msgspec.json.decode(body) for body in bodies]
    _, spent = await _spent(transport, [final_status(raw, REPLICAS) for raw in raws])
    yield "job: PUT of the status", definition, spent
    paths = [object_path(_API, TF.plural, NAMESPACE, raw["metadata"]["name"]) for raw in raws]
    _, spent = await _spent(transport, [get(path) for path in paths])
    yield "job: GET", definition, spent
    _, spent = await _spent(transport, [Request("DELETE", path) for path in paths])
    yield "job: DELETE", definition, spent


async def _of_children(transport: Transport, jobs: int) -> AsyncIterator[tuple[str, str, float]]:
    """Services and pods are created, the pods run and lose their finalizer, and all are deleted."""
    writes = baseline_writes(Workload(jobs, REPLICAS), NAMESPACE)
    services, pods = ([write for write in writes if write.path.endswith(plural)] for plural in ("services", "pods"))
    bodies, spent = await _spent(transport, services)
    yield "Service: POST", "", spent
    _, spent = await _spent(transport, [_delete("services", body) for body in bodies])
    yield "Service: DELETE", "", spent
    bodies, spent = await _spent(transport, pods)
    yield "pod: POST", "", spent
    names = [msgspec.json.decode(body)["metadata"] for body in bodies]
    paths = [object_path("v1", "pods", NAMESPACE, each["name"]) for each in names]
    _, spent = await _spent(transport, [merge(f"{path}/status", {"status": running_status()}) for path in paths])
    yield "pod: PATCH of the status", "", spent
    _, spent = await _spent(transport, [release(NAMESPACE, each["name"], each["uid"]) for each in names])
    yield "pod: PATCH of the finalizers", "", spent
    _, spent = await _spent(transport, [_delete("pods", body) for body in bodies])
    yield "pod: DELETE", "", spent


def _delete(plural: str, body: bytes) -> Request:
    metadata = msgspec.json.decode(body)["metadata"]
    return delete(object_path("v1", plural, NAMESPACE, metadata["name"]), metadata["uid"])


async def _spent(transport: Transport, requests: Sequence[Request]) -> tuple[list[bytes], float]:
    """The bodies of the responses, and the CPU milliseconds of a request: the server and its store are the only descendants."""
    await asyncio.sleep(SETTLE_SECONDS)
    before = descendants_cpu_seconds(os.getpid())
    bodies = await send_all(transport, requests, CONCURRENCY)
    await asyncio.sleep(SETTLE_SECONDS)
    return bodies, (descendants_cpu_seconds(os.getpid()) - before) / len(requests) * 1000


def rows(found: Sequence[Cost]) -> Iterator[tuple[str, ...]]:
    """The lines of the table."""
    for cost in found:
        yield cost.request, cost.definition, f"{cost.milliseconds:.2f} ms"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server_cost", description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=600, help="how many jobs for each variant (default: %(default)d)")
    parser.add_argument("--server", choices=(EMBEDDED, REAL), default=REAL if real_is_given() else EMBEDDED)
    given = parser.parse_args()
    name, found = asyncio.run(measure(given.server, given.jobs))
    print(f"Server: {name}. Commit: {record.commit()}. Machine: {record.machine()}.\n")
    print(report.table(("request", "the job's definition", "CPU of the server"), rows(found)))


if __name__ == "__main__":
    main()
