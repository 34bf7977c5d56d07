"""A list and a watch of one collection: every object there is, then every change of one."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport

_PAUSE = 0.2


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """An object in its current state, or in its last one if it is `deleted`."""

    body: dict[str, Any]
    deleted: bool = False


async def list_and_watch(transport: Transport, path: str) -> AsyncGenerator[WatchEvent, None]:
    """Every state of the objects at `path`. What was deleted while the watch was interrupted is reported afterwards."""
    known: dict[str, dict[str, Any]] = {}
    while True:
        try:
            listing = json.loads((await transport.send(Request("GET", path))).body)
            present = {item["metadata"]["uid"]: item for item in listing["items"]}
            for uid in known.keys() - present.keys():
                yield WatchEvent(known.pop(uid), deleted=True)
            for uid, item in present.items():
                known[uid] = item
                yield WatchEvent(item)
            query = (("watch", "true"), ("resourceVersion", listing["metadata"]["resourceVersion"]))
            async with aclosing(transport.stream(Request("GET", path, query))) as lines:  # type: ignore[type-var]
                async for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    item, deleted = event["object"], event["type"] == "DELETED"
                    if deleted:
                        known.pop(item["metadata"]["uid"], None)
                    else:
                        known[item["metadata"]["uid"]] = item
                    yield WatchEvent(item, deleted)
        except (ClientError, KeyError, json.JSONDecodeError):
            # What is not served any more is answered with "404 page not found", which is no JSON.
            await asyncio.sleep(_PAUSE)
