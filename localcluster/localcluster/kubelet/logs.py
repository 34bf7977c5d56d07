"""Reading container logs: the filters of ``kubectl logs``, and following.

A log may be large and the cluster is one event loop, so files are read in pieces, from where the wanted lines begin, and in a
thread if there is more than one piece to read.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from localcluster.pod_backend import LogOptions
from localcluster.timestamps import format_time

_POLL = 0.03
_CHUNK = 1 << 16
_PIECE = 4 * _CHUNK


class Reader:
    """Reads one run's log, the rotated file first, and follows it through rotation. Safe to close while a thread reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: deque[int] = deque()
        self._rest = b""
        self._lock = threading.Lock()
        self._closed = False

    def start(self, tail: int | None) -> int:
        """Go to the last `tail` lines (None: to the beginning); how many bytes there are from there on."""
        with self._lock:
            current, old = _open(self._path), _open(Path(f"{self._path}.old"))
            if self._closed or current is None:
                _close(current, old)
                return 0
            if old is not None and os.fstat(old).st_ino == os.fstat(current).st_ino:
                _close(old)  # it was rotated between the two
                old = None
            if tail is not None:
                tail -= _seek_lines(current, tail)
                if old is not None and not tail:
                    _close(old)
                    old = None
                elif old is not None:
                    _seek_lines(old, tail)
            self._files.extend(file for file in (old, current) if file is not None)
            return sum(_left(file) for file in self._files)

    def left(self) -> int:
        """How many bytes are known to be there."""
        return 0 if self._closed else sum(_left(file) for file in self._files)

    def read(self) -> tuple[list[bytes], int]:
        """The next whole lines, of about `_PIECE` bytes, and how many bytes were read for them."""
        lines: list[bytes] = []
        taken = 0
        with self._lock:
            while taken < _PIECE and not self._closed:
                if not self._files:
                    file = _open(self._path)
                    if file is None:
                        break
                    self._files.append(file)
                if piece := os.read(self._files[0], _CHUNK):
                    taken += len(piece)
                    *whole, self._rest = (self._rest + piece).split(b"\n")
                    lines += whole
                elif not self._next_file():
                    break
        return lines, taken

    def _next_file(self) -> bool:
        """Leave a file that is read to its end and was rotated; false when more will come into it."""
        if len(self._files) == 1:
            try:
                same = os.fstat(self._files[0]).st_ino == self._path.stat().st_ino
            except FileNotFoundError:
                return False
            if same or self._rest:
                return False
        self._rest = b""
        _close(self._files.popleft())
        return True

    def close(self) -> None:
        """Release the files."""
        with self._lock:
            self._closed = True
            _close(*self._files)
            self._files.clear()


def _open(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def _close(*files: int | None) -> None:
    for file in files:
        if file is not None:
            os.close(file)


def _left(file: int) -> int:
    return max(os.fstat(file).st_size - os.lseek(file, 0, os.SEEK_CUR), 0)


def _seek_lines(file: int, count: int) -> int:
    """Move to where the last `count` whole lines begin; how many there are, at most `count`."""
    position, found = os.fstat(file).st_size, 0
    while position > 0:
        step = min(_CHUNK, position)
        position -= step
        block = os.pread(file, step, position)
        newlines = block.count(b"\n")
        if found + newlines > count:
            end = len(block)
            for _ in range(count + 1 - found):
                end = block.rindex(b"\n", 0, end)
            os.lseek(file, position + end + 1, os.SEEK_SET)
            return count
        found += newlines
    os.lseek(file, 0, os.SEEK_SET)
    return found


def _since(options: LogOptions, now: float) -> bytes:
    """The time from which lines are wanted, as log files write it, so that the two compare as text."""
    since = options.since_time
    if since is None and options.since_seconds is not None:
        since = now - options.since_seconds
    if since is None:
        return b""
    return f"{format_time(since)[:-1]}.{int(since % 1 * 1e6):06d}000Z".encode()


def _rendered(lines: list[bytes], since: bytes, stamp: bool, begun: bool) -> tuple[bytes, bool]:
    """Stored lines as the caller wants them, and whether the last of them goes on; not those that are too old or not whole.

    A line stored in parts (tag P, but for the last one) is given as one, with one time. `begun`: it follows such a part.
    """
    found: list[bytes] = []
    for line in lines:
        parts = line.split(b" ", 3)
        if len(parts) < 4 or parts[0] < since:
            continue
        moment, _, tag, text = parts
        found += [moment, b" "] if stamp and not begun else []
        begun = tag == b"P"
        found += [text] if begun else [text, b"\n"]
    return b"".join(found), begun


async def read_log(path: Path, options: LogOptions, now: float, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log at `path` under `options`; with `follow`, until `ended()` and everything is sent."""
    since, budget = _since(options, now), options.limit_bytes
    reader = Reader(path)
    begun = False

    def piece() -> tuple[bytes, int]:
        nonlocal begun
        lines, taken = reader.read()
        block, begun = _rendered(lines, since, options.timestamps, begun)
        return block, taken

    try:
        # Asked before reading: what a run wrote before its end is then surely in the file.
        over = ended() or not options.follow
        left = await asyncio.to_thread(reader.start, options.tail_lines)
        while True:
            block, taken = piece() if reader.left() <= _CHUNK else await asyncio.to_thread(piece)
            left -= taken
            if budget is not None:
                block = block[:budget]
                budget -= len(block)
            for start in range(0, len(block), _CHUNK):
                yield block[start : start + _CHUNK]
            # What a run writes while it is read is not waited for without `follow`.
            if budget == 0 or (over and (not taken or (not options.follow and left <= 0))):
                return
            if not taken:
                over = ended()
                if not over:
                    await asyncio.sleep(_POLL)
    finally:
        reader.close()
