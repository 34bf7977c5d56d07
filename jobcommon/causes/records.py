"""The messages and exceptions in lines of JSON, as loggers print them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from jobcommon.causes.tracebacks import CAUSED, HEADER, MEANWHILE

#: The beginning of a message that is no error, whatever its words are.
INFORMATION = "INFO: "
_HEADER = "Traceback (most recent call last):"
# The names of fields, without underscores and in small letters; those of a part after a dot. The message comes first.
_PART = r"(?:(?:attr|attributes|fields|record)\.)*"
_MESSAGE = re.compile(rf"{_PART}(?:msg|message|m|event|body)$")
_DETAIL = re.compile(rf"{_PART}(?:error|err|exc|excinfo|exception|reason)$")
# An exception without its stack.
_TYPE, _VALUE = (re.compile(rf"{_PART}(?:error|err|exception)\.(?:{names})$") for names in ("type|kind|name", "value|message"))
_STACK = re.compile(rf"{HEADER.pattern}|^\s+at ", re.MULTILINE)
_LEVEL = re.compile(r"(?:\w+\.)?(?:log\.?)?(?:level|levelname|level\.name|severity|severitytext|lvl|s|l)$|status$")
_FATAL = (
    "error", "err", "eror", "critical", "crit", "fatal", "panic", "dpanic", "alert", "emergency", "severe", "e", "f", "50",
    "60",
)  # fmt: skip
_INFORMS = ("info", "information", "debug", "trace", "i", "d", "30", "20", "10")
_SAYS_SO = re.compile(r"error|exception|fatal|fail", re.IGNORECASE)
_DEEPEST = 4
# Of a line that a kubelet has cut, the rest of its traceback.
_CUT = re.compile(r'(?=[^{].*\\n.*\\n)((?:[^"\\]|\\.)+)".*\}$')


def messages_of(line: str) -> Iterator[str]:
    """The message of a line of JSON, and the lines of its exception; the line itself, if it is no error."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    fields = [*_fields(found)] if isinstance(found, dict) else []
    levels = sorted((one for one in fields if _LEVEL.match(one[0])), key=lambda one: (one[0] == "status", one[0].count(".")))
    level = str(levels[0][1]).lower() if levels else ""
    texts = [(name, value) for name, value in fields if isinstance(value, str) and value.strip()]
    stacks = [text for _, text in texts if "\n" in text.strip() and _STACK.search(text)]
    kinds = (_MESSAGE, _DETAIL) if stacks else (_MESSAGE, _DETAIL, _TYPE, _VALUE)
    words = dict.fromkeys(text for kind in kinds for name, text in texts if kind.match(name))
    said = ": ".join(text for text in words if "\n" not in text)
    if not stacks and level not in _FATAL:
        yield INFORMATION + said if said and level in _INFORMS else line
        return
    yield said if not said or _SAYS_SO.search(said) else f"ERROR: {said}"
    for text in (*(text for text in words if "\n" in text and text not in stacks), *stacks):
        # A message ends with its line of JSON.
        yield from (*text.splitlines(), "")
    if not words and not stacks:
        yield line


def of_cut_record(line: str) -> list[str]:
    """The rest of the traceback in a line of JSON whose beginning is missing; the line itself, if it is no such line."""
    cut = _CUT.match(line)
    try:
        return [_HEADER, *json.loads(f'"{cut[1]}"').splitlines(), ""] if cut else [line]
    except ValueError:
        return [line]


def _fields(value: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    """The names and values of all fields, of objects below `_DEEPEST` those of their parts."""
    if isinstance(value, dict) and depth < _DEEPEST:
        for key, part in value.items():
            yield from _fields(part, f"{name}.{str(key).lower().lstrip('@').replace('_', '')}".lstrip("."), depth + 1)
    elif isinstance(value, list):
        raised = [one for one in value if isinstance(one, dict) and "exc_type" in one]
        yield name, "\n".join(_listed(raised) if raised else map(str, value))
    else:
        yield name, value


def _listed(raised: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """The tracebacks of the exceptions that structlog lists, the last one first."""
    link = ""
    for one in reversed(raised):
        frames = one.get("frames")
        yield from (link, _HEADER)
        for frame in frames if isinstance(frames, list) else ():
            if isinstance(frame, dict):
                yield f'  File "{frame.get("filename")}", line {frame.get("lineno")}, in {frame.get("name")}'
        yield f"{one.get('exc_type')}: {one.get('exc_value')}"
        link = CAUSED if one.get("is_cause") else MEANWHILE
