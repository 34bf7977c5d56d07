"""Reading and changing objects on any cluster, with errors that name the right or the kubeconfig that is missing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from jobcommon.cli.errors import JOB_FAILED, UserError, first_of
from jobcommon.client.config import find_cluster
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.forbidden import explained
from jobcommon.client.request import Request, Response, Transport
from jobcommon.client.responses import answered
from jobcommon.client.transport import HttpTransport

Object = dict[str, Any]
Query = tuple[tuple[str, str], ...]

PAGE = 500
AT_ONCE = 16


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
        return [item async for page in pages(lambda more: self.get(path, (*query, *more))) for item in page.get("items") or ()]

    async def send(self, request: Request) -> Object:
        """The object that answers a request."""
        return answered(await self.transport.send(request))

    async def send_all(self, requests: Sequence[Request]) -> list[Response]:
        """The responses to several requests, sent at the same time, whatever their status."""
        return await together(*map(self.transport.send, requests))


async def pages(get: Callable[[Query], Awaitable[Object | None]]) -> AsyncIterator[Object]:
    """The pages of a list, until there are no more or `get` gives none."""
    more: Query = ()
    while (page := await get((("limit", str(PAGE)), *more))) is not None:
        yield page
        if not (next_page := (page.get("metadata") or {}).get("continue")):
            return
        more = (("continue", str(next_page)),)


@asynccontextmanager
async def connected(place: Place) -> AsyncIterator[Api]:
    """The cluster at `place`. Raises ConfigError, and `UserError` for errors of the connection and the server."""
    cluster = await find_cluster(place.kubeconfig, place.context)
    try:
        transport = HttpTransport(cluster, concurrency=AT_ONCE)
        try:
            yield Api(transport, place.namespace or cluster.namespace)
        finally:
            await transport.close()
    except StatusError as error:
        raise UserError(explained(error), JOB_FAILED) from None
    except ClientError as error:
        text = f"the API server at {cluster.route.base_url} does not answer: {error}"
        raise UserError(f"{text}; check the kubeconfig with: kubectl cluster-info", JOB_FAILED) from None
    except ExceptionGroup as group:
        first = first_of(group)
        if isinstance(first, ClientError):
            raise UserError(explained(first) if isinstance(first, StatusError) else str(first), JOB_FAILED) from None
        raise


async def together(*reads: Any) -> list[Any]:
    """The results of several reads, made at the same time."""
    return list(await asyncio.gather(*reads))
