"""The cluster that rows run on: a real control plane with what else is found of one, or the embedded cluster."""

import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from jobcommon.cli.embedded import ServerTransport, endpoint, install
from jobcommon.client.config import find_cluster
from jobcommon.client.transport import HttpTransport, StaticEndpoint, Timeouts
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.testutil.polling import polled
from jobcommon.testutil.processes import ROOT, Process
from jobcommon.testutil.real.containers import container_node
from localcluster.client import Api, ClientError, StatusError, kubeconfig
from localcluster.conformance import LOOPBACK, Program, Servers, envtest, free_port, real

FRAMEWORKS = (TF, PYTORCH, MPI, MXNET, JAX, XGBOOST, PADDLE)
OPERATORS = "training-operators"
RIGHTS = ROOT / "charts" / "kustomize" / "base"
#: What a row may need of its cluster.
NODE, SERVER = "a node that can be killed", "an API server that can be killed"
CONTAINERS, SCHEDULER, QUOTAS = "containers with limits", "a scheduler that preempts", "quotas that are counted"
#: A cluster that is there counts only when it is marked: rows make and delete namespaces, and install our CRDs.
MARKED, CONTEXT = "KUBECONFIG_REAL", "real"
WHY_NOT = (
    f"no real cluster: set {envtest.ASSETS} to a directory with etcd and kube-apiserver, or {MARKED} to the kubeconfig of a "
    f"cluster that may be written to (KUBECONFIG counts when its current context is named {CONTEXT!r})"
)
ADMINISTRATOR, OPERATOR = "administrator", "operator"
#: A lost node is noticed within seconds instead of minutes.
_NODE_GRACE, _TOLERATION = 8, 5
_SERVER_ARGUMENTS = (
    f"--default-not-ready-toleration-seconds={_TOLERATION}",
    f"--default-unreachable-toleration-seconds={_TOLERATION}",
)
_PATIENT = Timeouts(connect=60.0, read=60.0, write=60.0)
_COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": f"/api/v1/namespaces/{OPERATORS}/serviceaccounts",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{OPERATORS}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{OPERATORS}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


@dataclass
class Cluster:
    """A cluster that is up, with our kinds and the rights of our operators. `lacks` says why it cannot give what rows need."""

    name: str
    directory: Path
    transport: HttpTransport
    image: str = "none"
    lacks: dict[str, str] = field(default_factory=dict)
    servers: Servers | None = None
    node: Program | None = None
    node_name: str = ""
    press: Callable[[bool], Awaitable[None]] | None = None

    @property
    def api(self) -> Api:
        """As its administrator."""
        return Api(ServerTransport(self.transport))

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of the administrator or of the operators."""
        return self.directory / f"{user}.kubeconfig"


def given() -> bool:
    """Whether the environment names a real cluster. Raises envtest.StartError when it does so wrongly."""
    return envtest.assets() is not None or real.kubeconfig(MARKED, CONTEXT) is not None


@asynccontextmanager
async def embedded_cluster(directory: Path) -> AsyncIterator[Cluster]:
    """The embedded cluster, a process of its own."""
    path = directory / f"{ADMINISTRATOR}.kubeconfig"
    arguments = ("up", "--no-operators", "--data-dir", str(directory / "data"), "--kubeconfig", str(path))
    process = Process("cluster", (*arguments, "--port", str(free_port())), directory / "cluster.log")
    await process.start()
    try:

        async def up() -> bool:
            assert not process.died, process.log.read_text()
            return path.exists()

        await polled(up)
        transport = HttpTransport(await find_cluster(str(path)), timeouts=_PATIENT)
        try:
            await polled(lambda: Api(ServerTransport(transport)).get("/api/v1/namespaces/default"), retry_on=ClientError)
            lacks = dict.fromkeys((NODE, SERVER, CONTAINERS, SCHEDULER), "the embedded cluster has none")
            async with _prepared(Cluster("the embedded cluster", directory, transport, lacks=lacks)) as found:
                yield found
        finally:
            await transport.close()
    finally:
        await process.kill()


@asynccontextmanager
async def real_cluster(directory: Path) -> AsyncIterator[Cluster]:
    """The real cluster that the environment names, started if need be. Raises envtest.StartError."""
    assets = envtest.assets()
    if assets is None:
        async with _lasting(directory) as found:
            yield found
        return
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(envtest.servers(assets, (*_SERVER_ARGUMENTS, *envtest.fitting(assets))))
        admin = _write(directory, ADMINISTRATOR, endpoint(servers.endpoint), servers.certificate)
        noticing = (f"--node-monitor-grace-period={_NODE_GRACE}s", "--node-monitor-period=1s")
        await stack.enter_async_context(envtest.controllers(assets, servers, *noticing))
        if (assets / "kube-scheduler").exists():
            options = [
                f"--kubeconfig={admin}",
                f"--bind-address={LOOPBACK}",
                f"--secure-port={free_port()}",
                "--leader-elect=false",
            ]
            await stack.enter_async_context(Program(assets / "kube-scheduler", servers.work, options))
        transport = HttpTransport(endpoint(servers.endpoint), timeouts=_PATIENT)
        stack.push_async_callback(transport.close)
        cluster = Cluster(f"kube-apiserver {servers.version}", directory, transport, servers=servers)
        if not (assets / envtest.CONTROLLERS).exists():
            cluster.lacks = dict.fromkeys((NODE, QUOTAS), f"{assets} has no {envtest.CONTROLLERS}")
        await _start_node(stack, cluster, assets, admin)
        yield await stack.enter_async_context(_prepared(cluster))


async def _start_node(stack: AsyncExitStack, cluster: Cluster, assets: Path, admin: Path) -> None:
    """The real kubelet where it and what it needs is found, else the embedded cluster's, which runs pods as processes."""
    containers = container_node(assets, cluster.directory, admin)
    if containers is not None:
        found = await stack.enter_async_context(containers)
        cluster.node, cluster.image, cluster.node_name = found.kubelet, found.image, found.name
        cluster.press = found.press
        cluster.name += ", kubelet and containerd"
        return
    assert cluster.servers is not None
    arguments = ["-m", "jobcommon.testutil.real.node", str(admin), str(cluster.directory), str(cluster.servers.work)]
    cluster.node, cluster.node_name = (
        Program(Path(sys.executable), ROOT, arguments, log=cluster.directory / "node.log"),
        "local",
    )
    await stack.enter_async_context(cluster.node)
    cluster.name += ", pods as processes"
    cluster.lacks |= dict.fromkeys((CONTAINERS, SCHEDULER), "no kubelet with containerd was found")


@asynccontextmanager
async def _lasting(directory: Path) -> AsyncIterator[Cluster]:
    """A cluster that is there already and outlives the run."""
    path = real.kubeconfig(MARKED, CONTEXT)
    if path is None:
        raise envtest.StartError(WHY_NOT)
    endpoint = await find_cluster(str(path))
    transport = HttpTransport(endpoint, timeouts=_PATIENT)
    try:
        shutil.copy(path, directory / f"{ADMINISTRATOR}.kubeconfig")
        why = "a cluster that outlives the run is not broken on purpose"
        lacks = dict.fromkeys((NODE, SERVER, SCHEDULER), why)
        image = os.environ.get("REAL_IMAGE", "busybox")
        async with _prepared(Cluster(str(path), directory, transport, image, lacks)) as found:
            yield found
    finally:
        await transport.close()


@asynccontextmanager
async def _prepared(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Install our kinds and rights, and write the operators' kubeconfig: they come with their service account's token."""
    api = cluster.api
    await install(cluster.transport, FRAMEWORKS)
    for path in ("namespace.yaml", "operator.yaml"):
        for body in yaml.safe_load_all((RIGHTS / path).read_text()):
            if body and body["kind"] in _COLLECTIONS:
                await _created(api, _COLLECTIONS[body["kind"]], body)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 36_000}}
    answer = await api.call("POST", f"{_COLLECTIONS['ServiceAccount']}/{OPERATORS}/token", request)
    content = yaml.safe_load(cluster.kubeconfig(ADMINISTRATOR).read_text())
    content["users"][0]["user"] = {"token": answer["status"]["token"]}
    content["contexts"][0]["context"]["namespace"] = OPERATORS
    _secret(cluster.kubeconfig(OPERATOR), json.dumps(content))
    yield cluster


async def _created(api: Api, path: str, body: dict[str, Any]) -> None:
    try:
        await api.call("POST", path, body)
    except StatusError as error:
        if error.code != 409:
            raise


def _write(directory: Path, user: str, endpoint: StaticEndpoint, certificate: bytes) -> Path:
    path = directory / f"{user}.kubeconfig"
    _secret(path, kubeconfig(endpoint.base_url, str(endpoint.token), certificate))
    return path


def _secret(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)
