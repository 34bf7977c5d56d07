"""The lines that a program printed, one message to a line: without what launchers, loggers and tools put around them."""

import re
from collections.abc import Iterable, Iterator, Sequence

from jobcommon.causes.records import messages_of
from jobcommon.causes.tracebacks import HEADER, MOST_LINES, PROCESS, plain

# mpirun tags each write, of which a line may be made of several, perhaps of several ranks.
_TAG = re.compile(r"(\[\d+,\d+\]<std(?:out|err)>:)")
# srun --label
_LABEL, _OF_SRUN = re.compile(r"^ *(\d+):(?: |$)"), re.compile(r"^ *\d+: Traceback \(most|^srun: error: ")
# What a logger puts before each line, so also before those of a traceback: a time, a level, a name.
_LOGGER = re.compile(r"^(?=.*\d|.*\b(?:ERROR|CRITICAL|FATAL)\b).{4,120}[\s:|\]>-]$")
_NUMBER = re.compile(r"\d+")
_RULE = 74 * "-"
# What begins a message that goes on in the next lines: a frame that rich draws (not around a stack), and CMake's errors.
_MESSAGES = (
    (re.compile(r"[╭+][─-] (?!Traceback)(\w[\w ]*) [─-]+[╮+]$"), re.compile(r"[│|](.*)[│|]$")),
    (re.compile(r"(CMake Error\b.*):$"), re.compile(r"  (\S.*)")),
)
_FRAME_ENDS = re.compile(r"[╰+][─-]+[╯+]$")
_RICH_FROZEN = re.compile(r"in (__getitem__):(\d+)$")
_RICH_FRAME = re.compile(r"(\S+\.\w+):(\d+) in ?(\S*)$")
# What pip puts around the output of a build, and before each line of it.
_BUILD = re.compile(r"\s*(?:╰─> (\[\d+ lines? of output\])|\[end of output\]|│ exit code: \d+)$")
_BUILD_INDENT = 6 * " "


def unfolded(lines: Sequence[str]) -> list[str]:
    """The lines without what a logger puts before each line of a traceback. Of one in JSON, the message and the exception; of a
    message between two rules, as Open MPI prints them, or in a frame, one line.
    """
    shown = [
        part
        for line in _boxed(_framed(_of_builds(_of_rich(_tagged(lines)))))
        for part in (messages_of(line) if line.startswith("{") else (line,))
    ]
    found = (plain(line).partition("Traceback (most recent call last)") for line in shown)
    prefixes = {_NUMBER.sub("0", before): before for before, header, _ in found if header and _LOGGER.match(before)}
    if not prefixes:
        return shown
    written = "|".join(r"\d+".join(map(re.escape, _NUMBER.split(before))) for before in prefixes.values())
    prefix = re.compile(rf"^({PROCESS.pattern[1:]})?(?:{written})")
    return [prefix.sub(r"\1", line, count=1) for line in shown]


def _tagged(lines: Sequence[str]) -> Iterator[str]:
    """The lines, each with the prefix of the process that wrote it at its beginning."""
    by_srun = any(map(_OF_SRUN.match, lines))
    for line in lines:
        if line.count("]<std") > 1:
            before, *tagged = _TAG.split(line)
            last, text = "", before
            for tag, part in zip(tagged[::2], tagged[1::2], strict=True):
                if tag != last and text:
                    yield text
                text, last = (text if tag == last else tag) + part, tag
            yield text
        else:
            yield _LABEL.sub(r"[\1]: ", line) if by_srun else line


def _of_rich(lines: Iterable[str]) -> Iterator[str]:
    """The lines, those of a traceback that rich draws as Python prints them. Its frame may be cut at the beginning."""
    inside, wrapped = True, ""
    for line in lines:
        text = plain(line)
        begins = text.startswith("╭") and HEADER.search(text) is not None
        inside = begins or (inside and text.startswith("│"))
        if begins or not inside:
            yield line
            continue
        prefix, text = line.removesuffix(text), text.strip("│ ")
        if (frame := _RICH_FRAME.match(wrapped + text)) is not None:
            yield f'{prefix}  File "{frame[1]}", line {frame[2]}, in {frame[3]}'
        elif (frozen := _RICH_FROZEN.match(text)) is not None:
            yield f'{prefix}  File "<frozen os>", line {frozen[2]}, in {frozen[1]}'
        elif text.startswith("❱"):
            yield f"{prefix}    {text.lstrip('❱ ').partition(' ')[2].replace('│', '').strip()}"
        wrapped = text if text.startswith("/") and frame is None else ""


def _of_builds(lines: Iterable[str]) -> Iterator[str]:
    """The lines, those of a build without what pip puts around and before them."""
    depth = 0
    for line in lines:
        if (edge := _BUILD.match(line)) is None:
            yield line.removeprefix(depth * _BUILD_INDENT)
        elif "exit code" not in line:
            depth = max(depth + (1 if edge[1] else -1), 0)


def _framed(lines: Iterable[str]) -> Iterator[str]:
    title, inside, parts = "", None, list[str]()
    for line in lines:
        if inside is not None:
            if (part := inside.match(line)) is not None:
                parts.append(part[1].strip())
                continue
            yield f"{title}: {' '.join(parts[:MOST_LINES])}"
            inside = None
            if _FRAME_ENDS.match(line):
                continue
        title, inside, parts = next(
            ((found[1], of, []) for begin, of in _MESSAGES if (found := begin.match(line))), ("", None, [])
        )
        if inside is None:
            yield line
    if inside is not None:
        yield f"{title}: {' '.join(parts[:MOST_LINES])}"


def _boxed(lines: Iterable[str]) -> Iterator[str]:
    lines = [*lines]
    # Of the first box perhaps the beginning is missing.
    inside = sum(plain(line).strip() == _RULE for line in lines) % 2 == 1
    box: list[str] | None = None
    for line in lines:
        if (part := plain(line).strip()) == _RULE:
            if box:
                yield " ".join(box)
            inside = not inside
            box = [] if inside else None
        elif box is None:
            yield line
        elif len(box) == MOST_LINES or HEADER.search(line):
            yield from (*box, line)
            box = None
        elif part:
            box.append(part)
    yield from box or ()
