"""The few API calls the kubelet makes, over any `Transport`."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from localcluster.request import JSON, STRATEGIC_PATCH, ClientError, Request, StatusError, Transport, refusal

Object = dict[str, Any]


class Api:
    """JSON in, JSON out. Every call raises `StatusError` for a status of 400 or more, `TransportError` without an answer."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, content_type: str = JSON) -> Object:
        """One request with an optional JSON body."""
        payload = None if body is None else json.dumps(body).encode()
        response = await self._transport.send(Request(method, path, body=payload, content_type=content_type))
        if response.status >= 400:
            raise refusal(response.status, response.body)
        answer: Object = json.loads(response.body) if response.body else {}
        return answer

    async def get(self, path: str) -> Object | None:
        """The object at `path`, or None when there is none."""
        try:
            return await self.call("GET", path)
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def patch(self, path: str, body: Mapping[str, Any]) -> Object:
        """A strategic merge patch: conditions others have set are kept."""
        return await self.call("PATCH", path, body, STRATEGIC_PATCH)

    def stream(self, path: str, query: tuple[tuple[str, str], ...]) -> AsyncIterator[bytes]:
        """The lines of a watch."""
        return self._transport.stream(Request("GET", path, query))


def object_path(plural: str, namespace: str, name: str, subresource: str = "") -> str:
    """The path of a core/v1 object."""
    path = f"/api/v1/namespaces/{quote(namespace)}/{plural}/{quote(name)}"
    return f"{path}/{subresource}" if subresource else path


class Informer:
    """The current objects at the path of one resource, in all namespaces, by (namespace, name).

    `changed` is called with (old, new) for every change, either of them None; it must not block. `synced` is set after the
    first list. Losing the watch leads to a new list, whose differences are reported like any other change.
    """

    def __init__(self, api: Api, path: str, changed: Callable[[Object | None, Object | None], None]) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.synced = asyncio.Event()
        self._api = api
        self._path = path
        self._changed = changed

    async def run(self) -> None:
        """Follow the resource until cancelled."""
        delay = 0.05
        while True:
            try:
                version = await self._list()
                self.synced.set()
                delay = 0.05
                while version:
                    version = await self._watch(version)
            except ClientError:
                pass
            await asyncio.sleep(delay)
            delay = min(2 * delay, 5.0)

    async def _list(self) -> str:
        answer = await self._api.call("GET", self._path)
        fresh = {_key(item): item for item in answer.get("items") or []}
        for key in [key for key in self.objects if key not in fresh]:
            self._set(key, None)
        for key, item in fresh.items():
            self._set(key, item)
        return str(answer["metadata"]["resourceVersion"])

    async def _watch(self, version: str) -> str:
        """Follow from `version`; the version to go on from, "" when a new list is due."""
        begun = version
        query = (("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", version))
        async for line in self._api.stream(self._path, query):
            event = json.loads(line)
            item = event["object"]
            if event["type"] == "ERROR":
                return ""
            version = item["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                self._set(_key(item), None if event["type"] == "DELETED" else item)
        # A stream that ended without an event may do so again at once: the list's back-off bounds the rate.
        return version if version != begun else ""

    def _set(self, key: tuple[str, str], item: Object | None) -> None:
        old = self.objects.pop(key, None) if item is None else self.objects.get(key)
        if item is not None:
            self.objects[key] = item
        if old is not item and (old or item):
            self._changed(old, item)


def _key(item: Object) -> tuple[str, str]:
    return item["metadata"].get("namespace") or "", item["metadata"]["name"]


async def with_retries(attempt: Callable[[], Awaitable[Object | None]], tries: int = 6) -> Object | None:
    """Repeat `attempt` while the server is overloaded or unreachable; other refusals are raised."""
    delay = 0.05
    for left in reversed(range(tries)):
        try:
            return await attempt()
        except ClientError as error:
            passing = not isinstance(error, StatusError) or error.code in (429, 500, 503, 504)
            if not passing or not left:
                raise
        await asyncio.sleep(delay)
        delay *= 3
    raise AssertionError("unreachable")
