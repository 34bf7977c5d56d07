"""The cluster that rows run on: a real control plane with what else is found of one, or the embedded cluster."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import yaml

from jobcommon.cli.embedded import ServerTransport, endpoint, install, training_cluster
from jobcommon.client.request import Transport
from jobcommon.client.transport import HttpTransport, Timeouts
from jobcommon.testutil.real.containers import SHELL, ContainerNode, container_node
from localcluster.client import REAL, Api, kubeconfig, write_secret
from localcluster.conformance import LOOPBACK, Program, Servers, envtest, free_port, real

OPERATORS = "training-operators"
BASE = Path(__file__).resolve().parents[2] / "charts" / "kustomize" / "base"
RIGHTS = (BASE / "namespace.yaml", BASE / "operator.yaml")
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
_NOTICING = (f"--node-monitor-grace-period={_NODE_GRACE}s", "--node-monitor-period=1s")
_PATIENT = Timeouts(connect=60.0, read=60.0, write=60.0)
KUBECTL = Path(sys.executable).with_name("kubectl")
#: Of an installation all but the operator itself.
_WANTED = {"Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}


@dataclass
class Cluster:
    """A cluster that is up, with our kinds and the rights of our operators. `servers` and `node` can be killed."""

    directory: Path
    transport: Transport
    servers: Servers | None = None
    node: ContainerNode | None = None

    @property
    def image(self) -> str:
        """One with a shell; pods that are processes need none."""
        return SHELL if self.node else "none"

    @property
    def api(self) -> Api:
        """As its administrator."""
        return Api(ServerTransport(self.transport))

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of the administrator or of the operators."""
        return self.directory / f"{user}.kubeconfig"

    async def kubectl(self, *arguments: str) -> str:
        """What a command of kubectl prints for the administrator. Raises AssertionError when it fails."""
        words = (str(KUBECTL), f"--kubeconfig={self.kubeconfig(ADMINISTRATOR)}", *arguments)
        process = await asyncio.create_subprocess_exec(*words, stdout=PIPE, stderr=PIPE)
        output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return output.decode()


@asynccontextmanager
async def real_cluster(directory: Path) -> AsyncIterator[Cluster]:
    """etcd, kube-apiserver and what else there is; pods in containers if a kubelet and all it needs is found, else processes.

    Raises envtest.StartError.
    """
    assets = envtest.assets()
    if assets is None:
        raise envtest.StartError(real.WHY_NOT)
    admin = directory / f"{ADMINISTRATOR}.kubeconfig"
    node = container_node(assets, directory, admin)
    if node is None:
        async with process_cluster(directory, REAL) as cluster:
            yield cluster
        return
    async with AsyncExitStack() as stack:
        control = control_plane(assets, admin, server=_SERVER_ARGUMENTS, manager=_NOTICING)
        servers, transport = await stack.enter_async_context(control)
        cluster = Cluster(directory, transport, servers, await stack.enter_async_context(node))
        await _prepare(cluster)
        yield cluster


@asynccontextmanager
async def control_plane(
    assets: Path, admin: Path, *, server: tuple[str, ...] = (), manager: tuple[str, ...] = (), gates: tuple[str, ...] = ()
) -> AsyncIterator[tuple[Servers, HttpTransport]]:
    """etcd and the three programs beside it, with arguments of their own, and the administrator's kubeconfig in `admin`.

    `gates` are arguments of all three. Raises envtest.StartError.
    """
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(envtest.servers(assets, (*server, *gates)))
        found = kubeconfig(servers.endpoint.base_url, str(servers.endpoint.token), servers.certificate)
        write_secret(admin, found.encode())
        await stack.enter_async_context(envtest.controllers(assets, servers, *manager, *gates))
        address = (f"--bind-address={LOOPBACK}", f"--secure-port={free_port()}", "--leader-elect=false")
        own = (f"--kubeconfig={admin}", f"--cert-dir={servers.work / 'scheduler'}", *address, *gates)
        await stack.enter_async_context(Program(assets / "kube-scheduler", servers.work, own))
        transport = HttpTransport(endpoint(servers.endpoint), timeouts=_PATIENT)
        stack.push_async_callback(transport.close)
        yield servers, transport


@asynccontextmanager
async def process_cluster(directory: Path, server: str) -> AsyncIterator[Cluster]:
    """The cluster of ``jobcommon up``, whose pods are processes."""
    async with training_cluster([], operators=False, server=server) as local:
        write_secret(directory / f"{ADMINISTRATOR}.kubeconfig", local.kubeconfig().encode())
        cluster = Cluster(directory, local.client)
        await _prepare(cluster)
        yield cluster


async def _prepare(cluster: Cluster) -> None:
    """Install our kinds and rights, and write the operators' kubeconfig: they come with their service account's token."""
    await install(cluster.transport, [found.load() for found in entry_points(group="jobcommon.frameworks")])
    bodies = [body for path in RIGHTS for body in yaml.safe_load_all(path.read_text()) if body and body["kind"] in _WANTED]
    rights = cluster.directory / "rights.yaml"
    rights.write_text(yaml.safe_dump_all(bodies))
    await cluster.kubectl("apply", "-f", str(rights))
    token = await cluster.kubectl("create", "token", OPERATORS, "-n", OPERATORS, "--duration=10h")
    content = yaml.safe_load(cluster.kubeconfig(ADMINISTRATOR).read_text())
    content["users"][0]["user"] = {"token": token}
    content["contexts"][0]["context"]["namespace"] = OPERATORS
    write_secret(cluster.kubeconfig(OPERATOR), json.dumps(content).encode())
