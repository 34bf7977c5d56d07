"""Following a collection: what is there, then every change, for as long as the caller likes."""

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
class Seen:
    """An object as it is now, or as it last was when it is `gone`."""

    body: dict[str, Any]
    gone: bool = False


async def follow(transport: Transport, path: str) -> AsyncGenerator[Seen, None]:
    """Every state of the objects at `path`. What vanished while a watch was interrupted is reported as gone afterwards."""
    known: dict[str, dict[str, Any]] = {}
    while True:
        try:
            listing = json.loads((await transport.send(Request("GET", path))).body)
            present = {item["metadata"]["uid"]: item for item in listing["items"]}
            for uid in known.keys() - present.keys():
                yield Seen(known.pop(uid), gone=True)
            for uid, item in present.items():
                known[uid] = item
                yield Seen(item)
            query = (("watch", "true"), ("resourceVersion", listing["metadata"]["resourceVersion"]))
            async with aclosing(transport.stream(Request("GET", path, query))) as lines:  # type: ignore[type-var]
                async for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    item, gone = event["object"], event["type"] == "DELETED"
                    if gone:
                        known.pop(item["metadata"]["uid"], None)
                    else:
                        known[item["metadata"]["uid"]] = item
                    yield Seen(item, gone)
        except (ClientError, KeyError, json.JSONDecodeError):
            # What is not served any more is answered with "404 page not found", which is no JSON.
            await asyncio.sleep(_PAUSE)
