"""Reading the user's files, no more of one than is of use (attack case S13)."""

import sys
from pathlib import Path

from cli.errors import UserError

STDIN = "-"


def read_text(name: str, limit: int) -> tuple[str, str]:
    """What the file (``-``: standard input) is called in messages, and its text. Raises `UserError`.

    A text of more than `limit` bytes is an error, and is not read to its end: the file may have none.
    """
    source = "<stdin>" if name == STDIN else name
    try:
        if name == STDIN:
            text = sys.stdin.read(limit + 1)
        else:
            with Path(name).open(encoding="utf-8") as file:
                text = file.read(limit + 1)
    except FileNotFoundError:
        raise UserError(f"{source}: no such file or directory") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{source}: cannot be read: {error}") from None
    if len(text) > limit:
        raise UserError(f"{source}: has more than {limit} bytes; split it into several files")
    return source, text
