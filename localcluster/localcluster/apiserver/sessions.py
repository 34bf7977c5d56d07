"""What streams: watches, and the log and exec of pods, which the `PodBackend` answers.

The embedded server serves them itself. For a real one `localcluster.kubelet.server` does, which it asks as it asks a kubelet.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from localcluster.apiserver.authentication import User
from localcluster.apiserver.errors import ApiError, bad_request
from localcluster.apiserver.route import parse, truth
from localcluster.apiserver.server import ApiServer
from localcluster.pod_backend import ExecOptions, LogOptions, Pod, PodBackend, PodBackendError
from localcluster.request import Request
from localcluster.timestamps import parse_time

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
#: How long a backend may take to end after its client has disconnected.
_LEAVING_SECONDS = 2.0
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
#: The first byte of a message names its stream (remotecommand of k8s.io/apimachinery). ERROR is the final Status, without a
#: subprotocol a text, of an error only. By CLOSE, from v5 on, the client closes its standard input.
STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
#: The real server's piece size: larger writes are cut so that stdout and stderr interleave fairly.
_PIECE = 32 * 1024


class Watch:
    """An open watch in an event loop. Raises an ApiError when it is refused."""

    def __init__(self, server: ApiServer, request: Request, user: User | None = None) -> None:
        self._now, self._awake = server.env.now, asyncio.Event()
        self.stream = server.watch(request, self._awake.set, user)

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """The lines of events as they come, those that are there together, until the watch ends."""
        try:
            while True:
                self._awake.clear()
                self.stream.tick()
                if lines := self.stream.drain():
                    yield lines
                if self.stream.closed:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(self.stream.next_at - self._now(), 0.0)):
                        await self._awake.wait()
        finally:
            self.stream.close()


class Channels:
    """An `ExecStreams` over a prepared WebSocket; `read` must run beside the command."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._stdin: asyncio.Queue[bytes] = asyncio.Queue()
        self._closed = asyncio.Event()

    async def read(self) -> None:
        """Sort what the client sends until it goes away."""
        try:
            async for message in self._socket:
                if message.type in (WSMsgType.BINARY, WSMsgType.TEXT):
                    data = message.data if isinstance(message.data, bytes) else message.data.encode()
                    self._sort(data)
        finally:
            self.leave()

    def leave(self) -> None:
        """The client has disconnected: end its input and wake what waits in `closed`."""
        self._closed.set()
        self._stdin.put_nowait(b"")

    def _sort(self, data: bytes) -> None:
        if not data:
            return
        channel, content = data[0], data[1:]
        if channel == STDIN and content:
            self._stdin.put_nowait(content)
        elif channel == CLOSE and content[:1] == bytes([STDIN]):
            self._stdin.put_nowait(b"")

    async def read_stdin(self) -> bytes:
        """See `ExecStreams`."""
        return await self._stdin.get()

    async def write_stdout(self, data: bytes) -> None:
        """See `ExecStreams`."""
        await self._send(STDOUT, data)

    async def write_stderr(self, data: bytes) -> None:
        """See `ExecStreams`."""
        await self._send(STDERR, data)

    async def closed(self) -> None:
        """See `ExecStreams`."""
        await self._closed.wait()

    async def _send(self, channel: int, data: bytes) -> None:
        for start in range(0, len(data), _PIECE):
            await self._socket.send_bytes(bytes([channel]) + data[start : start + _PIECE])

    async def finish(self, status: Mapping[str, Any]) -> None:
        """Send the final Status and close."""
        message = msgspec.json.encode(status) if self._socket.ws_protocol else str(status.get("message", "")).encode()
        try:
            if message:
                await self._socket.send_bytes(bytes([ERROR]) + message)
            await self._socket.close()
        except ConnectionError:
            return


@dataclass(frozen=True, slots=True)
class Session:
    """A request for a subresource of a pod, which the server has admitted."""

    subresource: str
    pod: Pod
    query: tuple[tuple[str, str], ...]

    async def serve(self, pods: PodBackend | None, http: web.BaseRequest) -> web.StreamResponse:
        """Answer it. Raises an ApiError when it is refused before anything was sent."""
        return await _HANDLERS[self.subresource](self, pods, http)


def is_session(request: Request) -> bool:
    """Whether the request is for a streaming subresource of a pod."""
    info = parse(request)
    return info.resource == "pods" and info.subresource in _HANDLERS


async def serve(server: ApiServer, pods: PodBackend | None, http: web.BaseRequest, request: Request) -> web.StreamResponse:
    """Answer such a request. Raises an ApiError when it is refused before anything was sent."""
    return await _admitted(server, request, None).serve(pods, http)


def _admitted(server: ApiServer, request: Request, user: User | None) -> Session:
    call = server.admit(request, user)
    return Session(call.info.subresource, call.resource.typed(call.live().obj), request.query)


def _connected(call: Session, pods: PodBackend | None) -> PodBackend:
    if pods is None:
        raise ApiError(503, "ServiceUnavailable", f"pods/{call.subresource}: no kubelet is connected to this server")
    return pods


def open_logs(server: ApiServer, pods: PodBackend | None, request: Request, user: User | None) -> AsyncIterator[bytes]:
    """The pieces of a log. Raises an ApiError when the request is refused; reading raises PodBackendError."""
    return _pieces(_admitted(server, request, user), pods)


def _pieces(call: Session, pods: PodBackend | None) -> AsyncIterator[bytes]:
    options = _log_options(call)
    return _connected(call, pods).logs(call.pod, options) if call.pod["spec"].get("nodeName") else _nothing()


async def _nothing() -> AsyncIterator[bytes]:
    """The log of a pod that no node has: an API server has none to ask, and answers 204 at once."""
    pieces: tuple[bytes, ...] = ()
    for piece in pieces:
        yield piece


def _log_options(call: Session) -> LogOptions:
    """The query of a log request. Raises a 400 ApiError."""
    query = dict(call.query)
    since = query.get("sinceTime")
    try:
        return LogOptions(
            container=_container(call.pod, query.get("container", "")),
            follow=truth(query.get("follow", "")),
            previous=truth(query.get("previous", "")),
            timestamps=truth(query.get("timestamps", "")),
            tail_lines=_number(query, "tailLines"),
            since_seconds=_number(query, "sinceSeconds"),
            since_time=None if since is None else parse_time(since),
        )
    except ValueError as error:
        raise bad_request(f"pods/log: {error}") from None


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not text.isdecimal():
        raise ValueError(f"{name} must be a whole number, not {text!r}")
    return int(text)


def _container(pod: Pod, asked: str) -> str:
    spec, meta = pod["spec"], pod["metadata"]
    names = [container["name"] for container in spec["containers"]]
    every = names + [container["name"] for container in spec.get("initContainers") or ()]
    if asked:
        if asked not in every:
            raise bad_request(f"container {asked} is not valid for pod {meta['name']}")
        return asked
    default = (meta.get("annotations") or {}).get(_DEFAULT_CONTAINER)
    if default in every:
        return str(default)
    if len(names) > 1:
        raise bad_request(f"a container name must be specified for pod {meta['name']}, choose one of: [{' '.join(names)}]")
    return str(names[0])


async def _logs(call: Session, pods: PodBackend | None, http: web.BaseRequest) -> web.StreamResponse:
    chunks = _pieces(call, pods)
    response = web.StreamResponse(
        status=200 if call.pod["spec"].get("nodeName") else 204, headers={"Content-Type": "text/plain"}
    )
    try:
        async for chunk in chunks:
            if not response.prepared:
                await response.prepare(http)
            await response.write(chunk)
    except PodBackendError as error:
        if not response.prepared:
            raise _refused(error) from None
    except ConnectionError:
        return response
    if not response.prepared:
        await response.prepare(http)
    await response.write_eof()
    return response


def _refused(error: PodBackendError) -> ApiError:
    reasons = {400: "BadRequest", 404: "NotFound", 409: "Conflict"}
    return ApiError(error.code, reasons.get(error.code, "InternalError"), error.message)


async def _session(call: Session, pods: PodBackend | None, http: web.BaseRequest) -> web.StreamResponse:
    pod = call.pod
    options = _exec_options(call)
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    phase = pod.get("status", {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        raise bad_request(f"cannot exec into a container in a completed pod; current phase is {phase}")
    backend = _connected(call, pods)
    socket = _upgrade(http)
    await socket.prepare(http)
    streams = Channels(socket)
    reader = asyncio.create_task(streams.read())
    try:
        status = _outcome(await _to_the_end(backend.exec(pod, options, streams), streams))
    except PodBackendError as error:
        status = _refused(error).status()
    except ConnectionError:
        return socket
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
    await streams.finish(status)
    return socket


async def _to_the_end(command: Coroutine[Any, Any, int], streams: Channels) -> int:
    """Run the backend's part. If the client disconnects, `ExecStreams.closed` ends it, and cancellation only after that."""
    task = asyncio.create_task(command)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        streams.leave()
        _, late = await asyncio.wait((task,), timeout=_LEAVING_SECONDS)
        if late:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise


def _exec_options(call: Session) -> ExecOptions:
    query = dict(call.query)
    command = tuple(value for key, value in call.query if key == "command")
    if not command:
        raise bad_request("you must specify at least 1 command for the container")
    if truth(query.get("tty", "")):
        raise bad_request("this server has no terminals: use kubectl exec without --tty (-t)")
    streams = (truth(query.get(name, "")) for name in ("stdin", "stdout", "stderr"))
    return ExecOptions(_container(call.pod, query.get("container", "")), command, *streams)


def _upgrade(http: web.BaseRequest) -> web.WebSocketResponse:
    offered = [part.strip() for part in http.headers.get("Sec-WebSocket-Protocol", "").split(",") if part.strip()]
    if http.headers.get("Upgrade", "").lower() != "websocket":
        raise bad_request("Upgrade request required: this server speaks WebSocket, not SPDY")
    if offered and not set(offered) & set(_PROTOCOLS):
        raise bad_request(f"unsupported WebSocket subprotocols {offered}: this server speaks {', '.join(_PROTOCOLS)}")
    # No compression: the real server negotiates none, and the data is often already compressed.
    return web.WebSocketResponse(protocols=_PROTOCOLS, compress=False, max_msg_size=0)


def _outcome(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: command terminated with exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


_HANDLERS: Mapping[str, Callable[[Session, PodBackend | None, web.BaseRequest], Awaitable[web.StreamResponse]]] = {
    "log": _logs,
    "exec": _session,
}
