"""Text of others on a terminal (attack case S11): what a program or a user wrote must neither steer it nor forge a line."""

import re

#: What steers a terminal or a line of text: control characters, and those that change its direction or break it.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
# A colour or a move of the cursor (CSI), and a title or a link (OSC), as a whole.
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)")
_BREAKS = dict.fromkeys("\n\v\f\x85\u2028\u2029", " ") | {"\t": "\t"}


def clean(text: str) -> str:
    """The text as a part of one line: without what steers a terminal; a line break becomes a blank."""
    plain = _SEQUENCE.sub("", text.rstrip("\r\n"))
    return CONTROL.sub(lambda match: _BREAKS.get(match.group(), ""), plain)
