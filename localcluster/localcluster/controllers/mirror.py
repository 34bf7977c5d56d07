"""What the controllers see of an API server elsewhere: its objects by list and watch, its answers to their writes."""

import asyncio
import http.client
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from localcluster.apiserver.env import Env
from localcluster.apiserver.registry import CRD_TABLE, Registry
from localcluster.apiserver.resource import Resource
from localcluster.apiserver.storage import ADDED, DELETED, MODIFIED, Change, Item, Obj, Storage
from localcluster.apiserver.users import User
from localcluster.http_client import Endpoint, HttpTransport
from localcluster.kubelet.api import Api, Informer
from localcluster.request import Request, Response

_NEEDED = {"list", "watch", "delete"}
_SECONDS = 30.0
#: What passes once the mirror has caught up, or the server has: the write is due again.
_AGAIN = (409, 429)


class _Objects(Storage):
    """A store whose objects keep the version that their server gave them."""

    def hold(self, table: str, old: Obj | None, new: Obj | None) -> None:
        """The object as it is now, None if it is gone."""
        meta = (new or old or {})["metadata"]
        namespace, name = meta.get("namespace") or "", meta["name"]
        self.rv += 1
        place, before = self.table(table), self.table(table).get(namespace, name)
        item = Item(namespace, name, int(meta["resourceVersion"]), new or old or {})
        if new is not None:
            place.set(item)
        elif before is not None:
            place.drop(before)
        kind = DELETED if new is None else MODIFIED if before else ADDED
        self._publish(place, Change(table, kind, self.rv, item, before))


class Mirror:
    """A `Server` at `endpoint`. Its writes block: it is for a process of its own."""

    behind = True

    def __init__(self, endpoint: Endpoint) -> None:
        self.env = Env.system()
        self.storage = _Objects(history=1)
        self.registry = Registry(self.storage, _custom)
        self._endpoint = endpoint
        self._connection: http.client.HTTPConnection | None = None
        self._following: dict[str, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        """Follow every resource while the context lasts; the store is complete on entry. Raises ClientError."""
        transport = HttpTransport(self._endpoint, user_agent="controllers")
        self._api = Api(transport)
        try:
            roots = {_root(one) for one in self.registry.all()}
            served = {root: await self._api.get(root) or {"resources": ()} for root in roots}
            there = {(root, one["name"]) for root, found in served.items() for one in found["resources"]}
            known = [one for one in self.registry.all() if (_root(one), one.plural) in there and {*one.verbs} >= _NEEDED]
            await asyncio.gather(*[self._start(one).wait() for one in known])
            yield
        finally:
            for task in self._following.values():
                task.cancel()
            await asyncio.gather(*self._following.values(), return_exceptions=True)
            await transport.close()

    def _start(self, resource: Resource) -> asyncio.Event:
        """Follow a resource; the event is set when its objects are there."""
        table = resource.storage_key

        def changed(old: Obj | None, new: Obj | None) -> None:
            self.storage.hold(table, old, new)
            if table == CRD_TABLE:
                self._follow_definitions()

        informer = Informer(self._api, f"{_root(resource)}/{resource.plural}", changed)
        self._following[table] = asyncio.create_task(informer.run())
        return informer.synced

    def _follow_definitions(self) -> None:
        """Follow the custom resources there are: one is listed in vain until its definition is established."""
        for resource in self.registry.where(lambda one: one.custom):
            if resource.storage_key not in self._following:
                self._start(resource)
        for table in [table for table in self._following if self.registry.stored_as(table) is None]:
            self._following.pop(table).cancel()
            for item in [*self.storage.table(table).items()]:
                self.storage.hold(table, item.obj, None)

    def handle(self, request: Request, user: User | None = None) -> Response:
        """One request; a status of 500 and more says that it is due again."""
        headers = {"Content-Type": request.content_type, "Authorization": f"Bearer {self._endpoint.token}"}
        headers["User-Agent"] = user.name if user else "controllers"
        for last in (False, True):
            connection = self._connection = self._connection or self._connected()
            try:
                connection.request(request.method, request.target, request.body, headers)
                answer = connection.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._connection = None
                # A connection that was kept may have been closed meanwhile.
                if last:
                    return Response(503, str(error).encode())
                continue
            return Response(503 if answer.status in _AGAIN else answer.status, body)
        raise AssertionError("unreachable")

    def _connected(self) -> http.client.HTTPConnection:
        at = urlsplit(self._endpoint.base_url)
        return http.client.HTTPSConnection(at.netloc, timeout=_SECONDS, context=self._endpoint.ssl_context)


def _root(resource: Resource) -> str:
    return f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"


def _custom(definition: Obj) -> list[Resource]:
    """The resources of a definition, without their schemas."""
    spec = definition["spec"]
    names, namespaced = spec["names"], spec["scope"] == "Namespaced"
    return [
        Resource(spec["group"], one["name"], names["plural"], names["kind"], namespaced, crd_version=one)
        for one in spec["versions"]
        if one["served"]
    ]
