"""``make bench BENCH='--ablate NAME'``: the operator without one of its performance mechanisms.

A mechanism shows here what it is worth, once a release, or goes. ``python -m benchmarks.ablation NAME operator …`` runs the
command `jobcommon` without it.
"""

import sys
from collections.abc import AsyncIterator
from functools import partial

import aiohttp
from yarl import URL

from jobcommon.cli.main import main as command
from jobcommon.client.lines import LineSplitter
from jobcommon.client.request import Request, Response
from jobcommon.client.responses import response_error
from jobcommon.client.transport import HttpTransport
from jobcommon.runtime import executor, flow_control, manager


class AiohttpTransport(HttpTransport):
    """Requests over aiohttp, with all that costs and is not needed turned off, instead of `jobcommon.client.http1`."""

    _session: aiohttp.ClientSession | None = None

    async def send_once(self, request: Request, send_by: float) -> Response:  # noqa: ARG002
        """See `HttpTransport.send_once`."""
        async with await self._asked(request) as answer:
            return Response(answer.status, await answer.read(), {n.lower(): value for n, value in answer.headers.items()})

    async def stream(self, request: Request) -> AsyncIterator[bytes]:
        """See `Transport.stream`."""
        splitter = LineSplitter()
        async with await self._asked(request) as answer:
            if answer.status >= 400:
                raise response_error(Response(answer.status, await answer.read(), dict(answer.headers)))
            async for chunk in answer.content.iter_any():
                for line in splitter.feed(chunk):
                    yield line

    async def close(self) -> None:
        """See `Transport.close`."""
        if self._session is not None:
            await self._session.close()

    async def _asked(self, request: Request) -> aiohttp.ClientResponse:
        endpoint = self._endpoint
        if self._session is None:
            tls = endpoint.ssl_context if endpoint.ssl_context is not None else True
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=tls, keepalive_timeout=60.0, ttl_dns_cache=None),
                timeout=aiohttp.ClientTimeout(), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False,
                skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"), read_bufsize=1 << 18,
            )  # fmt: skip
        headers = {"accept": "application/json", **request.headers, **dict(await endpoint.headers())}
        if request.body is not None:
            headers["content-type"] = request.content_type
        url = URL(endpoint.base_url + request.target, encoded=True)
        return await self._session.request(
            request.method, url, data=request.body, headers=headers, allow_redirects=False, server_hostname=endpoint.server_name
        )


MECHANISMS: dict[str, tuple[str, partial[None]]] = {
    "shares": ("bulk and background requests may hold all seats", partial(setattr, flow_control, "SHARE", 1)),
    "levels": ("no request is bulk", partial(setattr, executor, "BULK_ACTIONS", sys.maxsize)),
    "http1": ("requests go over a tuned aiohttp", partial(setattr, manager, "HttpTransport", AiohttpTransport)),
}
"""By name: what is different without the mechanism, and how it is taken out."""


def main() -> None:
    """Take the mechanism out and run the command. Raises KeyError for a name that is not in `MECHANISMS`."""
    _, take_out = MECHANISMS[sys.argv.pop(1)]
    take_out()
    command()


if __name__ == "__main__":
    main()
