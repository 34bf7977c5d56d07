"""Keeping the logs of failed replicas: reads the ends of their logs, and events, and writes them into the job's ConfigMap.

Each attempt has `LOG_SECONDS`: a node that does not answer holds up a restart or a clean-up no longer than that.
The rights to create and patch ConfigMaps are enough: a JSON patch with a test changes only one that is the job's.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import Any, TypeVar

import msgspec

from jobcommon.api.pod import Terminated, pod_view
from jobcommon.api.template import mappings_in
from jobcommon.client.errors import ClientError, NoLogError, StatusError, TransportError
from jobcommon.client.lines import shown_lines
from jobcommon.client.log_lines import begins_later, printed_by
from jobcommon.client.objects import collection_path, metadata_only, object_path, sent
from jobcommon.client.request import Request, Transport
from jobcommon.client.responses import answered, response_error
from jobcommon.controller.result import Work
from jobcommon.framework import Framework, Job
from jobcommon.manifests.children import CORE
from jobcommon.reconcile.failed_logs import JOB_EVENTS, MAX_EVENT_BYTES, MAX_LOG_BYTES, config_map_name, key_of_events
from jobcommon.reconcile.plan import KeepLog
from jobcommon.runtime.writes import addition_of_logs, creation_with_logs, together

T = TypeVar("T")
LOG_SECONDS = 10.0
"""For reading the logs and events of one plan, all at the same time, and again for each attempt to write them."""
_WRITES = 2
# A run is the present one, then the one before, then gone.
_POSITIONS = 2
# The API server bounds lines and bytes, and cuts off the end of a longer log: then fewer lines are asked for.
_TAILS = (1000, 50)
_MOST_READ = 1 << 20
# What a diagnosis reads of an event.
_FIELDS = ("involvedObject", "type", "reason", "message", "series", "lastTimestamp", "eventTime", "firstTimestamp")


async def keep_logs(framework: Framework, transport: Transport, work: Work) -> ClientError | None:
    """Keep the logs of `work.plan`. Returns the first error; the other logs are kept all the same."""
    if work.job is None:
        return None
    about = {JOB_EVENTS: work.uid, **{key_of_events(log.key): log.uid for log in work.plan.logs}}
    printed = [log for log in work.plan.logs if log.run]
    steps = [(log.key, _attempted(str(log), _end_of(transport, work.namespace, log))) for log in printed]
    steps += [(key, _attempted(key, _events(transport, work.namespace, uid))) for key, uid in about.items()]
    ends = await together(step for _, step in steps)
    kept = {key: end for (key, _), end in zip(steps, ends, strict=True) if isinstance(end, str)}
    written = None
    for _ in range(_WRITES if kept else 0):
        written = await _attempted(config_map_name(work.name), _write(framework, transport, work.job, kept))
        if not isinstance(written, ClientError) or 400 <= getattr(written, "code", 0) < 500:
            break
    return next((error for error in (*ends, written) if isinstance(error, ClientError)), None)


async def _attempted(what: str, step: Coroutine[Any, Any, T]) -> T | ClientError:
    try:
        async with asyncio.timeout(LOG_SECONDS):
            return await step
    except TimeoutError:
        return TransportError(f"{what}: no answer within {LOG_SECONDS:g} s")
    except ClientError as error:
        return error


async def _end_of(transport: Transport, namespace: str, log: KeepLog) -> str:
    """The end of the log of that run. Raises NoLogError if it cannot be had: a container has the logs of two runs."""
    path = object_path(CORE, "pods", namespace, log.pod)
    run, previous = await _position(transport, path, log)
    for _ in range(_POSITIONS):
        read, body = previous, await _read(transport, path, log, previous=previous)
        # The container may have been started again meanwhile.
        run, previous = await _position(transport, path, log)
        if previous is read:
            break
    else:
        raise NoLogError(f"{log}: its container was started again")
    printed = printed_by(body, run)
    if not previous and begins_later(body, run):
        # The kubelet may have started the next run before the API shows it, and serves this one as the previous.
        with suppress(StatusError):
            before = printed_by(await _read(transport, path, log, previous=True), run)
            printed = before if run.started_at is not None and before is not None else printed
    if printed is None:
        raise NoLogError(f"{log}: it is not there: {body.decode(errors='replace').strip()[:200]}")
    # Bytes that are not UTF-8 become longer, and progress bars shorter.
    shown = "\n".join(shown_lines(printed.decode(errors="replace")))
    text = (shown + "\n" * printed.endswith(b"\n")).encode()[-MAX_LOG_BYTES:]
    return text.decode(errors="ignore")


async def _read(transport: Transport, path: str, log: KeepLog, *, previous: bool) -> bytes:
    body = b""
    for lines in _TAILS:
        run = ("container", log.container), ("previous", str(previous).lower()), ("timestamps", "true")
        body = await _got(transport, f"{path}/log", *run, ("tailLines", str(lines)), ("limitBytes", str(_MOST_READ)))
        if len(body) < _MOST_READ:
            return body
    # It is cut off anywhere, also in a time.
    return body[: body.rfind(b"\n") + 1] or body


async def _position(transport: Transport, path: str, log: KeepLog) -> tuple[Terminated, bool]:
    """The run, and whether it is the one before the container's present one. Raises NoLogError if it is neither."""
    pod = pod_view(await _got(transport, path))
    for container in (*pod.init_containers, *pod.containers):
        for run in (container.state, container.last) if container.name == log.container and pod.uid == log.uid else ():
            if isinstance(run, Terminated) and run.container_id == log.run:
                return run, run is container.last
    raise NoLogError(f"{log}: its container was started again")


async def _got(transport: Transport, path: str, *query: tuple[str, str]) -> bytes:
    response = await transport.send(Request("GET", path, query))
    if response.status >= 300:
        raise response_error(response)
    return response.body


async def _events(transport: Transport, namespace: str, uid: str) -> str:
    """The events on an object, each a line of JSON, the latest first."""
    query = ("fieldSelector", f"involvedObject.uid={uid}"), ("limit", "500")
    body = answered(await transport.send(Request("GET", collection_path(CORE, "events", namespace), query)))
    events = [{name: event[name] for name in _FIELDS if event.get(name)} for event in mappings_in(body.get("items"))]
    events.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime")), reverse=True)
    lines = [f"{msgspec.json.encode(event).decode()}\n" for event in events]
    sizes = accumulate(len(line.encode()) for line in lines)
    return "".join(line for line, size in zip(lines, sizes, strict=True) if size <= MAX_EVENT_BYTES)


async def _write(framework: Framework, transport: Transport, job: Job, kept: Mapping[str, str]) -> None:
    """Add to the ConfigMap, or create it; doing it twice is no harm. Raises ClientError, also if it is not the job's."""
    try:
        await sent(transport, metadata_only(addition_of_logs(job, kept)))
    except ClientError as error:
        if getattr(error, "code", 0) != 404:
            raise
        await sent(transport, metadata_only(creation_with_logs(framework, job, kept)))
