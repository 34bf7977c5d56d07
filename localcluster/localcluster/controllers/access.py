"""How controllers reach the API server: reads from its store, writes as requests.

Reads see stored objects (without apiVersion and kind, never to be mutated). Writes go through `ApiServer.handle`, so they
pass the same checks, and are watched like those of any client.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

import msgspec

from localcluster.apiserver.authentication import MASTERS, User
from localcluster.apiserver.registry import Registry
from localcluster.apiserver.resource import Resource
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Change, Item, Table
from localcluster.request import JSON, MERGE_PATCH, Request, Response

Obj = dict[str, Any]


class Access:
    """One controller's view of the server; its writes carry the controller's own name."""

    def __init__(self, server: ApiServer, name: str) -> None:
        self._server = server
        self.user = User(f"system:kube-controller-manager:{name}", (MASTERS,))

    @property
    def now(self) -> float:
        """The server's time in Unix seconds."""
        return self._server.env.now()

    @property
    def registry(self) -> Registry:
        """The resources that are served."""
        return self._server.registry

    def feed(self) -> deque[Change]:
        """Every change of the store from now on."""
        return self._server.storage.feed()

    def tables(self) -> Iterable[Table]:
        """All tables of the store."""
        return self._server.storage.tables.values()

    def items(self, table: str, namespace: str | None = None) -> Iterator[Item]:
        """The stored objects of a table."""
        return self._server.storage.table(table).items(namespace)

    def get(self, table: str, namespace: str, name: str) -> Item | None:
        """One stored object."""
        return self._server.storage.table(table).get(namespace, name)

    def path(self, resource: Resource, namespace: str, name: str = "", subresource: str = "") -> str:
        """The URL path of an object or collection."""
        root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        parts = [root, *(["namespaces", quote(namespace)] if namespace else []), resource.plural]
        parts += [quote(part) for part in (name, subresource) if part]
        return "/".join(parts)

    def send(self, method: str, path: str, body: Obj | None = None, content_type: str = JSON) -> Response:
        """Send a request as this controller."""
        encoded = None if body is None else msgspec.json.encode(body)
        return self._server.handle(Request(method, path, (), encoded, content_type), self.user)

    def delete(self, resource: Resource, item: Item, policy: str = "Background") -> Response:
        """Delete exactly this object: the uid is a precondition."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy, "preconditions": {"uid": item.uid}}
        return self.send("DELETE", self.path(resource, item.namespace, item.name), options)

    def set_finalizers(self, resource: Resource, item: Item, finalizers: list[str]) -> Response:
        """Replace the finalizers of exactly this version of the object."""
        meta = {"uid": item.uid, "resourceVersion": str(item.rv), "finalizers": finalizers or None}
        return self.send("PATCH", self.path(resource, item.namespace, item.name), {"metadata": meta}, MERGE_PATCH)
