"""The cause that a program's last lines reveal: which of its exceptions and lines decides."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from jobcommon.causes.cause import Cause, in_short
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues.advice import ANY_PEERS
from jobcommon.causes.clues.launchers import REMAINS, REPORTS
from jobcommon.causes.details import FIRST_RANK, with_detail
from jobcommon.causes.error_lines import BY_LAUNCHER, ERROR_LINE, OF_SHELL, joined, last_line, of_line
from jobcommon.causes.exceptions import NAMED, chains_of, of_exception, unknown
from jobcommon.causes.programs import EXCEPTIONS, LINES, MERELY_A_WARNING
from jobcommon.causes.stacks import telling
from jobcommon.causes.tracebacks import Raised, begin_of_stack, in_stacks, plain, raised
from jobcommon.causes.unfolding import unfolded

_RAISES = re.compile(r"\s*(?:raise\b|(?:major|minor): )")
# An error far before the end was perhaps overcome; it counts only if these lines tell no cause.
_LATEST = 60
_LAST_WARNINGS = 4


def printed(lines: Sequence[str], *, local: bool = False) -> Cause | None:
    """The cause that a program's last lines reveal, with what was printed before it if that may explain it.

    The very last lines decide, else those before: a program may print more while it ends.
    """
    lines = unfolded(lines)
    cause = _decisive(lines[begin_of_stack(lines, max(len(lines) - _LATEST, 0)) :], local=local)
    if len(lines) > _LATEST and (cause is None or cause.symptom):
        cause = _decisive(lines, local=local)
    return with_detail(cause, lines, local=local) if cause is not None else None


def _decisive(lines: Sequence[str], *, local: bool) -> Cause | None:
    """The last exception that is no consequence of another replica's failure, else the last line that reveals a cause.

    A warning counts only if there is nothing else.
    """
    found = raised(lines)
    chains = chains_of([one for one in found if not one.wraps])
    # Of one process the last decides, of several the first.
    several = len({chain[0].process for chain in chains}) > 1
    ordered = _repeated_first(chains) if several else reversed(chains)
    causes = [of_exception(chain, local=local) for chain in ordered]
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
    return _of_the_rest(lines, found, own, errors, local=local)


def _repeated_first(chains: Sequence[Sequence[Raised]]) -> Sequence[Sequence[Raised]]:
    """The exceptions of several processes, before all those that the program repeats at its end which has started them."""
    last = chains[-1][-1]
    repeated = [chain for chain in chains if chain[-1].lines[0] == last.lines[0]]
    return chains if last.process or len(repeated) < 2 else [*repeated, *chains]


def _of_the_rest(
    lines: Sequence[str], found: Sequence[Raised], own: Sequence[str], errors: Sequence[str], *, local: bool
) -> Cause | None:
    """The cause by what reveals less: commands that failed, killed processes, reports of launchers."""
    said = ""
    if found and found[-1].type.endswith("CalledProcessError"):
        # The lines before it are those of the command.
        said, own = f"{in_short(found[-1].lines[0])}: ", joined(telling(lines[: found[-1].begin]))
        errors = [line for line in own if not MERELY_A_WARNING.search(line)]
    # A program goes on after a warning: it counts only at the very end.
    warnings = takewhile(MERELY_A_WARNING.search, reversed(own[-_LAST_WARNINGS:]))
    for some, clues in ((reversed(errors), REMAINS), (warnings, LINES)):
        for line in some:
            if (cause := of_line(line, clues, local=local)) is not None:
                if cause.reason == Reason.PYTHON_EXCEPTION:
                    cause = of_line(line, EXCEPTIONS, local=local) or cause
                return replace(cause, text=said + cause.text)
    if (report := next(filter(None, (of_line(line, REPORTS, local=local) for line in errors)), None)) is not None:
        before = last_line([line for line in own if not BY_LAUNCHER.search(line)])
        if not ERROR_LINE.search(before):
            return report
        text = "" if OF_SHELL.match(report.text) else f"; {report.text.removesuffix(' ()')}"
        return replace(report, text=in_short(before) + text, advice=NAMED, symptom=False)
    if (rank := FIRST_RANK.search("\n".join(lines))) is not None:
        text = f"rank {rank[1]} failed first, with exit code {rank[2]}; the summary of torchrun says no more"
        advice = "see what this rank printed before; runPolicy.keepFailedLogs keeps it"
        return Cause(Reason.PROGRAM_FAILED, text, advice, symptom=True)
    if said:
        text = said.removesuffix(": ") if not (last := last_line(own)) else said + in_short(last)
        return Cause(Reason.PROGRAM_FAILED, text, "see what this command printed")
    return unknown(found[-1]) if found else None
