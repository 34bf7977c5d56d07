"""The exceptions that a Python program printed, read from its last lines."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# What torchrun, mpirun and exception groups put before the lines of a process.
_PREFIX = re.compile(r"^(?:\[(?:rank|default)?\d+(?:,\d+)*\](?:<\w+>)?:?\s?|\(\w+ pid=\d+[^)]*\)\s?|\s*\|\s?|\s*\+[-+ ]*)")
_LOG = re.compile(r"^(?:\[|[EWIF]\d{4} |\d{4}-\d\d-\d\d|={8}|-{8})")
_HEADER = re.compile(r"Traceback \(most recent call last\)")
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)')
_EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?::(?:\s|$)|$)")
_CHAINED = re.compile(r"^(?:During handling of the above exception|The above exception was the direct cause)")
# Tracebacks after these lines belong to clean-up, or were only logged.
_IGNORED = re.compile(r"^(?:Exception ignored in|Error in atexit|--- Logging error ---|Exception in thread .*tqdm)")
# These only report that another process has failed.
_WRAPPERS = re.compile(
    r"(?:^|\.)(?:ChildFailedError|CalledProcessError|SystemExit|SignalException|ProcessRaisedException|ExceptionGroup|"
    r"ProcessExitedException|HorovodInternalError)$"
)
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python|^<|/usr/bin/|\.venv/bin")
# Of a message of several lines, as many are read: NCCL names its cause in the third.
_MOST_LINES = 12


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception: its lines (the type and message first), its frames, where the program's own code raised it, and whether it
    follows from the one before. `at` is the number of its line.
    """

    lines: tuple[str, ...]
    frames: tuple[str, ...]
    where: str
    chained: bool
    at: int

    @property
    def type(self) -> str:
        """The exception's class, with its module."""
        found = _EXCEPTION.match(self.lines[0])
        return found["type"] if found else ""

    @property
    def wraps(self) -> bool:
        """Whether it only reports that another process has failed."""
        return _WRAPPERS.search(self.type) is not None

    @property
    def text(self) -> str:
        """All that a pattern may look at: the message, and the frame that raised it."""
        return "\n".join((*self.lines, *self.frames[-2:]))


def plain(line: str) -> str:
    """The line without the prefix of its process."""
    return _PREFIX.sub("", line, count=1)


def raised(lines: Sequence[str]) -> list[Raised]:
    """The exceptions in the order of their last lines, each with all lines up to the end of its message."""
    return list(_raised([plain(line) for line in lines]))


def _raised(lines: Sequence[str]) -> Iterator[Raised]:
    frames: list[str] = []
    where = ""
    inside = chained = ignored = False
    for at, line in enumerate(lines):
        if _HEADER.search(line):
            inside, frames, where = True, [], ""
            ignored = at > 0 and _IGNORED.match(lines[at - 1]) is not None
        elif (frame := _FRAME.match(line)) is not None:
            inside = True
            frames.append(line.strip())
            if not _LIBRARY.search(frame["file"]):
                where = f"{frame['file'].rpartition('/')[2]}, line {frame['line']}"
        elif _CHAINED.match(line):
            chained = True
        elif inside and line[:1].strip() and (_EXCEPTION.match(line) is not None):
            if not ignored:
                yield Raised(_message(lines, at), tuple(frames), where, chained, at)
            inside = chained = ignored = False
            frames, where = [], ""
        elif inside:
            frames.append(line.strip())


def _message(lines: Sequence[str], at: int) -> tuple[str, ...]:
    """The lines of the exception's message."""
    found = [lines[at].strip()]
    for line in lines[at + 1 : at + _MOST_LINES]:
        if not line.strip() or _HEADER.search(line) or _CHAINED.match(line) or _IGNORED.match(line) or _LOG.match(line):
            break
        found.append(line.strip())
    return tuple(found)
