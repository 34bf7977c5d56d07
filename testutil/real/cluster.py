"""The cluster that rows run on: a real control plane with what else is found of one, or the embedded cluster."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from jobcommon.cli.embedded import ServerTransport, endpoint, install
from jobcommon.client.config import find_cluster
from jobcommon.client.transport import HttpTransport, Timeouts
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
from localcluster.conformance import LOOPBACK, Program, Servers, envtest, free_port

FRAMEWORKS = (TF, PYTORCH, MPI, MXNET, JAX, XGBOOST, PADDLE)
OPERATORS = "training-operators"
RIGHTS = ROOT / "charts" / "kustomize" / "base"
#: What a row may need of its cluster.
NODE, SERVER = "a node that can be killed", "an API server that can be killed"
CONTAINERS, SCHEDULER = "containers with limits", "a scheduler that preempts"
WHY_NOT = f"no real cluster: set {envtest.ASSETS} to a directory with {', '.join(envtest.PROGRAMS)}"
ADMINISTRATOR, OPERATOR = "administrator", "operator"
#: A lost node is noticed within seconds instead of minutes.
_NODE_GRACE, _TOLERATION = 8, 5
_SERVER_ARGUMENTS = (
    f"--default-not-ready-toleration-seconds={_TOLERATION}",
    f"--default-unreachable-toleration-seconds={_TOLERATION}",
    # The kubelet listens at the node's name, this machine alone, and has made its certificate itself.
    "--kubelet-preferred-address-types=Hostname",
    "--kubelet-certificate-authority=",
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
    """Whether the environment gives a real cluster. Raises envtest.StartError when it does so wrongly."""
    return envtest.assets() is not None


def embedded_cluster(directory: Path) -> AbstractAsyncContextManager[Cluster]:
    """The embedded cluster, a process of its own."""
    return _command(directory, "embedded")


@asynccontextmanager
async def real_cluster(directory: Path) -> AsyncIterator[Cluster]:
    """etcd, kube-apiserver and what else there is; pods in containers if a kubelet and all it needs is found, else processes.

    Raises envtest.StartError.
    """
    assets = envtest.assets()
    if assets is None:
        raise envtest.StartError(WHY_NOT)
    admin = directory / f"{ADMINISTRATOR}.kubeconfig"
    node = container_node(assets, directory, admin)
    if node is None:
        async with _command(directory, "real") as cluster:
            yield cluster
        return
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(envtest.servers(assets, _SERVER_ARGUMENTS))
        _secret(admin, kubeconfig(servers.endpoint.base_url, str(servers.endpoint.token), servers.certificate))
        noticing = (f"--node-monitor-grace-period={_NODE_GRACE}s", "--node-monitor-period=1s")
        await stack.enter_async_context(envtest.controllers(assets, servers, *noticing))
        address = (f"--bind-address={LOOPBACK}", f"--secure-port={free_port()}", "--leader-elect=false")
        scheduler = Program(assets / "kube-scheduler", servers.work, (f"--kubeconfig={admin}", *address))
        await stack.enter_async_context(scheduler)
        transport = HttpTransport(endpoint(servers.endpoint), timeouts=_PATIENT)
        stack.push_async_callback(transport.close)
        found = await stack.enter_async_context(node)
        name = f"kube-apiserver {servers.version}, kubelet and containerd"
        cluster = Cluster(name, directory, transport, found.image, {}, servers, found.kubelet, found.name, found.press)
        yield await stack.enter_async_context(_prepared(cluster))


@asynccontextmanager
async def _command(directory: Path, server: str) -> AsyncIterator[Cluster]:
    """The cluster of ``jobcommon up``, whose pods are processes."""
    path = directory / f"{ADMINISTRATOR}.kubeconfig"
    arguments = ("up", "--no-operators", "--server", server, "--kubeconfig", str(path))
    process = Process("cluster", arguments, directory / "cluster.log")
    await process.start()
    try:

        async def up() -> bool:
            assert not process.died, process.log.read_text()
            return path.exists()

        await polled(up)
        transport = HttpTransport(await find_cluster(str(path)), timeouts=_PATIENT)
        try:
            await polled(lambda: Api(ServerTransport(transport)).get("/api/v1/namespaces/default"), retry_on=ClientError)
            lacks = dict.fromkeys((NODE, SERVER, CONTAINERS, SCHEDULER), "all parts are one process")
            async with _prepared(Cluster(f"{server} server, pods as processes", directory, transport, lacks=lacks)) as found:
                yield found
        finally:
            await transport.close()
    finally:
        await process.kill()


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


def _secret(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)
