"""Reading the user's files, with limits (attack case S13)."""

import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from jobcommon.cli.errors import UserError
from jobcommon.cli.yaml_document import MAX_BYTES, DocumentError, documents

STDIN = "-"


def read_text(name: str) -> tuple[str, str]:
    """The name of the file (``-``: standard input) for messages, and its text. Raises `UserError`.

    A text of more than `MAX_BYTES` is an error, and not read to its end: the file may be endless.
    """
    source = "<stdin>" if name == STDIN else name
    try:
        if name == STDIN:
            text = sys.stdin.read(MAX_BYTES + 1)
        else:
            with Path(name).open(encoding="utf-8") as file:
                text = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        hint = f"; pipe an address: curl -fsSL {source} | ..., with - in its place" if "://" in name else ""
        raise UserError(f"{source}: no such file or directory{hint}") from None
    except UnicodeDecodeError:
        raise UserError(f"{source}: is not UTF-8 text; give a YAML or JSON file") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{source}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(text) > MAX_BYTES:
        raise UserError(f"{source}: has more than {MAX_BYTES} bytes; split it into several files")
    return source, text


def read_documents(source: str, text: str) -> Iterator[tuple[yaml.Node, object]]:
    """The documents in the text of a file, with their nodes. Raises `UserError`, which names the place."""
    try:
        yield from documents(text)
    except DocumentError as error:
        where = f"{source}:{error.line}:{error.column}" if error.line else source
        raise UserError(f"{where}: {error.path}: {error.message}" if error.path else f"{where}: {error.message}") from None
