"""Reading and changing objects on any cluster, with errors that name the right or the kubeconfig that is missing."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from jobcommon.cli.errors import JOB_FAILED, UserError, first_of
from jobcommon.client.config import ConfigError, find_cluster
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.request import Request, Transport
from jobcommon.client.status import response_error
from jobcommon.client.transport import HttpTransport

Object = dict[str, Any]
Query = tuple[tuple[str, str], ...]

PAGE = 500
AT_ONCE = 16
# What a reader may lack without the command failing: rights, kinds, and servers behind an aggregated API.
_ABSENT = (403, 404, 405, 503)
_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)


@dataclass(frozen=True)
class Place:
    """Where a command acts: a kubeconfig and context (None: the usual ones), and a namespace (None: the context's)."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None


@dataclass(frozen=True)
class Api:
    """An API server, and the namespace in which the command acts. Refusals raise StatusError."""

    transport: Transport
    namespace: str

    async def get(self, path: str, query: Query = ()) -> Object:
        """One object, or one page of a list."""
        return await self.send(Request("GET", path, query))

    async def items(self, path: str, query: Query = ()) -> list[Object]:
        """All objects of a list, page by page."""
        found: list[Object] = []
        more = ""
        while True:
            page = await self.get(path, (*query, ("limit", str(PAGE)), *((("continue", more),) if more else ())))
            found += page.get("items") or ()
            more = (page.get("metadata") or {}).get("continue") or ""
            if not more:
                return found

    async def items_if_allowed(self, path: str, query: Query, unread: dict[str, str]) -> list[Object]:
        """The same of what is not indispensable; why it could not be read is added to `unread`, but not a kind's absence."""
        try:
            return await self.items(path, query)
        except StatusError as error:
            if error.code not in _ABSENT:
                raise
            if error.code == 403:
                unread[path.rpartition("/")[2]] = explained(error)
            return []

    async def send(self, request: Request) -> Object:
        """The object that answers a request."""
        response = await self.transport.send(request)
        if response.status >= 400:
            raise response_error(response)
        try:
            return msgspec.json.decode(response.body, type=dict[str, Any])
        except msgspec.DecodeError:
            text = f"{request.path}: the answer does not come from an API server"
            raise StatusError(response.status, message=text) from None


@asynccontextmanager
async def connected(place: Place) -> AsyncIterator[Api]:
    """The cluster at `place`. Errors of the kubeconfig, the connection and the server are raised as `UserError`."""
    try:
        cluster = await find_cluster(place.kubeconfig, place.context)
        transport = HttpTransport(cluster, concurrency=AT_ONCE)
        try:
            yield Api(transport, place.namespace or cluster.namespace)
        finally:
            await transport.close()
    except ConfigError as error:
        raise UserError(str(error)) from None
    except StatusError as error:
        raise UserError(explained(error), JOB_FAILED) from None
    except ClientError as error:
        text = f"the API server at {cluster.base_url} does not answer: {error}"
        raise UserError(f"{text}; check the kubeconfig with: kubectl cluster-info", JOB_FAILED) from None
    except ExceptionGroup as group:
        first = first_of(group)
        if isinstance(first, ClientError):
            raise UserError(explained(first) if isinstance(first, StatusError) else str(first), JOB_FAILED) from None
        raise


def explained(error: StatusError) -> str:
    """The refusal in words: for a missing right, which one, and the rule that grants it."""
    if error.code == 401:
        return "the API server does not accept the credentials of the kubeconfig; log in again, see: kubectl auth whoami"
    found = _FORBIDDEN.search(error.message)
    if error.code != 403 or found is None:
        return error.message or str(error)
    right = found.groupdict(default="")
    where = f" in namespace {right['namespace']}" if right["namespace"] else " in the whole cluster"
    rule: Mapping[str, list[str]] = {
        "apiGroups": [right["group"]], "resources": [right["resource"]], "verbs": [right["verb"]],
    }  # fmt: skip
    kind = "Role" if right["namespace"] else "ClusterRole"
    return (
        f"{right['user']} may not {right['verb']} {right['resource']}{where}; "
        f"ask for a {kind} with the rule {msgspec.json.encode(rule).decode()}"
    )


async def together(*reads: Any) -> list[Any]:
    """The results of several reads, made at the same time."""
    return list(await asyncio.gather(*reads))
