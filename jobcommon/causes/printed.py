"""The lines that a program printed, as messages: without colours, the tags of launchers, and what loggers put around them.

All of it is linear in the text, of which the last lines are read and of each line a bounded part: users write it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

HEADER = "Traceback (most recent call last)"
_MOST_LINES, _LONGEST, _MOST_OF_JSON = 400, 500, 65_536
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
# What torchrun, mpirun, horovodrun, pdsh and Ray put before the lines of a process; the numbers, or the name, are the process.
_PROCESS = re.compile(
    r"(?:(?:\w{3} \w{3} +\d+ [\d:]+ \d{4})?\[(?:rank|default)?(?:\d+,)?(?P<rank>\d+)\](?:<\w+>)?:?\s?|"
    r"(?P<host>[a-z][\w.-]*): \[rank(?P<on>\d+)\]:\s?|\((?P<actor>\w+)(?: \w+=\S+)* pid=\d+[^)]*\)\s?)"
)
_GROUP = re.compile(r"(?: +\| ?| +\+[-+ ]+(?=Exception Group|-|$))")
_TAG = re.compile(r"(\[\d+,\d+\]<std(?:out|err)>:)")
_FRAMES = ("╭", "│", "╰", "+- ", "| ")
_RULE = 20 * "-"
_LOGGER = re.compile(r"(?=.*\d|.*\b(?:ERROR|CRITICAL|FATAL)\b).{4,120}[\s:|\]>-]$")
_DIGITS = re.compile(r"\d")
# The stack of a crash in native code: of c10, glibc, glog, dmlc, Java, Go and Open MPI, and what is around it.
_STACK = re.compile(
    r"\s*(?:frame #\d+: |#\d+ +0x|@ +0x|\d+ +0x[0-9a-f]+ |\d+: 0x|\[bt\] |at [\w.$<>]+[(/ ]|\.\.\. \d+ more|goroutine \d+ |"
    r"<omitting python frames>|Extension modules: |Stack ?trace:|(?:Calls|Call sequence): |Call Stack |\t?/\S+\.go:\d+ |"
    r"\[[^]]*:\d+\] (?:\[ ?\d+\] |\*\*\* (?:Process received|End of)|Signal|Failing at)|\*\*\* |"
    r"(?:Exception raised from|C\+\+ Traceback).*\(most recent call (?:first|last)\):)|.*[\[(]0x[0-9a-f]+(?: in \S+)?[\])]$"
)
# Hints that read like errors: of hydra, of env, of torchrun, and of torch, which adds them to each error of CUDA.
_HINT = re.compile(
    r"HYDRA_FULL_ERROR|use -\[v\]S to pass options|CUDA kernel errors might be asynchronously|CUDA_LAUNCH_BLOCKING=1$|"
    r"Compile with `TORCH_USE_CUDA_DSA`|^\s*error_file: |Search for `cudaError|^Exception ignored in: "
)
_LEVELS = ("error", "err", "critical", "fatal", "panic", "alert", "severe", "50", "60")
_WORDS = (
    "message",
    "msg",
    "event",
    "text",
    "error",
    "err",
    "exc_info",
    "exc",
    "exception",
    "stack",
    "stack_trace",
    "traceback",
)


class Line(NamedTuple):
    """A line's text, and the process that printed it, "" if no launcher has tagged it."""

    text: str
    process: str = ""
    host: str = ""


def messages(lines: Iterable[str]) -> list[Line]:
    """The last lines as messages."""
    last = [*lines][-_MOST_LINES:]
    untagged = (part for one in last for part in _tagged(_COLOUR.sub("", one.rstrip())))
    found = [of_process(line) for one in untagged for line in _of_record(one)]
    return [*_of_boxes(_without_logger(found))]


def of_process(line: str) -> Line:
    """The line without the tag of its process."""
    tag = _PROCESS.match(line)
    if tag is not None:
        rank = tag["rank"] or tag["on"] or tag["actor"] or ""
        return Line(_cut(line[tag.end() :]), rank, tag["host"] or "")
    group = _GROUP.match(line)
    return Line(_framed(_cut(line[group.end() :] if group is not None else line)))


def plain(line: str) -> str:
    """The text of the line without the tag of its process."""
    return of_process(line).text


def is_stack(line: str) -> bool:
    """Whether it is a line of the stack of a crash."""
    return _STACK.match(line[:_LONGEST]) is not None


def telling(lines: Sequence[str]) -> list[str]:
    """Those that a person or a program has worded: without the stack of a crash and hints, if there are any."""
    worded = [line for line in lines if line.strip()]
    return [line for line in worded if not (is_stack(plain(line)) or is_hint(line))] or worded


def is_hint(line: str) -> bool:
    """Whether a library adds it to each error of a kind, whatever the cause is."""
    return _HINT.search(line[:_LONGEST]) is not None


def _tagged(line: str) -> Iterator[str]:
    """The lines of which one is made: mpirun tags each write, and a line may have several, perhaps of several ranks."""
    if line.count("]<std") < 2:
        yield line
        return
    before, *tagged = _TAG.split(line)
    last, text = "", before
    for tag, part in zip(tagged[::2], tagged[1::2], strict=True):
        if tag != last and text:
            yield text
        text, last = (text if tag == last else tag) + part, tag
    yield text


def _framed(text: str) -> str:
    """The line without the frame that rich draws around a message; its title ends with a colon."""
    if not text.startswith(_FRAMES):
        return text
    inner = text.strip("╭╮╰╯─│+-| ")
    return f"{inner}:" if text.startswith(("╭", "+-")) and inner and HEADER not in inner else inner


def _cut(line: str) -> str:
    """The line, or its beginning and its end."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 150]} … {line[-147:]}"


def _of_record(line: str) -> Iterator[str]:
    """The lines of the message and the exception of a line of JSON that is an error; any other as it is."""
    record = None
    if line.startswith("{") and line.endswith("}") and len(line) < _MOST_OF_JSON:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
    if not isinstance(record, dict):
        yield line
        return
    fields = dict(_fields(record))
    said = list(dict.fromkeys(str(fields[name]) for name in _WORDS if isinstance(fields.get(name), str) and fields[name]))
    level = str(next((fields[name] for name in ("level", "severity", "levelname", "lvl") if name in fields), "")).lower()
    stacks = [one for one in said if HEADER in one]
    if level not in _LEVELS and not stacks:
        yield line
        return
    head = ": ".join(one for one in said if "\n" not in one.strip())
    yield from ([f"ERROR: {head}"] if head else [])
    for one in stacks or said:
        if "\n" in one.strip():
            yield from (*one.splitlines(), "")


def _fields(record: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The fields, and those of the objects in them, of which the outer ones count."""
    below = [part for part in record.values() if isinstance(part, dict)]
    for part in below:
        yield from ((str(key).lower(), value) for key, value in part.items() if not isinstance(value, dict))
    yield from ((str(key).lower(), value) for key, value in record.items() if not isinstance(value, dict))


def _without_logger(lines: Sequence[Line]) -> Iterator[Line]:
    """The lines without what a logger puts before each line of a traceback: a time, a level, a name."""
    before = {_DIGITS.sub("0", line.text.partition(HEADER)[0]) for line in lines if HEADER in line.text}
    known = {prefix for prefix in before if _LOGGER.match(prefix)}
    for line in lines:
        length = next((len(one) for one in known if _DIGITS.sub("0", line.text[: len(one)]) == one), 0)
        yield line._replace(text=line.text[length:])


def _of_boxes(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines, those between two rules, as Open MPI prints its messages, in one."""
    box: list[str] | None = None
    for line in lines:
        if line.text.startswith(_RULE) and not line.text.strip("- "):
            if box:
                yield line._replace(text=" ".join(box))
            box = None if box else []
        elif box is None or len(box) > 12 or HEADER in line.text:
            yield from (line._replace(text=one) for one in box or ())
            box = None
            yield line
        elif line.text.strip():
            box.append(line.text.strip())
    yield from map(Line, box or ())
