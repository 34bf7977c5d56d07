"""Why a program ended: the kubelet's reason, the exit code, and the last lines that the program printed."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from jobcommon.causes.cause import Cause, Clue, in_short, revealed
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.commands import COMMANDS, INTERPRETERS, LINE_ENDS
from jobcommon.causes.packages import program_package
from jobcommon.causes.programs import ANY_PEERS, EXCEPTIONS, LINES, MERELY_A_WARNING, REMAINS, REPORTS, SHELL, unreachable
from jobcommon.causes.stacks import telling
from jobcommon.causes.tracebacks import Raised, plain, raised, unfolded

# What runc prints for the program that it could not start.
_BY_RUNTIME = re.compile(r"^exec \S+: (?:no such file|exec format)")
_NOT_STARTED = ("StartError", "ContainerCannotRun", "RunContainerError")

_FAULTHANDLER = "run with python -X faulthandler"
_SIGNALS = {
    "SIGKILL": (
        "killed by SIGKILL",
        "often the node ran out of memory, or the program did not stop within its grace period",
    ),
    "SIGSEGV": ("crashed with a segmentation fault", f"a native library is at fault: {_FAULTHANDLER}"),
    "SIGTERM": ("stopped by SIGTERM", "a deletion, a clean-up, or a launcher whose peer has failed asked it to stop"),
    "SIGABRT": ("aborted", f"a native library or an assertion gave up: {_FAULTHANDLER}"),
    "SIGBUS": ("crashed with a bus error", "often /dev/shm is full: mount an emptyDir with medium: Memory at /dev/shm"),
    "SIGILL": ("ran an illegal instruction", "the image is built for another kind of CPU than the node has"),
    "SIGFPE": ("crashed with an arithmetic error", f"a native library is at fault: {_FAULTHANDLER}"),
    "SIGINT": ("interrupted by SIGINT", "a user or another program asked it to stop"),
    "SIGXCPU": ("exceeded its CPU time limit", "raise or remove the limit (ulimit -t)"),
    "SIGXFSZ": ("exceeded its file size limit", "raise the limit (ulimit -f), or write smaller files"),
}

_LOCAL_SIGNALS = {
    "SIGBUS": "often /dev/shm of this machine is full: enlarge it, or use fewer data loader workers",
    "SIGILL": "a module is built for another kind of CPU than this machine has",
}
# Signals that come from outside: what the program printed before does not explain them.
_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "OOMKilled")
_CODES = {
    2: "; by convention: wrong arguments",
    124: "; the timeout command stopped it",
    255: "; often from ssh or mpirun",
}
_TIMEOUT = 124
_TIMED_OUT = "see why it did not finish in time, or raise the limit of the timeout command"
_ERROR_LINE = re.compile(
    r"error|fatal|what\(\):|corrupt|smashing|free\(\)|malloc|fail|cannot|can't|could not|unable|abort|panic|invalid|denied|"
    r"not found|assert",
    re.IGNORECASE,
)
# The exit code tells it.
_OF_SIGNAL = re.compile(r"\s*(?:Aborted|Segmentation fault|Killed|Terminated)(?: \(core dumped\))?\s*$")
# Nor is it a line of the program's source, the end of an R or Perl script, or a stack of C.
_NO_MESSAGE = re.compile(
    rf"{_OF_SIGNAL.pattern}|\s*raise\b|Execution halted$|BEGIN failed--|exit status \d+$|\S* ?\*\*\* End of error message|"
    r"\[[\w.-]+:\d+\] (?:\[ ?\d+\] |Signal|Failing at|\*\*\*)|\s*#\d+ |\s*\d+: 0x"
)
_RAISES = re.compile(r"\s*raise\b")
_WORD = re.compile(r"\w")
# Of a script with Windows' line ends, in a shell's message: no progress bar.
_RETURN = re.compile(r"(?<=\S)\r(?=: [a-z])")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_MARK = re.compile(r'in "[^"]+", line \d+')
_ASSERTED = re.compile(r"Assertion (`.+?`) failed")
_NOT_FOUND = re.compile(r"No matching distribution|Could not find a version|Unable to locate package|from versions: none")
_NO_NETWORK = re.compile(r"connection broken by|establish a new connection|name resolution|Temporary failure resolving")
# Where the crashed thread was, by Python's faulthandler.
_CRASHED = re.compile(r'Current thread .*\(most recent call first\):\n\s+File "(?:[^"]*/)?([^"]+)", (line \d+) in (.+)')
# The summary of torchrun, which is longer than what a kubelet keeps of a log.
_FIRST_RANK = re.compile(r"Root Cause \(first observed failure\):\n(?:.*\n){,4}?\s*rank\s*: (\d+) .*\n\s*exitcode\s*: (\d+)")
# Hints that read like errors: of hydra, and of torch, which adds them to each error of CUDA.
_HINT = re.compile(
    r"HYDRA_FULL_ERROR|CUDA kernel errors might be asynchronously|"
    r"(?:debugging consider passing|can also set) CUDA_LAUNCH_BLOCKING|Compile with `TORCH_USE_CUDA_DSA`"
)
# Exceptions that a mistake in the program raises; others may be raised for its data, its settings or another machine.
_OF_PROGRAM = re.compile(
    r"(?:^|\.)(?:AttributeError|NameError|NotImplementedError|RecursionError|TypeError|UnboundLocalError|ZeroDivisionError)$"
)
_NAMED = "correct what the message names: the program, its data or its settings"
_MISTAKE = "correct the program; its last lines show where"
_PROGRAM = re.compile(r'exec: "([^"]+)"|(?:^|: )([^:\s]+): (?:command )?not found')
# In a pipeline or a script, of the command before it.
_FOLLOWS = re.compile(
    r"^tar: (?:Child returned status|Error is not recoverable|Exiting with failure)|\bunexpected end of file$|"
    r"not in gzip format$|does not look like a tar archive|write error: Broken pipe|^make: \*\*\*|^terminate called "
)
# Of launchers, about the processes that they have started.
_BY_LAUNCHER = re.compile(
    r"^\[(?:mpiexec|proxy)[:@]|^=|\bHYD[A-Z]*_|(?:mpirun|prterun|orterun) (?:noticed|detected|has exited)|MPI_ABORT|"
    r"^Primary job|"
    r"exited with non-zero|Per user-direction|Process \d+ exit|Terminating remaining|^srun: |^Abort\(\d+\)|^\s*raise\b"
)
_INTERFACE = re.compile(r"Bootstrap ?: Using (?:\[\d+\])?([\w.-]+):")
_ABORTED_RANK = re.compile(r"(?:MPI_ABORT was invoked on rank|application called MPI_Abort\(.*process) (\d+)")
_NO_PROGRAM = re.compile(r"not found|no such file|denied|cannot execute|not executable|format error|too long", re.IGNORECASE)
_BY_ITSELF = re.compile(r"(?:fatal )?error: ", re.IGNORECASE)
# Of the last lines as many are searched for one that reads like an error.
_TAIL = 15
# A kubelet takes as much of a log. Of a longer line the rest is no error, and patterns take their time with it.
_MESSAGE, _LONGEST = 2048, 400
# A message of one line is told as a whole.
_ALONE = 1000
# An error far before the end was perhaps overcome; it counts only if these lines tell no cause.
_LATEST = 60


def end_of_program(
    reason: str,
    exit_code: int | None,
    message: str,
    lines: Sequence[str] = (),
    *,
    gone: bool = False,
    local: bool = False,
) -> Cause:
    """Why a run of a container failed.

    `reason` is the kubelet's or, as in `status.failures`, a signal's name; `lines` are the last ones that it printed, of which
    nothing can be read any more if `gone`. `local`: it was a process of this machine.
    """
    code = f"exit code {exit_code}" if exit_code is not None else "no exit code"
    if reason == "OOMKilled":
        advice = "raise resources.limits.memory, or use a smaller batch or fewer data loader workers"
        if local:
            advice = "this machine ran out of memory: use a smaller batch, fewer data loader workers or fewer replicas"
        return Cause(Reason.OOM_KILLED, f"used more memory than its limit (OOMKilled, {code})", advice)
    message = _RETURN.sub(r"\\r", message)
    # It is mostly the end of what was printed.
    own = [] if message.strip() in "\n".join(lines) else message.splitlines()
    told = unfolded([_COLOUR.sub("", line) for line in (*own, *lines) if not _HINT.search(line)])
    # A shell ends so for other errors, too.
    code_of_shell = exit_code in (126, 127) and not (told and revealed(told[-1], SHELL))
    no_command = reason in _NOT_STARTED or code_of_shell or bool(told and _BY_RUNTIME.match(told[-1]))
    if (cause := _error(reason, told, local=local, no_command=no_command)) is not None:
        return replace(cause, text=f"{code}: {cause.text}")
    if no_command:
        return _no_command(exit_code, message, lines, local=local)
    crashed = _crash(reason, told)
    # What Python's faulthandler prints is told by the function.
    ends = (at for at, line in enumerate(told) if line.startswith("Fatal Python error"))
    last = _last_line(_joined(told[: next(ends, None)] if crashed else told))
    if reason in _SIGNALS:
        text, advice = _SIGNALS[reason]
        shown = f": {in_short(last)}" if reason not in _OUTSIDE and _ERROR_LINE.search(last) else ""
        advice = (_LOCAL_SIGNALS.get(reason) if local else None) or advice
        if crashed is not None:
            file, number, function = crashed.groups()
            shown = f" in {function} ({file}, {number}){shown}"
            advice = advice.replace(_FAULTHANDLER, f"see the library that {function} calls")
        return Cause(reason, f"{text} ({reason}, {code}){shown}", advice, symptom=reason == "SIGTERM")
    said = "its last lines may say why" if any(line.strip() for line in told) else _GONE if gone else _SILENT
    if reason.startswith("SIG"):
        return Cause(reason, f"killed by {reason} ({code})", said)
    meaning = "" if _ERROR_LINE.search(last) else _CODES.get(exit_code or 0, "")
    said = (
        _TIMED_OUT if exit_code == _TIMEOUT else "correct what the program's message names" if _BY_ITSELF.match(last) else said
    )
    shown = f": {in_short(last)}" if last else "; its log is gone" if gone else ""
    return Cause(Reason.PROGRAM_FAILED, f"failed with {code}{meaning}{shown}", said)


def error_in(reason: str, exit_code: int | None, message: str) -> str:
    """The error that a run's termination message names, in one line, for the status of a job; "" if it names none."""
    cause = _named(reason, exit_code, message)
    return in_short(cause.text) if cause is not None else ""


def distance(reason: str, exit_code: int | None, message: str) -> int:
    """How far that end is from the failure that began, by its termination message (`Cause.distance`)."""
    cause = _named(reason, exit_code, message)
    return cause.distance if cause is not None else int(reason == "SIGTERM")


@lru_cache(maxsize=512)
def _named(reason: str, exit_code: int | None, message: str) -> Cause | None:
    """The error that a termination message names.

    What a message may cost is bounded: users write them, and all jobs wait for the one that is decided.
    """
    if reason in _NOT_STARTED or exit_code in (None, 126, 127):
        return None
    cut, shown = len(message.encode()) >= _MESSAGE, _RETURN.sub(r"\\r", message[-_MESSAGE:]).splitlines()
    # The kubelet keeps so many bytes, whatever line they begin in.
    shown = unfolded(shown[1:] if cut and len(shown) > 1 else shown)
    told = [_COLOUR.sub("", line)[:_LONGEST] for line in shown if not _HINT.search(line)]
    return _error(reason, told, local=False)


def in_one_line(reason: str, exit_code: int | None, message: str) -> str:
    """The error that a termination message names, or its last words."""
    return error_in(reason, exit_code, message) or last_words(reason, message)


def excerpt(reason: str, exit_code: int | None, message: str, most: int) -> str:
    """The last characters of a termination message, or those up to the line that names the error, if they do not name it."""
    error = error_in(reason, exit_code, message) if len(message) > most else ""
    end = message[-most:]
    if not error or error_in(reason, exit_code, end) == error:
        return end
    lines = message.splitlines()
    at = next((at for at, line in enumerate(reversed(lines)) if (text := in_short(line)[:80]) and text in error), 0)
    part = "\n".join(lines[: len(lines) - at])[-most:]
    return part if error_in(reason, exit_code, part) == error else end


def last_words(reason: str, message: str) -> str:
    """What a termination message that names no error tells all the same; "" if that does not explain the end.

    What a program printed before a signal from outside does not; but a message of one line may be its own.
    """
    lines = [line for line in message.splitlines() if line.strip()]
    if len(lines) == 1:
        return in_short(lines[0], _ALONE)
    return in_short(_last_line(lines)) if reason not in _OUTSIDE else ""


def _error(reason: str, told: Sequence[str], *, local: bool, no_command: bool = False) -> Cause | None:
    """The error that a program's lines tell, if it explains such an end; with `no_command` only that of its line ends."""
    if (cause := next(filter(None, (_of_line(line, LINE_ENDS, local=local) for line in told)), None)) is not None:
        return cause
    cause = None if no_command else _latest(told, local=local)
    if cause is None or (reason in _SIGNALS and _OF_SIGNAL.match(cause.text)):
        return None
    # A launcher passes on how one of its processes ended.
    passed_on = cause.reason in (Reason.WORKER_PROCESS_KILLED, Reason.MPI_NOT_STARTED)
    # Of a crash, the shell around it says less than Python, which does not print a hang then.
    of_crash = (passed_on or cause.reason == Reason.PROGRAM_FAILED) and _crash(reason, told) is not None
    return cause if not of_crash and (passed_on or reason not in _OUTSIDE) else None


def _crash(reason: str, told: Sequence[str]) -> re.Match[str] | None:
    return _CRASHED.search("\n".join(told)) if reason in _SIGNALS else None


_GONE = "it printed nothing, or its template has terminationMessagePolicy: File, which keeps its last lines out of the status"
_SILENT = "it printed nothing: make the program print why it ends, and run python with -u"


def _latest(lines: Sequence[str], *, local: bool) -> Cause | None:
    """The cause that the very last lines tell, else that of those before: a program may print more while it ends."""
    cause = printed(lines[-_LATEST:], local=local)
    return printed(lines, local=local) if len(lines) > _LATEST and (cause is None or cause.symptom) else cause


def printed(lines: Sequence[str], *, local: bool = False) -> Cause | None:
    """The cause that a program's last lines tell: the last exception that is no consequence of another replica's failure, else
    the last line that reveals a cause. A warning counts only if there is nothing else.
    """
    lines = unfolded(lines)
    found = raised(lines)
    chains = _chains([one for one in found if not one.wraps])
    causes = [_of_exception(chain, local=local) for chain in reversed(chains)]
    own = _joined(telling([plain(line) for line in lines]))
    errors = [line for line in own if not (MERELY_A_WARNING.search(line) or _RAISES.match(line))]
    texts = (cause for line in reversed(errors) if (cause := _of_line(line, LINES, local=local)) is not None)
    plainly = [] if any(not cause.symptom for cause in causes) else [*texts]
    candidates = [*causes, *plainly]
    for cause in candidates:
        if not cause.symptom:
            return _with_detail(cause, lines)
    if candidates:
        # Of lines that follow from another replica's end the first says most.
        return _with_detail(causes[0] if causes else min(reversed(plainly), key=lambda one: one.advice in ANY_PEERS), lines)
    said = ""
    if found and found[-1].type.endswith("CalledProcessError"):
        # The lines before it are those of the command.
        said, own = f"{in_short(found[-1].lines[0])}: ", own[: found[-1].begin]
        errors = [line for line in own if not MERELY_A_WARNING.search(line)]
    warnings = [line for line in own if MERELY_A_WARNING.search(line)]
    for some, clues in ((errors, REMAINS), (warnings, LINES)):
        for line in reversed(some):
            if (cause := _of_line(line, clues, local=local)) is not None:
                return replace(cause, text=said + cause.text)
    if (report := next(filter(None, (_of_line(line, REPORTS, local=local) for line in errors)), None)) is not None:
        before = _last_line([line for line in own if not _BY_LAUNCHER.search(line)])
        if not _ERROR_LINE.search(before):
            return report
        return replace(report, text=f"{in_short(before)}; {report.text.removesuffix(' ()')}", advice=_NAMED)
    if (rank := _FIRST_RANK.search("\n".join(lines))) is not None:
        text = f"rank {rank[1]} failed first, with exit code {rank[2]}; the summary of torchrun says no more"
        return Cause(Reason.PROGRAM_FAILED, text, "see what this rank printed before; runPolicy.keepFailedLogs keeps it")
    if said:
        text = said.removesuffix(": ") if not (last := _last_line(own)) else said + in_short(last)
        return Cause(Reason.PROGRAM_FAILED, text, "see what this command printed")
    return _unknown(found[-1]) if found else None


def _with_detail(cause: Cause, lines: Sequence[str]) -> Cause:
    """The cause with what explains it further up: the assertion that a GPU printed before the exception that it led to, or
    that pip had no network; the interface that NCCL uses; the rank that ended MPI.
    """
    if "onnect: " in cause.text and (match := next(filter(None, map(_INTERFACE.search, lines)), None)) is not None:
        return replace(cause, text=f"{cause.text}; NCCL uses the interface {match[1]}")
    if (match := next(filter(None, map(_ABORTED_RANK.search, lines)), None)) is not None and match[0] not in cause.text:
        return replace(cause, text=f"{cause.text}; rank {match[1]} called MPI_Abort")
    if _NOT_FOUND.search(cause.text) and (lost := next((line for line in lines if _NO_NETWORK.search(line)), "")):
        return replace(unreachable(cause.text), text=f"{cause.text}, after: {in_short(plain(lost), 200)}")
    if cause.reason in _MAY_FOLLOW and (before := _earlier(cause, lines)):
        text = f"{cause.text}; printed before: {before}"
        return replace(
            cause, text=text, advice=f"check whether what was printed before explains it (set -eo pipefail); {cause.advice}"
        )
    if "device-side assert" not in cause.text:
        return cause
    asserted = next((match[1] for line in lines if (match := _ASSERTED.search(line)) is not None), "")
    return replace(cause, text=f"the assertion {asserted} failed on the GPU: {cause.text}") if asserted else cause


# What lacks a file, a module or a server, perhaps because a command of the script before has failed.
_MAY_FOLLOW = (Reason.FILE_NOT_FOUND, Reason.MODULE_NOT_FOUND, Reason.HOST_UNREACHABLE)
_OF_TENSORFLOW = re.compile(r"^\d{4}-\d\d-\d\d .*: [EWI] ")


def _earlier(cause: Cause, lines: Sequence[str]) -> str:
    """What ended another program of the script before, or what a command of it printed; "" if there was only this exception."""
    chains = _chains([one for one in raised(lines) if not one.wraps])
    if not chains or any(chain[0].process for chain in chains) or in_short(chains[-1][-1].lines[0]) not in cause.text:
        return ""
    begin = chains[-1][0].begin
    if len(chains) > 1:
        earlier = in_short(chains[-2][-1].lines[0], 200)
        return earlier if earlier not in cause.text and chains[-2][-1].begin < begin else ""
    before = (line for line in reversed(lines[:begin]) if not MERELY_A_WARNING.search(line) and not _OF_TENSORFLOW.match(line))
    told = ((line, _of_line(line, (*SHELL, *LINES, *REMAINS), local=False)) for line in before)
    return next((in_short(line, 200) for line, its in told if its is not None and not its.symptom), "")


def _joined(lines: Sequence[str]) -> list[str]:
    """The lines, of which one that ends with a colon goes on in the next."""
    pairs = zip(lines, [*lines[1:], ""], strict=False)
    return [f"{line} {after.strip()}" if line.rstrip().endswith(":") else line for line, after in pairs]


def _of_line(line: str, clues: Iterable[Clue], *, local: bool) -> Cause | None:
    return revealed(line.strip(), clues, local=local)


def _chains(found: Sequence[Raised]) -> list[list[Raised]]:
    """Exceptions that follow from each other, together, in the order of their last ones."""
    chains: list[list[Raised]] = []
    for one in found:
        before = next((chain for chain in reversed(chains) if chain[-1].process == one.process), None)
        if one.chained and before is not None:
            before.append(one)
        else:
            chains.append([one])
    return sorted(chains, key=lambda chain: chain[-1].end)


def _of_exception(chain: Sequence[Raised], *, local: bool) -> Cause:
    """The cause of a chain: of what an exception was raised from, or a variable that is not set, else of the last one known."""
    last = chain[-1]
    known: list[tuple[tuple[bool, bool, int], Cause]] = []
    for at, one in enumerate(chain):
        clues = (*LINES, *EXCEPTIONS)
        if (cause := revealed(one.innermost, clues, local=local) or revealed(one.text, clues, local=local)) is not None:
            quoted = cause.text in (in_short(one.text), in_short(one.innermost))
            text = _quoted(one, cause.reason) if quoted else cause.text
            before = "" if one is last else f"{in_short(last.lines[0])}, after "
            first = cause.reason == Reason.ENVIRONMENT_MISSING or (one is not last and chain[at + 1].direct)
            # What it was raised from, if that tells nothing by itself.
            after = _after(chain) if one is last and last.direct else ""
            told = replace(cause, text=before + text + after)
            known.append(((cause.symptom, not first, at if first else -at), told))
    if known:
        return min(known, key=lambda entry: entry[0])[1]
    unknown = _unknown(last)
    return replace(unknown, text=unknown.text + after) if (after := _after(chain)) else unknown


def _after(chain: Sequence[Raised]) -> str:
    """The first exception of a chain, unless the last one tells it already."""
    first, last = chain[0], chain[-1]
    told = first is last or in_short(first.lines[0]) in in_short("\n".join(last.lines), 4000)
    return "" if told else f", after {_quoted(first, Reason.PYTHON_EXCEPTION)}"


def _quoted(one: Raised, reason: str) -> str:
    """The first line of the exception, and the one further down that reveals the cause."""
    first = one.lines[0]
    causes = ((line, revealed(line, LINES)) for line in one.lines)
    revealing = one.innermost or next((line for line, cause in causes if cause is not None and cause.reason == reason), first)
    if revealing == first and first.rstrip().endswith(":") and len(one.lines) > 1:
        revealing = one.lines[1]
    if revealing == first and len(one.lines) > 1 and one.lines[1].startswith(": "):
        # py4j: the exception of Java follows.
        revealing = " ".join(one.lines[1:3])[2:] if one.lines[1].endswith("Reason:") else one.lines[1][2:]
    # Parsers of YAML tell the problem last, and where it is.
    marks = [at for at, line in enumerate(one.lines) if at and _MARK.match(line)]
    if marks:
        revealing = " ".join(one.lines[max(marks[-1] - 1, 1) : marks[-1] + 1])
    if revealing == one.type:
        # Of an exception without a message the line of the program says more.
        sources = [line for line in one.frames if not line.startswith(("File ", "raise ")) and line.strip("^~ ")]
        first = revealing = f"{first} in: {sources[-1]}" if sources else first
    where = f" ({one.where})" if one.where else ""
    return in_short(first if revealing == first else f"{first.rstrip(':')}: {revealing}") + where


def _unknown(one: Raised) -> Cause:
    return Cause(
        Reason.PYTHON_EXCEPTION if one.python else Reason.PROGRAM_FAILED,
        _quoted(one, Reason.PYTHON_EXCEPTION),
        _MISTAKE if one.python and _OF_PROGRAM.search(one.type) else _NAMED,
    )


def _last_line(lines: Sequence[str]) -> str:
    """Of the last lines the last that reads like an error, else the very last."""
    tail = [line.strip() for line in map(plain, telling(lines)) if _WORD.search(line) and not _NO_MESSAGE.match(line)][-_TAIL:]
    errors = [line for line in tail if _ERROR_LINE.search(line)]
    own = [line for line in errors if not _FOLLOWS.search(line)] or errors
    return own[-1] if own else tail[-1] if tail else ""


def _no_command(exit_code: int | None, message: str, lines: Sequence[str], *, local: bool) -> Cause:
    of_shell = (message.splitlines() or lines) if exit_code in (126, 127) else ()
    text = next((in_short(line) for line in reversed(of_shell) if _NO_PROGRAM.search(line)), in_short(message))
    text = text or next((in_short(line) for line in reversed(lines) if line.strip()), "")
    if (missing := revealed(text, INTERPRETERS)) is not None:
        return replace(missing, text=f"{missing.text} (exit code {exit_code}): {text}")
    code = f"exit code {exit_code}" if exit_code is not None else "no exit code"
    cause = revealed(text, COMMANDS, local=local)
    executable = exit_code != 126
    reason = cause.reason if cause else (Reason.COMMAND_NOT_FOUND if executable else Reason.COMMAND_NOT_EXECUTABLE)
    known = cause or next(one for one in COMMANDS if one.reason == reason)
    advice = (known.local if local and isinstance(known, Clue) and known.local else "") or known.advice
    if local and (match := _PROGRAM.search(text)) is not None and (install := program_package(match[1] or match[2])):
        advice = f"install it on this machine ({install}), or correct command in the pod template"
    what = _NO_COMMAND.get(reason, "the command cannot be executed")
    return Cause(reason, f"{what} ({code})" + (f": {text}" if text else ""), advice)


_NO_COMMAND: Mapping[str, str] = {
    Reason.COMMAND_NOT_FOUND: "the command was not found",
    Reason.WORKING_DIRECTORY_NOT_FOUND: "workingDir does not exist or cannot be entered",
}
