"""The exceptions that a program printed, read from its last lines: Python's, and the errors of other languages."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jobcommon.causes import languages

#: What torchrun, mpirun and exception groups put before the lines of a process.
PROCESS = re.compile(
    r"^(?:(?:\w{3} \w{3} +\d+ [\d:]+ \d{4}|[\w.-]+: )?\[(?:rank|default)?\d+(?:,\d+)*\](?:<\w+>)?:?\s?|"
    r"\(\w+(?: \w+=\S+)* pid=\d+[^)]*\)\s?)"
)
_GROUP = re.compile(r"^(?:\s*\|\s?|\s*\+[-+ ]*)")
_LOG = re.compile(
    r"^(?:\[(?:\w* ?\d|[A-Z]+\])|(?:ERROR|WARNING|INFO|DEBUG|CRITICAL):[\w.]+:|LAUNCH [A-Z]+ |"
    r'[EWIF]\d{4} |\d{4}-\d\d-\d\d|={8}|-{8}|\{")'
)
# What other programs print below a message: make, shells, launchers, and bars of tqdm.
_OTHERS = re.compile(
    r"^(?:=+> |\++ [\w./]|wandb: |\S+ - (?:DEBUG|INFO|WARN|ERROR|CRITICAL)|make(?:\[\d+\])?: |[^\s:]+: line \d+: |"
    r"(?:[Ee]rror|ERROR|FATAL|fatal): )|.*\d%\|.*[|\]]"
)
HEADER = re.compile(r"Traceback \(most recent call last\)")
_FRAME = re.compile(r'^[\s>]\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,|$)')
# Classes begin with a capital letter, or are of a module, as socket.timeout.
_EXCEPTION = re.compile(r"^(?!(?i:hint|note|tip):)(?P<type>(?:[A-Za-z_]\w*\.)+\w+|[A-Z_]\w*)(?:\(\w+\))?(?::(?:\s|$)|$)")
# A progress bar, and an exception in the same line.
_BAR = re.compile(r".*\d+%\|.*?\]\s?(?=[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b)")
_CUT_OFF = re.compile(r"(?:[ \t]+\S.*\n)+[A-Za-z_][\w.]*(?:Error|Exception): ")
CAUSED, MEANWHILE = "The above exception was the direct cause", "During handling of the above exception"
_CHAINED = re.compile(rf"^(?:{MEANWHILE}|({CAUSED}))")
# Tracebacks after these lines belong to clean-up, or were only logged.
_IGNORED = re.compile(r"^(?:Exception ignored in|Error in atexit|--- Logging error ---|Exception in thread .*tqdm)")
# These only report that another process has failed.
_WRAPPERS = re.compile(
    r"(?:^|\.)(?:ChildFailedError|KeyboardInterrupt|SimplifiedTraceback|UnfilteredStackTrace|RayTaskError|"
    r"CalledProcessError|SystemExit|SignalException|ProcessRaisedException|ExceptionGroup|"
    r"ProcessExitedException|HorovodInternalError|PapermillExecutionError|CellExecutionError)$"
)
# The traceback of a task of Ray follows, with the exception that ended it.
_OF_TASK = re.compile(r"ray\.exceptions\.RayTaskError\(")
_PASSED_ON = re.compile(
    r"Horovod detected that one or more processes exited with non-zero status|Caught \w+ in DataLoader worker process \d+|"
    r"error reading from connection|CheckpointException ranks:|`Termination signal` is detected|Any \{ \.\. \}$|"
    r"\bPoisonError \{|# The last \d+ lines of "
)
_LIBRARY = re.compile(r"__autograph_generated|site-packages|dist-packages|/lib/python|^<|/bin/[^/.]+$")
_OF_LIBRARY = re.compile(rf"{_LIBRARY.pattern}|/usr/lib|python\d")
_CRASHED = re.compile(r"Current thread .*\(most recent call first\):\n((?:\s+File .*\n?)+)")
# Of a crash in a thread that Python did not start, all threads that it did.
_CRASHED_OUTSIDE = re.compile(
    r"Fatal Python error: .*\n(?:.*\n)*?(?:Thread|Stack) .*\(most recent call first\):\n((?:\s+File .*\n?)+)"
)
_CRASHED_JULIA = re.compile(r"signal \([\d.]+\): .*\nin expression starting at (\S+):(\d+)\n(\S+) at (\S+)")
# Of a frame's file, what stands before the package, or before the name of a file of the program.
_PACKAGE = re.compile(r"(?:site|dist)-packages/(\w+)/")
_OF_PACKAGE = re.compile(r".*(?:site|dist)-packages/|.*/(?!.*(?:site|dist)-packages/)")
_CRASH_FRAME = re.compile(r'File "([^"]+)", line (\d+) in (.+)')
# Of a message of several lines, as many are read: NCCL names its cause in the third. Frames of Java do not count.
MOST_LINES = 12
# A line that is indented explains a brief message; but for fields, and for places in YAML.
_BRIEF = re.compile(r"[\w.]+: (?!.*\bvalidation error).{,70}[^:]$")
_EXPLAINS = re.compile(r"\s+(?![a-z_]+: \S+$|in \")[\w(\'].*")
_OTHERS_FRAME = re.compile(r'^\s+(?:at |\.{3} |\[bt\] |File "src/)|^Stack trace:$|^HTTP response headers: ')
_NCCL = "Last error:"
#: What the first line of the Hugging Face Hub has. A blank line and the message follow.
OF_HUB = "(Request ID: "
# Frames of other languages, which are named below the program's own.
_NATIVE = re.compile(r"\.(?:cc|cpp|cu|h|hpp|rs|pyx)$")
_BOILERPLATE = re.compile(r"The error could be from a previous operation|The tasks have crashed")
_ROOT_ERRORS = "root error(s) found."
_USER_CODE = "in user code:"
_GRAPH_FAILED, _NODE = "Graph execution error:", re.compile(r"^\s*\[\[\{\{(?:function_)?node ")


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception: its lines (the type and message first), its frames, and where the program's own code raised it.

    `chained`: it follows from the one before in its `process`, which is its direct cause if `direct` (``raise … from``).
    `begin` and `end` are the numbers of the first line of its traceback and of its message. `ignored`: the program went on, as
    after what fails in a finalizer.
    """

    lines: tuple[str, ...]
    frames: tuple[str, ...]
    where: str
    chained: bool
    direct: bool
    process: str
    begin: int
    end: int
    python: bool = True
    ignored: bool = False

    @property
    def type(self) -> str:
        """The exception's class, with its module."""
        found = _EXCEPTION.match(self.lines[0])
        return found["type"] if found else ""

    @property
    def wraps(self) -> bool:
        """Whether it only reports that another process has failed."""
        return _WRAPPERS.search(self.type) is not None or _PASSED_ON.search(" ".join(self.lines[:2])) is not None

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
    without = PROCESS.sub("", line, count=1)
    return without if without != line else _GROUP.sub("", line, count=1)


def crashed(lines: Sequence[str]) -> tuple[str, str] | None:
    """Where the thread that crashed was, by Python's faulthandler, and which library that is; None if it printed nothing."""
    text = "\n".join(map(plain, lines))
    found = _CRASHED.search(text) or _CRASHED_OUTSIDE.search(text)
    frames = [frame for frame in _CRASH_FRAME.findall(found[1]) if not frame[0].startswith("<")] if found else []
    if not frames:
        julia = _CRASHED_JULIA.search("\n".join(lines))
        return (
            (
                f"{julia[3]} ({julia[4]}), called by {julia[1].rpartition('/')[2]}, line {julia[2]}",
                f"the library that {julia[3]} calls",
            )
            if julia
            else None
        )
    named = [(file, f"{function} ({_OF_PACKAGE.sub('', file, count=1)}, line {number})") for file, number, function in frames]
    own = next((name for file, name in named if not _OF_LIBRARY.search(file)), "")
    place = named[0][1]
    package = _PACKAGE.search(named[0][0])
    library = (
        f"the package {package[1]}, its version and what it was given" if package else f"the library that {frames[0][2]} calls"
    )
    return (place if own in ("", place) else f"{place}, called by {own}"), library


def raised(lines: Sequence[str]) -> list[Raised]:
    """The exceptions in the order of their last lines, each with all lines up to the end of its message.

    The lines of several processes may be mixed, if each line has a prefix.
    """
    return [one for one in _all(lines) if not one.ignored]


def in_stacks(lines: Sequence[str]) -> set[int]:
    """The numbers of the lines that are of no message: those of stacks, and of exceptions that were ignored."""
    return {number for one in _all(lines) for number in range(one.begin, one.end + one.ignored)}


def begin_of_stack(lines: Sequence[str], number: int) -> int:
    """Where the stack to which this line belongs begins, with the line before it; that line itself, if it belongs to none."""
    return min((max(one.begin - 1, 0) for one in _all(lines) if one.begin <= number <= one.end), default=number)


def _all(lines: Sequence[str]) -> list[Raised]:
    streams: dict[str, list[tuple[int, str]]] = {}
    for number, line in enumerate(lines):
        process = PROCESS.match(line)
        stream = streams.setdefault(process[0].strip() if process else "", [])
        stream += ((number, part) for part in _parts(plain(line)))
    found = [one for process, stream in streams.items() for one in _raised(process, stream)]
    if not any(one.type.endswith("Py4JJavaError") for one in found):
        # Its message has all that Java printed.
        found += [one for process, stream in streams.items() for one in _of_others(process, stream)]
    # The beginning of the first stack may be missing, and with it that it was ignored.
    noise = {one.lines for one in found if one.ignored}
    found = [replace(one, ignored=True) if one.begin == 0 and one.lines in noise else one for one in found]
    return sorted(found, key=lambda one: one.end)


def _parts(line: str) -> Iterator[str]:
    """The line, parted where outputs of several processes or a progress bar run into each other."""
    at = line.find("Traceback (most recent call last)")
    before = line[:at].rstrip("+- |") if at > 0 else ""
    if before and _EXCEPTION.match(before):
        yield before
        # MXNet's message is a traceback of C++.
        line = "" if before.endswith("MXNetError:") else line[at:]
    elif (bar := _BAR.match(line)) is not None:
        line = line[bar.end() :]
    yield line


def _raised(process: str, stream: Sequence[tuple[int, str]]) -> Iterator[Raised]:
    numbers, lines = [number for number, _ in stream], [line for _, line in stream]
    frames: list[str] = []
    where = ""
    # What a kubelet keeps of a log may begin within a traceback.
    inside = _CUT_OFF.match("\n".join(lines[:MOST_LINES])) is not None
    chained = direct = ignored = False
    begin, end = 0, -1
    for at, line in enumerate(lines):
        if at <= end:
            continue
        if HEADER.search(line):
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
        elif inside and line[:1].strip() and _EXCEPTION.match(line) is not None and _OF_TASK.match(line) is None:
            message, end = _message(lines, at)
            ignored = ignored or any(" in __del__" in line for line in frames)
            span = numbers[begin], numbers[at]
            yield Raised(message, tuple(frames), where, chained, direct, process, *span, ignored=ignored)
            inside = chained = direct = ignored = False
            frames, where = [], ""
        elif inside:
            frames.append(line.strip())


def _of_others(process: str, stream: Sequence[tuple[int, str]]) -> Iterator[Raised]:
    """The errors of other languages. A cause comes before what it has caused, as in Python."""
    chains: list[list[languages.Error]] = []
    for error in languages.errors([line for _, line in stream]):
        if error.caused and chains:
            chains[-1].append(error)
        else:
            chains.append([error])
    for chain in chains:
        begin, end = stream[chain[0].begin][0], stream[chain[-1].end][0]
        for number, error in enumerate(reversed(chain)):
            yield Raised(error.lines, (), error.where, number > 0, number > 0, process, begin, end, python=False)


def _message(lines: Sequence[str], at: int) -> tuple[tuple[str, ...], int]:
    """The lines of the exception's message, and the number of the line at which the next exception may begin."""
    found = [lines[at].strip()]
    if found[0].endswith(_GRAPH_FAILED):
        # Tensorflow names the problem before the node, after many lines.
        end = next((number for number in range(at + 1, len(lines)) if _LOG.match(lines[number])), len(lines))
        node = next((number for number in range(at + 1, end) if _NODE.match(lines[number])), None)
        if node is None:
            return tuple(found), at
        message = [line.strip() for line in lines[at + 1 : node] if line.strip() and not _BOILERPLATE.match(line)]
        if roots := [line for line in message if line.startswith("(0) ")]:
            return (found[0], f"{roots[0]} {lines[node].strip()}"), node
        headed = message[-2:-1] if len(message) > 1 and message[-2].endswith(":") else []
        return (found[0], " ".join(headed + message[-1:])), node
    if found[0].endswith(_USER_CODE):
        # The frames of AutoGraph, and the exception below them.
        inner = (number for number in range(at + 1, len(lines)) if _EXCEPTION.match(lines[number].strip()))
        number = next(inner, at)
        return (lines[number].strip(),), number
    if found[0].endswith(_ROOT_ERRORS):
        first = next((line.strip() for line in lines[at + 1 : at + MOST_LINES] if line.strip().startswith("(0) ")), "")
        return (found[0], *([first] if first else [])), at
    # DALI says in the middle of its message where the program built the pipeline.
    quotes, end = False, at
    for number, line in enumerate(lines[at + 1 :], at + 1):
        quotes = quotes or found[-1].endswith("traceback:")
        goes_on = found[-1].endswith((":", ",", ".call().")) or (len(found) == 1 and OF_HUB in found[0])
        if (not line.strip() and goes_on) or (quotes and (not line.strip() or line[:1].isspace())):
            continue
        if quotes and line.strip() == "encountered:":
            found = found[:1]
            continue
        over = any(begins.match(line) for begins in (_CHAINED, _IGNORED, _LOG)) or HEADER.search(line) is not None
        over = over or (_OTHERS.match(line) is not None and not found[-1].endswith(":"))
        if not line.strip() or over or len(found) == MOST_LINES:
            break
        if _OTHERS_FRAME.match(line) or line.strip() == '"""':
            # concurrent.futures quotes a traceback.
            pass
        elif _EXPLAINS.match(line) and len(found) == 1 and _BRIEF.match(found[0]):
            found[0] += f" {line.strip()}"
        else:
            found.append(line.strip())
        end = number if quotes else at
    # rich wraps a message below its box.
    return ((" ".join(found),) if at and lines[at - 1].startswith("╰") else tuple(found)), end
