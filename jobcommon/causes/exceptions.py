"""What exceptions reveal, and how they are quoted."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from jobcommon.causes.cause import MAX_TEXT, Cause, in_short, revealed
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.error_lines import BY_LAUNCHER, COMPILED, joined
from jobcommon.causes.programs import EXCEPTIONS, LINES
from jobcommon.causes.tracebacks import OF_HUB, Raised

#: The advice for an error of which no more is known than its message.
NAMED = "correct what the message names: the program, its data or its settings"
MISTAKE = "correct the program; its last lines show where"
# Exceptions that a mistake in the program raises; others may be raised for its data, its settings or another machine.
_OF_PROGRAM = re.compile(
    r"(?:^|\.)(?:AttributeError|NameError|NotImplementedError|RecursionError|TypeError|UnboundLocalError|ZeroDivisionError)$"
)
_RULED = re.compile(r"[-=]{8}")
_MARK = re.compile(r'in "[^"]+", line \d+')
# Of pydantic: each field, in a line of its own, and what is wrong with it follow.
_FIELDS = re.compile(r"\d+ validation errors? for \S+$")
_OF_FIELD = re.compile(r"\s*[\[(]type=[\w.]+(?:; .*|, (input_value=(?!\{|\w+\().*), input_type=.*|, input_value=.*)?[\])]$")
# Of torch.load, the line that names the class.
_OF_WEIGHTS = "WeightsUnpickler error:"
_OF_STATE = "RuntimeError: Error(s) in loading state_dict for "
# Of XGBoost: what failed, and in the next lines why.
_LINK = re.compile(r"- \[[\w.]+:\d+\|[\d:]+\]: (.+)")
# What torch raises when it closes a file that it could not write.
_ON_CLOSING = re.compile(r"\. unexpected pos \d")
# A message of several lines is quoted whole up to this length.
_SHORT, _EMPTY = 240, 14


def chains_of(found: Sequence[Raised]) -> list[list[Raised]]:
    """Exceptions that follow from each other, together, in the order of their last ones."""
    chains: list[list[Raised]] = []
    for one in found:
        before = next((chain for chain in reversed(chains) if chain[-1].process == one.process), None)
        if one.chained and before is not None:
            before.append(one)
        else:
            chains.append([one])
    return sorted(chains, key=lambda chain: chain[-1].end)


def of_exception(chain: Sequence[Raised], *, local: bool) -> Cause:
    """The cause of a chain: of what an exception was raised from, or a variable that is not set, else of the last one known."""
    last = chain[-1]
    known: list[tuple[tuple[bool, bool, int], Cause]] = []
    for at, one in enumerate(chain):
        clues = (*LINES, *EXCEPTIONS)
        if (cause := revealed(one.innermost, clues, local=local) or revealed(one.text, clues, local=local)) is not None:
            quoted = cause.text in (in_short(one.text), in_short(one.innermost))
            text = _quoted(one, cause.reason) if quoted else cause.text
            before = "" if one is last or in_short(last.lines[0]) in text else f"{in_short(last.lines[0], 200)}, after "
            first = cause.reason == Reason.ENVIRONMENT_MISSING or (one is not last and chain[at + 1].direct)
            # What it was raised from, if that tells nothing by itself.
            after = _after(chain) if one is last and (last.direct or _ON_CLOSING.search(one.lines[0])) else ""
            order = (cause.symptom, not first, at if first else -at)
            known.append((order, replace(cause, text=before + text + after)))
    if known:
        return min(known, key=lambda entry: entry[0])[1]
    made = unknown(last)
    return replace(made, text=made.text + after) if (after := _after(chain)) else made


def _after(chain: Sequence[Raised]) -> str:
    """The first exception of a chain, unless the last one tells it already."""
    first, last = chain[0], chain[-1]
    quoted = first is last or in_short(first.lines[0]) in in_short("\n".join(last.lines), 4000)
    return "" if quoted else f", after {_between(chain)}{_quoted(first, Reason.PYTHON_EXCEPTION)}"


def _between(chain: Sequence[Raised]) -> str:
    """What was raised from the first exception of a chain, unless the others tell it: it may say of what that is true."""
    if len(chain) < 3 or not (chain[1].direct and chain[2].direct):
        return ""
    first, said, last = (in_short(one.lines[0]) for one in (*chain[:2], chain[-1]))
    words = said.partition(": ")[2]
    quoted = not words or words in last or first.partition(": ")[2] in said
    return "" if quoted or len(first + said + last) > MAX_TEXT else f"{said}, after "


def _quoted(one: Raised, reason: str) -> str:
    """The first line of the exception, and the one further down that reveals the cause."""
    first = one.lines[0]
    causes = ((line, revealed(line, LINES)) for line in one.lines)
    revealing = one.innermost or next((line for line, cause in causes if cause is not None and cause.reason == reason), first)
    whole = " ".join(one.lines)
    # Or it says nothing in its first line: CastError's columns and the body of an answer of Kubernetes follow.
    empty = (len(first.partition(": ")[2]) <= _EMPTY and not one.type.endswith("KeyError")) or OF_HUB in first
    short = one.python and len(one.lines) > 1 and (empty or (len(one.lines) < 4 and len(whole) <= _SHORT))
    short = short and not BY_LAUNCHER.search(whole)
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
        file, _, number = one.where.partition(", line ")
        at = max((at for at, line in enumerate(one.frames) if f'{file}", line {number},' in line), default=-1)
        sources = [line for line in one.frames[at + 1 : at + 2 if one.where else None] if line.strip("^~ ")]
        sources = [line for line in sources if not line.startswith(("File ", "raise "))]
        first = revealing = f"{first} in: {sources[-1]}" if sources else first
    if _FIELDS.search(one.lines[0]):
        first, revealing = one.lines[0], "; ".join(_fields(one.lines[1:])) or one.lines[0]
    if of_weights := [at for at, line in enumerate(one.lines) if _OF_WEIGHTS in line]:
        first = one.lines[0].partition(". ")[0]
        revealing = _OF_WEIGHTS + joined(one.lines[of_weights[0] :])[0].rpartition(_OF_WEIGHTS)[2]
    if compiled := [line for line in one.lines if COMPILED.match(line)]:
        first, revealing = in_short(one.lines[0], 120), compiled[0]
    if first.startswith(_OF_STATE) and (keys := one.lines[1:]):
        # Which are missing, and which there are instead, perhaps with a prefix.
        first, revealing = one.lines[0], "; ".join(in_short(line, max(380 // len(keys), 140)) for line in keys)
    if links := [link[1].removesuffix(".") for line in one.lines if (link := _LINK.match(line))]:
        first, revealing = one.type, ": ".join(links)
    where = f" ({one.where})" if one.where else ""
    return in_short(first if revealing == first else f"{first.rstrip(':')}: {revealing}") + where


def _fields(lines: Sequence[str]) -> Iterator[str]:
    """Each field that pydantic names, with what is wrong with it."""
    begin = 0
    for at, line in enumerate(lines):
        if line.startswith("For further information"):
            begin = at + 1
        elif (of_field := _OF_FIELD.search(line)) is not None:
            value = f" ({of_field[1]})" if of_field[1] else ""
            yield ": ".join((*lines[begin:at], line[: of_field.start()] + value))
            begin = at + 1


def unknown(one: Raised) -> Cause:
    """The cause of an exception of which no clue knows more."""
    return Cause(
        Reason.PYTHON_EXCEPTION if one.python else Reason.PROGRAM_FAILED,
        _quoted(one, Reason.PYTHON_EXCEPTION),
        MISTAKE if one.python and _OF_PROGRAM.search(one.type) else NAMED,
    )
