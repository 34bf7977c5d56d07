"""Why a program ended: the kubelet's reason, the exit code, and the last lines that the program printed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from jobcommon.causes.cause import Cause, Clue, in_short, revealed, without_middle
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues.environment import SHELL
from jobcommon.causes.commands import COMMANDS, INTERPRETERS, LINE_ENDS, RUNTIME
from jobcommon.causes.error_lines import BY_LAUNCHER, ERROR_LINE, LOGGED_FATAL, OF_SHELL, OF_SIGNAL, joined, last_line, of_line
from jobcommon.causes.exceptions import NAMED
from jobcommon.causes.packages import program_package
from jobcommon.causes.printed import printed
from jobcommon.causes.records import INFORMATION, of_cut_record
from jobcommon.causes.stacks import is_hint, telling
from jobcommon.causes.tracebacks import crashed, raised
from jobcommon.causes.unfolding import unfolded

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
# Cheaper to look for than the clues of such line ends.
_RETURNS = ("\\r", "^M", "Illegal option -")
# Of a script with Windows line endings, in a shell's message: no progress bar.
_RETURN = re.compile(r"(?<=\S)\r(?=: [a-z])")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_ENDS_OTHERS = re.compile(
    r"Forcefully terminating all other processes|Received sigquit from a child process|^(?:\S+ )*KeyboardInterrupt$"
)
_PROGRAM = re.compile(r'exec: "([^"]+)"|(?:^|: )([^:\s]+): (?:command )?not found')
# Of a runtime, about a command that was not split into words.
_WORDS = re.compile(r'exec: "[^"\s]+\s[^"]+"')
_NO_PROGRAM = re.compile(
    r"not found|lookup error|no such file|denied|cannot execute|not executable|format error|too long|nicht gefunden|"
    r"introuvable|未找到命令",
    re.IGNORECASE,
)
# A kubelet takes as much of a log. Patterns take their time with a longer line.
_MESSAGE, _LONGEST = 2048, 400
# So many lines may follow an exception which perhaps explains why the program was killed.
_AFTER_IT = 5
# A message of one line is quoted as a whole.
_ALONE = 1000


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
    output = unfolded(_without_hints((*own, *lines)))
    # A shell ends so for other errors, too.
    code_of_shell = exit_code in (126, 127) and not (output and revealed(output[-1], SHELL))
    no_command = reason in _NOT_STARTED or code_of_shell or bool(output and _BY_RUNTIME.match(output[-1]))
    if (cause := _error(reason, output, local=local, no_command=no_command)) is not None:
        return replace(cause, text=f"{code}: {cause.text}")
    if no_command:
        return _no_command(exit_code, message, lines, local=local)
    crash = crashed(output) if reason in _SIGNALS else None
    last = last_line(joined(_before_crash(output) if crash else output))
    if LOGGED_FATAL.match(last):
        # The program has ended itself.
        crash = None
    if reason in _SIGNALS:
        text, advice = _SIGNALS[reason]
        says = ERROR_LINE.search(last) or OF_SHELL.match(last)
        shown = f": {in_short(last)}" if reason not in _OUTSIDE and says else ""
        if shown and reason == "SIGABRT":
            where = "" if LOGGED_FATAL.match(last) else "; of Python, -X faulthandler prints where"
            text, advice = "aborted", NAMED + where
        if reason == "SIGKILL" and (error := _just_before(output, local=local)) is not None:
            shown, advice = f", after it printed {error.text}", f"{error.advice}; if that does not explain it: {advice}"
        advice = (_LOCAL_SIGNALS.get(reason) if local else None) or advice
        if crash is not None:
            place, library = crash
            shown = f" in {place}{shown}"
            advice = advice.replace(_FAULTHANDLER, f"see {library}")
        named = code if reason in text else f"{reason}, {code}"
        return Cause(reason, f"{text} ({named}){shown}", advice, symptom=reason == "SIGTERM")
    said = "its last lines may say why" if any(line.strip() for line in output) else _GONE if gone else _SILENT
    if reason.startswith("SIG"):
        return Cause(reason, f"killed by {reason} ({code})", said)
    is_error = ERROR_LINE.search(last) is not None and not last.startswith(INFORMATION)
    # A program may use 2 or 255 for another thing, which its last line says.
    meaning = "" if is_error or (last and exit_code != _TIMEOUT) else _CODES.get(exit_code or 0, "")
    if exit_code == _TIMEOUT:
        said = _TIMED_OUT
    elif is_error:
        said = NAMED
    shown = f": {in_short(last)}" if is_error else "; its log is gone" if gone else ""
    if last and not is_error:
        shown = f"; its last line: {in_short(last)}"
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
    shown = unfolded(_whole(_RETURN.sub(r"\\r", message[-_MESSAGE:])))
    output = [without_middle(line, _LONGEST) for line in _without_hints(shown)]
    return _error(reason, output, local=False)


def in_one_line(reason: str, exit_code: int | None, message: str) -> str:
    """The error that a termination message names, or its last words."""
    return error_in(reason, exit_code, message) or last_words(reason, message)


def excerpt(reason: str, exit_code: int | None, message: str, most: int) -> str:
    """So many characters of a termination message: its last lines without stacks and hints, or those up to the line that names
    the error, if they do not name it.
    """
    if len(message) <= most:
        return message
    lines, error = telling(_whole(message)), in_one_line(reason, exit_code, message)
    end = _last_lines(lines, most)
    if in_one_line(reason, exit_code, end) == error:
        return end
    at = next((at for at, line in enumerate(reversed(lines)) if (text := in_short(line)[:80]) and text in error), 0)
    part = _last_lines(lines[: len(lines) - at], most)
    return part if in_one_line(reason, exit_code, part) == error else end


def _last_lines(lines: Sequence[str], most: int) -> str:
    """The last of these lines that have at most so many characters together; of a long one its end."""
    text = "\n".join(lines)
    whole = text[-most - 1 :].partition("\n")[2] if len(text) > most else text
    return whole if len(whole) > most // 2 else text[-most:]


def _whole(message: str) -> list[str]:
    """The lines of a termination message. The kubelet keeps so many bytes, whatever line they begin in."""
    lines = message.splitlines()
    if len(message.encode()) < _MESSAGE:
        return lines
    rest = of_cut_record(lines[0])
    return rest + lines[1:] if len(rest) > 1 or len(lines) == 1 else lines[1:]


def last_words(reason: str, message: str) -> str:
    """What a termination message that names no error tells all the same; "" if that does not explain the end.

    What a program printed before a signal from outside does not; but a message of one line may be its own.
    """
    lines = [line for line in message.splitlines() if line.strip()]
    if len(lines) == 1:
        return in_short(lines[0], _ALONE)
    last = in_short(last_line(_before_crash(lines))) if reason not in _OUTSIDE else ""
    last = last if not last or LOGGED_FATAL.match(last) else in_short(last_line(lines))
    return last if not last or ERROR_LINE.search(last) else f"its last line: {last}"


def _error(reason: str, output: Sequence[str], *, local: bool, no_command: bool = False) -> Cause | None:
    """The error that a program's lines tell, if it explains such an end; with `no_command` only that of its line ends."""
    returns = (of_line(line, LINE_ENDS, local=local) for line in output if any(sign in line for sign in _RETURNS))
    if (cause := next(filter(None, returns), None)) is not None:
        return cause
    cause = None if no_command else printed(output, local=local)
    if cause is None or (reason in _SIGNALS and (OF_SIGNAL.match(cause.text) or OF_SHELL.match(cause.text))):
        return None
    # A launcher passes on how one of its processes ended.
    passed_on = cause.reason in (Reason.WORKER_PROCESS_KILLED, Reason.MPI_NOT_STARTED)
    # Of a crash, the shell around it says less than Python, which does not print a hang then.
    by_program = (passed_on or cause.reason == Reason.PROGRAM_FAILED) and not BY_LAUNCHER.search(cause.text)
    of_crash = by_program and reason in _SIGNALS and crashed(output) is not None
    # What a program printed does not explain a signal from outside, but for that of a launcher whose process has failed.
    by_launcher = passed_on or (not cause.symptom and any(_ENDS_OTHERS.search(line) for line in output))
    return cause if not of_crash and (by_launcher or reason not in _OUTSIDE) else None


def _without_hints(lines: Sequence[str]) -> list[str]:
    """The lines without colours, and without hints that read like errors."""
    return [_COLOUR.sub("", line) for line in lines if not is_hint(line)]


def _before_crash(lines: Sequence[str]) -> Sequence[str]:
    """The lines without what Python's faulthandler prints, which is shown as the function."""
    return lines[: next((at for at, line in enumerate(lines) if line.startswith("Fatal Python error")), None)]


def _just_before(output: Sequence[str], *, local: bool) -> Cause | None:
    """The exception with which a program's output ends."""
    found = raised(output)
    if not found or found[-1].end < len(output) - _AFTER_IT:
        return None
    cause = printed(output[found[-1].begin :], local=local)
    return cause if cause is not None and not cause.symptom else None


_GONE = "it printed nothing, or its template has terminationMessagePolicy: File, which keeps its last lines out of the status"
_SILENT = "it printed nothing: make the program print why it ends, and run python with -u"


def _no_command(exit_code: int | None, message: str, lines: Sequence[str], *, local: bool) -> Cause:
    of_shell = (message.splitlines() or lines) if exit_code in (126, 127) else ()
    text = next(
        (in_short(line) for line in reversed(of_shell) if _NO_PROGRAM.search(line)), "" if of_shell else in_short(message)
    )
    text = text or next((in_short(line) for line in reversed(of_shell or lines) if line.strip()), "")
    if (missing := revealed(text, INTERPRETERS)) is not None:
        return replace(missing, text=f"{missing.text} (exit code {exit_code}): {text}")
    code = f"exit code {exit_code}" if exit_code is not None else "no exit code"
    if not of_shell and (by_runtime := revealed(message, RUNTIME)) is not None:
        return replace(by_runtime, text=f"the container was not started ({code}): {in_short(by_runtime.text)}")
    cause = revealed(text, COMMANDS, local=local)
    executable = exit_code != 126
    reason = cause.reason if cause else (Reason.COMMAND_NOT_FOUND if executable else Reason.COMMAND_NOT_EXECUTABLE)
    known = cause or next(one for one in COMMANDS if one.reason == reason)
    advice = (known.local if local and isinstance(known, Clue) and known.local else "") or known.advice
    if local and (match := _PROGRAM.search(text)) is not None and (install := program_package(match[1] or match[2])):
        advice = f"install it on this machine ({install}), or correct command in the pod template"
    if _WORDS.search(text):
        advice = "this is a whole command line in one item: give each word an item, or command: [sh, -c, 'the whole line']"
    what = _NO_COMMAND.get(reason, "the command cannot be executed")
    return Cause(reason, f"{what} ({code})" + (f": {text}" if text else ""), advice)


_NO_COMMAND: Mapping[str, str] = {
    Reason.COMMAND_NOT_FOUND: "the command was not found",
    Reason.WORKING_DIRECTORY_NOT_FOUND: "workingDir does not exist or cannot be entered",
}
