"""S21 and S22: the operators' pods, and those of jobs, in a namespace of Pod Security level "restricted".

The level is that of https://kubernetes.io/docs/concepts/security/pod-security-standards/, here as far as our pods may break it;
a real API server decides where there is one.
"""

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from jobcommon.client.request import Request, Response, Transport
from jobcommon.framework import Framework, Replica
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.reconcile import read_job
from jobcommon.reconcile.children import pod_manifest
from jobcommon.testutil.builders import job_manifest, replica_spec
from localcluster.conformance import assets, control_plane
from tests.charts.charts import OPERATORS, render, the

Json = dict[str, Any]
NAMESPACE = "security-restricted"
ACCOUNT = "some"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
# What a template must say by itself; nothing of it is the operator's business.
CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
JOBS = [(TF, None), (PYTORCH, None), (MXNET, None), (JAX, None), (XGBOOST, None), (PADDLE, None), (MPI, "SSH"), (MPI, "Exec")]


class Restricted:
    """Answers as an API server does where the namespace is restricted."""

    async def send(self, request: Request) -> Response:
        pod = msgspec.json.decode(request.body or b"{}")
        return Response(403 if pod.get("spec") and not complies(pod["spec"]) else 201, request.body or b"")


def complies(spec: Json) -> bool:
    """Whether a pod is let in at the level restricted."""
    outer = spec.get("securityContext") or {}
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        inner = container.get("securityContext") or {}
        merged = {**outer, **inner}
        profile = (merged.get("seccompProfile") or {}).get("type")
        if (
            merged.get("runAsNonRoot") is not True
            or merged.get("runAsUser") == 0
            or inner.get("privileged")
            or inner.get("allowPrivilegeEscalation") is not False
            or (inner.get("capabilities") or {}).get("drop") != ["ALL"]
            or set((inner.get("capabilities") or {}).get("add") or ()) - {"NET_BIND_SERVICE"}
            or profile not in ("RuntimeDefault", "Localhost")
        ):
            return False
    allowed = {"name", "configMap", "downwardAPI", "emptyDir", "ephemeral", "projected", "secret", "persistentVolumeClaim"}
    hosts = any(spec.get(name) for name in ("hostNetwork", "hostPID", "hostIPC"))
    return not hosts and all(volume.keys() <= allowed for volume in spec.get("volumes") or ())


@pytest.fixture
def server() -> Restricted:
    return Restricted()


async def prepared(transport: Transport) -> Transport:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await post(transport, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": labels}})
    # There is no controller behind a bare API server that would make one.
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    assert (await post(transport, accounts, {"metadata": {"name": ACCOUNT}})).status == 201
    return transport


async def post(transport: Transport | Restricted, path: str, body: Json) -> Response:
    return await transport.send(
        Request("POST", path, (("dryRun", "All"),) if "pods" in path else (), msgspec.json.encode(body))
    )


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
        manifest["metadata"] |= {"namespace": NAMESPACE, "ownerReferences": []}
        manifest["spec"]["serviceAccountName"] = ACCOUNT
    return found


async def let_in_the_operators(server: Transport | Restricted) -> None:
    for chart in OPERATORS:
        for values in ({}, {"mpiExec": True}, {"metrics": {"tokenSecret": {"name": "t"}}}):
            template = the(render(chart, **values), "Deployment")["spec"]["template"]
            pod = {"metadata": {"name": "operator"}, "spec": {**template["spec"], "serviceAccountName": ACCOUNT}}
            answer = await post(server, PODS, pod)
            assert answer.status == 201, answer.body
    unsafe = {**pod, "spec": {**pod["spec"], "hostNetwork": True}}
    assert (await post(server, PODS, unsafe)).status == 403


async def let_in_compliant_jobs(server: Transport | Restricted, framework: Framework, transport: str | None) -> None:
    for pod in pods_of(framework, transport, POD, CONTAINER):
        answer = await post(server, PODS, pod)
        assert answer.status == 201, answer.body
    for pod in pods_of(framework, transport, {}, {}):
        answer = await post(server, PODS, pod)
        assert answer.status == 403, "a template that does not comply is not put right"
        if isinstance(server, Restricted):
            ours = [one for one in pod["spec"].get("initContainers") or () if one["name"] == "kubectl-delivery"]
            assert complies({**pod["spec"], "containers": ours, "initContainers": [], "securityContext": POD})
        else:
            assert b"kubectl-delivery" not in answer.body, "it is not the container that is ours"


async def test_s21_the_operators_pods_are_let_in(server: Restricted) -> None:
    await let_in_the_operators(server)


def test_s21_the_operators_container_writes_nowhere_and_has_a_token_only_where_it_needs_one() -> None:
    for chart in OPERATORS:
        objects = render(chart)
        spec = the(objects, "Deployment")["spec"]["template"]["spec"]
        assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
        assert the(objects, "ServiceAccount")["automountServiceAccountToken"] is False
        assert spec["automountServiceAccountToken"] is True


@pytest.mark.parametrize(("framework", "transport"), JOBS, ids=lambda value: getattr(value, "name", value) or "")
async def test_s22_what_a_job_gets_beside_its_template_complies_by_itself(
    server: Restricted, framework: Framework, transport: str | None
) -> None:
    await let_in_compliant_jobs(server, framework, transport)


async def test_s21_s22_a_real_api_server_says_the_same() -> None:
    if (programs := assets()) is None:
        pytest.skip("no real API server to compare with: set KUBEBUILDER_ASSETS to a directory with etcd and kube-apiserver")
    async with control_plane(programs) as target:
        server = await prepared(target.transport)
        await let_in_the_operators(server)
        for framework, transport in JOBS:
            await let_in_compliant_jobs(server, framework, transport)
