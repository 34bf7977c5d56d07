"""Starting processes through the shim, and how isolated from the host they can be."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

_ROOT = str(Path(__file__).parents[2])
_LAUNCH = f"import sys; sys.path.insert(0, {_ROOT!r}); from localcluster.kubelet.shim.main import main; main()"

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Isolation:
    """The isolation that this machine allows: mount, PID and UTS namespaces, inside a user namespace if not root."""

    namespaces: bool
    user_namespace: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """One process to start: the command with its environment, identity and descriptors, and the view it gets."""

    argv: list[str]
    env: dict[str, str]
    isolation: Isolation
    cwd: str = "/"
    cwd_chosen: bool = True  # by the manifest; else a command that may not enter it starts in / and says so in its log
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    stdin: int | None = None
    stdout: int = -1
    stderr: int = -1
    mode: str = "run"  # "exec" joins the container of which `target` is a process, and leaves what it started behind
    target: int | None = None
    hostname: str = ""
    address: str = ""  # the pod's own, for a port space of its own; "" shares the machine's ports
    mounts: tuple[tuple[str, str, bool], ...] = ()
    log: Path | None = None
    log_bytes: int = 64 << 20


@dataclass(eq=False)
class ShimProcess:
    """A started shim. `on_message` gets what it reports, `on_gone` is called once it and all it started are gone."""

    launch: Launch
    on_message: Callable[[Message], None]
    on_gone: Callable[[], None]
    init: int | None = None
    _buffer: bytearray = field(default_factory=bytearray)

    def start(self) -> None:
        """Start it from the running event loop. Raises OSError."""
        ours, theirs = socket.socketpair()
        launch = self.launch
        pipes: list[int] = []
        out, err = launch.stdout, launch.stderr
        reads: dict[str, int] = {}
        if launch.log is not None:
            # The shim reads the command's output itself: a busy kubelet never holds a container up.
            read_out, out = os.pipe()
            read_err, err = os.pipe()
            pipes = [read_out, out, read_err, err]
            reads = {"read_stdout": read_out, "read_stderr": read_err}
        inherit = sorted({fd for fd in (launch.stdin, out, err, *pipes) if fd is not None})
        given = {one.name: getattr(launch, one.name) for one in fields(launch) if one.name != "isolation"}
        spec = given | reads | {
            "parent": os.getpid(), "namespaces": launch.isolation.namespaces,
            "user_namespace": launch.isolation.user_namespace, "stdout": out, "stderr": err,
            "log": None if launch.log is None else str(launch.log), "inherit": inherit,
        }  # fmt: skip
        try:
            self._popen = subprocess.Popen(  # noqa: S603 - our own interpreter and program
                [sys.executable, "-I", "-S", "-c", _LAUNCH, str(theirs.fileno())],
                pass_fds=[theirs.fileno(), *inherit],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath},
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            for descriptor in pipes:
                os.close(descriptor)
        self._socket = ours
        # A specification (its environment, mostly) may be larger than the socket's buffer; the shim reads it at once.
        ours.sendall(json.dumps(spec).encode() + b"\n")
        ours.setblocking(False)
        asyncio.get_running_loop().add_reader(ours, self._readable)

    def _readable(self) -> None:
        try:
            piece = self._socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        self._buffer += piece
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest)
        for line in lines:
            message = json.loads(line)
            self.init = message.get("init", self.init)
            self.on_message(message)
        if not piece:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._popen.wait()
            self.on_gone()

    def terminate(self) -> None:
        """SIGTERM to the command's process group."""
        self._send(b"T")

    def kill(self) -> None:
        """SIGKILL to everything."""
        self._send(b"K")

    def _send(self, letter: bytes) -> None:
        try:
            self._socket.send(letter)
        except OSError:
            return  # it has just ended: `on_gone` is called


async def detect() -> Isolation:
    """The best isolation that works here, detected by trying it."""
    if sys.platform != "linux":
        return Isolation(namespaces=False)
    candidates = [Isolation(namespaces=True, user_namespace=True)]
    if os.geteuid() == 0:
        # Root inside a container may lack the right to mount and still have it in a user namespace of its own.
        candidates.insert(0, Isolation(namespaces=True))
    for candidate in candidates:
        if await _works(candidate):
            return candidate
    return Isolation(namespaces=False)


async def _works(candidate: Isolation) -> bool:
    gone = asyncio.Event()
    messages: list[Message] = []
    devnull = os.open(os.devnull, os.O_RDWR)
    try:
        # A read-only mount below a missing directory needs every right that a pod may need.
        mounts = ((str(Path(__file__).parent), "/localcluster-probe/mount", True),)
        command = ["/bin/sh", "-c", "cd /localcluster-probe/mount"]
        probe = Launch(command, {}, candidate, stdout=devnull, stderr=devnull, hostname="probe", mounts=mounts)
        ShimProcess(probe, messages.append, gone.set).start()
        async with asyncio.timeout(20):
            await gone.wait()
    finally:
        os.close(devnull)
    return any(message.get("exited") == 0 for message in messages)
