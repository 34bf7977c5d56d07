"""What disturbs a row: operators and the API server that die, nodes that are lost, admission, quotas. Each gives a step."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from jobcommon.runtime.report_server import CERTIFICATE, KEY
from jobcommon.testutil.real import admission
from jobcommon.testutil.real.admission import Making, Webhook
from jobcommon.testutil.real.cluster import CONTAINERS, NODE, OPERATORS, POLICIES, SERVER, WEBHOOKS
from jobcommon.testutil.real.run import RowError, Run
from jobcommon.testutil.real.steps import Step, over, step
from localcluster.certificates import self_signed
from localcluster.cluster import background
from localcluster.errors import ClientError
from localcluster.timestamps import format_time

# -- operators ------------------------------------------------------------------------------------------------------------


def operator_ends() -> Step:
    """SIGTERM to the operator; it has ended on return."""

    async def do(row: Run) -> None:
        await row.operators[-1].end()

    return step("the operator is ended", do)


def operator_dies() -> Step:
    """kill -9 of the operator."""

    async def do(row: Run) -> None:
        await row.operators[-1].kill()

    return step("kill -9 of the operator", do)


def operator_starts(*arguments: str) -> Step:
    """Another operator."""

    async def do(row: Run) -> None:
        await row.start_operator(*arguments)

    return step("an operator starts", do)


def operator_takes_reports() -> Step:
    """An operator to which programs on this machine may report their progress."""

    async def do(row: Run) -> None:
        made, directory = self_signed(), row.cluster.directory / f"{row.namespace}-reports"
        directory.mkdir()
        for name, content in ((CERTIFICATE, made.pem), (KEY, made.key)):
            (directory / name).touch(0o600)
            (directory / name).write_bytes(content)
        await row.start_operator("--progress-port", "0", "--progress-tls", str(directory))

    return step("an operator takes reports", do)


def leader_dies() -> Step:
    """kill -9 of the operator that leads, once one does."""

    async def do(row: Run) -> None:
        async def leader() -> str:
            path = f"/apis/coordination.k8s.io/v1/namespaces/{OPERATORS}/leases/{OPERATORS}"
            lease = await row.api.get(path) or {}
            return str((lease.get("spec") or {}).get("holderIdentity") or "")

        first = await row.eventually(leader, "an operator leads")
        leading = row.operators[0]
        await leading.kill()
        row.notes["leader"] = first

    return step("kill -9 of the operator that leads", do, alone=True)


# -- the platform ---------------------------------------------------------------------------------------------------------


def server_dies() -> Step:
    """kill -9 of the API server, which is started again."""

    async def do(row: Run) -> None:
        assert row.cluster.servers is not None
        await row.cluster.servers.restart()

    return step("kill -9 of the API server", do, SERVER, alone=True)


def node_dies() -> Step:
    """kill -9 of the kubelet, while another node lives: of a zone that is lost as a whole no pods are deleted."""

    async def do(row: Run) -> None:
        assert row.cluster.node is not None
        await row.stack.enter_async_context(background(_other_node(row)))
        await row.cluster.node.kill()

    return step("kill -9 of the kubelet", do, NODE, alone=True)


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


def node_returns() -> Step:
    """The kubelet is started again."""

    async def do(row: Run) -> None:
        assert row.cluster.node is not None
        await row.cluster.node.start()

    return step("the kubelet is back", do, NODE, alone=True)


def node_is_out_of_service(off: bool) -> Step:
    """An administrator says that the node is shut down, or takes it back."""
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}

    async def do(row: Run) -> None:
        path = f"/api/v1/nodes/{row.cluster.node_name}"
        known = (await row.api.call("GET", path))["spec"].get("taints") or []
        others = [one for one in known if one["key"] != taint["key"]]
        await row.api.patch(path, {"spec": {"taints": [*others, *([taint] if off else [])]}})

    return step("the node is out of service" if off else "the node is in service again", do, NODE, alone=True)


def node_is_deleted() -> Step:
    """``kubectl delete node``."""

    async def do(row: Run) -> None:
        await row.api.call("DELETE", f"/api/v1/nodes/{row.cluster.node_name}")

    return step("kubectl delete node", do, NODE, alone=True)


def node_pressure(on: bool) -> Step:
    """The node runs out of memory, as its kubelet sees it, or has enough again."""

    async def do(row: Run) -> None:
        assert row.cluster.press is not None
        await row.cluster.press(on)

    return step("the node is low on memory" if on else "the node has enough memory", do, CONTAINERS, alone=True)


def quota(pods: int) -> Step:
    """A ResourceQuota for so many pods; a later one replaces it."""

    async def do(row: Run) -> None:
        path = row.path("resourcequotas")
        if await row.api.get(f"{path}/pods") is not None:
            await row.api.call("DELETE", f"{path}/pods")
        if pods:
            await row.api.call("POST", path, {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": str(pods)}}})

            async def known() -> Any:
                found = await row.api.get(f"{path}/pods") or {}
                return (found.get("status") or {}).get("hard")

            await row.eventually(known, "the quota is in force")

    return step(f"a quota of {pods} pods" if pods else "no quota any more", do)


def preempt(pod: str) -> tuple[Step, ...]:
    """Have the scheduler preempt the pod for another one, which then goes."""
    name = "preemptor"

    async def make(row: Run) -> None:
        priority = {"metadata": {"name": row.namespace}, "value": 1000}
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await row.api.call("POST", path, priority)
        row.stack.push_async_callback(row.api.call, "DELETE", f"{path}/{row.namespace}")
        main = {
            "name": "c",
            "image": row.cluster.image,
            "resources": {"requests": {"cpu": "1200m"}},
            "command": ["sleep", "600"],
        }
        spec = {"priorityClassName": row.namespace, "terminationGracePeriodSeconds": 0, "containers": [main]}
        pod = {"metadata": {"name": name}, "spec": spec}

        async def known() -> bool:
            """The API server's admission reads classes from a cache."""
            try:
                await row.api.call("POST", row.path("pods") + "?dryRun=All", pod)
            except ClientError:
                return False
            return True

        await row.eventually(known, "the priority class is known")
        await row.api.call("POST", row.path("pods"), pod)

    async def remove(row: Run) -> None:
        await row.api.call("DELETE", row.path("pods", name))
        row.lives.pop(name, None)

    return step(f"{pod} is preempted", make), over(pod), step("the other pod goes", remove)


def _enters(row: Run, what: AbstractAsyncContextManager[None]) -> Coroutine[Any, Any, None]:
    async def enter() -> None:
        stack = row.notes.setdefault("admission", await row.stack.enter_async_context(AsyncExitStack()))
        await stack.enter_async_context(what)
        await _in_force(row)

    return enter()


async def _in_force(row: Run) -> None:
    """Return when the API server knows of the new rule: it reads its configuration a moment later."""
    hook: Webhook | None = row.notes.get("webhook")
    name = f"{row.namespace}-probe"
    body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    path = row.path("pods") + "?dryRun=All"
    before = hook.calls if hook else 0

    async def known() -> bool:
        try:
            await row.api.call("POST", path, body)
        except ClientError:
            return True
        return hook is not None and hook.calls > before

    await row.eventually(known, "the admission rule is in force")


def admission_by(answer: Making, *, seconds: float = 0.0, mutating: bool = False, **settings: Any) -> Step:
    """A webhook for the row's pods."""

    async def do(row: Run) -> None:
        hook = row.notes["webhook"] = Webhook(answer(row.with_image), seconds)
        await _enters(row, admission.webhook(row.api, row.namespace, hook, mutating=mutating, **settings))

    return step("a webhook", do, WEBHOOKS)


def unreachable_webhook() -> Step:
    """A webhook where nothing answers."""

    async def do(row: Run) -> None:
        await _enters(row, admission.configured(row.api, row.namespace, "https://127.0.0.1:1/", b""))

    return step("a webhook that does not answer", do, WEBHOOKS)


def policy(expression: str, reason: str) -> Step:
    """A ValidatingAdmissionPolicy for the row's pods."""

    async def do(row: Run) -> None:
        await _enters(row, admission.policy(row.api, row.namespace, expression, reason))

    return step("a policy", do, POLICIES)


def admission_ends() -> Step:
    """Webhooks and policies go."""

    async def do(row: Run) -> None:
        await row.notes["admission"].aclose()

    return step("admission is free", do)


def refused() -> Step:
    """Wait until the operator has told that a pod was refused."""

    async def do(row: Run) -> None:
        async def told() -> bool:
            return any(event["reason"] == "FailedCreatePod" for event in await row.events())

        await row.eventually(told, "the operator tells of the refusal")

    return step("the refusal is told", do)


def posted_once() -> Step:
    """Each pod came to the webhook once."""

    async def do(row: Run) -> None:
        twice = {name: count for name, count in row.notes["webhook"].asked.items() if count > 1}
        if twice:
            raise RowError(f"posted more than once: {twice}")

    return step("each pod was posted once", do)
