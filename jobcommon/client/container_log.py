"""A container's log from an API server, also when the connection ends before the container does."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.lines import SeenLines
from jobcommon.client.list_watch import Query
from jobcommon.client.log_lines import STAMP, with_own_lines
from jobcommon.client.objects import object_path
from jobcommon.client.request import Request, Transport
from jobcommon.client.responses import answered

PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What is wanted of a log, as in core/v1 PodLogOptions; without `container` that of the only one.

    `live`: of a line that is overwritten by carriage returns, such as a progress bar, also what it shows meanwhile.
    """

    container: str = ""
    follow: bool = False
    previous: bool = False
    tail: int | None = None
    since_seconds: int | None = None
    live: bool = False


class ContainerLogs:
    """The logs of containers by way of an API server. `pause` waits between two reads of a log that is followed.

    A log that is followed is read until its run of the container is over: servers and load balancers end idle streams. Each
    line is requested with its time, so that the log continues after the last one. The server gives the log of the run that
    there is when it is asked: the runs of a container are followed one after the other, and no line is given twice.
    """

    def __init__(self, transport: Transport, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._transport, self._pause = transport, pause
        self._followed: dict[tuple[str, str], tuple[asyncio.Lock, _Seen]] = {}

    async def lines(self, pod: Mapping[str, Any], options: LogOptions) -> AsyncGenerator[str, None]:
        """The lines of a container's log, of an overwritten one what it showed last. What it shows before that is `live`, and
        has a carriage return at its end.

        Raises StatusError; one that is followed is asked for again where that may help, also after a TransportError.
        """
        turn, seen = asyncio.Lock(), _Seen()
        if options.follow:
            turn, seen = self._followed.setdefault((pod["metadata"]["uid"], options.container), (turn, seen))
        async with turn, aclosing(self._read(pod, options, seen)) as lines:
            shown = SeenLines()
            async for line in lines:
                for text in shown.feed(line.decode(errors="replace")):
                    if options.live or not text.endswith("\r"):
                        yield text
            for text in shown.rest():
                yield text

    async def _read(self, pod: Mapping[str, Any], options: LogOptions, seen: "_Seen") -> AsyncGenerator[bytes, None]:
        metadata = pod["metadata"]
        path = object_path("v1", "pods", metadata["namespace"], metadata["name"])
        follow, known = options.follow, not options.follow
        while True:
            seen.start_again()
            try:
                query = _query(options, seen.last, follow=follow)
                async with aclosing(self._transport.stream(Request("GET", f"{path}/log", query))) as lines:
                    async for line in lines:
                        if not known and await self._is_over(path, metadata["uid"], options.container, pod, restarted=True):
                            # The server has begun with the log of the next run, and gives this one as the previous.
                            options, follow = replace(options, follow=False, previous=True), False
                            break
                        known = True
                        if line.endswith(b"\r"):
                            yield line
                            continue
                        line = with_own_lines(line)
                        stamp = STAMP.match(line)
                        if stamp is None:
                            yield line
                        elif seen.is_new(stamp[1]):
                            yield line[stamp.end() :]
            except (TransportError, StatusError) as error:
                if not options.follow or (isinstance(error, StatusError) and not error.passing):
                    raise
                await self._pause(PAUSE)
                continue
            if not known:
                known = True
                continue
            if not follow:
                return
            # The stream may have ended before the run did. What was printed in between is read once the run is over.
            follow = not await self._is_over(path, metadata["uid"], options.container, pod)
            if follow:
                await self._pause(PAUSE)

    async def _is_over(self, path: str, uid: str, container: str, seen: Mapping[str, Any], *, restarted: bool = False) -> bool:
        """Whether the run of the container whose log is followed has ended; or whether the next one has begun (`restarted`)."""
        try:
            pod = answered(await self._transport.send(Request("GET", path)))
        except StatusError as error:
            return not restarted and not error.passing
        except TransportError:
            return False
        before, now = container_status(seen, container), container_status(pod, container)
        same = pod["metadata"]["uid"] == uid and before.get("restartCount", 0) == now.get("restartCount", 0)
        if restarted:
            return not same
        return not same or "running" not in (now.get("state") or {})


def container_status(pod: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What a pod's status says of a container or init container, by default the first; empty when it says nothing."""
    status = pod.get("status") or {}
    statuses = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return next((one for one in statuses if not name or one.get("name") == name), {})


def _query(options: LogOptions, last: bytes, *, follow: bool) -> Query:
    query = [("container", options.container)] if options.container else []
    query += [("timestamps", "true"), *([("follow", "true")] if follow else [])]
    query += [("previous", "true")] if options.previous else []
    if last:
        return (*query, ("sinceTime", last.decode().partition(".")[0].removesuffix("Z") + "Z"))
    query += [("tailLines", str(options.tail))] if options.tail is not None else []
    return (*query, *([("sinceSeconds", str(options.since_seconds))] if options.since_seconds is not None else []))


class _Seen:
    """Which lines were there before the stream broke off: several lines may have the same time."""

    def __init__(self) -> None:
        self.last = b""
        self._with_last = 0
        self._until = b""
        self._to_skip = 0

    def start_again(self) -> None:
        """A new stream begins, at about the last line."""
        self._until, self._to_skip = self.last, self._with_last

    def is_new(self, stamp: bytes) -> bool:
        """Whether the line with this time is one that the streams before did not have."""
        if stamp < self._until:
            return False
        if stamp == self._until and self._to_skip:
            self._to_skip -= 1
            return False
        self._with_last = self._with_last + 1 if stamp == self.last else 1
        self.last = stamp
        return True
