"""The chart of all operators, installed by the real Helm onto the embedded cluster, whose RBAC then bounds an operator.

The operator is a process of its own, with the very arguments of the Deployment and a token of its ServiceAccount. The answers
it got are in its metrics: not one may be a refusal. That charts of single kinds have the rules of their kind is test_rules's.
"""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.cluster import TestCluster, cluster_for, succeeded
from jobcommon.testutil.polling import polled
from tests.charts.charts import CHARTS, NAMESPACE, PRODUCTION, helm
from tests.cli.commands import ROOT
from tests.kinds import KINDS

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
Json = dict[str, Any]
CHART = "training-operators"
SECONDS = 180.0


# The command on a file system that is read-only: whatever it opens for writing ends it.
WRITES_NOWHERE = """
import os, sys
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
def hook(event, args):
    if event == "open" and isinstance(args[0], str) and (args[2] or 0) & WRITING and not args[0].startswith("/dev/"):
        sys.stderr.write(f"written to: {args[0]}\\n")
        os._exit(70)
sys.addaudithook(hook)
from jobcommon.cli.main import main
sys.argv[0] = "jobcommon"
main()
"""


def free_port() -> int:
    """A port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def install(kubeconfig: Path, **values: Any) -> None:
    """``helm install demo`` in a thread, for the API server is in ours."""

    def run() -> None:
        with helm.Config(kubeconfig_path=kubeconfig, namespace=NAMESPACE) as helm_config:
            helm_config.install(CHARTS / CHART, "demo", values, namespace=NAMESPACE, timeout=180)

    await asyncio.to_thread(run)


@asynccontextmanager
async def operator(cluster: TestCluster, directory: Path, deployment: Json) -> AsyncIterator[str]:
    """The operator as the Deployment says; gives the address of its metrics."""
    spec = deployment["spec"]["template"]["spec"]
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{spec['serviceAccountName']}/token"
    token = (await cluster.send("POST", account, {"spec": {"expirationSeconds": 3600}}))["status"]["token"]
    config = yaml.safe_load(cluster.cluster.kubeconfig())
    config["users"][0]["user"] = {"token": token}
    # As a file, like that of a pod's ServiceAccount: from a kubeconfig itself it would be written to a temporary one.
    authority = directory / "ca.crt"
    authority.write_bytes(cluster.cluster.credentials.certificate.pem)
    config["clusters"][0]["cluster"] = {"server": cluster.cluster.url, "certificate-authority": str(authority)}
    kubeconfig = directory / "operator"
    kubeconfig.write_text(yaml.safe_dump(config))
    main = spec["containers"][0]
    assert main["command"] == ["jobcommon"]
    variable, *given = main["env"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"
    # As a kubelet does.
    args = [argument.replace(f"$({variable['name']})", NAMESPACE) for argument in main["args"]]
    env = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONDONTWRITEBYTECODE": "1"}
    env |= {one["name"]: one["value"] for one in given}
    command = (sys.executable, "-c", WRITES_NOWHERE, *args)
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=env, stdout=asyncio.subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{main['ports'][0]['containerPort']}"
    finally:
        process.terminate()
        async with asyncio.timeout(spec["terminationGracePeriodSeconds"]):
            assert await process.wait() == 0


async def page(url: str) -> str:
    """A page of the operator, once it gives it."""

    async def asked() -> str:
        async with aiohttp.ClientSession() as session, session.get(url, raise_for_status=True) as response:
            return await response.text()

    return await polled(asked, retry_on=aiohttp.ClientError)


async def answers(url: str) -> dict[str, float]:
    """How often the API server gave each HTTP status."""
    text = await page(f"{url}/metrics")
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("rest_client_requests_total{"):
            code = line.partition('code="')[2].partition('"')[0]
            found[code] = found.get(code, 0) + float(line.rpartition(" ")[2])
    return found


def job(framework: Framework, version: str, name: str) -> Json:
    """A suspended job that succeeds at once when it is resumed."""

    def role(command: str, replicas: int = 1) -> Json:
        main = {"name": framework.container or "main", "image": "any", "command": ["sh", "-c", command]}
        return {"replicas": replicas, "template": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [main]}}}

    leader = {"MPIJob": "Launcher", "XGBoostJob": "Master"}.get(framework.kind)
    roles = {leader: role("exit 0"), "Worker": role("exec sleep 60", 2)} if leader else {"Worker": role("exit 0", 2)}
    manifest = job_manifest(framework, roles, run_policy={"suspend": True})
    return {**manifest, "apiVersion": f"{framework.group}/{version}", "metadata": {"name": name}}


async def live(cluster: TestCluster, framework: Framework) -> None:
    """Suspended, resumed, succeeded, expired: a job of each version whose ways differ."""
    for version in ("v2beta1", "v1") if framework is MPI else ("v1",):
        name = f"{framework.name}-{version}"
        path = cluster.path(framework).replace(framework.storage_version, version)
        await cluster.send("POST", path, job(framework, version, name))
        await cluster.until(framework, name, lambda seen: bool(seen.body.get("status")), SECONDS)
        await cluster.merge(framework, name, {"spec": {"runPolicy": {"suspend": False}}})
        await cluster.until(framework, name, succeeded, SECONDS)
        await cluster.merge(framework, name, {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 0}}})
        await cluster.until_gone(framework, name)


@pytest.mark.parametrize("values", [{}, {**PRODUCTION, "progress": {}}], ids=["all namespaces", "two namespaces"])
async def test_an_operator_lives_on_the_rights_its_chart_gives(values: Json, tmp_path: Path) -> None:
    async with cluster_for(operators=False) as cluster:
        kubeconfig = tmp_path / "admin"
        kubeconfig.write_text(cluster.cluster.kubeconfig(NAMESPACE))
        for name in (NAMESPACE, "team-b"):
            await cluster.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        await install(kubeconfig, **{**values, "metrics": {"port": free_port()}, "mpiExec": True})
        deployment = await cluster.send("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/demo-{CHART}")
        async with operator(cluster, tmp_path, deployment) as url:
            await page(f"{url}/readyz")
            for framework in KINDS:
                await live(cluster, framework)
            await live(replace(cluster, namespace="team-b"), MPI)
            codes = await answers(url)
        assert codes["200"] > 0
        assert not codes.keys() & {"401", "403"}
        lease = await cluster.send("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/demo-{CHART}")
        assert lease["spec"]["holderIdentity"] == "", "released at the end"
