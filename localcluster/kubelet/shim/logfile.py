"""The container log file, in the format of the container runtime interface.

``2026-11-21T10:00:00.123456789Z stdout F a whole line``; ``P`` instead of ``F`` marks a piece of a line that goes on. When a
file is full it becomes ``<name>.old`` and a new one begins, so a log takes at most twice the limit on disk.
"""

# Importing pathlib would add half again to the start-up time of every container.
# ruff: noqa: PTH104

import os
import time

_LONGEST = 16384


class LogFile:
    """Appends the output of one container run."""

    def __init__(self, path: str, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._rest = {"stdout": b"", "stderr": b""}
        self._open()

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._file).st_size

    def write(self, stream: str, data: bytes) -> None:
        """Add output of `stream`; an unfinished line waits for its end (empty `data`: the stream has ended)."""
        pieces = (self._rest[stream] + data).split(b"\n")
        rest = pieces.pop()
        lines = [(b"F", piece) for piece in pieces]
        if len(rest) >= _LONGEST or (rest and not data):
            lines.append((b"F" if not data else b"P", rest))
            rest = b""
        self._rest[stream] = rest
        if lines:
            self._append(stream.encode(), lines)

    def _append(self, stream: bytes, lines: list[tuple[bytes, bytes]]) -> None:
        moment = time.time_ns()
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment // 1_000_000_000))
        head = f"{seconds}.{moment % 1_000_000_000:09d}Z ".encode() + stream
        block = b"".join(b"%b %b %b\n" % (head, tag, line) for tag, line in lines)
        if self._size and self._size + len(block) > self._limit:
            os.close(self._file)
            os.rename(self._path, f"{self._path}.old")
            self._open()
        view = memoryview(block)
        while view:
            view = view[os.write(self._file, view) :]
        self._size += len(block)

    def close(self) -> None:
        """Write what is left of unfinished lines."""
        for stream in self._rest:
            self.write(stream, b"")
        os.close(self._file)
