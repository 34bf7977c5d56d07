"""Containers' logs from an API server, also when the connection ends before the container does."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from jobcommon.cli.jobs.access import Api, Query
from jobcommon.cli.pod_state import container_status
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.objects import object_path
from jobcommon.client.request import Request
from jobcommon.localcluster.pod_backend import LogOptions, PodBackendError

PAUSE = 0.5
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) ?")


class ApiLogs:
    """A `jobcommon.cli.watch.Logs` over an API server.

    A log that is followed is read until its run of the container is over: servers and load balancers end idle streams. Each
    line is requested with its time, so that the log continues after the last one. The server gives the log of the run that
    there is when it is asked: the runs of a container are followed one after the other, and no line is given twice.
    """

    def __init__(self, api: Api, tail_lines: int | None = None) -> None:
        self._api = api
        self._tail = tail_lines
        self._followed: dict[tuple[str, str], tuple[asyncio.Lock, _Seen]] = {}

    async def logs(self, pod: Mapping[str, Any], options: LogOptions) -> AsyncIterator[bytes]:
        """See `jobcommon.cli.watch.Logs`."""
        turn, seen = asyncio.Lock(), _Seen()
        if options.follow:
            turn, seen = self._followed.setdefault((pod["metadata"]["uid"], options.container), (turn, seen))
        async with turn, aclosing(self._read(pod, options, seen)) as lines:  # type: ignore[type-var]
            async for line in lines:
                yield line

    async def _read(self, pod: Mapping[str, Any], options: LogOptions, seen: "_Seen") -> AsyncIterator[bytes]:
        metadata = pod["metadata"]
        path = object_path("v1", "pods", metadata["namespace"], metadata["name"])
        follow = options.follow
        while True:
            seen.start_again()
            try:
                query = self._query(options, seen.last, follow=follow)
                async with aclosing(self._api.transport.stream(Request("GET", f"{path}/log", query))) as lines:  # type: ignore[type-var]
                    async for line in lines:
                        stamp = _STAMP.match(line)
                        if stamp is None:
                            yield line + b"\n"
                        elif seen.is_new(stamp[1]):
                            yield line[stamp.end() :] + b"\n"
            except StatusError as error:
                raise PodBackendError(error.message, error.code) from None
            except TransportError:
                if not options.follow:
                    raise
                await asyncio.sleep(PAUSE)
                continue
            if not follow:
                return
            # The stream may have ended before the run did. What was printed in between is read once the run is over.
            follow = not await self._is_over(path, metadata["uid"], options.container, pod)
            if follow:
                await asyncio.sleep(PAUSE)

    def _query(self, options: LogOptions, last: bytes, *, follow: bool) -> Query:
        query = [("container", options.container), ("timestamps", "true")]
        query += [("follow", "true")] if follow else []
        query += [("previous", "true")] if options.previous else []
        if last:
            query.append(("sinceTime", last.decode().partition(".")[0].removesuffix("Z") + "Z"))
        elif options.tail_lines is not None or self._tail is not None:
            query.append(("tailLines", str(self._tail if options.tail_lines is None else options.tail_lines)))
        if options.since_seconds is not None and not last:
            query.append(("sinceSeconds", str(options.since_seconds)))
        return tuple(query)

    async def _is_over(self, path: str, uid: str, container: str, seen: Mapping[str, Any]) -> bool:
        """Whether the run of the container whose log was followed has ended."""
        try:
            pod = await self._api.get(path)
        except StatusError as error:
            return error.code != 429
        except TransportError:
            return False
        before, now = container_status(seen, container), container_status(pod, container)
        same = pod["metadata"]["uid"] == uid and before.get("restartCount", 0) == now.get("restartCount", 0)
        return not same or "running" not in (now.get("state") or {})


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
