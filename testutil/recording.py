"""What a client asks of an API server: a transport that keeps the verbs, as RBAC names them.

::

    recording = Recording(transport)
    await run_operators(recording, [PYTORCH], settings)
    assert recording.verbs == {("", "pods", "list"), …}
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from jobcommon.client.lines import closing
from jobcommon.client.request import MERGE_PATCH, Request, Response, Transport

_WRITES = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True, slots=True)
class Access:
    """One request on a resource ("pods", "pods/status") of an API group; `namespace` is "" for none or all."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str


def access(request: Request) -> Access | None:
    """What a request wants to do; None for what is about no resource, such as discovery.

    Rules: Kubernetes' "Authorization overview", request verbs; a collection that is deleted is `deletecollection`.
    """
    parts = [part for part in request.path.split("/") if part]
    match parts:
        case ["api", _, *rest] if rest:
            group = ""
        case ["apis", group, _, *rest] if rest:
            pass
        case _:
            return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name = "/".join((rest[0], *rest[2:])), rest[1] if len(rest) > 1 else ""
    return Access(_verb(request, name), group, resource, namespace, name)


def _verb(request: Request, name: str) -> str:
    if request.method in _WRITES:
        return _WRITES[request.method]
    if request.method == "DELETE":
        return "delete" if name else "deletecollection"
    if dict(request.query).get("watch") in ("true", "1"):
        return "watch"
    return "get" if name else "list"


@dataclass
class Recording:
    """Passes everything on to `transport` and keeps what was asked."""

    transport: Transport
    asked: set[Access] = field(default_factory=set)
    written: list[tuple[Access, dict[str, Any]]] = field(default_factory=list)

    @property
    def verbs(self) -> set[tuple[str, str, str]]:
        """(group, resource, verb) of all that was asked."""
        return {(a.group, a.resource, a.verb) for a in self.asked}

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        self._keep(request)
        return await self.transport.send(request)

    async def stream(self, request: Request) -> AsyncIterator[bytes]:
        """See `Transport.stream`."""
        self._keep(request)
        async with closing(self.transport.stream(request)) as lines:
            async for line in lines:
                yield line

    async def close(self) -> None:
        """See `Transport.close`."""
        await self.transport.close()

    def _keep(self, request: Request) -> None:
        found = access(request)
        if found is None:
            return
        self.asked.add(found)
        if request.body is not None and (found.verb in ("create", "update") or request.content_type == MERGE_PATCH):
            self.written.append((found, msgspec.json.decode(request.body, type=dict[str, Any])))
