"""The exceptions that a Python program printed, read from its last lines."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# What torchrun, mpirun and exception groups put before the lines of a process.
_PREFIX = re.compile(r"^(?:\[(?:rank|default)?\d+(?:,\d+)*\](?:<\w+>)?:?\s?|\(\w+ pid=\d+[^)]*\)\s?|\s*\|\s?|\s*\+[-+ ]*)")
_LOG = re.compile(r"^(?:\[|[EWIF]\d{4} |\d{4}-\d\d-\d\d|={8}|-{8})")
_HEADER = re.compile(r"Traceback \(most recent call last\)")
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,|$)')
_EXCEPTION = re.compile(r"^(?!(?:hint|note|tip):)(?P<type>[A-Za-z_][\w.]*)(?::(?:\s|$)|$)", re.IGNORECASE)
# A progress bar, and an exception in the same line.
_BAR = re.compile(r".*\d+%\|.*?\]\s?(?=[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b)")
_CHAINED = re.compile(r"^(?:During handling of the above exception|(The above exception was the direct cause))")
# Tracebacks after these lines belong to clean-up, or were only logged.
_IGNORED = re.compile(r"^(?:Exception ignored in|Error in atexit|--- Logging error ---|Exception in thread .*tqdm)")
# These only report that another process has failed.
_WRAPPERS = re.compile(
    r"(?:^|\.)(?:ChildFailedError|CalledProcessError|SystemExit|SignalException|ProcessRaisedException|ExceptionGroup|"
    r"ProcessExitedException|HorovodInternalError)$"
)
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python|^<|/usr/bin/|\.venv/bin")
# Of a message of several lines, as many are read: NCCL names its cause in the third. Frames of Java do not count.
_MOST_LINES = 12
_JAVA_FRAME = re.compile(r"^\s+(?:at |\.{3} )")
_NCCL = "Last error:"
# Frames of other languages, which are named below the program's own.
_NATIVE = re.compile(r"\.(?:cc|cpp|cu|h|hpp|rs)$")
# The stack of a crash in native code: frames of c10, glibc, glog, dmlc and Open MPI, their titles, and a list of modules.
_STACK = re.compile(
    r"\s*(?:frame #\d+: |#\d+ +0x|@ +0x|\d+ +0x[0-9a-f]+ |\[bt\] |<omitting python frames>|Extension modules: |Stack trace:|"
    r"\[[^]]*:\d+\] (?:\[ ?\d+\] |\*\*\* )|\*\*\* Process received|"
    r"(?:Exception raised from|C\+\+ Traceback).*\(most recent call (?:first|last)\):)|.*[\[(]0x[0-9a-f]+(?: in \S+)?[\])]$"
)
_GRAPH_FAILED, _NODE = "Graph execution error:", re.compile(r"^\s*\[\[\{\{node ")


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception: its lines (the type and message first), its frames, and where the program's own code raised it.

    `chained`: it follows from the one before, which is its direct cause if `direct` (``raise … from``). `begin` is the number
    of the first line of its traceback.
    """

    lines: tuple[str, ...]
    frames: tuple[str, ...]
    where: str
    chained: bool
    direct: bool
    begin: int

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

    @property
    def innermost(self) -> str:
        """What NCCL names as its last error; "" of other exceptions."""
        return " ".join(self.lines[self.lines.index(_NCCL) + 1 :][:1]) if _NCCL in self.lines else ""


def plain(line: str) -> str:
    """The line without the prefix of its process."""
    return _PREFIX.sub("", line, count=1)


def telling(lines: Sequence[str]) -> list[str]:
    """Those that a person or a program has worded: without the stack of a crash, if there are any."""
    worded = [line for line in lines if line.strip()]
    return [line for line in worded if not _STACK.match(plain(line))] or worded


def raised(lines: Sequence[str]) -> list[Raised]:
    """The exceptions in the order of their last lines, each with all lines up to the end of its message."""
    return list(_raised([part for line in lines for part in _parts(plain(line))]))


def _parts(line: str) -> Iterator[str]:
    """The line, parted where outputs of several processes or a progress bar run into each other."""
    at = line.find("Traceback (most recent call last)")
    before = line[:at].rstrip("+- |") if at > 0 else ""
    if before and _EXCEPTION.match(before):
        yield before
        line = line[at:]
    elif (bar := _BAR.match(line)) is not None:
        line = line[bar.end() :]
    yield line


def _raised(lines: Sequence[str]) -> Iterator[Raised]:
    frames: list[str] = []
    where = ""
    inside = chained = direct = ignored = False
    begin = end = 0
    for at, line in enumerate(lines):
        if at < end:
            continue
        if _HEADER.search(line):
            inside, frames, where, begin = True, [], "", at
            ignored = at > 0 and _IGNORED.match(lines[at - 1]) is not None
        elif (frame := _FRAME.match(line)) is not None:
            begin = begin if inside else at
            inside = True
            frames.append(line.strip())
            if not _LIBRARY.search(frame["file"]) and not _NATIVE.search(frame["file"]):
                where = f"{frame['file'].rpartition('/')[2]}, line {frame['line']}"
        elif (link := _CHAINED.match(line)) is not None:
            chained, direct = True, link[1] is not None
        elif inside and line[:1].strip() and (_EXCEPTION.match(line) is not None):
            message = _message(lines, at)
            if not ignored:
                yield Raised(message, tuple(frames), where, chained, direct, begin)
            if line.rstrip().endswith(_GRAPH_FAILED):
                end = next((number for number in range(at, len(lines)) if _NODE.match(lines[number])), at)
            inside = chained = direct = ignored = False
            frames, where = [], ""
        elif inside:
            frames.append(line.strip())


def _message(lines: Sequence[str], at: int) -> tuple[str, ...]:
    """The lines of the exception's message."""
    found = [lines[at].strip()]
    if found[0].endswith(_GRAPH_FAILED):
        # Tensorflow names the problem before the node, after many lines.
        nodes = (number for number in range(at + 1, len(lines)) if _NODE.match(lines[number]))
        return (found[0], *(lines[number - 1].strip() for number in [*nodes][:1]))
    for line in lines[at + 1 :]:
        if not line.strip() and len(found) == 1 and found[0].endswith(":"):
            continue
        over = not line.strip() or _HEADER.search(line) or _CHAINED.match(line) or _IGNORED.match(line) or _LOG.match(line)
        if over or len(found) == _MOST_LINES:
            break
        if not _JAVA_FRAME.match(line):
            found.append(line.strip())
    return tuple(found)
