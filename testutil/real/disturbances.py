"""What disturbs a row: operators and the API server that die, nodes that are lost, quotas. Each gives a step."""

import asyncio
import signal
import time

from jobcommon.testutil.processes import Process
from jobcommon.testutil.real.cluster import ADMINISTRATOR, CONTAINERS, NODE, OPERATORS, SERVER
from jobcommon.testutil.real.run import RowError, Run
from jobcommon.testutil.real.steps import step
from localcluster.client import ClientError, StatusError, background
from localcluster.model import format_time

_PREEMPTOR = "preemptor"
OFFER = "jobcommon.test/offers-"
"""The label of a node, with a name after it: rows share the nodes."""

# -- operators ------------------------------------------------------------------------------------------------------------


@step()
async def operator_dies(row: Run) -> None:
    """kill -9 of the operator."""
    await row.operators[-1].kill()


@step()
async def operator_starts(row: Run, *arguments: str) -> None:
    """Another operator."""
    await row.start_operator(*arguments)


@step(alone=True)
async def leader_dies(row: Run) -> None:
    """kill -9 of the operator that leads, once one does."""

    async def leader() -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{OPERATORS}/leases/{OPERATORS}"
        lease = await row.api.get(path) or {}
        return str((lease.get("spec") or {}).get("holderIdentity") or "")

    first = await row.eventually(leader, "an operator leads")
    leading = row.operators[0]
    await leading.kill()
    row.notes["leader"] = first


# -- the platform ---------------------------------------------------------------------------------------------------------


@step(SERVER, alone=True)
async def server_dies(row: Run) -> None:
    """kill -9 of the API server, which is started again."""
    assert row.cluster.servers is not None
    await row.cluster.servers.restart()


@step(NODE, alone=True)
async def node_dies(row: Run) -> None:
    """kill -9 of the kubelet, while another node lives: of a zone that is lost as a whole no pods are deleted."""
    assert row.cluster.node is not None
    await row.stack.enter_async_context(background(_other_node(row)))
    await row.cluster.node.kill()


async def _other_node(row: Run) -> None:
    """A node that is ready and takes no pods."""
    path = f"/api/v1/nodes/{row.namespace}"
    await row.api.call("POST", "/api/v1/nodes", {"metadata": {"name": row.namespace}, "spec": {"unschedulable": True}})
    try:
        while True:
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": format_time(time.time())}
            await row.api.patch(f"{path}/status", {"status": {"conditions": [ready]}})
            await asyncio.sleep(1.0)
    finally:
        await row.api.call("DELETE", path)


@step(NODE, alone=True)
async def node_returns(row: Run) -> None:
    """The kubelet is started again."""
    assert row.cluster.node is not None
    await row.cluster.node.start()


@step(NODE, alone=True)
async def node_is_out_of_service(row: Run, off: bool) -> None:
    """An administrator says that the node is shut down, or takes it back."""
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    path = f"/api/v1/nodes/{row.cluster.node_name}"
    known = (await row.api.call("GET", path))["spec"].get("taints") or []
    others = [one for one in known if one["key"] != taint["key"]]
    await row.api.patch(path, {"spec": {"taints": [*others, *([taint] if off else [])]}})


@step()
async def node_offers(row: Run, what: str, there: bool) -> None:
    """The node has, or has no longer, what the pods that select it need."""
    for node in (await row.api.call("GET", "/api/v1/nodes"))["items"]:
        change = {"metadata": {"labels": {f"{OFFER}{what}": "yes" if there else None}}}
        await row.api.patch(f"/api/v1/nodes/{node['metadata']['name']}", change)


@step(NODE, alone=True)
async def node_is_deleted(row: Run) -> None:
    """``kubectl delete node``."""
    await row.api.call("DELETE", f"/api/v1/nodes/{row.cluster.node_name}")


@step(CONTAINERS, alone=True)
async def node_pressure(row: Run, on: bool) -> None:
    """The node runs out of memory, as its kubelet sees it, or has enough again."""
    assert row.cluster.press is not None
    await row.cluster.press(on)


@step()
async def quota(row: Run, pods: int) -> None:
    """A ResourceQuota for so many pods; a later one replaces it."""
    path = row.path("resourcequotas")
    if await row.api.get(f"{path}/pods") is not None:
        await row.api.call("DELETE", f"{path}/pods")
    if pods:
        await row.api.call("POST", path, {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": str(pods)}}})

        async def known() -> bool:
            body = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": row.cluster.image}]}}
            try:
                await row.api.call("POST", f"{row.path('pods')}?dryRun=All", body)
            except StatusError as error:
                return error.code == 403
            return False

        await row.eventually(known, "the quota is in force")


@step()
async def preemptor_comes(row: Run) -> None:
    """A pod of a higher priority that finds no room."""
    priority = {"metadata": {"name": row.namespace}, "value": 1000}
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await row.api.call("POST", path, priority)
    row.stack.push_async_callback(row.api.call, "DELETE", f"{path}/{row.namespace}")
    resources = {"requests": {"cpu": "1200m"}}
    main = {"name": "c", "image": row.cluster.image, "resources": resources, "command": ["sleep", "600"]}
    spec = {"priorityClassName": row.namespace, "terminationGracePeriodSeconds": 0, "containers": [main]}
    pod = {"metadata": {"name": _PREEMPTOR}, "spec": spec}

    async def known() -> bool:
        """The API server's admission reads classes from a cache."""
        try:
            await row.api.call("POST", row.path("pods") + "?dryRun=All", pod)
        except ClientError:
            return False
        return True

    await row.eventually(known, "the priority class is known")
    await row.api.call("POST", row.path("pods"), pod)


@step()
async def preemptor_goes(row: Run) -> None:
    """That pod is deleted."""
    await row.api.call("DELETE", row.path("pods", _PREEMPTOR))
    row.lives.pop(_PREEMPTOR, None)


@step()
async def refused(row: Run) -> None:
    """Wait until the operator has told that a pod was refused."""

    async def told() -> bool:
        return any(event["reason"] == "FailedCreatePod" for event in await row.events())

    await row.eventually(told, "the operator tells of the refusal")


# -- namespaces that end ---------------------------------------------------------------------------------------------------


@step()
async def namespace_ends(row: Run) -> None:
    """Ask for the namespace's deletion, and do not wait. The operator is stopped until all pods are over: it is slow."""
    row.operators[-1].send(signal.SIGSTOP)
    await row.api.call("DELETE", f"/api/v1/namespaces/{row.namespace}")


@step()
async def operator_is_told_to_end(row: Run) -> None:
    """SIGTERM, as to a pod of the namespace, before the operator has seen anything of the deletion. It has ended on return."""
    operator = row.operators[-1]
    operator.send(signal.SIGTERM)
    operator.send(signal.SIGCONT)
    await operator.wait()


@step()
async def released_by_command(row: Run) -> None:
    """``jobcommon release-finalizers`` for the row's namespace."""
    path = str(row.cluster.kubeconfig(ADMINISTRATOR))
    told = ("release-finalizers", "--kubeconfig", path, "--namespace", row.namespace, "--framework", row.framework.name)
    command = Process("release", told, row.cluster.directory / f"{row.namespace}-release.log")
    await command.start()
    if code := await command.wait():
        raise RowError(f"release-finalizers ended with {code}: {command.log.read_text()}")
