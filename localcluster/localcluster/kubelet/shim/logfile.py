"""The container log file, in the format of the container runtime interface.

``2026-11-21T10:00:00.123456789Z stdout F a whole line``; ``P`` instead of ``F`` marks a part of a longer line. When a
file is full it becomes ``<name>.old`` and a new one begins, so a log takes at most twice the limit on disk.

Output is lost while the disk is full: a container is not stopped because of its log.
"""

# Importing pathlib would add half again to the start-up time of every container.
# ruff: noqa: PTH104

import contextlib
import os
import time

_LONGEST = 16384
# Shorter than the 0.1 s between two updates of tqdm.
_PART_SECONDS = 0.05


class LogFile:
    """Appends the output of one container run."""

    def __init__(self, path: str, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._rest = {"stdout": b"", "stderr": b""}
        self._next = 0.0
        self._file = self._opened()
        self._size = os.fstat(self._file).st_size

    def _opened(self) -> int:
        return os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, stream: str, data: bytes) -> None:
        """Add output of `stream`; an unfinished line waits for its end (empty `data`: the stream has ended).

        One that is overwritten by carriage returns, as a progress bar is, does not wait: it is to be seen as it changes.
        """
        pieces = (self._rest[stream] + data).split(b"\n")
        rest = pieces.pop()
        lines = [(b"F", piece) for piece in pieces]
        if len(rest) >= _LONGEST or (rest and not data) or (b"\r" in rest and self._is_due()):
            lines.append((b"F" if not data else b"P", rest))
            rest = b""
        self._rest[stream] = rest
        if lines:
            self._append(stream.encode(), lines)

    def _is_due(self) -> bool:
        """Whether an overwritten line may be written again: a program may overwrite it many times a second."""
        due = time.monotonic() >= self._next
        self._next = time.monotonic() + _PART_SECONDS if due else self._next
        return due

    def _append(self, stream: bytes, lines: list[tuple[bytes, bytes]]) -> None:
        moment = time.time_ns()
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment // 1_000_000_000))
        time_of = f"{seconds}.{moment % 1_000_000_000:09d}Z".encode()
        block = b"".join(b"%b %b %b %b\n" % (time_of, stream, tag, line) for tag, line in lines)
        with contextlib.suppress(OSError):
            if self._size and self._size + len(block) > self._limit:
                self._rotate()
            self._write(block)

    def _rotate(self) -> None:
        os.rename(self._path, f"{self._path}.old")
        try:
            fresh = self._opened()
        except OSError:
            os.rename(f"{self._path}.old", self._path)
            raise
        os.close(self._file)
        self._file, self._size = fresh, 0

    def _write(self, block: bytes) -> None:
        view = memoryview(block)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)  # no part of a line stays
            raise
        self._size += len(block)

    def close(self) -> None:
        """Write what is left of unfinished lines."""
        for stream in self._rest:
            self.write(stream, b"")
        os.close(self._file)
