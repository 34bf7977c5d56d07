"""What happens in a row: each function gives a step. Pods are named without the job's name, such as ``worker-0``."""

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from jobcommon.api.status import ConditionType
from jobcommon.client.errors import StatusError
from jobcommon.client.request import Request
from jobcommon.testutil.real.run import TERMINAL, Life, RowError, Run

#: One exit code a line: the n-th run of the container ends with the n-th, as soon as it is there.
ENDS = "jobcommon.test/ends"


@dataclass(frozen=True)
class Step:
    """One step, and what it needs of its cluster. What is `alone` disturbs every other row."""

    name: str
    do: Callable[[Run], Awaitable[None]]
    needs: frozenset[str] = frozenset()
    alone: bool = False


def step(name: str, do: Callable[[Run], Coroutine[Any, Any, None]], *needs: str, alone: bool = False) -> Step:
    """A step with this name."""
    return Step(name, do, frozenset(needs), alone)


# -- pods -----------------------------------------------------------------------------------------------------------------


def run(*pods: str) -> Step:
    """Wait until the newest pods of these names run."""

    async def do(row: Run) -> None:
        await row.until_goes_on(lambda: all(_runs(row.life(pod)) for pod in pods), f"{pods} run")

    return step(f"{', '.join(pods)} run", do)


def end(code: int, *pods: str) -> Step:
    """Have the containers that run in these pods end with `code`."""

    async def do(row: Run) -> None:
        for pod in pods:
            life = row.life(pod)
            assert life is not None, f"there is no {pod}"
            told = _told(life)
            # A run that was stopped from outside has read no line.
            stopped = max(_runs_over(life) - len(told), 0)
            await row.annotate(pod, ENDS, "".join(f"{one}\n" for one in (*told, *(1 + stopped) * [code])))

    return step(f"{', '.join(pods)} end with {code}", do)


def done(*pods: str) -> Step:
    """Wait until these pods have succeeded or failed."""

    async def do(row: Run) -> None:
        await row.until(lambda: all(_phase(row.life(pod)) in TERMINAL for pod in pods), f"{pods} have ended")

    return step(f"{', '.join(pods)} have ended", do)


def restarted(pod: str, times: int = 1) -> Step:
    """Wait until the kubelet has started the pod's container anew so often."""

    async def do(row: Run) -> None:
        await row.until_goes_on(lambda: _restarts(row.life(pod)) >= times, f"{pod} is restarted {times} times in place")

    return step(f"{pod} restarts in place", do)


def image_set(mark: str, *pods: str) -> Step:
    """Wait until the operator has set an image with `mark` in one of these pods."""

    async def do(row: Run) -> None:
        def holds() -> bool:
            lives = [row.life(pod) for pod in pods]
            return any(mark in state["spec"]["containers"][0]["image"] for life in lives if life for state in life.states)

        await row.until_goes_on(holds, f"one of {pods} has an image with {mark}")

    return step(f"an image with {mark} is set", do)


def attempt_runs(number: int, *pods: str) -> Step:
    """Wait until these pods run in place as the attempt of that number."""

    async def do(row: Run) -> None:
        def holds(life: Life | None) -> bool:
            mark = f":attempt-{number}@"
            return life is not None and mark in life.last["spec"]["containers"][0]["image"] and _restarts(life) >= number

        await row.until_goes_on(lambda: all(_runs(row.life(pod)) and holds(row.life(pod)) for pod in pods), f"attempt {number}")

    return step(f"attempt {number} runs", do)


def recorded(number: int, pod: str, code: int) -> Step:
    """Wait until the status has so many failures, all of this pod with that exit code, each with what its own run printed."""

    async def do(row: Run) -> None:
        await row.until_goes_on(lambda: len(row.status.failures) >= number, f"failure {number} is recorded")
        failures = row.status.failures
        printed = {(failure.message or "").strip() for failure in failures}
        mine = all((failure.pod, failure.exit_code) == (f"{row.name}-{pod}", code) for failure in failures)
        if not mine or len(printed) != number or not all(text.endswith(f" ends with {code}") for text in printed):
            raise RowError(f"the failures are {failures}; {row.told()}")

    return step(f"failure {number}, {code} of {pod}, is recorded", do)


def kept(*pods: str) -> Step:
    """These pods are still the first of their names."""

    async def do(row: Run) -> None:
        others = [pod for pod in pods if len(row.lives.get(pod, ())) != 1]
        if others:
            raise RowError(f"{others} have been replaced")

    return step(f"{', '.join(pods)} are kept", do)


def replaced(*pods: str, times: int = 1) -> Step:
    """Wait until other pods of these names run, the `times`-th after the first."""

    async def do(row: Run) -> None:
        def holds(pod: str) -> bool:
            return len(row.lives.get(pod, ())) > times and _runs(row.life(pod))

        await row.until_goes_on(lambda: all(holds(pod) for pod in pods), f"{pods} are replaced")

    return step(f"{', '.join(pods)} are replaced", do)


def ending(*pods: str) -> Step:
    """Wait until the deletion of these pods was asked for."""

    async def do(row: Run) -> None:
        await row.until(lambda: all(_deleting(row.life(pod)) for pod in pods), f"{pods} are being deleted")

    return step(f"{', '.join(pods)} are being deleted", do)


def over(*pods: str) -> Step:
    """Wait until the kubelet has sent its last DELETE for these pods."""

    async def do(row: Run) -> None:
        await row.until(lambda: all((life := row.life(pod)) is not None and life.over for pod in pods), f"{pods} are over")

    return step(f"{', '.join(pods)} are over", do)


def delete(*pods: str, grace: int | None = None) -> Step:
    """Delete the pods as ``kubectl delete pod`` does."""

    async def do(row: Run) -> None:
        options: dict[str, Any] = {"propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        for pod in pods:
            await row.api.call(
                "DELETE", row.path("pods", f"{row.name}-{pod}"), {"kind": "DeleteOptions", "apiVersion": "v1", **options}
            )

    return step(f"kubectl delete pod {' '.join(pods)}" + ("" if grace is None else f" --grace-period={grace}"), do)


def evict(*pods: str) -> Step:
    """Evict the pods through the eviction API."""

    async def do(row: Run) -> None:
        for pod in pods:
            name = f"{row.name}-{pod}"
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            await row.api.call("POST", row.path("pods", name, "eviction"), body)

    return step(f"{', '.join(pods)} are evicted", do)


def make_pod(pod: str, body: dict[str, Any]) -> Step:
    """A pod of no job."""

    async def do(row: Run) -> None:
        meta = {**body.get("metadata", {}), "name": f"{row.name}-{pod}"}
        await row.create(row.path("pods"), {**body, "metadata": meta})

    return step(f"{pod} is made", do)


def logs(pod: str, shown: str, container: str = "main") -> Step:
    """Follow the log of a container to its end: these are its lines, or this is why there are none."""

    async def do(row: Run) -> None:
        query = ("container", container), ("follow", "true")
        request = Request("GET", row.path("pods", f"{row.name}-{pod}", "log"), query)
        try:
            async with aclosing(row.cluster.transport.stream(request)) as lines:  # type: ignore[type-var]
                found = "\n".join([line.decode() async for line in lines])
        except StatusError as error:
            found = f"{error.code}: {error.message}"
        if found != shown:
            raise RowError(f"the log of {pod}, {container}, is {found!r} and not {shown!r}")

    return step(f"the log of {pod}, {container}, is {shown!r}", do)


def make(plural: str, body: dict[str, Any]) -> Step:
    """Another object of core/v1."""
    return step(f"one of {plural} is made", lambda row: row.create(row.path(plural), body))


def pending(pod: str) -> Step:
    """Wait until the kubelet has said that it waits to start the pod's container."""

    async def do(row: Run) -> None:
        def holds() -> bool:
            life = row.life(pod)
            statuses = ((life.last.get("status") or {}).get("containerStatuses") or ()) if life else ()
            return any("waiting" in (status.get("state") or {}) for status in statuses)

        await row.until(holds, f"{pod} waits")

    return step(f"{pod} waits", do)


def freed(*pods: str) -> Step:
    """Wait until nothing of ours holds these pods any more."""

    async def do(row: Run) -> None:
        def holds(life: Life | None) -> bool:
            return life is not None and (life.gone or not life.last["metadata"].get("finalizers"))

        await row.until(lambda: all(holds(row.life(pod)) for pod in pods), f"{pods} have no finalizer")

    return step(f"{', '.join(pods)} have no finalizer", do)


# -- the job --------------------------------------------------------------------------------------------------------------


def becomes(kind: ConditionType | str) -> Step:
    """Wait until that is the job's state."""

    async def do(row: Run) -> None:
        def holds() -> bool:
            conditions = row.status.conditions
            return bool(conditions) and conditions[-1].type == kind and conditions[-1].is_true

        await row.until_goes_on(holds, f"the job is {kind}")

    return step(f"the job is {kind}", do)


def reported(percentage: int, **metrics: str) -> Step:
    """Wait until that report is in the job's status."""

    async def do(row: Run) -> None:
        def holds() -> bool:
            found = row.status.trainer_status
            told = {metric.name: metric.value for metric in (found.metrics if found else None) or ()}
            return found is not None and (found.progress_percentage, told) == (percentage, metrics)

        await row.until(holds, f"{percentage} % with {metrics} is reported")

    return step(f"{percentage} % is reported", do)


def suspend() -> Step:
    """Suspend the job."""
    return step("the job is suspended", lambda row: row.merge_job({"spec": {"runPolicy": {"suspend": True}}}))


def resume() -> Step:
    """Resume the job."""
    return step("the job is resumed", lambda row: row.merge_job({"spec": {"runPolicy": {"suspend": False}}}))


def patch(change: dict[str, Any]) -> Step:
    """Patch the job."""
    return step(f"the job is patched: {change}", lambda row: row.merge_job(change))


def delete_job(propagation: str) -> Step:
    """Delete the job and wait until it is gone."""

    async def do(row: Run) -> None:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        await row.api.call("DELETE", row.job_path(), options)
        await row.until(lambda: row.jobs_gone > 0, "the job is gone")

    return step(f"the job is deleted, {propagation}", do)


def delete_namespace() -> Step:
    """Delete the namespace and wait until it is gone."""

    async def do(row: Run) -> None:
        await gone_namespace(row)

    return step("the namespace is deleted", do)


async def gone_namespace(row: Run) -> None:
    """Delete the row's namespace. Raises RowError when it does not go."""
    path = f"/api/v1/namespaces/{row.namespace}"
    if await row.api.get(path) is not None:
        await row.api.call("DELETE", path)

    async def gone() -> bool:
        return await row.api.get(path) is None

    await row.eventually(gone, "the namespace is gone")


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
