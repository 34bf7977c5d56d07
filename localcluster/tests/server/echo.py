"""A pod backend without pods: it echoes, and remembers what it was asked."""

from collections.abc import AsyncIterator
from typing import Any

from localcluster.pod_backend import ExecOptions, ExecStreams, LogOptions, Pod, PodBackendError


class Echo:
    """See `localcluster.pod_backend.PodBackend`."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        self.asked.append(options)
        if options.previous:
            raise PodBackendError(f'previous terminated container "{options.container}" not found', 404)
        yield b"one\ntwo"
        yield b" and more\nthree"

    async def exec(self, pod: Pod, options: ExecOptions, streams: ExecStreams) -> int:
        self.asked.append(options)
        if options.command == ("broken",):
            raise PodBackendError("no such program", 500)
        data = b""
        while options.stdin and (piece := await streams.read_stdin()):
            data += piece
        await streams.write_stdout(data.upper())
        await streams.write_stderr(b"careful")
        return 7 if options.command == ("fail",) else 0
