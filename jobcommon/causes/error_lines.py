"""The error that a program's last lines name: its last exception, of several processes the first, or else a line.

It is what a job's condition quotes, without any table of known messages: in a time that is linear in what is read.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from jobcommon.causes.cause import in_short
from jobcommon.causes.printed import HEADER, Line, is_hint, is_stack, messages

# A kubelet keeps as much of a message, and as many lines of a log for it.
MESSAGE, _LINES = 4096, 80
# Signals that come from outside: what the program printed before does not explain them.
OUTSIDE = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "OOMKilled")
NOT_STARTED = ("StartError", "ContainerCannotRun", "RunContainerError")
ERROR_LINE = re.compile(
    r"error|exception|fatal|severe|what\(\):|corrupt|smashing|free\(\)|fail|cannot|can't|could not|unable|abort|panic|"
    r"invalid|denied|missing|undefined reference|^[EF]\d{4} \d\d:|not found|not a valid|no such file|unexpected (?:end|EOF)|"
    r"MPI_ERR_|assert|no space left|unbound variable|killed|not enough slots|timed? ?out",
    re.IGNORECASE,
)
A_WARNING = re.compile(r"(?:\b|_)warn(?:ing)?\b|Warning:|^\[?W\d{4}|\bINFO\b|^I\d{4}|\bDEBUG\b", re.IGNORECASE)
#: Of launchers and shells, about the processes that they have started; the exit code tells it, too.
BY_LAUNCHER = re.compile(
    r"^\[(?:mpiexec|proxy)[:@]|^=|\bHYD[A-Z]*_|(?:mpirun|prterun|orterun) (?:noticed|detected|has exited)|MPI_ABORT|"
    r"MPI_ERRORS_ARE_FATAL|potentially your job|"
    r"Primary job|exited with non-zero|non-zero (?:exit )?(?:status|code)|Per user-direction|Process \d+ exit|"
    r": line \d+: +\d+ [A-Z]|"
    r"Terminating remaining|Execution halted|FAILED$|^\s*(?:raise\b|(?:time|host|rank|exitcode|error_file|traceback) +: )|"
    r"Root Cause|Failures?:|exit status \d+$|^(?:ORTE|PRTE) |reliably start one or more daemons|^collect2: error|"
    r"^(?:Aborted|Segmentation fault|Killed|Terminated)\b|^terminate called |-- Configuring incomplete|^make(?:\[\d+\])?: |"
    r"^tar: (?:Child|Error is not|Exiting)|aborting job$|processes failed to start$|"
    r"The above exception|During handling of|BEGIN failed"
)
_KILLED = re.compile(
    r"exited on signal \d+|terminated with signal SIG|\(SIG\w+\) received|KILLED BY SIGNAL|: line \d+: +\d+ Killed"
)
# What follows from the end of another rank.
_LOST = re.compile(
    r"connection (?:closed|reset|refused|aborted|lost)|connection.{0,20}closed|closed by (?:remote )?peer|broken pipe|watchdog|"
    r"heartbeat|rendezvous|remote process|ncclRemoteError|communicator was aborted|has been shut down|another task died|"
    r"HorovodInternalError|Horovod background loop|collective op|timed? ?out|failed to connect to all addresses|UNAVAILABLE: |"
    r"name resolution|Name or service not known|no route to host|reliably start one or more daemons|got signal: |"
    r"ConnectionRefusedError|ConnectionResetError|Socket (?:recv|send) error|connect to the tracker|clients joined",
    re.IGNORECASE,
)
_FRAME = re.compile(r'[\s>]*(?:File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,|$)|(?P<of_rich>/\S+):(?P<at>\d+) in )')
# Classes begin with a capital letter, or are of a module, as socket.timeout.
_EXCEPTION = re.compile(r"(?!(?i:hint|note|tip):)(?P<type>(?:[A-Za-z_]\w*\.)+\w+|[A-Z_]\w*)(?:\([^()]*\))?(?::(?:\s|$)|$)")
# A progress bar, and an exception in the same line.
_BAR = re.compile(r".*\d%\|[^\]]*\]\s?(?=[A-Za-z_][\w.]*(?:Error|Exception)\b)")
_CAUSED, _MEANWHILE = "The above exception was the direct cause", "During handling of the above exception"
# Tracebacks after these lines belong to clean-up, or were only logged.
_IGNORED = re.compile(r"Exception ignored in|Error in (?:atexit|sys)\.|--- Logging error ---")
# These only report that another process has failed.
_WRAPPERS = re.compile(
    r"(?:^|\.)(?:ChildFailedError|KeyboardInterrupt|SimplifiedTraceback|UnfilteredStackTrace|RayTaskError|SystemExit|"
    r"CalledProcessError|SignalException|ProcessRaisedException|ProcessExitedException|HorovodInternalError|CellExecutionError|"
    r"PapermillExecutionError|ExceptionGroup)\b|exited with non-zero status|Caught \w+ in DataLoader worker|ranks:dict_keys|"
    r"[Ss]ee (?:the )?(?:root cause|errors?) above"
)
_LIBRARY = re.compile(
    r"__autograph_generated|site-packages|dist-packages|/lib/python|^<|/bin/[^/.]+$|\.(?:cc|cpp|cu|h|rs|pyx)$"
)
# What begins another message below that of an exception: the lines of loggers, launchers and shells, and stacks of C++.
_OVER = re.compile(
    r"\[(?:\w* ?\d|[A-Z]+\])|(?:ERROR|WARNING|INFO|DEBUG|CRITICAL)\b|LAUNCH |[EWIF]\d{4} |\d{4}-\d\d-\d\d|[=-]{6}|\{\"|"
    r"=+> |\++ [\w./]|"
    r"wandb: |make(?:\[\d+\])?: |[^\s:]+: line \d+: |(?:[Ee]rror|FATAL|fatal): |.*\d%\||Stack trace:|"
    r"Exception (?:ignored|in thread)|Error in (?:atexit|sys)\.|The above exc|During handling"
)
_MOST_LINES, _LATEST, _SHORT, _TAIL = 12, 60, 300, 15
_NCCL, _NODE = "Last error:", "[[{{"
_MARKED = re.compile(r"(?:[\w./-]+: )?\[?(?:ERROR|FATAL|CRITICAL|[Ee]rror:|[Ff]atal:|fatal error:|F\d{4} )")
_COMPILED = re.compile(r"[^\s:()]+(?::\d+:\d+:|\(\d+\):) (?:fatal )?error: |error\[E\d+\]: ")
_GIVES_UP = re.compile(r"(?:\S+ ){0,3}(?:exiting|aborting|shutting down|terminating|quitting|giving up)\b(?!:)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Error:
    """The error that lines name: `text` quotes it, and `full` is all of it in one line, for clues.

    `process` and `host` are those of its rank. `lost`: it probably follows from the end of another rank; `wraps`: it says no
    more than that a process has failed. `end` is the number of its line, `thread` the line above, which may name a thread.
    """

    text: str
    full: str
    process: str = ""
    host: str = ""
    end: int = 0
    lost: bool = False
    wraps: bool = False
    python: bool = False
    type: str = ""
    thread: str = ""


@dataclass(slots=True)
class _Raised:
    """An exception of Python: its message, where the program raised it, and how it follows from the one before."""

    process: Line
    begin: int
    end: int = 0
    lines: list[str] = field(default_factory=list)
    where: str = ""
    frames: str = ""
    link: str = ""
    ignored: bool = False
    before: str = ""
    said: str = ""
    at: int = 0
    detailed: bool = False


def error_in(reason: str, exit_code: int | None, message: str) -> str:
    """The error that a run's termination message names, in one line, for the status of a job; "" if it names none."""
    return _named(reason, exit_code, message[-MESSAGE:])


@lru_cache(maxsize=512)
def _named(reason: str, exit_code: int | None, message: str) -> str:
    if reason in NOT_STARTED or exit_code in (None, 126, 127):
        return ""
    lines = messages(message.splitlines()[-_LINES:])
    error = named_error(lines)
    if reason in OUTSIDE:
        killed = next((line.text for line in lines if _KILLED.search(line.text)), "")
        return in_short(killed)
    return of_rank(error, lines) if error is not None else ""


def in_one_line(reason: str, exit_code: int | None, message: str) -> str:
    """The error that a termination message names, or its last words."""
    return error_in(reason, exit_code, message) or last_words(reason, message)


def last_words(reason: str, message: str) -> str:
    """What a termination message that names no error tells all the same; "" if that does not explain the end."""
    lines = [line for line in message[-MESSAGE:].splitlines() if line.strip()]
    if len(lines) == 1:
        return in_short(lines[0], 1000)
    last = in_short(last_line(messages(lines))) if reason not in OUTSIDE else ""
    return last if not last or ERROR_LINE.search(last) else f"its last line: {last}"


def named_error(lines: Sequence[Line]) -> Error | None:
    """The error that these lines name; None if they name none.

    The last of them decide, else those before: a program goes on after an error that it has overcome.
    """
    found = _all_raised(lines)
    chains = _chains(found)
    of_stacks = {number for one in found for number in range(one.begin, one.end + 1)}
    own = [line if at not in of_stacks else Line("") for at, line in enumerate(lines)]
    late = max(len(lines) - _LATEST, 0)
    error = _decisive(own, [chain for chain in chains if chain.end >= late], late)
    return error if error is not None and not (error.lost or error.wraps) else _decisive(own, chains, 0) or error


def exceptions(lines: Sequence[Line]) -> list[Error]:
    """The exceptions that the lines have, in the order of their last lines."""
    return _chains(_all_raised(lines))


def _decisive(lines: Sequence[Line], chains: Sequence[Error], begin: int) -> Error | None:
    own = [one for one in chains if not one.wraps]
    several = len({one.process for one in own}) > 1
    ordered = own if several else own[::-1]
    if (error := next((one for one in ordered if not one.lost), None)) is not None:
        return error
    line = _line_of(lines, begin)
    if line is not None and not line.wraps and not (own and (line.lost or A_WARNING.search(line.text))):
        return line
    return next(iter((*ordered, *chains[::-1])), line)


def _line_of(lines: Sequence[Line], begin: int) -> Error | None:
    """The last line outside of stacks that reads like an error."""
    text = last_line(lines[begin:])
    if not ERROR_LINE.search(text):
        return None
    at = max(at for at, line in enumerate(lines) if line.text.strip() and text.startswith(line.text.strip()))
    line = lines[at]
    lost, wraps = _LOST.search(text) is not None, BY_LAUNCHER.search(text) is not None
    return Error(in_short(text), text, line.process, line.host, at, lost, wraps)


def last_line(lines: Sequence[Line]) -> str:
    """Of the last lines the last that a program marks as its error, else the last that reads like one, else the very last."""
    tail = _joined([line.text for line in lines if not (is_stack(line.text) or is_hint(line.text))])[-_TAIL:]
    errors = [line for line in tail if ERROR_LINE.search(line)]
    own = [line for line in errors if not BY_LAUNCHER.search(line)]
    own = [line for line in own if not A_WARNING.search(line)] or own
    if compiled := next(filter(_COMPILED.match, own), None):
        return compiled
    marked = [line for line in own if _MARKED.match(line)] or own
    if not marked:
        return errors[0] if errors else tail[-1] if tail else ""
    at = len(tail) - 1 - tail[::-1].index(marked[-1])
    # What a program gives up is explained just before.
    before = [line for line in tail[max(at - 2, 0) : at] if line in own]
    return before[-1] if before and _GIVES_UP.match(tail[at]) else tail[at]


def _joined(lines: Sequence[str]) -> list[str]:
    """The lines that say something, of which one that ends with a colon goes on in the next."""
    whole: list[str] = []
    for line in (line.strip() for line in lines if line.strip() and not _FRAME.match(line)):
        if whole and whole[-1].endswith(":") and HEADER not in whole[-1] and len(whole[-1]) < _SHORT:
            whole[-1] = f"{whole[-1]} {line}"
        else:
            whole.append(line)
    return whole


def _all_raised(lines: Sequence[Line]) -> list[_Raised]:
    """The exceptions of all processes, whose lines may be mixed."""
    streams: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        streams.setdefault(line.process, []).append(at)
    return [one for numbers in streams.values() for one in _raised(lines, numbers)]


def _chains(raised: Iterable[_Raised]) -> list[Error]:
    """The exceptions, those that follow from each other as one error, in the order of their last lines."""
    found: list[list[_Raised]] = []
    every = [*raised]
    # An error at the exit is the cause where there is no other.
    alone = all(one.ignored for one in every)
    for one in every:
        if one.link and found and found[-1][-1].process.process == one.process.process:
            found[-1].append(one)
        elif not one.ignored or (alone and one.before.startswith("Error in ")):
            found.append([one])
    return sorted(map(_error, found), key=lambda error: error.end)


def _raised(lines: Sequence[Line], numbers: Sequence[int]) -> Iterable[_Raised]:
    """The exceptions of one process, whose lines have these numbers."""
    one: _Raised | None = None
    link, before = "", ""
    # What a kubelet keeps of a log may begin within a traceback.
    cut = any(_FRAME.match(lines[number].text) for number in numbers[:2])
    skip = -1
    for at, number in enumerate(numbers):
        text = lines[number].text
        bar = _BAR.match(text) if one is not None else None
        text = text[bar.end() :] if bar is not None else text
        if at <= skip:
            continue
        if HEADER in text:
            glued = text.partition(HEADER)[0]
            if one is not None and _EXCEPTION.match(glued) and not glued.startswith("ERROR"):
                yield _ended(one, [glued], number, link)
                link = ""
            one = _Raised(lines[number], number, ignored=bool(_IGNORED.search(before)), before=before)
        elif (frame := _FRAME.match(text)) is not None:
            one = one or _Raised(lines[number], number)
            file = frame["file"] or frame["of_rich"]
            if not _LIBRARY.search(file):
                one.where = f"{file.rpartition('/')[2]}, line {frame['line'] or frame['at']}"
            one.frames = in_short(f"{one.frames} {text.strip()}"[-200:], 200)
        elif text.startswith((_CAUSED, _MEANWHILE)):
            link = _CAUSED if text.startswith(_CAUSED) else _MEANWHILE
        elif (one is not None or cut) and text[:1].strip() and _EXCEPTION.match(text) and "RayTaskError(" not in text:
            one = one or _Raised(lines[number], number)
            message, skip = _message([lines[n].text for n in numbers[at : at + 4 * _MOST_LINES]], text)
            skip += at
            one.at = number
            yield _ended(one, message, numbers[skip], link)
            one, link, cut = None, "", False
        elif one is not None and text.strip():
            one.frames, one.said = in_short(f"{one.frames} {text.strip()}"[-200:], 200), text.strip("❱ ^~") or one.said
        if text.strip():
            before = text


def _ended(one: _Raised, message: Sequence[str], end: int, link: str) -> _Raised:
    one.lines, one.end, one.link = [line.strip() for line in message if not is_hint(line)], end, link
    # Lines that are indented are part of it, and those after a colon. Others may be what a program or a library prints next.
    one.detailed = any(line[:1].isspace() for line in message[1:])
    return one


def _message(lines: Sequence[str], first: str) -> tuple[list[str], int]:
    """The lines of an exception's message, of which the first is given, and how many lines below it the message ends."""
    found, end = [first], 0
    if first.rstrip().endswith("Graph execution error:"):
        # Tensorflow names the problem before the node, after many lines.
        node = next((at for at, line in enumerate(lines) if line.strip().startswith(_NODE)), 0)
        said = next((line for line in reversed(lines[1:node]) if line.strip() and "a previous operation" not in line), "")
        return [first, said], node
    # Of an exception whose first line says nothing the message is in the paragraphs below.
    below = _EXCEPTION.fullmatch(first.strip()) is not None and first.strip().endswith(":")
    for at, line in enumerate(lines[1:], 1):
        open_end = found[-1].rstrip().endswith((":", ",", ".call().")) or (len(found) == 1 and "(Request ID: " in first)
        if not line.strip():
            if open_end or below:
                continue
            break
        over = _OVER.match(line) or BY_LAUNCHER.search(line) or first.startswith("KeyError: ")
        if len(found) == _MOST_LINES or HEADER in line or (over and not open_end):
            break
        end = at
        if not (is_stack(line) or line.strip() == '"""' or _FRAME.match(line)):
            found.append(line)
    return found, end


def _error(chain: Sequence[_Raised]) -> Error:
    """A chain of exceptions as one error: the last one, and what it follows from."""
    last, first = chain[-1], chain[0]
    text = _quoted(last)
    if first is not last and in_short(first.lines[0]) not in in_short(" ".join(last.lines), 4000):
        text = f"{in_short(text, 240)}, after {in_short(_quoted(first), 200)}"
    full = " ".join(f"{' '.join(one.lines)} {one.frames}" for one in reversed(chain))
    kind = _EXCEPTION.match(last.lines[0])
    wraps = _WRAPPERS.search(" ".join(last.lines[:2])) is not None
    lost = _LOST.search(f"{last.lines[0]} {last.lines[-1]}") is not None and (
        first is last or _LOST.search(first.lines[0]) is not None
    )
    of = last.process
    return Error(text, full, of.process, of.host, last.at, lost, wraps, True, kind["type"] if kind else "", first.before)


def _quoted(one: _Raised) -> str:
    """The message of the exception, and where it was raised."""
    first, whole = one.lines[0], " ".join(one.lines)
    if _NCCL in one.lines[:-1]:
        whole = f"{first.rstrip(':')}: {one.lines[one.lines.index(_NCCL) + 1]}"
    elif not (one.detailed or first.rstrip().endswith(":") or not any(map(str.isalpha, first.partition(": ")[2]))):
        whole = first
    elif ": " not in whole and one.said and not one.said.startswith("raise "):
        whole = f"{first} in: {one.said}"
    return in_short(whole) + (f" ({one.where})" if one.where else "")


_FIRST_OF_MPI = re.compile(r"first process to do so was:\s+Process name: \[(?:\[\d+,\d+\]|[\w.-]+@\d+),(\d+)\]")
_ABORTED_RANK = re.compile(r"(?:MPI_ABORT was invoked on rank|application called MPI_Abort\(.*process) (\d+)")
#: Of torchrun's summary: the rank that failed first, and its exit code.
FIRST_RANK = re.compile(r"Root Cause \(first observed failure\):\n(?:.*\n){0,4}?\s*rank\s*: (\d+) .*\n\s*exitcode\s*: (-?\d+)")


def of_rank(error: Error, lines: Sequence[Line]) -> str:
    """The error's text with the rank that it is of: that which printed it alone, or that which a launcher says failed first."""
    if re.search(r"\brank \d+\b", error.text, re.IGNORECASE):
        return error.text
    if error.process.isdecimal() and not error.lost:
        begin = error.text.partition(" (")[0][:40]
        same = {line.process for line in lines if in_short(line.text)[:40] == begin}
        if len(same) <= 1:
            on = f" on {error.host}" if error.host else ""
            return f"rank {error.process}{on}: {error.text}"
        return error.text
    aborted = next(filter(None, (_ABORTED_RANK.search(line.text) for line in lines)), None)
    if aborted is not None:
        return f"{error.text}; rank {aborted[1]} called MPI_Abort"
    first = next(filter(None, (_FIRST_OF_MPI.search(line.text) for line in lines)), None)
    if first is None:
        return error.text
    return f"{error.text}; rank {first[1]} failed first" if error.lost else f"rank {first[1]} failed first: {error.text}"
