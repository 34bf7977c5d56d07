"""What only a real API server does: refuse Roles that grant more than their author holds, and pods that are not restricted."""

from collections.abc import AsyncIterator, Iterable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from jobcommon.cli import rbac
from jobcommon.cli.rbac import Rule
from jobcommon.client.request import Request, Response, Transport
from jobcommon.framework import Framework, Replica
from jobcommon.manifests.children import pod_manifest
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mpi.companions import companions
from jobcommon.spec import read_job
from jobcommon.testutil.builders import Pod, job_manifest, replica_spec
from localcluster.conformance import real
from tests.charts.charts import OPERATORS, PRODUCTION, Json, as_json, render, the
from tests.kinds import KINDS

pytestmark = [pytest.mark.skipif(not real.available(), reason=real.WHY_NOT), pytest.mark.asyncio(loop_scope="module")]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
DRY = (("dryRun", "All"), ("fieldValidation", "Strict"))
ACCOUNT = "system:serviceaccount:default:{}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Transport]:
    """The real server, as its administrator."""
    async with real.real() as target:
        assert target is not None
        yield target.transport


async def create(transport: Transport, path: str, body: Json, user: str = "", query: Any = ()) -> Response:
    headers = {"impersonate-user": user} if user else {}
    return await transport.send(Request("POST", path, query, msgspec.json.encode(body), headers=headers))


async def holder(transport: Transport, name: str, rules: Iterable[Rule]) -> str:
    """A user who holds exactly the rules in namespace default."""
    user = ACCOUNT.format(name)
    role = {"metadata": {"name": name}, "rules": as_json(rules)}
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    for plural, body in (("roles", role), ("rolebindings", binding)):
        answer = await create(transport, f"{RBAC}/namespaces/default/{plural}", body)
        assert answer.status in (201, 409), answer.body
    return user


WITH_TOKEN: Json = {"metrics": {"tokenSecret": {"name": "metrics-token"}}}


def launcher_role() -> Json:
    """The Role that the operator writes for the launcher of an MPIJob over kubectl exec."""
    manifest = job_manifest(MPI, {"Launcher": 1, "Worker": 2})
    job = read_job(MPI, {**manifest, "apiVersion": "kubeflow.org/v1", "spec": {**manifest["spec"], "transport": "Exec"}})
    pods = [Pod.of(MPI, job, "Worker", index).running().view for index in range(2)]
    (role,) = (c for c in companions(job, pods) if c.kind == "Role")
    assert role.manifest is not None
    return {**role.manifest, "metadata": {"name": role.name}}


async def test_the_operator_may_grant_a_launcher_its_rights_and_without_holding_them_may_not(server: Transport) -> None:
    held = rbac.operator_rules([MPI], grants=True)
    roles = f"{RBAC}/namespaces/default/roles"
    enough = await holder(server, "mpi-operator-full", held)
    answer = await create(server, roles, launcher_role(), enough, DRY)
    assert answer.status == 201, answer.body
    lacking = [rule for rule in held if rule not in rbac.handed_on(MPI)]
    user = await holder(server, "mpi-operator-without-exec", lacking)
    answer = await create(server, roles, launcher_role(), user, DRY)
    assert answer.status == 403
    assert b"pods/exec" in answer.body
    wider = {**launcher_role(), "rules": as_json([replace(rbac.handed_on(MPI)[0], resource="pods/portforward")])}
    assert (await create(server, roles, wider, enough, DRY)).status == 403


# -- Pod Security ----------------------------------------------------------------------------------------------------------

RESTRICTED = "security-restricted"
ACCOUNT_NAME = "some"
PODS = f"/api/v1/namespaces/{RESTRICTED}/pods"
# What a template must say by itself; nothing of it is the operator's business.
CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
JOBS = [*((kind, None) for kind in KINDS if kind is not MPI), (MPI, "SSH"), (MPI, "Exec")]


def pods_of(framework: Framework, transport: str | None, pod: Json, container: Json) -> list[Json]:
    kinds = ("Launcher", "Worker") if framework is MPI else ("Worker",)
    roles = {kind: replica_spec(framework) for kind in kinds}
    for role in roles.values():
        role["template"]["spec"]["securityContext"] = pod
        role["template"]["spec"]["containers"][0]["securityContext"] = container
    spec = {"transport": transport, "sshAuthMountPath": "/home/mpi/.ssh"} if transport else {}
    job = read_job(framework, job_manifest(framework, roles, **spec))
    found = [deepcopy(pod_manifest(framework, job, Replica(kind, 0))) for kind in kinds]
    for manifest in found:
        manifest["metadata"] |= {"namespace": RESTRICTED, "ownerReferences": []}
        manifest["spec"]["serviceAccountName"] = ACCOUNT_NAME
    return found


async def test_pods_of_operators_and_jobs_are_let_into_a_restricted_namespace(server: Transport) -> None:
    """What a job gets beside its template complies by itself; a template that does not comply is not put right."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await create(server, "/api/v1/namespaces", {"metadata": {"name": RESTRICTED, "labels": labels}})
    # No controller makes it beside a bare API server.
    await create(server, f"/api/v1/namespaces/{RESTRICTED}/serviceaccounts", {"metadata": {"name": ACCOUNT_NAME}})
    for chart in OPERATORS:
        for values in ({}, PRODUCTION, WITH_TOKEN):
            template = the(render(chart, **values), "Deployment")["spec"]["template"]
            pod = {"metadata": {"name": "operator"}, "spec": {**template["spec"], "serviceAccountName": ACCOUNT_NAME}}
            answer = await create(server, PODS, pod, query=DRY)
            assert answer.status == 201, answer.body
    unsafe = {**pod, "spec": {**pod["spec"], "hostNetwork": True}}
    assert (await create(server, PODS, unsafe, query=DRY)).status == 403
    for framework, transport in JOBS:
        for pod in pods_of(framework, transport, POD, CONTAINER):
            answer = await create(server, PODS, pod, query=DRY)
            assert answer.status == 201, answer.body
        for pod in pods_of(framework, transport, {}, {}):
            answer = await create(server, PODS, pod, query=DRY)
            assert answer.status == 403
            assert b"kubectl-delivery" not in answer.body, "it is not the container that is ours"
