"""Commands run inside a container that is already running: exec and exec probes."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import IO, Any

from localcluster.kubelet.container import ContainerProcess
from localcluster.kubelet.process import Message, ShimProcess
from localcluster.pod_backend import ExecOptions, ExecStreams, PodBackendError

_NOT_FOUND = 127
_FLUSH_SECONDS = 0.5
_CHUNK = 1 << 16


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

    def gone() -> None:
        container.sessions.discard(process)
        outcome.gone.set()
        container.changed()

    process = ShimProcess(launch, outcome.note, gone)
    process.start()
    container.sessions.add(process)
    return process


def _ends() -> tuple[int, list[int], dict[str, int]]:
    """Pipes between a command and us: what we write to, what we read from, and the command's ends."""
    (stdin, given), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
    return given, [out, err], {"stdin": stdin, "stdout": stdout, "stderr": stderr}


async def run_exec(container: ContainerProcess, options: ExecOptions, streams: ExecStreams) -> int:
    """Run `options.command` in the container, joined to `streams`; its exit code. Raises PodBackendError."""
    outcome = _Outcome()
    given, outputs, theirs = _ends()
    with ExitStack() as stack:
        source = stack.enter_context(os.fdopen(given, "wb", 0))
        sinks = [stack.enter_context(os.fdopen(end, "rb", 0)) for end in outputs]
        try:
            process = _start(container, list(options.command), outcome, **theirs)
        finally:
            for descriptor in theirs.values():
                os.close(descriptor)  # the command has its own copies
        writes = (streams.write_stdout, streams.write_stderr)
        pumps = [asyncio.create_task(_pump(sink, write)) for sink, write in zip(sinks, writes, strict=False)]
        others = [asyncio.create_task(_hang_up(streams, process))]
        if options.stdin:
            others.append(asyncio.create_task(_feed(streams, source)))
        else:
            source.close()
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


async def _pump(end: IO[bytes], write: Callable[[bytes], Awaitable[None]]) -> None:
    stream = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), end)
    try:
        while data := await stream.read(_CHUNK):
            await write(data)
    finally:
        transport.close()


async def _feed(streams: ExecStreams, end: IO[bytes]) -> None:
    """Copy the caller's input, and close the command's at its end."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), end)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        while data := await streams.read_stdin():
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def _hang_up(streams: ExecStreams, process: ShimProcess) -> None:
    await streams.closed()
    process.kill()


async def run_quietly(container: ContainerProcess, command: list[str]) -> int:
    """Run a command without input or output; its exit code. It is killed when this is cancelled."""
    outcome = _Outcome()
    devnull = os.open(os.devnull, os.O_RDWR)
    try:
        process = _start(container, command, outcome, stdin=devnull, stdout=devnull, stderr=devnull)
    finally:
        os.close(devnull)
    try:
        await outcome.gone.wait()
    finally:
        process.kill()
    return outcome.code
