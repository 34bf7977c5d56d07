"""What happens in a row: each function gives a step. Pods are named without the job's name, such as ``worker-0``."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Concatenate, ParamSpec

import msgspec

from jobcommon.api.labels import SPARE
from jobcommon.api.pod import pod_view
from jobcommon.client.errors import StatusError
from jobcommon.client.request import MERGE_PATCH, Request
from jobcommon.reconcile.slots import holds_node
from jobcommon.testutil.real.containers import ContainerNode
from jobcommon.testutil.real.run import IMAGE, JOB, PATIENCE, Life, RowError, Run
from localcluster import client
from localcluster.client import background
from localcluster.conformance import StartError
from localcluster.model import format_time

#: One exit code a line: the n-th run of the container ends with the n-th, as soon as it is there.
ENDS = "jobcommon.test/ends"
P = ParamSpec("P")
Step = Callable[[Run], Awaitable[None]]


def step(do: Callable[Concatenate[Run, P], Awaitable[None]]) -> Callable[P, Step]:
    """Of a function of a run and more arguments: a function of these that gives the step."""

    def of(*arguments: P.args, **named: P.kwargs) -> Step:
        async def taken(row: Run) -> None:
            try:
                await do(row, *arguments, **named)
            except (AssertionError, StatusError, client.ClientError, TimeoutError) as error:
                raise RowError(f"{do.__name__} {arguments}: {error}") from error

        return taken

    return of


@step
async def kubectl(row: Run, *arguments: str) -> None:
    """A command of kubectl in the row's namespace."""
    async with asyncio.timeout(PATIENCE):
        await row.cluster.kubectl(f"--namespace={row.namespace}", *map(row.filled, arguments))


# -- pods -----------------------------------------------------------------------------------------------------------------


@step
async def _shown(row: Run, holds: Callable[[Life], bool], what: str, *pods: str) -> None:
    await row.until(lambda: all((life := row.life(pod)) is not None and holds(life) for pod in pods), f"{pods} {what}")


#: Each waits until that is so of the newest pods of some names.
run = partial(_shown, lambda life: life.runs, "run")
done = partial(_shown, lambda life: life.phase in ("Succeeded", "Failed"), "have ended")
set_up = partial(_shown, lambda life: holds_node(pod_view(msgspec.json.encode(life.last))), "are set up and start nothing")
restarted = partial(_shown, lambda life: life.runs and life.restarts > 0, "are restarted in place")
ending = partial(_shown, lambda life: life.deleting, "are being deleted")
pending = partial(_shown, lambda life: any("waiting" in (one.get("state") or {}) for one in life.containers), "wait")
freed = partial(_shown, lambda life: life.gone or not life.meta.get("finalizers"), "have no finalizer")


@step
async def end(row: Run, code: int, *pods: str) -> None:
    """Have the containers that run in these pods end with `code`."""
    for pod in pods:
        life = row.life(pod)
        assert life is not None, f"there is no {pod}"
        read = str((life.meta.get("annotations") or {}).get(ENDS, "")).split()
        # A run that was stopped from outside has read no line.
        stopped = max(life.restarts - len(read), 0)
        lines = "".join(f"{one}\n" for one in (*read, *(1 + stopped) * [code]))
        await row.patch_pod(pod, {"metadata": {"annotations": {ENDS: lines}}})


def image_set(mark: str, pod: str) -> Step:
    """Wait until the operator has set an image with `mark` in this pod."""
    return _shown(lambda life: any(mark in _image(state) for state in life.states), f"has an image with {mark}", pod)


def attempt_runs(number: int, *pods: str) -> Step:
    """Wait until these pods run in place as the attempt of that number."""

    def holds(life: Life) -> bool:
        return life.runs and life.restarts >= number and f":attempt-{number}@" in _image(life.last)

    return _shown(holds, f"run as attempt {number}", *pods)


def _image(state: dict[str, Any]) -> str:
    return str(state["spec"]["containers"][0]["image"])


@step
async def recorded(row: Run, number: int, pod: str, code: int) -> None:
    """Wait until the status has so many failures, all of this pod with that exit code, each with what its own run printed."""
    await row.until(lambda: len(row.status.failures) >= number, f"failure {number} is recorded")
    failures = row.status.failures
    printed = {(failure.message or "").strip() for failure in failures}
    assert all((failure.pod, failure.exit_code) == (f"{JOB}-{pod}", code) for failure in failures), failures
    assert len(printed) == number, failures
    assert all(text.endswith(f" ends with {code}") for text in printed), failures


@step
async def kept(row: Run, *pods: str) -> None:
    """These pods are still the first of their names."""
    replaced = [pod for pod in pods if len(row.lives.get(pod, ())) != 1]
    assert not replaced, f"{replaced} have been replaced; {row}"


@step
async def replaced(row: Run, *pods: str) -> None:
    """Wait until other pods of these names run."""

    def holds(pod: str) -> bool:
        lives = row.lives.get(pod, ())
        return len(lives) > 1 and lives[-1].runs

    await row.until(lambda: all(map(holds, pods)), f"{pods} are replaced")


@step
async def over(row: Run, *pods: str) -> None:
    """Wait until the kubelet has sent its last DELETE for the pods that there are now; they may be replaced by then."""
    begun = {pod: row.life(pod) for pod in pods}
    await row.until(
        lambda: all((life := begun[pod] or row.life(pod)) is not None and life.over for pod in pods), f"{pods} are over"
    )


def delete(*pods: str) -> Step:
    """Delete the pods, and do not wait."""
    return kubectl("delete", "pod", "--wait=false", *(f"{JOB}-{pod}" for pod in pods))


@step
async def evict(row: Run, pod: str) -> None:
    """Evict the pod through the eviction API."""
    name = f"{JOB}-{pod}"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    await row.api.call("POST", row.path("pods", name, "eviction"), body)


@step
async def make(row: Run, plural: str, body: dict[str, Any]) -> None:
    """An object of core/v1, such as a pod of no job."""
    await row.create(row.path(plural), body)


@step
async def logs(row: Run, pod: str, shown: str, container: str = "main") -> None:
    """Follow the log of a container to its end: these are its lines, or this is why there are none."""
    found = await _log(row, pod, ("container", container), ("follow", "true"))
    assert found == shown, f"the log of {pod}, {container}, is {found!r}"


@step
async def reads(row: Run, world: int, *pods: str) -> None:
    """Wait until the present run of each of these pods has read a WORLD_SIZE of so many, and a RANK in the order given."""

    async def holds() -> bool:
        main = ("container", row.framework.container)
        lines = [(await _log(row, pod, main)).partition("\n")[0] for pod in pods]
        return all(line.endswith(f" of {world}, rank {rank}") for rank, line in enumerate(lines))

    await row.eventually(holds, f"{pods} read {world}")


async def _log(row: Run, pod: str, *query: tuple[str, str]) -> str:
    request = Request("GET", row.path("pods", f"{JOB}-{pod}", "log"), query)
    try:
        async with aclosing(row.cluster.transport.stream(request)) as lines:
            return "\n".join([line.decode() async for line in lines])
    except StatusError as error:
        return f"{error.code}: {error.message}"


@step
async def ungated(row: Run, pod: str) -> None:
    """Wait until the newest pod of this name asks for a node as a spare one, and remove its scheduling gates."""
    spare = lambda life: not life.gone and life.meta["annotations"].get(SPARE) == "true"  # noqa: E731
    await _shown(spare, "is a spare pod", pod)(row)
    await row.patch_pod(pod, {"spec": {"schedulingGates": []}})


# -- the job --------------------------------------------------------------------------------------------------------------


@step
async def becomes(row: Run, state: str) -> None:
    """Wait until that is the job's state."""
    await row.until(lambda: row.state == state, f"the job is {state}")


@step
async def patch(row: Run, change: dict[str, Any]) -> None:
    """Patch the job's spec."""
    await row.api.call("PATCH", row.job_path(), {"spec": change}, MERGE_PATCH)


def suspend(value: bool = True) -> Step:
    """Suspend the job, or resume it."""
    return patch({"runPolicy": {"suspend": value}})


@step
async def delete_namespace(row: Run) -> None:
    """Delete the namespace, if it is there, and wait until it is gone."""
    await kubectl("delete", "namespace", row.namespace, "--ignore-not-found")(row)


# -- operators ------------------------------------------------------------------------------------------------------------


@step
async def operator_dies(row: Run, which: int = -1) -> None:
    """kill -9 of the operator that was started last, or of another one."""
    await row.operators[which].kill()


operator_starts = step(Run.start_operator)


@step
async def namespace_ends_with_its_operator(row: Run, *pods: str) -> None:
    """The namespace is deleted while its operator is slow, which gets its SIGTERM before it has seen anything of it."""
    operator = row.operators[-1]
    os.kill(operator.pid, signal.SIGSTOP)
    await row.api.call("DELETE", row.path())
    await over(*pods)(row)
    os.kill(operator.pid, signal.SIGTERM)
    os.kill(operator.pid, signal.SIGCONT)
    with suppress(StartError):  # It says how the program has ended.
        await operator.watch()
    await delete_namespace()(row)


@step
async def refused(row: Run) -> None:
    """Wait until the operator has an event of a pod that was refused."""

    async def has_event() -> bool:
        return "FailedCreatePod" in await row.events()

    await row.eventually(has_event, "the operator has an event of the refusal")


# -- the platform ---------------------------------------------------------------------------------------------------------


@step
async def quota(row: Run, pods: int) -> None:
    """A ResourceQuota for so many pods, in force on return; without a number there is none any more."""
    if not pods:
        await kubectl("delete", "quota", "pods")(row)
        return
    await kubectl("create", "quota", "pods", f"--hard=pods={pods}")(row)

    async def known() -> bool:
        try:
            await kubectl("run", "probe", f"--image={IMAGE}", "--dry-run=server")(row)
        except RowError as error:
            return "exceeded quota" in str(error)
        return False

    await row.eventually(known, "the quota is in force")


@step
async def preempted(row: Run, pod: str) -> None:
    """A pod of a higher priority takes the room of this one, and goes."""
    resources = {"requests": {"cpu": "1200m"}}
    main = {"name": "c", "image": row.cluster.image, "command": ["sleep", "600"], "resources": resources}
    spec = {"priorityClassName": "system-cluster-critical", "terminationGracePeriodSeconds": 0, "containers": [main]}
    await row.api.call("POST", row.path("pods"), {"metadata": {"name": "preemptor"}, "spec": spec})
    await over(pod)(row)
    await kubectl("delete", "pod", "preemptor")(row)
    row.lives.pop("preemptor", None)


@step
async def server_dies(row: Run) -> None:
    """kill -9 of the API server, which is started again."""
    assert row.cluster.servers is not None
    await row.cluster.servers.restart()


def _node(row: Run) -> ContainerNode:
    assert row.cluster.node is not None
    return row.cluster.node


@step
async def node_dies(row: Run) -> None:
    """kill -9 of the kubelet, while another node lives: of a zone that is lost as a whole no pods are deleted."""
    await row.stack.enter_async_context(background(_other_node(row)))
    await _node(row).kubelet.kill()


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


@step
async def node_returns(row: Run) -> None:
    """The kubelet is started again."""
    await _node(row).kubelet.start()


@step
async def node_pressure(row: Run, on: bool) -> None:
    """The node runs out of memory, as its kubelet sees it, or has enough again."""
    await _node(row).press(on)
