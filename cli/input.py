"""Reading the user's files, with limits (attack case S13)."""

import http.client
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import yaml

from jobcommon.cli.errors import UserError
from jobcommon.cli.yaml_document import DocumentError, documents

STDIN = "-"
ADDRESSES = ("https://", "http://")
ANSWER_SECONDS = 30.0


def read_text(name: str, limit: int) -> tuple[str, str]:
    """The name of the file (``-``: standard input; or an address) for messages, and its text. Raises `UserError`.

    A text of more than `limit` bytes is an error, and not read to its end: the file may be endless.
    """
    source = "<stdin>" if name == STDIN else name
    try:
        if is_address(name):
            text = _fetch(name, limit + 1)
        elif name == STDIN:
            text = sys.stdin.read(limit + 1)
        else:
            with Path(name).open(encoding="utf-8") as file:
                text = file.read(limit + 1)
    except FileNotFoundError:
        raise UserError(f"{source}: no such file or directory") from None
    except urllib.error.HTTPError as error:
        raise UserError(f"{source}: the server answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise UserError(f"{source}: cannot be fetched: {error.reason}") from None
    except http.client.HTTPException as error:
        raise UserError(f"{source}: cannot be fetched: {error or type(error).__name__}") from None
    except UnicodeDecodeError:
        raise UserError(f"{source}: is not UTF-8 text; give a YAML or JSON file") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{source}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(text) > limit:
        raise UserError(f"{source}: has more than {limit} bytes; split it into several files")
    return source, text


def is_address(name: str) -> bool:
    """Whether it is a URL, which is fetched, as by kubectl."""
    return name.startswith(ADDRESSES)


def _fetch(address: str, size: int) -> str:
    with urllib.request.urlopen(address, timeout=ANSWER_SECONDS) as answer:  # noqa: S310  of the two schemes above only
        body: bytes = answer.read(size)
    return body.decode("utf-8")


def read_documents(source: str, text: str) -> Iterator[tuple[yaml.Node, object]]:
    """The documents in the text of a file, with their nodes. Raises `UserError`, which names the place."""
    try:
        yield from documents(text)
    except DocumentError as error:
        where = f"{source}:{error.line}:{error.column}" if error.line else source
        raise UserError(f"{where}: {error.path}: {error.message}" if error.path else f"{where}: {error.message}") from None
