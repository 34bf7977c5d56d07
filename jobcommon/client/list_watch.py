"""A list and a watch of one collection: every object there is, then every change of one."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.request import Request, Transport
from jobcommon.client.responses import answered

Query = tuple[tuple[str, str], ...]
_PAUSE = 0.2
_NOT_ALLOWED = (401, 403)
_WATCH_SECONDS = 240
# The server ends a watch when its time is over. One that is silent for longer has lost its connection without a sign.
SILENCE_SECONDS = 10.0
#: What a list or a watch may end with, other than being refused: the next read says how it is with the server.
INTERRUPTED = (ClientError, TimeoutError, KeyError, ValueError)


@dataclass(frozen=True, slots=True)
class WatchedObject:
    """An object in its current state, or in its last one if it is `deleted`."""

    body: dict[str, Any]
    deleted: bool = False


async def watch(
    transport: Transport, path: str, query: Query, version: str, seconds: int
) -> AsyncGenerator[WatchedObject, None]:
    """The changes at `path` since `version`, for that many seconds or until the server ends it.

    Raises StatusError when it is refused, and one of `INTERRUPTED` when it breaks off.
    """
    query = (*query, ("watch", "true"), ("resourceVersion", version), ("timeoutSeconds", str(seconds)))
    async with aclosing(transport.stream(Request("GET", path, query))) as lines:
        while True:
            async with asyncio.timeout(seconds + SILENCE_SECONDS):
                line = await anext(lines, None)
            event: dict[str, Any] = json.loads(line) if line is not None else {}
            if not event or event["type"] == "ERROR":
                return
            yield WatchedObject(event["object"], event["type"] == "DELETED")


async def list_and_watch(transport: Transport, path: str, query: Query = ()) -> AsyncGenerator[WatchedObject, None]:
    """Every state of the objects at `path` that `query` selects. What was deleted while the watch was interrupted is reported
    afterwards.

    Raises StatusError when they may not be read; anything else is tried again.
    """
    known: dict[str, dict[str, Any]] = {}
    while True:
        try:
            listing = answered(await transport.send(Request("GET", path, query)))
            present = {item["metadata"]["uid"]: item for item in listing["items"]}
            for uid in known.keys() - present.keys():
                yield WatchedObject(known.pop(uid), deleted=True)
            for uid, item in present.items():
                known[uid] = item
                yield WatchedObject(item)
            changes = watch(transport, path, query, listing["metadata"]["resourceVersion"], _WATCH_SECONDS)
            async with aclosing(changes):
                async for change in changes:
                    uid = change.body["metadata"]["uid"]
                    if change.deleted:
                        known.pop(uid, None)
                    else:
                        known[uid] = change.body
                    yield change
        except INTERRUPTED as error:
            if isinstance(error, StatusError) and error.code in _NOT_ALLOWED:
                raise
            await asyncio.sleep(_PAUSE)
