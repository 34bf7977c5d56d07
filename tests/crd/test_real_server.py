"""What the rules of a CRD do to jobs that are there, on the embedded API server and on a real one."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest

from jobcommon.client.request import JSON, MERGE_PATCH, Request
from jobcommon.crd import custom_resource_definition
from jobcommon.operators.mpi.framework import MPI
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.polling import polled
from localcluster.conformance import Target, embedded, real

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
only_real = pytest.mark.skipif(not real.available(), reason=real.WHY_NOT)


#: 60 characters, which the reference allowed for jobs that have no Services of such names.
LONG = "n" * 60


def _without_rules(node: object) -> object:
    if isinstance(node, dict):
        return {key: _without_rules(value) for key, value in node.items() if key != "x-kubernetes-validations"}
    return [_without_rules(value) for value in node] if isinstance(node, list) else node


@pytest.mark.parametrize("server", [embedded, pytest.param(real.real, marks=only_real)], ids=["embedded", "real"])
async def test_a_job_that_is_there_with_a_name_too_long_stays_open_to_writes(
    server: Callable[[], AbstractAsyncContextManager[Target | None]],
) -> None:
    """A status, a label, a finalizer taken off, fewer replicas; but no pod name that grows, and no new job of such a name."""
    async with server() as target:
        assert target is not None

        async def send(method: str, path: str, body: object = None, media: str = JSON) -> tuple[int, Any]:
            content = None if body is None else msgspec.json.encode(body)
            answer = await target.transport.send(Request(method, path, body=content, content_type=media))
            return answer.status, msgspec.json.decode(answer.body) if answer.status < 300 else answer.body

        crd = custom_resource_definition(MPI)
        definition, jobs = f"{DEFINITIONS}/{crd['metadata']['name']}", "/apis/kubeflow.org/v1/namespaces/default/mpijobs"
        assert (await send("POST", DEFINITIONS, _without_rules(crd)))[0] == 201
        manifest = job_manifest(MPI, {"Launcher": 1, "Worker": 10}, name=LONG) | {"apiVersion": "kubeflow.org/v1"}
        manifest["metadata"] = {"name": LONG, "namespace": "default", "finalizers": ["example.com/theirs"]}

        # What a definition says is in force a moment later.
        await polled(lambda: send("POST", jobs, manifest), lambda answer: answer[0] == 201)
        code, answer = await send("PATCH", definition, {"spec": crd["spec"]}, MERGE_PATCH)
        assert code == 200, answer
        other = {**manifest, "metadata": {"name": f"{LONG}m"}}
        await polled(lambda: send("POST", f"{jobs}?dryRun=All", other), lambda answer: answer[0] == 422)
        path = f"{jobs}/{LONG}"
        status = {"status": {"conditions": [{"type": "Created", "status": "True"}]}}
        assert (await send("PATCH", f"{path}/status", status, MERGE_PATCH))[0] == 200
        assert (await send("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH))[0] == 200
        for replicas, expected in ((11, 422), (10, 200), (5, 200), (9, 200), (11, 422)):
            specs = {"mpiReplicaSpecs": {"Worker": {"replicas": replicas}}}
            code, found = await send("PATCH", path, {"spec": specs}, MERGE_PATCH)
            assert code == expected, (replicas, found)
        assert (await send("DELETE", path))[0] == 200
        assert (await send("PATCH", path, {"metadata": {"finalizers": None}}, MERGE_PATCH))[0] == 200
        assert (await send("GET", path))[0] == 404
        await send("DELETE", definition)
