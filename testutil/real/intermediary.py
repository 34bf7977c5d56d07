"""What stands between an operator and the API server, and answers in the API server's place: a proxy, a portal."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import aiohttp
from aiohttp import web
from yarl import URL

from jobcommon.client.config import find_cluster
from jobcommon.client.transport import Endpoint
from localcluster.certificates import self_signed
from localcluster.conformance.envtest import LOOPBACK
from localcluster.kubeconfig import kubeconfig

_OF_ONE_CONNECTION = ("host", "connection", "transfer-encoding", "content-length")
_HTML = "<html><body>Please sign in.</body></html>"
_FOREVER = aiohttp.ClientTimeout(total=None)


B = TypeVar("B", bound="Intermediary")


@dataclass
class Intermediary:
    """Passes everything on, but for the first try of each write: that it answers itself, with `status`. Events it lets pass."""

    endpoint: Endpoint
    session: aiohttp.ClientSession
    status: int = 0
    tried: set[tuple[str, str, str]] = field(default_factory=set)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.method not in ("GET", "HEAD") and not request.path.endswith("/events"):
            what = (request.method, request.path, _name(body))
            if what not in self.tried:
                self.tried.add(what)
                # The location that it sends to answers as the page does.
                headers = {"Location": "/portal"} if self.status in (301, 302, 303, 307, 308) else {}
                return web.Response(status=self.status, text=_HTML, content_type="text/html", headers=headers)
        return await self.pass_on(request, body)

    async def pass_on(self, request: web.Request, body: bytes) -> web.StreamResponse:
        """The API server's own answer."""
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OF_ONE_CONNECTION}
        url = URL(self.endpoint.base_url + request.raw_path, encoded=True)
        context = self.endpoint.ssl_context
        async with self.session.request(
            request.method, url, headers=headers, data=body or None, ssl=context if context is not None else True,
            allow_redirects=False,
        ) as found:  # fmt: skip
            kept = [(name, value) for name, value in found.headers.items() if name.lower() not in _OF_ONE_CONNECTION]
            response = web.StreamResponse(status=found.status, headers=dict(kept))
            await response.prepare(request)
            # Either side may be gone meanwhile: a watch ends so.
            with suppress(ConnectionError, aiohttp.ClientError):
                async for chunk in found.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
            return response


@asynccontextmanager
async def intermediary(path: Path, to: Path, make: Callable[[Endpoint, aiohttp.ClientSession], B]) -> AsyncIterator[B]:
    """What `make` gives, before the cluster of the kubeconfig `path`; `to` is written, the kubeconfig that leads to it."""
    certificate = self_signed()
    endpoint = await find_cluster(str(path))
    async with aiohttp.ClientSession(timeout=_FOREVER, auto_decompress=False) as session:
        between = make(endpoint, session)
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", between.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, LOOPBACK, 0, ssl_context=certificate.server_context())
            await site.start()
            token = dict(await endpoint.headers())["Authorization"].removeprefix("Bearer ")
            _write(to, kubeconfig(f"https://{LOOPBACK}:{runner.addresses[0][1]}", token, certificate.pem))
            yield between
        finally:
            await runner.cleanup()


def _write(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)


def _name(body: bytes) -> str:
    """The name of the object that is written, where the body has one."""
    try:
        found = json.loads(body)
        return str(found["metadata"]["name"])
    except (ValueError, KeyError, TypeError):
        return ""
