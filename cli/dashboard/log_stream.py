"""A container's log as server-sent events, for the page that follows it."""

from collections.abc import AsyncIterator

from aiohttp import web

from jobcommon.cli.dashboard.cluster import ClusterReader
from jobcommon.client.errors import ClientError
from jobcommon.client.lines import closing

TAIL_LINES = 500
ENDED = "The log has ended."


async def stream_log(request: web.Request, cluster: ClusterReader) -> web.StreamResponse:
    """Send each line as an event, and at the end an event ``ended`` that says why; lasts as long as the container runs."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    of = request.match_info["namespace"], request.match_info["name"], request.query.get("container", "")
    why = ENDED
    try:
        async with closing(_encoded(cluster, *of)) as events:
            async for event in events:
                await response.write(event)
    except ClientError as error:
        why = f"The log cannot be read: {error}"
    await response.write(event_of(why, "ended"))
    return response


async def _encoded(cluster: ClusterReader, namespace: str, pod: str, container: str) -> AsyncIterator[bytes]:
    async for line in cluster.log_lines(namespace, pod, container, tail=TAIL_LINES):
        yield event_of(line)


def event_of(text: str, kind: str = "") -> bytes:
    """One server-sent event. A carriage return, as a progress bar prints it, would end a line of the format."""
    name = f"event: {kind}\n" if kind else ""
    lines = "".join(f"data: {part}\n" for part in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    return f"{name}{lines}\n".encode(errors="replace")
