"""What else a program's output says of the cause that it reveals: what was printed before, where it crashed, which rank."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice, takewhile

from jobcommon.causes.cause import MAX_TEXT, Cause, Clue, in_short
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues.environment import SHELL
from jobcommon.causes.clues.launchers import REMAINS
from jobcommon.causes.error_lines import BY_LAUNCHER, ERROR_LINE, joined, last_line, of_line
from jobcommon.causes.exceptions import MISTAKE, NAMED, chains_of, of_exception
from jobcommon.causes.programs import LINES, MERELY_A_WARNING, unreachable
from jobcommon.causes.tracebacks import crashed, plain, raised

_Detail = Callable[[Cause, Sequence[str], bool], Cause | None]

_ASSERTED = re.compile(r"Assertion (`.+?`) failed")
_NOT_FOUND = re.compile(r"No matching distribution|Could not find a version|Unable to locate package|from versions: none")
_NO_NETWORK = re.compile(r"connection broken by|establish a new connection|name resolution|Temporary failure resolving")
# The summary of torchrun, which is longer than what a kubelet keeps of a log.
FIRST_RANK = re.compile(r"Root Cause \(first observed failure\):\n(?:.*\n){,4}?\s*rank\s*: (\d+) .*\n\s*exitcode\s*: (-?\d+)")
_READ = re.compile(r"[Ff]ailed to (?:read|open|load|decode|parse) (?:file )?['\"]?(/[^\s'\"]+)")
# Of torch.distributed.checkpoint: all ranks raise what one of them has raised.
_OF_RANK = re.compile(r"Traceback \(most recent call last\): \(RANK (\d+)\)")
_OF_SUMMARY = re.compile(r"^traceback : (?=Signal )")
# Of pdsh and torch; of mpirun and horovodrun. What is shorter is no message.
_OF_HOST = re.compile(
    r"(?!\d+:)(?P<host>[\w.-]+): \[rank(?P<rank>\d+)\]:\s?(?P<said>\S.{20,})|"
    r"[\w :]*\[(?:\d+,)?(?P<number>\d+)\]<std\w+>:\s?(?P<tagged>\S.{9,})"
)
# What mpirun reports of ranks whose lines it does not tag.
_FIRST_OF_MPI = re.compile(r"first process to do so was: Process name: \[(?:\[\d+,\d+\]|[\w.-]+@\d+),(\d+)\]")
_HAS_RANK = re.compile(r"\brank \d+(?: ended| failed| called|: )", re.IGNORECASE)
# What torch warns of when it counts the GPUs, and Ascend's own codes, which it prints after the exception.
_NO_DEVICE = re.compile(r"cudaGetDeviceCount\(\).*(Error \d+: [^(]+?) ?(?:\(|$)")
_ASCEND = re.compile(r"\bE[A-Z]\d{4}: .+")
_INTERFACE = re.compile(r"Bootstrap ?: Using (?:\[\d+\])?([\w.-]+):")
_ABORTED_RANK = re.compile(r"(?:MPI_ABORT was invoked on rank|application called MPI_Abort\(.*process) (\d+)")
# What lacks a file, a module or a server, perhaps because a command of the script before has failed.
_MAY_FOLLOW = (Reason.FILE_NOT_FOUND, Reason.MODULE_NOT_FOUND, Reason.HOST_UNREACHABLE)
# Where a command has failed so, what is missing after it follows from that.
_DECIDES = (
    Reason.ACCESS_DENIED, Reason.TLS_FAILED, Reason.HOST_UNREACHABLE, Reason.DISK_FULL, Reason.LIMIT_REACHED,
    Reason.COMMAND_NOT_FOUND,
)  # fmt: skip
# What an exception says of data that is not there; the last ones may have other causes, too.
_NO_DATA = re.compile(
    r"[Nn]o objects to concatenate|num_samples=0|(?i:\b(?:no|0|zero)(?: \w+){,2} (?:files?|shards?|images?|samples?|records?|"
    r"rows|examples?|documents?|data|datasets?|checkpoints?)\b)|\bempty\b|at least one array|zero-size array|"
    r"assert (?:len\()?[\w.]*(?:files|paths|shards|images|samples|data)\b"
)
_PERHAPS_NO_DATA = re.compile(
    r"IndexError: (?:list index out of range|.*(?:with size 0|positional indexer))|ZeroDivisionError: |StopIteration"
)
# The line of a command: its name, or a shell's script, comes first. Programs print of themselves by a logger.
_OF_COMMAND = re.compile(
    r"(?!\w*(?:Error|Exception): )[\w./+-]+(?: error)?: |(?:AccessDenied|BadRequest|NotFound|Service|Command)Exception: |"
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ERROR \d{3}: "
)
# Commands that put data, code or modules where a program expects them.
_FETCHING = (
    Clue(
        r"(?:^|: )(aws|gsutil|gcloud|azcopy|az|s3cmd|s5cmd|rclone|mc|curl|wget|git|git-lfs|dvc|hdfs|hadoop|kaggle|hf|"
        r"huggingface-cli|rsync|scp|tar|unzip|zstd|pigz|lz4|gzip|bunzip2|7z|aria2c|pip3?|uv|conda|mamba|poetry): "
        r"(?:command )?not found$",
        Reason.COMMAND_NOT_FOUND, "", "install {0} in the image", local="install {0} on this machine",
    ),
)  # fmt: skip
# An exception that says no more than that a program, or something before, has failed.
_POINTS = re.compile(
    r"\bexit(?:ed)?(?: with)?(?: (?:code|status))?:? [1-9]|non-zero|[Ss]ee (?:the )?(?:root cause|errors?|logs?|"
    r"output)?\b.{,20}\babove|"
    r"errors? above|DNN library (?:is not found|initialization failed)|ActorDiedError|WorkerCrashedError|KilledWorker|"
    r"No best trial found|Trials did not complete|(?:previous|above) (?:error|exception|traceback|"
    r"message)|Error building extension|HDFS connection failed"
)
# What is a warning where it is printed: huggingface_hub then uses its cache, Dask starts another worker.
_REQUESTING = re.compile(r"thrown while requesting|exceeded \d+% memory budget")
# What Dask and Ray log of it says no more than the exception.
_DIED = re.compile(r"\bworkers? (?:have |has )?died\b")
_OF_TENSORFLOW = re.compile(r"^\d{4}-\d\d-\d\d .*: [EWI] ")
# Long enough to say more than that there is an exception.
_LOGGED = re.compile(r"^(?=.{110})(?!.*(?:[Ee]xception|[Tt]raceback|has been caught))(?:.{,60}\bERROR\b|E\d{4} )")
# As many lines before an exception are searched for what led to it, and so many of commands before them.
_BEFORE, _MOST_COMMANDS = 40, 20
_PROBLEM = re.compile(r"\s+- ")
# What may be wrong with a program before it notices.
_UNNOTICED = (Reason.LIBRARY_NOT_FOUND, *_DECIDES)
_UNRESOLVED = re.compile(r"\(([\w.-]+), \d+\) cannot be retrieved \((gai error.*?)\)")
_DIGITS = re.compile(r"\d+")


def with_detail(cause: Cause, lines: Sequence[str], *, local: bool) -> Cause:
    """The cause with all that the lines say of it."""
    for detail in _DETAILS:
        cause = detail(cause, lines, local) or cause
    return cause


def _first(pattern: re.Pattern[str], lines: Sequence[str]) -> re.Match[str] | None:
    return next(filter(None, map(pattern.search, lines)), None)


def _interface(cause: Cause, lines: Sequence[str], _local: bool) -> Cause | None:
    """The interface that NCCL uses."""
    match = _first(_INTERFACE, lines) if "onnect: " in cause.text else None
    return replace(cause, text=f"{cause.text}; NCCL uses the interface {match[1]}") if match else None


def _aborted_rank(cause: Cause, lines: Sequence[str], _local: bool) -> Cause | None:
    match = _first(_ABORTED_RANK, lines) if "_Abort" not in cause.text else None
    return replace(cause, text=f"{cause.text}; rank {match[1]} called MPI_Abort") if match else None


def _unresolved(cause: Cause, lines: Sequence[str], _local: bool) -> Cause | None:
    """The name that did not resolve while a program waited for its peer."""
    match = _first(_UNRESOLVED, lines) if "timed out" in cause.text else None
    if match is None or match[1] not in cause.text:
        return None
    advice = f"the name {match[1]} does not resolve: correct MASTER_ADDR, or see whether that replica and its Service exist"
    return replace(cause, text=f"{cause.text}; {match[2]}", advice=advice)


def _no_network(cause: Cause, lines: Sequence[str], local: bool) -> Cause | None:
    """That pip finds no package because it reaches no server."""
    match = _first(_NO_NETWORK, lines) if _NOT_FOUND.search(cause.text) else None
    if match is None:
        return None
    lost = plain(match.string)
    why = in_short(lost.partition("connection broken by ")[2] or lost, 200)
    found = of_line(why, LINES, local=local)
    found = unreachable(why, local=local) if found is None or found.symptom else found
    return replace(found, text=f"{cause.text}, after: {why}")


def _of_ssh(cause: Cause, lines: Sequence[str], _local: bool) -> Cause | None:
    why = next((line for line in map(plain, lines) if line.startswith("ssh: ")), "") if "via ssh" in cause.text else ""
    return replace(cause, text=f"{cause.text}; printed before: {in_short(why, 200)}") if why else None


def _rank(cause: Cause, lines: Sequence[str], _local: bool) -> Cause | None:
    """The rank whose exception all raise."""
    match = _first(_OF_RANK, lines[::-1])
    return replace(cause, text=f"{cause.text}, on rank {match[1]}") if match else None


def _first_rank(cause: Cause, lines: Sequence[str], _local: bool) -> Cause | None:
    """The rank that a summary of torchrun is about."""
    match = FIRST_RANK.search("\n".join(lines)) if _OF_SUMMARY.search(cause.text) else None
    return replace(cause, text=f"rank {match[1]} failed first: {_OF_SUMMARY.sub('', cause.text)}") if match else None


def _no_device(cause: Cause, lines: Sequence[str], local: bool) -> Cause | None:
    match = _first(_NO_DEVICE, lines) if cause.reason == Reason.GPU_UNUSABLE else None
    if match is None or match[1] in cause.text:
        return None
    return replace(of_line(match[1], LINES, local=local) or cause, text=f"{cause.text}, after: {match[1]}")


def _settings(cause: Cause, lines: Sequence[str], _local: bool) -> Cause | None:
    """That the fields which are missing are environment variables."""
    of_settings = "Field required" in cause.text and any("/pydantic_settings/" in line for line in lines)
    advice = "set a variable of this name in the container's env, with the prefix (env_prefix) that the program's settings have"
    return replace(cause, reason=Reason.ENVIRONMENT_MISSING, advice=advice) if of_settings else None


def _of_ascend(cause: Cause, lines: Sequence[str], local: bool) -> Cause | None:
    match = _first(_ASCEND, lines) if cause.advice == NAMED else None
    if match is None:
        return None
    found = of_line(match[0], LINES, local=local) or cause
    return replace(found, text=f"{in_short(cause.text, 200)}: {in_short(match[0], 200)}")


def _crash(cause: Cause, lines: Sequence[str], _local: bool) -> Cause | None:
    """Where the process crashed that was killed."""
    crash = crashed(lines) if cause.reason == Reason.WORKER_PROCESS_KILLED else None
    if crash is None:
        return None
    place, library = crash
    return replace(cause, text=f"{cause.text}; it crashed in {place}", advice=f"see {library}")


def _file(cause: Cause, lines: Sequence[str], _local: bool) -> Cause | None:
    """The file whose data is not valid."""
    match = _first(_READ, lines) if cause.reason == Reason.DATA_INVALID else None
    return replace(cause, text=f"{cause.text}, in {match[1]}") if match and match[1] not in cause.text else None


def _process(cause: Cause, lines: Sequence[str], _local: bool) -> Cause | None:
    """The rank and its host, if a launcher has put them before the line."""
    if _HAS_RANK.search(cause.text):
        return None
    # Another rank has led to a consequence.
    matches = (match for match in map(_OF_HOST.match, lines) if match and not cause.symptom)
    same = (match for match in matches if in_short(match["said"] or match["tagged"])[:40] in cause.text)
    found = {(match["rank"] or match["number"], match["host"]) for match in same}
    if not found and (first := _first(_FIRST_OF_MPI, lines)) is not None:
        text = f"{cause.text}; rank {first[1]} failed first" if cause.symptom else f"rank {first[1]} failed first: {cause.text}"
        return replace(cause, text=text)
    # Of an error that all have, no rank is the cause.
    if len(found) != 1:
        return None
    rank, host = found.pop()
    return replace(cause, text=f"rank {rank} on {host}: {cause.text}" if host else f"rank {rank}: {cause.text}")


def _asserted(cause: Cause, lines: Sequence[str], _local: bool) -> Cause | None:
    """The assertion that a GPU printed before the exception that it led to."""
    match = _first(_ASSERTED, lines) if "device-side assert" in cause.text else None
    return replace(cause, text=f"the assertion {match[1]} failed on the GPU: {cause.text}") if match else None


def _earlier(cause: Cause, lines: Sequence[str], local: bool) -> Cause | None:
    """What was printed before a program's last exception, if that may explain it."""
    unknown = cause.reason == Reason.PYTHON_EXCEPTION and cause.advice in (NAMED, MISTAKE)
    points = _POINTS.search(cause.text) is not None
    if cause.reason not in (*_MAY_FOLLOW, Reason.DATA_INVALID, Reason.CHECKPOINT_MISMATCH) and not unknown and not points:
        return None
    chains = chains_of([one for one in raised(lines) if not one.wraps])
    own = [chain for chain in chains if in_short(chain[-1].lines[0])[:40] in cause.text]
    begin, process = (own[0][0].begin, own[0][0].process) if own else (_line_of(cause, lines, local=local), "")
    earlier = [chain for chain in chains if chain[0].process == process and chain[-1].end < begin]
    found, text = None, ""
    before = range(max(begin - _BEFORE, 0), begin)
    if earlier:
        first, *more = earlier[-1][-1].lines
        text = in_short(" ".join((first, *more)) if first.endswith(":") else first, 200)
        found = of_exception(earlier[-1], local=local)
        before = range(before.start, earlier[-1][0].begin)
    # In a script the first command that fails explains the others.
    decides = _decisive(cause, unknown=unknown)
    numbers = [*(_of_commands(lines[: before.start]) if decides else ()), *before]
    clues = (*_FETCHING, *SHELL, *LINES, *REMAINS) if decides else (*SHELL, *LINES)
    reasons = (*_UNNOTICED, *decides) if unknown and not points else ()
    by_command = cause.reason in _MAY_FOLLOW
    if (line := _before(lines, numbers, clues, reasons, points=points, local=local)) is not None:
        by_command = by_command or _OF_COMMAND.match(line[2]) is not None
        if cause.advice != MISTAKE or (decides and by_command):
            found, text, points = line[0], line[1], points or _REQUESTING.search(line[2]) is not None
    if found is None and points and ", after " not in cause.text and crashed(lines) is None:
        patterns = (MERELY_A_WARNING, BY_LAUNCHER, _DIED)
        shown = [line for line in map(plain, lines[before.start : begin]) if not any(one.search(line) for one in patterns)]
        if ERROR_LINE.search(text := in_short(last_line(shown), 200)):
            found = Cause(Reason.PROGRAM_FAILED, text, NAMED)
    if found is None and unknown and begin and _LOGGED.search(logged := plain(lines[begin - 1])):
        # What a library logs of an error, before a program raises it.
        text = in_short(logged, 280)
        points = (known := of_line(logged, LINES, local=local)) is not None
        found = known or cause
    if found is None or _DIGITS.sub("", text[-80:]) in _DIGITS.sub("", cause.text):
        return None
    # A script of Python that ran before, without what it imports.
    by_script = earlier and cause.reason == Reason.FILE_NOT_FOUND and found.reason == Reason.MODULE_NOT_FOUND
    if points or by_script or (by_command and found.reason in decides):
        return replace(found, text=f"{in_short(cause.text, 200)}, after: {text}")
    shell = " (set -eo pipefail)" if decides and by_command else ""
    advice = f"check whether what was printed before explains it{shell}; {cause.advice}"
    return replace(
        cause, text=f"{in_short(cause.text, max(MAX_TEXT - len(text) - 20, 200))}; printed before: {text}", advice=advice
    )


def _decisive(cause: Cause, *, unknown: bool) -> Sequence[str]:
    """The reasons for which a command of the script before may have failed that explain this cause."""
    if unknown and _NO_DATA.search(cause.text):
        return (*_DECIDES, Reason.FILE_NOT_FOUND)
    return _DECIDES if cause.reason in _MAY_FOLLOW or (unknown and _PERHAPS_NO_DATA.search(cause.text)) else ()


def _line_of(cause: Cause, lines: Sequence[str], *, local: bool) -> int:
    """The number of the line that reveals this cause; 0 if it is not such a line."""
    if cause.reason not in (Reason.FILE_NOT_FOUND, Reason.MODULE_NOT_FOUND):
        return 0
    numbers = range(len(lines) - 1, max(len(lines) - _BEFORE, 0), -1)
    causes = ((number, of_line(plain(lines[number]), (*LINES, *REMAINS), local=local)) for number in numbers)
    return next((number for number, one in causes if one is not None and one.text == cause.text), 0)


def _of_commands(lines: Sequence[str]) -> list[int]:
    """The numbers of the first lines by which commands say that they have failed."""
    failed = (number for number, line in enumerate(lines) if _OF_COMMAND.match(line) and ERROR_LINE.search(line))
    return [*islice(failed, _MOST_COMMANDS)]


def _before(
    lines: Sequence[str], numbers: Sequence[int], clues: Sequence[Clue], reasons: Sequence[str], *, points: bool, local: bool
) -> tuple[Cause, str, str] | None:
    """The first of these lines that reveals a cause of its own, for one of these reasons if there are any: that, what is quoted
    of it, and the line.
    """
    stacks = {number for one in raised(lines) for number in range(one.begin, one.end + 1)}
    for number in numbers:
        # What a heading says is in the line below it.
        line = joined([plain(lines[number]), *lines[number + 1 : number + 3]])[0]
        ordinary = MERELY_A_WARNING.search(line) and not _REQUESTING.search(line)
        if number in stacks or ordinary or (not points and _OF_TENSORFLOW.match(line)):
            continue
        its = of_line(line, clues, local=local)
        if its is not None and not its.symptom and (not reasons or its.reason in reasons):
            # conda: of the problems below a heading the one that is known decides.
            heading = plain(lines[number]).rstrip()
            listed = takewhile(_PROBLEM.match, lines[number + 1 : number + 8]) if heading.endswith(":") else ()
            known = next((problem for problem in listed if of_line(problem, LINES, local=local) is not None), None)
            line = f"{heading} {known.strip()}" if known is not None else line
            return its, in_short(line.rpartition("(Caused by ")[2], 240), line
    return None


_DETAILS: tuple[_Detail, ...] = (
    _interface, _unresolved, _aborted_rank, _no_network, _of_ssh, _rank, _first_rank, _no_device, _settings, _of_ascend,
    _earlier, _crash, _file, _asserted, _process,
)  # fmt: skip
