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
    """The text, or its beginning and an ellipsis. Each number counts as one character, so that the cut stays in its place."""
    kept, left = "", most
    for position, part in enumerate(NUMBER.split(text)):
        if left <= 0:
            return f"{kept}…"
        is_number = position % 2
        kept += part if is_number else part[:left]
        left -= 1 if is_number else len(part)
    return f"{kept}…" if left < 0 else kept


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
