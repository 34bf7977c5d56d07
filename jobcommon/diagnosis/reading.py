"""Reading what a diagnosis needs: a job's pods, their events and last lines, and what they may wait for.

The caller sends the requests, at the same time or one after the other; so this is as pure as the diagnosis.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from jobcommon.api import gang as workload
from jobcommon.api import labels
from jobcommon.api.gang import COSCHEDULING_API, POD_GROUPS, VOLCANO_API
from jobcommon.api.pod import ContainerView, PodView, Running, Terminated, pod_view
from jobcommon.api.status import ConditionType, read_status
from jobcommon.api.timestamp import parse_time
from jobcommon.causes.printed import telling
from jobcommon.client.errors import StatusError
from jobcommon.client.forbidden import explained
from jobcommon.client.lines import shown_lines
from jobcommon.client.log_lines import printed_by, with_own_lines
from jobcommon.client.objects import collection_path, object_path
from jobcommon.client.request import Request, Response
from jobcommon.client.responses import answered
from jobcommon.diagnosis.found import Found, main_container
from jobcommon.diagnosis.queues import is_queued
from jobcommon.diagnosis.scheduling import claims_of
from jobcommon.framework import Framework, Related
from jobcommon.reconcile.failed_logs import config_map_name
from jobcommon.reconcile.slots import last_is_earlier
from jobcommon.spec import read_job

Object = dict[str, Any]
Send = Callable[[Sequence[Request]], Awaitable[Sequence[Response]]]
"""Sends requests and returns their responses in the same order, whatever their status."""

# Of a job of a thousand pods with the same trouble, some are enough.
MAX_PODS = 8
MAX_LOGS = 4
# The one of many that failed for a reason of its own may be the last.
MAX_FAILED_LOGS = 16
TAIL_LINES = 1000
FEW_LINES = 60
OPERATOR_LABEL = "app.kubernetes.io/part-of=jobcommon"
POD_GROUP_APIS = (VOLCANO_API, COSCHEDULING_API, workload.V1BETA1)
WORKLOAD_APIS = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
# Who reads one namespace may not read nodes, and a kind that is not installed is refused as well. Neither is worth a line.
_QUIET = ("nodes", POD_GROUPS)
# A kind that is not served.
_ABSENT = (404, 405)


async def read_found(framework: Framework, job: Mapping[str, Any], send: Send) -> Found:
    """All that can be read of a job's situation; what is refused is named in `Found.unread`. Raises what `send` raises."""
    framework, job = framework.specialized(job, await read_related(framework, job, send))
    namespace, name, uid = (str(job["metadata"].get(field) or "") for field in ("namespace", "name", "uid"))
    unread: dict[str, str] = {}
    named = (await _read(send, {"pods": [pods_request(namespace, name)]}, unread))["pods"][0]
    pods = owned_by(uid, named)
    views = [pod_view(msgspec.json.encode(pod)) for pod in pods]
    troubled = [pod for pod, view in zip(pods, views, strict=True) if not _is_well(view)][:MAX_PODS]
    status = read_status(job.get("status"))
    failed = [failure.pod for failure in status.failures if failure.pod]
    # Of pods on record by name: they may be gone, and another one may have their name.
    recorded = dict.fromkeys(failed[:MAX_LOGS])
    about = [f"uid={one['metadata'].get('uid')}" for one in (job, *troubled) if one["metadata"].get("name") not in recorded]
    about += [f"name={name}" for name in recorded]
    about += [f"name={name}" for name in _missing(framework, job, views) if name not in recorded] if failed else []
    about += [f"kind=PersistentVolumeClaim,involvedObject.name={name}" for name in _awaited_claims(troubled)]
    path = collection_path("v1", "events", namespace)
    wanted = {"events": [Request("GET", path, (("fieldSelector", f"involvedObject.{one}"),)) for one in about]}
    if troubled or (status.has(ConditionType.FAILED) and not pods):
        wanted["nodes"] = [Request("GET", collection_path("v1", "nodes", None))]
    in_queue = is_queued(status, job["metadata"].get("labels") or {})
    if in_queue or framework.is_suspended(job):
        wanted["workloads"] = [Request("GET", collection_path(api, "workloads", namespace)) for api in WORKLOAD_APIS]
    if not all(view.node_name for view in views) or not views:
        wanted[POD_GROUPS] = [Request("GET", object_path(api, POD_GROUPS, namespace, name)) for api in POD_GROUP_APIS]
    found = await _read(send, wanted, unread)
    # Which of them hangs is to be found by their lines.
    most = MAX_FAILED_LOGS if status.has(ConditionType.STALLED) else MAX_LOGS
    last = await _last_lines(send, framework, namespace, sorted(views, key=lambda view: view.phase), most)
    logs, gone = await _logs(send, framework, namespace, views, failed)
    kept, kept_events = await read_kept(send, job) if gone else ({}, [])
    logs |= {pod: shown_lines(kept[pod]) for pod in gone & kept.keys()}
    made = Found(
        framework=framework,
        job=job,
        pods=pods,
        events=[*(event for events in found["events"] for event in events), *kept_events],
        logs=logs,
        gone=gone - kept.keys(),
        nodes=[node for nodes in found.get("nodes", ()) for node in nodes],
        workloads=next(filter(None, (_of(uid, items) for items in found.get("workloads", ()))), []),
        pod_groups=next(filter(None, found.get(POD_GROUPS, ())), []),
        unread=unread,
        **last,
    )
    return replace(made, operator=await _operator(send)) if not status.conditions else made


async def read_related(framework: Framework, job: Mapping[str, Any], send: Send) -> Related:
    """The objects that the job is read with, as far as they are there and may be read. Raises what `send` raises."""
    kinds = {kind.plural: kind.api_version for kind in framework.related}
    kinds |= {kind.plural: kind.api_version for kind in framework.companion_kinds}
    wanted = [key for key in framework.references(job) if key.name]
    paths = [
        f"{collection_path(kinds[key.plural], key.plural, key.namespace or None)}/{quote(key.name, safe='')}" for key in wanted
    ]
    answers = await send([Request("GET", path) for path in paths]) if paths else ()
    found = zip(wanted, answers, strict=True)
    return {key: answered(answer) for key, answer in found if answer.status < HTTPStatus.BAD_REQUEST}


def _missing(framework: Framework, job: Mapping[str, Any], pods: Iterable[PodView]) -> list[str]:
    """The names of pods that the job should have."""
    read = read_job(framework, job)
    there = {pod.name for pod in pods}
    return [name for name in map(read.pod_name, read.replicas) if name not in there][:MAX_PODS]


def _awaited_claims(pods: Iterable[Object]) -> list[str]:
    """The claims of pods without a node: why one is not bound is in its own events."""
    waiting = [found for pod in pods if not (found := pod.get("spec") or {}).get("nodeName")]
    return list(dict.fromkeys(name for spec in waiting for name in claims_of(spec)))[:MAX_PODS]


def pods_request(namespace: str, job: str) -> Request:
    """Lists the pods that have the job's name."""
    return Request("GET", collection_path("v1", "pods", namespace), (("labelSelector", f"{labels.JOB_NAME}={job}"),))


def owned_by(uid: str, pods: Iterable[Object]) -> list[Object]:
    """Those that belong to the job, and those that belong to no other."""
    controllers = ((pod, next((str(o.get("uid")) for o in _owners(pod) if o.get("controller")), "")) for pod in pods)
    return [pod for pod, controller in controllers if controller in ("", uid)]


async def _read(send: Send, wanted: Mapping[str, Sequence[Request]], unread: dict[str, str]) -> dict[str, list[list[Object]]]:
    """By resource, what each of its requests has found: an object, or a list."""
    asked = [(resource, request) for resource, requests in wanted.items() for request in requests]
    found: dict[str, list[list[Object]]] = {resource: [] for resource in wanted}
    answers = await send([request for _, request in asked])
    for (resource, _), answer in zip(asked, answers, strict=True):
        try:
            body = answered(answer)
        except StatusError as error:
            body = {"items": ()}
            if error.code not in _ABSENT and not (error.code == 403 and resource in _QUIET):
                unread[resource] = explained(error)
        found[resource].append([*(body["items"] or ())] if "items" in body else [body])
    return found


async def _logs(
    send: Send, framework: Framework, namespace: str, pods: Sequence[PodView], failed: Sequence[str]
) -> tuple[dict[str, list[str]], frozenset[str]]:
    """The last lines of failed runs, by pod: those on record first; and the pods of which nothing can be read any more."""
    runs = {pod.name: run for pod in pods if (run := _failed_run(framework, pod))}
    rank = {name: number for number, name in enumerate(dict.fromkeys(failed))}
    chosen = sorted(runs, key=lambda name: rank.get(name, len(rank)))[:MAX_FAILED_LOGS]
    answers = await send([_log(namespace, name, runs[name].container, runs[name].previous) for name in chosen])
    asked = dict(zip(chosen, answers, strict=True))
    printed = {name: printed_by(one.body, runs[name].run) if one.status < 400 else None for name, one in asked.items()}
    logs = {name: shown_lines(body.decode(errors="replace")) for name, body in printed.items() if body is not None}
    return logs, frozenset({name for name in (*chosen, *failed) if name not in (logs if name in asked else runs)})


def _log(namespace: str, pod: str, container: str, previous: bool) -> Request:
    query = (
        ("container", container),
        ("previous", str(previous).lower()),
        ("tailLines", str(TAIL_LINES)),
        ("timestamps", "true"),
    )
    return Request("GET", f"{object_path('v1', 'pods', namespace, pod)}/log", query)


async def read_kept(send: Send, job: Mapping[str, Any]) -> tuple[dict[str, str], list[Object]]:
    """What the operator has kept (`keepFailedLogs`), nothing if it may not be read: by pod, the log of its latest failure; and
    the events on failed pods and the job.
    """
    namespace, name, uid = (str(job["metadata"].get(field) or "") for field in ("namespace", "name", "uid"))
    (answer,) = await send([Request("GET", object_path("v1", "configmaps", namespace, config_map_name(name)))])
    try:
        data = next((found.get("data") or {} for found in _of(uid, [answered(answer)])), {})
    except StatusError:
        return {}, []
    parts = ((key.partition("."), str(text)) for key, text in data.items())
    # Failures on record have a number, the oldest first; the others came later.
    ordered = sorted(parts, key=lambda part: int(number) if (number := part[0][0]).isdecimal() else len(data))
    logs = {about.removesuffix(".log"): text for (_, _, about), text in ordered if about.endswith(".log")}
    return logs, [event for (_, _, about), text in ordered if about.endswith("events") for event in _lines_of_json(text)]


def _lines_of_json(text: str) -> list[Object]:
    try:
        return [line for line in msgspec.json.Decoder().decode_lines(text) if isinstance(line, dict)]
    except msgspec.DecodeError:
        return []


async def _last_lines(send: Send, framework: Framework, namespace: str, pods: Sequence[PodView], most: int) -> dict[str, Any]:
    """The last lines of some of the pods that run, or whose init container does, and when the last was printed; if none was
    since, when the container was started. Of those that have succeeded, the last lines alone.
    """
    found: dict[str, dict[str, Any]] = {"printed_at": {}, "last_lines": {}, "tails": {}}
    chosen = [(pod, container) for pod in pods if (container := _running(framework, pod))][:most]
    query = (("tailLines", str(FEW_LINES)), ("timestamps", "true"))
    paths = [f"{object_path('v1', 'pods', namespace, pod.name)}/log" for pod, _ in chosen]
    requests = [Request("GET", path, (("container", one.name), *query)) for path, (_, one) in zip(paths, chosen, strict=True)]
    for (pod, container), answer in zip(chosen, await send(requests) if requests else (), strict=True):
        if answer.status >= 400 or printed_by(answer.body) is None:
            continue
        name = pod.name
        body = with_own_lines(answer.body).decode(errors="replace").removesuffix("\n")
        lines = [line.partition(" ") for line in body.split("\n")] if body else []
        found["tails"][name] = shown_lines("\n".join(line for _, _, line in lines))
        if b"\r" in answer.body.rpartition(b"\n")[2]:
            # A progress bar that goes on. When it has changed is not known.
            continue
        at = parse_time(lines[-1][0]) if lines else pod.start_time
        if at is not None and pod.phase != "Succeeded":
            began = container.state.started_at if isinstance(container.state, Running) else None
            found["printed_at"][name] = max(at, began or at)
            found["last_lines"][name] = next((line.strip() for line in reversed(telling(found["tails"][name]))), "")
    return found


def _running(framework: Framework, pod: PodView) -> ContainerView | None:
    """The container of a pod whose last lines tell what it does or has done; None if none runs."""
    if pod.phase in ("Running", "Succeeded"):
        main = main_container(framework, pod)
        return next((one for one in pod.containers if one.name == main), None)
    inits = (one for one in pod.init_containers if one.restart_policy != "Always" and isinstance(one.state, Running))
    return next(inits, None)


async def _operator(send: Send) -> bool | None:
    """Whether a pod of the operators runs; None if that may not be read."""
    refused: dict[str, str] = {}
    request = Request("GET", collection_path("v1", "pods", None), (("labelSelector", OPERATOR_LABEL),))
    (pods,) = (await _read(send, {"pods": [request]}, refused))["pods"]
    return any((pod.get("status") or {}).get("phase") == "Running" for pod in pods) if not refused else None


def _of(uid: str, items: Iterable[Object]) -> list[Object]:
    return [item for item in items if any(owner.get("uid") == uid for owner in _owners(item))]


def _owners(item: Object) -> list[Object]:
    return [owner for owner in item["metadata"].get("ownerReferences") or () if isinstance(owner, dict)]


def _is_well(pod: PodView) -> bool:
    calm = pod.ready and not any(container.restart_count for container in (*pod.init_containers, *pod.containers))
    return pod.deletion_time is None and (pod.phase == "Succeeded" or (pod.phase == "Running" and calm))


class _FailedRun(NamedTuple):
    """The failed run of a pod's present attempt, its container and whether that runs again."""

    run: Terminated
    container: str
    previous: bool


def _failed_run(framework: Framework, pod: PodView) -> _FailedRun | None:
    earlier, main = last_is_earlier(pod), main_container(framework, pod)
    # Sidecars, which the kubelet stops after the program, come last.
    for container in sorted(
        (*pod.init_containers, *pod.containers), key=lambda one: (one.restart_policy == "Always", one.name != main)
    ):
        for run in (container.state, container.last):
            if isinstance(run, Terminated) and run.exit_code and not (earlier and run is container.last):
                return _FailedRun(run, container.name, run is container.last)
    return None
