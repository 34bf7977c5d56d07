"""Descriptions short enough for a CRD that fits a plain `kubectl apply`."""

import re
import textwrap

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def shortened(text: str, limit: int) -> str:
    """As many whole sentences of the text as fit into `limit` characters; at least the first, cut at a word if need
    be.
    """
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
