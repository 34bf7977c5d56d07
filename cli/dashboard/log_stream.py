"""A container's log as server-sent events, for the page that follows it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from aiohttp import web

from jobcommon.api.text import clean
from jobcommon.cli.dashboard.cluster import KEPT_SECONDS, ClusterReader
from jobcommon.cli.pod_state import SPARE_STATE, describe
from jobcommon.client.container_log import ContainerLogs, LogOptions, container_status
from jobcommon.client.errors import ClientError

Sleep = Callable[[float], Awaitable[None]]
TAIL_LINES = 500
ENDED = "The log has ended."


async def stream_log(request: web.Request, cluster: ClusterReader) -> web.StreamResponse:
    """Send what `log_events` gives, and at the end an event ``ended`` that says why."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    of = request.match_info["namespace"], request.match_info["name"], request.query.get("container", "")
    why = ENDED
    try:
        async with aclosing(log_events(cluster, *of)) as events:
            async for event in events:
                await response.write(event)
    except ClientError as error:
        why = f"The log cannot be read: {error}"
    await response.write(event_of(why, "ended"))
    return response


async def log_events(
    cluster: ClusterReader, namespace: str, pod: str, container: str, sleep: Sleep = asyncio.sleep
) -> AsyncGenerator[bytes, None]:
    """Each line as an event, as long as the container runs; until it starts, events ``waiting`` say what it waits for.

    An event ``frame`` is what a line shows that is not complete, such as a progress bar, until the next frame or line.

    Raises `ClientError`.
    """
    while why := waiting_for(found := await cluster.pod(namespace, pod), container):
        yield event_of(f"The container has not started: {why}.", "waiting")
        await sleep(KEPT_SECONDS)
    wanted = LogOptions(container, follow=True, tail=TAIL_LINES, live=True)
    async with aclosing(ContainerLogs(cluster.transport, sleep).lines(found, wanted)) as lines:
        async for line in lines:
            yield event_of(clean(line), "frame" if line.endswith("\r") else "")


def waiting_for(pod: Mapping[str, Any], container: str) -> str:
    """Why a container has no log yet, in a word or two; "" when it has one, or never will.

    Of a pod that no node has yet, an API server answers with an empty log.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    known = [one.get("name") for one in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))]
    if container not in known or status.get("phase") in ("Succeeded", "Failed"):
        return ""
    of_it = container_status(pod, container)
    state = of_it.get("state") or {}
    if "running" in state or "terminated" in state or "terminated" in (of_it.get("lastState") or {}):
        return ""
    of_pod = describe(pod)
    return of_pod if of_pod == SPARE_STATE else str((state.get("waiting") or {}).get("reason") or of_pod)


def event_of(text: str, kind: str = "") -> bytes:
    """One server-sent event. A carriage return would end a line of the format."""
    name = f"event: {kind}\n" if kind else ""
    lines = "".join(f"data: {part}\n" for part in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    return f"{name}{lines}\n".encode(errors="replace")
