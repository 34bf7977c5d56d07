"""A list and a watch of one collection: every object there is, then every change of one."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.request import Request, Transport
from jobcommon.client.status import response_error

_PAUSE = 0.2
_NOT_ALLOWED = (401, 403)
# The server ends a watch after this time. One that is silent for longer has lost its connection without a sign.
_WATCH_SECONDS = 240
_SILENCE = 270.0


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """An object in its current state, or in its last one if it is `deleted`."""

    body: dict[str, Any]
    deleted: bool = False


async def list_and_watch(
    transport: Transport, path: str, query: tuple[tuple[str, str], ...] = (), seen: Iterable[dict[str, Any]] = ()
) -> AsyncGenerator[WatchEvent, None]:
    """Every state of the objects at `path` that `query` selects. What was deleted while the watch was interrupted is reported
    afterwards, and so is what is in `seen` and no longer there.

    Raises StatusError when they may not be read; anything else is tried again.
    """
    known: dict[str, dict[str, Any]] = {item["metadata"]["uid"]: item for item in seen}
    while True:
        try:
            response = await transport.send(Request("GET", path, query))
            if response.status in _NOT_ALLOWED:
                raise response_error(response)
            listing = json.loads(response.body)
            present = {item["metadata"]["uid"]: item for item in listing["items"]}
            for uid in known.keys() - present.keys():
                yield WatchEvent(known.pop(uid), deleted=True)
            for uid, item in present.items():
                known[uid] = item
                yield WatchEvent(item)
            version = listing["metadata"]["resourceVersion"]
            watch = (*query, ("watch", "true"), ("resourceVersion", version), ("timeoutSeconds", str(_WATCH_SECONDS)))
            async with aclosing(transport.stream(Request("GET", path, watch))) as lines:  # type: ignore[type-var]
                while (line := await _next(lines)) is not None:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    item, deleted = event["object"], event["type"] == "DELETED"
                    if deleted:
                        known.pop(item["metadata"]["uid"], None)
                    else:
                        known[item["metadata"]["uid"]] = item
                    yield WatchEvent(item, deleted)
        except (ClientError, TimeoutError, KeyError, json.JSONDecodeError) as error:
            if isinstance(error, StatusError) and error.code in _NOT_ALLOWED:
                raise
            # What is not served any more is answered with "404 page not found", which is no JSON.
            await asyncio.sleep(_PAUSE)


async def _next(lines: AsyncIterator[bytes]) -> bytes | None:
    """The next line; None at the end. Raises TimeoutError when the connection is lost."""
    async with asyncio.timeout(_SILENCE):
        return await anext(lines, None)
