"""Reading container logs: the filters of ``kubectl logs``, and following."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from localcluster.apiserver.pods import LogOptions
from localcluster.timestamps import parse_time

_POLL = 0.03
_CHUNK = 1 << 16


def _lines(paths: list[Path]) -> Iterator[bytes]:
    for path in paths:
        if path.exists():
            with path.open("rb") as file:
                yield from file


class Reader:
    """Follows one run's log through rotation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._rest = b""

    def read(self) -> list[bytes]:
        """The whole lines written since the last call."""
        lines: list[bytes] = []
        while True:
            if self._file is None:
                if not self._path.exists():
                    return lines
                self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            while piece := os.read(self._file, _CHUNK):
                *whole, self._rest = (self._rest + piece).split(b"\n")
                lines += whole
            try:
                same = os.fstat(self._file).st_ino == self._path.stat().st_ino
            except FileNotFoundError:
                return lines
            if same or self._rest:
                return lines
            self.close()

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _since(options: LogOptions, now: float) -> float | None:
    if options.since_time is not None:
        return options.since_time
    return None if options.since_seconds is None else now - options.since_seconds


def _render(line: bytes, options: LogOptions, since: float | None) -> bytes | None:
    """A stored line as the caller wants it; None when it is too old or not whole."""
    parts = line.rstrip(b"\n").split(b" ", 3)
    if len(parts) < 4:
        return None
    moment, _, tag, text = parts
    if since is not None and parse_time(moment.decode()) < since:
        return None
    end = b"" if tag == b"P" else b"\n"
    return (moment + b" " + text if options.timestamps else text) + end


async def read_log(path: Path, options: LogOptions, now: float, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log at `path` under `options`; with `follow`, until `ended()` and everything is sent."""
    since, budget = _since(options, now), options.limit_bytes
    reader = Reader(path)
    try:
        # Asked before reading: what a run wrote before its end is then surely in the file.
        over = ended() or not options.follow
        old = Path(f"{path}.old")
        stored = [*_lines([old]), *reader.read()]
        rendered = (piece for line in stored if (piece := _render(line, options, since)) is not None)
        first = deque(rendered, maxlen=options.tail_lines) if options.tail_lines is not None else rendered
        pieces = list(first)
        while True:
            block = b"".join(pieces)
            if budget is not None:
                block = block[:budget]
                budget -= len(block)
            for start in range(0, len(block), _CHUNK):
                yield block[start : start + _CHUNK]
            if over or budget == 0:
                return
            over = ended()
            if not over:
                await asyncio.sleep(_POLL)
            pieces = [piece for line in reader.read() if (piece := _render(line, options, since)) is not None]
    finally:
        reader.close()
