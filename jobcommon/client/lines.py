"""Streams of lines: splitting chunks into lines, and closing a stream that is left early."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager


class LineSplitter:
    """Puts chunks together to lines. Linear in the bytes, whatever the length of a line: a pod may be a megabyte."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that `chunk` completes, without their ends; empty ones are skipped."""
        first, newline, rest = chunk.partition(b"\n")
        self._parts.append(first)
        if not newline:
            return
        *lines, last = [b"".join(self._parts), *rest.split(b"\n")]
        self._parts = [last]
        for line in lines:
            stripped = line.removesuffix(b"\r")
            if stripped:
                yield stripped

    def rest(self) -> bytes:
        """What came after the last newline."""
        return b"".join(self._parts)


@asynccontextmanager
async def closing(lines: AsyncIterator[bytes]) -> AsyncIterator[AsyncIterator[bytes]]:
    """Close `lines` at the end, so that a stream left early gives its connection back at once."""
    try:
        yield lines
    finally:
        close = getattr(lines, "aclose", None)
        if close is not None:
            await close()
