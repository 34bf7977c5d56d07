"""The standard streams of the commands."""

import io
import os
import sys
from pathlib import Path
from typing import NoReturn

from rich.console import Console

# A pipe has no width; tables must not be wrapped there.
PIPE_WIDTH = 240


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        """As `print` does it. Rich raises SystemExit, which no task may: asyncio would leave the others where they are."""
        raise BrokenPipeError


def console() -> Console:
    """Standard output; a pipe gets plain lines."""
    return _Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def notes() -> Console:
    """Standard error, for what is not the output itself."""
    return _Console(stderr=True, highlight=False, markup=False, emoji=False)


def prepare_streams() -> None:
    """Open the standard streams that the caller has closed, as in ``>&-``, and set them to UTF-8, as manifests are."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  it stays open as long as the process runs
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="strict" if name == "stdin" else "backslashreplace")
