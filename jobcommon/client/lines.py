"""Streams of lines: chunks as lines, and what is seen of a line that is overwritten."""

import re
from collections.abc import Iterator

_QUOTED = re.compile(r"(?<=\S)\r(?=: [a-z])")
_UP = re.compile(r"\x1b\[\d*A")


class LineSplitter:
    """Puts chunks together to lines. Linear in the bytes, whatever the length of a line: a pod may be a megabyte."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that `chunk` completes, without their ends; empty ones are skipped.

        Of a line that is not complete and is overwritten by carriage returns, as a progress bar is, what it shows now comes
        with a carriage return at its end. When it is complete it comes with its beginning and what it showed last.
        """
        first, newline, rest = chunk.partition(b"\n")
        self._parts.append(first)
        if newline:
            *lines, last = [b"".join(self._parts), *rest.split(b"\n")]
            self._parts = [last]
            for line in lines:
                stripped = line.rstrip(b"\r")
                if stripped:
                    yield stripped
        if b"\r" in self._parts[-1]:
            yield from self._overwritten()

    def _overwritten(self) -> Iterator[bytes]:
        """What the incomplete line shows now. What it showed between its beginning and that is dropped."""
        head, _, tail = b"".join(self._parts).partition(b"\r")
        shown = tail.rstrip(b"\r")
        frame = shown.rpartition(b"\r")[2]
        self._parts = [head, b"\r", frame, tail[len(shown) :][:1]]
        # The other half of a line's end may follow.
        if shown:
            yield frame + b"\r"

    def rest(self) -> bytes:
        """What came after the last newline."""
        return b"".join(self._parts).rstrip(b"\r")


def last_frame(line: str) -> str:
    """What is seen of a line that is overwritten by carriage returns: what was written last, unless that is blank.

    A return that a shell quotes from a script with Windows line endings is shown as the letters \\r.
    """
    line = _QUOTED.sub(r"\\r", line)
    return next((frame for frame in reversed(line.split("\r")) if frame.strip()), "") if "\r" in line else line


class SeenLines:
    """Makes of the lines of a log what is seen of them.

    A state that is still to be overwritten comes with a carriage return at its end. So does a line from which the cursor has
    been moved up, as nested progress bars do; the last one of these is a line when another follows.
    """

    def __init__(self) -> None:
        self._last = ""

    def feed(self, line: str) -> Iterator[str]:
        """What is seen with this line, or with this state of one, which has a carriage return at its end."""
        shown = _UP.sub("", last_frame(line))
        if line.endswith("\r"):
            yield f"{shown}\r"
        elif _UP.search(line):
            self._last = shown
            yield f"{shown}\r"
        else:
            yield from self.rest()
            yield shown

    def rest(self) -> Iterator[str]:
        """What is seen at the end."""
        if self._last:
            yield self._last
        self._last = ""


def shown_lines(text: str) -> list[str]:
    """The lines of a log, as they are seen in the end."""
    seen, lines = SeenLines(), text.removesuffix("\n").split("\n") if text else []
    found = [shown for line in lines for shown in seen.feed(line.rstrip("\r")) if not shown.endswith("\r")]
    return [*found, *seen.rest()]
