"""What happens in a row: each function gives a step. Pods are named without the job's name, such as ``worker-0``."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import wraps
from textwrap import shorten
from typing import Any, Concatenate, ParamSpec

from jobcommon.api.labels import JOB_LABELS, SPARE
from jobcommon.api.status import ConditionType
from jobcommon.client.errors import StatusError
from jobcommon.client.request import MERGE_PATCH, STRATEGIC_PATCH, Request
from jobcommon.testutil.real.run import JOB, TERMINAL, Life, RowError, Run

#: One exit code a line: the n-th run of the container ends with the n-th, as soon as it is there.
ENDS = "jobcommon.test/ends"
P = ParamSpec("P")


@dataclass(frozen=True)
class Step:
    """One step, and what it needs of its cluster. What is `alone` disturbs every other row."""

    name: str
    do: Callable[[Run], Awaitable[None]]
    needs: frozenset[str] = frozenset()
    alone: bool = False


def step(*needs: str, alone: bool = False) -> Callable[[Callable[Concatenate[Run, P], Awaitable[None]]], Callable[P, Step]]:
    """Of a function of a run and more arguments: a function of these that gives the step, which is named by them."""

    def of(do: Callable[Concatenate[Run, P], Awaitable[None]]) -> Callable[P, Step]:
        @wraps(do)
        def given(*arguments: P.args, **named: P.kwargs) -> Step:
            words = [do.__name__.replace("_", " "), *map(str, arguments), *(f"{name}={value}" for name, value in named.items())]
            return Step(shorten(" ".join(words), 100), lambda row: do(row, *arguments, **named), frozenset(needs), alone)

        return given

    return of


# -- pods -----------------------------------------------------------------------------------------------------------------


@step()
async def run(row: Run, *pods: str) -> None:
    """Wait until the newest pods of these names run."""
    await row.until_goes_on(lambda: all(_runs(row.life(pod)) for pod in pods), f"{pods} run")


@step()
async def end(row: Run, code: int, *pods: str) -> None:
    """Have the containers that run in these pods end with `code`."""
    for pod in pods:
        life = row.life(pod)
        assert life is not None, f"there is no {pod}"
        told = _told(life)
        # A run that was stopped from outside has read no line.
        stopped = max(_runs_over(life) - len(told), 0)
        await row.annotate(pod, ENDS, "".join(f"{one}\n" for one in (*told, *(1 + stopped) * [code])))


@step()
async def done(row: Run, *pods: str) -> None:
    """Wait until these pods have succeeded or failed."""
    await row.until(lambda: all(_phase(row.life(pod)) in TERMINAL for pod in pods), f"{pods} have ended")


@step()
async def restarted(row: Run, pod: str, times: int = 1) -> None:
    """Wait until the kubelet has started the pod's container anew so often."""
    await row.until_goes_on(lambda: _restarts(row.life(pod)) >= times, f"{pod} is restarted {times} times in place")


@step()
async def image_set(row: Run, mark: str, *pods: str) -> None:
    """Wait until the operator has set an image with `mark` in one of these pods."""

    def holds() -> bool:
        lives = [row.life(pod) for pod in pods]
        return any(mark in state["spec"]["containers"][0]["image"] for life in lives if life for state in life.states)

    await row.until_goes_on(holds, f"one of {pods} has an image with {mark}")


@step()
async def attempt_runs(row: Run, number: int, *pods: str) -> None:
    """Wait until these pods run in place as the attempt of that number."""

    def holds(life: Life | None) -> bool:
        mark = f":attempt-{number}@"
        return life is not None and mark in life.last["spec"]["containers"][0]["image"] and _restarts(life) >= number

    await row.until_goes_on(lambda: all(_runs(row.life(pod)) and holds(row.life(pod)) for pod in pods), f"attempt {number}")


@step()
async def recorded(row: Run, number: int, pod: str, code: int) -> None:
    """Wait until the status has so many failures, all of this pod with that exit code, each with what its own run printed."""
    await row.until_goes_on(lambda: len(row.status.failures) >= number, f"failure {number} is recorded")
    failures = row.status.failures
    printed = {(failure.message or "").strip() for failure in failures}
    mine = all((failure.pod, failure.exit_code) == (f"{JOB}-{pod}", code) for failure in failures)
    if not mine or len(printed) != number or not all(text.endswith(f" ends with {code}") for text in printed):
        raise RowError(f"the failures are {failures}; {row.told()}")


@step()
async def kept(row: Run, *pods: str) -> None:
    """These pods are still the first of their names."""
    others = [pod for pod in pods if len(row.lives.get(pod, ())) != 1]
    if others:
        raise RowError(f"{others} have been replaced")


@step()
async def replaced(row: Run, *pods: str, times: int = 1) -> None:
    """Wait until other pods of these names run, the `times`-th after the first."""

    def holds(pod: str) -> bool:
        return len(row.lives.get(pod, ())) > times and _runs(row.life(pod))

    await row.until_goes_on(lambda: all(holds(pod) for pod in pods), f"{pods} are replaced")


@step()
async def ending(row: Run, *pods: str) -> None:
    """Wait until the deletion of these pods was asked for."""
    await row.until(lambda: all(_deleting(row.life(pod)) for pod in pods), f"{pods} are being deleted")


@step()
async def over(row: Run, *pods: str) -> None:
    """Wait until the kubelet has sent its last DELETE for the pods that there are now; they may be replaced by then."""
    begun = {pod: row.life(pod) for pod in pods}
    await row.until(
        lambda: all((life := begun[pod] or row.life(pod)) is not None and life.over for pod in pods), f"{pods} are over"
    )


@step()
async def delete(row: Run, *pods: str) -> None:
    """Delete the pods as ``kubectl delete pod`` does."""
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    for pod in pods:
        await row.api.call("DELETE", row.path("pods", f"{JOB}-{pod}"), options)


@step()
async def evict(row: Run, *pods: str) -> None:
    """Evict the pods through the eviction API."""
    for pod in pods:
        name = f"{JOB}-{pod}"
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        await row.api.call("POST", row.path("pods", name, "eviction"), body)


@step()
async def make_pod(row: Run, pod: str, body: dict[str, Any]) -> None:
    """A pod of no job."""
    meta = {**body.get("metadata", {}), "name": f"{JOB}-{pod}"}
    await row.create(row.path("pods"), {**body, "metadata": meta})


@step()
async def logs(row: Run, pod: str, shown: str, container: str = "main") -> None:
    """Follow the log of a container to its end: these are its lines, or this is why there are none."""
    found = await _log(row, pod, ("container", container), ("follow", "true"))
    if found != shown:
        raise RowError(f"the log of {pod}, {container}, is {found!r} and not {shown!r}")


@step()
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
        async with aclosing(row.cluster.transport.stream(request)) as lines:  # type: ignore[type-var]
            return "\n".join([line.decode() async for line in lines])
    except StatusError as error:
        return f"{error.code}: {error.message}"


@step()
async def annotated(row: Run, pod: str, name: str, value: str) -> None:
    """Put an annotation on a pod."""
    await row.annotate(pod, name, value)


@step()
async def unlabelled(row: Run, *pods: str) -> None:
    """Take all labels of the operators off the pods, as for a quarantine."""
    body = {"metadata": {"labels": dict.fromkeys(JOB_LABELS)}}
    for pod in pods:
        await row.api.call("PATCH", row.path("pods", f"{JOB}-{pod}"), body, MERGE_PATCH)


@step()
async def image_given(row: Run, pod: str, container: str, image: str) -> None:
    """Give a container of a pod another image."""
    body = row.with_image({"spec": {"containers": [{"name": container, "image": image}]}})
    await row.api.call("PATCH", row.path("pods", f"{JOB}-{pod}"), body, STRATEGIC_PATCH)


@step()
async def ungated(row: Run, *pods: str) -> None:
    """Wait until the newest pods of these names ask for a node as spare ones, and remove their scheduling gates."""

    def holds(pod: str) -> bool:
        life = row.life(pod)
        return life is not None and not life.gone and life.last["metadata"]["annotations"].get(SPARE) == "true"

    await row.until_goes_on(lambda: all(map(holds, pods)), f"{pods} are spare pods")
    for pod in pods:
        await row.api.call("PATCH", row.path("pods", f"{JOB}-{pod}"), {"spec": {"schedulingGates": []}}, MERGE_PATCH)


@step()
async def make(row: Run, plural: str, body: dict[str, Any]) -> None:
    """Another object of core/v1."""
    await row.create(row.path(plural), body)


@step()
async def pending(row: Run, pod: str) -> None:
    """Wait until the kubelet has said that it waits to start the pod's container."""

    def holds() -> bool:
        life = row.life(pod)
        statuses = ((life.last.get("status") or {}).get("containerStatuses") or ()) if life else ()
        return any("waiting" in (status.get("state") or {}) for status in statuses)

    await row.until(holds, f"{pod} waits")


@step()
async def freed(row: Run, *pods: str) -> None:
    """Wait until nothing of ours holds these pods any more."""

    def holds(life: Life | None) -> bool:
        return life is not None and (life.gone or not life.last["metadata"].get("finalizers"))

    await row.until(lambda: all(holds(row.life(pod)) for pod in pods), f"{pods} have no finalizer")


# -- the job --------------------------------------------------------------------------------------------------------------


@step()
async def becomes(row: Run, kind: ConditionType | str) -> None:
    """Wait until that is the job's state."""

    def holds() -> bool:
        conditions = row.status.conditions
        return bool(conditions) and conditions[-1].type == kind and conditions[-1].is_true

    await row.until_goes_on(holds, f"the job is {kind}")


@step()
async def patch(row: Run, change: dict[str, Any]) -> None:
    """Patch the job."""
    await row.merge_job(change)


@step()
async def scale(row: Run, kind: str, replicas: int) -> None:
    """Change the number of replicas of a type."""
    await row.merge_job({"spec": {row.framework.replica_specs: {kind: {"replicas": replicas}}}})


def suspend(value: bool = True) -> Step:
    """Suspend the job."""
    return patch({"spec": {"runPolicy": {"suspend": value}}})


def resume() -> Step:
    """Resume the job."""
    return suspend(False)


@step()
async def delete_job(row: Run, propagation: str) -> None:
    """Delete the job and wait until it is gone."""
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
    await row.api.call("DELETE", row.job_path(), options)
    await row.until(lambda: row.jobs_gone > 0, "the job is gone")


@step()
async def delete_namespace(row: Run) -> None:
    """Delete the namespace and wait until it is gone."""
    await gone_namespace(row)


async def gone_namespace(row: Run) -> None:
    """Delete the row's namespace. Raises RowError when it does not go."""
    path = f"/api/v1/namespaces/{row.namespace}"
    if await row.api.get(path) is not None:
        await row.api.call("DELETE", path)
    await until_namespace_is_gone(row)


async def until_namespace_is_gone(row: Run) -> None:
    """Its deletion was asked for. Raises RowError when it does not go."""

    async def gone() -> bool:
        return await row.api.get(f"/api/v1/namespaces/{row.namespace}") is None

    await row.eventually(gone, "the namespace is gone")


namespace_is_gone = step()(until_namespace_is_gone)


def _phase(life: Life | None) -> str:
    return str((life.last.get("status") or {}).get("phase")) if life else ""


def _runs(life: Life | None) -> bool:
    if life is None or life.gone or "deletionTimestamp" in life.last["metadata"]:
        return False
    statuses = (life.last.get("status") or {}).get("containerStatuses") or ()
    return bool(statuses) and all(status.get("started") and "running" in (status.get("state") or {}) for status in statuses)


def _restarts(life: Life | None) -> int:
    statuses = ((life.last.get("status") or {}).get("containerStatuses") or ()) if life else ()
    return max((status.get("restartCount", 0) for status in statuses if "running" in (status.get("state") or {})), default=0)


def _runs_over(life: Life) -> int:
    statuses = (life.last.get("status") or {}).get("containerStatuses") or ()
    return max((int(status.get("restartCount", 0)) for status in statuses), default=0)


def _told(life: Life) -> list[str]:
    """The lines that the pod's runs have been told to end with."""
    return str((life.last["metadata"].get("annotations") or {}).get(ENDS, "")).split()


def _deleting(life: Life | None) -> bool:
    return life is not None and (life.gone or "deletionTimestamp" in life.last["metadata"])
