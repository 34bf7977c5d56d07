"""MPIJobs for real beside the examples (tests/examples/test_mpi.py): what a launcher may reach, and the hosts that it finds."""

import importlib.util
import shutil
import sys
from typing import Any

import pytest

from jobcommon.api.status import ConditionType
from jobcommon.operators.mpi import MPI
from jobcommon.testutil.builders import Manifest, job_manifest
from jobcommon.testutil.cluster import TestCluster, cluster_for, failed, has, succeeded
from jobcommon.testutil.polling import polled

MISSING = [name for name in ("mpirun", "kubectl") if shutil.which(name) is None]
MISSING += [name for name in ("mpi4py",) if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.training,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (apt: openmpi-bin, pip: mpi4py)"),
]
# Ranks that wait burn their cores, so a busy machine makes them slow.
PATIENCE = 180.0
AS_ROOT = [{"name": f"OMPI_ALLOW_RUN_AS_ROOT{end}", "value": "1"} for end in ("", "_CONFIRM")]


def role(replicas: int = 1, *, spec: Manifest | None = None, **container: Any) -> Manifest:
    main = {"name": "mpi", "image": "any", **container}
    return {"replicas": replicas, "template": {"spec": {**(spec or {}), "containers": [main]}}}


async def create(cluster: TestCluster, version: str, launcher: Manifest, worker: Manifest, **more: Any) -> None:
    manifest = job_manifest(MPI, {"Launcher": launcher, "Worker": worker}, **more)
    body = {**manifest, "apiVersion": f"kubeflow.org/{version}", "metadata": {"name": "demo"}}
    await cluster.send("POST", cluster.path(MPI).replace(MPI.storage_version, version), body)


async def logs_of(cluster: TestCluster, name: str) -> str:
    (pod,) = (pod for pod in await cluster.pods() if pod["metadata"]["name"] == name)
    return await cluster.logs(pod)


async def test_a_launcher_may_reach_its_own_workers_only() -> None:
    script = """
        /opt/kube/kubectl exec --namespace default demo-worker-0 -- echo in my worker
        /opt/kube/kubectl exec --namespace default other -- echo in a unowned pod
        /opt/kube/kubectl get --namespace default pods
        exit 0
    """
    async with cluster_for(MPI) as cluster:
        other = role(command=["sleep", "600"])["template"]["spec"]
        await cluster.create("pods", {"metadata": {"name": "other"}, "apiVersion": "v1", "kind": "Pod", "spec": other})
        await create(cluster, "v1", role(command=["sh", "-c", script]), role(1))
        await cluster.until(MPI, "demo", succeeded, PATIENCE)
        said = await logs_of(cluster, "demo-launcher")
    assert "in my worker\n" in said
    assert "in a unowned pod" not in said
    assert sum("forbidden" in line.lower() for line in said.splitlines()) >= 2


async def test_a_malformed_command_uses_up_backoff_limit() -> None:
    async with cluster_for(MPI) as cluster:
        launcher = role(command=["mpirun", "--no-such-option"], env=AS_ROOT) | {"restartPolicy": "Never"}
        await create(cluster, "v2beta1", launcher, role(1, command=["sleep", "600"]), run_policy={"backoffLimit": 1})
        job = await cluster.until(MPI, "demo", failed, PATIENCE)
        assert job["status"]["conditions"][-1]["reason"] == "BackoffLimitExceeded"
        assert job["status"]["replicaStatuses"]["Launcher"]["restarts"] == 2, "failed runs that are charged"
        assert job["status"]["restarts"] == 1, "restarts that were made"


async def test_host_discovery_follows_the_workers() -> None:
    """Horovod's contract: the script names the hosts there are; it is asked again and again."""
    program = """
import subprocess, time
seen = None
while True:
    hosts = subprocess.run(["/etc/mpi/discover_hosts.sh"], capture_output=True, text=True, check=True).stdout.split()
    if hosts != seen:
        print(*hosts)
        seen = hosts
    time.sleep(0.05)
"""

    def line(*indexes: int) -> str:
        return " ".join(f"demo-worker-{index}.demo.default.svc:2" for index in indexes) + "\n"

    async with cluster_for(MPI) as cluster:

        async def prints(text: str) -> None:
            await polled(lambda: logs_of(cluster, "demo-launcher"), lambda log: text in log)

        launcher, worker = role(command=[sys.executable, "-c", program]), role(2, command=["sleep", "600"])
        await create(cluster, "v2beta1", launcher, worker, slotsPerWorker=2)
        await cluster.until(MPI, "demo", has(ConditionType.RUNNING))
        await prints(line(0, 1))
        for count in (3, 1):
            await cluster.merge(MPI, "demo", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": count}}}})
            await prints("\n" + line(*range(count)))
