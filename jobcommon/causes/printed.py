"""The cause that a program's last lines reveal: which of its exceptions and lines decides, and how it is quoted."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from jobcommon.causes.cause import MAX_TEXT, Cause, Clue, in_short, revealed
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues.advice import ANY_PEERS
from jobcommon.causes.clues.environment import SHELL
from jobcommon.causes.clues.launchers import REMAINS, REPORTS
from jobcommon.causes.programs import EXCEPTIONS, LINES, MERELY_A_WARNING, unreachable
from jobcommon.causes.stacks import telling
from jobcommon.causes.tracebacks import Raised, begin_of_stack, crashed, in_stacks, plain, raised, unfolded

ERROR_LINE = re.compile(
    r"error|exception|fatal|severe|what\(\):|corrupt|smashing|free\(\)|malloc|fail|cannot|can't|could not|unable|abort|panic|"
    r"invalid|denied|"
    r"not found|not a valid|unexpected (?:end|EOF)|assert",
    re.IGNORECASE,
)
# The exit code tells it.
OF_SIGNAL = re.compile(r"\s*(?:Aborted|Segmentation fault|Killed|Terminated)(?: \(core dumped\))?\s*$")
# Nor is it a line of the program's source, the end of an R or Perl script, or a stack of C.
_NO_MESSAGE = re.compile(
    rf"{OF_SIGNAL.pattern}|\s*raise\b|Execution halted$|BEGIN failed--|exit status \d+$|\S* ?\*\*\* End of error message|"
    r"\[[\w.-]+:\d+\] (?:\[ ?\d+\] |Signal|Failing at|\*\*\*)|\s*#\d+ |\s*\d+: 0x|"
    r"==\d+==ABORTING|Allocations: \d|\((?:ERR|OK)\):|(?:major|minor): |\*{3} Check failure stack trace|"
    r"If there are any errors|wandb: (?!ERROR)|<?https?://\S+$"
)
_RAISES = re.compile(r"\s*(?:raise\b|(?:major|minor): )")
_MARKED = re.compile(r"(?:[\w./-]+: )?\[?(?:ERROR|FATAL|CRITICAL|[Ee]rror:|[Ff]atal:|fatal error:|forrtl: |F\d{4} )")
_RULED = re.compile(r"[-=]{8}")
_DETAIL = re.compile(r"\s+status code: \d|(?:\S+ \S+ \S+ (?:\S+ )?)?DETAIL: ")
_WORD = re.compile(r"\w")
_MARK = re.compile(r'in "[^"]+", line \d+')
_ASSERTED = re.compile(r"Assertion (`.+?`) failed")
_NOT_FOUND = re.compile(r"No matching distribution|Could not find a version|Unable to locate package|from versions: none")
_NO_NETWORK = re.compile(r"connection broken by|establish a new connection|name resolution|Temporary failure resolving")
# The summary of torchrun, which is longer than what a kubelet keeps of a log.
_FIRST_RANK = re.compile(r"Root Cause \(first observed failure\):\n(?:.*\n){,4}?\s*rank\s*: (\d+) .*\n\s*exitcode\s*: (-?\d+)")
# Exceptions that a mistake in the program raises; others may be raised for its data, its settings or another machine.
_OF_PROGRAM = re.compile(
    r"(?:^|\.)(?:AttributeError|NameError|NotImplementedError|RecursionError|TypeError|UnboundLocalError|ZeroDivisionError)$"
)
#: The advice for an error of which no more is known than its message.
NAMED = "correct what the message names: the program, its data or its settings"
_MISTAKE = "correct the program; its last lines show where"
# In a pipeline or a script, of the command before it.
_FOLLOWS = re.compile(
    r"^tar: (?:Child returned status|Error is not recoverable|Exiting with failure)|\bunexpected end of file$|"
    r"not in gzip format$|does not look like a tar archive|write error: Broken pipe|Pipeline completed with errors|"
    r"not deleting files as there were|"
    r"^CommandException: \d+ files?/objects? could not|[Ll]ook above for|smudge filter \w+ failed|"
    r"external filter|(?:[Rr]efer to|"
    r"[Ss]ee) (?:the )?logs? for|^make: \*\*\*|^terminate called "
)
# Of launchers, about the processes that they have started.
_BY_LAUNCHER = re.compile(
    r"^\[(?:mpiexec|proxy)[:@]|^=|\bHYD[A-Z]*_|(?:mpirun|prterun|orterun) (?:noticed|detected|has exited)|MPI_ABORT|"
    r"^Primary job|"
    r"exited with non-zero|Per user-direction|Process \d+ exit|: line \d+: +\d+ Aborted|Terminating remaining|^(?:srun|"
    r"slurmstepd): |"
    r"^Abort\(\d+\)|^\s*raise\b"
)
_READ = re.compile(r"[Ff]ailed to (?:read|open|load|decode|parse) (?:file )?['\"]?(/[^\s'\"]+)")
# Of torch.distributed.checkpoint: all ranks raise what one of them has raised.
_OF_RANK = re.compile(r"Traceback \(most recent call last\): \(RANK (\d+)\)")
_OF_SUMMARY = re.compile(r"^traceback : (?=Signal )")
# What torch warns of when it counts the GPUs, and Ascend's own codes, which it prints after the exception.
_NO_DEVICE = re.compile(r"cudaGetDeviceCount\(\).*(Error \d+: [^(]+?) ?(?:\(|$)")
_ASCEND = re.compile(r"\bE[A-Z]\d{4}: .+")
_INTERFACE = re.compile(r"Bootstrap ?: Using (?:\[\d+\])?([\w.-]+):")
_ABORTED_RANK = re.compile(r"(?:MPI_ABORT was invoked on rank|application called MPI_Abort\(.*process) (\d+)")
# A message of several lines is quoted whole up to this length.
_SHORT = 240
# Of the last lines as many are searched for one that reads like an error.
_TAIL = 15
# An error far before the end was perhaps overcome; it counts only if these lines tell no cause.
_LATEST = 60


def printed(lines: Sequence[str], *, local: bool = False) -> Cause | None:
    """The cause that a program's last lines reveal, with what was printed before it if that may explain it.

    The very last lines decide, else those before: a program may print more while it ends.
    """
    lines = unfolded(lines)
    cause = _decisive(lines[begin_of_stack(lines, max(len(lines) - _LATEST, 0)) :], local=local)
    if len(lines) > _LATEST and (cause is None or cause.symptom):
        cause = _decisive(lines, local=local)
    return _with_detail(cause, lines, local=local) if cause is not None else None


def _decisive(lines: Sequence[str], *, local: bool) -> Cause | None:
    """The last exception that is no consequence of another replica's failure, else the last line that reveals a cause.

    A warning counts only if there is nothing else.
    """
    found = raised(lines)
    chains = _chains([one for one in found if not one.wraps])
    # Of one process the last decides, of several the first.
    several = len({chain[0].process for chain in chains}) > 1
    causes = [_of_exception(chain, local=local) for chain in (chains if several else reversed(chains))]
    # Source lines in a stack reveal nothing.
    stacks = in_stacks(lines)
    own = joined(telling([plain(line) for number, line in enumerate(lines) if number not in stacks]))
    errors = [line for line in own if not (MERELY_A_WARNING.search(line) or _RAISES.match(line))]
    texts = (cause for line in reversed(errors) if (cause := of_line(line, LINES, local=local)) is not None)
    plainly = [] if any(not cause.symptom for cause in causes) else [*texts]
    candidates = [*causes, *plainly]
    for cause in candidates:
        if not cause.symptom:
            return cause
    if candidates:
        remains = (of_line(line, REMAINS, local=local) for line in reversed(errors))
        # An abort is often the watchdog's, or that of what has lost its peers.
        crashes = (one for one in remains if one is not None and "Abort" not in one.text)
        killed = (one for one in crashes if one.reason == Reason.WORKER_PROCESS_KILLED)
        # A process that was killed explains why the others have lost it.
        if (cause := next(killed, None)) is not None:
            return cause
        # Of lines that follow from another replica's end the first says most.
        return causes[0] if causes else min(reversed(plainly), key=lambda one: one.advice in ANY_PEERS)
    said = ""
    if found and found[-1].type.endswith("CalledProcessError"):
        # The lines before it are those of the command.
        said, own = f"{in_short(found[-1].lines[0])}: ", joined(telling(lines[: found[-1].begin]))
        errors = [line for line in own if not MERELY_A_WARNING.search(line)]
    warnings = [line for line in own if MERELY_A_WARNING.search(line)]
    for some, clues in ((errors, REMAINS), (warnings, LINES)):
        for line in reversed(some):
            if (cause := of_line(line, clues, local=local)) is not None:
                return replace(cause, text=said + cause.text)
    if (report := next(filter(None, (of_line(line, REPORTS, local=local) for line in errors)), None)) is not None:
        before = last_line([line for line in own if not _BY_LAUNCHER.search(line)])
        if not ERROR_LINE.search(before):
            return report
        return replace(report, text=f"{in_short(before)}; {report.text.removesuffix(' ()')}", advice=NAMED, symptom=False)
    if (rank := _FIRST_RANK.search("\n".join(lines))) is not None:
        text = f"rank {rank[1]} failed first, with exit code {rank[2]}; the summary of torchrun says no more"
        return Cause(Reason.PROGRAM_FAILED, text, "see what this rank printed before; runPolicy.keepFailedLogs keeps it")
    if said:
        text = said.removesuffix(": ") if not (last := last_line(own)) else said + in_short(last)
        return Cause(Reason.PROGRAM_FAILED, text, "see what this command printed")
    return _unknown(found[-1]) if found else None


def _with_detail(cause: Cause, lines: Sequence[str], *, local: bool) -> Cause:
    """The cause with what explains it further up: the assertion that a GPU printed before the exception that it led to, or
    that pip had no network; the interface that NCCL uses; the rank that ended MPI.
    """
    if "onnect: " in cause.text and (match := next(filter(None, map(_INTERFACE.search, lines)), None)) is not None:
        return replace(cause, text=f"{cause.text}; NCCL uses the interface {match[1]}")
    if (match := next(filter(None, map(_ABORTED_RANK.search, lines)), None)) is not None and "_Abort" not in cause.text:
        return replace(cause, text=f"{cause.text}; rank {match[1]} called MPI_Abort")
    if _NOT_FOUND.search(cause.text) and (lost := next((line for line in lines if _NO_NETWORK.search(line)), "")):
        why = in_short(plain(lost).partition("connection broken by ")[2] or plain(lost), 200)
        found = of_line(why, LINES, local=local) or unreachable(why, local=local)
        found = unreachable(why, local=local) if found.symptom else found
        return replace(found, text=f"{cause.text}, after: {why}")
    if "via ssh" in cause.text and (why := next((line for line in map(plain, lines) if line.startswith("ssh: ")), "")):
        return replace(cause, text=f"{cause.text}; printed before: {in_short(why, 200)}")
    if (rank := next(filter(None, map(_OF_RANK.search, reversed(lines))), None)) is not None:
        cause = replace(cause, text=f"{cause.text}, on rank {rank[1]}")
    if _OF_SUMMARY.search(cause.text) and (first := _FIRST_RANK.search("\n".join(lines))) is not None:
        cause = replace(cause, text=f"rank {first[1]} failed first: {_OF_SUMMARY.sub('', cause.text)}")
    if cause.reason == Reason.GPU_UNUSABLE and (match := next(filter(None, map(_NO_DEVICE.search, lines)), None)) is not None:
        found = of_line(match[1], LINES, local=local) or cause
        return cause if match[1] in cause.text else replace(found, text=f"{cause.text}, after: {match[1]}")
    if cause.advice == NAMED and (match := next(filter(None, map(_ASCEND.search, lines)), None)) is not None:
        found = of_line(match[0], LINES, local=local) or cause
        return replace(found, text=f"{in_short(cause.text, 200)}: {in_short(match[0], 200)}")
    cause = _after_earlier(cause, lines, local=local) or cause
    if cause.reason == Reason.WORKER_PROCESS_KILLED and (crash := crashed(lines)) is not None:
        place, function = crash
        return replace(cause, text=f"{cause.text}; it crashed in {place}", advice=f"see the library that {function} calls")
    if cause.reason == Reason.DATA_INVALID and (file := next(filter(None, map(_READ.search, lines)), None)) is not None:
        return replace(cause, text=cause.text if file[1] in cause.text else f"{cause.text}, in {file[1]}")
    if "device-side assert" not in cause.text:
        return cause
    asserted = next((match[1] for line in lines if (match := _ASSERTED.search(line)) is not None), "")
    return replace(cause, text=f"the assertion {asserted} failed on the GPU: {cause.text}") if asserted else cause


# What lacks a file, a module or a server, perhaps because a command of the script before has failed.
_MAY_FOLLOW = (Reason.FILE_NOT_FOUND, Reason.MODULE_NOT_FOUND, Reason.HOST_UNREACHABLE)
# An exception that says no more than that a program, or something before, has failed.
_POINTS = re.compile(
    r"\bexit(?:ed)?(?: with)?(?: (?:code|status))?:? [1-9]|non-zero|[Ss]ee (?:the )?(?:root cause|errors?|logs?|"
    r"output)?\b.{,20}\babove|"
    r"errors? above|DNN library (?:is not found|initialization failed)|ActorDiedError|WorkerCrashedError|KilledWorker|"
    r"(?:previous|above) (?:error|exception|traceback|"
    r"message)|Error building extension|HDFS connection failed"
)
# What is a warning where it is printed: huggingface_hub then uses its cache, Dask starts another worker.
_REQUESTING = re.compile(r"thrown while requesting|exceeded \d+% memory budget")
_OF_TENSORFLOW = re.compile(r"^\d{4}-\d\d-\d\d .*: [EWI] ")
# As many lines before an exception are searched for what led to it.
_BEFORE = 40
# What may be wrong with a program before it notices.
_LIBRARIES = tuple(clue for clue in LINES if clue.reason == Reason.LIBRARY_NOT_FOUND)
_DIGITS = re.compile(r"\d+")


def _after_earlier(cause: Cause, lines: Sequence[str], *, local: bool) -> Cause | None:
    """The cause of a program's last exception with what was printed before it, if that may explain it."""
    chains = _chains([one for one in raised(lines) if not one.wraps])
    own = [chain for chain in chains if in_short(chain[-1].lines[0])[:40] in cause.text]
    if not own:
        return None
    begin, process = own[0][0].begin, own[0][0].process
    earlier = [chain for chain in chains if chain[0].process == process and chain[-1].end < begin]
    unknown = cause.reason == Reason.PYTHON_EXCEPTION and cause.advice in (NAMED, _MISTAKE)
    points = _POINTS.search(cause.text) is not None
    if cause.reason not in _MAY_FOLLOW and not unknown and not points:
        return None
    found, text = None, ""
    before = range(max(begin - _BEFORE, 0), begin)
    if earlier:
        found, text = _of_exception(earlier[-1], local=local), in_short(" ".join(earlier[-1][-1].lines), 200)
        before = range(before.start, earlier[-1][0].begin)
    # In a script the first command that fails explains the others.
    clues = (*SHELL, *LINES, *REMAINS) if cause.reason in _MAY_FOLLOW else (*SHELL, *LINES) if points else _LIBRARIES
    stacks = {number for one in raised(lines) for number in range(one.begin, one.end + 1)}
    for number in before if cause.advice != _MISTAKE else ():
        line = plain(lines[number])
        of_request = _REQUESTING.search(line) is not None
        if (
            number in stacks
            or (not points and _OF_TENSORFLOW.match(line))
            or (MERELY_A_WARNING.search(line) and not of_request)
        ):
            continue
        its = of_line(line, clues, local=local)
        if its is not None and not its.symptom:
            found, text, points = its, in_short(line.rpartition("(Caused by ")[2], 200), points or of_request
            break
    if found is None and points and crashed(lines) is None:
        told = [line for line in map(plain, lines[before.start : begin]) if not MERELY_A_WARNING.search(line)]
        if ERROR_LINE.search(text := in_short(last_line([line for line in told if not _BY_LAUNCHER.search(line)]), 200)):
            found = Cause(Reason.PROGRAM_FAILED, text, NAMED)
    if found is None or _DIGITS.sub("", text[-80:]) in _DIGITS.sub("", cause.text):
        return None
    if points:
        return replace(found, text=f"{in_short(cause.text, 200)}, after: {text}")
    shell = " (set -eo pipefail)" if cause.reason in _MAY_FOLLOW else ""
    advice = f"check whether what was printed before explains it{shell}; {cause.advice}"
    return replace(cause, text=f"{in_short(cause.text, MAX_TEXT - len(text) - 20)}; printed before: {text}", advice=advice)


def joined(lines: Sequence[str]) -> list[str]:
    """The lines, of which one that ends with a colon, or has a detail, goes on in the next that is not blank."""
    whole: list[str] = []
    for at, line in enumerate(lines):
        if at and _DETAIL.match(line):
            continue
        for after in lines[at + 1 : at + 6]:
            if line.rstrip().endswith(":") or _DETAIL.match(after):
                line = f"{line} {after.strip()}".rstrip()
            elif after.strip():
                break
        whole.append(line)
    return whole


def of_line(line: str, clues: Iterable[Clue], *, local: bool) -> Cause | None:
    """The cause that one line reveals."""
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
            before = "" if one is last or in_short(last.lines[0]) in text else f"{in_short(last.lines[0])}, after "
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
    whole = " ".join(one.lines)
    short = one.python and 1 < len(one.lines) < 4 and len(whole) <= _SHORT and not _BY_LAUNCHER.search(whole)
    if revealing == first and short and not _RULED.search(whole):
        # A short message as a whole: its second line may decide.
        first = revealing = whole
    if revealing == first and first.rstrip().endswith(":"):
        first = revealing = joined(one.lines)[0]
    if revealing == first and first.rstrip().endswith("root error(s) found.") and len(one.lines) > 1:
        revealing = one.lines[1]
    if revealing == first and len(one.lines) > 1 and one.lines[1].startswith(": "):
        # py4j: the exceptions of Java follow, the first cause last.
        of_java = joined(one.lines[1:])
        causes_of_java = [line for line in of_java if line.startswith("Caused by: ")]
        revealing = causes_of_java[-1] if causes_of_java else of_java[0].removeprefix(": ")
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
        _MISTAKE if one.python and _OF_PROGRAM.search(one.type) else NAMED,
    )


def last_line(lines: Sequence[str]) -> str:
    """Of the last lines the last one that a program marks as its error, else the last that reads like one, else the "
    "very last."""
    tail = [line.strip() for line in map(plain, telling(lines)) if _WORD.search(line) and not _NO_MESSAGE.match(plain(line))][
        -_TAIL:
    ]
    errors = [line for line in tail if ERROR_LINE.search(line)]
    own = [line for line in errors if not (_FOLLOWS.search(line) or _BY_LAUNCHER.search(line))]
    if errors and not own:
        # Of what a launcher says of its own failure, the first line decides.
        return next((line for line in errors if _BY_LAUNCHER.search(line)), errors[0])
    own = [line for line in own if not MERELY_A_WARNING.search(line)] or own
    marked = [line for line in own if _MARKED.match(line)] or own
    return marked[-1] if marked else tail[-1] if tail else ""
