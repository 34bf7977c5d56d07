"""The kubelet as a real API server asks it: logs and exec over HTTPS.

Paths and parameters are those of the kubelet's server. Streams are WebSockets: the node declares that it takes them
(`DECLARED`), so an API server of 1.36 and later passes its clients' on; an earlier one would ask for SPDY, and is refused.
"""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from localcluster.apiserver.errors import ApiError
from localcluster.apiserver.sessions import Session
from localcluster.credentials import Certificate
from localcluster.pod_backend import Pod, PodBackend

DECLARED = ("ExtendWebSocketsToKubelet",)
_SUBRESOURCES = {"containerLogs": "log", "exec": "exec"}
_PARAMETERS = {"input": "stdin", "output": "stdout", "error": "stderr"}


def context(certificate: Certificate) -> ssl.SSLContext:
    """Serves with the certificate, and takes nothing but its holder: the API server."""
    found = certificate.server_context()
    found.load_verify_locations(cadata=certificate.pem.decode())
    found.verify_mode = ssl.CERT_REQUIRED
    return found


class NodeServer:
    """Answers for the pods that `find` gives by namespace and name, from `backend`. Assign both when the kubelet is up."""

    def __init__(self) -> None:
        self.port = 0
        self.find: Callable[[str, str], Pod | None] = lambda _namespace, _name: None
        self.backend: PodBackend | None = None

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        _, asked, *names = http.path.split("/")
        try:
            pod = self.find(names[0], names[1]) if asked in _SUBRESOURCES and len(names) > 1 else None
            if pod is None:
                raise ApiError(404, "NotFound", f"{http.path}: no such pod on this node")
            query = [(_PARAMETERS.get(key, key), value) for key, value in http.rel_url.query.items()]
            query.append(("container", names[-1]))
            return await Session(_SUBRESOURCES[asked], pod, tuple(query)).serve(self.backend, http)
        except ApiError as error:
            # The API server makes a Status of the text.
            return web.Response(status=error.code, text=error.message)


@asynccontextmanager
async def serve_node(certificate: Certificate, host: str) -> AsyncIterator[NodeServer]:
    """Listen on a free port of `host` until the context is left."""
    server = NodeServer()
    runner = web.ServerRunner(web.Server(server.handle, handler_cancellation=True, access_log=None), shutdown_timeout=2.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, 0, ssl_context=context(certificate))
        await site.start()
        server.port = runner.addresses[0][1]
        yield server
    finally:
        await runner.cleanup()
