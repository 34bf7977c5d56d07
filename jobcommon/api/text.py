"""Texts of other programs: cut to a length, and compared without numbers that change although their cause does not.

A quota and a scheduler count the pods of other jobs, too. Their messages must not cause a write each time (rule R19).
"""

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
