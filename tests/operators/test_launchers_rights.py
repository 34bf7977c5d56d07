"""What the launcher of an MPIJob v1 may reach: a real kubectl in it, against the embedded cluster with its roles."""

import shutil
from typing import Any

import pytest

from jobcommon.client.request import Request
from jobcommon.operators.mpi import MPI
from jobcommon.testutil.builders import Manifest, job_manifest
from jobcommon.testutil.cluster import cluster_for, succeeded

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="not installed: kubectl (make setup)"),
]
SCRIPT = """
    /opt/kube/kubectl exec --namespace default demo-worker-0 -- echo in my worker
    /opt/kube/kubectl exec --namespace default other -- echo in a unowned pod
    /opt/kube/kubectl get --namespace default pods
    exit 0
"""


def role(**container: Any) -> Manifest:
    return {"replicas": 1, "template": {"spec": {"containers": [{"name": "mpi", "image": "any", **container}]}}}


async def test_a_launcher_may_reach_its_own_workers_only() -> None:
    job = job_manifest(MPI, {"Launcher": role(command=["sh", "-c", SCRIPT]), "Worker": role()})
    body = {**job, "apiVersion": "kubeflow.org/v1", "metadata": {"name": "demo"}}
    async with cluster_for(MPI) as cluster:
        other = role(command=["sleep", "600"])["template"]["spec"]
        await cluster.create("pods", {"metadata": {"name": "other"}, "apiVersion": "v1", "kind": "Pod", "spec": other})
        await cluster.call("POST", cluster.path(MPI).replace(MPI.storage_version, "v1"), body)
        await cluster.until(MPI, "demo", succeeded, 180.0)
        answer = await cluster.cluster.client.send(Request("GET", f"{cluster.path('pods', 'demo-launcher')}/log"))
        said = answer.body.decode()
    assert "in my worker\n" in said
    assert "in a unowned pod" not in said
    assert sum("forbidden" in line.lower() for line in said.splitlines()) >= 2
