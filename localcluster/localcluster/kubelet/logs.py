"""Reading container logs: the filters of ``kubectl logs``, and following.

A log may be large and the cluster is one event loop, so files are read in pieces, from where the wanted lines begin, and others
have their turn after each.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO

from localcluster.pod_backend import LogOptions
from localcluster.timestamps import format_time

_POLL = 0.03
_CHUNK = 1 << 16


class Reader:
    """Reads one run's log, the rotated file first, and follows it through rotation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = [path.open("rb")] if path.exists() else []  # the current one is the last
        old = Path(f"{path}.old")
        if old.exists():
            self._files.insert(0, old.open("rb"))
            if len({os.fstat(file.fileno()).st_ino for file in self._files}) < len(self._files):
                self._files.pop().close()  # it was rotated between the two

    async def skip(self, tail: int) -> None:
        """Go to the last `tail` lines."""
        for place, file in reversed([*enumerate(self._files)]):
            tail -= await _seek_lines(file, tail)
            if not tail:
                for earlier in self._files[:place]:
                    earlier.close()
                del self._files[:place]
                return

    def left(self) -> int:
        """How many bytes are known to be there."""
        return sum(os.fstat(file.fileno()).st_size - file.tell() for file in self._files)

    def read(self) -> list[bytes]:
        """The next whole lines, about `_CHUNK` bytes of them; none at the end of what there is."""
        while self._files:
            file = self._files[0]
            lines = file.readlines(_CHUNK)
            if lines and not lines[-1].endswith(b"\n"):
                file.seek(-len(lines.pop()), os.SEEK_CUR)  # it is being written
            if lines:
                return lines
            if len(self._files) > 1:
                self._files.pop(0).close()
            elif self._path.exists() and os.fstat(file.fileno()).st_ino != self._path.stat().st_ino:
                self._files.append(self._path.open("rb"))  # something may have come into the other before that
            else:
                break
        return []

    def close(self) -> None:
        """Release the files."""
        for file in self._files:
            file.close()


async def _seek_lines(file: BinaryIO, count: int) -> int:
    """Move to where the last `count` whole lines begin; how many there are, at most `count`."""
    position, found = os.fstat(file.fileno()).st_size, 0
    while position > 0:
        step = min(_CHUNK, position)
        position -= step
        block = os.pread(file.fileno(), step, position)
        newlines = block.count(b"\n")
        if found + newlines > count:
            end = len(block)
            for _ in range(count + 1 - found):
                end = block.rindex(b"\n", 0, end)
            file.seek(position + end + 1)
            return count
        found += newlines
        await asyncio.sleep(0)
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
    """Stored lines as the caller wants them, and whether the last of them goes on; not those that are too old.

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
        found.append(text[:-1] if begun else text)
    return b"".join(found), begun


async def read_log(path: Path, options: LogOptions, now: float, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log at `path` under `options`; with `follow`, until `ended()` and everything is sent."""
    since, budget, begun = _since(options, now), options.limit_bytes, False
    reader = Reader(path)
    try:
        # Asked before reading: what a run wrote before its end is then surely in the file.
        over = ended() or not options.follow
        if options.tail_lines is not None:
            await reader.skip(options.tail_lines)
        left = reader.left()
        while True:
            lines = reader.read()
            left -= sum(map(len, lines))
            block, begun = _rendered(lines, since, options.timestamps, begun)
            if budget is not None:
                block = block[:budget]
                budget -= len(block)
            if block:
                yield block
            # What a run writes while it is read is not waited for without `follow`.
            if budget == 0 or (over and (not lines or (not options.follow and left <= 0))):
                return
            over = over or (not lines and ended())
            await asyncio.sleep(0 if lines or over else _POLL)
    finally:
        reader.close()
