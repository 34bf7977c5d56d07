"""The errors that end programs in other languages than Python, read from their last lines.

Each language prints its error first and stacks after it, often hundreds of lines; what the error is made of differs.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Error:
    """An error's message, in one line or several; `caused` by the next one if the language prints causes after what they cause.

    `begin` and `end` are the numbers of the first and the last line of the message; `where` is the line of the program.
    """

    lines: tuple[str, ...]
    begin: int
    end: int
    caused: bool = False
    where: str = ""


@dataclass(frozen=True, slots=True)
class _Language:
    """`begins` matches the first line of an error, of which the group counts, and `over` the line after its message.

    An error counts if one of the `within` lines after it matches `proof`: other programs print such words, too. `near` matches
    the line around it that says why, and `frame` the file and the line of a frame.
    """

    begins: re.Pattern[str]
    proof: re.Pattern[str]
    within: int
    over: re.Pattern[str]
    cause: re.Pattern[str] | None = None
    near: re.Pattern[str] | None = None
    frame: re.Pattern[str] | None = None


_LANGUAGES = (
    # Go: panics, and what its runtime finds
    _Language(
        re.compile(r"^((?:panic|fatal error): .+)"),
        re.compile(r"^goroutine \d+ "),
        12,
        re.compile(r"^(?:goroutine |\[|$|\s)"),
        frame=re.compile(r"^\t(?!.*(?:/pkg/mod/|/go/src/|/vendor/))(?:\S*/)?([^/\s]+\.go):(\d+)"),
    ),
    # Rust
    _Language(
        re.compile(r"^thread '[^']*' (?:\(\d+\) )?(panicked at .+)"),
        re.compile(r"^note: run with `RUST_BACKTRACE|^stack backtrace:"),
        12,
        re.compile(r"^(?:note: |stack backtrace:|$)"),
    ),
    # R
    _Language(
        re.compile(r"^(Error(?: in .+? ?:|:).*)"),
        re.compile(r"^Execution halted"),
        60,
        re.compile(r"^(?:Calls: |In addition|Execution halted|Warning messages?:|Backtrace:|\s*\d+\. )"),
        near=re.compile(r"^(?:Warning in .+? :|In .+? :)?\s*((?:cannot|unable to) open (?:compressed )?(?:file|URL) .+)"),
    ),
    # Julia
    _Language(
        re.compile(r"^ERROR: (?:LoadError: )?(.+)"),
        re.compile(r"^\s*Stacktrace:"),
        40,
        re.compile(r"^\s*(?:Stacktrace:|\[\d+\]|$)"),
        re.compile(r"^\s*(?:nested task error: |caused by: )(.+)"),
    ),
    # programs in Rust that print a chain of errors, as cargo and uv do
    _Language(
        re.compile(r"^(?:(?:error|Error|ERROR)(?:: | ~ )|(?=Error executing process ))(.+)"),
        re.compile(r"^\s*Caused by:"),
        4,
        re.compile(r"^"),
        re.compile(r"^\s*(?:Caused by: ?|\d+: )(.*)"),
    ),
    # .NET
    _Language(
        re.compile(r"^(?:Unhandled exception\. |Process terminated\. )(.+)"),
        re.compile(r"^   at "),
        6,
        re.compile(r"^(?:   at |$)"),
        re.compile(r"^ ---> (.+)"),
    ),
    # JavaScript
    _Language(
        re.compile(r"^(?:Uncaught )?((?:[A-Z]\w*)?Error(?: \[\w+\])?: .+)"), re.compile(r"^    at .*:\d+:\d+\)?$"), 12,
        re.compile(r"^(?:    at |$)"),
    ),
    # Java, Scala, Kotlin
    _Language(
        re.compile(r'^(?:Exception in thread "[^"]*" )?((?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error)\b.*)'),
        re.compile(r"^\s+at [\w.$]+[(/]"),
        12,
        re.compile(r"^\s+(?:at |\.\.\. )|^$"),
        re.compile(r"^\s*Caused by: (.+)"),
    ),
)  # fmt: skip
_MOST_LINES = 6
# So many lines of a stack may stand between an error and its cause.
_MOST_BETWEEN = 200
# R's warning stands so near to its error, and Go's frames in so many lines after a panic.
_NEAR, _MOST_FRAMES = 6, 40
_VAGUE = re.compile(r"cannot open the connection.*")


def errors(lines: Sequence[str]) -> Iterator[Error]:
    """The errors in the order of their first lines."""
    for language in _LANGUAGES:
        open_until = -1
        for at, line in enumerate(lines):
            begin = language.begins.match(line)
            cause = language.cause.match(line) if language.cause is not None and at <= open_until else None
            found = begin or cause
            if found is None:
                continue
            if cause is None and not any(language.proof.match(after) for after in lines[at + 1 : at + 1 + language.within]):
                continue
            message = [found[1].strip() or "".join(lines[at + 1 : at + 2]).strip()]
            for after in lines[at + 1 : at + _MOST_LINES]:
                if language.over.match(after) or (language.cause is not None and language.cause.match(after)):
                    break
                message.append(after.strip())
            open_until = at + _MOST_BETWEEN
            end = at + len(message) - 1
            if language.near is not None and (vague := _VAGUE.search(message[-1])) is not None:
                around = map(language.near.match, lines[max(at - _NEAR, 0) : at + _NEAR])
                said = next(filter(None, around), None)
                message[-1] = message[-1][: vague.start()] + (said[1] if said is not None else vague[0])
            frames = map(language.frame.match, lines[end + 1 : end + _MOST_FRAMES]) if language.frame is not None else ()
            where = next((f"{frame[1]}, line {frame[2]}" for frame in frames if frame is not None), "")
            yield Error(tuple(message), at, end, caused=cause is not None, where=where)
