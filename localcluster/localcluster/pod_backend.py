"""What the API server needs of the component that runs the pods.

The server stores pods and does not run them. `pods/log` and `pods/exec` are answered by a `PodBackend`, which the kubelet
implements and hands to `localcluster.apiserver.serve(server, pods=backend)`. The server has already authenticated and
authorised the caller, read the pod and chosen the container (``options.container`` is always one that the pod's spec
has) before it calls the backend.

The kubelet itself is an ordinary client of the server: it lists and watches
``/api/v1/pods?fieldSelector=spec.nodeName=<node>`` through a `localcluster.request.Transport`
(`localcluster.apiserver.inprocess.InProcessTransport` in the same process), writes ``…/pods/<name>/status``, and ends a
terminating pod by DELETE with ``gracePeriodSeconds: 0`` and the pod's uid as precondition.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Pod = Mapping[str, Any]


@dataclass
class PodBackendError(Exception):
    """The backend cannot serve the request; sent to the caller as a Status with this HTTP code and message.

    400 for a container that has not started ("container \"x\" in pod \"y\" is waiting to start: ContainerCreating"), 404 for a
    missing previous run, 500 for anything else.
    """

    message: str
    code: int = 400

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The query of ``pods/log`` (core/v1 PodLogOptions). Times are Unix seconds; None means not given."""

    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: float | None = None


@dataclass(frozen=True, slots=True)
class ExecOptions:
    """The query of ``pods/exec``."""

    container: str
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False


class ExecStreams(Protocol):
    """The caller's end of an exec session."""

    async def read_stdin(self) -> bytes:
        """The next piece of standard input; ``b""`` once the caller has closed it or gone away."""
        ...

    async def write_stdout(self, data: bytes) -> None:
        """Send standard output."""
        ...

    async def write_stderr(self, data: bytes) -> None:
        """Send standard error."""
        ...

    async def closed(self) -> None:
        """Return when the caller has gone away: the session should then be ended."""
        ...


class PodBackend(Protocol):
    """Runs the interactive parts of a pod. Every method may raise `PodBackendError` before its first output."""

    def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        """Pieces of the container's log as they come; with `follow` until the container has ended and all is sent.

        All filters (`tail_lines`, `since_*`, `timestamps`) are the backend's to apply.
        """
        ...

    async def exec(self, pod: Pod, options: ExecOptions, streams: ExecStreams) -> int:
        """Run a command in the container and return its exit code."""
        ...
