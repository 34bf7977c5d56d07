"""The lines of a program's output that read like an error, and which of them says most."""

import re
from collections.abc import Iterable, Sequence

from jobcommon.causes.cause import Cause, Clue, revealed
from jobcommon.causes.programs import MERELY_A_WARNING
from jobcommon.causes.stacks import telling
from jobcommon.causes.tracebacks import plain

#: What ends a program that logs by glog or absl.
LOGGED_FATAL = re.compile(r"^F\d{4} \d\d:")
ERROR_LINE = re.compile(
    r"error|exception|fatal|severe|what\(\):|corrupt|smashing|free\(\)|malloc|fail|cannot|can't|could not|unable|abort|panic|"
    r"invalid|denied|is missing|undefined reference|multiple definition|^[EF]\d{4} \d\d:|"
    r"not found|not a valid|not in \w+ format|unexpected (?:end|EOF)|assert",
    re.IGNORECASE,
)
# The exit code tells it.
OF_SIGNAL = re.compile(r"\s*(?:Aborted|Segmentation fault|Killed|Terminated)(?: \(core dumped\))?\s*$")
#: So does what a shell prints of the program that it has started.
OF_SHELL = re.compile(
    r".*: line \d+: +\d+ (?:Aborted|Segmentation fault|Bus error|Illegal instruction|Floating point exception)\b"
)
# Nor is it a line of the program's source, the end of an R or Perl script, or a stack of C.
_NO_MESSAGE = re.compile(
    rf"{OF_SIGNAL.pattern}|\s*raise\b|Execution halted$|BEGIN failed--|exit status \d+$|\S* ?\*\*\* End of error message|"
    r"\[[\w.-]+:\d+\] (?:\[ ?\d+\] |Signal|Failing at|\*\*\*)|\s*#\d+ |\s*\d+: 0x|"
    r"==\d+==ABORTING|Allocations: \d|\((?:ERR|OK)\):|(?:major|minor): |\*{3} Check failure stack trace|"
    r"\*\*\* SIG\w+ |\*\*\* Aborted at \d+ \(unix time\)|\[\S+\] Set MCA parameter|\s*\"?\w+\"?: ?[\[{]$|"
    r"The above exception was|During handling of the above|\S+: note: |"
    r"If there are any errors|"
    r"wandb: (?!ERROR)|<?https?://\S+$|[\w./-]+\.p\w+:\d+: \w+$"
)
_MARKED = re.compile(
    r"(?:[\w./-]+: )?\[?(?:ERROR|FATAL|CRITICAL|[Ee]rror:|CMake Error\b|[Ff]atal:|fatal error:|forrtl: |F\d{4} )"
)
_DETAIL = re.compile(r"\s+status code: \d|(?:\S+ \S+ \S+ (?:\S+ )?)?DETAIL: ")
_WORD = re.compile(r"\w")
# In a pipeline or a script, of the command before it.
_FOLLOWS = re.compile(
    r"^tar: (?:Child returned status|Error is not recoverable|Exiting with failure)|\bunexpected end of file$|"
    r"not in gzip format$|does not look like a tar archive|write error: Broken pipe|Pipeline completed with errors|"
    r"failed \d+ times; aborting job$|^\.\. \S+ pid \d+: Test failure|not deleting files as there were|"
    r"^CommandException: \d+ files?/objects? could not|[Ll]ook above for|smudge filter \w+ failed|"
    r"external filter|(?:[Rr]efer to|"
    r"[Ss]ee) (?:the )?logs? for|^make(?:\[\d+\])?: \*\*\*|^terminate called |-- Configuring incomplete|"
    # pip, of a build
    r"^error: (?:metadata-generation-failed|subprocess-exited-with-error|legacy-install-failure)$|^× |^note: This "
)
# Of launchers, about the processes that they have started.
BY_LAUNCHER = re.compile(
    r"^\[(?:mpiexec|proxy)[:@]|^=|\bHYD[A-Z]*_|(?:mpirun|prterun|orterun) (?:noticed|detected|has exited)|MPI_ABORT|"
    r"^Primary job|"
    r"exited with non-zero|Per user-direction|Process \d+ exit|: line \d+: +\d+ Aborted|Terminating remaining|^(?:srun|"
    r"slurmstepd): |^Abort\(\d+\)|^\s*raise\b"
)
#: Of a compiler or linker, whose first error leads to its others, and to those of the build.
COMPILED = re.compile(
    r"[^\s:()]+(?::\d+:\d+:|\(\d+\):) (?:fatal )?error: |error\[E\d+\]: |\S+ (?:undefined reference to|multiple definition of) "
)
# The last errors of a program that has failed, each of which follows from the one before.
_GIVES_UP = re.compile(
    r"^(?:\S+ ){,3}(?:exiting|aborting|shutting down|terminating|quitting|giving up|stopping)\b(?!:)|"
    r"\b(?:failed|unable|could not|cannot) (?:to )?(?:load|start|initiali[sz]e|create|run|launch) [^:]*$",
    re.IGNORECASE,
)
# Of the last lines as many are searched for one that reads like an error.
_TAIL = 15


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


def last_line(lines: Sequence[str]) -> str:
    """Of the last lines the last that a program marks as its error, else the last that reads like one, else the very last."""
    tail = [line.strip() for line in map(plain, telling(lines)) if _WORD.search(line) and not _NO_MESSAGE.match(plain(line))][
        -_TAIL:
    ]
    errors = [line for line in tail if ERROR_LINE.search(line)]
    own = [line for line in errors if not (_FOLLOWS.search(line) or BY_LAUNCHER.search(line))]
    if errors and not own:
        # Of what a launcher says of its own failure, the first line decides.
        return next((line for line in errors if BY_LAUNCHER.search(line)), errors[0])
    own = [line for line in own if not MERELY_A_WARNING.search(line)] or own
    if compiled := next(filter(COMPILED.match, own), None):
        return compiled
    marked = [line for line in own if _MARKED.match(line)] or own
    if not marked:
        return tail[-1] if tail else ""
    # What a program gives up is explained just before.
    at = len(tail) - 1 - tail[::-1].index(marked[-1])
    while _GIVES_UP.search(tail[at]) and (before := [line for line in tail[max(at - 2, 0) : at] if line in own]):
        at = tail.index(before[-1])
    return tail[at]
