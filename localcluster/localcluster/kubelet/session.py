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

from localcluster.kubelet.checks import check_http
from localcluster.kubelet.container import ContainerProcess
from localcluster.kubelet.descriptors import read_some, write_all
from localcluster.kubelet.lifecycle import Container
from localcluster.kubelet.process import Message, ShimProcess
from localcluster.pod_backend import ExecOptions, ExecStreams, PodBackendError

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

    def gone() -> None:
        container.sessions.discard(process)
        outcome.gone.set()
        container.changed()

    process = ShimProcess(launch, outcome.note, gone)
    process.start()
    container.sessions.add(process)
    return process


class _Ends:
    """The pipes (or the terminal) between a command and us."""

    def __init__(self, tty: bool) -> None:
        if tty:
            ours, theirs = pty.openpty()
            self.input: int | None = os.dup(ours)
            self.outputs = [ours]
            self.theirs = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        else:
            (stdin, self.input), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
            self.outputs = [out, err]
            self.theirs = {"stdin": stdin, "stdout": stdout, "stderr": stderr}

    def give(self) -> None:
        """Close the command's ends: it has its own copies."""
        for descriptor in set(self.theirs.values()):
            os.close(descriptor)

    def close_input(self) -> None:
        """Close our end of its input: that is how the command sees the end of it."""
        if self.input is not None:
            os.close(self.input)
            self.input = None

    def close(self) -> None:
        """Close all our ends."""
        self.close_input()
        for descriptor in self.outputs:
            os.close(descriptor)


async def run_exec(container: ContainerProcess, options: ExecOptions, streams: ExecStreams) -> int:
    """Run `options.command` in the container, joined to `streams`; its exit code. Raises PodBackendError."""
    outcome, ends = _Outcome(), _Ends(options.tty)
    env = dict(container.launched.env) if container.launched else {}
    if options.tty:
        env.setdefault("TERM", "xterm")
    try:
        try:
            process = _start(container, list(options.command), outcome, env=env, tty=options.tty, **ends.theirs)
        finally:
            ends.give()
        writes = (streams.write_stdout, streams.write_stderr)
        pumps = [asyncio.create_task(_pump(end, write)) for end, write in zip(ends.outputs, writes, strict=False)]
        others = [asyncio.create_task(_hang_up(streams, process))]
        if options.stdin:
            others.append(asyncio.create_task(_feed(streams, ends, hold=options.tty)))
        elif not options.tty:
            ends.close_input()
        if options.tty:
            others.append(asyncio.create_task(_resize(streams, ends.outputs[0])))
        try:
            await outcome.gone.wait()
            await asyncio.wait(pumps, timeout=_FLUSH_SECONDS)
        finally:
            process.kill()
            for task in [*others, *pumps]:
                task.cancel()
            await asyncio.gather(*others, *pumps, return_exceptions=True)
    finally:
        ends.close()
    if outcome.error:
        raise PodBackendError(outcome.error, 500)
    return outcome.code


async def _pump(descriptor: int, write: Callable[[bytes], Awaitable[None]]) -> None:
    while data := await read_some(descriptor):
        await write(data)


async def _feed(streams: ExecStreams, ends: _Ends, *, hold: bool) -> None:
    """Copy the caller's input; at its end, close the command's too unless it is a terminal (`hold`)."""
    while data := await streams.read_stdin():
        if ends.input is None or not await write_all(ends.input, data):
            break
    if not hold:
        ends.close_input()


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
        async with asyncio.timeout(seconds):
            await outcome.gone.wait()
    finally:
        process.kill()
    return outcome.code


async def run_hook(container: ContainerProcess, address: str, spec: Container, hook: Mapping[str, Any]) -> bool:
    """Run a postStart or preStop handler; whether it worked. To httpGet an answer of any status will do."""
    with contextlib.suppress(PodBackendError):
        if "exec" in hook:
            return await run_quietly(container, hook["exec"]["command"], None) == 0
        if "sleep" in hook:
            await asyncio.sleep(hook["sleep"]["seconds"])
            return True
        if "httpGet" in hook:
            return not (await check_http(hook["httpGet"], spec, address, 30.0)).startswith("Get ")
    return False
