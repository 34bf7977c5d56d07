"""What the controllers see of an API server elsewhere: its objects by list and watch, its answers to their writes."""

import asyncio
import http.client
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec

from localcluster.apiserver.env import Env
from localcluster.apiserver.registry import CRD_TABLE
from localcluster.apiserver.resource import Resource
from localcluster.apiserver.storage import ADDED, DELETED, MODIFIED, Change, Item, Obj, Storage
from localcluster.apiserver.users import User
from localcluster.http_client import Endpoint, HttpTransport
from localcluster.kubelet.api import Api, Informer
from localcluster.request import Request, Response

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#: The same objects as those of the core group.
_TWICE = "events.events.k8s.io"
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


class _Discovered:
    """The resources that the server says that it has, each in the version it prefers."""

    def __init__(self) -> None:
        self.by_table: dict[str, Resource] = {}

    def add(self, resource: Resource) -> bool:
        """Whether it is new and its objects can be followed."""
        table = resource.storage_key
        new = table not in self.by_table and table != _TWICE and {"list", "watch", "delete"} <= {*resource.verbs}
        if new:
            self.by_table[table] = resource
        return new

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """See `Resources`."""
        return next(self.where(lambda one: (one.group, one.version, one.plural) == (group, version, plural)), None)

    def stored_as(self, table: str) -> Resource | None:
        """See `Resources`."""
        return self.by_table.get(table)

    def where(self, condition: Callable[[Resource], bool]) -> Iterator[Resource]:
        """See `Resources`."""
        return filter(condition, tuple(self.by_table.values()))


class Mirror:
    """A `Server` at `endpoint`. Its writes block: it is for a process of its own."""

    behind = True

    def __init__(self, endpoint: Endpoint) -> None:
        self.env = Env.system()
        self.storage = _Objects(history=1)
        self.registry = _Discovered()
        self._endpoint = endpoint
        self._connection: http.client.HTTPConnection | None = None
        self._following: dict[str, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        """Follow every resource while the context lasts; the store is complete on entry. Raises ClientError."""
        transport = HttpTransport(self._endpoint, user_agent="controllers")
        self._api = Api(transport)
        try:
            await asyncio.gather(*[self._start(one).wait() async for one in _resources(transport) if self.registry.add(one)])
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
                self._defined(new, (new or old or {})["metadata"]["name"])

        root = f"/apis/{resource.group}" if resource.group else "/api"
        informer = Informer(self._api, f"{root}/{resource.version}/{resource.plural}", changed)
        self._following[table] = asyncio.create_task(informer.run())
        return informer.synced

    def _defined(self, definition: Obj | None, table: str) -> None:
        """A CustomResourceDefinition has changed, or is gone with its objects."""
        if definition is None:
            self.registry.by_table.pop(table, None)
            if table in self._following:
                self._following.pop(table).cancel()
            for item in self.storage.table(table).items():
                self.storage.hold(table, item.obj, None)
            return
        conditions = (definition.get("status") or {}).get("conditions") or ()
        spec = definition["spec"]
        names, versions = spec["names"], [one["name"] for one in spec["versions"] if one["served"]]
        if any(one["type"] == "Established" and one["status"] == "True" for one in conditions) and versions:
            resource = Resource(spec["group"], versions[0], names["plural"], names["kind"], spec["scope"] == "Namespaced")
            if self.registry.add(resource):
                self._start(resource)

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


async def _resources(transport: HttpTransport) -> AsyncIterator[Resource]:
    for path in ("/api", "/apis"):
        answer = await transport.send(Request("GET", path, headers={"Accept": _DISCOVERY}))
        for group in msgspec.json.decode(answer.body)["items"]:
            for version in group["versions"]:
                for one in version["resources"]:
                    kind, namespaced = one["responseKind"]["kind"], one["scope"] == "Namespaced"
                    name = group["metadata"].get("name") or ""
                    yield Resource(name, version["version"], one["resource"], kind, namespaced, verbs=tuple(one["verbs"]))
