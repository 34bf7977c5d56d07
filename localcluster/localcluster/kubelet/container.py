"""One container of a pod: its process, what is known of it, and the commands of exec and probes that run inside it."""

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from localcluster.kubelet.lifecycle import ContainerState, Run
from localcluster.kubelet.logs import Rendering
from localcluster.kubelet.process import Launch, Message, ShimProcess
from localcluster.pod_backend import ExecOptions, ExecStreams, PodBackendError

START_ERROR = 128
_KILLED = 137
_NOT_FOUND = 127
_PIPE = 1 << 20  # the most that one holds
_MESSAGE_BYTES = 4096
_LOG_BYTES = 2048


def container_id(uid: str, name: str, attempt: int) -> str:
    """The id of one run, in the runtime://id form of the API."""
    return f"process://{hashlib.sha256(f'{uid}/{name}/{attempt}'.encode()).hexdigest()}"


def oom_kills() -> int:
    """The number of processes that the kernel's OOM killer has ended since boot; 0 if it is unknown."""
    try:
        text = Path("/proc/vmstat").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), 0)


def termination_message(file: Path | None, log: Path, *, fall_back: bool) -> str:
    """What the container left in its termination message file, else, with `fall_back`, the end of its log."""
    text = b""
    if file is not None and file.exists():
        with file.open("rb") as opened:
            text = opened.read(_MESSAGE_BYTES)
    if not text and fall_back and log.exists():
        with log.open("rb") as opened:
            opened.seek(max(log.stat().st_size - (1 << 16), 0))
            printed = Rendering().of(opened.readlines()).removesuffix(b"\n")
        text = b"\n".join(printed.split(b"\n")[-80:])[-_LOG_BYTES:]
    return text.decode(errors="replace")


@dataclass
class ContainerProcess:
    """Drives `seen` for one container. `changed` is called after every change, from the event loop.

    `event` records one: its type, reason, message and container.
    """

    name: str
    uid: str
    now: Callable[[], float]
    changed: Callable[[], None]
    reset_after: float
    event: Callable[[str, str, str, str], None]
    seen: ContainerState = field(default_factory=ContainerState)
    process: ShimProcess | None = None
    launched: Launch | None = None
    sessions: set[ShimProcess] = field(default_factory=set)  # execs in it whose shim still runs
    # The files of the current run, needed at its end.
    log: Path = Path()
    message_file: Path | None = None
    fall_back: bool = False
    _exit: tuple[int, int] | None = None
    _error: str = ""
    _killed_by_us: bool = False
    _oom_before: int = 0
    _stopping: asyncio.TimerHandle | None = None  # of the SIGKILL, once it is being stopped
    _image: str = ""

    @property
    def next_attempt(self) -> int:
        """The number the next run will have: the restart count."""
        return 0 if self.seen.run is None else self.seen.run.attempt + 1

    def launch(self, launch: Launch, image: str, *, started: bool, ready: bool) -> None:
        """Start a run of `image`; `started` and `ready` are what its probes (or their absence) say at the beginning."""
        before = self.seen.run
        streak = self.seen.streak
        if before is not None and before.image not in ("", image):
            streak = 0
        elif before is not None:
            quick = (before.finished_at or 0.0) - before.started_at < self.reset_after
            streak = streak + 1 if quick else 1
        self._exit, self._error, self._killed_by_us, self._oom_before = None, "", False, oom_kills()
        self._stopping = None
        attempt = self.next_attempt
        process = ShimProcess(launch, lambda message: self._message(message, attempt, started, ready), self._gone)
        self.process, self.launched, self._image = process, launch, image
        self.seen = replace(self.seen, starting=True, waiting=None, retry_at=None, streak=streak, last=before, redefined=False)
        try:
            process.start()
        except OSError as error:
            self._error = str(error)
            self._gone()

    def _message(self, message: Message, attempt: int, started: bool, ready: bool) -> None:
        if "started" in message:
            run = Run(attempt, message["started"], container_id(self.uid, self.name, attempt), image=self._image)
            self.seen = replace(self.seen, run=run, starting=False, started=started, ready=started and ready)
            self.changed()
        elif "error" in message:
            self._error = message["error"]
        elif "exited" in message and self._exit is None:
            self._exit = (message["exited"], message["signal"])

    def _gone(self) -> None:
        moment = self.now()
        run = self.seen.run
        if self.seen.starting or run is None:
            attempt = self.next_attempt
            run = Run(attempt, moment, container_id(self.uid, self.name, attempt), image=self._image)
            code, number, reason = START_ERROR, 0, "StartError"
            message = self._error or "the process that starts the container was killed"
            self.event("Warning", "Failed", f'Error: failed to start container "{self.name}": {message}', self.name)
        else:
            code, number = self._exit or (_KILLED, 9)
            reason = "Completed" if code == 0 else "Error"
            if number == 9 and not self._killed_by_us and oom_kills() > self._oom_before:
                reason = "OOMKilled"
            message = termination_message(self.message_file, self.log, fall_back=self.fall_back and code != 0)
            if self._exit is None and self._error:
                message = self._error
        ended = replace(run, finished_at=moment, exit_code=code, signal=number, reason=reason, message=message)
        self.seen = replace(self.seen, run=ended, starting=False, ready=False, started=code == 0 and self.seen.started)
        self.process = None
        if self._stopping is not None:
            self._stopping.cancel()
        self.changed()

    @property
    def idle(self) -> bool:
        """Whether nothing of ours runs for it, no exec either."""
        return self.process is None and not self.sessions

    def stop(self, grace: float) -> bool:
        """Stop the run: SIGTERM, and SIGKILL once `grace` seconds are over.

        True when this began the stopping; a further call can only shorten the grace.
        """
        process = self.process
        if process is None:
            return False
        loop = asyncio.get_running_loop()
        kill_at = loop.time() + grace
        if self._stopping is not None:
            if kill_at < self._stopping.when() - 0.5:
                self._stopping.cancel()
                self._stopping = loop.call_at(kill_at, self._kill, process)
            return False
        process.terminate()
        self._stopping = loop.call_at(kill_at, self._kill, process)
        return True

    def _kill(self, process: ShimProcess) -> None:
        if self.process is process:
            self._killed_by_us = True
            process.kill()


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
        gone = asyncio.create_task(outcome.gone.wait())
        pumps = [asyncio.create_task(_pump(sink, write, gone)) for sink, write in zip(sinks, writes, strict=False)]
        others = [asyncio.create_task(_hang_up(streams, process))]
        if options.stdin:
            others.append(asyncio.create_task(_feed(streams, source)))
        else:
            source.close()
        try:
            await gone
            await asyncio.wait(pumps)
        finally:
            process.kill()
            for task in [*others, *pumps]:
                task.cancel()
            await asyncio.gather(*others, *pumps, return_exceptions=True)
    if outcome.error:
        raise PodBackendError(outcome.error, 500)
    return outcome.code


async def _pump(end: IO[bytes], write: Callable[[bytes], Awaitable[None]], gone: asyncio.Task[Any]) -> None:
    """Copy output to its end, or what there is when the command has `gone`: what it left behind may keep that open."""
    loop = asyncio.get_running_loop()
    os.set_blocking(end.fileno(), False)
    while True:
        # Asked before reading: what the command wrote is then surely in the pipe.
        over, data = gone.done(), end.read(_PIPE)
        if data:
            await write(data)
        if over or data == b"":
            return
        readable = asyncio.Event()
        loop.add_reader(end, readable.set)
        waiting = asyncio.create_task(readable.wait())
        try:
            await asyncio.wait((waiting, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            loop.remove_reader(end)


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
