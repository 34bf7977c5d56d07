"""The lines that a program printed, one message to a line: without what launchers, loggers and tools put around them."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from jobcommon.causes.tracebacks import CAUSED, HEADER, MEANWHILE, MOST_LINES, PROCESS, plain

# mpirun tags each write, of which a line may be made of several, perhaps of several ranks.
_TAG = re.compile(r"(\[\d+,\d+\]<std(?:out|err)>:)")
# srun --label
_LABEL, _OF_SRUN = re.compile(r"^ *(\d+):(?: |$)"), re.compile(r"^ *\d+: Traceback \(most|^srun: error: ")
# What a logger puts before each line, so also before those of a traceback: a time, a level, a name.
_LOGGER = re.compile(r"^(?=.*\d|.*\b(?:ERROR|CRITICAL|FATAL)\b).{4,120}[\s:|\]>-]$")
_NUMBER = re.compile(r"\d+")
# The fields of a line of JSON that have its message and its exception.
_FIELDS = (
    "msg", "message", "event", "error", "error.message", "exc", "exc_info", "exception", "traceback", "stack_trace",
    "stacktrace",
    "error.stack_trace", "stack", "reason",
)  # fmt: skip
# Parts of it that have such fields: of MongoDB, of Rust's tracing, of loguru, and of pino, whose levels are numbers.
_PARTS = ("attr", "fields", "record", "err")
_FATAL = ("error", "critical", "fatal", "e", "f", "50", "60")
_SAYS_SO = re.compile(r"error|exception|fatal|fail", re.IGNORECASE)
_CALM = ("info", "debug", "trace", "i", "d", "30", "20", "10")
_LEVELS = ("level", "levelname", "log.level", "severity", "s")
# Of a line of JSON that a kubelet has cut, the rest of its traceback.
_CUT = re.compile(r'(?=[^{].*\\n.*\\n)((?:[^"\\]|\\.)+)".*\}$')
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
        for part in (_fields(line) if line.startswith("{") else (line,))
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


def _fields(line: str) -> Iterator[str]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    found = found if isinstance(found, dict) else {}
    parts = [found, *(more for name in _PARTS if isinstance(more := found.get(name), dict))]
    levels = (level for part in parts for name in _LEVELS if (level := part.get(name)))
    level = next(levels, "")
    level = str(level.get("name", "") if isinstance(level, dict) else level).lower()
    texts = [text for part in parts for field in _FIELDS if isinstance(text := part.get(field), str)]
    texts += ["\n".join(_stack(stack)) for part in parts if isinstance(stack := part.get("exception"), list)]
    # loguru: the whole record, as text
    texts += [text for text in (found.get("text"),) if isinstance(text, str) and HEADER.search(text)]
    said = ": ".join(text for text in texts if "\n" not in text)
    if "Traceback" not in line and level not in _FATAL:
        yield f"INFO: {said}" if said and level in _CALM else line
        return
    yield said if not said or _SAYS_SO.search(said) else f"ERROR: {said}"
    for text in texts:
        # A message ends with its line of JSON.
        yield from (*text.splitlines(), "") if "\n" in text else ()
    if not texts:
        yield line


def _stack(raised: Sequence[object]) -> Iterator[str]:
    """The tracebacks of the exceptions that structlog lists, the last one first."""
    link = ""
    for one in reversed([one for one in raised if isinstance(one, dict)]):
        frames = [frame for frame in one.get("frames") or () if isinstance(frame, dict)]
        yield from (link, "Traceback (most recent call last):")
        yield from (f'  File "{frame.get("filename")}", line {frame.get("lineno")}, in {frame.get("name")}' for frame in frames)
        yield f"{one.get('exc_type')}: {one.get('exc_value')}"
        link = CAUSED if one.get("is_cause") else MEANWHILE


def of_cut_record(line: str) -> list[str]:
    """The rest of the traceback in a line of JSON whose beginning is missing; the line itself, if it is no such line."""
    cut = _CUT.match(line)
    try:
        return ["Traceback (most recent call last):", *json.loads(f'"{cut[1]}"').splitlines(), ""] if cut else [line]
    except ValueError:
        return [line]
