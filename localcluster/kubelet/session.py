"""Commands run inside a container that is already running: exec, hooks and exec probes."""

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import termios
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from localcluster.apiserver.pods import ExecOptions, ExecStreams, PodBackendError
from localcluster.kubelet.container import ContainerProcess
from localcluster.kubelet.descriptors import read_some, write_all
from localcluster.kubelet.lifecycle import Container
from localcluster.kubelet.options import Shared
from localcluster.kubelet.process import Message, ShimProcess

_NOT_FOUND = 127
_FLUSH_SECONDS = 0.5


@dataclass
class _Outcome:
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    code: int = 137
    error: str = ""

    def note(self, message: Message) -> None:
        if "exited" in message:
            self.code = message["exited"]
            # Not the end of the shim: a background process the command left may keep that open.
            self.gone.set()
        elif "error" in message:
            self.code, self.error = _NOT_FOUND, message["error"]
            self.gone.set()


def _start(container: ContainerProcess, command: list[str], outcome: _Outcome, **changes: Any) -> ShimProcess:
    main, launched = container.process, container.launched
    if main is None or launched is None or main.init is None or not container.seen.running:
        raise PodBackendError(f'container "{container.name}" is not running', 400)
    launch = replace(launched, argv=command, mode="exec", target=main.init, mounts=(), log=None, **changes)
    process = ShimProcess(launch, outcome.note, outcome.gone.set)
    process.start()
    return process


async def run_exec(container: ContainerProcess, options: ExecOptions, streams: ExecStreams) -> int:
    """Run `options.command` in the container, joined to `streams`; its exit code. Raises PodBackendError."""
    outcome = _Outcome()
    command = list(options.command)
    env = dict(container.launched.env) if container.launched else {}
    pumps: list[asyncio.Task[None]] = []
    if options.tty:
        ours, theirs = pty.openpty()
        env.setdefault("TERM", "xterm")
        ends, mine = [theirs], [ours]
        descriptors = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        reads = [(ours, streams.write_stdout)]
        writes: int | None = os.dup(ours)
    else:
        into_read, into_write = os.pipe()
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        ends, mine = [into_read, out_write, err_write], [out_read, err_read]
        descriptors = {"stdin": into_read, "stdout": out_write, "stderr": err_write}
        reads = [(out_read, streams.write_stdout), (err_read, streams.write_stderr)]
        writes = into_write
    try:
        try:
            process = _start(container, command, outcome, env=env, tty=options.tty, **descriptors)
        finally:
            for end in ends:
                os.close(end)
        if writes is not None and options.stdin:
            feeder = asyncio.create_task(_feed(streams, writes))
            writes = None  # the feeder closes it: that is how the command sees the end of its input
        else:
            feeder = None
        if writes is not None and not options.tty:
            os.close(writes)
            writes = None
        pumps = [asyncio.create_task(_pump(descriptor, write)) for descriptor, write in reads]
        others = [asyncio.create_task(_hang_up(streams, process))]
        others += [feeder] if feeder else []
        others += [asyncio.create_task(_resize(streams, mine[0]))] if options.tty else []
        try:
            await outcome.gone.wait()
            await asyncio.wait(pumps, timeout=_FLUSH_SECONDS)
        finally:
            process.kill()
            for task in [*others, *pumps]:
                task.cancel()
            await asyncio.gather(*others, *pumps, return_exceptions=True)
        if outcome.error:
            raise PodBackendError(outcome.error, 500)
        return outcome.code
    finally:
        for descriptor in [*mine, *([] if writes is None else [writes])]:
            os.close(descriptor)


async def _pump(descriptor: int, write: Callable[[bytes], Awaitable[None]]) -> None:
    while data := await read_some(descriptor):
        await write(data)


async def _feed(streams: ExecStreams, descriptor: int) -> None:
    try:
        while data := await streams.read_stdin():
            if not await write_all(descriptor, data):
                return
    finally:
        os.close(descriptor)


async def _hang_up(streams: ExecStreams, process: ShimProcess) -> None:
    await streams.closed()
    process.kill()


async def _resize(streams: ExecStreams, terminal: int) -> None:
    while True:
        size = await streams.resized()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))


async def run_quietly(container: ContainerProcess, command: list[str], seconds: float | None) -> int:
    """Run a command without input or output; its exit code. Raises TimeoutError and kills it after `seconds`."""
    outcome = _Outcome()
    devnull = os.open(os.devnull, os.O_RDWR)
    try:
        process = _start(container, command, outcome, stdin=devnull, stdout=devnull, stderr=devnull)
    finally:
        os.close(devnull)
    try:
        await asyncio.wait_for(outcome.gone.wait(), seconds)
    finally:
        process.kill()
    return outcome.code


async def run_hook(shared: Shared, container: ContainerProcess, address: str, spec: Container, hook: Mapping[str, Any]) -> None:
    """Run a postStart or preStop handler. A failing hook is an event, not an end."""
    from localcluster.kubelet.probes import check_http

    with contextlib.suppress(PodBackendError):
        if "exec" in hook:
            await run_quietly(container, hook["exec"]["command"], None)
        elif "sleep" in hook:
            await asyncio.sleep(hook["sleep"]["seconds"])
        elif "httpGet" in hook:
            await check_http(hook["httpGet"], spec, address, 30.0)
