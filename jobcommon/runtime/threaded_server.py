"""HTTP servers in threads, beside the event loop: a blocked loop holds up none of their answers."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# A client that sends nothing for this many seconds is disconnected.
CLIENT_TIMEOUT = 10.0


class Handler(BaseHTTPRequestHandler):
    """Answers requests, and logs none."""

    timeout = CLIENT_TIMEOUT

    def answer(self, status: HTTPStatus, body: bytes, content_type: str, **headers: str) -> None:
        """Send a whole answer."""
        self.send_response(status)
        for name, value in {"Content-Type": content_type, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        return "jobcommon"

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


class ThreadedServer(ThreadingHTTPServer):
    """Bound to its address when it is made. Raises OSError that names it."""

    daemon_threads = True

    def __init__(self, host: str, port: int, handler: type[Handler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), handler)
        except OSError as error:
            raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from error

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is no error of ours."""


@asynccontextmanager
async def serving(server: ThreadedServer, name: str) -> AsyncIterator[int]:
    """Serve inside the context, in a thread of that name; yields the port."""
    threading.Thread(target=server.serve_forever, args=(0.1,), name=name, daemon=True).start()
    try:
        yield int(server.server_address[1])
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()
