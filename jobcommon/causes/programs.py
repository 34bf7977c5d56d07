"""Why a program ended, for those who ask: by the kubelet's reason, the exit code, its last lines, and the clues."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from jobcommon.causes.cause import Cause, in_short
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues import revealed, table
from jobcommon.causes.error_lines import (
    A_WARNING,
    BY_LAUNCHER,
    ERROR_LINE,
    FIRST_RANK,
    NOT_STARTED,
    OUTSIDE,
    Error,
    last_line,
    named_error,
    of_rank,
)
from jobcommon.causes.printed import Line, is_stack, messages

#: The advice for an error of which no more is known than its message.
NAMED = "correct what the message names: the program, its data or its settings"
MISTAKE = "correct the program; its last lines show where"
# Exceptions that a mistake in the program raises; others may be raised for its data, its settings or another machine.
_OF_PROGRAM = re.compile(
    r"(?:^|\.)(?:AttributeError|NameError|NotImplementedError|RecursionError|TypeError|UnboundLocalError|ZeroDivisionError)$"
)
_BY_RUNTIME = re.compile(r"^exec \S+: (?:no such file|exec format)")
#: A message of a runtime about the pod's command; others are about programs and files of the node.
OF_COMMAND = re.compile(r"(?:^|(?:process|init|caused|failed): )exec|^\[Errno")
_CARRIAGE_RETURN = re.compile(r"(?<=\S)\r(?=: [a-z])")
# What a shell or Python prints of the signal alone.
_OF_SIGNAL = re.compile(r"Fatal Python error|(?:Aborted|Segmentation fault|Killed|Terminated)(?: \(core dumped\))?$")
_NO_PROGRAM = re.compile(
    r"not found|lookup error|no such file|denied|cannot execute|not executable|format error", re.IGNORECASE
)
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
_CODES = {2: "; by convention: wrong arguments", 124: "; the timeout command stopped it", 255: "; often from ssh or mpirun"}
_TIMEOUT = 124
_TIMED_OUT = "see why it did not finish in time, or raise the limit of the timeout command"
# One diagnosis asks for an end several times, and a page that shows many jobs again and again.
_MOST_READ = 1024
_GONE = "it printed nothing, or its template has terminationMessagePolicy: File, which keeps its last lines out of the status"
_SILENT = "it printed nothing: make the program print why it ends, and run python with -u"
# The frames of Python's faulthandler, of the thread that crashed first of all.
_CRASHED = re.compile(r"(?:Current thread|Thread) .*\(most recent call first\):\n((?:\s+File .*\n?)+)")
_CRASH_FRAME = re.compile(r'File "(?:[^"]*?((?:site|dist)-packages/|lib/python[\d.]+/)|[^"]*/)?([^"]+)", line (\d+) in (.+)')


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
    return _end(reason, exit_code, message, tuple(lines), gone, local)


@lru_cache(_MOST_READ)
def _end(reason: str, exit_code: int | None, message: str, lines: tuple[str, ...], gone: bool, local: bool) -> Cause:
    code = f"exit code {exit_code}" if exit_code is not None else "no exit code"
    if reason == "OOMKilled":
        advice = "raise resources.limits.memory, or use a smaller batch or fewer data loader workers"
        if local:
            advice = "this machine ran out of memory: use a smaller batch, fewer data loader workers or fewer replicas"
        return Cause(Reason.OOM_KILLED, f"used more memory than its limit (OOMKilled, {code})", advice)
    # The message is mostly the end of what was printed.
    message = _CARRIAGE_RETURN.sub(r"\\r", message)
    own = [] if message.strip() in "\n".join(lines) else message.splitlines()
    output = messages([*own, *lines])
    last = last_line(output)
    if (cause := _of_line_ends(output)) is not None:
        return replace(cause, text=f"{code}: {cause.text}")
    started = not (reason in NOT_STARTED or exit_code in (126, 127) or (output and _BY_RUNTIME.match(output[-1].text)))
    if not started and not last.endswith(("unbound variable", "not set")):
        return _no_command(exit_code, message, output, of_shell=reason not in NOT_STARTED, local=local)
    cause = _of_error(output, local=local)
    passed_on = cause is not None and cause.reason in (Reason.WORKER_PROCESS_KILLED, Reason.MPI_NOT_STARTED)
    by_shell = cause is not None and reason in _SIGNALS and _OF_SIGNAL.match(cause.text)
    if cause is not None and ((reason in OUTSIDE and not passed_on) or by_shell):
        # What a program printed does not explain a signal from outside.
        cause = None
    if cause is not None and not (reason in _SIGNALS and cause.reason == Reason.PROGRAM_FAILED):
        crash = crashed(output) if cause.reason in (Reason.WORKER_PROCESS_KILLED, Reason.PROGRAM_FAILED) else None
        if crash is None or reason not in _SIGNALS:
            where = f"; it crashed in {crash[0]}" if crash is not None else ""
            return replace(cause, text=f"{code}: {cause.text}{where}", advice=f"see {crash[1]}" if crash else cause.advice)
    if reason in _SIGNALS:
        return _of_signal(reason, code, output, last, local=local)
    said = "its last lines may say why" if any(line.text for line in output) else _GONE if gone else _SILENT
    if reason.startswith("SIG"):
        return Cause(reason, f"killed by {reason} ({code})", said)
    # A program may use 2 or 255 for another thing, which its last line says.
    meaning = "" if last and exit_code != _TIMEOUT else _CODES.get(exit_code or 0, "")
    shown = f"; its last line: {in_short(last)}" if last else "; its log is gone" if gone else ""
    return Cause(Reason.PROGRAM_FAILED, f"failed with {code}{meaning}{shown}", _TIMED_OUT if exit_code == _TIMEOUT else said)


def printed(lines: Sequence[str], *, local: bool = False) -> Cause | None:
    """The cause of the error that a program's last lines name; None if they name none."""
    return _printed(tuple(lines), local)


@lru_cache(_MOST_READ)
def _printed(lines: tuple[str, ...], local: bool) -> Cause | None:
    return _of_error(messages(lines), local=local)


def unreachable(text: str, *, local: bool = False) -> Cause:
    """The cause of a connection to a host that is none of the job's."""
    known = next(
        clue for clue in table("clue").clues if clue.reason == Reason.HOST_UNREACHABLE and not clue.example.count("127.")
    )
    return Cause(Reason.HOST_UNREACHABLE, text, known.local if local else known.advice)


def _of_error(output: Sequence[Line], *, local: bool) -> Cause | None:
    error = named_error(output)
    cause = _known(error, output, local=local) if error is not None else None
    if error is not None and not error.wraps and not (cause.symptom if cause is not None else error.lost):
        return cause or _unknown(error, output)
    other, rank = anywhere(output, local=local), FIRST_RANK.search("\n".join(line.text for line in output))
    if other is not None and rank is not None and other.reason == Reason.WORKER_PROCESS_KILLED:
        return replace(other, text=f"rank {rank[1]} failed first, with exit code {rank[2]}: {other.text}")
    if other is not None and (cause is None or not other.symptom):
        own = in_short(error.text, 200) if error is not None and error.python else ""
        return replace(other, text=own if other.text in own else f"{own}: {other.text}" if own else other.text)
    if cause is not None:
        return cause
    if rank is not None:
        text = f"rank {rank[1]} failed first, with exit code {rank[2]}; the summary of torchrun says no more"
        advice = "see what this rank printed before; runPolicy.keepFailedLogs keeps it"
        return Cause(Reason.PROGRAM_FAILED, text, advice, symptom=True)
    return _unknown(error, output) if error is not None else None


def _of_line_ends(output: Sequence[Line]) -> Cause | None:
    """That a script has Windows line endings, if any line says so: each of its commands fails in its own way."""
    signs = (line.text for line in output if any(sign in line.text for sign in ("\\r", "^M", "\r", "Illegal option -")))
    return next(filter(None, (revealed(text, "script") for text in signs)), None)


def _known(error: Error, output: Sequence[Line], *, local: bool) -> Cause | None:
    """The cause that clues reveal of the error."""
    cause = revealed(error.full, "clue", local=local)
    if cause is None:
        return None
    return replace(cause, text=of_rank(error, output)) if cause.text == in_short(error.full) else cause


def _unknown(error: Error, output: Sequence[Line]) -> Cause:
    """The cause of an error of which no clue knows more: the error itself."""
    advice = MISTAKE if error.python and _OF_PROGRAM.search(error.type) else NAMED
    reason = Reason.PYTHON_EXCEPTION if error.python and not error.wraps else Reason.PROGRAM_FAILED
    return Cause(reason, of_rank(error, output), advice, symptom=error.lost or error.wraps)


def anywhere(output: Sequence[Line], *, local: bool) -> Cause | None:
    """The cause that any of the lines reveals, where the error names none of its own."""
    lines = [line.text for line in output if not (A_WARNING.search(line.text) or is_stack(line.text))]
    text, clues = "\n".join(lines), table("clue")
    for clue in clues.matching(text):
        at, groups = clues.place(clue, text)
        line = text[text.rfind("\n", 0, at + 1) + 1 :].lstrip("\n").partition("\n")[0]
        if not line.lstrip().startswith("raise "):
            return clue.cause(line.strip("= "), groups, local=local)
    return None


def _of_signal(reason: str, code: str, output: Sequence[Line], last: str, *, local: bool) -> Cause:
    text, advice = _SIGNALS[reason]
    crash = crashed(output)
    shown = "" if reason in OUTSIDE or not ERROR_LINE.search(last) or last.startswith("Fatal Python") else f": {in_short(last)}"
    if BY_LAUNCHER.search(last) and ": line" not in last:
        shown = ""
    if last and not shown and reason == "SIGABRT" and not ERROR_LINE.search(last):
        # Who aborts says why just before, in whatever words.
        shown = f"; its last line: {in_short(last)}"
    elif shown and reason == "SIGABRT":
        advice = f"{NAMED}; of Python, -X faulthandler prints where"
    if reason == "SIGKILL" and (error := named_error(output)) is not None and error.python and error.end > len(output) - 6:
        shown, advice = f", after it printed {error.text}", f"if that does not explain it: {advice}"
    advice = (_LOCAL_SIGNALS.get(reason) if local else None) or advice
    if crash is not None:
        shown, advice = f" in {crash[0]}{shown}", advice.replace(_FAULTHANDLER, f"see {crash[1]}")
    named = code if reason in text else f"{reason}, {code}"
    return Cause(reason, f"{text} ({named}){shown}", advice, symptom=reason == "SIGTERM")


def crashed(output: Sequence[Line]) -> tuple[str, str] | None:
    """Where the thread that crashed was, by Python's faulthandler, and what to see; None if it printed nothing."""
    text = "\n".join(line.text for line in output)
    found = (
        _CRASHED.search(text, max(text.find("Current thread"), text.find("Fatal Python error"), 0))
        if "call first" in text
        else None
    )
    frames = _CRASH_FRAME.findall(found[1]) if found is not None else []
    if not frames:
        return None
    places = [f"{function} ({file}, line {number})" for _, file, number, function in frames]
    own = next((place for place, frame in zip(places, frames, strict=True) if not frame[0]), places[0])
    package, file, _, function = frames[0]
    library = f"the package {file.partition('/')[0]}" if package else f"the library that {function} calls"
    return (places[0] if own == places[0] else f"{places[0]}, called by {own}"), library


def _no_command(exit_code: int | None, message: str, output: Sequence[Line], *, of_shell: bool, local: bool) -> Cause:
    lines = [line.text for line in output if line.text.strip()]
    said = next((line for line in reversed(lines) if _NO_PROGRAM.search(line)), lines[-1] if lines else "")
    text = in_short(said if of_shell or not message else message)
    code = f"exit code {exit_code}" if exit_code is not None else "no exit code"
    cause = revealed(text, "command", local=local) or revealed(text, "clue", local=local)
    of_command = of_shell or OF_COMMAND.search(message or text)
    if (cause is None or cause.reason == Reason.COMMAND_NOT_FOUND) and not of_command:
        cause = Cause(
            Reason.CONTAINER_NOT_CREATED, text, "the node could not start it, for what the message names: kubectl describe pod"
        )
    if cause is None:
        executable = exit_code != 126
        reason = Reason.COMMAND_NOT_FOUND if executable else Reason.COMMAND_NOT_EXECUTABLE
        known = next(clue for clue in reversed(table("command").clues) if clue.reason == reason)
        cause = known.cause(text, (), local=local)
    what = _NO_COMMAND.get(cause.reason, "the command cannot be executed" if of_shell else "the container was not started")
    return replace(cause, text=f"{what} ({code})" + (f": {text}" if text else ""))


_NO_COMMAND: dict[str, str] = {
    Reason.COMMAND_NOT_FOUND: "the command was not found",
    Reason.WORKING_DIRECTORY_NOT_FOUND: "workingDir does not exist or cannot be entered",
}
