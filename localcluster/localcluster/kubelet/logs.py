"""Reading container logs: the filters of ``kubectl logs``, and following.

A log may be large and the cluster is one event loop, so files are read in pieces, from where the wanted lines begin, and others
have their turn after each.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO

from localcluster.pod_backend import LogOptions
from localcluster.timestamps import format_time

_POLL = 0.03
_CHUNK = 1 << 16
_WHOLE = re.compile(rb"^\S+ \S+ F [^\n]*\n", re.MULTILINE)


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
    """Move to where the last `count` whole lines begin; how many there are, at most `count`.

    A part of a line, such as a state of a progress bar, is none.
    """
    position, found, step = os.fstat(file.fileno()).st_size, 0, _CHUNK
    while position > 0:
        begin = max(position - step, 0)
        block = os.pread(file.fileno(), position - begin, begin)
        cut = block.find(b"\n") + 1 if begin else 0
        if begin and cut in (0, len(block)):
            step *= 2  # a line is longer
            continue
        ends = [record.end() for record in _WHOLE.finditer(block, cut)]
        if found + len(ends) > count:
            file.seek(begin + ends[-(count + 1 - found)])
            return count
        found, position, step = found + len(ends), begin + cut, _CHUNK
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


class Rendering:
    """Makes of stored lines what the caller wants, without those that are too old.

    A line stored in parts (tag P, but for the last one) is given as one, with one time. What another stream prints meanwhile
    takes its place by a carriage return, and what there is of it is given again when it goes on: it may be a progress bar.
    """

    def __init__(self, since: bytes = b"", *, stamp: bool = False) -> None:
        self._since, self._stamp = since, stamp
        self._stream = b""  # whose line was given last and goes on
        self._begun: dict[bytes, bytes] = {}

    def of(self, lines: list[bytes]) -> bytes:
        """The next lines."""
        found: list[bytes] = []
        for line in lines:
            parts = line.split(b" ", 3)
            if len(parts) < 4 or parts[0] < self._since:
                continue
            moment, stream, tag, text = parts
            begun = self._begun.pop(stream, b"")
            if self._stream != stream:
                found += [b"\r"] if self._stream else []
                found += [moment, b" ", begun] if self._stamp else [begun]
            self._stream = stream if tag == b"P" else b""
            if self._stream:
                text = text[:-1]
                _, overwritten, shown = (begun + text).rpartition(b"\r")
                self._begun[stream] = (overwritten + shown)[-_CHUNK:]
            found.append(text)
        return b"".join(found)


async def read_log(path: Path, options: LogOptions, now: float, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log at `path` under `options`; with `follow`, until `ended()` and everything is sent."""
    rendering = Rendering(_since(options, now), stamp=options.timestamps)
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
            if block := rendering.of(lines):
                yield block
            # What a run writes while it is read is not waited for without `follow`.
            if over and (not lines or (not options.follow and left <= 0)):
                return
            over = over or (not lines and ended())
            await asyncio.sleep(0 if lines or over else _POLL)
    finally:
        reader.close()
