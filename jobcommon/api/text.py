"""Text of others: cut to a length, compared without numbers, shown on a terminal; and where an exception was raised."""

import re
import textwrap

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
# A time, or a number; not the digits of a name or a version, and not an exit code, which tell causes apart.
ANY_NUMBER = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]{8,20}Z|\d{1,20}")
NUMBER = re.compile(rf"(?<![\w.-])(?<!\bcode )({ANY_NUMBER.pattern})(?![\w-]|\.\w)")


def kind_of(text: str) -> str:
    """The text without its numbers and times: equal for texts about one cause."""
    return NUMBER.sub("#", text)


def cut(text: str, most: int) -> str:
    """The text, or its beginning and its end: of nested errors the last one decides.

    Each number counts as one character, so that the cut stays in its place.
    """
    parts = enumerate(NUMBER.split(text))
    units = [unit for position, part in parts for unit in ((part,) if position % 2 else part)]
    end = most // 3
    return text if len(units) <= most else "".join([*units[: most - end], " … ", *units[-end:]])


def shortened(text: str, limit: int) -> str:
    """As many whole sentences of the text as fit into `limit` characters; at least the first, cut at a word if need be."""
    words = " ".join(text.split())
    if limit <= 0 or not words:
        return ""
    sentences = _SENTENCE.split(words)
    result = sentences[0]
    for sentence in sentences[1:]:
        if len(result) + 1 + len(sentence) > limit:
            break
        result = f"{result} {sentence}"
    return result if len(result) <= limit else textwrap.shorten(result, limit, placeholder="…")


#: What steers a terminal or a line of text: control characters, and those that change its direction or break it.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
# A colour or a move of the cursor (CSI), and a title or a link (OSC), as a whole.
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)")
_BREAKS = dict.fromkeys("\n\v\f\x85\u2028\u2029", " ") | {"\t": "\t"}


def clean(text: str) -> str:
    """The text as a part of one line: without what steers a terminal; a line break becomes a blank."""
    plain = _SEQUENCE.sub("", text.rstrip("\r\n"))
    return CONTROL.sub(lambda match: _BREAKS.get(match.group(), ""), plain)


def said(error: BaseException) -> str:
    """``KeyError: 'size' (in env, framework.py line 12)``: type, text, and the innermost function.

    Where a value of `jobcommon.framework` refused its arguments, that is the function which made the value.
    """
    frame, trace = None, error.__traceback__
    while trace is not None:
        frame = trace if trace.tb_frame.f_globals.get("__name__") != "jobcommon.framework" else frame
        trace = trace.tb_next
    text = f"{type(error).__name__}: {error}"
    if frame is None:
        return text
    code = frame.tb_frame.f_code
    return f"{text} (in {code.co_name}, {code.co_filename.rpartition('/')[2]} line {frame.tb_lineno})"
