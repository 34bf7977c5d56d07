"""Reading what a diagnosis needs: a job, its pods, their events and last lines, and what they may wait for."""

from collections.abc import Sequence

from jobcommon.api import labels
from jobcommon.api.gang import COSCHEDULING_API, POD_GROUPS, VOLCANO_API
from jobcommon.api.status import read_status
from jobcommon.cli.jobs.access import Api, Object, Query, together
from jobcommon.cli.jobs.lookup import FoundJob
from jobcommon.client.errors import StatusError
from jobcommon.client.objects import collection_path, object_path
from jobcommon.client.request import Request
from jobcommon.diagnosis import Found
from jobcommon.diagnosis.found import belongs_to, failed_container

# Of a job of a thousand pods with the same trouble, some are enough.
MAX_PODS = 8
MAX_LOGS = 4
TAIL_LINES = 60
OPERATOR_LABEL = "app.kubernetes.io/name in (training-operators, training-operator)"
WORKLOAD_APIS = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")


async def pods_of(api: Api, job: FoundJob) -> list[Object]:
    """The pods of a job."""
    query = (("labelSelector", f"{labels.JOB_NAME}={job.name}"),)
    items = await api.items(collection_path("v1", "pods", job.namespace), query)
    return [pod for pod in items if belongs_to(pod, job.uid)]


async def surroundings(api: Api, job: FoundJob) -> Found:
    """All that can be read of a job's situation; what is missing for lack of rights is named in `Found.unread`."""
    unread: dict[str, str] = {}
    pods = await pods_of(api, job)
    troubled = [pod for pod in pods if not _is_well(pod)][:MAX_PODS]
    status = read_status(job.body.get("status"))
    suspended = bool(((job.body.get("spec") or {}).get("runPolicy") or {}).get("suspend"))
    pending = any(not (pod.get("spec") or {}).get("nodeName") for pod in pods)
    events, logs, nodes, workloads, groups, operator = await together(
        _events(api, job, troubled, unread),
        _logs(api, job, pods, [failure.pod or "" for failure in status.failures]),
        _nodes(api) if troubled else _nothing(),
        _workloads(api, job, unread) if suspended else _nothing(),
        _pod_groups(api, job) if pending or not pods else _nothing(),
        _operator(api) if not status.conditions else _unknown(),
    )
    return Found(
        framework=job.framework,
        job=job.body,
        pods=pods,
        events=events,
        logs=logs,
        nodes=nodes,
        workloads=workloads,
        pod_groups=groups,
        operator=operator,
        unread=unread,
    )


async def log_tail(api: Api, namespace: str, pod: str, container: str, *, previous: bool, lines: int = TAIL_LINES) -> list[str]:
    """The last lines of a container's present or previous run; none if there is no such run, or no right to read it."""
    query: Query = (("container", container), ("tailLines", str(lines)), *((("previous", "true"),) if previous else ()))
    path = f"{object_path('v1', 'pods', namespace, pod)}/log"
    response = await api.transport.send(Request("GET", path, query))
    return response.body.decode(errors="replace").splitlines() if response.status < 400 else []


async def _events(api: Api, job: FoundJob, pods: Sequence[Object], unread: dict[str, str]) -> list[Object]:
    path = collection_path("v1", "events", job.namespace)
    uids = [job.uid, *(str(pod["metadata"].get("uid")) for pod in pods)]
    found = await together(
        *(api.items_if_allowed(path, (("fieldSelector", f"involvedObject.uid={uid}"),), unread) for uid in uids)
    )
    return [event for events in found for event in events]


async def _logs(api: Api, job: FoundJob, pods: Sequence[Object], failed: Sequence[str]) -> dict[str, list[str]]:
    """The last lines of failed runs, by pod: those on record first."""
    names = [name for name in dict.fromkeys(failed) if name]
    wanted = sorted((pod for pod in pods if failed_container(pod)[0]), key=lambda pod: _rank(names, pod["metadata"]["name"]))

    async def tail(pod: Object) -> tuple[str, list[str]]:
        name = str(pod["metadata"]["name"])
        container, previous = failed_container(pod)
        return name, await log_tail(api, job.namespace, name, container, previous=previous)

    return dict(await together(*map(tail, wanted[:MAX_LOGS])))


async def _workloads(api: Api, job: FoundJob, unread: dict[str, str]) -> list[Object]:
    for version in WORKLOAD_APIS:
        items = await api.items_if_allowed(collection_path(version, "workloads", job.namespace), (), unread)
        if found := [item for item in items if any(owner.get("uid") == job.uid for owner in _owners(item))]:
            return found
    return []


async def _pod_groups(api: Api, job: FoundJob) -> list[Object]:
    for version in (VOLCANO_API, COSCHEDULING_API):
        try:
            return [await api.get(object_path(version, POD_GROUPS, job.namespace, job.name))]
        except StatusError as error:
            if error.code not in (403, 404):
                raise
    return []


async def _operator(api: Api) -> bool | None:
    """Whether a pod of the operators runs; None when that cannot be read."""
    try:
        items = await api.items(collection_path("v1", "pods", None), (("labelSelector", OPERATOR_LABEL),))
    except StatusError as error:
        if error.code in (403, 404):
            return None
        raise
    return any((pod.get("status") or {}).get("phase") == "Running" for pod in items)


async def _nodes(api: Api) -> list[Object]:
    # Who reads one namespace may not read nodes, which is normal and not worth a line.
    return await api.items_if_allowed(collection_path("v1", "nodes", None), (), {})


async def _unknown() -> None:
    return None


async def _nothing() -> list[Object]:
    return []


def _owners(item: Object) -> list[Object]:
    return [owner for owner in item["metadata"].get("ownerReferences") or () if isinstance(owner, dict)]


def _is_well(pod: Object) -> bool:
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return False
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
    calm = not any(container.get("restartCount") for container in statuses)
    return status.get("phase") == "Succeeded" or (status.get("phase") == "Running" and ready and calm)


def _rank(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else len(names)
